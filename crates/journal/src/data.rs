//! Data in the journal: which bytes of files have a record there and may not be in their objects. Fed with every event in the order of the
//! journal, by a rank as it makes them and by whoever reads a journal after a crash; what is left at its end is to be written to
//! objects, oldest first. Not here: writing it.
//!
//! A record counts until a later event says that the bytes are in place, were dropped, or that the file is gone or another rank's. What is
//! written to objects past the journal must not overlap a record that still counts: its repetition after a crash would undo the write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::{Event, Ino, Lsn, Patches};

/// Data of one file in one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRecord {
    /// The record.
    pub lsn: Lsn,
    /// The file.
    pub ino: Ino,
    /// Bytes in one of its objects.
    pub object_size: u32,
    /// The bytes, as far as they still count.
    pub patches: Arc<Patches>,
}

/// The records that count.
#[derive(Clone, Debug, Default)]
pub struct DataLog {
    /// By record and file: one record may be about several files.
    records: BTreeMap<(Lsn, Ino), Vec<DataRecord>>,
    /// The records of each file.
    by_ino: BTreeMap<Ino, BTreeSet<Lsn>>,
    bytes: u64,
}

impl DataLog {
    /// Takes in an event of a record. Those that are not about data change nothing.
    pub fn note(&mut self, lsn: Lsn, event: &Event) {
        match event {
            Event::Data { ino, object_size, patches } => {
                let (ino, object_size) = (*ino, *object_size);
                self.bytes += patches.len() as u64;
                let record = DataRecord { lsn, ino, object_size, patches: Arc::clone(patches) };
                self.records.entry((lsn, ino)).or_default().push(record);
                self.by_ino.entry(ino).or_default().insert(lsn);
            }
            Event::DataInPlace { ino: Ino(0), upto } => {
                let later = self.records.split_off(&(Lsn(upto.0.saturating_add(1)), Ino(0)));
                for key in std::mem::replace(&mut self.records, later).into_keys() {
                    self.unlink(key);
                }
                self.bytes = self.records.values().flatten().map(|record| record.patches.len() as u64).sum();
            }
            Event::DataInPlace { ino, upto } => self.drop_upto(*ino, *upto),
            Event::Discard { ino, from, .. } => self.cut(*ino, *from),
            Event::InodeGone(ino) => self.drop_upto(*ino, Lsn(u64::MAX)),
            Event::Departed(inos) if !self.is_empty() => {
                inos.iter().for_each(|ino| self.drop_upto(*ino, Lsn(u64::MAX)));
            }
            _ => {}
        }
    }

    /// True if nothing counts.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The oldest record that counts.
    pub fn oldest(&self) -> Option<Lsn> {
        self.records.first_key_value().map(|((lsn, _), _)| *lsn)
    }

    /// Bytes of data that count.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of files that have some.
    pub fn files(&self) -> usize {
        self.by_ino.len()
    }

    /// All that counts, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &DataRecord> {
        self.records.values().flatten()
    }

    fn unlink(&mut self, (lsn, ino): (Lsn, Ino)) {
        if let Some(of_it) = self.by_ino.get_mut(&ino) {
            of_it.remove(&lsn);
            if of_it.is_empty() {
                self.by_ino.remove(&ino);
            }
        }
    }

    fn drop_upto(&mut self, ino: Ino, upto: Lsn) {
        let Some(of_it) = self.by_ino.get(&ino) else { return };
        for lsn in of_it.range(..=upto).copied().collect::<Vec<_>>() {
            let gone = self.records.remove(&(lsn, ino)).into_iter().flatten();
            self.bytes -= gone.map(|record| record.patches.len() as u64).sum::<u64>();
            self.unlink((lsn, ino));
        }
    }

    /// The file's bytes from an offset on are dropped.
    fn cut(&mut self, ino: Ino, from: u64) {
        let Some(of_it) = self.by_ino.get(&ino) else { return };
        for lsn in of_it.iter().copied().collect::<Vec<_>>() {
            let Some(records) = self.records.get_mut(&(lsn, ino)) else { continue };
            let before: u64 = records.iter().map(|record| record.patches.len() as u64).sum();
            records.retain_mut(|record| match record.patches.below(from) {
                Some(left) => {
                    if left.len() != record.patches.len() {
                        record.patches = Arc::new(left);
                    }
                    true
                }
                None => false,
            });
            self.bytes -= before - records.iter().map(|record| record.patches.len() as u64).sum::<u64>();
            if records.is_empty() {
                self.records.remove(&(lsn, ino));
                self.unlink((lsn, ino));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(ino: u64, offset: u64, text: &str) -> Event {
        let patches = Patches::of(&[(offset, Arc::from(text.as_bytes()))]).expect("within the limits");
        Event::Data { ino: Ino(ino), object_size: 4096, patches: Arc::new(patches) }
    }

    /// Files as they are when all that counts is written, of 16 bytes each.
    fn written(log: &DataLog, ino: u64) -> String {
        let mut file = [b'.'; 16];
        for record in log.iter().filter(|record| record.ino == Ino(ino)) {
            for (offset, bytes) in record.patches.iter() {
                file[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        String::from_utf8_lossy(&file).into_owned()
    }

    fn log(events: &[Event]) -> DataLog {
        let mut log = DataLog::default();
        events.iter().enumerate().for_each(|(at, event)| log.note(Lsn(at as u64 + 1), event));
        log
    }

    #[test]
    fn later_records_go_over_earlier_ones() {
        let log = log(&[data(9, 0, "aaaa"), data(9, 2, "bbbb"), data(8, 0, "x"), data(9, 3, "c")]);
        assert_eq!(written(&log, 9), "aabcbb..........");
        assert_eq!((log.bytes(), log.files(), log.oldest()), (10, 2, Some(Lsn(1))));
    }

    #[test]
    fn what_is_in_place_does_not_count_any_more() {
        let one = Event::DataInPlace { ino: Ino(9), upto: Lsn(2) };
        let first = log(&[data(9, 0, "aaaa"), data(8, 0, "x"), data(9, 2, "bb"), one]);
        assert_eq!((written(&first, 9), written(&first, 8)), ("..bb............".into(), "x...............".into()));
        let all = Event::DataInPlace { ino: Ino(0), upto: Lsn(2) };
        let second = log(&[data(9, 0, "aaaa"), data(8, 0, "x"), data(9, 2, "bb"), all]);
        assert_eq!((written(&second, 9), second.files(), second.bytes()), ("..bb............".into(), 1, 2));
        assert_eq!(second.oldest(), Some(Lsn(3)));
    }

    #[test]
    fn a_cut_drops_what_lies_behind_it_and_not_what_comes_after_it() {
        let cut = Event::Discard { ino: Ino(9), from: 3, object_size: 4096 };
        let log = log(&[data(9, 0, "aaaaaa"), data(9, 4, "bb"), data(8, 4, "x"), cut, data(9, 5, "c")]);
        assert_eq!(written(&log, 9), "aaa..c..........");
        assert_eq!((written(&log, 8), log.bytes()), ("....x...........".into(), 5));
    }

    #[test]
    fn of_a_file_that_is_gone_or_another_ranks_nothing_counts() {
        let gone = log(&[data(9, 0, "a"), data(8, 0, "x"), Event::InodeGone(Ino(9))]);
        assert_eq!((gone.files(), gone.bytes(), gone.oldest()), (1, 1, Some(Lsn(2))));
        let departed = log(&[data(9, 0, "a"), data(8, 0, "x"), Event::Departed([Ino(8), Ino(9)].into())]);
        assert!(departed.is_empty() && departed.bytes() == 0);
    }

    #[test]
    fn a_journal_that_is_read_from_a_later_record_on_leaves_the_same() {
        let events = [
            data(9, 0, "aaaa"),
            Event::DataInPlace { ino: Ino(0), upto: Lsn(1) },
            data(9, 2, "bb"),
            Event::Discard { ino: Ino(9), from: 3, object_size: 4096 },
        ];
        let whole = log(&events);
        let mut late = DataLog::default();
        (1..events.len()).for_each(|at| late.note(Lsn(at as u64 + 1), &events[at]));
        assert_eq!(whole.iter().collect::<Vec<_>>(), late.iter().collect::<Vec<_>>());
    }
}
