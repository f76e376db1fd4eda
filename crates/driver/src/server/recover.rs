//! Recovery of a rank as seen by the one who waits for it: how far it is, how long it will take. The reading itself is
//! [`loligo_rows::replay`](mod@loligo_rows::replay)'s.

use std::time::{Duration, Instant};

use loligo_journal::{ReadConfig, Record, Source, Tail};
use loligo_rows::{Read, open_journal};
use loligo_store::{Backend, StoreError};
use loligo_types::Lsn;

use super::error::Result;

/// Interval at which progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Progress of recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Records replayed.
    pub records: u64,
    /// Bytes of the journal read.
    pub bytes: u64,
    /// Bytes of the journal in all.
    pub total_bytes: u64,
    /// Time that the rest will take at this speed.
    pub left: Duration,
}

/// Measures a replay.
struct Meter<'a> {
    begun: Instant,
    told: Instant,
    done: Progress,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Meter<'a> {
    fn new(total_bytes: u64, tell: &'a mut dyn FnMut(Progress)) -> Meter<'a> {
        let begun = Instant::now();
        Meter { begun, told: begun, done: Progress { total_bytes, ..Progress::default() }, tell }
    }

    fn count(&mut self, bytes: u64) {
        self.done.records += 1;
        self.done.bytes += bytes;
        if self.done.records.is_multiple_of(256) && self.told.elapsed() >= PROGRESS_EVERY {
            self.told = Instant::now();
            let rest = self.done.total_bytes.saturating_sub(self.done.bytes) as f64 / self.done.bytes.max(1) as f64;
            self.done.left = self.begun.elapsed().mul_f64(rest);
            (self.tell)(self.done);
        }
    }

    fn end(mut self, tail: &Tail) {
        self.done.left = Duration::ZERO;
        (self.tell)(self.done);
        if let Some(torn) = &tail.torn {
            tracing::info!(
                segment = torn.segment,
                offset = torn.offset,
                bytes = torn.bytes,
                "the journal's torn tail is left out: those changes were never acknowledged"
            );
        }
    }
}

/// Reads the records of a rank's journal that the table may lack, oldest first, and returns how the journal ends.
pub(crate) fn replay(
    backend: &dyn Backend,
    rank: u32,
    from: Lsn,
    progress: &mut dyn FnMut(Progress),
    apply: &mut dyn FnMut(Lsn, Record),
) -> Result<Tail> {
    let (mut source, config) = open_journal(backend, rank, from)?;
    replay_of(&mut source, config, progress, apply)
}

/// The same of any journal.
pub(crate) fn replay_of(
    source: &mut dyn Source<Error = StoreError>,
    config: ReadConfig,
    progress: &mut dyn FnMut(Progress),
    apply: &mut dyn FnMut(Lsn, Record),
) -> Result<Tail> {
    let total_bytes = source.list()?.iter().map(|(_, len)| len).sum();
    let mut meter = Meter::new(total_bytes, progress);
    let tail = loligo_rows::replay_of(source, config, &mut |Read { lsn, record, bytes }| {
        apply(lsn, record);
        meter.count(bytes);
    })?;
    meter.end(&tail);
    Ok(tail)
}
