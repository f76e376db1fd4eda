//! Small synced writes, which go into the journal with the file's size.

use std::sync::Arc;

use loligo_types::{FsError, Ino, Lsn, Op, Patches};

use super::*;
use crate::{Input, Output};

/// A client that is alone with a file of ten bytes in objects.
fn file() -> (World, usize, Ino) {
    let mut world = World::new();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    assert_eq!(size(world.call(a, set_data(ino, 1, 0, 10, true))), 10);
    (world, a, ino)
}

fn with_data(ino: Ino, cuts: u32, end: u64, offset: u64, text: &str) -> Op {
    let patches = Patches::of(&[(offset, Arc::from(text.as_bytes()))]).map(Arc::new);
    match set_data(ino, 1, cuts, end, false) {
        Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, .. } => {
            Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, patches }
        }
        op => op,
    }
}

/// Outputs about data in the journal since that was asked last.
fn said(world: &mut World) -> Vec<String> {
    let show = |output: Output| match output {
        Output::WriteData { ino, patches, .. } => {
            format!("write {ino} {:?} {}", patches.places(), String::from_utf8_lossy(patches.bytes()))
        }
        Output::SettleData => "settle".into(),
        Output::DataInPlace { ino, .. } => format!("done {ino}"),
        other => panic!("not of data: {other:?}"),
    };
    std::mem::take(&mut world.logged).into_iter().map(show).collect()
}

fn handle(world: &mut World, input: Input) {
    world.mds.handle(world.now, input);
    world.pump();
}

#[test]
fn data_is_written_when_its_record_is_durable_and_before_that_is_answered() {
    let (mut world, a, ino) = file();
    world.syncs = false;
    let seq = world.send(a, with_data(ino, 0, 12, 8, "abcd"));
    assert_eq!((world.reply(a, seq), said(&mut world)), (None, vec![]));
    world.syncs = true;
    world.pump();
    assert_eq!(world.reply(a, seq).map(|(answer, _)| size(answer)), Some(12));
    assert_eq!(said(&mut world), [format!("write {ino} [(8, 4)] abcd")]);
}

#[test]
fn the_journal_is_kept_until_objects_have_the_data_and_not_longer() {
    let (mut world, a, ino) = file();
    let first = world.last_lsn;
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 0, "ab"))), 10);
    said(&mut world);
    world.wait_alive(20_000);
    assert_eq!(said(&mut world), ["settle"]);
    assert!(world.trimmed <= Lsn(first.0 + 1), "{:?}", world.trimmed);
    let upto = Lsn(first.0 + 1);
    handle(&mut world, Input::DataInPlace { ino: Ino(0), upto, no_room: false });
    assert_eq!(said(&mut world), [format!("done {}", Ino(0))]);
    assert!(world.trimmed > Lsn(first.0 + 1));
}

#[test]
fn after_a_crash_what_was_not_in_place_is_written_again_in_order() {
    let (mut world, a, ino) = file();
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 0, "first"))), 10);
    let upto = world.last_lsn;
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 2, "second"))), 10);
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 4, "third"))), 10);
    said(&mut world);
    world.crash();
    world.pump();
    let again = ["[(0, 5)] first", "[(2, 6)] second", "[(4, 5)] third"].map(|what| format!("write {ino} {what}"));
    assert_eq!(said(&mut world), again);
    handle(&mut world, Input::DataInPlace { ino, upto, no_room: false });
    said(&mut world);
    world.crash();
    world.pump();
    assert_eq!(said(&mut world), again[1..]);
}

#[test]
fn a_cut_and_a_removal_take_it_away() {
    let (mut world, a, ino) = file();
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 4, "abcdef"))), 10);
    let cut = loligo_types::SetAttr { size: Some(6), ..Default::default() };
    assert_eq!(size(world.call(a, Op::SetAttr { ino, set: cut, handle: Some(1) })), 6);
    said(&mut world);
    world.crash();
    world.pump();
    assert_eq!(said(&mut world), [format!("write {ino} [(4, 2)] ab")]);
    world.resume(a);
    world.call(a, unlink(Ino::ROOT, "f")).expect("it may");
    world.wait_alive(3000);
    world.crash();
    world.pump();
    assert_eq!(said(&mut world), Vec::<String>::new());
}

#[test]
fn data_that_cannot_go_into_the_journal_is_refused_and_nothing_is_done() {
    let (mut world, a, ino) = file();
    let lsn = world.last_lsn;
    let long = "x".repeat(70_000);
    assert_eq!(world.call(a, with_data(ino, 0, 70_000, 0, &long)), Err(FsError::NotSupported));
    assert_eq!(world.call(a, with_data(ino, 0, 10, 9, "ab")), Err(FsError::Invalid), "it ends behind the file");
    assert_eq!(world.call(a, with_data(ino, 7, 10, 0, "ab")), Err(FsError::Stale));
    // Others have it open for writing, too: who writes when is theirs to order.
    let b = world.client();
    world.open(b, ino, WRITE, 1);
    assert_eq!(world.call(a, with_data(ino, 0, 10, 0, "ab")), Err(FsError::NotSupported));
    assert_eq!((said(&mut world), world.last_lsn > lsn), (vec![], true));
    assert!(world.journal.values().all(|record| !String::from_utf8_lossy(record).contains("xxx")));
}

#[test]
fn a_stop_waits_until_objects_have_all() {
    let (mut world, a, ino) = file();
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 0, "ab"))), 10);
    said(&mut world);
    handle(&mut world, Input::Stop);
    assert_eq!((said(&mut world), world.stopped), (vec!["settle".to_string()], false));
    let upto = world.last_lsn;
    handle(&mut world, Input::DataInPlace { ino: Ino(0), upto, no_room: false });
    assert!(world.stopped);
}

#[test]
fn a_stop_on_a_full_disk_leaves_in_the_journal_what_has_no_room_and_the_next_start_writes_it() {
    let (mut world, a, ino) = file();
    let before = world.last_lsn;
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 0, "ab"))), 10);
    world.wait_alive(20_000);
    handle(&mut world, Input::DataInPlace { ino: Ino(0), upto: before, no_room: true });
    said(&mut world);
    handle(&mut world, Input::Stop);
    world.wait(10);
    assert_eq!((said(&mut world), world.stopped), (vec!["settle".to_string()], false), "there may be room by now");
    handle(&mut world, Input::DataInPlace { ino: Ino(0), upto: before, no_room: true });
    assert!(world.stopped);
    assert!(world.trimmed <= Lsn(before.0 + 1), "{:?}", world.trimmed);
    world.crash();
    world.pump();
    assert_eq!(said(&mut world), [format!("write {ino} [(0, 2)] ab")]);
}

#[test]
fn an_answer_that_brings_nothing_is_not_asked_for_again_at_once() {
    let (mut world, a, ino) = file();
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 0, "ab"))), 10);
    said(&mut world);
    let upto = Lsn(world.last_lsn.0 - 1);
    handle(&mut world, Input::Stop);
    assert_eq!(said(&mut world), ["settle"]);
    // The object server has the data in its queue, behind something that takes its time.
    handle(&mut world, Input::DataInPlace { ino: Ino(0), upto, no_room: false });
    assert_eq!(said(&mut world), Vec::<String>::new());
    world.wait(100);
    assert_eq!(said(&mut world), ["settle"]);
    assert!(!world.stopped);
}

#[test]
fn objects_that_do_not_take_it_end_the_rank() {
    let (mut world, a, ino) = file();
    assert_eq!(size(world.call(a, with_data(ino, 0, 10, 0, "ab"))), 10);
    handle(&mut world, Input::DataFailed);
    assert!(world.fatal.as_ref().is_some_and(|text| text.contains("journal")));
    world.crash();
    world.pump();
    assert!(said(&mut world).iter().any(|what| what.ends_with("ab")));
}
