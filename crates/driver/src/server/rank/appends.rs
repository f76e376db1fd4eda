//! Records on their way to the journal. Where nobody waits for them they are gathered for a moment: each write and sync of the journal costs more
//! processor time than the operations that it is for. Not here: who waits (`loligo_mds`), and the writing.

use std::time::{Duration, Instant};

use loligo_types::Lsn;

/// Longest time for which records are gathered, beside the rest of a tick.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes at which gathered records are written.
const BYTES_MAX: usize = 1 << 20;

/// Records with their numbers, in order.
type Records = Vec<(Lsn, Vec<u8>)>;

#[derive(Default)]
pub(super) struct Appends {
    records: Records,
    bytes: usize,
    /// When the first of them is to go.
    by: Option<Instant>,
}

impl Appends {
    pub(super) fn push(&mut self, lsn: Lsn, record: Vec<u8>, now: Instant) {
        self.by.get_or_insert(now + GATHER);
        self.bytes += record.len();
        self.records.push((lsn, record));
    }

    /// True if the records are to go now; `may_wait`: nobody waits for them.
    pub(super) fn are_due(&self, may_wait: bool, now: Instant) -> bool {
        self.by.is_some_and(|by| !may_wait || now >= by || self.bytes >= BYTES_MAX)
    }

    /// All of them, and the number of the last.
    pub(super) fn take(&mut self) -> Option<(Lsn, Records)> {
        (self.bytes, self.by) = (0, None);
        let last = self.records.last()?.0;
        Some((last, std::mem::take(&mut self.records)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_nobody_waits_for_are_gathered_for_a_while_and_up_to_a_size() {
        let now = Instant::now();
        let mut appends = Appends::default();
        assert!(!appends.are_due(false, now), "there is nothing");
        appends.push(Lsn(1), vec![0; 10], now);
        assert!(appends.are_due(false, now), "somebody waits");
        assert!(!appends.are_due(true, now));
        appends.push(Lsn(2), vec![0; 10], now + GATHER / 2);
        assert!(appends.are_due(true, now + GATHER), "the first has waited long enough");
        assert_eq!(appends.take().map(|(last, records)| (last, records.len())), Some((Lsn(2), 2)));
        assert!(!appends.are_due(false, now + GATHER));
        appends.push(Lsn(3), vec![0; BYTES_MAX], now);
        assert!(appends.are_due(true, now), "it is much");
    }
}
