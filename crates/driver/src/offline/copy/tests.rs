//! Copies from one memory disk to another: equal in everything, cut off everywhere, refused where something else is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use loligo_journal::table::key_inode;
use loligo_store::mem::{CrashPlan, Fault, FaultPoint, MemDisk, Torn};
use loligo_store::{Blobs, Extent, Lease, LogDir, StatFs, Table};
use loligo_types::{Ino, Kind};

use super::*;
use crate::offline::tests::{FILE, disk, inode, journal, size};
use crate::server::format::{FormatOptions, format};
use crate::{Offline, RowsError, ServerError};

const DATA: [FaultPoint; 7] = [
    FaultPoint::LogAppend,
    FaultPoint::LogSync,
    FaultPoint::TableWrite,
    FaultPoint::TableRead,
    FaultPoint::BlobWrite,
    FaultPoint::BlobSync,
    FaultPoint::BlobRead,
];

fn empty() -> MemDisk {
    MemDisk::new(Identity::new([1; 16], [2; 16]))
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

/// A file system of two ranks with more rows than are read at a time, records in both journals, and objects of all shapes.
fn source() -> MemDisk {
    let rows: Vec<_> = (1000..4000).map(|ino| inode(Ino(ino), Kind::File, ino)).collect();
    let disk = disk(&rows);
    journal(&disk, 0, &[vec![inode(Ino(400), Kind::File, 40)]]);
    journal(&disk, 1, &[vec![inode(FILE, Kind::File, 2)], vec![inode(Ino(401), Kind::File, 3)]]);
    let store = disk.open().expect("it is not open");
    let mut file = store.log_dir(1).expect("a journal").create(77).expect("it is new");
    file.append(b"no record").expect("there is room");
    // Not synced: a torn tail, as a machine that failed leaves one.
    let blobs = store.blobs();
    let write = |id, offset, data: &[u8]| blobs.write_at(id, offset, data).expect("there is room");
    write(ObjectId::new(300, 0), 0, &bytes(12_345, 1));
    // A hole in front, one in the middle and one at the end.
    let sparse = ObjectId::new(300, 7);
    write(sparse, 8192, &bytes(4096, 2));
    write(sparse, 40_000, &bytes(10_000, 3));
    blobs.truncate(sparse, 100_001).expect("there is room");
    // Zeros that were written are no hole.
    write(ObjectId::new(301, 0), 0, &[0; 8192]);
    // Longer than what is read at a time.
    write(ObjectId::new(302, 1), 0, &bytes((4 << 20) + 5000, 4));
    blobs.truncate(ObjectId::new(303, 0), 1 << 20).expect("there is room");
    write(ObjectId::new(304, 0), 0, b"x");
    blobs.truncate(ObjectId::new(304, 0), 0).expect("there is room");
    store.close().expect("it closes");
    drop((file, blobs, store));
    disk
}

type Segment = ((u32, u64), Vec<u8>);
type Object = (ObjectId, Vec<u8>, Vec<Extent>);

/// All that is on a disk.
#[derive(Debug, PartialEq)]
struct All {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    ranks: Vec<u32>,
    segments: Vec<Segment>,
    objects: Vec<Object>,
}

fn all(disk: &MemDisk) -> All {
    let store = disk.open().expect("it is not open");
    let (mut segments, mut objects) = (Vec::new(), BTreeMap::new());
    let ranks = store.ranks().expect("ranks");
    for rank in &ranks {
        let log = store.log_dir(*rank).expect("a journal");
        for segment in log.list().expect("segments") {
            let mut bytes = vec![0; segment.len as usize];
            assert_eq!(log.open(segment.id).and_then(|file| file.read_at(0, &mut bytes)), Ok(bytes.len()));
            segments.push(((*rank, segment.id), bytes));
        }
    }
    let blobs = store.blobs();
    let listed = blobs.list(&mut |id, len| {
        objects.insert(id, len);
        std::ops::ControlFlow::Continue(())
    });
    listed.expect("objects");
    let object = |(id, len): (ObjectId, u64)| {
        let mut bytes = vec![0; len as usize];
        assert_eq!(blobs.read_at(id, 0, &mut bytes), Ok(bytes.len()));
        (id, bytes, blobs.extents(id, 0, len).expect("extents"))
    };
    let objects = objects.into_iter().map(object).collect();
    All { rows: store.table().scan(&[], &[], usize::MAX).expect("rows"), ranks, segments, objects }
}

fn copy(from: &MemDisk, to: &MemDisk) -> CopyResult<Copied> {
    let copier = Copier::of(from.open().expect("it is not open"), &mut |_| ())?;
    let target = to.open().expect("it is not open");
    copier.copy(&*target, &mut |_| ())
}

fn opened(disk: &MemDisk) -> Result<Offline, ServerError> {
    Offline::open(disk.open().expect("it is not open"), &mut |_| ())
}

#[test]
fn a_copy_is_equal_in_everything_and_says_what_it_was() {
    let (from, to) = (source(), empty());
    let before = all(&from);
    let copied = copy(&from, &to).expect("there is room");
    let there = all(&to);
    assert_eq!(there, before);
    assert_eq!(all(&from), before, "the source is as it was");
    // Without the row that says that it is finished.
    let rows = before.rows.len() as u64 - 1;
    let bytes: usize = before.segments.iter().map(|(_, bytes)| bytes.len()).sum();
    let lens: usize = before.objects.iter().map(|(_, bytes, _)| bytes.len()).sum();
    assert!(rows > 2 * 1024 && before.segments.len() == 3 && before.objects.len() == 6);
    assert_eq!((copied.rows, copied.segments, copied.segment_bytes), (rows, 3, bytes as u64));
    assert_eq!((copied.objects, copied.object_bytes, copied.kept), (6, lens as u64, 0));
}

#[test]
fn an_object_as_long_as_what_is_read_at_a_time_that_ends_in_a_hole_is_copied_whole() {
    let (from, to) = (source(), empty());
    let store = from.open().expect("it is not open");
    let blobs = store.blobs();
    for (ino, windows, data) in [(310, 1, 4096), (311, 2, 5 << 20), (312, 1, 0)] {
        let id = ObjectId::new(ino, 0);
        blobs.write_at(id, 0, &bytes(data, 5)).expect("there is room");
        blobs.truncate(id, windows * (4 << 20)).expect("there is room");
    }
    store.close().expect("it closes");
    drop((blobs, store));
    let before = all(&from);
    copy(&from, &to).expect("there is room");
    assert_eq!(all(&to), before);
}

#[test]
fn how_far_it_is_only_grows_and_ends_where_it_was_to_end() {
    let (from, to) = (source(), empty());
    let mut last: BTreeMap<u8, CopyProgress> = BTreeMap::new();
    let mut told = |now: CopyProgress| {
        let before = last.insert(now.stage as u8, now);
        assert!(before.is_none_or(|before| before.done <= now.done), "{before:?}, {now:?}");
    };
    let copier = Copier::of(from.open().expect("it is not open"), &mut told).expect("a file system");
    copier.copy(&*to.open().expect("it is not open"), &mut told).expect("there is room");
    for stage in [CopyStage::Journals, CopyStage::Objects, CopyStage::JournalsBack, CopyStage::ObjectsBack] {
        let end = last[&(stage as u8)];
        assert_eq!(end.done, end.total, "{stage:?}");
    }
    assert_eq!(last[&(CopyStage::Looking as u8)].done, 6);
}

#[test]
fn what_is_only_in_the_journals_is_in_the_copy() {
    let (from, to) = (source(), empty());
    copy(&from, &to).expect("there is room");
    let offline = opened(&to).expect("a file system");
    assert_eq!([FILE, Ino(400), Ino(401)].map(|ino| size(&offline, ino)), [Some(2), Some(40), Some(3)]);
    assert_eq!(offline.damage(), [""; 0]);
}

/// Cuts a copy off at each call of each kind until one comes to its end.
fn cut_off_everywhere(fault: Fault, points: &[FaultPoint], check: impl Fn(&MemDisk, CopyError, u64)) {
    let from = source();
    let whole = all(&from);
    for point in points {
        let mut nth = 1;
        loop {
            let to = empty();
            to.fail(*point, nth, fault);
            let Err(error) = copy(&from, &to) else { break };
            check(&to, error, nth);
            copy(&from, &to).unwrap_or_else(|error| panic!("{point:?} {nth}: {error}"));
            assert!(all(&to) == whole, "{point:?} {nth}");
            nth += 1;
        }
        assert!(nth > 1, "{point:?} was never met");
    }
}

#[test]
fn a_copy_that_is_cut_off_anywhere_is_no_file_system_and_can_be_made_again() {
    let plans = [CrashPlan::lose_all(), CrashPlan::lose_nothing(), CrashPlan::lose_some(Torn::Sector, 5)];
    cut_off_everywhere(Fault::Die, &DATA, |to, _, nth| {
        to.crash(&plans[nth as usize % plans.len()]);
        let is_empty = to.open().expect("it is not open").table().scan(&[], &[], 1).expect("it reads").is_empty();
        match opened(to).err() {
            Some(ServerError::Rows(RowsError::UnfinishedCopy)) if !is_empty => {}
            // Before its first row there is nothing of it.
            Some(ServerError::Rows(RowsError::NotFormatted)) if is_empty => {}
            other => panic!("call {nth}: {other:?}"),
        }
        let made = format(&*to.open().expect("it is not open"), &FormatOptions::default());
        if !is_empty {
            assert!(
                matches!(made, Err(ServerError::Rows(RowsError::UnfinishedCopy))),
                "nothing is built on it: {made:?}"
            );
        } else {
            to.crash(&CrashPlan::lose_nothing());
            // As it was: nothing.
            let store = to.open().expect("it is not open");
            let mut batch = Batch::new();
            store.table().scan(&[], &[], 99).expect("rows").into_iter().for_each(|(key, _)| _ = batch.delete(key));
            store.table().write(&batch, Durability::Sync).expect("there is room");
        }
    });
}

#[test]
fn a_target_that_is_full_says_so_and_takes_the_rest_when_there_is_room() {
    let points = [FaultPoint::LogAppend, FaultPoint::TableWrite, FaultPoint::BlobWrite];
    cut_off_everywhere(Fault::Full, &points, |to, error, _| {
        assert!(matches!(error, CopyError::Full { .. }), "{error}");
        assert!(opened(to).is_err());
    });
    let (from, to) = (source(), empty());
    to.set_capacity(Some(1 << 20));
    let error = copy(&from, &to).expect_err("it is too small").to_string();
    assert!(error.contains("no space left") && error.contains("copy again"), "{error}");
    to.set_capacity(None);
    copy(&from, &to).expect("there is room");
    assert_eq!(all(&to), all(&from));
}

#[test]
fn made_again_it_keeps_what_is_right_and_drops_what_the_source_has_no_more() {
    let (from, to) = (source(), empty());
    to.fail(FaultPoint::BlobSync, 1, Fault::Io);
    copy(&from, &to).expect_err("all is there, and nothing compared");
    // Meanwhile the source is used.
    {
        let store = from.open().expect("it is not open");
        let mut batch = Batch::new();
        batch.delete(key_inode(Ino(1000))).put(key_inode(Ino(1001)), b"other".to_vec());
        store.table().write(&batch, Durability::Sync).expect("there is room");
        store.log_dir(1).and_then(|log| log.delete(77)).expect("it is there");
        let blobs = store.blobs();
        blobs.delete(ObjectId::new(301, 0)).expect("it is there");
        blobs.delete(ObjectId::new(300, 0)).expect("it is there");
        blobs.write_at(ObjectId::new(300, 7), 50_000, b"other").expect("there is room");
        blobs.truncate(ObjectId::new(302, 1), 5000).expect("it is there");
        blobs.write_at(ObjectId::new(305, 0), 0, b"new").expect("there is room");
        store.close().expect("it closes");
    }
    let copied = copy(&from, &to).expect("there is room");
    assert_eq!(all(&to), all(&from));
    assert_eq!((copied.objects, copied.kept), (5, 2), "two of the five are as they were");
}

#[test]
fn an_object_of_the_source_that_cannot_be_read_is_named() {
    let from = source();
    let reads = 7;
    for nth in 1..=reads {
        let to = empty();
        let copier = Copier::of(from.open().expect("it is not open"), &mut |_| ()).expect("a file system");
        from.fail(FaultPoint::BlobRead, nth, Fault::Io);
        let error = copier.copy(&*to.open().expect("it is not open"), &mut |_| ()).expect_err("planned");
        assert!(matches!(error, CopyError::Source(_)), "{error}");
        assert!(error.to_string().contains("object 1"), "no inode is below 0x100, all are below 0x200: {error}");
        assert!(matches!(opened(&to).err(), Some(ServerError::Rows(RowsError::UnfinishedCopy))));
    }
}

#[test]
fn what_is_not_read_back_as_it_was_written_is_named() {
    let (from, to) = (source(), empty());
    let (source, target) = (from.open().expect("it is not open"), to.open().expect("it is not open"));
    let told: Told<'_> = &mut |_| ();
    let sizes = Copier::of(source.clone(), told).expect("a file system").sizes();
    begin(&*target).expect("there is room");
    let rows = rows::copy(&*source, &*target, 0, told).expect("there is room");
    let segments = journals::copy(&*source, &*target, 0, told).expect("there is room");
    let objects = objects::copy(&*source, &*target, &sizes, false, told).expect("there is room");
    let differs = |done: CopyResult<()>, words: &[&str]| match done {
        Err(error @ CopyError::Differs { .. }) => {
            let error = error.to_string();
            words.iter().for_each(|word| assert!(error.contains(word), "no {word} in {error}"));
        }
        other => panic!("{other:?}"),
    };
    // A row that is another one, one that is missing, one too many.
    let table = target.table();
    let key = key_inode(Ino(2500));
    let value = table.get(&key).expect("it reads").expect("it is there");
    for change in [Batch { puts: vec![(key.clone(), b"?".to_vec())], ..Batch::new() }, {
        Batch { deletes: vec![key.clone()], ..Batch::new() }
    }] {
        table.write(&change, Durability::Sync).expect("there is room");
        differs(rows::compare(&*source, &*target, &rows, told), &["the row 4900000000000009c4", "CRC-32C"]);
    }
    table.write(Batch::new().put(key, value).put(b"Z".to_vec(), b"".to_vec()), Durability::Sync).expect("room");
    differs(rows::compare(&*source, &*target, &rows, told), &["the row 5a"]);
    table.write(Batch::new().delete(b"Z".to_vec()), Durability::Sync).expect("there is room");
    rows::compare(&*source, &*target, &rows, told).expect("it is the same again");
    // A segment that ends early, one that is missing, one too many.
    let log = target.log_dir(1).expect("a journal");
    log.truncate(77, 8).expect("it is there");
    differs(journals::compare(&*target, &segments, told), &["segment 77 of the journal of rank 1", "8 bytes"]);
    log.delete(77).expect("it is there");
    differs(journals::compare(&*target, &segments, told), &["segment 77", "there is none"]);
    drop(log.create(78).expect("it is new"));
    differs(journals::compare(&*target, &segments, told), &["segment 78", "the source has none"]);
    // An object with another byte, one that is missing, one too many.
    let blobs = target.blobs();
    let id = ObjectId::new(0x12c, 7);
    blobs.write_at(id, 99_999, b"?").expect("it is there");
    differs(objects::compare(&*source, &*target, &objects, told), &["object 12c.7", "100001 bytes"]);
    blobs.delete(id).expect("it is there");
    differs(objects::compare(&*source, &*target, &objects, told), &["object 12c.7", "0 bytes"]);
    blobs.delete(ObjectId::new(304, 0)).expect("it is there");
    blobs.truncate(id, 100_001).expect("there is room");
    blobs.write_at(id, 8192, &bytes(4096, 2)).expect("there is room");
    blobs.write_at(id, 40_000, &bytes(10_000, 3)).expect("there is room");
    differs(objects::compare(&*source, &*target, &objects, told), &["5 objects instead of 6"]);
}

#[test]
fn what_was_copied_is_on_the_disk_before_it_is_compared() {
    let (from, to) = (source(), empty());
    let (source, target) = (from.open().expect("it is not open"), to.open().expect("it is not open"));
    let told: Told<'_> = &mut |_| ();
    let sizes = Copier::of(source.clone(), told).expect("a file system").sizes();
    let rows = rows::copy(&*source, &*target, 0, told).expect("there is room");
    let segments = journals::copy(&*source, &*target, 0, told).expect("there is room");
    let objects = objects::copy(&*source, &*target, &sizes, false, told).expect("there is room");
    drop(target);
    to.crash(&CrashPlan::lose_all());
    let target = to.open().expect("it is not open");
    rows::compare(&*source, &*target, &rows, told).expect("all rows are there");
    journals::compare(&*target, &segments, told).expect("all segments are there");
    objects::compare(&*source, &*target, &objects, told).expect("all objects are there");
}

#[test]
fn a_target_that_holds_something_else_is_refused_and_left_as_it_is() {
    let from = source();
    let refused = |to: &MemDisk| {
        let before = all(to);
        let error = copy(&from, to).expect_err("it holds something else");
        assert_eq!(all(to), before);
        error
    };
    let held = disk(&[]);
    assert!(matches!(refused(&held), CopyError::Target(ServerError::AlreadyFormatted)));
    let load = empty();
    drop(Offline::begin(load.open().expect("it is not open"), &FormatOptions::default()).expect("it is empty"));
    assert!(matches!(refused(&load), CopyError::Occupied));
    let other = MemDisk::new(Identity::new([3; 16], [2; 16]));
    assert!(matches!(refused(&other), CopyError::Another { .. }));
    // Also one that another copy was made in.
    begin(&*other.open().expect("it is not open")).expect("there is room");
    let error = refused(&other).to_string();
    assert!(error.contains("0303") && error.contains("0101"), "{error}");
}

/// A store with a lease that does not hold for the first looks, and may be lost then.
struct Leased {
    store: Arc<dyn Backend>,
    looks: Arc<AtomicU32>,
    lost: Option<&'static str>,
}

struct Fickle(Arc<AtomicU32>, Option<&'static str>);

impl Lease for Fickle {
    fn holds(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) > 2 && self.1.is_none()
    }

    fn lost(&self) -> Option<String> {
        self.1.filter(|_| self.0.load(Ordering::Relaxed) > 2).map(str::to_string)
    }
}

impl Backend for Leased {
    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn table(&self) -> Arc<dyn Table> {
        self.store.table()
    }

    fn lease(&self) -> Option<Arc<dyn Lease>> {
        Some(Arc::new(Fickle(self.looks.clone(), self.lost)))
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.store.blobs()
    }

    fn log_dir(&self, rank: u32) -> loligo_store::Result<Arc<dyn LogDir>> {
        self.store.log_dir(rank)
    }

    fn ranks(&self) -> loligo_store::Result<Vec<u32>> {
        self.store.ranks()
    }

    fn statfs(&self) -> loligo_store::Result<StatFs> {
        self.store.statfs()
    }

    fn close(&self) -> loligo_store::Result<()> {
        self.store.close()
    }
}

#[test]
fn a_source_that_may_be_another_ones_by_now_is_waited_for_and_one_that_is_makes_no_file_system() {
    for lost in [None, Some("another server has taken over")] {
        let (from, to) = (source(), empty());
        let looks = Arc::new(AtomicU32::new(0));
        let store = Leased { store: from.open().expect("it is not open"), looks: looks.clone(), lost };
        let copier = Copier::of(Arc::new(store), &mut |_| ()).expect("a file system");
        let copied = copier.copy(&*to.open().expect("it is not open"), &mut |_| ());
        assert!(looks.load(Ordering::Relaxed) > 2);
        match lost {
            None => assert!(copied.is_ok() && opened(&to).is_ok()),
            Some(why) => {
                assert!(matches!(&copied, Err(CopyError::Taken { cause }) if cause == why), "{copied:?}");
                assert!(matches!(opened(&to).err(), Some(ServerError::Rows(RowsError::UnfinishedCopy))));
            }
        }
    }
}

#[test]
fn a_source_without_a_whole_file_system_is_refused() {
    let error = copy(&empty(), &empty()).expect_err("there is nothing");
    assert!(matches!(error, CopyError::Source(ServerError::Rows(RowsError::NotFormatted))));
    let (from, cut) = (source(), empty());
    cut.fail(FaultPoint::BlobSync, 1, Fault::Io);
    copy(&from, &cut).expect_err("planned");
    let error = copy(&cut, &empty()).expect_err("it is a part of one");
    assert!(matches!(error, CopyError::Source(ServerError::Rows(RowsError::UnfinishedCopy))));
}

#[test]
fn objects_that_are_too_long_for_the_target_are_seen_before_anything_is_copied() {
    let from = source();
    let copier = Copier::of(from.open().expect("it is not open"), &mut |_| ()).expect("a file system");
    assert_eq!(copier.sizes().longest, Some((ObjectId::new(302, 1), (4 << 20) + 5000)));
    copier.fits((4 << 20) + 5000).expect("it fits");
    let error = copier.fits((4 << 20) + 4999).expect_err("it does not fit").to_string();
    assert!(error.contains("object 12e.1") && error.contains("4199304") && error.contains("4199303"), "{error}");
}
