//! Writes that the journal has, beside those that it has not.

use loligo_store::StoreError;
use loligo_store::mem::MemDisk;
use loligo_store::{Backend, Identity};
use loligo_types::{Lsn, Patches};

use super::*;

fn log(osd: &mut Osd, lsn: u64, offset: u64, bytes: &[u8]) {
    let patches = Patches::of(&[(offset, Arc::from(bytes))]).expect("within the limits").into();
    osd.handle(Input::WriteLogged { lsn: Lsn(lsn), ino: FILE, object_size: OBJECT, patches });
}

fn forget(osd: &mut Osd, ino: Ino, lsn: u64) {
    osd.handle(Input::Forget { ino, upto: Lsn(lsn) });
}

const fn in_place(ino: Ino, lsn: u64) -> Output {
    Output::InPlace { ino, upto: Lsn(lsn) }
}

fn disk() -> MemDisk {
    MemDisk::new(Identity::new([1; 16], [2; 16]))
}

#[test]
fn a_read_that_comes_after_it_sees_it_and_a_sync_leaves_its_object_alone() {
    let mut osd = osd();
    log(&mut osd, 1, 0, b"new");
    ask(&mut osd, BOB, 1, DataOp::Read { offset: 0, len: 3 });
    let [(write, Effect::Patch { .. })] = runs(&mut osd)[..] else { panic!("the read waits") };
    done(&mut osd, write);
    assert!(matches!(runs(&mut osd)[..], [(_, Effect::Read { .. })]));
    ask(&mut osd, BOB, 2, DataOp::Sync);
    let [(_, Effect::Sync { ranges, .. })] = &runs(&mut osd)[..] else { panic!("a sync") };
    assert_eq!(ranges, &[], "the journal has it");
}

#[test]
fn what_would_change_its_bytes_otherwise_waits_until_the_journal_says_that_they_are_in_place() {
    let mut osd = osd();
    log(&mut osd, 5, 0, b"logged");
    let (write, _) = runs(&mut osd)[0].clone();
    done(&mut osd, write);
    ask(&mut osd, ALICE, 1, write_op(100, b"elsewhere"));
    assert_eq!(runs(&mut osd).len(), 1, "other bytes of the file do not wait");
    ask(&mut osd, ALICE, 2, write_op(3, b"direct"));
    let [(sync, Effect::SyncFiles { files })] = &runs(&mut osd)[..] else { panic!("its object is synced first") };
    assert_eq!(files, &[(FILE, vec![(0, 0)])]);
    done(&mut osd, *sync);
    assert_eq!(outputs(&mut osd), [in_place(FILE, 5)]);
    forget(&mut osd, FILE, 5);
    assert!(matches!(runs(&mut osd)[..], [(_, Effect::Write { .. })]));
}

#[test]
fn a_write_of_the_journal_that_comes_meanwhile_does_not_hold_it_up_for_ever() {
    let mut osd = osd();
    log(&mut osd, 5, 0, b"logged");
    let (write, _) = runs(&mut osd)[0].clone();
    done(&mut osd, write);
    ask(&mut osd, ALICE, 1, write_op(3, b"direct"));
    let (sync, _) = runs(&mut osd)[0].clone();
    // It touches the bytes that are waited for.
    log(&mut osd, 6, 6, b"more");
    assert_eq!(runs(&mut osd), []);
    done(&mut osd, sync);
    assert_eq!(outputs(&mut osd), [in_place(FILE, 5)]);
    forget(&mut osd, FILE, 5);
    let kinds: Vec<bool> = runs(&mut osd).iter().map(|(_, effect)| matches!(effect, Effect::Patch { .. })).collect();
    assert_eq!(kinds, [false], "the direct write, and the other one behind it");
}

#[test]
fn all_files_are_put_in_place_as_far_as_they_are_written() {
    let mut osd = osd();
    log(&mut osd, 5, 0, b"a");
    log(&mut osd, 6, u64::from(OBJECT), b"b");
    let out = runs(&mut osd);
    done(&mut osd, out[1].0);
    osd.handle(Input::SettleLogged);
    let [(sync, Effect::SyncFiles { files })] = &runs(&mut osd)[..] else { panic!("a sync") };
    assert_eq!(files, &[(FILE, vec![(1, 1)])]);
    let sync = *sync;
    done(&mut osd, out[0].0);
    done(&mut osd, sync);
    assert_eq!(outputs(&mut osd), [in_place(Ino(0), 4)], "record 5 was not written when it began");
    osd.handle(Input::SettleLogged);
    let [(sync, Effect::SyncFiles { files })] = &runs(&mut osd)[..] else { panic!("a sync") };
    assert_eq!(files, &[(FILE, vec![(0, 1)])], "and what was written meanwhile");
    done(&mut osd, *sync);
    assert_eq!(outputs(&mut osd), [in_place(Ino(0), 6)]);
    forget(&mut osd, Ino(0), 6);
    ask(&mut osd, ALICE, 1, write_op(0, b"direct"));
    assert!(matches!(runs(&mut osd)[..], [(_, Effect::Write { .. })]));
}

#[test]
fn a_sync_that_fails_ends_the_life_of_the_server() {
    let mut osd = osd();
    log(&mut osd, 5, 0, b"a");
    let (write, _) = runs(&mut osd)[0].clone();
    done(&mut osd, write);
    osd.handle(Input::SettleLogged);
    let (sync, _) = runs(&mut osd)[0].clone();
    osd.handle(Input::Done { id: sync, result: Err(StoreError::Io { what: "object".into(), cause: "broken".into() }) });
    assert_eq!(outputs(&mut osd), [Output::LoggedFailed]);
}

#[test]
fn one_that_has_no_room_is_tried_again_and_who_reads_waits() {
    let mut osd = osd();
    log(&mut osd, 5, 0, b"a");
    let (write, _) = runs(&mut osd)[0].clone();
    osd.handle(Input::Done { id: write, result: Err(StoreError::Full { what: "object".into() }) });
    ask(&mut osd, BOB, 1, DataOp::Read { offset: 0, len: 1 });
    assert_eq!(runs(&mut osd), []);
    osd.handle(Input::SettleLogged);
    assert_eq!(outputs(&mut osd), [in_place(Ino(0), 4)]);
    osd.handle(Input::Retry);
    let (again, effect) = runs(&mut osd)[0].clone();
    assert!(matches!(effect, Effect::Patch { .. }));
    done(&mut osd, again);
    assert!(matches!(runs(&mut osd)[..], [(_, Effect::Read { .. })]));
}

#[test]
fn what_the_metadata_server_drops_waits_for_nothing() {
    let mut osd = osd();
    log(&mut osd, 5, 0, b"abc");
    let (write, _) = runs(&mut osd)[0].clone();
    done(&mut osd, write);
    osd.handle(Input::Discard { tag: 1, ino: FILE, object_size: OBJECT, from: 0 });
    let (drop, _) = runs(&mut osd)[0].clone();
    done(&mut osd, drop);
    let (sync, _) = runs(&mut osd)[0].clone();
    done(&mut osd, sync);
    assert_eq!(outputs(&mut osd), [Output::Discarded { tag: 1, ino: FILE, result: Ok(()) }]);
    ask(&mut osd, ALICE, 2, write_op(0, b"direct"));
    assert!(matches!(runs(&mut osd)[..], [(_, Effect::Write { .. })]), "nothing counts any more");
}

#[test]
fn all_bytes_come_to_their_places() {
    let blobs = disk().open().expect("memory opens").blobs();
    let mut osd = osd();
    let patches =
        Patches::new(vec![(1, 2), (u64::from(OBJECT) - 1, 3)], (*b"abcde").into()).expect("within the limits");
    osd.handle(Input::WriteLogged { lsn: Lsn(1), ino: FILE, object_size: OBJECT, patches: patches.into() });
    let read = answer(&mut osd, &*blobs, BOB, 1, DataOp::Read { offset: 0, len: OBJECT + 4 });
    let Ok(DataAnswer::Bytes(bytes)) = read else { panic!("bytes") };
    assert_eq!(&bytes[..4], b"\0ab\0");
    assert_eq!(&bytes[OBJECT as usize - 2..][..5], b"\0cde\0");
}

#[test]
fn a_discard_of_nothing_leaves_nothing_to_sync() {
    let blobs = disk().open().expect("memory opens").blobs();
    let mut osd = osd();
    assert_eq!(answer(&mut osd, &*blobs, ALICE, 1, DataOp::Discard { from: 0 }), Ok(DataAnswer::Done));
    ask(&mut osd, ALICE, 2, DataOp::Sync);
    let [(_, Effect::Sync { ranges, removed, .. })] = &runs(&mut osd)[..] else { panic!("a sync") };
    assert!(ranges.is_empty() && !removed);
}
