//! The table's threads: one writes checkpoints, some read what the metadata server needs.

use std::sync::Arc;
use std::time::Instant;

use loligo_journal::table::Meta;
use loligo_mds::{Page, Scan};
use loligo_namespace::{MergeRows, Need, Record};
use loligo_rows::{Loader, batch_of, put_meta};
use loligo_store::{Backend, Batch, Durability, StoreError, Table};
use loligo_types::{Ino, Lsn, Rank};

use super::error::{Result, ServerError, bad_row};
use super::journal::{self, Segments};
use super::metrics::Metrics;
use super::queue::{Inbox, Queue};
use super::rank::Done;

/// Loads that one thread takes at a time.
const LOADS_AT_ONCE: usize = 32;

/// Work for the checkpoint thread.
#[derive(Debug)]
pub(crate) enum Work {
    /// Write these records, atomically.
    Checkpoint { id: u64, records: Vec<Record> },
    /// Write the rows of a merge, in bulk.
    MergeRows { id: u64, rows: Box<MergeRows> },
    /// The journal's records below this are in the table.
    Trim { below: Lsn },
    /// Make all checkpoints durable, and where replay begins.
    Settle { replay_from: Lsn, table_upto: Lsn },
    /// Look through some rows.
    Scan { ticket: u64, what: Scan, from: Ino },
    /// Look how much space there is.
    StatFs,
}

/// The checkpoint thread.
pub(crate) struct Checkpointer {
    pub(crate) rank: Rank,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) table: Arc<dyn Table>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) journal: Arc<Queue<journal::Work>>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Checkpointer {
    /// Runs until the queue is closed; says where replay would start then.
    pub(crate) fn run(self, queue: &Queue<Work>, inbox: &Inbox<Done>) -> Option<Lsn> {
        let mut trimmed = None;
        while let Some(work) = queue.take(1) {
            for item in work {
                match item {
                    Work::Checkpoint { id, records } => inbox.push(self.checkpoint(id, &records)),
                    Work::MergeRows { id, rows } => inbox.push(self.merge_rows(id, &rows)),
                    Work::Trim { below } => {
                        trimmed = Some(below);
                        self.trim(below);
                    }
                    Work::Settle { replay_from, table_upto } => {
                        trimmed = Some(replay_from);
                        if self.settle(replay_from, Some(table_upto)) {
                            inbox.push(Done::Settled { table_upto });
                        }
                    }
                    Work::Scan { ticket, what, from } => {
                        let page = self.scan(what, from);
                        inbox.push(Done::Scanned { ticket, page });
                    }
                    Work::StatFs => match self.backend.statfs() {
                        Ok(space) => inbox.push(Done::StatFs(space)),
                        Err(error) => tracing::warn!("cannot see how much space is left: {error}"),
                    },
                }
            }
        }
        trimmed
    }

    /// A page of what is looked for; `None` if the table cannot be read.
    fn scan(&self, what: Scan, from: Ino) -> Option<Page> {
        let rows = |start: &[u8], end: &[u8], limit: usize| -> Result<_> { Ok(self.table.scan(start, end, limit)?) };
        match what.page(self.rank, from, rows, bad_row) {
            Ok(page) => Some(page),
            Err(error) => {
                tracing::warn!("the table cannot be looked through now, which is tried again: {error}");
                None
            }
        }
    }

    fn checkpoint(&self, id: u64, records: &[Record]) -> Done {
        let begun = Instant::now();
        match self.write(records) {
            Ok(()) => {
                self.metrics.checkpoints.add(1);
                self.metrics.checkpoint_records.add(records.len() as u64);
                self.metrics.checkpoint_time.record(begun.elapsed().as_nanos() as u64);
                Done::Checkpoint { id, full: None }
            }
            Err(error) => {
                let full = matches!(&error, ServerError::Store(e) if e.is_full());
                tracing::warn!("a checkpoint could not be written and is tried again: {error}");
                Done::Checkpoint { id, full: Some(full) }
            }
        }
    }

    /// Rows of a merge, which the journal has, too, until the table is synced, as it has what was checkpointed.
    fn merge_rows(&self, id: u64, rows: &MergeRows) -> Done {
        let begun = Instant::now();
        let mut merged = rows.rows();
        let records = std::mem::take(&mut merged.records);
        let count = records.len();
        let written = batch_of(&*self.table, self.rank, &records).and_then(|batch| {
            drop(records);
            Ok(self.table.ingest(batch)?)
        });
        match written {
            Ok(()) => {
                self.metrics.merge_rows.add(count as u64);
                self.metrics.merge_rows_time.record(begun.elapsed().as_nanos() as u64);
                Done::MergeRows { id, merged: Some(Box::new(merged)) }
            }
            Err(error) => {
                tracing::warn!("a merge could not be written into the table in bulk and goes through memory: {error}");
                Done::MergeRows { id, merged: None }
            }
        }
    }

    /// Not synced, and not all together: the journal keeps what was checkpointed until [`Checkpointer::trim`] has synced the table, and replay
    /// over any older state of the table converges. So checkpoints do not compete with the journal for syncs.
    fn write(&self, records: &[Record]) -> Result<()> {
        let batch = batch_of(&*self.table, self.rank, records)?;
        if !batch.is_empty() {
            self.table.write_rows(&batch)?;
        }
        Ok(())
    }

    /// Says durably where replay starts, which syncs all checkpoints before it, and then lets the segments before it go, if that frees any.
    fn trim(&self, below: Lsn) {
        if self.segments.trim_helps(below) {
            self.settle(below, None);
        }
    }

    fn settle(&self, below: Lsn, table_upto: Option<Lsn>) -> bool {
        let mut batch = Batch::new();
        if let Some(upto) = table_upto {
            put_meta(&mut batch, Meta::TableUpto, self.rank, upto.0);
        }
        put_meta(&mut batch, Meta::ReplayFrom, self.rank, below.0);
        match self.table.write(&batch, Durability::Sync) {
            Ok(()) => self.journal.push(journal::Work::Trim(below)),
            Err(error) => {
                tracing::warn!("the journal cannot be trimmed now: {error}");
                return false;
            }
        }
        true
    }
}

/// A load that was asked for.
pub(crate) type Load = (u64, Vec<Need>);

/// A loading thread: runs until the queue is closed.
pub(crate) fn run_loader(loader: Loader, table: &dyn Table, queue: &Queue<Load>, inbox: &Inbox<Done>) {
    while let Some(loads) = queue.take(LOADS_AT_ONCE) {
        let needs: Vec<&[Need]> = loads.iter().map(|(_, needs)| needs.as_slice()).collect();
        let goes_on = |at: usize, dir, from_hash| {
            let (ticket, _) = loads[at];
            inbox.push(Done::LoadGoesOn { ticket, dir, from_hash });
        };
        loader.load_each(table, &needs, &goes_on, &mut |at, rows| {
            let (ticket, _) = loads[at];
            inbox.push(match rows {
                Ok(rows) => Done::Loaded { ticket, items: rows.items, rows: rows.rows },
                Err(error @ loligo_rows::Error::Store(StoreError::Fenced { .. })) => Done::Replaced(error.to_string()),
                Err(error) => {
                    tracing::error!("records could not be read: {error}");
                    Done::LoadFailed { ticket }
                }
            });
        });
    }
}
