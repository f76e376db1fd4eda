//! Directories that are cut into fragments while they are in use.

use loligo_namespace::FragConfig;
use loligo_types::msg::ToClient;
use loligo_types::{Answer, FsError, Ino, Lease, Op, XattrMode};

use super::*;
use crate::Config;

/// Split from the fifth entry of a fragment on, merged below one.
fn small() -> Config {
    Config { frag: FragConfig { split_entries: 4, merge_entries: 1, split_bits: 1 }, ..config() }
}

fn frags(world: &mut World, at: usize, dir: Ino) -> u64 {
    number(world, at, dir, b"loligo.dir.frags").expect("a directory has fragments")
}

fn number(world: &mut World, at: usize, ino: Ino, name: &[u8]) -> Option<u64> {
    match world.call(at, Op::GetXattr { ino, name: name.into() }) {
        Ok(Answer::Bytes(text)) => std::str::from_utf8(&text).ok()?.parse().ok(),
        _ => None,
    }
}

fn expect(world: &mut World, at: usize, dir: Ino, entries: &str) {
    let (name, value) = (loligo_namespace::EXPECTED_ENTRIES.into(), entries.as_bytes().into());
    world.call(at, Op::SetXattr { ino: dir, name, value, mode: XattrMode::Set }).expect("a number");
}

fn file(n: u64) -> String {
    format!("f{n}")
}

fn fill(world: &mut World, at: usize, dir: Ino, numbers: impl Iterator<Item = u64>) {
    for n in numbers {
        world.create(at, dir, &file(n), WRITE, 1);
        world.call(at, close(1)).expect("it is open");
    }
}

/// All names, in pieces of three; `between` runs after each piece.
fn list(world: &mut World, at: usize, dir: Ino, mut between: impl FnMut(&mut World)) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let op = Op::Readdir { dir, cookie, limit: 3, plus: false, handle: None };
        let Ok(Answer::Entries { entries, end, .. }) = world.call(at, op) else { panic!("not readable") };
        names.extend(entries.iter().map(|entry| entry.name.to_string()));
        if end {
            return names;
        }
        cookie = entries.last().expect("not the end").cookie;
        between(world);
    }
}

#[test]
fn a_directory_splits_and_merges_and_is_the_same_after_a_crash() {
    let mut world = World::with(small());
    let at = world.client();
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    let mut seen = Vec::new();
    for n in 0..40 {
        fill(&mut world, at, dir, n..n + 1);
        seen.push(frags(&mut world, at, dir));
    }
    assert_eq!((seen[3], seen[4], seen[8], seen[16], seen[32], seen[39]), (1, 2, 4, 8, 16, 16));
    assert_eq!((world.mds.status().splits, world.mds.status().merges), (4, 0));
    world.crash();
    world.resume(at);
    assert_eq!(frags(&mut world, at, dir), 16);
    assert_eq!(world.mds.status().splits, 0, "those were of another life");
    for n in 0..40 {
        world.call(at, unlink(dir, &file(n))).expect("it is there");
    }
    assert_eq!((frags(&mut world, at, dir), world.mds.status().merges), (1, 4));
}

#[test]
fn a_split_recalls_nothing_that_the_change_itself_does_not() {
    let mut world = World::with(small());
    let (at, other) = (world.client(), world.client());
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    fill(&mut world, at, dir, 0..3);
    // Another one holds the attributes of a file and of the root; they stay with it through all splits.
    world.clients[other].want = Lease::ATTR;
    let held = world.lookup(other, dir, &file(0)).expect("it is there").ino;
    world.call(other, Op::GetAttr { ino: Ino::ROOT }).expect("it is there");
    let before = world.mds.status();
    fill(&mut world, at, dir, 3..100);
    let after = world.mds.status();
    assert_eq!((after.splits, after.recalls), (5, before.recalls), "{:?}", world.clients[other].inbox);
    assert_eq!(after.sessions[other].leases, before.sessions[other].leases);
    let recalled = |msg: &ToClient| matches!(msg, ToClient::Recall { ino, .. } if *ino == held);
    assert!(!world.clients[other].inbox.iter().any(recalled));
}

#[test]
fn a_listing_goes_on_where_it_was_when_the_directory_is_split_and_merged_meanwhile() {
    let mut world = World::with(small());
    let at = world.client();
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    fill(&mut world, at, dir, 0..30);
    let mut cuts = Vec::new();
    let mut entries = ["100000", "1"].into_iter().cycle();
    let mut names = list(&mut world, at, dir, |world| {
        expect(world, at, dir, entries.next().expect("without end"));
        cuts.push(frags(world, at, dir));
    });
    names.sort();
    let mut all: Vec<String> = (0..30).map(file).collect();
    all.sort();
    assert_eq!(names, all, "each once");
    assert!(cuts.len() > 8 && cuts.contains(&32_768) && cuts.contains(&8), "{cuts:?}");
}

#[test]
fn what_is_expected_is_kept_through_a_crash_and_holds_off_merges() {
    let mut world = World::with(small());
    let at = world.client();
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    expect(&mut world, at, dir, "64");
    fill(&mut world, at, dir, 0..8);
    assert_eq!((frags(&mut world, at, dir), world.mds.status().splits), (16, 1));
    world.crash();
    world.resume(at);
    assert_eq!(number(&mut world, at, dir, loligo_namespace::EXPECTED_ENTRIES), Some(64));
    for n in 0..8 {
        world.call(at, unlink(dir, &file(n))).expect("it is there");
    }
    assert_eq!(frags(&mut world, at, dir), 16);
    let gone = Op::RemoveXattr { ino: dir, name: loligo_namespace::EXPECTED_ENTRIES.into() };
    world.call(at, gone.clone()).expect("it is set");
    assert_eq!(frags(&mut world, at, dir), 1);
    assert_eq!(world.call(at, gone), Err(FsError::NoData));
}

#[test]
fn a_pre_split_that_was_not_durable_is_not_there_after_a_crash() {
    let mut world = World::with(small());
    let at = world.client();
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    fill(&mut world, at, dir, 0..4);
    world.syncs = false;
    let seq = world.send(at, create(dir, "fifth", WRITE, 1));
    assert_eq!((world.mds.status().splits, world.reply(at, seq)), (1, None));
    world.syncs = true;
    world.crash();
    world.resume(at);
    assert_eq!(frags(&mut world, at, dir), 1);
    world.send_again(at, seq, create(dir, "fifth", WRITE, 1));
    assert!(world.reply(at, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!((frags(&mut world, at, dir), world.mds.status().splits), (2, 1));
}

#[test]
fn heat_is_counted_for_each_fragment_and_follows_a_split() {
    let mut world = World::with(Config { heat_sample: 1, heat_half_life_ms: 1 << 50, ..small() });
    let at = world.client();
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    let of_dir = |world: &World| -> Vec<(u8, f64)> {
        let hot = world.mds.status().hottest;
        hot.iter().filter(|hot| hot.dir == dir).map(|hot| (hot.frag.bits, hot.load.iwr)).collect()
    };
    fill(&mut world, at, dir, 0..4);
    assert_eq!(of_dir(&world), [(0, 4.0)]);
    fill(&mut world, at, dir, 4..5);
    // Half of four each, and the one that split it.
    assert_eq!(of_dir(&world), [(1, 3.0), (1, 2.0)]);
    for _ in 0..10 {
        world.lookup(at, dir, &file(0)).expect("it is there");
    }
    let hottest = &world.mds.status().hottest[0];
    assert_eq!((hottest.dir, hottest.frag.bits, hottest.load.ird.round()), (dir, 1, 10.0));
    let sum = world.mds.subtree_loads()[&dir];
    assert_eq!((sum.iwr.round(), sum.ird.round()), (5.0, 10.0), "of all fragments together");
}
