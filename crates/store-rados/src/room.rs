//! Test for room in the pool. Servers write their own data about a file system also when there is none ([`loligo_rados::Pool`] says why
//! that is allowed), so nothing tells them but this: from time to time a byte is put where there was none, and the cluster refuses it or
//! not. It is asked about the pool's quota and full disks alike, needs no right that servers have not got, and costs two small writes.
//!
//! Not here: what is refused then, and to whom.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loligo_rados::{Error, Pending, Pool, WriteOp};

use crate::names;

/// Test for room.
pub(crate) struct Room {
    /// One that refuses when it is full.
    pool: Pool,
    is_full: Arc<AtomicBool>,
    /// The last question, which may not have been answered.
    asked: Mutex<Option<Pending>>,
}

impl Room {
    /// Nothing is asked yet, and there is room. `pool`: one that refuses when it is full.
    pub(crate) fn new(pool: Pool) -> Room {
        Room { pool, is_full: Arc::default(), asked: Mutex::default() }
    }

    /// Result of the last test.
    pub(crate) fn is_full(&self) -> Arc<AtomicBool> {
        self.is_full.clone()
    }

    /// Hears the answer to the last question, and asks the next one. Waits for nothing.
    pub(crate) fn look(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.as_ref().is_some_and(|asked| !asked.is_done()) {
            return;
        }
        match asked.take().map(Pending::wait) {
            Some(Ok(_)) => self.found(false),
            Some(Err(Error::Full { .. })) => self.found(true),
            // Whatever else it is, others tell it.
            Some(Err(_)) | None => {}
        }
        *asked = self.ask().ok();
    }

    fn found(&self, full: bool) {
        match (self.is_full.swap(full, Ordering::AcqRel), full) {
            (false, true) => tracing::warn!(
                "pool {} is full: what needs more room is refused until there is some; free space, add some, or raise the pool's quota",
                self.pool.name()
            ),
            (true, false) => tracing::info!("there is room in pool {} again", self.pool.name()),
            _ => {}
        }
    }

    /// The object is there as long as the file system is, and has no bytes. What several servers ask at once does no harm: in a full pool
    /// the byte never comes back once it was taken away.
    fn ask(&self) -> loligo_rados::Result<Pending> {
        let mut away = WriteOp::new()?;
        away.truncate(0);
        drop(away.begin(&self.pool, names::SLOTS)?);
        let mut put = WriteOp::new()?;
        put.write(0, b"?");
        put.begin(&self.pool, names::SLOTS)
    }
}
