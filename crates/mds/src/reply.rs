//! An answer on its way to a client. When it leaves is not here (`gate.rs`).

use loligo_types::{Answer, FsResult, Ino, Journaling, Rank, Seq, SessionId};

use crate::grant::Asks;
use crate::job::Lag;
use crate::session::Slot;

/// It is another rank's to answer.
#[derive(Clone, Copy)]
pub(crate) struct Redirect {
    pub(crate) rank: Rank,
    /// It was executed here before: what it made.
    pub(crate) done: Option<(Ino, u64)>,
    /// The inode that it is about.
    pub(crate) about: Option<Ino>,
}

/// An answer on its way.
pub(crate) struct Reply {
    pub(crate) slot: Slot,
    pub(crate) session: SessionId,
    pub(crate) seq: Seq,
    pub(crate) result: FsResult<Answer>,
    /// Leases that would be welcome with it.
    pub(crate) asks: Asks,
    /// Lookup leases that it brings.
    pub(crate) ways: Vec<(Ino, u16)>,
    /// Inode that it shows and whose objects were cut, which must be done first.
    pub(crate) cut: Option<Ino>,
    pub(crate) redirect: Option<Redirect>,
    /// It may leave before the journal is durable.
    pub(crate) lag: Option<Lag>,
    /// Inodes that it is about, as far as their last changes are not durable.
    pub(crate) shows: Vec<Ino>,
    /// Journal mode of the file that it is about.
    pub(crate) journal: Option<Journaling>,
}
