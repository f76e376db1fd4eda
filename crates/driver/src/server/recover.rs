//! Start: reads the small tables and the journal's records that the table does not have. Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_journal::table::{
    Meta, TABLE_VERSION, decode_meta, decode_row, key_discard, key_meta, key_orphan, key_session, prefix_range,
};
use loligo_journal::{ReadConfig, Reader, Record, Source, Tail, decode_record};
use loligo_namespace::Loaded;
use loligo_store::{Backend, LogDir, LogReader, StoreError, Table};
use loligo_types::{Ino, Lsn, SessionId};

use super::error::{Result, ServerError, bad_row};

/// Rows read at a time.
const SCAN_ROWS: usize = 1024;
/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// How far recovery has come.
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

/// The single values of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) next_ino: Ino,
    pub(crate) replay_from: Lsn,
    pub(crate) clean: bool,
    /// That of the last server; 0: there was none.
    pub(crate) data_epoch: u64,
}

impl Head {
    /// The data epoch of the next server.
    pub(crate) fn next_data_epoch(&self) -> u64 {
        if self.clean && self.data_epoch > 0 { self.data_epoch } else { self.data_epoch.wrapping_add(1).max(1) }
    }
}

/// Reads the single values; refuses a table without a file system or of a newer layout.
pub(crate) fn read_head(table: &dyn Table) -> Result<Head> {
    let get = |meta: Meta| -> Result<Option<u64>> {
        let key = key_meta(meta);
        let value = table.get(&key)?;
        value.map(|v| decode_meta(&v)).transpose().map_err(|e| bad_row(&key, &e))
    };
    match get(Meta::Format)? {
        None => return Err(ServerError::NotFormatted),
        Some(found) if found > TABLE_VERSION => return Err(ServerError::NewerTable { found, known: TABLE_VERSION }),
        Some(_) => {}
    }
    Ok(Head {
        next_ino: Ino(get(Meta::NextIno)?.unwrap_or(Ino::FIRST.0)),
        replay_from: Lsn(get(Meta::ReplayFrom)?.unwrap_or(1).max(1)),
        clean: get(Meta::Clean)? == Some(1),
        data_epoch: get(Meta::DataEpoch)?.unwrap_or(0),
    })
}

/// Reads the tables that are held in memory as a whole: sessions, orphans, discards, the inode counter.
pub(crate) fn read_small(table: &dyn Table, head: &Head, load: &mut dyn FnMut(Loaded)) -> Result<()> {
    use loligo_journal::table::Row;
    load(Loaded::NextIno(head.next_ino));
    for first in [key_session(SessionId(0)), key_orphan(Ino(0)), key_discard(Ino(0))] {
        let range = prefix_range(&first[..1]);
        scan(table, &range.start, &range.end, &mut |key, value| {
            match decode_row(key, value).map_err(|e| bad_row(key, &e))? {
                Row::Session(session) => load(Loaded::Session(session)),
                Row::Orphan(ino) => load(Loaded::Orphan(ino)),
                Row::Discard { ino, from, object_size } => load(Loaded::Discard { ino, from, object_size }),
                _ => {}
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Sees a key and its value.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Visits all rows of a range in order, in bounded memory.
pub(crate) fn scan(table: &dyn Table, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<()> {
    let mut start = start.to_vec();
    loop {
        let rows = table.scan(&start, end, SCAN_ROWS)?;
        for (key, value) in &rows {
            visit(key, value)?;
        }
        match rows.last() {
            Some((key, _)) if rows.len() == SCAN_ROWS => {
                start.clone_from(key);
                start.push(0);
            }
            _ => return Ok(()),
        }
    }
}

/// Reads the records of a rank's journal that the table may lack, oldest first, and says how the journal ends.
pub(crate) fn replay(
    backend: &dyn Backend,
    rank: u32,
    from: Lsn,
    progress: &mut dyn FnMut(Progress),
    apply: &mut dyn FnMut(Lsn, Record),
) -> Result<Tail> {
    let log = backend.log_dir(rank)?;
    let fs = Some(backend.identity().fs_id);
    let total_bytes = log.list()?.iter().map(|s| s.len).sum();
    let mut reader = Reader::open(LogSource::new(log), ReadConfig { fs, rank: Some(rank), from })?;
    let begun = Instant::now();
    let mut told = begun;
    let mut done = Progress { total_bytes, ..Progress::default() };
    while let Some(raw) = reader.next_record()? {
        let record =
            decode_record(raw.body).map_err(|e| ServerError::Record { lsn: raw.lsn.0, cause: e.to_string() })?;
        done.records += 1;
        done.bytes += raw.body.len() as u64;
        apply(raw.lsn, record);
        if done.records.is_multiple_of(256) && told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            let rest = total_bytes.saturating_sub(done.bytes) as f64 / done.bytes.max(1) as f64;
            done.left = begun.elapsed().mul_f64(rest);
            progress(done);
        }
    }
    done.left = Duration::ZERO;
    progress(done);
    let tail = reader.tail().expect("a reader that gave its last record knows the end");
    if let Some(torn) = &tail.torn {
        tracing::info!(
            segment = torn.segment,
            offset = torn.offset,
            bytes = torn.bytes,
            "the journal's torn tail is left out: those changes were never acknowledged"
        );
    }
    Ok(tail)
}
