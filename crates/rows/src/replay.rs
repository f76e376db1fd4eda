//! The records of a rank's journal, in order, with all that they have in short made whole ([`InlineLog`]). Tells after each how much was read; measures no time.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_journal::{InlineLog, ReadConfig, Reader, Record, Source, Synced, Tail, decode_record};
use loligo_store::{Backend, LogDir, LogReader, Segment, StoreError};
use loligo_types::Lsn;

use crate::error::{Error, Result};

/// The segments of a journal, for [`Reader`].
pub struct LogSource {
    dir: Arc<dyn LogDir>,
    open: BTreeMap<u64, Box<dyn LogReader>>,
}

impl LogSource {
    /// Over a journal directory.
    pub fn new(dir: Arc<dyn LogDir>) -> LogSource {
        LogSource { dir, open: BTreeMap::new() }
    }
}

impl Source for LogSource {
    type Error = StoreError;

    fn list(&mut self) -> std::result::Result<Vec<(u64, u64)>, StoreError> {
        Ok(self.dir.list()?.into_iter().map(|s| (s.id, s.len)).collect())
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> std::result::Result<usize, StoreError> {
        let reader = match self.open.entry(segment) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(self.dir.open(segment)?),
        };
        reader.read_at(offset, buf)
    }
}

/// A record of the journal that was read.
pub struct Read {
    /// Its number.
    pub lsn: Lsn,
    /// Its events.
    pub record: Record,
    /// Its bytes.
    pub bytes: u64,
}

/// Opens a rank's journal for [`replay_of`], from a record on.
pub fn open_journal(backend: &dyn Backend, rank: u32, from: Lsn) -> Result<(LogSource, ReadConfig)> {
    let log = backend.log_dir(rank)?;
    let synced = log.synced()?.map(|Segment { id, len }| Synced { segment: id, bytes: len });
    let config = ReadConfig { fs: Some(backend.identity().fs_id), rank: Some(rank), from, synced };
    Ok((LogSource::new(log), config))
}

/// Reads the records of a rank's journal that the table may lack, oldest first, and returns how the journal ends.
pub fn replay(backend: &dyn Backend, rank: u32, from: Lsn, each: &mut dyn FnMut(Read)) -> Result<Tail> {
    let (mut source, config) = open_journal(backend, rank, from)?;
    replay_of(&mut source, config, each)
}

/// The same of any journal.
pub fn replay_of(
    source: &mut dyn Source<Error = StoreError>,
    config: ReadConfig,
    each: &mut dyn FnMut(Read),
) -> Result<Tail> {
    let mut reader = Reader::open(source, config)?;
    let mut inline = InlineLog::default();
    while let Some(raw) = reader.next_record()? {
        let mut record = decode_record(raw.body).map_err(|e| Error::Record { lsn: raw.lsn.0, cause: e.to_string() })?;
        inline.make_whole(raw.lsn, &mut record.events).map_err(|cause| Error::Patch { lsn: raw.lsn.0, cause })?;
        each(Read { lsn: raw.lsn, record, bytes: raw.body.len() as u64 });
    }
    Ok(reader.tail().expect("a reader that gave its last record knows the end"))
}
