//! Small changes of data held in inodes, which the journal has in short: after a kill they are there for a server, for commands without one
//! and in a copy; and what they build on is not erased, and not left out of what is imported.

use std::path::Path;
use std::sync::Arc;

use loligo_driver::client::path::OpenHow;
use loligo_journal::{FileReader, FileWriter, MemSource, Owner, Tail, Writer, WriterConfig};
use loligo_types::{Cred, Lsn};
use serde_json::Value;

use super::care::User;
use super::run::{PATIENCE, Place, Service, loligo};

/// Bytes of the file before the appends.
const WHOLE: usize = 6000;
/// A segment behind all that there are, as its file is named.
const SEGMENT: u64 = 0x64;
/// Bytes of an append.
const MORE: usize = 128;

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|n| b'a' + (n * 7 / 3 % 26) as u8).collect()
}

/// A file system with a file of 6,000 bytes and so many synced appends to it, whose server was killed.
fn killed(place: &Place, appends: usize) -> Vec<u8> {
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let user = User::new(&data);
    let fs = user.client.fs(Arc::new(Cred::root()));
    let all = text(WHOLE + appends * MORE);
    fs.write("/log", all[..WHOLE].to_vec()).expect("written");
    let file = fs.open("/log", OpenHow::read_write()).expect("it is there");
    for at in (WHOLE..all.len()).step_by(MORE) {
        file.write_at(at as u64, all[at..at + MORE].to_vec()).expect("written");
        file.sync().expect("synced");
    }
    server.kill();
    all
}

/// The records with a change in short, and those with whole data: number, bytes of the change or the data.
fn changes(journal: &Path) -> (Vec<u64>, Vec<u64>) {
    let numbers = |kind: &str| -> Vec<u64> {
        let out = loligo(&format!("journal inspect {{}} --json --kind {kind}"), &[journal]).ok().out;
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter_map(|line| line["lsn"].as_u64()).collect()
    };
    (numbers("inline_patch"), numbers("inline"))
}

#[test]
fn after_a_kill_appends_are_there_for_a_server_a_dump_a_copy_and_fsck() {
    let place = Place::new();
    let all = killed(&place, 40);
    let (data, file, copy) = (place.data(), place.path("file"), place.path("copy"));
    loligo("journal export --data {} {}", &[&data, &file]).ok();
    let (short, whole) = changes(&file);
    assert!(short.len() > 30 && whole.len() < 5, "{short:?} {whole:?}");
    let text = String::from_utf8(all.clone()).expect("letters");
    assert!(loligo("dump --data {}", &[&data]).ok().out.contains(&text), "the dump has the data");
    loligo("fsck --data {}", &[&data]).ok();
    loligo("store check --data {}", &[&data]).ok();
    loligo("copy --from {} --to {}", &[&data, &copy]).ok();
    assert!(loligo("dump --data {}", &[&copy]).ok().out.contains(&text), "and the copy");
    for round in 0..3 {
        let server = Service::start("serve --data {} --admin off", &[&data]);
        let user = User::new(&data);
        let fs = user.client.fs(Arc::new(Cred::root()));
        let mut now = all.clone();
        now.extend(vec![b'!'; round]);
        assert!(fs.read("/log").expect("it is there") == now, "round {round}");
        let file = fs.open("/log", OpenHow::read_write()).expect("it is there");
        file.write_at(now.len() as u64, b"!".to_vec()).expect("written");
        file.sync().expect("synced");
        match round {
            2 => {
                drop(file);
                user.client.stop(PATIENCE).expect("a clean end");
                assert_eq!(server.stop().0, 0);
            }
            _ => server.kill(),
        }
    }
    assert!(loligo("dump --data {}", &[&data]).ok().out.contains(&format!("{text}!!!")));
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn what_a_change_builds_on_is_not_erased_and_a_journal_without_it_is_not_imported() {
    let place = Place::new();
    let all = killed(&place, 8);
    let (data, file) = (place.data(), place.path("file"));
    loligo("journal export --data {} {}", &[&data, &file]).ok();
    let (short, whole) = changes(&file);
    let (base, last) = (*whole.last().expect("whole data"), *short.last().expect("changes"));
    assert!(short.len() > 2 && base < short[0], "{short:?} {whole:?}");
    for lsn in [base, short[0]] {
        for dry in ["", " --dry-run"] {
            let text = "builds on what would be erased";
            loligo(&format!("journal erase --data {{}} --lsn {lsn}{dry}"), &[&data]).fails(1, &[text, "--ino"]);
        }
        loligo(&format!("journal erase {{}} --lsn {lsn}"), &[&file]).fails(1, &["builds on what would be erased"]);
    }
    // The journal as it would be, made by other means.
    let broken = place.path("broken");
    erased(&file, &broken, base);
    loligo("journal import {} --data {} --rank 0", &[&broken, &data])
        .fails(3, &["cannot be replayed", &format!("builds on record {base}"), "name a file that has them"]);
    loligo("journal apply {} --data {}", &[&broken, &data]).fails(3, &["cannot be replayed"]);
    loligo("journal import {} --data {} --rank 0", &[&file, &data]).ok();
    // The last change and all of the file may go.
    loligo(&format!("journal erase --data {{}} --lsn {last}"), &[&data]).ok();
    let text = String::from_utf8(all[..all.len() - MORE].to_vec()).expect("letters");
    let dump = loligo("dump --data {}", &[&data]).ok().out;
    assert!(dump.contains(&text) && !dump.contains(&String::from_utf8(all).expect("letters")));
    let first = short[0];
    loligo(&format!("journal erase --data {{}} --lsn {first}.. --kind inline_patch"), &[&data]).ok();
    loligo("dump --data {}", &[&data]).ok();
    // In its place a server refuses it by name.
    let journal = data.join("journal/0");
    for segment in std::fs::read_dir(&journal).expect("a journal").flatten() {
        std::fs::remove_file(segment.path()).expect("removed");
    }
    std::fs::write(journal.join("0000000000000064.seg"), segment_of(&broken)).expect("written");
    let remedies = ["cannot be replayed", &format!("builds on record {base}"), "journal import"];
    loligo("serve --data {}", &[&data]).fails(1, &remedies);
    loligo("dump --data {}", &[&data]).fails(1, &remedies);
}

/// The records of a journal file of rank 0, without what one of them says.
fn without(file: &Path, lsn: u64) -> ([u8; 16], Vec<(Lsn, Vec<u8>)>) {
    let bytes = std::fs::read(file).expect("a file");
    let fs = bytes[16..32].try_into().expect("16 bytes");
    let mut reader = FileReader::open(MemSource([(0, bytes)].into())).expect("a journal file");
    let mut records = Vec::new();
    while let Some(raw) = reader.next_record().expect("whole") {
        records.push((raw.lsn, if raw.lsn == Lsn(lsn) { vec![2, 0, 0] } else { raw.body.to_vec() }));
    }
    (fs, records)
}

/// A journal file that lacks what a record says.
fn erased(file: &Path, to: &Path, lsn: u64) {
    let (fs, records) = without(file, lsn);
    let mut writer = FileWriter::new(fs, Owner::Rank(0), false);
    let mut out = writer.header().to_vec();
    for (lsn, body) in records {
        writer.append(&mut out, lsn, &body).expect("it follows");
    }
    std::fs::write(to, out).expect("written");
}

/// The records of a journal file as the only segment of a rank.
fn segment_of(file: &Path) -> Vec<u8> {
    let (fs, records) = without(file, 0);
    let tail = Tail { next_lsn: records[0].0, next_segment: SEGMENT, ..Tail::default() };
    let mut writer = Writer::resume(WriterConfig::new(fs, 0), &tail);
    for (_, body) in records {
        writer.append(&body).expect("the writer has not failed");
    }
    writer.take_batch().expect("records").bytes
}
