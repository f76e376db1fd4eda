//! Discards that a client was told of, and a crash: a file that begins to live in objects must not show bytes that an earlier attempt left
//! there.

use loligo_store::mem::{CrashPlan, MemDisk};
use loligo_store::{Backend, Identity};

use super::*;
use crate::execute;

/// The effect of a request.
fn begin(osd: &mut Osd, tag: Tag, op: DataOp) -> (EffectId, Effect) {
    ask(osd, ALICE, tag, op);
    match outputs(osd).as_slice() {
        [Output::Run { id, effect }] => (*id, effect.clone()),
        other => panic!("{other:?}"),
    }
}

/// Bytes that a crash leaves of durable ones, after operations on them.
fn left(ops: &[DataOp]) -> Vec<u8> {
    let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
    let store = disk.open().expect("a new disk");
    let run = |effect| execute(&*store.blobs(), &effect).expect("there is room");
    let size = u64::from(OBJECT);
    run(Effect::Write { ino: FILE, object_size: size, offset: 0, data: vec![7; 20_000].into() });
    run(Effect::SyncAll);
    let mut osd = osd();
    for (tag, op) in (1..).zip(ops) {
        let (id, effect) = begin(&mut osd, tag, op.clone());
        osd.handle(Input::Done { id, result: Ok(run(effect)) });
        outputs(&mut osd);
    }
    disk.crash(&CrashPlan::lose_all());
    let store = disk.open().expect("the same disk");
    let read = Effect::Read { ino: FILE, object_size: size, offset: 0, len: 20_000 };
    match execute(&*store.blobs(), &read).expect("readable") {
        DataAnswer::Bytes(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_client_was_told_to_be_dropped_does_not_come_back_with_a_crash() {
    assert_eq!(left(&[DataOp::Discard { from: 0 }]), vec![0; 20_000]);
    let cut = left(&[DataOp::Discard { from: 17_000 }]);
    assert_eq!((&cut[..17_000], &cut[17_000..]), (&[7; 17_000][..], &[0; 3000][..]));
    // A hole is as durable as what is written: by a sync.
    assert_eq!(left(&[DataOp::Punch { offset: 0, len: 20_000 }]), vec![7; 20_000]);
}

#[test]
fn a_hole_below_which_all_is_dropped_is_as_durable_as_that() {
    // The whole objects are gone already when the discard comes: there is nothing left to drop, and yet it must hold.
    let hole = DataOp::Punch { offset: 0, len: 10 * u64::from(OBJECT) };
    assert_eq!(left(&[hole.clone(), DataOp::Discard { from: 0 }]), vec![0; 20_000]);
}

#[test]
fn a_discard_that_overtakes_a_sync_does_not_rely_on_it() {
    let mut osd = osd();
    let (hole, _) = begin(&mut osd, 1, DataOp::Punch { offset: 0, len: u64::from(OBJECT) });
    osd.handle(Input::Done { id: hole, result: Ok(DataAnswer::Done) });
    outputs(&mut osd);
    let (_, sync) = begin(&mut osd, 2, DataOp::Sync);
    assert!(matches!(sync, Effect::Sync { removed: true, .. }), "{sync:?}");
    let (_, discard) = begin(&mut osd, 3, DataOp::Discard { from: 0 });
    assert!(matches!(discard, Effect::Discard { durable: Durable::Now, .. }), "{discard:?}");
}
