//! The room of rows that were removed while the disk is full. RocksDB keeps a removed row until a compaction comes by it, and begins none
//! where little is written; with little room it is not let compact by itself either. Not for large tables: their disks count as full while
//! there is room for compactions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rocksdb::DB;

use super::LocalTable;

/// The largest table that is compacted as a whole, bytes.
const TABLE_MAX: u64 = 1 << 30;
/// Pauses between attempts, the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// Space that compaction may reclaim.
pub(super) struct Reclaim {
    /// Rows removed since the last attempt.
    removed: AtomicU64,
    /// When the last attempt ended, and how long to wait after it.
    last: Mutex<Option<(Instant, Duration)>>,
}

impl Default for Reclaim {
    /// An earlier opening may have removed some.
    fn default() -> Reclaim {
        Reclaim { removed: AtomicU64::new(1), last: Mutex::new(None) }
    }
}

impl Reclaim {
    /// Rows are being removed.
    pub(super) fn removed(&self, rows: usize) {
        self.removed.fetch_add(rows as u64, Ordering::AcqRel);
    }
}

/// RocksDB's count of failed background work.
pub(super) fn errors(db: &DB) -> Result<u64, rocksdb::Error> {
    Ok(db.property_int_value("rocksdb.background-errors")?.unwrap_or_default())
}

impl LocalTable {
    /// Compacts the table, if rows were removed since that was last tried. It finds no room if most rows are left; that does no harm, and
    /// is tried again when more are removed.
    pub(super) fn reclaim(&self) {
        // One at a time; who looks how much room there is does not wait for it.
        let Ok(mut last) = self.reclaim.last.try_lock() else { return };
        let is_soon = last.is_some_and(|(ended, pause)| ended.elapsed() < pause);
        let bytes = self.room().0;
        if is_soon || bytes > TABLE_MAX || self.reclaim.removed.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        let failed = self.with(|db| {
            let before = errors(db)?;
            db.flush()?;
            db.compact_range(None::<&[u8]>, None::<&[u8]>);
            Ok(errors(db)? > before)
        });
        let left = self.room().0;
        tracing::debug!(bytes, left, ?failed, "the table was compacted, as the disk is full");
        let helped = left < bytes;
        let pause = last.map_or(PAUSE.0, |(_, pause)| if helped { PAUSE.0 } else { (pause * 2).min(PAUSE.1) });
        *last = Some((Instant::now(), pause));
        if !matches!(failed, Ok(false)) {
            // What it does by itself has stopped; it is opened again.
            self.stuck.store(true, Ordering::Release);
        }
    }
}
