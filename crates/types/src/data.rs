//! Operations on a file's bytes in objects. Offsets are offsets in the file; the object server splits them.

use std::sync::Arc;

/// Operation on the bytes of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataOp {
    /// `Bytes`, exactly `len` of them: holes and what was never written read as zeros.
    Read { offset: u64, len: u32 },
    /// `Done`. In the store's cache; durable after `Sync`.
    Write { offset: u64, data: Arc<[u8]> },
    /// `Done` when all writes answered before are durable.
    Sync,
    /// Makes a range read as zeros and frees its space. `Done`.
    Punch { offset: u64, len: u64 },
    /// Drops everything from this offset on. `Done`. A client sends it before it lets a file grow past a gap or spills,
    /// so that bytes left by a writer that died never show.
    Discard { from: u64 },
    /// First data (or hole) at or after `offset` and before `size`. `Offset`; `None`: no more data.
    Seek { offset: u64, size: u64, data: bool },
}

impl DataOp {
    /// True if the operation changes the contents of objects.
    pub fn is_change(&self) -> bool {
        match self {
            DataOp::Write { .. } | DataOp::Punch { .. } | DataOp::Discard { .. } => true,
            DataOp::Read { .. } | DataOp::Sync | DataOp::Seek { .. } => false,
        }
    }
}

/// Answer to a data operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataAnswer {
    /// The bytes.
    Bytes(Arc<[u8]>),
    /// Done.
    Done,
    /// A place.
    Offset(Option<u64>),
}

/// Why it failed. The number is on the wire: keep stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum DataError {
    /// The store is full.
    NoSpace = 1,
    /// The store failed.
    Io = 2,
    /// A checksum does not fit; the server's log names the place.
    Corrupt = 3,
    /// The session does not have the file open for this (any more).
    Stale = 4,
    /// Too much is queued: send again later.
    Busy = 5,
    /// Longer than `limits::DATA_OP_MAX`, or past the largest file.
    TooLarge = 6,
    /// Another rank has the file now: send it there.
    Moved = 7,
}
