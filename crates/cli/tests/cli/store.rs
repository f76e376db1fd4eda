//! `loligo store check` on a data directory: it is silent about a sound one, served or not, and names damage of each part.

use std::path::{Path, PathBuf};

use super::care::{User, filled};
use super::run::{Place, Service, loligo};

/// All files of a directory and how they are, but those of a running server that change by themselves.
fn listing(dir: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("it can be read");
        let meta = entry.metadata().expect("it is there");
        all.push((entry.path(), meta.len(), meta.modified().expect("a time")));
        if meta.is_dir() {
            all.extend(listing(&entry.path()));
        }
    }
    all.sort();
    all
}

fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let all = listing(dir).into_iter().map(|(path, ..)| path);
    all.filter(|path| path.is_file() && path.to_string_lossy().ends_with(end)).collect()
}

/// Changes a byte of a file while something is tried.
fn damaged(path: &Path, at: usize, attempt: impl FnOnce()) {
    let sound = std::fs::read(path).expect("a file");
    let mut bad = sound.clone();
    bad[at] ^= 0x40;
    std::fs::write(path, bad).expect("it can be written");
    attempt();
    std::fs::write(path, sound).expect("it can be written");
}

#[test]
fn a_sound_directory_is_told_so_and_nothing_is_written() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let before = listing(&data);
    let ran = loligo("store check --data {}", &[&data]).ok();
    assert!(ran.err.contains("is sound") && ran.out.contains("1 journal (1 segment, "), "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("wrong") && !ran.out.contains("a server runs"), "{}", ran.out);
    assert_eq!(listing(&data), before);
    let json = loligo("store check --data {} --json", &[&data]).ok().json();
    assert_eq!(json["sound"], true);
    for what in ["rows", "journals", "segments", "objects"] {
        assert!(json["counts"][what].as_u64() > Some(0), "{what}: {json}");
    }
    loligo("store check --data {}", &[&place.path("none")]).fails(1, &["loligo format --data"]);
}

#[test]
fn damage_of_each_part_is_found_and_named() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let finds = |words: &str| {
        let ran = loligo("store check --data {}", &[&data]).fails(3, &["problems found"]);
        assert!(ran.out.contains("wrong:") && ran.out.contains(words), "no `{words}` in {}", ran.out);
    };
    let tables = files(&data.join("table"), ".sst");
    let table = tables.iter().max_by_key(|path| path.metadata().expect("it is there").len()).expect("rows in files");
    damaged(table, 100, || finds(table.file_name().and_then(|name| name.to_str()).expect("a name")));
    let manifest = files(&data.join("table"), "").into_iter().find(|path| path.to_string_lossy().contains("MANIFEST"));
    damaged(&manifest.expect("RocksDB has one"), 20, || finds("the table cannot be opened"));
    let segment = files(&data.join("journal"), ".seg").pop().expect("a segment");
    damaged(&segment, 30, || finds("journal of rank 0: journal segment"));
    damaged(&segment, 64 + 30, || finds("the checksum of record"));
    let object = files(&data.join("objects"), ".0").pop().expect("an object");
    damaged(&object, 0x101000 + 5000, || finds("1 of its 74 blocks are not what was written, the first at byte 4096"));
    damaged(&object, 5, || finds("format version"));
    damaged(&object, 20, || finds("its checksum does not match"));
    let bytes = std::fs::read(&object).expect("an object");
    // Cut off below its data, where its length says nothing of these.
    for len in [600_000, 0] {
        std::fs::write(&object, &bytes[..len]).expect("it can be written");
        let ran = loligo("fsck --data {} --data-checksums", &[&data]).fails(3, &["1 problems found"]);
        assert!(ran.out.contains("LOST"), "{}", ran.out);
    }
    std::fs::remove_file(&object).expect("it is there");
    finds("its file is missing, though it was written and synced");
    let ran = loligo("fsck --data {}", &[&data]).fails(3, &["1 problems found"]);
    assert!(ran.out.contains("LOST") && ran.out.contains("its file is missing"), "{}", ran.out);
    std::fs::write(&object, bytes).expect("it can be written");
    let bucket = object.parent().expect("a bucket");
    let away = data.with_file_name("away");
    std::fs::rename(bucket, &away).expect("it is there");
    finds("is missing, with all objects of file data in it");
    let ran = loligo("fsck --data {}", &[&data]).fails(3, &["1 problems found"]);
    assert!(ran.out.contains("is missing, with all objects"), "{}", ran.out);
    std::fs::rename(&away, bucket).expect("it goes back");
    damaged(&data.join("epochs"), 9, || finds("epochs: its checksum does not match"));
    damaged(&data.join("loligo.id"), 20, || finds("loligo.id"));
    let older = std::fs::read(&segment).expect("a segment");
    std::fs::remove_file(&segment).expect("it is there");
    finds("is missing, and");
    loligo("fsck --data {}", &[&data]).fails(1, &["is missing, and"]);
    std::fs::write(&segment, older).expect("it can be written");
    loligo("store check --data {}", &[&data]).ok();
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

/// Removes all that is in a directory.
fn emptied(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.expect("it is there");
    }
}

#[test]
fn parts_of_a_data_directory_that_are_emptied_as_a_whole_are_no_empty_file_system() {
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let kept = data.with_file_name("kept");
    assert!(std::process::Command::new("cp").arg("-a").args([&data, &kept]).status().expect("cp runs").success());
    let back = |part: &str| {
        std::fs::remove_dir_all(data.join(part)).expect("it is there");
        let status = std::process::Command::new("cp").arg("-a").args([kept.join(part), data.join(part)]).status();
        assert!(status.expect("cp runs").success());
        loligo("store check --data {}", &[&data]).ok();
    };
    emptied(&data.join("objects"));
    for (words, code) in [("store check --data {}", 3), ("fsck --data {}", 1), ("fsck --data {} --data-checksums", 1)] {
        let ran = loligo(words, &[&data]);
        assert_eq!(ran.code, code, "{words}: {}{}", ran.out, ran.err);
        let said = ran.out + &ran.err;
        assert!(said.contains("the directory is empty, and objects of file data were in it"), "{said}");
    }
    let ran = loligo("serve --data {} --admin off", &[&data]);
    assert!(ran.code != 0 && ran.err.contains("mount its disk") && ran.err.contains("buckets"), "{}", ran.err);
    back("objects");
    for entry in std::fs::read_dir(data.join("objects")).expect("a directory") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            emptied(&path);
        }
    }
    let ran = loligo("store check --data {}", &[&data]).fails(3, &["problems found"]);
    assert!(ran.out.contains("is missing, with all objects of file data in it"), "{}", ran.out);
    let ran = loligo("fsck --data {} --data-checksums", &[&data]).fails(3, &["problems found"]);
    assert!(ran.out.contains("is missing, with all objects of file data in it"), "{}", ran.out);
    back("objects");
    for part in ["journal", "journal/0"] {
        emptied(&data.join(part));
        let ran = loligo("store check --data {}", &[&data]).fails(3, &["problems found"]);
        assert!(ran.out.contains("wrong: journal of rank 0: "), "{}", ran.out);
        loligo("fsck --data {}", &[&data]).fails(1, &["is missing"]);
        back("journal");
    }
}

#[test]
fn a_server_that_runs_is_not_hindered_nor_is_what_it_writes_taken_for_damage() {
    let place = Place::new();
    filled(&place, true);
    let data = place.data();
    // Killed: what it was writing is not wrong, and all else is compared.
    let ran = loligo("store check --data {}", &[&data]).ok();
    assert!(!ran.out.contains("nothing to compare them with"), "{}", ran.out);
    let server = Service::start("serve --data {} --admin off --set journal_bytes=4MiB", &[&data]);
    let user = User::new(&data);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0u32;
            while !stop.load(std::sync::atomic::Ordering::Acquire) {
                number += 1;
                let size = if number.is_multiple_of(4) { 200_000 } else { 3_000 };
                user.file(loligo_types::Ino::ROOT, format!("new.{number}").as_bytes(), &vec![number as u8; size]);
            }
            number
        });
        for _ in 0..6 {
            let ran = loligo("store check --data {}", &[&data]).ok();
            let pid = server.pid().to_string();
            assert!(ran.out.contains(&format!("a server runs: process {pid}")), "{}", ran.out);
            assert!(!ran.out.contains("wrong"), "{}", ran.out);
        }
        stop.store(true, std::sync::atomic::Ordering::Release);
        assert!(writer.join().expect("all is written") > 0);
    });
    user.client.stop(super::run::PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
    loligo("store check --data {}", &[&data]).ok();
}

/// The names in a directory of a file system that is not served, by its dump.
fn names(data: &Path) -> usize {
    loligo("dump --data {} --without-data", &[data]).ok().out.matches("many.").count()
}

#[test]
fn of_a_damaged_table_fsck_saves_the_rows_that_can_be_read_and_keeps_the_damaged_one() {
    const FILES: usize = 4000;
    let place = Place::new();
    filled(&place, false);
    let data = place.data();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let user = User::new(&data);
    for number in 0..FILES {
        user.file(loligo_types::Ino::ROOT, format!("many.{number}").as_bytes(), b"small");
    }
    drop(user);
    assert_eq!(server.stop().0, 0);
    assert_eq!(names(&data), FILES);
    // A block of rows in the middle of a file.
    let tables = files(&data.join("table"), ".sst");
    let largest = tables.iter().max_by_key(|path| path.metadata().expect("it is there").len()).expect("rows in files");
    let mut bytes = std::fs::read(largest).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(largest, bytes).expect("it can be written");
    let before = listing(&data.join("table")).len();
    loligo("fsck --data {}", &[&data]).fails(1, &["--repair", "backup"]);
    assert_eq!(listing(&data.join("table")).len(), before, "nothing is changed without being told");
    let ran = loligo("fsck --data {} --repair", &[&data]).ok();
    assert!(ran.out.contains("LOST : the table was damaged: 1 stretches of it could not be read"), "{}", ran.out);
    assert!(ran.err.contains("found and mended"), "{}", ran.err);
    assert!(data.join("table.damaged.1/CURRENT").is_file(), "{}", ran.out);
    loligo("fsck --data {}", &[&data]).ok();
    let left = names(&data);
    assert!(left > FILES * 3 / 4 && left < FILES, "{left} of {FILES}");
    // Without its list of files the table cannot be opened, and nothing of it is lost.
    let manifest = files(&data.join("table"), "").into_iter().find(|path| path.to_string_lossy().contains("MANIFEST"));
    std::fs::write(manifest.expect("RocksDB has one"), b"nonsense").expect("it can be written");
    loligo("fsck --data {}", &[&data]).fails(1, &["--repair"]);
    loligo("fsck --data {} --repair", &[&data]).ok();
    assert!(data.join("table.damaged.2").is_dir());
    assert_eq!(names(&data), left);
    // Nor without its first file: no command takes it for a new one, and those that only look write nothing there.
    let current = data.join("table/CURRENT");
    std::fs::remove_file(&current).expect("it is there");
    let before = listing(&data.join("table"));
    let epochs = std::fs::read(data.join("epochs")).expect("it is there");
    let looks = ["fsck --data {}", "fsck --data {}", "store check --data {}", "serve --data {}", "serve --data {}"];
    for words in looks {
        let ran = loligo(words, &[&data]);
        assert!(ran.code != 0 && (ran.out + &ran.err).contains("CURRENT is missing"), "{words}");
        assert_eq!(listing(&data.join("table")), before, "{words}");
        assert_eq!(std::fs::read(data.join("epochs")).expect("it is there"), epochs, "{words}");
    }
    // Nor is a directory without a table a new one, if it has journals: a format would make an empty file system of it.
    let (table, away) = (data.join("table"), data.join("away"));
    std::fs::rename(&table, &away).expect("it can be moved");
    for words in looks.into_iter().chain(["format --data {}", "fsck --data {} --repair"]) {
        let ran = loligo(words, &[&data]);
        assert!(ran.code != 0, "{words}: {}", ran.out);
        assert!(!table.exists(), "{words}");
    }
    loligo("fsck --data {}", &[&data]).fails(1, &["it is missing, and journals are there"]);
    std::fs::rename(&away, &table).expect("it can be moved");
    // Nor does a directory whose other parts are missing, as where their disk is not mounted, count as one without files or changes.
    std::fs::write(&current, "nothing").expect("it can be written");
    for part in ["journal", "objects"] {
        let part = data.join(part);
        std::fs::rename(&part, &away).expect("it can be moved");
        for words in looks {
            let ran = loligo(words, &[&data]);
            assert!(ran.code != 0 && (ran.out + &ran.err).contains("the directory is missing"), "{words}");
            assert!(!part.exists(), "{words}");
        }
        std::fs::rename(&away, &part).expect("it can be moved");
    }
    std::fs::remove_file(&current).expect("it is there");
    loligo("fsck --data {} --repair", &[&data]).ok();
    assert!(data.join("table.damaged.3").is_dir());
    assert_eq!(names(&data), left);
    let server = Service::start("serve --data {} --admin off", &[&data]);
    User::new(&data).file(loligo_types::Ino::ROOT, b"new", b"it goes on");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
