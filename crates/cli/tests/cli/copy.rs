//! A file system moves house: from one data directory to another. To a cluster and back: `tests/rados/copy.rs`.

use std::path::{Path, PathBuf};

use loligo_journal::table::{Meta, key_meta};
use loligo_store::{Backend, Batch, Durability};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use loligo_types::{Cred, Rank};

use super::care::{User, filled};
use super::run::{PATIENCE, Place, Service, loligo, loligo_in, records_of};

fn large() -> Vec<u8> {
    (0..9_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// One of everything, and a file of several objects; its server was stopped, or killed.
fn full(place: &Place, kill: bool) {
    filled(place, kill);
    let server = Service::start("serve --data {} --admin off", &[&place.data()]);
    let user = User::new(&place.data());
    let fs = user.client.fs(Cred::root().into());
    fs.write("/large", large()).expect("written");
    fs.sync_all().expect("synced");
    if kill {
        return server.kill();
    }
    user.client.stop(PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
}

fn dump(data: &Path) -> String {
    loligo("dump --quiet --without-data --data {}", &[data]).ok().out
}

/// Checks that the copy holds the same, by its own words and by a client's.
fn same(copy: &Path, original: &str) {
    loligo("fsck --data {} --data-checksums", &[copy]).ok();
    assert_eq!(dump(copy), original);
    let server = Service::start("serve --data {} --admin off", &[copy]);
    let fs = User::new(copy).client.fs(Cred::root().into());
    assert!(fs.read("/large").expect("it reads")[..] == large()[..]);
    assert_eq!(fs.read("/second name").as_deref(), Ok(&b"held in the inode\n\0\xff"[..]));
    drop((fs, server));
}

#[test]
fn a_copy_is_sound_and_has_the_same_files() {
    for kill in [false, true] {
        let place = Place::new();
        full(&place, kill);
        let (data, copy, again) = (place.data(), place.path("some/where/copy"), place.path("again"));
        std::fs::write(data.join("loligo.toml"), "grace_ms = 7\n").expect("a file");
        let original = dump(&data);
        let told = loligo("copy --from {} --to {}", &[&data, &copy]).ok();
        let line = told.out.trim_end();
        for word in ["copied ", " rows, ", " objects (", "all read back and compared, in "] {
            assert!(line.contains(word) && !line.contains('\n'), "{line}");
        }
        assert!(told.err.contains("serve only one of them") && told.err.contains("loligo up --data"), "{}", told.err);
        let json = loligo("copy --from {} --to {} --json", &[&copy, &again]).ok();
        let document = json.json();
        assert_eq!((&document["objects"], &document["object_bytes"]), (&4.into(), &9_300_000.into()));
        assert_eq!(json.err, "", "nothing but the object");
        for dir in [&data, &copy, &again] {
            same(dir, &original);
        }
        let identity = |dir: &PathBuf| LocalStore::identify(dir).expect("a file system");
        assert_eq!([identity(&copy), identity(&again)], [identity(&data); 2]);
        assert!(!copy.join("loligo.toml").exists(), "settings belong to the directory");
    }
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_made() {
    let place = Place::new();
    filled(&place, false);
    let (data, never) = (place.data(), place.path("never"));
    let refused = |from: &Path, to: &Path, code: i32, words: &[&str]| {
        loligo("copy --from {} --to {}", &[from, to]).fails(code, words);
    };
    // By another command, which makes no snapshots.
    let owner = LocalStore::open(&data, &OpenOptions::default()).expect("nobody has it");
    refused(&data, &never, 1, &["is in use by another server", "loligo down --data"]);
    owner.close().expect("it is closed");
    drop(owner);
    refused(&place.path("none"), &never, 1, &["none", "does not exist"]);
    refused(&data, &data, 2, &["both the source and the target"]);
    std::os::unix::fs::symlink(&data, place.path("link")).expect("a link");
    refused(&data, &place.path("link"), 2, &["both the source and the target"]);
    assert!(!never.exists());
    loligo("format --data {}", &[&place.path("other")]).ok();
    refused(&data, &place.path("other"), 1, &["other: there is a file system in this store already"]);
    let server = Service::start("serve --data {} --admin off", &[&place.path("other")]);
    refused(&data, &place.path("other"), 1, &["the target is in use", "nothing yet"]);
    // Before the server of the source is asked for a snapshot, for which it may take long.
    let source = Service::start("serve --data {} --admin off", &[&data]);
    source.signal(rustix::process::Signal::STOP);
    refused(&data, &place.path("other"), 1, &["the target is in use", "nothing yet"]);
    source.signal(rustix::process::Signal::CONT);
    assert_eq!((source.stop().0, server.stop().0), (0, 0));
    let foreign = place.path("foreign");
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::write(foreign.join("letter"), "").expect("a file");
    refused(&data, &foreign, 1, &["foreign is not empty"]);
    // Made for a file system of its own, which was cut off.
    LocalStore::format(&never, &FormatOptions::default()).expect("the store alone");
    refused(&data, &never, 1, &["the target is the file system"]);
    loligo("copy --from {} --to rados:", &[&data]).fails(2, &["names no store"]);
    loligo("copy --from {} --to rados:pool --conf {}", &[&data, &place.path("no.conf")])
        .fails(2, &["no.conf", "--conf FILE"]);
    loligo("fsck --data {}", &[&data]).ok();
}

/// As if the copy had been cut off when it was about to end.
fn cut_off(copy: &Path) {
    let store = LocalStore::open(copy, &OpenOptions::default()).expect("the store");
    let mut batch = Batch::new();
    batch.put(key_meta(Meta::Copying, Rank::ZERO), [2, 1]).delete(key_meta(Meta::Format, Rank::ZERO));
    store.table().write(&batch, Durability::Sync).expect("written");
}

#[test]
fn a_copy_that_was_cut_off_is_refused_by_name_and_goes_on_when_it_is_made_again() {
    let place = Place::new();
    full(&place, false);
    let (data, copy, text) = (place.data(), place.path("copy"), place.path("text"));
    loligo("copy --from {} --to {}", &[&data, &copy]).ok();
    cut_off(&copy);
    loligo("dump --without-data --data {} -o {}", &[&data, &text]).ok();
    for words in
        ["serve --data {}", "fsck --data {}", "dump --without-data --data {}", "format --data {}", "load --data {} {}"]
    {
        let paths: &[&Path] = if words.starts_with("load") { &[&copy, &text] } else { &[&copy] };
        loligo(words, paths).fails(1, &["copy", "did not come to its end", "loligo copy --from STORE --to"]);
    }
    loligo("copy --from {} --to {}", &[&copy, &place.path("never")])
        .fails(1, &["holds a copy that did not come to its end"]);
    // Commands that only look refuse the half copy, or report it.
    for words in [
        "journal inspect --data {}",
        "journal export --data {} out.journal",
        "journal erase --data {} --lsn 1",
        "journal apply --data {}",
        "journal diff {} {}",
        "path 1 --data {}",
    ] {
        let paths: &[&Path] = if words.contains("diff") { &[&copy, &data] } else { &[&copy] };
        loligo_in(words, paths, |command| _ = command.current_dir(place.dir.path()))
            .fails(1, &["holds a copy that did not come to its end", "loligo copy --from STORE --to"]);
    }
    assert!(!place.path("out.journal").exists());
    let told = loligo("store check --data {}", &[&copy]).fails(3, &["1 problems found"]);
    assert!(told.out.contains("holds a copy that did not come to its end"), "{}", told.out);
    // Another file system is not put beside it.
    loligo("format --data {}", &[&place.path("other")]).ok();
    loligo("copy --from {} --to {}", &[&place.path("other"), &copy]).fails(1, &["not a copy of"]);
    let told = loligo("copy --from {} --to {}", &[&data, &copy]).ok();
    assert!(told.err.contains("holds a copy of this file system that was cut off"), "{}", told.err);
    assert!(told.out.contains("(4 were there already)"), "{}", told.out);
    same(&copy, &dump(&data));
    loligo("copy --from {} --to {}", &[&data, &copy]).fails(1, &["there is a file system in this store already"]);
}

#[test]
fn a_damaged_object_is_named_and_nothing_is_taken_for_a_file_system() {
    let place = Place::new();
    full(&place, false);
    let (data, copy) = (place.data(), place.path("copy"));
    let mut dirs = vec![data.join("objects")];
    let mut object = None;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
            match entry.path() {
                path if path.is_dir() => dirs.push(path),
                // Not its witness.
                path if path.extension().is_some_and(|index| index == "0") => object = Some(path),
                _ => {}
            }
        }
    }
    let object = object.expect("an object");
    let file = std::fs::File::options().write(true).open(&object).expect("the object");
    let len = file.metadata().expect("a file").len();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", len - 1000).expect("written");
    let name = object.file_name().expect("a name").to_str().expect("hexadecimal");
    let told = loligo("copy --from {} --to {}", &[&data, &copy]);
    told.fails(1, &["data cannot be read", name, "is damaged", "loligo fsck --data", "--data-checksums"]);
    loligo("serve --data {}", &[&copy]).fails(1, &["a copy of a file system that did not come to its end"]);
    // Without that file there is nothing that cannot be copied.
    std::fs::remove_file(&object).expect("it is there");
    let told = loligo("copy --from {} --to {}", &[&data, &copy]);
    told.fails(1, &["data cannot be read", "its file is missing"]);
    std::fs::remove_file(object.with_extension("0+")).expect("it is there");
    loligo("copy --from {} --to {}", &[&data, &copy]).ok();
}

#[test]
fn a_copy_of_a_journal_that_no_server_would_take_is_made_and_not_called_a_backup() {
    let place = Place::new();
    full(&place, true);
    let (data, copy) = (place.data(), place.path("copy"));
    let segment = std::fs::read_dir(data.join("journal/0")).expect("the journal").flatten().map(|entry| entry.path());
    let segment = segment.filter(|path| path.extension().is_some_and(|seg| seg == "seg")).max().expect("a segment");
    let mut bytes = records_of(&segment);
    // In the second record, behind the head of the segment and the first one.
    let at = bytes.len() / 2;
    bytes[at] ^= 0x40;
    std::fs::write(&segment, bytes).expect("written");
    let told = loligo("copy --from {} --to {} --json", &[&data, &copy]);
    let document = told.json();
    assert!(document["fault"].as_str().is_some_and(|fault| fault.contains("segment")), "{document}");
    told.fails(3, &["equal to its source", "no server can start", "loligo store check"]);
}
