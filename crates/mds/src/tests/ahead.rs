//! Which names a directory has is read ahead of time where names are looked for that are not there.

use loligo_namespace::Need;
use loligo_types::{Answer, FsError, Ino, Op, OpenFlags};

use super::*;

const MADE: usize = 40;

/// A server that has begun again over a directory with so many files, and a client.
fn cold(files: usize) -> (World, usize, Ino) {
    let mut world = World::new();
    let at = world.client();
    let dir = world.mkdir(at, Ino::ROOT, "d").ino;
    touch(&mut world, at, dir, "old", files);
    world.wait_alive(15_000);
    world.crash();
    world.resume(at);
    world.read.clear();
    (world, at, dir)
}

fn touch(world: &mut World, at: usize, dir: Ino, text: &str, files: usize) {
    for n in 0..files {
        world.create(at, dir, &format!("{text}{n}"), WRITE, 1);
        world.call(at, close(1)).expect("it is open");
    }
}

/// Number of reads of single names, and of hashes.
fn reads(world: &mut World) -> (usize, usize) {
    let read = std::mem::take(&mut world.read);
    let count = |what: fn(&Need) -> bool| read.iter().filter(|need| what(need)).count();
    (count(|need| matches!(need, Need::Entry { .. })), count(|need| matches!(need, Need::Hashes { .. })))
}

#[test]
fn new_names_in_a_directory_that_is_not_in_memory_soon_cost_no_reads() {
    let (mut world, at, dir) = cold(MADE);
    touch(&mut world, at, dir, "new", MADE);
    let (names, hashes) = reads(&mut world);
    // Two hashes at a time here. Each miss brings one read of them, and all are known when all are read.
    assert!(names > 0 && hashes <= MADE / 2 + 1, "{names} names and {hashes} times hashes");
    assert!(names <= hashes, "{names} names and {hashes} times hashes");
    touch(&mut world, at, dir, "more", MADE);
    let (names, hashes) = reads(&mut world);
    assert!(names < MADE / 4 && hashes <= names, "{names} names and {hashes} times hashes");
    assert_eq!(world.walk(at).len(), 2 + 3 * MADE);
}

#[test]
fn names_of_which_only_the_hash_is_in_memory_are_there() {
    let (mut world, at, dir) = cold(MADE);
    touch(&mut world, at, dir, "new", 2 * MADE);
    world.read.clear();
    for n in 0..MADE {
        assert_eq!(world.call(at, mkdir(dir, &format!("old{n}"))), Err(FsError::Exists), "old{n}");
        assert!(world.lookup(at, dir, &format!("old{n}")).is_ok(), "old{n}");
    }
    let (names, _) = reads(&mut world);
    assert_eq!(names, MADE, "what they are is read once each");
}

#[test]
fn a_name_that_leaves_memory_after_hashes_were_read_is_there() {
    let (mut world, at, dir) = cold(MADE);
    touch(&mut world, at, dir, "new", 2 * MADE);
    world.wait_alive(15_000);
    // In the second step entries go; before, a name is denied: what is known of hashes is of use, and stays.
    for n in 0..2 {
        world.mds.core.tree.evict_some(0, 1, &|_| false);
        assert_eq!(world.lookup(at, dir, &format!("none{n}")).map(|attr| attr.ino), Err(FsError::NotFound));
    }
    assert!(world.mds.status().hash_bytes > 0, "hashes stay");
    world.read.clear();
    for n in 0..2 * MADE {
        assert_eq!(world.call(at, mkdir(dir, &format!("new{n}"))), Err(FsError::Exists), "new{n}");
    }
    let (names, hashes) = reads(&mut world);
    assert!(names > 0 && hashes == 0, "{names} names had left memory, and {hashes} times hashes");
}

#[test]
fn a_name_that_is_gone_and_made_again_is_what_was_made_last() {
    let (mut world, at, dir) = cold(MADE);
    touch(&mut world, at, dir, "new", MADE);
    for round in 0..2 {
        for n in 0..MADE {
            let text = format!("{}{n}", if round == 0 { "old" } else { "new" });
            world.call(at, unlink(dir, &text)).expect("it is there");
            assert_eq!(world.lookup(at, dir, &text).map(|attr| attr.ino), Err(FsError::NotFound), "{text}");
        }
        // Memory may forget what the table knows now.
        world.wait_alive(15_000);
        for n in 0..MADE {
            let text = format!("{}{n}", if round == 0 { "old" } else { "new" });
            assert_eq!(world.lookup(at, dir, &text).map(|attr| attr.ino), Err(FsError::NotFound), "{text}");
            let made = world.create(at, dir, &text, OpenFlags { exec: false, ..WRITE }, 1).ino;
            world.call(at, close(1)).expect("it is open");
            assert_eq!(world.lookup(at, dir, &text).map(|attr| attr.ino), Ok(made), "{text}");
        }
    }
}

#[test]
fn nothing_is_read_ahead_into_a_memory_that_is_nearly_full() {
    let (mut world, at, dir) = cold(MADE);
    world.mds.core.config.cache_bytes_max = 1;
    touch(&mut world, at, dir, "new", MADE);
    let (names, hashes) = reads(&mut world);
    assert!(names >= MADE, "{names} names");
    assert_eq!(hashes, 0);
}

#[test]
fn hashes_that_cannot_be_read_are_asked_for_by_the_next_miss() {
    let (mut world, at, dir) = cold(MADE);
    world.loads = false;
    let seq = world.send(at, mkdir(dir, "first"));
    while world.reply(at, seq).is_none() {
        world.load_one();
        world.pump();
    }
    let (ticket, needs) = world.pending_loads.pop_front().expect("hashes are read");
    assert!(matches!(needs[..], [Need::Hashes { .. }]), "{needs:?}");
    world.input(crate::Input::LoadFailed { ticket });
    world.loads = true;
    assert!(matches!(world.call(at, mkdir(dir, "second")), Ok(Answer::Entry(_))));
    assert_eq!(reads(&mut world).1, 2, "the second time after the second name");
}

#[test]
fn a_directory_that_is_listed_is_read_one_range_ahead() {
    let (mut world, at, dir) = cold(MADE);
    let (mut cookie, mut names, mut calls, mut ranges, mut at_once) = (0, 0, 0, 0, 0);
    let mut end = false;
    while !end {
        // As many names as a range has here.
        let page = Op::Readdir { dir, cookie, limit: 2, plus: false, handle: None };
        world.read.clear();
        let Ok(Answer::Entries { entries, next, end: is_end }) = world.call(at, page) else { panic!("no entries") };
        let read = world.read.iter().filter(|need| matches!(need, Need::Range { .. })).count();
        (cookie, end, names, calls, ranges) = (next, is_end, names + entries.len(), calls + 1, ranges + read);
        at_once += usize::from(read == 0);
    }
    assert_eq!(names, MADE);
    assert!(ranges <= MADE / 2 + 1, "{ranges} ranges, none twice");
    assert!(at_once >= calls / 2 - 1, "{at_once} of {calls} calls find in memory what they want");
}

#[test]
fn what_lies_behind_a_range_is_read_while_its_inodes_are_if_somebody_waits_for_them() {
    let (mut world, at, dir) = cold(MADE);
    let page = |cookie| Op::Readdir { dir, cookie, limit: 2, plus: false, handle: None };
    let last_range = |world: &World| match world.pending_loads.back() {
        Some((ticket, needs)) => match needs[..] {
            [Need::Range { from_hash, .. }] => (*ticket, from_hash),
            _ => panic!("no range: {needs:?}"),
        },
        None => panic!("nothing is read"),
    };
    let Ok(Answer::Entries { mut entries, mut next, .. }) = world.call(at, page(0)) else { panic!("no entries") };
    world.loads = false;
    let mut seq = world.send(at, page(next));
    while let Some((Ok(Answer::Entries { entries: more, next: to, .. }), _)) = world.reply(at, seq) {
        entries.extend(more);
        next = to;
        seq = world.send(at, page(next));
    }
    let (ticket, first) = last_range(&world);
    let behind = first + (1 << 60);
    world.input(crate::Input::LoadGoesOn { ticket, dir, from_hash: behind });
    let (ahead, from) = last_range(&world);
    assert_eq!((from, world.pending_loads.len()), (behind, 2), "both are read at once");
    world.input(crate::Input::LoadGoesOn { ticket: ahead, dir, from_hash: behind + (1 << 60) });
    world.input(crate::Input::LoadGoesOn { ticket: 1 << 40, dir, from_hash: 9 });
    assert_eq!(world.pending_loads.len(), 2, "nobody waits for the second, and the third has ended");

    world.loads = true;
    world.pump();
    let Some((Ok(Answer::Entries { entries: more, next: to, mut end }), _)) = world.reply(at, seq) else {
        panic!("no entries")
    };
    entries.extend(more);
    next = to;
    while !end {
        let Ok(Answer::Entries { entries: more, next: to, end: is_end }) = world.call(at, page(next)) else {
            panic!("no entries")
        };
        entries.extend(more);
        (next, end) = (to, is_end);
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|a, b| a.name == b.name);
    assert_eq!(entries.len(), MADE);
}
