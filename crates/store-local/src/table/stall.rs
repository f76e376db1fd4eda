//! Writes while RocksDB holds writes up, because it writes its memory to disk more slowly than it fills. A write that waits for that inside of
//! RocksDB is the first in its queue. If the disk is full meanwhile, RocksDB recovers by a flush that stands behind it in that queue, so each waits
//! for the other for good. So a write waits here. Not here: what is done about a full disk.

use std::time::{Duration, Instant};

use rocksdb::{DB, Error, ErrorKind, WriteBatch, WriteOptions};

use super::reclaim::errors;

/// Time between two tries while writes are stopped.
const LOOK: Duration = Duration::from_millis(1);
/// After background work has failed, so long a stop is waited for. Then the write fails, as on a full disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes a batch. [`ErrorKind::Incomplete`]: writes are stopped, and background work has failed.
pub(super) fn write(db: &DB, batch: impl Fn() -> WriteBatch, sync: bool) -> Result<(), Error> {
    let options = |waits: bool| {
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        options.set_no_slowdown(!waits);
        options
    };
    let mut since = None;
    loop {
        let done = db.write_opt(batch(), &options(false));
        if !done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Incomplete) {
            return done;
        }
        if db.property_int_value("rocksdb.is-write-stopped")?.unwrap_or_default() == 0 {
            // It is slowed down only, which ends by itself. Each try to pass by would make that longer.
            return db.write_opt(batch(), &options(true));
        }
        let since = *since.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE && errors(db)? > 0 {
            return done;
        }
        std::thread::sleep(LOOK);
    }
}
