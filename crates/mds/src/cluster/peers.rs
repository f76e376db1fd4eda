//! The other ranks as this one talks to them: the links, and whether all have said hello. Not what is said.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::Rank;

use super::link::Link;

/// The state.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) links: BTreeMap<Rank, Link>,
    /// Changes with each start.
    pub(crate) life: u64,
    /// All others have said hello, and what they had promised by then is done.
    pub(crate) ready: bool,
    /// Requests wait for what is on its way between other ranks, until the next tick.
    pub(super) again: bool,
    /// Clients that have ended lately, as other ranks say, the newest last.
    pub(super) gone: VecDeque<u64>,
}
