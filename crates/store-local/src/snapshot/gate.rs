//! The gate: each change of the table and of journals passes it, and a cut closes it, so that no change is half before the cut. Changes of
//! objects do not wait for the whole cut: they only ask here whether there is a snapshot for which the object has to be kept as it is. The
//! lengths of the segments that are appended to are here too: their files are longer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Keep;

/// One of an open data directory.
#[derive(Default)]
pub(crate) struct Gate {
    changes: RwLock<()>,
    kept: RwLock<Option<Arc<Keep>>>,
    /// Bytes appended to the segments that this process has open for that. Behind them their files hold zeros.
    lengths: Mutex<HashMap<PathBuf, u64>>,
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

    /// A segment has this length; `None`: it is not appended to any more, and has that of its file.
    pub(crate) fn set_length(&self, segment: &Path, len: Option<u64>) {
        let mut lengths = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        match (len, lengths.get_mut(segment)) {
            (Some(len), Some(known)) => *known = len,
            (Some(len), None) => _ = lengths.insert(segment.to_owned(), len),
            (None, _) => _ = lengths.remove(segment),
        }
    }

    /// The length of a segment, if this process appends to it.
    pub(crate) fn length(&self, segment: &Path) -> Option<u64> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner).get(segment).copied()
    }

    /// From now on it is kept for this snapshot, or for none.
    pub(super) fn keep(&self, keep: Option<Arc<Keep>>) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = keep;
    }
}
