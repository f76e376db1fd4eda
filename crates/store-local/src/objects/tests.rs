//! Objects on disk, and the trust in them after a clean stop and after a crash.

use std::os::unix::fs::FileExt;
use std::path::Path;

use loligo_store::{BLOCK_SIZE, Backend};
use loligo_types::Random;
use tempfile::TempDir;

use super::epochs::Ended;
use super::header::{HEADER_LEN, Header};
use super::*;
use crate::{FormatOptions, LocalStore, OpenOptions};

const A: ObjectId = ObjectId { ino: 0x10, index: 0 };
const B: ObjectId = ObjectId { ino: 0x20, index: 3 };

fn formatted() -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    LocalStore::format(dir.path(), &FormatOptions::default()).expect("format");
    dir
}

fn open(dir: &TempDir) -> LocalStore {
    LocalStore::open(dir.path(), &OpenOptions::default()).expect("open")
}

/// An opening that keeps only eight objects open, so that every other use opens one anew.
fn open_small(dir: &TempDir) -> LocalStore {
    LocalStore::open(dir.path(), &OpenOptions { open_objects: 1, ..OpenOptions::default() }).expect("open")
}

fn file_of(dir: &Path, id: ObjectId) -> File {
    let path = Paths::new(dir.join("objects")).of(id);
    File::options().read(true).write(true).open(path).expect("the object's file")
}

/// Flips one bit of the object's data behind the store's back.
fn damage(dir: &TempDir, id: ObjectId, at: u64) {
    let file = file_of(dir.path(), id);
    let mut byte = [0];
    file.read_exact_at(&mut byte, DATA_AT + at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], DATA_AT + at).expect("write");
}

fn read(store: &LocalStore, id: ObjectId, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut buf = vec![0; len];
    let n = store.blobs().read_at(id, offset, &mut buf)?;
    buf.truncate(n);
    Ok(buf)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The files of the objects, as a server that is killed now leaves them: dropping a store writes some more.
fn left_by_a_kill(dir: &TempDir, ids: &[ObjectId], store: LocalStore) {
    let paths = Paths::new(dir.path().join("objects"));
    let kept: Vec<_> = ids.iter().map(|id| (paths.of(*id), fs::read(paths.of(*id)).ok())).collect();
    drop(store);
    for (path, bytes) in kept {
        // In place: another file would have another inode.
        match bytes {
            Some(bytes) => fs::write(&path, bytes).expect("restored"),
            None => _ = fs::remove_file(&path),
        }
    }
}

/// From now on it looks as if the machine had failed since the store was open last.
fn machine_failed(dir: &TempDir) {
    let path = dir.path().join("epochs");
    let mut epochs = Epochs::decode("epochs", &fs::read(&path).expect("read")).expect("decode");
    epochs.place.boot = [9; 16];
    fs::write(&path, epochs.encode()).expect("write");
}

#[test]
fn the_bytes_of_a_header_and_of_the_epochs_file_are_fixed() {
    let header = Header { id: ObjectId::new(0x1122_3344, 7), doubts: true, epoch: 5, len: 4097 };
    let golden = "4c4f424a02000000443322110000000007000000000000000500000000000000\
                  01100000000000000000000000000000000000000000000000000000f961b8d7";
    assert_eq!(hex(&header.encode()), golden);
    assert_eq!(Header::decode(header.id, &header.encode()), Ok(Some(header)));
    let place = Place { boot: std::array::from_fn(|at| at as u8 + 1), dir: (0x801, 77) };
    let unclean = [(2, Ended::Crashed), (7, Ended::Settled), (8, Ended::Killed)].into();
    let epochs = Epochs { current: 9, open: true, place, unclean };
    let golden = "4c45504f020000000900000000000000010000000102030405060708090a0b0c0d0e0f1001080000000000004d000000\
                  0000000003000000000000000200000000000000000000000700000000000000020000000800000000000000010000007d2665c5";
    assert_eq!(hex(&epochs.encode()), golden);
    assert_eq!(Epochs::decode("epochs", &epochs.encode()), Ok(epochs));
    assert_eq!(DATA_AT, (1 << 20) + 4096);
}

#[test]
fn version_1_is_read_and_says_nothing_of_blocks_that_were_being_changed() {
    let header = Header { id: ObjectId::new(0x1122_3344, 7), doubts: false, epoch: 5, len: 4097 };
    let golden = "4c4f424a01000000443322110000000007000000000000000500000000000000\
                  0110000000000000000000000000000000000000000000000000000000718b70";
    assert_eq!(hex(&header.encode()), golden);
    assert_eq!(Header::decode(header.id, &header.encode()), Ok(Some(header)));
    let golden = "4c45504f01000000090000000000000001000000020000000000000002000000000000000800000000000000224f4743";
    let bytes: Vec<u8> =
        (0..golden.len()).step_by(2).map(|at| u8::from_str_radix(&golden[at..at + 2], 16).expect("hex")).collect();
    let unclean = [(2, Ended::Crashed), (8, Ended::Crashed)].into();
    let epochs = Epochs { current: 9, open: true, place: Place::default(), unclean };
    assert_eq!(Epochs::decode("epochs", &bytes), Ok(epochs));
}

#[test]
fn damaged_headers_and_epochs_are_refused() {
    let header = Header { id: A, doubts: true, epoch: 5, len: 1 };
    for at in 0..HEADER_LEN {
        let mut bad = header.encode();
        bad[at] ^= 0x80;
        assert!(Header::decode(A, &bad).is_err(), "byte {at}");
    }
    assert!(Header::decode(B, &header.encode()).is_err(), "the header of another object");
    let unclean = [(2, Ended::Killed)].into();
    let epochs = Epochs { current: 9, open: false, place: Place::default(), unclean }.encode();
    for at in 0..epochs.len() {
        let mut bad = epochs.clone();
        bad[at] ^= 0x80;
        assert!(Epochs::decode("epochs", &bad).is_err(), "byte {at}");
        assert!(Epochs::decode("epochs", &epochs[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn damage_in_an_object_is_found_and_named() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, &[7; 20_000]).expect("write");
    store.close().expect("close");
    drop(store);
    damage(&dir, A, 9_000);
    let store = open(&dir);
    assert_eq!(read(&store, A, 0, 8_192), Ok(vec![7; 8_192]), "other blocks are fine");
    let error = read(&store, A, 8_192, 1).expect_err("the block is damaged");
    let StoreError::Corrupt { place, detail } = &error else { panic!("{error}") };
    assert!(place.contains("object 10.0") && detail.contains("byte 8192"), "{error}");
    store.blobs().write_at(A, 8_200, b"part").expect_err("a part of a damaged block is not sealed");
    store.blobs().truncate(A, 8_200).expect_err("nor is what a cut leaves of it");
    store.blobs().write_at(A, 8_192, &[1; 4_096]).expect("a whole block heals it");
    assert_eq!(read(&store, A, 8_192, 4_096), Ok(vec![1; 4_096]));
}

#[test]
fn bytes_in_a_hole_and_a_lost_tail_are_damage() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 3 * BLOCK_SIZE, &[7; 100]).expect("write");
    store.blobs().write_at(B, 0, &[7; 10_000]).expect("write");
    store.close().expect("close");
    drop(store);
    damage(&dir, A, 5_000);
    file_of(dir.path(), B).set_len(DATA_AT + 5_000).expect("set_len");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 4_096, 4_096), Err(StoreError::Corrupt { .. })));
    assert!(matches!(read(&store, B, 0, 100), Err(StoreError::Corrupt { .. })));
    store.blobs().delete(B).expect("a damaged object can be deleted");
    assert_eq!(read(&store, B, 0, 100), Ok(vec![]));
}

#[test]
fn after_a_failure_of_the_machine_only_objects_that_were_open_are_believed() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, &[1; 9_000]).expect("write");
    store.blobs().write_at(B, 0, &[2; 9_000]).expect("write");
    store.close().expect("close");
    drop(store);
    let store = open(&dir);
    store.blobs().write_at(B, 100, b"new").expect("write");
    assert_eq!(read(&store, A, 0, 10), Ok(vec![1; 10]), "reading leaves no mark");
    drop(store);
    // No close came, and blocks of both are not what was written last.
    damage(&dir, A, 50);
    damage(&dir, B, 5_000);
    machine_failed(&dir);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 10), Err(StoreError::Corrupt { .. })), "nobody was writing it");
    let bytes = read(&store, B, 0, 9_000).expect("its checksums are computed anew");
    assert_eq!(bytes.len(), 9_000);
    store.close().expect("close");
    drop(store);
    damage(&dir, B, 7_000);
    let store = open(&dir);
    assert!(matches!(read(&store, B, 4_096, 10), Err(StoreError::Corrupt { .. })), "verified again from then on");
    assert_eq!(read(&store, B, 100, 3), Ok(b"new".to_vec()));
}

#[test]
fn an_object_that_stays_open_and_idle_is_verified_after_a_failure_of_the_machine() {
    let dir = formatted();
    let store = open(&dir);
    let layout = Layout::new(dir.path());
    let room = Arc::new(Room::of(&layout, Some(0)).expect("a disk"));
    drop(store);
    let owner = Arc::new(Owner::Alone(layout.take_lock().expect("nobody has it")));
    let blobs = LocalBlobs::open(&layout, 8, room, Arc::default(), owner).expect("open");
    for id in [A, B] {
        blobs.write_at(id, 0, &[7; 20_000]).expect("write");
        blobs.sync(id).expect("sync");
    }
    blobs.tend(Duration::ZERO);
    // It is being changed again when the machine fails.
    blobs.write_at(B, 0, b"new").expect("write");
    let kept: Vec<_> = [A, B].map(|id| fs::read(Paths::new(layout.objects()).of(id)).expect("a file")).into();
    drop(blobs);
    for (id, bytes) in [A, B].iter().zip(kept) {
        fs::write(Paths::new(layout.objects()).of(*id), bytes).expect("as the failure left it");
    }
    machine_failed(&dir);
    damage(&dir, A, 5000);
    damage(&dir, B, 5000);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 20_000), Err(StoreError::Corrupt { .. })));
    let read = read(&store, B, 0, 20_000).expect("it is taken as its data are");
    assert_eq!((&read[..3], read[5000]), (&b"new"[..], 6));
}

#[test]
fn after_a_kill_only_blocks_that_were_changed_since_the_last_sync_are_believed() {
    let dir = formatted();
    let store = open(&dir);
    let blobs = store.blobs();
    blobs.write_at(A, 0, &[1; 20_000]).expect("write");
    blobs.sync(A).expect("sync");
    blobs.write_at(A, 8_192, &[2; 100]).expect("write");
    blobs.write_at(A, 20_000, &[3; 10_000]).expect("write");
    blobs.write_at(B, 0, &[4; 5_000]).expect("write, and no sync");
    drop(blobs);
    left_by_a_kill(&dir, &[A, B], store);
    damage(&dir, A, 0);
    damage(&dir, A, 13_000);
    let wrong: Vec<String> = crate::LocalCheck::of(dir.path())
        .and_then(|check| check.run(&mut |_| ()))
        .expect("it can be looked at")
        .findings
        .into_iter()
        .map(|finding| finding.text)
        .collect();
    assert!(wrong.len() == 1 && wrong[0].contains("2 of its 5 blocks"), "{wrong:?}");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 10), Err(StoreError::Corrupt { .. })), "it was synced");
    assert!(matches!(read(&store, A, 12_288, 10), Err(StoreError::Corrupt { .. })), "that, too");
    assert_eq!(read(&store, A, 4_096, 4_196), Ok([vec![1; 4_096], vec![2; 100]].concat()));
    assert_eq!(read(&store, A, 16_384, 20_000), Ok([vec![1; 3_616], vec![3; 10_000]].concat()));
    assert_eq!(read(&store, B, 0, 9_000), Ok(vec![4; 5_000]));
    // So it stays: with a change, over another kill, over a clean end.
    store.blobs().write_at(A, 16_384, &[5; 10]).expect("write");
    left_by_a_kill(&dir, &[A, B], store);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 10), Err(StoreError::Corrupt { .. })));
    assert_eq!(read(&store, A, 16_384, 10), Ok(vec![5; 10]));
    store.close().expect("close");
    drop(store);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 12_288, 10), Err(StoreError::Corrupt { .. })));
    store.blobs().write_at(A, 0, &[6; 4_096]).expect("a whole block heals it");
    assert_eq!(read(&store, A, 0, 10), Ok(vec![6; 10]));
}

#[test]
fn a_kill_right_after_a_write_that_the_journal_has_leaves_no_block_in_doubt() {
    let dir = formatted();
    let store = open(&dir);
    let blobs = store.blobs();
    blobs.write_at(A, 0, &[1; 20_000]).expect("write");
    blobs.sync(A).expect("sync");
    blobs.write_logged(A, 5_000, &[2; 100]).expect("write");
    drop(blobs);
    left_by_a_kill(&dir, &[A], store);
    damage(&dir, A, 4_200);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 4_096, 10), Err(StoreError::Corrupt { .. })), "the rest of the block was synced");
    assert_eq!(read(&store, A, 8_192, 10), Ok(vec![1; 10]));
}

#[test]
fn a_spoilt_block_stays_damaged_until_it_is_written_as_a_whole() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, &[1; 20_000]).expect("write");
    store.blobs().sync(A).expect("sync");
    store.blobs().spoil(A, 5_000, 100).expect("spoilt");
    store.blobs().spoil(A, 1 << 20, 4_096).expect("nothing is there");
    assert!(matches!(read(&store, A, 4_096, 10), Err(StoreError::Corrupt { .. })));
    assert!(matches!(store.blobs().write_at(A, 5_000, &[2; 10]), Err(StoreError::Corrupt { .. })));
    assert_eq!((read(&store, A, 0, 10), read(&store, A, 8_192, 10)), (Ok(vec![1; 10]), Ok(vec![1; 10])));
    store.blobs().sync(A).expect("sync");
    left_by_a_kill(&dir, &[A], store);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 4_096, 10), Err(StoreError::Corrupt { .. })));
    store.blobs().write_at(A, 4_096, &[3; 4_096]).expect("a whole block heals it");
    assert_eq!(read(&store, A, 4_096, 10), Ok(vec![3; 10]));
}

#[test]
fn an_object_that_cannot_be_opened_is_set_aside_and_counts_as_lost() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, &[1; 5_000]).expect("write");
    store.blobs().sync(A).expect("sync");
    store.close().expect("close");
    drop(store);
    let path = Paths::new(dir.path().join("objects")).of(A);
    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("something that no file can be opened in place of");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 10), Err(StoreError::Io { .. })));
    store.blobs().spoil(A, 0, 10).expect("set aside");
    assert!(!path.exists());
    assert!(matches!(read(&store, A, 0, 10), Err(StoreError::Corrupt { .. })), "its witness speaks");
    store.blobs().delete(A).expect("that ends it");
    assert_eq!(read(&store, A, 0, 10), Ok(vec![]));
}

#[test]
fn an_object_that_lost_its_end_since_a_kill_is_damaged_unless_it_was_cut() {
    let dir = formatted();
    let store = open(&dir);
    let blobs = store.blobs();
    for id in [A, B] {
        blobs.write_at(id, 0, &[1; 20_000]).expect("write");
        blobs.sync(id).expect("sync");
    }
    blobs.truncate(B, 5_000).expect("truncate");
    drop(blobs);
    left_by_a_kill(&dir, &[A, B], store);
    file_of(dir.path(), A).set_len(DATA_AT + 9_000).expect("set_len");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 10), Err(StoreError::Corrupt { .. })));
    assert_eq!(read(&store, B, 0, 9_000), Ok(vec![1; 5_000]));
}

#[test]
fn a_kill_at_any_time_loses_nothing_and_hides_no_damage() {
    let mut rng = Random::new(1);
    let dir = formatted();
    let ids = [A, B, ObjectId::new(0x10, 1)];
    let mut all: Vec<Vec<u8>> = vec![Vec::new(); ids.len()];
    let mut last = 0;
    for round in 0..60 {
        let store = if round % 2 == 0 { open(&dir) } else { open_small(&dir) };
        let blobs = store.blobs();
        for (id, bytes) in ids.iter().zip(&all) {
            assert!(read(&store, *id, 0, 100_000).as_ref() == Ok(bytes), "round {round}, after {last}: {id}");
        }
        // Nothing was changed since the sync: each block is checked.
        let mut synced = false;
        last = rng.below(25);
        for _ in 0..last {
            let which = rng.below(3) as usize;
            let (id, bytes) = (ids[which], &mut all[which]);
            let (at, len) = (rng.below(60_000) as usize, rng.below(9_000) as usize);
            synced = false;
            match rng.below(8) {
                0..=3 => {
                    let data = vec![1 + rng.below(255) as u8; len];
                    blobs.write_at(id, at as u64, &data).expect("write");
                    if len > 0 {
                        bytes.resize(bytes.len().max(at + len), 0);
                        bytes[at..at + len].copy_from_slice(&data);
                    }
                }
                4 if !bytes.is_empty() => {
                    blobs.truncate(id, at as u64).expect("truncate");
                    bytes.resize(at, 0);
                }
                5 => {
                    blobs.punch(id, at as u64, len as u64).expect("punch");
                    let end = bytes.len().min(at + len);
                    bytes[at.min(end)..end].fill(0);
                }
                _ => {
                    ids.iter().for_each(|id| blobs.sync(*id).expect("sync"));
                    synced = true;
                }
            }
        }
        drop(blobs);
        match rng.below(4) {
            0 => {
                store.close().expect("close");
                drop(store);
            }
            1 => drop(store),
            _ => left_by_a_kill(&dir, &ids, store),
        }
        let at = rng.below(60_000);
        if synced && at < all[0].len() as u64 {
            damage(&dir, A, at);
            let store = open(&dir);
            assert!(matches!(read(&store, A, at, 1), Err(StoreError::Corrupt { .. })), "round {round}: byte {at}");
            damage(&dir, A, at);
        }
    }
}

#[test]
fn the_mark_is_on_the_file_before_the_first_change() {
    let dir = formatted();
    for round in 1..4u64 {
        let store = open(&dir);
        store.blobs().write_at(A, round * 10, &[1; 5]).expect("write");
        let mut head = [0; HEADER_LEN];
        file_of(dir.path(), A).read_exact_at(&mut head, 0).expect("read");
        let header = Header::decode(A, &head).expect("decode");
        let epoch = header.map_or(0, |h| h.epoch);
        assert_eq!(epoch, round);
        store.close().expect("close");
    }
}

#[test]
fn objects_pushed_out_of_the_cache_are_verified_when_they_come_back() {
    let dir = formatted();
    let store = open_small(&dir);
    let ids: Vec<ObjectId> = (0..100).map(|i| ObjectId::new(i % 7, i)).collect();
    for (n, id) in ids.iter().enumerate() {
        store.blobs().write_at(*id, 5, &vec![n as u8; 5_000]).expect("write");
        if n % 2 == 0 {
            store.blobs().sync(*id).expect("sync");
        }
    }
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(read(&store, *id, 5, 6_000), Ok(vec![n as u8; 5_000]));
        store.blobs().write_at(*id, 0, b"again").expect("write");
    }
    damage(&dir, ids[0], 4_500);
    assert!(matches!(read(&store, ids[0], 0, 6_000), Err(StoreError::Corrupt { .. })));
    store.close().expect("close");
    drop(store);
    let store = open(&dir);
    for (n, id) in ids.iter().enumerate().skip(1) {
        let bytes = read(&store, *id, 0, 6_000).expect("read");
        assert_eq!((&bytes[..5], &bytes[5..]), (b"again".as_slice(), vec![n as u8; 5_000].as_slice()));
    }
}

#[test]
fn a_header_that_was_never_written_is_damage_unless_the_machine_failed() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, &[1; 100]).expect("write");
    store.close().expect("close");
    drop(store);
    file_of(dir.path(), A).write_all_at(&[0; HEADER_LEN], 0).expect("write");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 1), Err(StoreError::Corrupt { .. })));
    drop(store);
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 1), Err(StoreError::Corrupt { .. })), "a kill loses no header");
    drop(store);
    machine_failed(&dir);
    let store = open(&dir);
    assert_eq!(read(&store, A, 0, 1), Ok(vec![1]), "it may be one that was just being made");
}

#[test]
fn an_object_file_that_was_emptied_is_damage_and_one_that_was_just_made_when_its_server_was_killed_is_none() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, &[1; 100]).expect("write");
    store.close().expect("close");
    drop(store);
    file_of(dir.path(), A).set_len(0).expect("emptied");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 1), Err(StoreError::Corrupt { .. })));
    assert!(matches!(store.blobs().write_at(A, 50, &[2]), Err(StoreError::Corrupt { .. })), "not covered up");
    store.blobs().write_at(B, 0, &[1; 100]).expect("write, and no sync");
    left_by_a_kill(&dir, &[A, B], store);
    file_of(dir.path(), B).set_len(0).expect("emptied");
    let store = open(&dir);
    assert!(matches!(read(&store, A, 0, 1), Err(StoreError::Corrupt { .. })), "that has nothing to do with the kill");
    assert_eq!((read(&store, B, 0, 1), store.blobs().len(B)), (Ok(vec![]), Ok(None)));
    store.blobs().write_at(B, 0, &[3; 10]).expect("it is made");
    assert_eq!(read(&store, B, 0, 100), Ok(vec![3; 10]));
}

#[test]
fn old_checksums_behind_a_cut_do_not_come_back() {
    let dir = formatted();
    let store = open_small(&dir);
    let blobs = store.blobs();
    blobs.write_at(A, 0, &[1; 40_960]).expect("write");
    blobs.sync(A).expect("sync");
    blobs.truncate(A, 100).expect("truncate");
    blobs.sync(A).expect("sync");
    blobs.write_at(A, 36_864, &[2; 10]).expect("write");
    drop(blobs);
    store.close().expect("close");
    drop(store);
    let store = open(&dir);
    let bytes = read(&store, A, 0, 50_000).expect("holes are holes");
    assert_eq!(bytes.len(), 36_874);
    assert!(bytes[100..36_864].iter().all(|b| *b == 0));
}

#[test]
fn directories_of_buckets_go_with_a_clean_end_when_they_are_empty() {
    let dir = formatted();
    let dirs = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).expect("read_dir").map(|entry| entry.expect("entry").path());
        entries.filter(|path| path.is_dir()).collect()
    };
    let buckets = || dirs(&dir.path().join("objects")).iter().map(|outer| dirs(outer).len()).sum::<usize>();
    let store = open(&dir);
    for ino in 0..50 {
        store.blobs().write_at(ObjectId::new(ino, 0), 0, b"x").expect("write");
    }
    let made = buckets();
    (1..50).for_each(|ino| store.blobs().delete(ObjectId::new(ino, 0)).expect("delete"));
    assert_eq!(buckets(), made);
    store.close().expect("close");
    drop(store);
    assert_eq!(buckets(), 1);
    let store = open(&dir);
    assert_eq!(read(&store, ObjectId::new(0, 0), 0, 10), Ok(b"x".to_vec()));
    store.blobs().write_at(ObjectId::new(1, 0), 0, b"y").expect("in a bucket that was removed");
    store.blobs().sync(ObjectId::new(1, 0)).expect("sync");
}

fn strays(store: &LocalStore) -> Vec<u64> {
    let mut all = std::collections::BTreeSet::new();
    let mut visit = |ino| {
        all.insert(ino);
        ControlFlow::Continue(())
    };
    store.blobs().visit_strays(&mut visit).expect("they can be listed");
    all.into_iter().collect()
}

#[test]
fn after_a_kill_the_inodes_come_that_got_objects_since_until_they_were_searched() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, b"before").expect("write");
    store.close().expect("a clean end");
    drop(store);
    // Made three seconds before.
    let early = std::time::SystemTime::now() + Duration::from_secs(3);
    let store = open(&dir);
    assert_eq!(strays(&store), []);
    let mark =
        File::options().write(true).open(dir.path().join("strays")).expect("it is there while the store is open");
    mark.set_modified(early).expect("set");
    drop(store);
    let store = open(&dir);
    assert_eq!(strays(&store), [], "the object is older");
    mark.set_modified(std::time::SystemTime::now()).expect("set");
    store.blobs().write_at(B, 0, b"after").expect("write");
    drop(store);
    let store = open(&dir);
    assert_eq!(strays(&store), [A.ino, B.ino], "within the slack of two seconds");
    store.close().expect("a clean end");
    drop(store);
    let store = open(&dir);
    assert_eq!(strays(&store), [A.ino, B.ino], "a search that did not end goes on");
    store.blobs().strays_dropped().expect("noted");
    assert_eq!(strays(&store), []);
    store.close().expect("a clean end");
    assert!(!dir.path().join("strays").exists(), "there is nothing to search");
    drop(store);
    assert_eq!(strays(&open(&dir)), []);
}

#[test]
fn after_a_kill_of_a_release_without_the_file_all_objects_come() {
    let dir = formatted();
    let store = open(&dir);
    store.blobs().write_at(A, 0, b"x").expect("write");
    fs::remove_file(dir.path().join("strays")).expect("there");
    drop(store);
    assert_eq!(strays(&open(&dir)), [A.ino]);
}
