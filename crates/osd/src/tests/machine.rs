//! Order, rights, bounds: one scenario each.

use loligo_store::StoreError;
use loligo_types::limits;

use super::*;

#[test]
fn an_overlapping_write_waits_and_a_distant_one_does_not() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"first"));
    ask(&mut osd, ALICE, 2, write_op(4, b"second"));
    ask(&mut osd, ALICE, 3, write_op(100, b"third"));
    let out = runs(&mut osd);
    assert_eq!(out.len(), 2, "{out:?}");
    done(&mut osd, out[0].0);
    let out = outputs(&mut osd);
    assert_eq!(out[0], reply(ALICE, 1, Ok(DataAnswer::Done)));
    assert!(matches!(&out[1], Output::Run { effect: Effect::Write { offset: 4, .. }, .. }));
}

#[test]
fn reads_run_together_and_wait_for_an_earlier_write() {
    let mut osd = osd();
    ask(&mut osd, BOB, 1, DataOp::Read { offset: 0, len: 10 });
    ask(&mut osd, BOB, 2, DataOp::Read { offset: 0, len: 10 });
    ask(&mut osd, ALICE, 3, write_op(5, b"x"));
    ask(&mut osd, BOB, 4, DataOp::Read { offset: 0, len: 10 });
    ask(&mut osd, BOB, 5, DataOp::Read { offset: 6, len: 10 });
    let out = runs(&mut osd);
    assert_eq!(out.len(), 3, "reads 1, 2 and 5: {out:?}");
    done(&mut osd, out[0].0);
    done(&mut osd, out[1].0);
    let out = outputs(&mut osd);
    assert!(matches!(out[2], Output::Run { effect: Effect::Write { .. }, .. }), "{out:?}");
}

#[test]
fn a_sync_waits_for_earlier_writes_and_covers_their_objects_but_stops_nobody() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(u64::from(OBJECT) * 3 - 1, b"xy"));
    ask(&mut osd, BOB, 2, DataOp::Sync);
    let out = runs(&mut osd);
    assert_eq!(out.len(), 1);
    done(&mut osd, out[0].0);
    let sync = outputs(&mut osd).pop().expect("the sync");
    let Output::Run { id, effect } = sync else { panic!("{sync:?}") };
    assert_eq!(effect, Effect::Sync { ino: FILE, ranges: vec![(2, 3)], removed: false, copy: None });
    ask(&mut osd, ALICE, 3, write_op(0, b"later"));
    ask(&mut osd, BOB, 4, DataOp::Sync);
    let later = runs(&mut osd);
    assert_eq!(later.len(), 1, "the write runs, the second sync waits: {later:?}");
    done(&mut osd, later[0].0);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 3, Ok(DataAnswer::Done))]);
    done(&mut osd, id);
    let out = outputs(&mut osd);
    assert_eq!(out[0], reply(BOB, 2, Ok(DataAnswer::Done)));
    let Output::Run { effect, .. } = &out[1] else { panic!("{out:?}") };
    assert_eq!(*effect, Effect::Sync { ino: FILE, ranges: vec![(0, 0)], removed: false, copy: None });
}

#[test]
fn a_failed_sync_leaves_its_objects_to_the_next() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"x"));
    let (id, _) = runs(&mut osd)[0].clone();
    done(&mut osd, id);
    ask(&mut osd, ALICE, 2, DataOp::Sync);
    let Some(Output::Run { id, .. }) = outputs(&mut osd).pop() else { panic!("the sync runs") };
    let failed = Err(StoreError::Io { what: "object".into(), cause: "broken".into() });
    osd.handle(Input::Done { id, result: failed });
    assert_eq!(outputs(&mut osd), [reply(ALICE, 2, Err(DataError::Io))]);
    ask(&mut osd, ALICE, 3, DataOp::Sync);
    assert!(matches!(&runs(&mut osd)[0].1, Effect::Sync { ranges, .. } if *ranges == [(0, 0)]));
}

#[test]
fn operations_without_the_right_are_stale() {
    let mut osd = osd();
    ask(&mut osd, BOB, 1, write_op(0, b"x"));
    ask(&mut osd, BOB, 2, DataOp::Punch { offset: 0, len: 1 });
    ask(&mut osd, BOB, 3, DataOp::Discard { from: 0 });
    ask(&mut osd, SessionId(9), 4, DataOp::Read { offset: 0, len: 1 });
    ask(&mut osd, SessionId(9), 5, DataOp::Sync);
    let stale = |session, tag| reply(session, tag, Err(DataError::Stale));
    let all = [stale(BOB, 1), stale(BOB, 2), stale(BOB, 3), stale(SessionId(9), 4), stale(SessionId(9), 5)];
    assert_eq!(outputs(&mut osd), all);
    osd.handle(Input::Trust { session: SessionId(9) });
    ask(&mut osd, SessionId(9), 6, write_op(0, b"x"));
    assert_eq!(runs(&mut osd).len(), 1);
}

#[test]
fn a_right_taken_away_refuses_what_waits() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"runs"));
    ask(&mut osd, ALICE, 2, write_op(0, b"waits"));
    ask(&mut osd, ALICE, 3, DataOp::Read { offset: 0, len: 1 });
    let out = runs(&mut osd);
    osd.handle(Input::Access { session: ALICE, ino: FILE, access: Access::Read });
    assert_eq!(outputs(&mut osd), [reply(ALICE, 2, Err(DataError::Stale))]);
    done(&mut osd, out[0].0);
    assert_eq!(outputs(&mut osd).len(), 2, "the answer to the write, and the read runs");
}

#[test]
fn a_fenced_session_is_told_nothing_and_its_end_is_reported() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"runs"));
    ask(&mut osd, ALICE, 2, write_op(0, b"waits"));
    ask(&mut osd, BOB, 3, DataOp::Read { offset: 0, len: 4 });
    let out = runs(&mut osd);
    osd.handle(Input::Fence { session: ALICE });
    assert_eq!(outputs(&mut osd), [], "its write still runs");
    ask(&mut osd, ALICE, 4, write_op(0, b"zombie"));
    assert_eq!(outputs(&mut osd), [reply(ALICE, 4, Err(DataError::Stale))]);
    done(&mut osd, out[0].0);
    let out = outputs(&mut osd);
    assert_eq!(out[0], Output::Fenced { session: ALICE });
    assert!(matches!(out[1], Output::Run { effect: Effect::Read { .. }, .. }), "{out:?}");
    osd.handle(Input::Fence { session: ALICE });
    assert_eq!(outputs(&mut osd), [Output::Fenced { session: ALICE }], "at once if nothing runs");
}

#[test]
fn what_no_file_can_hold_is_too_large() {
    let mut osd = osd();
    let max = limits::FILE_SIZE_MAX;
    let long = limits::DATA_OP_MAX as u32 + 1;
    let too_large =
        [DataOp::Read { offset: 0, len: long }, DataOp::Read { offset: max, len: 1 }, write_op(u64::MAX, b"x")];
    for (tag, op) in too_large.into_iter().enumerate() {
        ask(&mut osd, ALICE, tag as Tag, op);
        assert_eq!(outputs(&mut osd), [reply(ALICE, tag as Tag, Err(DataError::TooLarge))]);
    }
    for object_size in [0, 1, 4095, 5000, u32::MAX] {
        osd.handle(Input::Request { session: ALICE, tag: 7, ino: FILE, object_size, op: DataOp::Sync });
        assert_eq!(outputs(&mut osd), [reply(ALICE, 7, Err(DataError::TooLarge))], "{object_size}");
    }
    ask(&mut osd, ALICE, 8, DataOp::Punch { offset: 5, len: u64::MAX });
    assert!(matches!(runs(&mut osd)[0].1, Effect::Punch { len, .. } if len == max - 5));
}

#[test]
fn a_full_queue_is_busy_but_not_for_the_metadata_server() {
    let mut osd = osd();
    let big = vec![0; 600 << 10];
    ask(&mut osd, ALICE, 1, write_op(0, &big));
    ask(&mut osd, ALICE, 2, write_op(0, &big));
    osd.handle(Input::Discard { tag: 3, ino: FILE, object_size: OBJECT, from: 0 });
    let out = outputs(&mut osd);
    assert_eq!(out[1], reply(ALICE, 2, Err(DataError::Busy)));
    let Output::Run { id, .. } = out[0] else { panic!("{out:?}") };
    done(&mut osd, id);
    assert!(osd.queued_bytes() < 1000);
    ask(&mut osd, ALICE, 4, write_op(0, &big));
    assert_eq!(outputs(&mut osd).len(), 2, "the answer, and the discard runs; the write is behind it");
}

#[test]
fn discards_are_answered_when_durable_many_by_one_sync() {
    let mut osd = osd();
    for n in 0..5 {
        osd.handle(Input::Discard { tag: n, ino: Ino(n), object_size: OBJECT, from: 20_000 });
    }
    let out = runs(&mut osd);
    assert_eq!(out.len(), 5);
    done(&mut osd, out[0].0);
    let sync = runs(&mut osd);
    assert_eq!(sync[0].1, Effect::SyncDiscards { files: vec![(Ino(0), 1)] });
    out[1..].iter().for_each(|(id, _)| done(&mut osd, *id));
    assert_eq!(outputs(&mut osd), [], "a sync is out already");
    done(&mut osd, sync[0].0);
    let out = outputs(&mut osd);
    assert_eq!(out[0], Output::Discarded { tag: 0, ino: Ino(0), result: Ok(()) });
    let Output::Run { id, effect: Effect::SyncDiscards { files } } = &out[1] else { panic!("{out:?}") };
    assert_eq!(files.len(), 4);
    let failed = Err(StoreError::Full { what: "disk".into() });
    osd.handle(Input::Done { id: *id, result: failed });
    assert!(matches!(outputs(&mut osd)[3], Output::Discarded { tag: 4, result: Err(DataError::NoSpace), .. }));
    assert!(osd.is_idle());
}

#[test]
fn too_many_files_without_a_sync_are_all_synced() {
    let mut osd = osd();
    osd.handle(Input::Trust { session: ALICE });
    let mut all = Vec::new();
    for n in 0..6 {
        let op = write_op(0, b"x");
        osd.handle(Input::Request { session: ALICE, tag: n, ino: Ino(n), object_size: OBJECT, op });
        let Some(Output::Run { id, .. }) = osd.next_output() else { panic!("the write runs") };
        done(&mut osd, id);
        all.extend(outputs(&mut osd));
    }
    let sync_all = |output: &Output| match output {
        Output::Run { id, effect: Effect::SyncAll } => Some(*id),
        _ => None,
    };
    let syncs: Vec<EffectId> = all.iter().filter_map(sync_all).collect();
    assert_eq!(syncs.len(), 1);
    done(&mut osd, syncs[0]);
    for (ino, covered) in [(0, true), (4, true), (5, false)] {
        osd.handle(Input::Request { session: ALICE, tag: 9, ino: Ino(ino), object_size: OBJECT, op: DataOp::Sync });
        let effect = &runs(&mut osd)[0].1;
        assert!(matches!(effect, Effect::Sync { ranges, .. } if ranges.is_empty() == covered), "{ino}: {effect:?}");
    }
}

#[test]
fn a_sync_of_everything_covers_what_was_answered_before_it_was_asked_for() {
    let mut osd = osd();
    osd.handle(Input::SyncAll { tag: 1 });
    let [(first, Effect::SyncAll)] = runs(&mut osd)[..] else { panic!("it runs at once") };
    ask(&mut osd, ALICE, 2, write_op(0, b"later"));
    let (write, _) = runs(&mut osd)[0].clone();
    done(&mut osd, write);
    outputs(&mut osd);
    osd.handle(Input::SyncAll { tag: 3 });
    osd.handle(Input::SyncAll { tag: 4 });
    assert!(outputs(&mut osd).is_empty(), "the one under way may have missed the write");
    done(&mut osd, first);
    let out = outputs(&mut osd);
    assert_eq!(out[0], Output::SyncedAll { tag: 1, result: Ok(()) });
    let Output::Run { id: second, effect: Effect::SyncAll } = out[1] else { panic!("{out:?}") };
    let failed = Err(StoreError::Io { what: "disk".into(), cause: "broken".into() });
    osd.handle(Input::Done { id: second, result: failed });
    let bad = |tag| Output::SyncedAll { tag, result: Err(DataError::Io) };
    assert_eq!(outputs(&mut osd), [bad(3), bad(4)]);
    assert!(osd.is_idle());
}

#[test]
fn a_sync_of_everything_with_nothing_to_sync_is_answered_at_once_but_for_what_a_process_before_may_have_left() {
    let mut osd = osd();
    osd.handle(Input::SyncAll { tag: 1 });
    let [(first, Effect::SyncAll)] = runs(&mut osd)[..] else { panic!("nothing is known of before") };
    done(&mut osd, first);
    assert_eq!(outputs(&mut osd), [Output::SyncedAll { tag: 1, result: Ok(()) }]);
    osd.handle(Input::SyncAll { tag: 2 });
    assert_eq!(outputs(&mut osd), [Output::SyncedAll { tag: 2, result: Ok(()) }]);
    ask(&mut osd, ALICE, 3, write_op(0, b"x"));
    let [(write, _)] = runs(&mut osd)[..] else { panic!("it runs") };
    done(&mut osd, write);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 3, Ok(DataAnswer::Done))]);
    // A sync of the file that is under way has not synced it yet.
    ask(&mut osd, BOB, 4, DataOp::Sync);
    let [(sync, _)] = runs(&mut osd)[..] else { panic!("it runs") };
    osd.handle(Input::SyncAll { tag: 5 });
    let [(all, Effect::SyncAll)] = runs(&mut osd)[..] else { panic!("the file is not durable") };
    done(&mut osd, sync);
    done(&mut osd, all);
    assert_eq!(outputs(&mut osd).len(), 2);
}
