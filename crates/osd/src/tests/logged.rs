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
    Output::InPlace { ino, upto: Lsn(lsn), no_room: false }
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
    assert_eq!(outputs(&mut osd), [Output::InPlace { ino: Ino(0), upto: Lsn(4), no_room: true }]);
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

/// A disk of which the device reads the second block of each object no more; what it was told to spoil.
struct BadBlock {
    good: std::sync::Arc<dyn loligo_store::Blobs>,
    spoilt: std::sync::Mutex<Vec<(u64, u64)>>,
    can_spoil: bool,
}

impl BadBlock {
    const BAD: std::ops::Range<u64> = 4096..8192;

    fn look(&self, offset: u64, len: usize, reads: bool) -> loligo_store::Result<()> {
        let end = offset + len as u64;
        let meets = offset < Self::BAD.end && end > Self::BAD.start;
        let covers = offset <= Self::BAD.start && end >= Self::BAD.end;
        match meets && (reads || !covers) {
            true => Err(StoreError::Io { what: "object".into(), cause: "EIO".into() }),
            false => Ok(()),
        }
    }
}

impl loligo_store::Blobs for BadBlock {
    fn read_at(&self, id: loligo_store::ObjectId, offset: u64, buf: &mut [u8]) -> loligo_store::Result<usize> {
        self.look(offset, buf.len(), true)?;
        self.good.read_at(id, offset, buf)
    }
    fn write_at(&self, id: loligo_store::ObjectId, offset: u64, data: &[u8]) -> loligo_store::Result<()> {
        self.look(offset, data.len(), false)?;
        self.good.write_at(id, offset, data)
    }
    fn spoil(&self, _: loligo_store::ObjectId, offset: u64, len: u64) -> loligo_store::Result<()> {
        self.spoilt.lock().expect("one thread").push((offset, len));
        self.can_spoil.then_some(()).ok_or(StoreError::NotNow { what: "object".into(), cause: "no".into() })
    }
    fn truncate(&self, id: loligo_store::ObjectId, len: u64) -> loligo_store::Result<()> {
        self.good.truncate(id, len)
    }
    fn punch(&self, id: loligo_store::ObjectId, offset: u64, len: u64) -> loligo_store::Result<()> {
        self.good.punch(id, offset, len)
    }
    fn sync(&self, id: loligo_store::ObjectId) -> loligo_store::Result<()> {
        self.good.sync(id)
    }
    fn sync_removals(&self, ino: u64) -> loligo_store::Result<()> {
        self.good.sync_removals(ino)
    }
    fn sync_all(&self) -> loligo_store::Result<()> {
        self.good.sync_all()
    }
    fn delete(&self, id: loligo_store::ObjectId) -> loligo_store::Result<()> {
        self.good.delete(id)
    }
    fn len(&self, id: loligo_store::ObjectId) -> loligo_store::Result<Option<u64>> {
        self.good.len(id)
    }
    fn extents(
        &self,
        id: loligo_store::ObjectId,
        at: u64,
        len: u64,
    ) -> loligo_store::Result<Vec<loligo_store::Extent>> {
        self.good.extents(id, at, len)
    }
    fn objects_of(&self, ino: u64) -> loligo_store::Result<Vec<u64>> {
        self.good.objects_of(ino)
    }
    fn list(
        &self,
        visit: &mut dyn FnMut(loligo_store::ObjectId, u64) -> std::ops::ControlFlow<()>,
    ) -> loligo_store::Result<()> {
        self.good.list(visit)
    }
}

#[test]
fn of_bytes_for_a_block_that_cannot_be_read_only_that_block_is_damaged_and_the_server_goes_on() {
    let disk = disk();
    let store = disk.open().expect("a store");
    let blobs = BadBlock { good: store.blobs(), spoilt: Default::default(), can_spoil: true };
    let places = [(0, Arc::from(&b"first"[..])), (4000, Arc::from(vec![7; 200])), (9000, Arc::from(&b"last"[..]))];
    let patches: Arc<Patches> = Patches::of(&places).expect("within the limits").into();
    let effect = Effect::Patch { ino: FILE, object_size: u64::from(OBJECT), patches };
    let result = crate::execute(&blobs, &effect);
    assert!(matches!(result, Err(StoreError::Corrupt { .. })), "{result:?}");
    assert_eq!(*blobs.spoilt.lock().expect("one thread"), [(4096, 104)]);
    let read = |offset, len| {
        let mut buf = vec![0; len];
        store.blobs().read_at(loligo_store::ObjectId::new(FILE.0, 0), offset, &mut buf).map(|_| buf)
    };
    assert_eq!(
        (read(0, 5), read(4000, 96), read(9000, 4)),
        (Ok(b"first".to_vec()), Ok(vec![7; 96]), Ok(b"last".to_vec()))
    );
    // The machine takes it as written.
    let mut osd = osd();
    log(&mut osd, 5, 4000, &[7; 200]);
    let (write, _) = runs(&mut osd)[0].clone();
    osd.handle(Input::Done { id: write, result });
    assert_eq!(outputs(&mut osd), []);
    // A whole block needs no reading, and one that cannot be made damaged is not passed over.
    let whole: Arc<Patches> = Patches::of(&[(4096, Arc::from(vec![8; 4096]))]).expect("within the limits").into();
    let whole = Effect::Patch { ino: FILE, object_size: u64::from(OBJECT), patches: whole };
    assert_eq!(crate::execute(&blobs, &whole), Ok(loligo_types::DataAnswer::Done));
    let blobs = BadBlock { can_spoil: false, ..blobs };
    assert!(matches!(crate::execute(&blobs, &effect), Err(StoreError::Io { .. })));
}
