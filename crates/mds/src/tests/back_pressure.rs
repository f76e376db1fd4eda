//! A journal that is long, a table that is full, a journal that fails.

use loligo_types::{FsError, Ino, Lsn, Op, RenameMode};

use super::*;
use crate::Input;

#[test]
fn changes_wait_for_room_and_reads_go_on() {
    let mut world = World::new();
    let a = world.client();
    world.checkpoints = false;
    world.input(Input::JournalSpace { used: 100, limit: 100 });
    let seq = world.send(a, mkdir(Ino::ROOT, "d"));
    assert_eq!(world.reply(a, seq), None);
    assert!(world.call(a, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    assert_eq!(world.mds.status().waiting[0].why, "checkpoint");
    world.input(Input::JournalSpace { used: 10, limit: 100_000 });
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
}

#[test]
fn changes_wait_while_what_is_not_checkpointed_fills_the_cache() {
    let limit = 64 << 10;
    let mut world = World::with(crate::Config {
        cache_bytes_max: limit,
        checkpoint_records: 16,
        dirty_ms_max: u64::MAX / 2,
        ..config()
    });
    let a = world.client();
    world.checkpoints = false;
    let mut made = 0;
    let waits = loop {
        let seq = world.send(a, mkdir(Ino::ROOT, &format!("d{made}")));
        // A tick gives back what little is clean.
        world.wait_alive(100);
        match world.reply(a, seq) {
            Some((result, _)) => assert!(result.is_ok(), "{result:?}"),
            None => break seq,
        }
        made += 1;
        assert!(made < 1000, "the cache grows without end");
    };
    let held = world.mds.status().cache_bytes;
    // Not at once by an eighth: the queue of what is dirty doubles when it grows.
    assert!(held > limit && held < limit + limit / 2, "{held} bytes");
    assert_eq!(world.mds.status().waiting[0].why, "checkpoint");
    assert!(world.call(a, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    world.wait_alive(1000);
    assert_eq!(world.reply(a, waits), None, "nothing was checkpointed");
    assert_eq!(world.pending_checkpoints.len(), 1);
    world.checkpoints = true;
    world.pump();
    assert!(world.reply(a, waits).is_some_and(|(result, _)| result.is_ok()));
    for i in 0..1000 {
        world.mkdir(a, Ino::ROOT, &format!("e{i}"));
    }
    world.wait_alive(100);
    let held = world.mds.status().cache_bytes;
    assert!(held <= limit, "{held} bytes, although all can be evicted");
}

#[test]
fn a_long_journal_is_checkpointed_and_trimmed() {
    let mut world = World::new();
    let a = world.client();
    world.input(Input::JournalSpace { used: 60_000, limit: 100_000 });
    world.mkdir(a, Ino::ROOT, "d");
    assert_eq!(world.trimmed, Lsn(0));
    world.wait_alive(100);
    assert_eq!(world.trimmed, world.last_lsn.next());
    assert_eq!(world.mds.status().dirty, 0);
}

#[test]
fn a_record_that_is_longer_than_the_journal_may_be_is_not_waited_for_once_it_is_in_the_table() {
    let mut world = World::new();
    let a = world.client();
    // It has a segment of its own, which stays until the next record begins another: no checkpoint makes room.
    let long = || Input::JournalSpace { used: 200, limit: 100 };
    world.checkpoints = false;
    world.input(long());
    let first = world.send(a, mkdir(Ino::ROOT, "d"));
    world.wait_alive(100);
    assert_eq!(world.reply(a, first), None, "what is in the journal only is waited for");
    world.checkpoints = true;
    world.pump();
    assert!(world.reply(a, first).is_some_and(|(result, _)| result.is_ok()));
    world.checkpoints = false;
    world.input(long());
    let second = world.send(a, mkdir(Ino::ROOT, "e"));
    world.wait_alive(100);
    assert_eq!(world.reply(a, second), None, "the first one is to be written, so that the record can go");
    world.checkpoints = true;
    world.pump();
    assert!(world.reply(a, second).is_some_and(|(result, _)| result.is_ok()));
}

#[test]
fn a_store_without_room_refuses_what_makes_more_and_does_the_rest() {
    let mut world = World::new();
    let a = world.client();
    world.mkdir(a, Ino::ROOT, "d");
    world.mkdir(a, Ino::ROOT, "e");
    world.input(Input::Full(true));
    assert!(world.mds.status().full);
    assert_eq!(world.call(a, mkdir(Ino::ROOT, "f")), Err(FsError::NoSpace));
    let symlink = Op::Symlink { dir: Ino::ROOT, name: name("s"), target: (*b"d").into() };
    assert_eq!(world.call(a, symlink), Err(FsError::NoSpace));
    assert_eq!(world.call(a, mkdir(Ino::ROOT, "d")), Err(FsError::Exists), "what fails anyway says why");
    let (dir, new_dir) = (Ino::ROOT, Ino::ROOT);
    let rename = Op::Rename { dir, name: name("d"), new_dir, new_name: name("g"), mode: RenameMode::Replace };
    world.call(a, rename).expect("there are as many names as before");
    world.call(a, Op::Rmdir { dir: Ino::ROOT, name: name("e") }).expect("it makes room");
    world.input(Input::Full(false));
    assert!(!world.mds.status().full);
    world.mkdir(a, Ino::ROOT, "f");
}

#[test]
fn a_full_table_refuses_what_needs_room_and_recovers() {
    let mut world = World::new();
    let a = world.client();
    world.mkdir(a, Ino::ROOT, "d");
    world.checkpoints = false;
    world.input(Input::JournalSpace { used: 90_000, limit: 100_000 });
    world.wait_alive(100);
    let (id, _) = world.pending_checkpoints.pop_front().expect("the journal is long");
    world.input(Input::CheckpointFailed { id, full: true });
    // Below the limit the journal still takes changes.
    world.mkdir(a, Ino::ROOT, "e");
    world.input(Input::JournalSpace { used: 100_000, limit: 100_000 });
    assert_eq!(world.call(a, mkdir(Ino::ROOT, "f")), Err(FsError::NoSpace));
    world.call(a, Op::Rmdir { dir: Ino::ROOT, name: name("d") }).expect("what frees room goes on");
    world.input(Input::JournalSpace { used: 125_000, limit: 100_000 });
    let last = Op::Rmdir { dir: Ino::ROOT, name: name("e") };
    assert_eq!(world.call(a, last), Err(FsError::NoSpace));
    world.checkpoints = true;
    world.wait_alive(2000);
    assert!(!world.mds.status().full);
    world.input(Input::JournalSpace { used: 0, limit: 100_000 });
    world.mkdir(a, Ino::ROOT, "f");
}

#[test]
fn who_waits_for_room_learns_that_there_is_none() {
    let mut world = World::new();
    let a = world.client();
    world.checkpoints = false;
    world.mkdir(a, Ino::ROOT, "d");
    world.input(Input::JournalSpace { used: 100_000, limit: 100_000 });
    let seq = world.send(a, mkdir(Ino::ROOT, "e"));
    world.wait_alive(100);
    let (id, _) = world.pending_checkpoints.pop_front().expect("the journal is long");
    assert_eq!(world.reply(a, seq), None);
    world.input(Input::CheckpointFailed { id, full: true });
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::NoSpace)));
}

#[test]
fn nothing_is_acknowledged_after_the_journal_failed() {
    let mut world = World::new();
    let a = world.client();
    world.syncs = false;
    let seq = world.send(a, mkdir(Ino::ROOT, "d"));
    world.input(Input::JournalFailed);
    assert!(world.fatal.as_ref().is_some_and(|text| text.contains("journal")));
    world.input(Input::Durable { lsn: world.last_lsn });
    let read = world.send(a, Op::GetAttr { ino: Ino::ROOT });
    world.wait(100);
    assert_eq!((world.reply(a, seq), world.reply(a, read)), (None, None));
}

#[test]
fn a_checkpoint_waits_for_the_journal() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, ..config() });
    let a = world.client();
    world.checkpoints = false;
    world.syncs = false;
    world.send(a, mkdir(Ino::ROOT, "d"));
    world.wait(200);
    assert!(world.pending_checkpoints.is_empty());
    world.syncs = true;
    world.pump();
    assert_eq!(world.pending_checkpoints.len(), 1);
}

#[test]
fn a_read_from_before_a_checkpoint_does_not_bring_the_past_back() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, ..config() });
    let (a, b) = (world.client(), world.client());
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.wait_alive(300);
    world.crash();
    world.resume(a);
    world.resume(b);
    world.reclaim(a, Default::default());
    world.reclaim(b, Default::default());
    // The read is under way, and has seen the table as it is now.
    world.loads = false;
    let seq = world.send(b, Op::GetAttr { ino: dir });
    let (ticket, needs) = world.pending_loads.pop_front().expect("it is not in memory");
    let old = needs.iter().flat_map(|need| rows::read(&world.table, (3, 5), need)).collect();
    let _ = world.send(a, chmod(Ino::ROOT, 0o711));
    world.loads = true;
    world.pump();
    world.checkpoints = false;
    world.wait_alive(200);
    world.checkpoints = true;
    world.pump();
    assert!(world.mds.checkpointer.is_held(), "the end of the checkpoint waits for the read");
    world.input(Input::Loaded { ticket, items: old });
    assert!(world.reply(b, seq).is_some());
    assert!(!world.mds.checkpointer.is_held());
}

#[test]
fn a_failed_read_fails_the_request_only() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.wait_alive(300);
    world.crash();
    world.resume(a);
    world.loads = false;
    let seq = world.send(a, Op::GetAttr { ino: dir });
    let (ticket, _) = world.pending_loads.pop_front().expect("it is not in memory");
    world.input(Input::LoadFailed { ticket });
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::Io)));
    world.loads = true;
    assert!(world.call(a, Op::GetAttr { ino: dir }).is_ok());
}

#[test]
fn the_same_record_is_read_once_for_all() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.wait_alive(300);
    world.crash();
    world.resume(a);
    world.loads = false;
    let seqs: Vec<_> = (0..5).map(|_| world.send(a, Op::GetAttr { ino: dir })).collect();
    assert_eq!(world.pending_loads.len(), 1);
    world.loads = true;
    world.pump();
    assert!(seqs.into_iter().all(|seq| world.reply(a, seq).is_some()));
}

#[test]
fn totals_come_from_the_store() {
    let mut world = World::new();
    let a = world.client();
    world.input(Input::StatFs(totals()));
    world.mkdir(a, Ino::ROOT, "d");
    let Ok(loligo_types::Answer::StatFs(found)) = world.call(a, Op::StatFs) else { panic!("no totals") };
    assert_eq!((found.bytes, found.bytes_free, found.inodes), (1000, 900, 2));
}

#[test]
fn a_stop_over_a_store_that_takes_nothing_ends_and_says_that_the_journal_has_everything() {
    let mut world = World::new();
    let a = world.client();
    world.mkdir(a, Ino::ROOT, "d");
    world.checkpoints = false;
    world.input(Input::Stop);
    for _ in 0..3 {
        assert_eq!(world.fatal, None);
        world.wait(1100);
        let (id, _) = world.pending_checkpoints.pop_front().expect("it tries");
        world.input(Input::CheckpointFailed { id, full: false });
    }
    assert!(world.fatal.as_ref().is_some_and(|text| text.contains("recovers everything")), "{:?}", world.fatal);
    assert!(!world.stopped, "not in order");
    world.crash();
    world.wait(20_000);
    let b = world.client();
    world.lookup(b, Ino::ROOT, "d").expect("the journal has it");
}

#[test]
fn requests_that_wait_with_data_take_bounded_memory_and_leave_room_for_those_of_others() {
    let mut world = World::with(crate::Config { waiting_bytes_max: 1 << 20, ..config() });
    let (holder, many, other) = (world.client(), world.client(), world.client());
    let file = world.create(holder, Ino::ROOT, "f", READ, 1).ino;
    world.clients[holder].obeys = false;
    let set = |n: usize| Op::SetXattr {
        ino: file,
        name: format!("user.{n}").as_bytes().into(),
        value: vec![7; 60_000].into(),
        mode: loligo_types::XattrMode::Set,
    };
    assert!(world.call(holder, Op::GetAttr { ino: file }).is_ok());
    let mut waits = Vec::new();
    let refused = loop {
        let seq = world.send(many, set(waits.len() % 2));
        match world.reply(many, seq) {
            None => waits.push(seq),
            Some((result, _)) => break result,
        }
        assert!(waits.len() < 100, "they take memory without end");
    };
    assert_eq!(refused, Err(FsError::Busy));
    assert!((8..=9).contains(&waits.len()), "half of a megabyte: {}", waits.len());
    let seq = world.send(other, set(2));
    assert_eq!(world.reply(other, seq), None, "it waits as the others do");
    assert!(world.call(other, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    world.clients[holder].obeys = true;
    world.pump();
    assert!(world.reply(other, seq).is_some_and(|(result, _)| result.is_ok()));
    for seq in waits {
        assert!(world.reply(many, seq).is_some_and(|(result, _)| result.is_ok()));
    }
    assert!(world.call(many, set(0)).is_ok(), "all of it is free again");
    // Those of a session that ends are free, too.
    world.clients[holder].obeys = false;
    assert!(world.call(holder, Op::GetAttr { ino: file }).is_ok());
    (0..8).for_each(|n| _ = world.send(many, set(n % 2)));
    world.message(many, loligo_types::msg::ToServer::Goodbye { gone: true });
    let seq = world.send(other, set(1));
    assert_eq!(world.reply(other, seq), None);
    world.clients[holder].obeys = true;
    world.pump();
    assert!(world.reply(other, seq).is_some_and(|(result, _)| result.is_ok()));
    assert!(world.call(other, set(2)).is_ok());
}
