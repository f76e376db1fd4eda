//! A table that has lost the end of its log: it is refused and found, and goes on once it was said. Also what must not be taken for that. The
//! state after a kill is a copy of the directory of an open store. Not the bytes of the mark (`marks.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use loligo_store::{Backend, Batch, Durability, StoreError};
use loligo_store_local::{FormatOptions, LocalCheck, LocalStore, OpenOptions, Salvaged};
use loligo_types::Random;
use tempfile::TempDir;

fn formatted() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let data = dir.path().join("data");
    LocalStore::format(&data, &FormatOptions::default()).expect("it is empty");
    (dir, data)
}

fn open(data: &Path) -> loligo_store::Result<LocalStore> {
    LocalStore::open(data, &OpenOptions::default())
}

fn looks(data: &Path) -> loligo_store::Result<LocalStore> {
    LocalStore::open(data, &OpenOptions { looks: true, ..OpenOptions::default() })
}

fn put(store: &LocalStore, key: &str, durability: Durability) {
    let mut batch = Batch::new();
    batch.put(key, "a value of some length");
    store.table().write(&batch, durability).expect("there is room");
}

/// The directory as a kill in this moment would leave it.
fn killed(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            killed(&path, &to);
        } else {
            fs::copy(&path, &to).expect("copied");
        }
    }
}

/// The newest log of the table.
fn log(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("table")).expect("a table").flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "log")).max().expect("it has a log")
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path());
    files.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

/// Findings of a check that say that something is wrong.
fn wrong(data: &Path) -> Vec<String> {
    let checked = LocalCheck::of(data).and_then(|check| check.run(&mut |_| {})).expect("it can be read");
    checked.findings.into_iter().filter(|finding| finding.is_wrong).map(|finding| finding.text).collect()
}

/// The mark of the table: 0 if there is none.
fn mark(data: &Path) -> u64 {
    let bytes = fs::read(data.join("marks")).expect("it is there");
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    [768, 1280].into_iter().max_by_key(|at| number(*at)).map_or(0, |at| number(at + 8))
}

/// Spoils a log.
type Spoil = fn(&Path);

const SPOILS: [(&str, Spoil); 6] = [
    ("its last bytes", |log| cut(log, log.metadata().expect("there").len() - 40)),
    ("its half", |log| cut(log, log.metadata().expect("there").len() / 2)),
    ("all of it", |log| cut(log, 0)),
    ("removed", |log| fs::remove_file(log).expect("removed")),
    ("zeros at its end", |log| zeros(log, 1, 2)),
    ("zeros", |log| zeros(log, 0, 1)),
];

fn cut(path: &Path, len: u64) {
    fs::File::options().write(true).open(path).and_then(|file| file.set_len(len)).expect("cut");
}

/// Zeros from this part of the file on.
fn zeros(path: &Path, part: u64, of: u64) {
    let file = fs::File::options().write(true).open(path).expect("there");
    let len = file.metadata().expect("there").len();
    let from = len * part / of;
    file.write_all_at(&vec![0; (len - from) as usize], from).expect("written");
}

#[test]
fn a_table_without_the_end_of_its_log_is_refused_and_found_and_goes_on_once_that_was_said() {
    let (dir, data) = formatted();
    let store = open(&data).expect("formatted");
    put(&store, "first", Durability::Sync);
    put(&store, "listed", Durability::Buffered);
    put(&store, "revoked", Durability::Sync);
    for (at, (what, spoil)) in SPOILS.into_iter().enumerate() {
        let copy = dir.path().join(at.to_string());
        killed(&data, &copy);
        assert_eq!(wrong(&copy), Vec::<String>::new(), "{what}");
        spoil(&log(&copy));
        let before = contents(&copy.join("table"));
        let epochs = fs::read(copy.join("epochs")).expect("there");
        let found = wrong(&copy);
        assert!(found.len() == 1 && found[0].contains("was durable up to change 3"), "{what}: {found:?}");
        for opened in [looks(&copy), open(&copy)] {
            let error = opened.err().expect(what);
            let text = error.to_string();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{what}: {text}");
            assert!(text.contains("the end of its log is lost") && text.contains("fsck --repair"), "{what}: {text}");
        }
        assert_eq!(contents(&copy.join("table")), before, "{what}: what is refused is left as it is");
        assert_eq!(fs::read(copy.join("epochs")).expect("there"), epochs, "{what}");
        let salvaged = LocalStore::salvage(&copy, &OpenOptions::default()).expect(what);
        let Some(Salvaged::Shortened { last, mark: 3 }) = salvaged else { panic!("{what}: {salvaged:?}") };
        assert!(last < 3, "{what}: {last}");
        assert_eq!(LocalStore::salvage(&copy, &OpenOptions::default()), Ok(None), "{what}: nothing is left to do");
        assert_eq!(wrong(&copy), Vec::<String>::new(), "{what}");
        let store = open(&copy).expect(what);
        assert_eq!(store.table().get(b"revoked"), Ok(None), "{what}: it is lost");
        // And from there on it counts again.
        put(&store, "later", Durability::Sync);
        assert_eq!(mark(&copy), last + 1, "{what}");
        store.close().expect(what);
    }
}

#[test]
fn a_sync_of_earlier_batches_counts_as_one_of_its_own() {
    let (dir, data) = formatted();
    let store = open(&data).expect("formatted");
    put(&store, "first", Durability::Buffered);
    put(&store, "second", Durability::Buffered);
    assert_eq!(mark(&data), 0);
    store.table().write(&Batch::new(), Durability::Sync).expect("synced");
    assert_eq!(mark(&data), 2);
    let copy = dir.path().join("copy");
    killed(&data, &copy);
    fs::remove_file(log(&copy)).expect("removed");
    assert_eq!(wrong(&copy).len(), 1);
    assert!(matches!(open(&copy), Err(StoreError::Corrupt { .. })));
}

#[test]
fn batches_that_were_not_synced_may_be_lost_and_a_clean_end_needs_no_log() {
    let (dir, data) = formatted();
    let store = open(&data).expect("formatted");
    put(&store, "synced", Durability::Sync);
    let len = log(&data).metadata().expect("there").len();
    put(&store, "buffered", Durability::Buffered);
    let copy = dir.path().join("copy");
    killed(&data, &copy);
    assert!(log(&copy).metadata().expect("there").len() > len);
    cut(&log(&copy), len);
    assert_eq!(wrong(&copy), Vec::<String>::new());
    let cut_off = open(&copy).expect("nothing acknowledged is lost");
    assert_eq!(cut_off.table().get(b"buffered"), Ok(None));
    assert!(cut_off.table().get(b"synced").expect("read").is_some());
    store.close().expect("closed");
    drop(store);
    fs::remove_file(log(&data)).expect("removed");
    assert_eq!(wrong(&data), Vec::<String>::new());
    assert!(open(&data).expect("all is in files").table().get(b"buffered").expect("read").is_some());
}

#[test]
fn of_a_directory_of_an_earlier_release_nothing_is_known() {
    let (dir, data) = formatted();
    let store = open(&data).expect("formatted");
    put(&store, "synced", Durability::Sync);
    let copy = dir.path().join("copy");
    killed(&data, &copy);
    let marks = fs::File::options().write(true).open(copy.join("marks")).expect("there");
    [768, 1280].into_iter().for_each(|at| marks.write_all_at(&[0; 32], at).expect("written"));
    fs::remove_file(log(&copy)).expect("removed");
    assert_eq!(wrong(&copy), Vec::<String>::new());
    let store = open(&copy).expect("nothing is known");
    put(&store, "later", Durability::Sync);
    assert_eq!(mark(&copy), 1);
}

#[test]
fn a_snapshot_is_sound_and_its_table_is_not_behind_its_mark() {
    let (_dir, data) = formatted();
    let store = open(&data).expect("formatted");
    put(&store, "synced", Durability::Sync);
    let snapshots = store.snapshots().expect("it makes them");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..200).for_each(|n| put(&store, &n.to_string(), Durability::Sync)));
        snapshots.prepare().expect("prepared");
        snapshots.cut().expect("cut");
        writer.join().expect("written");
    });
    let place = snapshots.complete().expect("complete");
    assert_eq!(wrong(&place), Vec::<String>::new());
    let taken = LocalStore::open(&place, &OpenOptions { read_only: true, ..OpenOptions::default() }).expect("sound");
    assert!(taken.table().get(b"synced").expect("read").is_some());
    assert!(mark(&place) <= mark(&data));
    // Its log is looked at like that of any other directory.
    drop(taken);
    fs::remove_file(log(&place)).expect("removed");
    let read = LocalStore::open(&place, &OpenOptions { read_only: true, ..OpenOptions::default() });
    assert!(matches!(read, Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_table_that_was_replaced_has_a_mark_of_its_own() {
    let (_dir, data) = formatted();
    let store = open(&data).expect("formatted");
    for round in 0..50 {
        (0..20).for_each(|n| put(&store, &n.to_string(), Durability::Buffered));
        put(&store, &format!("round {round}"), Durability::Sync);
    }
    store.close().expect("closed");
    drop(store);
    let before = mark(&data);
    assert_eq!(before, 50 * 21);
    let manifest = fs::read_dir(data.join("table")).expect("a table").flatten().map(|entry| entry.path());
    let manifest = manifest.filter(|path| path.to_string_lossy().contains("MANIFEST")).max().expect("there");
    zeros(&manifest, 0, 1);
    assert!(open(&data).is_err());
    let salvaged = LocalStore::salvage(&data, &OpenOptions::default()).expect("its rows can be read");
    assert!(matches!(salvaged, Some(Salvaged::Replaced { rows: 70, .. })), "{salvaged:?}");
    assert_eq!(mark(&data), 70, "each row is a change of the new table");
    let store = open(&data).expect("it is a table");
    put(&store, "later", Durability::Sync);
    assert_eq!(mark(&data), 71);
    assert_eq!(wrong(&data), Vec::<String>::new());
}

#[test]
fn whatever_a_table_does_it_never_falls_behind_its_mark() {
    let (_dir, data) = formatted();
    let options = OpenOptions { write_buffer_bytes: 64 << 10, table_file_bytes: 64 << 10, ..OpenOptions::default() };
    let mut random = Random::new(7);
    let mut random = |below: u64| random.below(below);
    for _ in 0..20 {
        let store = LocalStore::open(&data, &options).expect("it is not behind its mark");
        let table = store.table();
        for _ in 0..random(60) {
            let mut batch = Batch::new();
            for _ in 0..random(40) {
                let key = random(500).to_be_bytes();
                if random(3) == 0 {
                    batch.delete(key)
                } else {
                    batch.put(key, vec![1; random(600) as usize])
                };
            }
            let sync = if random(4) == 0 { Durability::Sync } else { Durability::Buffered };
            table.write(&batch, sync).expect("there is room");
        }
        if random(4) == 0 {
            let mut batch = Batch::new();
            (0..12_000 + random(100)).for_each(|n| _ = batch.put((n + 400).to_be_bytes(), "x"));
            table.ingest(batch).expect("there is room");
            table.flush().expect("synced");
        }
        if random(4) == 0 {
            let mut batch = Batch::new();
            let keys = table.scan(b"", b"", usize::MAX).expect("read");
            keys.into_iter().for_each(|(key, _)| _ = batch.delete(key));
            table.write(&batch, Durability::Sync).expect("there is room");
        }
        // Dropped without that it is as killed: its log is what it was.
        if random(3) == 0 {
            store.close().expect("closed");
        }
        drop(table);
        drop(store);
        assert_eq!(wrong(&data), Vec::<String>::new());
    }
    assert!(mark(&data) > 1000, "{}", mark(&data));
}

#[test]
fn writers_at_the_same_time_mark_what_each_of_them_has_synced() {
    let (dir, data) = formatted();
    let store = open(&data).expect("formatted");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..100 {
                    let sync = if (n + thread) % 3 == 0 { Durability::Sync } else { Durability::Buffered };
                    put(store, &format!("{thread} {n}"), sync);
                }
            });
        }
    });
    let reached = mark(&data);
    assert!(reached > 0 && reached <= 400, "{reached}");
    store.table().flush().expect("synced");
    assert_eq!(mark(&data), 400);
    let copy = dir.path().join("copy");
    killed(&data, &copy);
    drop(open(&copy).expect("all is there"));
    assert_eq!(wrong(&copy), Vec::<String>::new());
}

#[test]
fn files_that_each_opening_makes_are_missed_once_there_was_one() {
    let (_dir, data) = formatted();
    assert_eq!(wrong(&data), Vec::<String>::new(), "it was never opened");
    for name in ["marks", "buckets"] {
        open(&data).expect("formatted").close().expect("closed");
        assert_eq!(wrong(&data), Vec::<String>::new());
        fs::remove_file(data.join(name)).expect("it was made");
        let found = wrong(&data);
        assert!(found.len() == 1 && found[0].contains(&format!("/{name}: the file is missing")), "{found:?}");
        drop(looks(&data).expect("it can be read"));
        assert_eq!(wrong(&data).len(), 1, "who only looks makes nothing");
    }
}
