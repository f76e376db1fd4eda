//! Journals of a decoupled directory that a program kept before it died, when no server takes them as they are: the record that does harm
//! is erased, or the part before the damage is taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_journal::{FileReader, FileWriter, MemSource, Owner, encode_record};
use loligo_types::{Cred, Event, Ino, Lsn};
use serde_json::Value;

use super::run::{Place, Ran, Service, loligo};

struct Scene {
    place: Place,
    client: Client,
    server: Service,
}

impl Scene {
    fn new() -> Scene {
        let place = Place::new();
        loligo("format --data {}", &[&place.data()]).ok();
        let server = Service::start("serve --data {}", &[&place.data()]);
        let scene = Scene { client: connect(&place), place, server };
        scene.fs().mkdir("/a", 0o755).expect("a directory");
        scene
    }

    fn fs(&self) -> Fs {
        self.client.fs(Arc::new(Cred::root()))
    }

    /// `/a/d` with `f0` to `f9`, and `/a/g`, which nobody but this file knows of.
    fn kept(&self) -> PathBuf {
        self.kept_with(10)
    }

    fn kept_with(&self, files: u64) -> PathBuf {
        let (client, file) = (connect(&self.place), self.place.path("kept"));
        let lease = std::time::Duration::from_secs(600);
        let options = SubtreeOptions { lease, allocated_inodes: 1_000, ..SubtreeOptions::default() };
        let fs = client.fs(Arc::new(Cred::root()));
        let mut subtree = Subtree::decouple(&fs, "/a", &options).expect("free");
        subtree.mkdir("d", 0o755).expect("made");
        for n in 0..files {
            subtree.write(format!("d/f{n}"), b"x".to_vec()).expect("made");
        }
        subtree.write("g", b"x".to_vec()).expect("made");
        subtree.persist(&file).expect("written");
        file
    }

    /// Names in a directory.
    fn names(&self, dir: &str) -> Vec<String> {
        let entries = self.fs().readdir(dir).expect("a directory");
        entries.iter().map(|entry| String::from_utf8_lossy(entry.name.as_bytes()).into_owned()).collect()
    }

    fn merge(&self, file: &Path) -> Ran {
        loligo("merge {} --data {}", &[file, &self.place.data()])
    }
}

fn connect(place: &Place) -> Client {
    Client::connect(&loligo_driver::socket_in(&place.data()), Options::default()).expect("a connection")
}

/// The records of a file: number, and events.
fn records(file: &Path) -> Vec<(u64, String)> {
    let lines = loligo("journal inspect {} --json", &[file]).ok().out;
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let records = lines.filter(|line| line["events"].is_array());
    records.map(|line| (line["lsn"].as_u64().expect("a number"), line["events"].to_string())).collect()
}

/// Puts a record behind the others that changes what is not its owner's.
fn spoil(file: &Path) -> u64 {
    let bytes = std::fs::read(file).expect("a file");
    let fs = bytes[16..32].try_into().expect("16 bytes");
    let client = u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes"));
    let mut reader = FileReader::open(MemSource([(0, bytes)].into())).expect("a journal file");
    let mut writer = FileWriter::new(fs, Owner::Client(client), false);
    let mut out = writer.header().to_vec();
    let mut next = Lsn(1);
    while let Some(raw) = reader.next_record().expect("whole") {
        writer.append(&mut out, raw.lsn, raw.body).expect("it follows");
        next = raw.lsn.next();
    }
    let mut body = Vec::new();
    encode_record(&mut body, None, &[Event::InodeGone(Ino::ROOT)]);
    writer.append(&mut out, next, &body).expect("it follows");
    std::fs::write(file, out).expect("written");
    next.0
}

#[test]
fn nothing_is_erased_of_a_journal_that_a_program_has_open() {
    let scene = Scene::new();
    let file = scene.kept();
    let before = std::fs::read(&file).expect("a file");
    let open = std::fs::File::open(&file).expect("a file");
    rustix::fs::flock(&open, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("its program has ended");
    loligo("journal erase {} --name f0 --dry-run", &[&file]).ok();
    loligo("journal erase {} --name f0", &[&file]).fails(1, &["is in use", "loligo merge DIRECTORY"]);
    assert!(std::fs::read(&file).expect("a file") == before);
    drop(open);
    loligo("journal erase {} --name f0", &[&file]).ok();
}

#[test]
fn a_record_that_no_server_takes_is_erased_and_what_is_left_is_merged() {
    let scene = Scene::new();
    let file = scene.kept();
    let bad = spoil(&file);
    let spoilt = std::fs::read(&file).expect("a file");
    scene.merge(&file).fails(1, &["nothing of that is merged"]);
    let dry = loligo(&format!("journal erase {{}} --lsn {bad} --dry-run"), &[&file]).ok();
    assert!(dry.out.contains("inode_gone") && dry.out.contains("1 records of"), "{}", dry.out);
    assert!(dry.err.contains("nothing was changed"), "{}", dry.err);
    loligo("journal erase {}", &[&file]).fails(2, &["which records are to be erased"]);
    loligo("journal erase {} --lsn 1..", &[&file]).fails(1, &["which directory it is", "kind decoupled"]);
    let none = loligo("journal erase {} --name nothing", &[&file]).ok();
    assert!(none.err.contains("there is nothing to erase"), "{}", none.err);
    assert_eq!(std::fs::read(&file).expect("a file"), spoilt);
    let before = records(&file);
    let done = loligo(&format!("journal erase {{}} --lsn {bad} --json"), &[&file]).ok().json();
    assert_eq!((&done["done"], &done["records"]), (&true.into(), &1.into()), "{done}");
    let backup = scene.place.path("kept.1");
    assert_eq!(std::fs::read(&backup).expect("a backup"), spoilt);
    let after = records(&file);
    assert_eq!(after.len(), before.len(), "numbers have no holes");
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after);
    assert_eq!(changed.map(|(_, after)| after.clone()).collect::<Vec<_>>(), [(bad, "[]".to_string())]);
    assert!(!scene.place.path("kept.new").exists());
    scene.merge(&file).ok();
    assert_eq!((scene.names("/a").len(), scene.names("/a/d").len()), (2, 10));
    loligo("journal erase {} --lsn 3 --data {}", &[&backup, &scene.place.data()]).fails(2, &["cannot be used with"]);
}

#[test]
fn of_a_record_with_many_changes_those_that_are_meant_are_erased_and_fsck_mends_the_counts() {
    let scene = Scene::new();
    let file = scene.kept();
    let f3 = loligo("journal inspect {} --name f3 --json", &[&file]).ok().out;
    let f3: Value = serde_json::from_str(f3.lines().next().expect("a record")).expect("JSON");
    let entry = f3["events"].as_array().expect("events").iter().find(|event| event["name"] == "f3").expect("its entry");
    let dry = loligo(&format!("journal erase {{}} --ino {} --dry-run", entry["ino"]), &[&file]).ok();
    assert!(dry.out.contains("name=f3") && !dry.out.contains("name=f4"), "{}", dry.out);
    assert!(dry.out.contains("3 events in 1 records of "), "{}", dry.out);
    let done = loligo(&format!("journal erase {{}} --ino {}", entry["ino"]), &[&file]).ok();
    assert!(done.err.contains("ERASED") && done.err.contains("--repair"), "{}", done.err);
    scene.merge(&file).ok();
    let names = scene.names("/a/d");
    assert_eq!((names.len(), names.contains(&"f3".into())), (9, false));
    let Scene { place, client, server } = scene;
    client.stop(super::run::PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&place.data()]).fails(3, &["problems found"]);
    loligo("fsck --data {} --repair", &[&place.data()]).ok();
    loligo("fsck --data {}", &[&place.data()]).ok();
}

#[test]
fn of_a_damaged_one_what_comes_before_the_damage_is_exported_and_merged() {
    let scene = Scene::new();
    let file = scene.kept_with(500);
    let mut bytes = std::fs::read(&file).expect("a file");
    let at = bytes.windows(4).position(|name| name == b"f250").expect("its name");
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    scene.merge(&file).fails(1, &["checksum"]);
    let out = scene.place.path("out");
    loligo("journal erase {} --name g", &[&file]).fails(3, &["export --from"]);
    loligo("journal export --from {} {}", &[&file, &out]).fails(3, &["checksum", "what comes before"]);
    scene.merge(&out).ok();
    let left = scene.names("/a/d").len();
    assert!((1..=250).contains(&left), "{left}");
    loligo("journal export {}", &[&out]).fails(2, &["--data"]);
    loligo("journal export --from {} --rank 0 {}", &[&file, &out]).fails(2, &["cannot be used with"]);
}

#[test]
fn a_torn_one_is_merged_without_its_end_and_stays() {
    let scene = Scene::new();
    let file = scene.kept_with(500);
    let bytes = std::fs::read(&file).expect("a file");
    // Without what proves that it was durable, and a bit more.
    let torn = bytes.len() - loligo_journal::segment::SEGMENT_HEADER_LEN - 7;
    std::fs::write(&file, &bytes[..torn]).expect("written");
    let merged = scene.merge(&file).ok();
    assert!(merged.err.contains("are left out") && merged.out.contains("stays"), "{merged:?}");
    assert_eq!(std::fs::read(&file).expect("it is there").len(), torn);
    assert_eq!(scene.names("/a"), ["d"], "what came last is not there");
}
