//! Where the journal stands, as far as the rank knows. How a change gets there is not here (`stages/decide.rs`).

use loligo_types::Lsn;

/// Where the journal stands.
#[derive(Default)]
pub(crate) struct Log {
    /// The last record given out.
    pub(crate) last: Lsn,
    /// All records up to here are durable.
    pub(crate) durable: Lsn,
    /// The last one when this life began.
    pub(crate) recovered: Lsn,
    /// It is broken: nothing may be acknowledged any more.
    pub(crate) failed: bool,
    /// Bytes not yet trimmed: what the driver said last, and what was given out since.
    pub(crate) used: u64,
    /// Above this changes wait.
    pub(crate) limit: u64,
    /// The table is full.
    pub(crate) full: bool,
    /// The store has no room for more, and says so before it must.
    pub(crate) no_room: bool,
    /// The journal cannot be written for want of room: what is given to it waits.
    pub(crate) stuck: bool,
    /// Length of the last record, as a guess for the next.
    pub(crate) last_len: usize,
}
