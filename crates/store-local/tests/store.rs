//! The store on real files: the suite, the ways to refuse a directory, and a killed process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use loligo_store::conformance::{self, Fixture};
use loligo_store::{Backend, Batch, Durability, Identity, ObjectId, StoreError};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use tempfile::TempDir;

struct Dir(TempDir);

fn formatted() -> Dir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    LocalStore::format(dir.path(), &FormatOptions::default()).expect("format");
    Dir(dir)
}

fn open(dir: &Path) -> loligo_store::Result<LocalStore> {
    LocalStore::open(dir, &OpenOptions::default())
}

impl Fixture for Dir {
    fn open(&mut self) -> Arc<dyn Backend> {
        Arc::new(open(self.0.path()).expect("open"))
    }
}

#[test]
fn the_backend_on_files_passes_the_suite() {
    conformance::run(&|| Box::new(formatted()) as Box<dyn Fixture>);
}

#[test]
fn a_segment_that_is_appended_to_has_zeros_behind_its_end_which_nobody_reads() {
    let dir = formatted();
    let store = open(dir.0.path()).expect("open");
    let log = store.log_dir(0).expect("a directory");
    let mut file = log.create(1).expect("it is new");
    file.append(b"record").and_then(|()| file.sync()).expect("it is durable");
    let path = dir.0.path().join("journal/0/0000000000000001.seg");
    let on_disk = || fs::metadata(&path).expect("it is there").len();
    assert_eq!(on_disk(), 1 << 20);
    let reader = log.open(1).expect("it opens");
    let mut buf = [7; 10];
    assert_eq!((reader.len(), reader.read_at(0, &mut buf)), (Ok(6), Ok(6)));
    assert_eq!(&buf, b"record\x07\x07\x07\x07");
    assert_eq!((reader.read_at(6, &mut buf), reader.read_at(900, &mut buf)), (Ok(0), Ok(0)));
    assert_eq!(log.list().expect("it can be listed")[0].len, 6);
    // One that is long makes the file longer by itself.
    let long = vec![b'x'; 3 << 20];
    file.append(&long).expect("it is appended");
    assert_eq!((on_disk(), reader.len()), (6 + (3 << 20), Ok(6 + (3 << 20))));
    drop(file);
    assert_eq!((on_disk(), reader.len()), (6 + (3 << 20), Ok(6 + (3 << 20))));
    let mut again = log.open_append(1).expect("it opens");
    again.append(b"more").expect("it is appended");
    assert_eq!((on_disk(), reader.len()), (4 << 20, Ok(10 + (3 << 20))));
    drop(again);
    assert_eq!(on_disk(), 10 + (3 << 20), "the zeros are given back");
}

#[test]
fn a_directory_that_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    fs::write(dir.path().join("thesis.tex"), "text").expect("write");
    let error = LocalStore::format(dir.path(), &FormatOptions::default()).expect_err("it is not empty");
    assert!(matches!(error, StoreError::Foreign { .. }) && error.to_string().contains("thesis.tex"), "{error}");
    let error = open(dir.path()).err().expect("it was not formatted");
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).expect("read_dir").count(), 1, "refusing leaves nothing behind");
    fs::write(dir.path().join("loligo.id"), "#!/bin/sh\nexit").expect("write");
    assert!(matches!(open(dir.path()), Err(StoreError::Foreign { .. })));
    assert!(matches!(open(&dir.path().join("nowhere")), Err(StoreError::NotFound { .. })));
}

#[test]
fn a_file_system_is_not_formatted_over() {
    let dir = formatted();
    let error = LocalStore::format(dir.0.path(), &FormatOptions::default()).expect_err("it is formatted");
    let id = LocalStore::identify(dir.0.path()).expect("identify");
    assert!(matches!(&error, StoreError::AlreadyFormatted { fs_id, .. } if *fs_id == id.fs_id_hex()), "{error}");
}

#[test]
fn a_formatting_that_was_cut_off_can_be_made_again() {
    let dir = formatted();
    fs::rename(dir.0.path().join("loligo.id"), dir.0.path().join("loligo.tmp")).expect("rename");
    LocalStore::format(dir.0.path(), &FormatOptions::default()).expect("format again");
    open(dir.0.path()).expect("open");
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let identity = Identity { format_version: 9, ..Identity::new([1; 16], [2; 16]) };
    LocalStore::format(dir.path(), &FormatOptions { identity: Some(identity) }).expect("format");
    let error = open(dir.path()).err().expect("version 9 is not known");
    assert!(matches!(error, StoreError::NewerVersion { found: 9, known: 1, .. }), "{error}");
}

#[test]
fn a_second_server_is_refused_while_any_handle_of_the_first_lives() {
    let dir = formatted();
    let store = open(dir.0.path()).expect("open");
    let log = store.log_dir(0).expect("log_dir").create(1).expect("create");
    drop(store);
    let error = open(dir.0.path()).err().expect("a segment is still open");
    assert!(matches!(&error, StoreError::InUse { owner, .. } if *owner == format!("process {}", std::process::id())));
    drop(log);
    open(dir.0.path()).expect("open");
}

fn batch(n: u32) -> Batch {
    let mut batch = Batch::new();
    for part in 0..4u8 {
        batch.put([&n.to_be_bytes()[..], &[part]].concat(), [part; 50]);
    }
    batch
}

fn object(n: u32) -> (ObjectId, Vec<u8>) {
    (ObjectId::new(u64::from(n % 5), u64::from(n)), vec![n as u8; 3_000 + n as usize])
}

/// Not a test by itself: the process that [`what_was_synced_survives_a_kill`] kills.
#[test]
fn child_that_is_killed() {
    let Some(dir) = std::env::var_os("LOLIGO_TEST_CHILD_DIR") else { return };
    let store = LocalStore::open(&dir, &OpenOptions { open_objects: 8, ..OpenOptions::default() }).expect("open");
    let (table, blobs, logs) = (store.table(), store.blobs(), store.log_dir(0).expect("log_dir"));
    let segment = logs.list().expect("list").len() as u64;
    let mut log = logs.create(segment).expect("create");
    let first = table.approximate_size().expect("size").keys as u32;
    for n in first..u32::MAX {
        let (id, data) = object(n);
        blobs.write_at(id, 0, &data).expect("write_at");
        log.append(&n.to_be_bytes()).expect("append");
        table.write(&batch(n), Durability::Buffered).expect("write");
        if n % 10 == 0 {
            blobs.sync(id).expect("sync");
            log.sync().expect("sync");
            println!("reached {n}");
        }
    }
}

#[test]
fn what_was_synced_survives_a_kill() {
    let dir = formatted();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..3 {
        let reached = run_and_kill(dir.0.path(), 3 + round);
        seen.extend(reached);
        let store = open(dir.0.path()).expect("open after a kill");
        let (table, blobs) = (store.table(), store.blobs());
        for n in &seen {
            let keys: Vec<Vec<u8>> = batch(*n).puts.into_iter().map(|(key, _)| key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let values = table.multi_get(&keys).expect("multi_get");
            assert!(values.iter().all(Option::is_some), "batch {n} is whole");
            let (id, data) = object(*n);
            let mut bytes = vec![0; data.len() + 1];
            assert_eq!(blobs.read_at(id, 0, &mut bytes).expect("verified"), data.len(), "{id}");
            assert_eq!(bytes[..data.len()], data, "{id}");
        }
        assert_eq!(store.log_dir(0).expect("log_dir").list().expect("list").len(), round + 1);
    }
}

/// Runs the child until it reported `lines` times; gives what it reported.
fn run_and_kill(dir: &Path, lines: usize) -> Vec<u32> {
    let mut child = Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["--exact", "child_that_is_killed", "--nocapture"])
        .env("LOLIGO_TEST_CHILD_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the child");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let reached = |line: String| line.split_once("reached ").and_then(|(_, n)| n.trim().parse().ok());
    let seen = out.lines().map_while(Result::ok).filter_map(reached).take(lines).collect();
    child.kill().expect("kill the child");
    child.wait().expect("wait for the child");
    seen
}

/// A small file system of its own, for tests that fill it; `None` where mounting is not allowed.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "loligo-test"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }

    fn fill(&self) {
        let path = self.0.path().join("ballast");
        for step in [1 << 20, 4096] {
            let chunk = vec![0xaa; step];
            let mut file = fs::File::options().append(true).create(true).open(&path).expect("open the ballast");
            while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("ballast")).expect("remove the ballast");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_and_everything_goes_on_when_space_is_back() {
    let Some(disk) = SmallDisk::mount("32m") else {
        eprintln!("not shown here: mounting a small disk needs root");
        return;
    };
    let data = disk.0.path().join("data");
    LocalStore::format(&data, &FormatOptions::default()).expect("format");
    let options = OpenOptions { write_buffer_bytes: 1 << 20, ..OpenOptions::default() };
    let store = LocalStore::open(&data, &options).expect("open");
    let (table, blobs) = (store.table(), store.blobs());
    let mut log = store.log_dir(0).expect("log_dir").create(1).expect("create");
    log.append(&[1; 1000]).expect("append");
    for round in 0..3u32 {
        let refused = write_until_full(&disk, &*table, round);
        assert!(log.append(&vec![2; 64 << 20]).expect_err("the disk is full").is_full());
        assert_eq!(log.len(), 1000 + u64::from(round) * 500);
        let error = blobs.write_at(ObjectId::new(1, 0), 0, &vec![3; 32 << 20]).expect_err("the disk is full");
        assert!(error.is_full(), "{error}");
        let there = if round == 0 { vec![] } else { vec![0] };
        assert_eq!(blobs.objects_of(1), Ok(there), "nothing is left of an object that got no byte");
        disk.free();
        table.write(&batch(refused), Durability::Sync).expect("there is space again");
        log.append(&[2; 500]).expect("there is space again");
        log.sync().expect("sync");
        blobs.write_at(ObjectId::new(1, 0), 0, &vec![3; 1 << 20]).expect("there is space again");
        for n in round * 1_000_000..refused {
            assert!(table.get(&batch(n).puts[0].0).expect("get").is_some(), "batch {n} of round {round}");
        }
    }
    store.close().expect("close");
}

/// Fills the disk and writes batches until one is refused; gives its number. The table's own cleaning
/// may free some space meanwhile, so the disk is filled again and again.
fn write_until_full(disk: &SmallDisk, table: &dyn loligo_store::Table, round: u32) -> u32 {
    let first = round * 1_000_000;
    for n in first..first + 200_000 {
        if n % 100 == 0 {
            disk.fill();
        }
        if let Err(error) = table.write(&batch(n), Durability::Sync) {
            assert!(error.is_full(), "{error}");
            return n;
        }
    }
    panic!("the disk never got full");
}
