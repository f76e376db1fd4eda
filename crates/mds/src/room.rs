//! Room at the end of a file of objects, as plain data: what a session has reserved, and where appends lie. How it is used is not here
//! (`appends.rs`).

use loligo_types::Seq;

/// Room that a session has reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// The request for it.
    pub(crate) seq: Seq,
    /// First byte.
    pub(crate) start: u64,
    /// First byte behind it.
    pub(crate) end: u64,
    /// Cuts of the file when it was reserved.
    pub(crate) cuts: u32,
    /// Some before it was given up.
    pub(crate) broken: bool,
    /// Since when, milliseconds.
    pub(crate) since_ms: u64,
}

/// Where appends lie that became visible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    /// Cuts of the file then.
    pub(crate) cuts: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}
