//! Files that move to another server.

use loligo_store::StoreError;

use super::*;

fn quiesce(osd: &mut Osd, inos: &[Ino]) {
    osd.handle(Input::Quiesce { ticket: 7, inos: inos.to_vec() });
}

fn access(osd: &mut Osd, session: SessionId, access: Access) {
    osd.handle(Input::Access { session, ino: FILE, access });
}

const QUIET: Output = Output::Quiesced { ticket: 7, ok: true };

#[test]
fn who_asks_for_a_file_that_moves_is_told_to_come_again_and_then_where_it_is_not() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"runs"));
    ask(&mut osd, ALICE, 2, write_op(0, b"waits"));
    let (id, _) = runs(&mut osd)[0].clone();
    access(&mut osd, ALICE, Access::Moving);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 2, Err(DataError::Busy))]);
    ask(&mut osd, ALICE, 3, DataOp::Read { offset: 0, len: 1 });
    assert_eq!(outputs(&mut osd), [reply(ALICE, 3, Err(DataError::Busy))]);
    done(&mut osd, id);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 1, Ok(DataAnswer::Done))]);
    access(&mut osd, ALICE, Access::Moved);
    ask(&mut osd, ALICE, 4, DataOp::Sync);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 4, Err(DataError::Moved))]);
    access(&mut osd, ALICE, Access::Write);
    ask(&mut osd, ALICE, 5, DataOp::Read { offset: 0, len: 1 });
    assert_eq!(runs(&mut osd).len(), 1, "it did not move after all");
}

#[test]
fn a_trusted_session_is_held_off_too() {
    let mut osd = osd();
    osd.handle(Input::Trust { session: ALICE });
    access(&mut osd, ALICE, Access::Moved);
    ask(&mut osd, ALICE, 1, write_op(0, b"x"));
    assert_eq!(outputs(&mut osd), [reply(ALICE, 1, Err(DataError::Moved))]);
}

#[test]
fn files_of_which_nothing_is_known_are_quiet_at_once() {
    let mut osd = osd();
    quiesce(&mut osd, &[FILE, Ino(0x999)]);
    assert_eq!(outputs(&mut osd), [QUIET]);
    assert!(osd.is_idle());
}

#[test]
fn a_file_is_quiet_when_what_ran_has_ended_and_is_synced() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"x"));
    ask(&mut osd, BOB, 2, DataOp::Read { offset: 500, len: 1 });
    let out = runs(&mut osd);
    access(&mut osd, ALICE, Access::Moving);
    access(&mut osd, BOB, Access::Moving);
    quiesce(&mut osd, &[FILE]);
    done(&mut osd, out[0].0);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 1, Ok(DataAnswer::Done))], "the read still runs");
    done(&mut osd, out[1].0);
    let out = outputs(&mut osd);
    assert_eq!(out[0], reply(BOB, 2, Ok(DataAnswer::Done)));
    let Output::Run { id, effect } = &out[1] else { panic!("{out:?}") };
    assert_eq!(*effect, Effect::Sync { ino: FILE, ranges: vec![(0, 0)], removed: false, copy: None });
    done(&mut osd, *id);
    assert_eq!(outputs(&mut osd), [QUIET]);
    assert!(osd.is_idle());
    quiesce(&mut osd, &[FILE]);
    assert_eq!(outputs(&mut osd), [QUIET], "nothing is remembered of it");
}

#[test]
fn a_file_that_cannot_be_synced_is_not_quiet_and_is_synced_again_later() {
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, write_op(0, b"x"));
    let (id, _) = runs(&mut osd)[0].clone();
    done(&mut osd, id);
    outputs(&mut osd);
    quiesce(&mut osd, &[FILE]);
    let (id, _) = runs(&mut osd)[0].clone();
    let failed = Err(StoreError::Io { what: "object".into(), cause: "broken".into() });
    osd.handle(Input::Done { id, result: failed });
    assert_eq!(outputs(&mut osd), [Output::Quiesced { ticket: 7, ok: false }]);
    quiesce(&mut osd, &[FILE]);
    assert!(matches!(&runs(&mut osd)[0].1, Effect::Sync { ranges, .. } if *ranges == [(0, 0)]));
}

#[test]
fn a_discard_is_waited_for_until_it_is_durable() {
    let mut osd = osd();
    osd.handle(Input::Discard { tag: 1, ino: FILE, object_size: OBJECT, from: 0 });
    let (id, _) = runs(&mut osd)[0].clone();
    quiesce(&mut osd, &[FILE]);
    done(&mut osd, id);
    let (id, effect) = runs(&mut osd)[0].clone();
    assert!(matches!(effect, Effect::SyncDiscards { .. }), "{effect:?}");
    done(&mut osd, id);
    assert_eq!(outputs(&mut osd), [Output::Discarded { tag: 1, ino: FILE, result: Ok(()) }, QUIET]);
}

#[test]
fn many_changed_files_share_one_sync_of_everything() {
    let mut osd = Osd::new(Config { queue_bytes: 1 << 20, dirty_files: 1000 });
    let inos: Vec<Ino> = (0..200).map(|n| Ino(0x1000 + n)).collect();
    for ino in &inos {
        osd.handle(Input::Access { session: ALICE, ino: *ino, access: Access::Write });
        osd.handle(Input::Request { session: ALICE, tag: 1, ino: *ino, object_size: OBJECT, op: write_op(0, b"x") });
    }
    let out = runs(&mut osd);
    // All but the last are done before; that one ends while the sync runs, which so may have missed it.
    out[..199].iter().for_each(|(id, _)| done(&mut osd, *id));
    outputs(&mut osd);
    quiesce(&mut osd, &inos);
    let sync = runs(&mut osd);
    assert_eq!((sync.len(), &sync[0].1), (1, &Effect::SyncAll));
    done(&mut osd, out[199].0);
    assert_eq!(outputs(&mut osd), [reply(ALICE, 1, Ok(DataAnswer::Done))]);
    done(&mut osd, sync[0].0);
    let last = runs(&mut osd);
    assert!(matches!(&last[..], [(_, Effect::Sync { ino, .. })] if *ino == inos[199]), "{last:?}");
    done(&mut osd, last[0].0);
    assert_eq!(outputs(&mut osd), [QUIET]);
}
