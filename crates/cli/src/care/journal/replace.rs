//! Puts the records of a journal file in the place of all segments that a rank's journal has. Not here: whether that is right, and the
//! backup of what was there.
//!
//! Wherever it is cut off, a server finds the journal that was there or the new one, or refuses to start: an empty segment that begins with the
//! number behind the last new record comes first, so that new segments which are not all there are a gap and no end.

#[cfg(test)]
mod tests;

use loligo_journal::table::{Meta, encode_meta, key_meta};
use loligo_journal::{Filter, SegmentHeader, Tail, Writer, WriterConfig, encode_record};
use loligo_store::{Backend, Batch, Durability, LogDir, LogFile};
use loligo_types::{Lsn, Rank};

use super::source::Journal;
use crate::output::{Context, Failure, Outcome};
use crate::progress::{Bar, Unit};

/// Bytes that go into a segment at once.
const CHUNK: u64 = 4 << 20;

/// The records of a file, as they are to be.
pub struct New<'a> {
    /// The file.
    pub file: &'a Journal,
    /// Its first record.
    pub first: Lsn,
    /// The number behind its last one.
    pub next: Lsn,
    /// Records that are to say nothing.
    pub blank: Option<&'a Filter>,
}

/// Replaces a rank's journal, and says in the table that the next server has something to recover.
pub fn replace(store: &dyn Backend, new: &New<'_>) -> Outcome {
    replace_in(store, new, WriterConfig::new(new.file.fs, new.file.owner.rank()), CHUNK)
}

fn replace_in(store: &dyn Backend, new: &New<'_>, config: WriterConfig, chunk: u64) -> Outcome {
    let rank = config.rank;
    let place = || format!("journal of rank {rank}");
    let log = store.log_dir(rank).context(place)?;
    let old = log.list().context(place)?;
    let next_segment = old.last().map_or(1, |last| last.id + 1);
    let bytes = new.file.bytes()?;
    // Any two segments that follow each other have more than the size of one.
    let behind = next_segment + 2 * (bytes / config.segment_size) + 2;
    let guard = SegmentHeader { fs: config.fs, rank, id: behind, first: new.next };
    write(&*log, behind, &guard.encode()).context(place)?;

    let tail = Tail { next_lsn: new.first, next_segment, segments: Vec::new(), torn: None };
    let mut to = To { log: &*log, writer: Writer::resume(config, &tail), file: None };
    let mut bar = Bar::start("writing the journal", bytes, Unit::Bytes);
    let mut records = new.file.records();
    let mut nothing = Vec::new();
    encode_record(&mut nothing, None, &[]);
    while let Some(read) = records.next() {
        bar.add(read.body.len() as u64);
        let body = if new.blank.is_some_and(|filter| read.is_taken(filter)) { &nothing } else { &read.body };
        let lsn = to.writer.append(body).context(place)?;
        if lsn != read.lsn {
            return Err(Failure::new(format!("{}: record {} is not where it was", new.file.name(), read.lsn)));
        }
        if to.writer.pending_bytes() >= chunk {
            to.flush().context(place)?;
        }
    }
    to.flush().context(place)?;
    let written = to.writer.next_lsn();
    if let Some(text) = records.end().broken.or_else(|| (written != new.next).then(|| "it has changed".to_string())) {
        return Err(Failure::new(format!("{}: {text}", new.file.name()))
            .remedy("the journal is not whole now: import the backup, or the right file"));
    }
    for segment in old {
        log.delete(segment.id).context(place)?;
    }
    let mut batch = Batch::new();
    batch.put(key_meta(Meta::Clean, Rank::ZERO), encode_meta(0));
    store.table().write(&batch, Durability::Sync).context(|| "writing into the table".to_string())
}

/// Where the new records go.
struct To<'a> {
    log: &'a dyn LogDir,
    writer: Writer,
    file: Option<Box<dyn LogFile>>,
}

impl To<'_> {
    /// Writes all that was appended, durably.
    fn flush(&mut self) -> loligo_store::Result<()> {
        while let Some(batch) = self.writer.take_batch() {
            if batch.new_segment {
                self.file = Some(self.log.create(batch.segment)?);
            }
            let file = self.file.as_mut().expect("the first batch begins a segment");
            file.append(&batch.bytes)?;
            file.sync()?;
            self.writer.synced(batch.last);
            self.writer.recycle(batch.bytes);
        }
        Ok(())
    }
}

fn write(log: &dyn LogDir, id: u64, bytes: &[u8]) -> loligo_store::Result<()> {
    let mut file = log.create(id)?;
    file.append(bytes)?;
    file.sync()
}
