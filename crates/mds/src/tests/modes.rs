//! Journal modes of policies: which data the rank takes into its journal, and which mode it tells clients.

use std::sync::Arc;

use loligo_namespace::SUBTREE;
use loligo_types::msg::ToClient;
use loligo_types::{FsError, Ino, JournalMode, Journaling, Op, Patches, XattrMode};

use super::*;

fn set_policy(world: &mut World, at: usize, dir: Ino, text: &str) {
    let value = text.as_bytes().into();
    world.call(at, Op::SetXattr { ino: dir, name: SUBTREE.into(), value, mode: XattrMode::Set }).expect("it is set");
    world.tick();
}

/// A client that is alone with a file of ten bytes in objects, in a directory with this policy.
fn file(policy: &str) -> (World, usize, Ino, Ino) {
    let mut world = World::new();
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    set_policy(&mut world, a, dir, policy);
    let ino = world.create(a, dir, "f", WRITE, 1).ino;
    assert_eq!(size(world.call(a, set_data(ino, 1, 0, 10, true))), 10);
    (world, a, dir, ino)
}

fn with_data(ino: Ino, end: u64, offset: u64, len: usize) -> Op {
    let patches = Patches::of(&[(offset, Arc::from(vec![b'x'; len]))]).map(Arc::new);
    match set_data(ino, 1, 0, end, false) {
        Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, .. } => {
            Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, patches }
        }
        op => op,
    }
}

/// The mode that comes with the answer to a request.
fn told(world: &mut World, at: usize, op: Op) -> Option<Journaling> {
    let seq = world.send(at, op);
    let inbox = &mut world.clients[at].inbox;
    let place = inbox.iter().position(|msg| matches!(msg, ToClient::Reply { seq: of, .. } if *of == seq));
    match place.and_then(|place| inbox.remove(place)) {
        Some(ToClient::Reply { journal, .. }) => journal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mode_takes_the_data_that_it_says_and_refuses_the_rest() {
    for (policy, largest) in [
        ("", 64 << 10),
        ("journal = 'wasteless'", 64 << 10),
        ("journal = 'data'", 64 << 10),
        ("journal = 'selective'", 64 << 10),
        ("journal = 'selective'\njournal_threshold = '1KiB'", 1 << 10),
        ("journal = 'selective'\njournal_threshold = '1B'", 1),
        ("journal = 'selective'\njournal_threshold = '256KiB'", 64 << 10),
        ("journal = 'ordered'", 0),
        ("journal = 'writeback'", 0),
    ] {
        let (mut world, a, _, ino) = file(policy);
        for (len, fits) in [(largest, largest > 0), (largest + 1, false)] {
            let done = world.call(a, with_data(ino, 100_000, 0, len.max(1)));
            match fits {
                true => assert_eq!(size(done), 100_000, "{policy}: {len}"),
                false => assert_eq!(done, Err(FsError::NotSupported), "{policy}: {len}"),
            }
        }
    }
}

#[test]
fn mode_data_fills_the_blocks_that_a_write_touches() {
    let record = |policy: &str, offset: u64, len: usize| {
        let (mut world, a, _, ino) = file(policy);
        let before: usize = world.journal.values().map(Vec::len).sum();
        assert_eq!(size(world.call(a, with_data(ino, 100_000, offset, len))), 100_000);
        world.journal.values().map(Vec::len).sum::<usize>() - before
    };
    let own = record("journal = 'wasteless'", 10, 125);
    assert!((125..400).contains(&own), "{own}");
    assert!((4096..4400).contains(&record("journal = 'data'", 10, 125)));
    // Over the edge of a block it touches two.
    assert!((8192..8500).contains(&record("journal = 'data'", 4090, 125)));
    // One that fills its blocks needs no more.
    assert_eq!(record("journal = 'data'", 4096, 8192), record("journal = 'wasteless'", 4096, 8192));
}

#[test]
fn a_client_is_told_the_mode_of_a_file_when_it_opens_it_and_when_it_writes() {
    let (mut world, a, dir, ino) = file("journal = 'selective'\njournal_threshold = '2KiB'");
    let selective = Journaling { mode: JournalMode::Selective, threshold: 2048 };
    assert_eq!(told(&mut world, a, create(dir, "g", WRITE, 2)), Some(selective));
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 3 }), Some(selective));
    assert_eq!(told(&mut world, a, Op::GetAttr { ino }), None);
    set_policy(&mut world, a, dir, "journal = 'ordered'");
    assert_eq!(told(&mut world, a, with_data(ino, 10, 0, 1)), Some(Journaling::of(JournalMode::Ordered)), "refused");
    let server = Journaling { mode: JournalMode::Selective, threshold: 64 << 10 };
    assert_eq!(told(&mut world, a, create(Ino::ROOT, "h", WRITE, 4)), Some(server), "beside it");
}

#[test]
fn the_nearest_policy_counts_as_a_whole_and_after_a_rename_that_of_the_new_place() {
    let (mut world, a, dir, ino) = file("journal = 'ordered'");
    let below = world.mkdir(a, dir, "below").ino;
    let ordered = Some(Journaling::of(JournalMode::Ordered));
    assert_eq!(told(&mut world, a, create(below, "f", WRITE, 2)), ordered);
    set_policy(&mut world, a, below, "blind = true");
    let server = Some(Journaling { mode: JournalMode::Selective, threshold: 64 << 10 });
    assert_eq!(told(&mut world, a, create(below, "g", WRITE, 3)), server);
    let mode = loligo_types::RenameMode::Replace;
    let rename = Op::Rename { dir, name: name("f"), new_dir: below, new_name: name("moved"), mode };
    world.call(a, rename).expect("it is renamed");
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 4 }), server);
    world.call(a, Op::RemoveXattr { ino: below, name: SUBTREE.into() }).expect("it is removed");
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 5 }), ordered);
}

#[test]
fn in_a_relaxed_directory_no_data_goes_into_the_journal_whatever_the_server_says() {
    let (mut world, a, dir, ino) = file("preset = 'relaxed'");
    let writeback = Some(Journaling::of(JournalMode::Writeback));
    assert_eq!(told(&mut world, a, create(dir, "g", WRITE, 2)), writeback);
    assert_eq!(world.call(a, with_data(ino, 10, 0, 1)), Err(FsError::NotSupported));
    set_policy(&mut world, a, dir, "preset = 'relaxed'\njournal = 'ordered'");
    assert_eq!(told(&mut world, a, create(dir, "h", WRITE, 3)), Some(Journaling::of(JournalMode::Ordered)));
}

#[test]
fn a_restart_knows_the_modes_again() {
    let (mut world, a, _, ino) = file("journal = 'writeback'");
    world.crash();
    world.resume(a);
    world.reclaim(a, Default::default());
    world.tick();
    let writeback = Some(Journaling::of(JournalMode::Writeback));
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 7 }), writeback);
}

#[test]
fn without_data_in_the_journal_the_modes_that_want_it_are_those_of_the_server() {
    let config =
        |journal_max, writes_durable| crate::Config { journal_max, writes_durable, ..crate::Config::default() };
    let (wasteless, writeback) = (Journaling::of(JournalMode::Wasteless), Journaling::of(JournalMode::Writeback));
    assert_eq!(config(1, false).journaling_of(Some(wasteless)), wasteless);
    assert_eq!(config(0, false).journaling_of(Some(wasteless)), writeback);
    assert_eq!(config(0, true).journaling_of(Some(wasteless)), Journaling::of(JournalMode::Ordered));
    assert_eq!(config(0, true).journaling_of(Some(writeback)), writeback);
}

/// A file below a directory with this policy and two without, after a start that has read nothing of them.
fn unread(policy: &str) -> (World, usize, Ino) {
    let (mut world, a, dir, _) = file(policy);
    let first = world.mkdir(a, dir, "first").ino;
    let below = world.mkdir(a, first, "below").ino;
    let ino = world.create(a, below, "deep", WRITE, 9).ino;
    assert_eq!(size(world.call(a, set_data(ino, 9, 0, 10, true))), 10);
    world.wait_alive(60_000);
    world.crash();
    world.resume(a);
    world.reclaim(a, Default::default());
    world.wait_alive(3000);
    world.mds.core.tree.evict_some(0, 10_000, &|_| false);
    world.mds.relaxed.forget_places();
    (world, a, ino)
}

#[test]
fn a_mode_counts_although_the_directories_above_the_file_are_not_in_memory() {
    let ordered = Some(Journaling::of(JournalMode::Ordered));
    let (mut world, a, ino) = unread("journal = 'ordered'");
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 1 }), ordered, "opened");
    world.mds.core.tree.evict_some(0, 10_000, &|_| false);
    world.mds.relaxed.forget_places();
    let seq = world.send(a, with_data(ino, 100, 10, 90));
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::NotSupported)), "written");
    let (mut world, a, ino) = unread("journal = 'wasteless'");
    let wasteless = Some(Journaling::of(JournalMode::Wasteless));
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 20 }), wasteless, "opened");
}

#[test]
fn a_client_need_not_sync_before_a_size_where_a_write_is_durable_when_it_is_answered() {
    let writeback = Some(Journaling::of(JournalMode::Writeback));
    for policy in ["journal = 'wasteless'", "journal = 'ordered'"] {
        let config = crate::Config { journal_max: 0, writes_durable: true, ..config() };
        let mut world = World::with(config);
        let a = world.client();
        let dir = world.mkdir(a, Ino::ROOT, "d").ino;
        set_policy(&mut world, a, dir, policy);
        assert_eq!(told(&mut world, a, create(dir, "f", WRITE, 1)), writeback, "{policy}");
        assert_eq!(told(&mut world, a, create(Ino::ROOT, "g", WRITE, 2)), writeback, "beside {policy}");
    }
}

#[test]
fn a_mode_that_was_not_known_at_a_write_is_told_with_a_later_one() {
    let (mut world, a, ino) = unread("journal = 'ordered'");
    let ordered = Some(Journaling::of(JournalMode::Ordered));
    assert_eq!(told(&mut world, a, Op::Open { ino, flags: WRITE, handle: 1 }), ordered);
    world.mds.core.tree.evict_some(0, 10_000, &|_| false);
    world.mds.relaxed.forget_places();
    let tells: Vec<_> = (2..8).map(|size| told(&mut world, a, set_data(ino, 1, 0, size * 10, false))).collect();
    assert_eq!((tells[0], tells[5]), (None, ordered));
}
