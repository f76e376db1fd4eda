//! A replacement that is cut off anywhere leaves the old journal, the new one, or one that is refused; never a part of either.

use loligo_journal::{FileWriter, Owner, ReadConfig, Reader};
use loligo_rows::LogSource;
use loligo_store::Identity;
use loligo_store::mem::{CrashPlan, Fault, FaultPoint, MemDisk, Torn};

use super::*;

const FS: [u8; 16] = [1; 16];
/// Records that the old journal and the file have.
const LAST: u64 = 40;

/// Four records fit in a segment, and two go there at once.
fn config() -> WriterConfig {
    WriterConfig { fs: FS, rank: 0, segment_size: 64 + 4 * 124 }
}

fn body(lsn: u64, new: bool) -> Vec<u8> {
    vec![lsn as u8 | if new { 0x80 } else { 0 }; 100]
}

/// A disk with the old journal.
fn disk() -> MemDisk {
    let disk = MemDisk::new(Identity::new(FS, [2; 16]));
    let store = disk.open().expect("it is not open");
    let log = store.log_dir(0).expect("there is room");
    let mut to = To { log: &*log, writer: Writer::new(config()), file: None };
    for lsn in 1..=LAST {
        to.writer.append(&body(lsn, false)).expect("the writer has not failed");
        to.flush().expect("there is room");
    }
    drop(to);
    store.close().expect("it closes");
    disk.crash(&CrashPlan::lose_nothing());
    disk
}

/// A file of new records.
fn file(dir: &tempfile::TempDir) -> Journal {
    let mut writer = FileWriter::new(FS, Owner::Rank(0), false);
    let mut bytes = writer.header().to_vec();
    for lsn in 1..=LAST {
        writer.append(&mut bytes, Lsn(lsn), &body(lsn, true)).expect("it follows");
    }
    bytes[..64].copy_from_slice(&writer.finish());
    let path = dir.path().join("file");
    std::fs::write(&path, &bytes).expect("written");
    Journal::file(&path).expect("a good file")
}

fn replace_there(disk: &MemDisk, file: &Journal) -> Outcome {
    let store = disk.open().expect("it is not open");
    let new = New { file, first: Lsn(1), next: Lsn(LAST + 1), blank: None };
    replace_in(&*store, &new, config(), 2 * 124)
}

/// The bodies from a record on, if the journal is not refused; with where the next record goes.
fn read(disk: &MemDisk, from: u64) -> Option<(Vec<Vec<u8>>, Tail)> {
    let store = disk.open().expect("it is not open");
    let config = ReadConfig { fs: Some(FS), rank: Some(0), from: Lsn(from), synced: None };
    let all = (|| {
        let mut reader = Reader::open(LogSource::new(store.log_dir(0).ok()?), config).ok()?;
        let mut bodies = Vec::new();
        while let Some(record) = reader.next_record().ok()? {
            bodies.push(record.body.to_vec());
        }
        Some((bodies, reader.tail()?))
    })();
    store.close().expect("it closes");
    drop(store);
    disk.crash(&CrashPlan::lose_nothing());
    all
}

fn bodies(from: u64, new: bool) -> Vec<Vec<u8>> {
    (from..=LAST).map(|lsn| body(lsn, new)).collect()
}

#[test]
fn the_new_records_are_there_and_a_writer_goes_on_behind_them() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let disk = disk();
    replace_there(&disk, &file(&dir)).expect("there is room");
    disk.crash(&CrashPlan::lose_all());
    for from in 1..=LAST + 1 {
        let (found, tail) = read(&disk, from).expect("a good journal");
        assert_eq!(found, bodies(from, true));
        assert_eq!(tail.next_lsn, Lsn(LAST + 1));
    }
    let (_, tail) = read(&disk, 1).expect("a good journal");
    let store = disk.open().expect("it is not open");
    let log = store.log_dir(0).expect("it is there");
    let mut to = To { log: &*log, writer: Writer::resume(config(), &tail), file: None };
    to.writer.append(&body(LAST + 1, true)).expect("the writer has not failed");
    to.flush().expect("there is room");
    // All but what has the newest record may go then.
    to.writer.trim(Lsn(LAST + 1)).into_iter().for_each(|id| log.delete(id).expect("removed"));
    assert_eq!(log.list().expect("a list").len(), 1);
    drop(to);
    drop(log);
    store.close().expect("it closes");
    drop(store);
    disk.crash(&CrashPlan::lose_all());
    assert_eq!(read(&disk, LAST + 1).expect("a good journal").0, [body(LAST + 1, true)]);
}

#[test]
fn wherever_it_is_cut_off_no_part_of_a_journal_is_taken_for_all_of_it() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let file = file(&dir);
    let (mut old, mut new, mut refused) = (0, 0, 0);
    let plans = [CrashPlan::lose_all(), CrashPlan::lose_nothing()]
        .into_iter()
        .chain((0..3).map(|seed| CrashPlan::lose_some(Torn::Sector, seed)));
    for plan in plans {
        for point in [FaultPoint::LogAppend, FaultPoint::LogSync, FaultPoint::TableWrite] {
            for nth in 1.. {
                let disk = disk();
                disk.fail(point, nth, Fault::Die);
                let done = replace_there(&disk, &file).is_ok();
                disk.crash(&plan);
                for from in [1, 2, LAST / 2, LAST, LAST + 1] {
                    match read(&disk, from) {
                        None => refused += 1,
                        Some((found, _)) if found == bodies(from, true) => new += 1,
                        Some((found, _)) if found == bodies(from, false) => old += 1,
                        Some((found, _)) => panic!("{point:?} {nth}, {plan:?}, from {from}: {found:?}"),
                    }
                }
                if done {
                    break;
                }
                // And then the same command, or the import of the backup, mends it.
                replace_there(&disk, &file).expect("it is as before");
                disk.crash(&CrashPlan::lose_all());
                assert_eq!(read(&disk, 1).expect("a good journal").0, bodies(1, true), "{point:?} {nth}, {plan:?}");
            }
        }
    }
    assert!(old > 0 && new > 0 && refused > 0, "{old} {new} {refused}");
}
