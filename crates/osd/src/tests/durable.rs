//! What a client was told to be dropped, and a crash: a file that begins to live in objects must not show what an earlier
//! attempt left there.

use loligo_store::mem::{CrashPlan, MemDisk};
use loligo_store::{Backend, Identity};

use super::*;
use crate::execute;

/// What a crash leaves of bytes that were durable, after an operation on them.
fn left(op: DataOp) -> Vec<u8> {
    let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
    let store = disk.open().expect("a new disk");
    let run = |effect| execute(&*store.blobs(), &effect).expect("there is room");
    let size = u64::from(OBJECT);
    run(Effect::Write { ino: FILE, object_size: size, offset: 0, data: vec![7; 20_000].into() });
    run(Effect::SyncAll);
    let mut osd = osd();
    ask(&mut osd, ALICE, 1, op);
    let out = outputs(&mut osd);
    let Output::Run { effect, .. } = &out[0] else { panic!("{out:?}") };
    run(effect.clone());
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
    assert_eq!(left(DataOp::Discard { from: 0 }), vec![0; 20_000]);
    let cut = left(DataOp::Discard { from: 17_000 });
    assert_eq!((&cut[..17_000], &cut[17_000..]), (&[7; 17_000][..], &[0; 3000][..]));
    // A hole is as durable as what is written: by a sync.
    assert_eq!(left(DataOp::Punch { offset: 0, len: 20_000 }), vec![7; 20_000]);
}
