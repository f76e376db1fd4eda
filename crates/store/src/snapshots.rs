//! Snapshots of an open store: all of it as it was at one moment, to be read by others while the owner goes on writing. Not a copy: a
//! snapshot shares what it can with the store, and ends with its next opening. Reading one is the backend's: it is a store of its own.

use std::path::PathBuf;

use crate::Result;

/// State of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SnapshotState {
    /// There is none.
    #[default]
    None,
    /// One is being made.
    Making {
        /// Objects that are in it by now.
        objects: u64,
    },
    /// It can be read.
    Whole {
        /// The store to open.
        path: PathBuf,
    },
    /// It cannot be read any more: something of it could not be kept as it was.
    Broken {
        /// The part that could not be kept, and why.
        cause: String,
    },
}

/// A store of which snapshots can be made, one at a time.
pub trait Snapshots: Send + Sync {
    /// Makes the place for one. [`crate::StoreError::InUse`] if there is one that somebody reads; one that nobody reads is removed.
    fn prepare(&self) -> Result<()>;

    /// The moment: all calls that returned before are in the snapshot as a whole, and nothing of those that begin after this returned. Of
    /// the table, the journals and the objects together. Writers wait meanwhile.
    fn cut(&self) -> Result<()>;

    /// Puts all that belongs to it there; the store goes on meanwhile. Where the snapshot is.
    fn complete(&self) -> Result<PathBuf>;

    /// Its state.
    fn state(&self) -> SnapshotState;

    /// True if a command reads it.
    fn is_used(&self) -> bool;

    /// Removes it. [`crate::StoreError::InUse`] if somebody reads it; without one it is no error.
    fn remove(&self) -> Result<()>;
}
