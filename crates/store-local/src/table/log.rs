//! A quick look at RocksDB's log: whether it has come to a change, without putting its rows into memory as an opening does. It says yes only of
//! records whose checksums are right; where it says no, an opening to read tells. Not a reader of rows.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A log is a sequence of such blocks; no piece of a record goes over the end of one.
const BLOCK: usize = 32 << 10;
/// Before each piece of a record: checksum, length, kind.
const HEAD: usize = 7;
/// Kinds of pieces.
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// Before the rows of a record: number of the first change, and how many there are.
const RECORD_HEAD: usize = 12;

/// True if the newest log of a table has a whole record with this change or a later one, and nothing before that is damaged.
pub(super) fn reaches(table: &Path, change: u64) -> bool {
    newest(table).and_then(|path| File::open(path).ok()).is_some_and(|file| last_change(file) >= change)
}

fn newest(table: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(table).ok()?.flatten().map(|entry| entry.path());
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
    files.filter(|path| path.extension().is_some_and(|end| end == "log")).max_by_key(number)
}

/// The number of the last change before the first byte that is none of a record. 0: there is none.
fn last_change(mut file: impl Read) -> u64 {
    let (mut last, mut begun) = (0, None);
    let mut block = Vec::with_capacity(BLOCK);
    loop {
        block.clear();
        match file.by_ref().take(BLOCK as u64).read_to_end(&mut block) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        let mut rest = &block[..];
        // The end of a block that has no room for a piece is zeros.
        while rest.len() >= HEAD {
            let Some((kind, body, behind)) = piece(rest) else { return last };
            match kind {
                FULL => last = end_of(body).unwrap_or(last),
                FIRST => begun = end_of(body),
                MIDDLE => {}
                LAST => last = begun.take().unwrap_or(last),
                _ => return last,
            }
            rest = behind;
        }
    }
}

/// The first piece, if its checksum is right.
fn piece(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let len = usize::from(u16::from_le_bytes([head[4], head[5]]));
    let (body, behind) = rest.split_at_checked(len)?;
    // As RocksDB stores checksums of what may have checksums in it.
    let sum = crc32c::crc32c(&bytes[HEAD - 1..HEAD + len]).rotate_right(15).wrapping_add(0xa282_ead8);
    (sum.to_le_bytes() == head[..4]).then_some((head[6], body, behind))
}

/// The number of the last change of a record that begins so.
fn end_of(record: &[u8]) -> Option<u64> {
    let head = record.get(..RECORD_HEAD)?;
    let first = u64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
    let count = u32::from_le_bytes(head[8..].try_into().expect("4 bytes"));
    Some((first + u64::from(count)).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use loligo_store::{Backend, Batch, Durability};

    use super::*;
    use crate::{FormatOptions, LocalStore, OpenOptions};

    #[test]
    fn a_log_of_rocksdb_is_read_to_its_last_whole_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        LocalStore::format(&data, &FormatOptions::default()).expect("it is empty");
        let store = LocalStore::open(&data, &OpenOptions::default()).expect("it is there");
        let table = data.join("table");
        assert!(!reaches(&table, 1), "it is empty");
        let mut change = 0;
        // Records within a block, over a few, and such that end just before the end of one.
        for len in [10, 32_000, 700, 40, 200_000, 3].into_iter().chain(32_600..32_700) {
            let mut batch = Batch::new();
            batch.put("a", vec![7; len]);
            batch.put("b", "x");
            batch.delete("c");
            store.table().write(&batch, Durability::Buffered).expect("there is room");
            change += 3;
            assert!(reaches(&table, change) && !reaches(&table, change + 1), "{len}");
        }
        let mut log = fs::read(newest(&table).expect("it has one")).expect("it can be read");
        assert_eq!(last_change(&log[..]), change);
        assert_eq!(last_change(&log[..log.len() - 1]), change - 3);
        assert_eq!(last_change(&log[..0]), 0);
        log[40_000] ^= 1;
        assert_eq!(last_change(&log[..]), 12, "no further than the damage, which is in the fifth record");
        log.fill(0);
        assert_eq!(last_change(&log[..]), 0);
    }
}
