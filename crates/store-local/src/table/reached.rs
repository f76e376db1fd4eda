//! The mark of how far the table is durable, which lies outside of the table (`marks.rs`): after each batch that is synced, the number of its
//! last change. RocksDB takes a log that lacks its end, or is not there, for one that was never longer; the mark tells.
//!
//! RocksDB numbers changes of rows, and does not say which numbers a batch got. A mark must never be ahead of what is on the disk, as the
//! table would then be refused; so what others write at the same time counts only after one more sync.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use loligo_store::{Result, StoreError};
use rocksdb::{DB, Error};

use crate::marks::Marks;

pub(super) struct Reached {
    marks: Arc<Marks>,
    /// Shared by writers while they write.
    turn: RwLock<()>,
    /// A write has failed: RocksDB may have counted changes that are not in its log. Until the table is opened again.
    doubt: AtomicBool,
}

impl Reached {
    pub(super) fn of(marks: Arc<Marks>) -> Reached {
        Reached { marks, turn: RwLock::new(()), doubt: AtomicBool::new(false) }
    }

    /// The table was opened: refuses one that ends before its mark.
    pub(super) fn opened(&self, path: &Path, db: &DB) -> Result<()> {
        self.doubt.store(false, Ordering::Release);
        refuse_lost_end(path, db, self.marks.table())
    }

    /// Runs a write of so many changes; if it is a `sync`, it is marked.
    pub(super) fn write(
        &self,
        db: &DB,
        (changes, sync): (usize, bool),
        write: impl FnOnce() -> std::result::Result<(), Error>,
    ) -> std::result::Result<(), Error> {
        let turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        let before = db.latest_sequence_number();
        if let Err(error) = write() {
            self.doubt.store(true, Ordering::Release);
            return Err(error);
        }
        drop(turn);
        if sync {
            // Its own changes are behind those that were there.
            let least = before + changes as u64;
            let others = db.latest_sequence_number() != least;
            let reached = if others { self.sync(db).ok().flatten() } else { None };
            self.marks.table_synced(reached.unwrap_or(least).max(least));
        }
        Ok(())
    }

    /// Syncs what was written before.
    pub(super) fn flush(&self, db: &DB) -> std::result::Result<(), Error> {
        if let Some(reached) = self.sync(db)? {
            self.marks.table_synced(reached);
        }
        Ok(())
    }

    /// The change up to which all is durable by this sync, if that can be told.
    fn sync(&self, db: &DB) -> std::result::Result<Option<u64>, Error> {
        let turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        let reached = (!self.doubt.load(Ordering::Acquire)).then(|| db.latest_sequence_number());
        drop(turn);
        db.flush_wal(true)?;
        Ok(reached)
    }
}

/// The loss, in words, if a table with this last change was durable up to a later one.
pub(crate) fn lost_end(last: u64, mark: Option<u64>) -> Option<String> {
    let mark = mark.filter(|mark| *mark > last)?;
    Some(format!(
        "it ends with change {last}, and was durable up to change {mark}: the end of its log is lost, and with it the newest rows; what was \
         removed or revoked by them is there again"
    ))
}

/// Refuses a table that ends before its mark.
pub(super) fn refuse_lost_end(path: &Path, db: &DB, mark: Option<u64>) -> Result<()> {
    match lost_end(db.latest_sequence_number(), mark) {
        Some(lost) => {
            let detail = format!(
                "{lost}. Copy the directory as it is, and go back to a copy (loligo copy); to go on with what is there: loligo fsck --repair"
            );
            Err(StoreError::Corrupt { place: format!("the table {}", path.display()), detail })
        }
        None => Ok(()),
    }
}
