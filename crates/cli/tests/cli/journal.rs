//! `loligo journal`: what is read of journals and of journal files, also while they are written.

use std::path::{Path, PathBuf};

use loligo_types::Ino;
use serde_json::Value;

use super::care::{User, filled};
use super::run::{Place, Service, loligo, records_of};

/// A file system with one of everything, whose server was killed, and its journal as a file.
fn exported(place: &Place) -> (PathBuf, PathBuf) {
    filled(place, true);
    let (data, file) = (place.data(), place.path("file"));
    let made = loligo("journal export --data {} {}", &[&data, &file]).ok();
    assert!(made.out.contains("records 1 to ") && made.out.contains("whole"), "{}", made.out);
    (data, file)
}

/// Records as `inspect --json` prints them: the number, origin and events of each, and not where it lies.
fn records(words: &str, paths: &[&Path]) -> Vec<(u64, String)> {
    let out = loligo(&format!("journal inspect --json {words}"), paths).ok().out;
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| Some((line["lsn"].as_u64()?, format!("{} {}", line["origin"], line["events"])))).collect()
}

#[test]
fn an_exported_journal_says_what_the_journal_says() {
    let place = Place::new();
    let (data, file) = exported(&place);
    let all = records("{}", &[&file]);
    assert_eq!(all, records("--data {}", &[&data]));
    assert!(all.len() > 10 && all.iter().map(|(lsn, _)| *lsn).eq(1..=all.len() as u64), "{all:?}");
    for (a, b) in [("{}", "{}"), ("{}", "{}:0")] {
        let same = loligo(&format!("journal diff {a} {b}"), &[&file, &data]).ok();
        assert!(same.out.contains(&format!("{} records are the same, 0 differ", all.len())), "{}", same.out);
    }
    loligo("journal export --data {} {}", &[&data, &file]).fails(1, &["exists, and is not overwritten"]);
    loligo("journal export --data {} {}", &[&data, &place.path("no/where")]).fails(1, &["cannot be made"]);
    loligo("journal export --data {} --rank 1 {}", &[&data, &place.path("x")]).fails(1, &["no journal of rank 1", "0"]);
    loligo("journal inspect {} --rank 1", &[&file]).fails(2, &["is not of rank 1"]);
    let summary = loligo("journal inspect {} --summary", &[&file]).ok().out;
    assert!(
        summary.contains("rank 0 segment 1") && summary.contains(" inode, ") && !summary.contains("dir=1"),
        "{summary}"
    );
    let json = loligo("journal inspect {} --summary --json", &[&file]).ok().out;
    let last: Value = serde_json::from_str(json.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["rank"], &last["finished"], &last["selection"]), (&0.into(), &true.into(), &false.into()));
    assert!(last["kinds"]["entry"].as_u64().expect("a count") >= 10, "{last}");
}

#[test]
fn filters_say_which_records_are_shown_and_exported() {
    let place = Place::new();
    let (data, file) = exported(&place);
    let all = records("{}", &[&file]);
    for (words, has) in [
        ("--name link", "\"name\":\"link\""),
        ("--kind xattr,xattr_gone", "\"event\":\"xattr\""),
        ("--kind entry --ino 1", "\"dir\":1,"),
        ("--lsn 2..4", ""),
        ("--lsn 3", ""),
    ] {
        let found = records(&format!("{{}} {words}"), &[&file]);
        assert!(!found.is_empty() && found.len() < all.len(), "{words}: {found:?}");
        assert!(found.iter().all(|one| all.contains(one)), "{words}: {found:?}");
        assert!(found.iter().all(|(_, text)| text.contains(has)), "{words}: {found:?}");
        let some = place.path("some");
        loligo(&format!("journal export --data {{}} {{}} {words}"), &[&data, &some]).ok();
        assert_eq!(records("{}", &[&some]), found, "{words}");
        loligo(&format!("journal diff {{}} {{}} {words}"), &[&some, &data]).ok();
        let rest = loligo("journal diff {} {} --json", &[&some, &data]).fails(3, &["differ"]).out;
        let last: Value = serde_json::from_str(rest.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["only_b"].as_u64().expect("a count") as usize, all.len() - found.len(), "{words}");
        std::fs::remove_file(&some).expect("removed");
    }
    // All changes here were one client's.
    let session = all.iter().find_map(|(_, text)| {
        let origin: Value = serde_json::from_str(text.split(" [").next()?).ok()?;
        origin["session"].as_u64()
    });
    let found = records(&format!("{{}} --session {}", session.expect("a session")), &[&file]);
    assert!(found.len() > 10 && found.len() < all.len(), "{found:?}");
    for (words, why) in
        [("--kind file", "no kind of event"), ("--lsn 5..2", "names no records"), ("--name a/b", "no name")]
    {
        loligo(&format!("journal inspect {{}} {words}"), &[&file]).fails(2, &[why]);
    }
    loligo("journal inspect", &[]).fails(2, &["--data"]);
}

#[test]
fn a_journal_is_read_while_a_server_writes_it() {
    let place = Place::new();
    let (data, file) = (place.data(), place.path("file"));
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let user = User::new(&data);
    user.file(Ino::ROOT, b"first", b"x");
    loligo("journal export --data {} {}", &[&data, &file]).ok();
    let before = records("{}", &[&file]);
    assert_eq!(records("--data {} --name first", &[&data]), records("{} --name first", &[&file]));
    user.file(Ino::ROOT, b"second", b"x");
    let differ = loligo("journal diff {} {}", &[&file, &data]).fails(3, &["differ"]);
    assert!(differ.out.contains("only in B: lsn") && differ.out.contains("name=second"), "{}", differ.out);
    assert!(!differ.out.contains("name=first"), "{}", differ.out);
    let after = records("--data {}", &[&data]);
    assert_eq!(after[..before.len()], before[..]);
    // Reading did not keep the server from going on.
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_torn_journal_is_exported_up_to_its_end_and_a_file_that_was_cut_says_so() {
    let place = Place::new();
    let (data, whole) = exported(&place);
    let all = records("{}", &[&whole]);
    let segment = std::fs::read_dir(data.join("journal/0")).expect("a journal").flatten().next().expect("one").path();
    let bytes = records_of(&segment);
    std::fs::write(&segment, &bytes[..bytes.len() - 3]).expect("written");
    let torn = place.path("torn");
    let told = loligo("journal export --data {} {}", &[&data, &torn]).ok().out;
    assert!(told.contains("ends with a torn write"), "{told}");
    assert_eq!(records("{}", &[&torn]), all[..all.len() - 1]);
    let differ = loligo("journal diff {} {}", &[&whole, &torn]).fails(3, &["differ"]).out;
    assert!(differ.contains(&format!("only in A: lsn {}", all.len())), "{differ}");
    // The middle of a journal that is changed: what comes before is exported, and that it is not all is said.
    let mut broken = bytes.clone();
    broken[bytes.len() / 2] ^= 1;
    std::fs::write(&segment, &broken).expect("written");
    let part = place.path("part");
    let told = loligo("journal export --data {} {}", &[&data, &part]).fails(3, &["the file has what comes before"]);
    assert!(told.out.contains("broken"), "{}", told.out);
    let some = records("{}", &[&part]);
    assert!(!some.is_empty() && some[..] == all[..some.len()], "{some:?}");

    let bytes = std::fs::read(&whole).expect("a file");
    std::fs::write(&part, &bytes[..bytes.len() - 3]).expect("written");
    loligo("journal inspect {} --summary", &[&part]).fails(3, &["1 of its records are missing"]);
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    std::fs::write(&part, &changed).expect("written");
    loligo("journal inspect {} --summary", &[&part]).fails(3, &["checksum of record"]);
    loligo("journal diff {} {}", &[&part, &whole]).fails(3, &["part (rank 0) is broken", "not compared"]);
    changed = bytes.clone();
    changed[20] ^= 1;
    std::fs::write(&part, &changed).expect("written");
    loligo("journal inspect {}", &[&part]).fails(3, &["the header of this journal file"]);
    std::fs::write(&part, "loligo-dump 1").expect("written");
    loligo("journal inspect {}", &[&part]).fails(1, &["this is no journal file", "loligo journal export"]);
    loligo("journal inspect {}", &[&segment]).fails(1, &["begins as a single segment"]);
    loligo("journal inspect {}", &[place.dir.path()]).fails(2, &["is a directory", "--data"]);
    loligo("journal diff {} {}", &[&place.path("none"), &whole]).fails(1, &["none"]);
}
