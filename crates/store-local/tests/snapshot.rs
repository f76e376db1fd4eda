//! Snapshots of a data directory that is being changed: they are of one moment, and never hinder who changes it. Not here: copying one
//! (`crates/cli/tests/cli/moment.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loligo_store::{Backend, Batch, Blobs, Durability, ObjectId, Segment, SnapshotState, Snapshots, StoreError};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use tempfile::TempDir;

fn formatted() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    LocalStore::format(dir.path(), &FormatOptions::default()).expect("it is empty");
    dir
}

fn open(dir: &Path) -> LocalStore {
    LocalStore::open(dir, &OpenOptions::default()).expect("it was formatted")
}

fn read_only(dir: &Path) -> Result<LocalStore, StoreError> {
    LocalStore::open(dir, &OpenOptions { read_only: true, ..OpenOptions::default() })
}

fn snapshots(store: &LocalStore) -> Arc<dyn Snapshots> {
    store.snapshots().expect("it makes some")
}

/// All steps at once.
fn snapshot(store: &LocalStore) -> PathBuf {
    let snapshots = snapshots(store);
    snapshots.prepare().expect("there is none");
    snapshots.cut().expect("it was prepared");
    snapshots.complete().expect("it was cut")
}

fn bytes(blobs: &dyn Blobs, id: ObjectId) -> Option<Vec<u8>> {
    let len = blobs.len(id).expect("it can be looked at")?;
    let mut buf = vec![0; len as usize];
    assert_eq!(blobs.read_at(id, 0, &mut buf), Ok(buf.len()));
    Some(buf)
}

fn put(store: &LocalStore, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(key, value);
    store.table().write(&batch, Durability::Buffered).expect("it is written");
}

fn segment(store: &LocalStore, rank: u32, id: u64) -> Vec<u8> {
    let log = store.log_dir(rank).expect("a directory");
    let reader = log.open(id).expect("it is there");
    let mut buf = vec![0; reader.len().expect("it has a length") as usize];
    assert_eq!(reader.read_at(0, &mut buf), Ok(buf.len()));
    buf
}

/// Objects, each changed in another way after the cut; so is everything else.
struct Filled {
    ids: Vec<ObjectId>,
}

const NEVER: ObjectId = ObjectId { ino: 0x900, index: 0 };

impl Filled {
    fn new(store: &LocalStore) -> Filled {
        let ids: Vec<ObjectId> = (0..12).map(|n| ObjectId::new(0x100 + n / 3, n % 3)).collect();
        for (n, id) in ids.iter().enumerate() {
            store.blobs().write_at(*id, 100, &vec![n as u8 + 1; 20_000]).expect("it is written");
        }
        // Some are synced, and so some have their checksums in their files.
        ids.iter().step_by(2).for_each(|id| store.blobs().sync(*id).expect("it is synced"));
        put(store, b"row", b"before");
        for rank in [0, 3] {
            let log = store.log_dir(rank).expect("a directory");
            for id in [1, 2] {
                let mut file = log.create(id).expect("it is new");
                file.append(format!("rank {rank} segment {id}").as_bytes()).expect("it is appended");
                file.sync().expect("it is synced");
            }
        }
        Filled { ids }
    }

    /// Changes a third of the objects, and some of all else.
    fn change(&self, store: &LocalStore, round: usize) {
        let blobs = store.blobs();
        let id = |n: usize| self.ids[4 * round + n];
        blobs.write_at(id(0), 5_000, b"changed in place").expect("it is written");
        blobs.sync(id(0)).expect("it is synced");
        blobs.truncate(id(1), 10).expect("it is cut");
        blobs.punch(id(2), 0, 12_288).expect("it is punched");
        blobs.delete(id(3)).expect("it is removed");
        if round == 1 {
            blobs.write_at(id(3), 0, b"another one of the same name").expect("it is made");
        }
        blobs.write_at(ObjectId::new(NEVER.ino, round as u64), 0, b"made after the cut").expect("it is made");
        blobs.sync_all().expect("they are synced");
        put(store, b"row", format!("after {round}").as_bytes());
        put(store, format!("new {round}").as_bytes(), b"");
        let log = store.log_dir(3).expect("a directory");
        log.open_append(2).and_then(|mut file| file.append(b", and more")).expect("it is appended");
        match round {
            0 => log.truncate(1, 4).expect("it is cut"),
            _ => log.delete(1).expect("it is removed"),
        }
        log.create(10 + round as u64).expect("it is new");
    }

    fn check(&self, copy: &LocalStore) {
        for (n, id) in self.ids.iter().enumerate() {
            let want = [vec![0; 100], vec![n as u8 + 1; 20_000]].concat();
            assert!(bytes(&*copy.blobs(), *id) == Some(want), "object {n}");
        }
        for index in 0..3 {
            assert_eq!(bytes(&*copy.blobs(), ObjectId::new(NEVER.ino, index)), None);
        }
        let mut lost = 0;
        copy.blobs().lost(&mut |_, _| lost += 1).expect("it can be looked for");
        assert_eq!(lost, 0);
        assert_eq!(copy.table().scan(b"", b"", 10), Ok(vec![(b"row".to_vec(), b"before".to_vec())]));
        assert_eq!(copy.ranks(), Ok(vec![0, 3]));
        for rank in [0, 3] {
            let log = copy.log_dir(rank).expect("it is there");
            let list: Vec<u64> = log.list().expect("it can be listed").iter().map(|segment| segment.id).collect();
            assert_eq!(list, [1, 2]);
            let want = format!("rank {rank} segment 2");
            assert_eq!(log.synced(), Ok(Some(Segment { id: 2, len: want.len() as u64 })));
            assert_eq!(segment(copy, rank, 1), format!("rank {rank} segment 1").as_bytes());
            assert_eq!(segment(copy, rank, 2), want.as_bytes());
        }
    }
}

#[test]
fn a_snapshot_that_is_made_when_the_store_is_closed_ends_by_name_and_leaves_nothing() {
    let dir = formatted();
    let store = open(dir.path());
    Filled::new(&store);
    let snapshots = snapshots(&store);
    snapshots.prepare().expect("there is none");
    snapshots.cut().expect("it was prepared");
    let refused = snapshots.remove().expect_err("it is being made").to_string();
    assert!(refused.contains("wait for it") && !refused.contains("kernel"), "{refused}");
    store.close().expect("it closes");
    assert!(!dir.path().join("snapshot").exists());
    let told = snapshots.complete().expect_err("it has ended").to_string();
    assert!(told.contains("the server was stopped while the snapshot was made"), "{told}");
    assert_eq!(snapshots.state(), SnapshotState::None);
}

/// All files of a directory with what is in them.
fn all_of(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path()) {
        // The lock says which process had it last.
        match entry.is_dir() {
            true => all.extend(all_of(&entry)),
            false if entry.ends_with("lock") => {}
            false => all.push((entry.clone(), fs::read(&entry).expect("a file"))),
        }
    }
    all.sort();
    all
}

#[test]
fn one_who_only_looks_changes_nothing_whatever_was_left_and_keeps_others_out() {
    let dir = formatted();
    let looks = || LocalStore::open(dir.path(), &OpenOptions { looks: true, ..OpenOptions::default() });
    let store = open(dir.path());
    let filled = Filled::new(&store);
    let snapshot = snapshot(&store);
    let reader = read_only(&snapshot).expect("it is whole");
    // Without being closed, as if it had been killed.
    drop(store);
    let before = all_of(dir.path());
    let looked = looks().expect("nobody has it");
    assert!(matches!(looks(), Err(StoreError::InUse { .. })));
    filled.check(&looked);
    let refused = looked.blobs().write_at(filled.ids[0], 0, b"no");
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    looked.close().expect("there is nothing to do");
    drop(looked);
    assert!(all_of(dir.path()) == before);
    assert!(reader.lease().expect("it tells").holds());
    filled.check(&reader);
}

#[test]
fn a_snapshot_is_of_the_moment_of_its_cut_whatever_is_changed_then() {
    for is_killed_before in [false, true] {
        let dir = formatted();
        let mut store = open(dir.path());
        let filled = Filled::new(&store);
        if is_killed_before {
            drop(store);
            store = open(dir.path());
        }
        let snapshots = snapshots(&store);
        snapshots.prepare().expect("there is none");
        assert_eq!(snapshots.state(), SnapshotState::Making { objects: 0 });
        snapshots.cut().expect("it was prepared");
        filled.change(&store, 0);
        assert!(matches!(snapshots.remove(), Err(StoreError::NotNow { .. })), "it is being made");
        let path = snapshots.complete().expect("it was cut");
        assert_eq!(snapshots.state(), SnapshotState::Whole { path: path.clone() });
        filled.change(&store, 1);
        let copy = read_only(&path).expect("it is whole");
        assert_eq!(copy.identity(), store.identity());
        filled.check(&copy);
        // Also what is changed while it is read.
        filled.change(&store, 2);
        filled.check(&copy);
        drop(copy);
        filled.check(&read_only(&path).expect("it is whole"));
        let blobs = store.blobs();
        assert_eq!(bytes(&*blobs, filled.ids[3]), None, "removed");
        assert_eq!(bytes(&*blobs, filled.ids[9]).map(|bytes| bytes.len()), Some(10), "the store itself goes on");
        snapshots.remove().expect("nobody reads it");
        assert!(!path.exists());
        drop((blobs, snapshots));
        store.close().expect("it is closed");
    }
}

#[test]
fn what_several_threads_write_one_after_the_other_is_in_a_snapshot_in_that_order() {
    const WRITERS: u64 = 4;
    let dir = formatted();
    let store = open(dir.path());
    let (ends, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let id = |writer| ObjectId::new(0x50 + writer, 0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, ends, rounds) = (&store, &ends, &rounds);
            scope.spawn(move || {
                let log = store.log_dir(writer as u32).expect("a directory");
                let mut file = log.create(1).expect("it is new");
                let mut n = 0u64;
                while !ends.load(Ordering::Relaxed) {
                    n += 1;
                    store.blobs().write_at(id(writer), 0, &n.to_le_bytes().repeat(1024)).expect("it is written");
                    file.append(&n.to_le_bytes()).expect("it is appended");
                    put(store, &[writer as u8], &n.to_le_bytes());
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes[bytes.len() - 8..].try_into().expect("8 bytes"));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..8 {
                let before = rounds.load(Ordering::Relaxed);
                while rounds.load(Ordering::Relaxed) < before + 50 {
                    std::thread::yield_now();
                }
                let path = snapshot(&store);
                let copy = read_only(&path).expect("it is whole");
                for writer in 0..WRITERS {
                    let Some(object) = bytes(&*copy.blobs(), id(writer)).filter(|object| !object.is_empty()) else {
                        continue;
                    };
                    assert!(object.chunks(8).all(|chunk| chunk == &object[..8]), "a write is there as a whole");
                    let object = number(&object);
                    let journal = segment(&copy, writer as u32, 1);
                    let journal = if journal.is_empty() { 0 } else { number(&journal) };
                    let row = copy.table().get(&[writer as u8]).expect("it can be read").map_or(0, |row| number(&row));
                    assert!(
                        object >= journal && journal >= row && row + 1 >= object,
                        "writer {writer}: object {object}, journal {journal}, row {row}"
                    );
                }
                drop(copy);
                snapshots(&store).remove().expect("nobody reads it");
            }
        }));
        ends.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}

#[test]
fn what_a_killed_server_has_left_of_a_snapshot_is_removed_and_its_reader_is_told() {
    let dir = formatted();
    for step in 0..3 {
        let store = open(dir.path());
        let filled = (step == 0).then(|| Filled::new(&store));
        let snapshots = snapshots(&store);
        snapshots.prepare().expect("there is none");
        if step > 0 {
            snapshots.cut().expect("it was prepared");
        }
        let path = dir.path().join("snapshot");
        let reader = (step > 1).then(|| {
            snapshots.complete().expect("it was cut");
            read_only(&path).expect("it is whole")
        });
        if step < 2 {
            assert!(matches!(read_only(&path), Err(StoreError::NotFound { .. } | StoreError::Foreign { .. })), "half");
        }
        // As if it had been killed.
        drop((snapshots, store, filled));
        let lease = reader.as_ref().and_then(Backend::lease);
        assert!(lease.as_ref().is_none_or(|lease| lease.holds()), "it can be read also without a server");
        let store = open(dir.path());
        assert!(!path.exists(), "step {step}");
        assert!(lease.is_none_or(|lease| lease.lost().is_some()));
        assert_eq!(store.snapshots().expect("it makes some").state(), SnapshotState::None);
    }
}

/// The file of an object below a directory.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).find_map(|path| {
        if path.is_dir() { find(&path, name) } else { path.file_name().is_some_and(|it| it == name).then_some(path) }
    })
}

#[test]
fn a_snapshot_that_cannot_keep_an_object_is_broken_and_the_write_succeeds() {
    let dir = formatted();
    let store = open(dir.path());
    let filled = Filled::new(&store);
    let snapshots = snapshots(&store);
    let path = snapshot(&store);
    let reader = read_only(&path).expect("it is whole");
    let lease = reader.lease().expect("it tells whether it holds");
    assert!(lease.holds());
    let kept = find(&path.join("objects"), "100.0").expect("it is there");
    fs::create_dir(kept.with_file_name("100.0.copy")).expect("nothing is there");
    store.blobs().write_at(filled.ids[0], 0, b"new").expect("it is written all the same");
    assert!(matches!(snapshots.state(), SnapshotState::Broken { cause } if cause.contains("object 100.0")));
    assert!(lease.lost().is_some() && !lease.holds());
    assert!(
        matches!(reader.blobs().read_at(filled.ids[1], 0, &mut [0]), Err(StoreError::Io { cause, .. }) if cause.contains("broken"))
    );
    assert!(matches!(read_only(&path), Err(StoreError::NotFound { what }) if what.contains("whole snapshot")));
    drop((reader, lease));
    snapshots.remove().expect("nobody reads it");
    // The next one is sound, and one that breaks before it is whole is none.
    snapshots.prepare().expect("there is none");
    snapshots.cut().expect("it was prepared");
    fs::create_dir_all(
        path.join("objects").join(kept.strip_prefix(path.join("objects")).expect("below")).with_file_name("100.0.copy"),
    )
    .expect("nothing is there");
    store.blobs().write_at(filled.ids[0], 0, b"newer").expect("it is written all the same");
    assert!(matches!(snapshots.complete(), Err(StoreError::Io { cause, .. }) if cause.contains("object 100.0")));
    assert_eq!((snapshots.state(), path.exists()), (SnapshotState::None, false));
    assert!(read_only(&snapshot(&store)).is_ok());
}

#[test]
fn a_snapshot_is_not_removed_while_it_is_read_and_never_written() {
    let dir = formatted();
    let store = open(dir.path());
    let filled = Filled::new(&store);
    let snapshots = snapshots(&store);
    let path = snapshot(&store);
    let (one, two) = (read_only(&path).expect("it is whole"), read_only(&path).expect("several may read it"));
    assert!(snapshots.is_used());
    assert!(matches!(snapshots.remove(), Err(StoreError::InUse { .. })));
    assert!(matches!(snapshots.prepare(), Err(StoreError::InUse { .. })));
    let id = filled.ids[0];
    let mut batch = Batch::new();
    batch.put(b"row", b"other");
    let refused = [
        one.blobs().write_at(id, 0, b"x"),
        one.blobs().truncate(id, 0),
        one.blobs().punch(id, 0, 4096),
        one.blobs().delete(id),
        one.table().write(&batch, Durability::Sync),
        one.log_dir(0).and_then(|log| log.delete(1)),
        one.log_dir(0).and_then(|log| log.truncate(1, 0)),
        one.log_dir(0).and_then(|log| log.create(9).map(drop)),
        one.log_dir(7).and_then(|log| log.open_append(1).map(drop)),
    ];
    for error in refused {
        assert!(matches!(&error, Err(StoreError::ReadOnly { .. })), "{error:?}");
    }
    assert!(one.snapshots().is_none() && one.log_dir(7).and_then(|log| log.list()) == Ok(vec![]));
    assert_eq!((one.blobs().sync_all(), one.close()), (Ok(()), Ok(())));
    filled.check(&one);
    drop(one);
    assert!(snapshots.is_used());
    // The server goes, and the reader has what it reads.
    drop(snapshots);
    store.close().expect("it is closed");
    drop(store);
    filled.check(&two);
    assert!(two.lease().expect("it tells whether it holds").holds());
}

#[test]
fn a_snapshot_has_a_segment_as_it_was_though_it_grows_within_its_file() {
    let dir = formatted();
    let store = open(dir.path());
    let log = store.log_dir(0).expect("a directory");
    let mut file = log.create(1).expect("it is new");
    file.append(b"before").and_then(|()| file.sync()).expect("it is durable");
    let copy = snapshot(&store);
    file.append(b" and after").and_then(|()| file.sync()).expect("it is durable");
    let copy = read_only(&copy).expect("it opens");
    assert_eq!(segment(&copy, 0, 1), b"before");
    assert_eq!(segment(&store, 0, 1), b"before and after");
}

#[test]
fn an_object_that_is_lost_is_lost_in_the_snapshot_and_no_hole() {
    let dir = formatted();
    let store = LocalStore::open(dir.path(), &OpenOptions { open_objects: 1, ..OpenOptions::default() }).expect("open");
    let filled = Filled::new(&store);
    fs::remove_file(find(&dir.path().join("objects"), "101.1").expect("it is there")).expect("it is removed");
    let copy = read_only(&snapshot(&store)).expect("it is whole");
    let mut lost = Vec::new();
    copy.blobs().lost(&mut |id, _| lost.push(id)).expect("it can be looked for");
    assert_eq!(lost, [Some(ObjectId::new(0x101, 1))]);
    assert!(matches!(copy.blobs().read_at(filled.ids[4], 0, &mut [0]), Err(StoreError::Corrupt { .. })));
}

#[test]
fn who_reads_an_object_while_it_is_changed_for_the_first_time_sees_what_was_there() {
    let dir = formatted();
    let store = open(dir.path());
    let ids: Vec<ObjectId> = (0..64).map(|n| ObjectId::new(0x300 + n, 0)).collect();
    ids.iter().for_each(|id| store.blobs().write_at(*id, 0, &[7; 50_000]).expect("it is written"));
    for round in 0..3 {
        let copy = read_only(&snapshot(&store)).expect("it is whole");
        let value = bytes(&*copy.blobs(), ids[0]).expect("it is there")[0];
        std::thread::scope(|scope| {
            let blobs = store.blobs();
            let changed = &ids;
            scope.spawn(move || {
                for id in changed {
                    blobs.write_at(*id, 0, &[round + 20; 50_000]).expect("it is written");
                    blobs.sync(*id).expect("it is synced");
                }
            });
            for id in ids.iter().chain(&ids) {
                let read = bytes(&*copy.blobs(), *id).expect("it is there");
                assert!(read.len() == 50_000 && read.iter().all(|byte| *byte == value), "{id}");
            }
        });
        drop(copy);
        snapshots(&store).remove().expect("nobody reads it");
    }
}
