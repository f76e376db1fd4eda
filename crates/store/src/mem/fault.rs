//! Faults of a memory disk, and the effect of a crash on unsynced bytes. Not random by itself: every choice follows from a seed or is
//! named.

/// A kind of call that can be made to fail; each kind counts its own calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultPoint {
    /// `LogFile::append` and `append_vectored`.
    LogAppend,
    /// `LogFile::sync`.
    LogSync,
    /// `Table::write` of any durability.
    TableWrite,
    /// `Table::get`, `multi_get` and `scan`.
    TableRead,
    /// `Blobs::write_at`, `truncate`, `punch` and `delete`.
    BlobWrite,
    /// `Blobs::sync`, `sync_removals` and `sync_all`.
    BlobSync,
    /// `Blobs::read_at`.
    BlobRead,
}

/// Failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An IO error; the call changes nothing.
    Io,
    /// No space; the call changes nothing.
    Full,
    /// The machine stops: this call and all later ones of this opening fail. The test then says with
    /// [`super::MemDisk::crash`] what is left.
    Die,
}

/// Unsynced bytes that a crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: the cruellest crash.
    Nothing,
    /// Everything: what happens when only the process is killed.
    All,
    /// Some, chosen by the seed: a prefix of the table's batches, a part of each segment's tail, and
    /// each sector of each object old or new.
    Some,
}

/// Where a segment's unsynced tail may break under [`Keep::Some`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torn {
    /// After any byte.
    Byte,
    /// After any byte, and any of the 512-byte sectors before it may be zeros.
    Sector,
}

/// A crash to be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPlan {
    /// Unsynced bytes that are kept.
    pub keep: Keep,
    /// Damage of tails.
    pub torn: Torn,
    /// Where choices come from.
    pub seed: u64,
}

impl CrashPlan {
    /// Only what was synced is left.
    pub fn lose_all() -> Self {
        Self { keep: Keep::Nothing, torn: Torn::Byte, seed: 0 }
    }

    /// Everything written is left: a killed process.
    pub fn lose_nothing() -> Self {
        Self { keep: Keep::All, torn: Torn::Byte, seed: 0 }
    }

    /// Parts are left, chosen by `seed`.
    pub fn lose_some(torn: Torn, seed: u64) -> Self {
        Self { keep: Keep::Some, torn, seed }
    }
}
