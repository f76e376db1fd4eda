//! `loligo journal import`, `apply` and `erase`: dry runs change nothing, what was there is kept, and what comes is a file system.

use std::path::{Path, PathBuf};

use loligo_journal::{FileWriter, Owner, Tail, Writer, WriterConfig};
use loligo_types::{Ino, Lsn};
use serde_json::Value;

use super::care::{User, filled};
use super::run::{Place, Service, loligo, records_of};

/// All that the file system is, those of its records that are in journals only included.
fn dump(data: &Path) -> String {
    loligo("dump --without-data --data {}", &[data]).ok().out
}

fn inspect(data: &Path) -> String {
    loligo("journal inspect --data {}", &[data]).ok().out
}

/// A file system with one of everything, whose server was killed; its journal as a file; and what it is.
fn killed(place: &Place) -> (PathBuf, PathBuf, String) {
    filled(place, true);
    let (data, file) = (place.data(), place.path("file"));
    loligo("journal export --data {} {}", &[&data, &file]).ok();
    let text = dump(&data);
    (data, file, text)
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        std::fs::read_dir(data.join("journal/0")).expect("a journal").flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// A server starts there and serves.
fn serves(data: &Path) {
    let server = Service::start("serve --data {} --admin off", &[data]);
    let user = User::new(data);
    user.file(Ino::ROOT, b"made later", b"x");
    user.client.stop(super::run::PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[data]).ok();
}

#[test]
fn what_is_applied_is_in_the_table_and_applying_it_again_does_no_harm() {
    let place = Place::new();
    let (data, _, text) = killed(&place);
    let journal = inspect(&data);
    for _ in 0..2 {
        let dry = loligo("journal apply --data {} --dry-run", &[&data]).ok();
        assert!(dry.out.contains("rank 0: the table may lack records 1 to "), "{}", dry.out);
        assert!(dry.out.contains("inode: ") && dry.out.contains("entry: 10 rows would be written"), "{}", dry.out);
        assert!(dry.err.contains("nothing was changed"), "{}", dry.err);
        assert_eq!(inspect(&data), journal, "a dry run changes nothing");
    }
    let json = loligo("journal apply --data {} --dry-run --json", &[&data]).ok().json();
    assert_eq!((&json["done"], &json["rows"]["entry"]["put"]), (&false.into(), &10.into()), "{json}");
    let done = loligo("journal apply --data {}", &[&data]).ok();
    assert!(done.err.contains("backup of rank 0: ") && done.err.contains("data.journal-0.1"), "{}", done.err);
    loligo("journal diff {} {}", &[&place.path("data.journal-0.1"), &data]).ok();
    assert_eq!(dump(&data), text);
    loligo("fsck --data {}", &[&data]).ok();
    let again = loligo("journal apply --data {}", &[&data]).ok();
    assert!(again.out.contains("has all that the journals say"), "{}", again.out);
    assert!(!place.path("data.journal-0.2").exists());
    assert_eq!(dump(&data), text);
    // The journal is not needed for what it said, but it is where the next record will go.
    serves(&data);
    assert!(dump(&data).contains("made\\x20later"));
}

#[test]
fn a_file_is_applied_where_the_journal_is_lost() {
    let place = Place::new();
    let (data, file, text) = killed(&place);
    segments(&data).iter().for_each(|segment| std::fs::remove_file(segment).expect("removed"));
    loligo("dump --without-data --data {}", &[&data]).fails(1, &["is missing"]);
    let dry = loligo("journal apply {} --data {} --dry-run", &[&file, &data]).ok();
    assert!(dry.out.contains("entry: 10 rows would be written"), "{}", dry.out);
    assert!(segments(&data).is_empty());
    for round in 0..2 {
        let done = loligo("journal apply {} --data {}", &[&file, &data]).ok();
        assert_eq!(done.out.contains("entry: 10 rows were written"), round == 0, "{}", done.out);
        assert_eq!(dump(&data), text, "round {round}");
        loligo("fsck --data {}", &[&data]).ok();
    }
    serves(&data);
    // The table has gone on since.
    loligo("journal apply {} --data {} --dry-run", &[&file, &data]).fails(1, &["it is older than the table"]);
}

#[test]
fn a_file_that_ends_before_the_journal_is_not_applied() {
    let place = Place::new();
    let (data, _, text) = killed(&place);
    let some = place.path("some");
    loligo("journal export --data {} {} --lsn ..5", &[&data, &some]).ok();
    loligo("journal apply {} --data {}", &[&some, &data]).fails(1, &["ends with record 5", "that would be lost"]);
    assert_eq!(dump(&data), text);
}

#[test]
fn a_damaged_journal_is_replaced_by_a_file_and_kept_as_it_was() {
    let place = Place::new();
    let (data, file, text) = killed(&place);
    let segment = segments(&data).pop().expect("a segment");
    let mut bytes = records_of(&segment);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, &bytes).expect("written");
    loligo("serve --data {}", &[&data]).fails(1, &["checksum of record"]);
    let words = "journal import {} --data {} --rank 0";
    let dry = loligo(&format!("{words} --dry-run"), &[&file, &data]).ok();
    assert!(dry.out.contains("rank 0 is broken") && dry.out.contains("0 would be dropped"), "{}", dry.out);
    assert!(dry.err.contains("nothing was changed"), "{}", dry.err);
    assert_eq!(std::fs::read(&segment).expect("a segment"), bytes);
    let kept = place.path("kept");
    let done = loligo(&format!("{words} --backup {{}} --json"), &[&file, &data, &kept]).ok().json();
    assert_eq!((&done["done"], &done["dropped"]), (&true.into(), &0.into()), "{done}");
    // What could be understood, and what was there.
    loligo("journal inspect {}", &[&kept]).ok();
    let raw = place.path("kept.segments").join(segment.file_name().expect("a name"));
    assert_eq!(std::fs::read(raw).expect("a segment"), bytes);
    loligo("journal diff {} {}", &[&file, &data]).ok();
    assert_eq!(dump(&data), text);
    loligo("store check --data {}", &[&data]).ok();
    serves(&data);
}

#[test]
fn a_file_that_does_not_fit_is_refused_by_name() {
    let place = Place::new();
    let (data, file, text) = killed(&place);
    let import = |file: &Path, data: &Path| loligo("journal import {} --data {} --rank 0", &[file, data]);
    let export = |words: &str| {
        let some = place.path("some");
        let _ = std::fs::remove_file(&some);
        loligo(&format!("journal export --data {{}} {{}} {words}"), &[&data, &some]).ok();
        some
    };
    let gap =
        ["there is a gap between the table", "lacks what begins with record 1", "begins with 4", "records 1 to 3"];
    import(&export("--lsn 4.."), &data).fails(1, &gap);
    import(&export("--kind session,xattr"), &data).fails(1, &["is a selection: record"]);
    loligo("journal import {} --data {} --rank 1", &[&file, &data]).fails(2, &["is not of rank 1"]);
    loligo("journal import {} --data {}", &[&file, &data]).fails(2, &["--rank"]);
    let other = place.path("other");
    loligo("format --data {}", &[&other]).ok();
    import(&file, &other).fails(1, &["is of another file system"]);
    // Journals of a client and of a rank that there is not.
    let fs = std::fs::read(&file).expect("a file")[16..32].try_into().expect("16 bytes");
    for (owner, rank, why) in [(Owner::Client(7), 0, "journal of client 7"), (Owner::Rank(5), 5, "has no rank 5")] {
        let mut writer = FileWriter::new(fs, owner, false);
        let mut bytes = writer.header().to_vec();
        writer.append(&mut bytes, Lsn(1), &[2, 0, 0]).expect("the first");
        std::fs::write(place.path("some"), &bytes).expect("written");
        loligo(&format!("journal import {{}} --data {{}} --rank {rank}"), &[&place.path("some"), &data])
            .fails(1, &[why]);
    }
    let mut changed = std::fs::read(&file).expect("a file");
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(place.path("some"), &changed).expect("written");
    import(&place.path("some"), &data).fails(3, &["checksum of record"]);
    assert_eq!(dump(&data), text);
    // The table has come further than the file.
    let old = export("--lsn ..5");
    loligo("journal apply --data {}", &[&data]).ok();
    import(&old, &data).fails(1, &["ends before record 6", "it is older than the table"]);
    // What fits is refused only where it would overwrite something.
    loligo("journal import {} --data {} --rank 0 --backup {}", &[&file, &data, &old]).fails(1, &["exists"]);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn an_erased_record_says_nothing_and_the_backup_brings_it_back() {
    let place = Place::new();
    let (data, file, text) = killed(&place);
    let journal = inspect(&data);
    loligo("journal erase --data {} --rank 0", &[&data]).fails(2, &["which records are to be erased", "--lsn"]);
    let dry = loligo("journal erase --data {} --rank 0 --name link --kind entry --dry-run", &[&data]).ok();
    assert!(dry.out.contains("name=link") && dry.out.contains("1 records of rank 0 would be erased"), "{}", dry.out);
    assert!(dry.err.contains("fsck --repair") && dry.err.contains("nothing was changed"), "{}", dry.err);
    let none = loligo("journal erase --data {} --name nothing", &[&data]).ok();
    assert!(none.err.contains("there is nothing to erase"), "{}", none.err);
    assert_eq!(inspect(&data), journal);
    let done = loligo("journal erase --data {} --name link --kind entry", &[&data]).ok();
    assert!(done.err.contains("ERASED") && done.err.contains("--repair"), "{}", done.err);
    let backup = place.path("data.journal-0.1");
    loligo("journal diff {} {}", &[&backup, &file]).ok();
    // Numbers have no holes, and only this record is another one.
    let differ = loligo("journal diff {} {} --json", &[&backup, &data]).fails(3, &["differ"]).out;
    let lines: Vec<Value> = differ.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[1]["differ"], &lines[1]["only_a"]), (2, &1.into(), &0.into()), "{differ}");
    assert_eq!(lines[0]["b"]["events"], serde_json::json!([]));
    assert!(!dump(&data).contains("target=../to\\x20where"));
    loligo("fsck --data {}", &[&data]).fails(3, &["problems found"]);
    let import = loligo("journal import {} --data {} --rank 0", &[&backup, &data]).ok();
    assert!(import.out.contains("1 was others"), "{}", import.out);
    assert_eq!(dump(&data), text);
    loligo("fsck --data {}", &[&data]).ok();
    // And erased for good.
    let json = loligo("journal erase --data {} --name link --kind entry --json", &[&data]).ok().json();
    assert_eq!((&json["done"], &json["records"]), (&true.into(), &1.into()), "{json}");
    loligo("fsck --data {} --repair", &[&data]).ok();
    serves(&data);
    loligo("journal erase --data {} --lsn 1.. --kind nothing", &[&data]).fails(2, &["no kind of event"]);
}

#[test]
fn a_record_that_no_server_understands_is_erased_by_its_number() {
    let place = Place::new();
    let (data, _, text) = killed(&place);
    let last = loligo("journal inspect --data {} --summary --json", &[&data]).ok().out;
    let last: Value = serde_json::from_str(last.lines().last().expect("a line")).expect("JSON");
    let lsn = last["next_lsn"].as_u64().expect("a number");
    // As a later version may write it.
    let fs: [u8; 16] = std::fs::read(place.path("file")).expect("a file")[16..32].try_into().expect("16 bytes");
    let tail = Tail { next_lsn: Lsn(lsn), next_segment: 9, ..Tail::default() };
    let mut writer = Writer::resume(WriterConfig::new(fs, 0), &tail);
    writer.append(&[9, 0, 0]).expect("the writer has not failed");
    let bytes = writer.take_batch().expect("a record").bytes;
    std::fs::write(data.join("journal/0/0000000000000009.seg"), bytes).expect("written");
    loligo("serve --data {}", &[&data]).fails(1, &["cannot be understood"]);
    loligo("journal inspect --data {} --summary", &[&data]).fails(3, &[&format!("record {lsn}")]);
    let none =
        loligo("journal erase --data {} --ino 1 --lsn {}.. --dry-run", &[&data, Path::new(&lsn.to_string())]).ok();
    assert!(none.err.contains("there is nothing to erase"), "only by its number: {}", none.err);
    let words = "journal erase --data {} --lsn {}";
    let done = loligo(words, &[&data, Path::new(&lsn.to_string())]).ok();
    assert!(done.out.contains("is not understood") && done.out.contains("1 records of rank 0"), "{}", done.out);
    assert_eq!(dump(&data), text);
    serves(&data);
}

#[test]
fn what_is_served_is_not_mended() {
    let place = Place::new();
    let (data, file, _) = killed(&place);
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let owner = format!("process {}", server.pid());
    for words in ["apply --data {}", "erase --data {} --lsn 1"] {
        loligo(&format!("journal {words}"), &[&data]).fails(1, &["in use", &owner, "stop it first: loligo down"]);
    }
    for words in ["apply {} --data {}", "import {} --data {} --rank 0"] {
        loligo(&format!("journal {words}"), &[&file, &data]).fails(1, &["in use", &owner]);
    }
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn the_journals_of_several_ranks_are_applied_together() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --admin off --set balancer=none", &[&data]);
    let user = User::new(&data);
    let client = &user.client;
    let fs = client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    fs.mkdir("/a", 0o755).expect("made");
    fs.mkdir("/b", 0o755).expect("made");
    loligo("subtree migrate --data {} /b 1", &[&data]).ok();
    for n in 0..20 {
        fs.write(format!("/a/{n}"), n.to_string().into_bytes()).expect("written");
        // Over ranks: letters.
        fs.rename(format!("/a/{n}"), format!("/b/{n}")).expect("moved");
    }
    server.kill();
    let text = dump(&data);
    let out = place.path("out");
    loligo("journal export --data {} {}", &[&data, &out]).fails(2, &["has journals of 2 ranks", "--rank"]);
    let both = loligo("journal inspect --data {} --kind letter", &[&data]).ok().out;
    assert!(both.contains("rank 0 segment") && both.contains("rank 1 segment") && both.contains("letter "), "{both}");
    let one = loligo("journal inspect --data {} --rank 1 --summary", &[&data]).ok().out;
    assert!(!one.contains("rank 0 segment") && one.contains("rank 1: whole"), "{one}");
    loligo("journal diff {}:0 {}:1", &[&data, &data]).fails(3, &["differ"]);
    let erase = loligo("journal erase --data {} --rank 0 --kind letter --dry-run", &[&data]).ok().out;
    assert!(erase.contains("of them have letters"), "{erase}");
    loligo("journal apply --data {} --backup {}", &[&data, &out]).ok();
    assert!(place.path("out.0").exists() && place.path("out.1").exists());
    assert_eq!(dump(&data), text);
    loligo("fsck --data {}", &[&data]).ok();
    let again = loligo("journal apply --data {}", &[&data]).ok().out;
    assert!(again.contains("has all that the journals say"), "{again}");
    let server = Service::start("serve --data {} --admin off --set balancer=none", &[&data]);
    let user = User::new(&data);
    let fs = user.client.fs(std::sync::Arc::new(loligo_types::Cred::root()));
    for n in 0..20 {
        assert_eq!(fs.read(format!("/b/{n}")).expect("it is there"), n.to_string().as_bytes());
    }
    user.client.stop(super::run::PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
}
