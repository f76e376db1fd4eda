//! The gate: each change of the table and of journals passes it, and a cut closes it, so that no change is half before the cut. Changes of
//! objects do not wait for the whole cut: they only ask here whether there is a snapshot for which the object has to be kept as it is.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Keep;

/// One of an open data directory.
#[derive(Default)]
pub(crate) struct Gate {
    changes: RwLock<()>,
    kept: RwLock<Option<Arc<Keep>>>,
}

impl Gate {
    /// To be held during a change of the table or of a journal. Not twice by one thread: a cut that waits in between would end both.
    pub(crate) fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the changes that are under way, and keeps others waiting.
    pub(super) fn close(&self) -> RwLockWriteGuard<'_, ()> {
        self.changes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The snapshot that objects must be kept for, if there is one. To be held during a change of an object: a cut waits for those that saw
    /// none.
    pub(crate) fn kept(&self) -> RwLockReadGuard<'_, Option<Arc<Keep>>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it is kept for this snapshot, or for none.
    pub(super) fn keep(&self, keep: Option<Arc<Keep>>) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = keep;
    }
}
