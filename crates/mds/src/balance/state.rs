//! State of the balancer of a rank.

use std::collections::BTreeMap;

use loligo_types::{Rank, Weighed};

use crate::balance::pieces::Scratch;
use crate::balance::rules::Distants;

/// State of the balancer of this rank.
#[derive(Default)]
pub(crate) struct Balance {
    /// Ticks so far.
    pub(super) tick: u64,
    /// When the next one is, milliseconds; 0: not known yet.
    pub(super) next_ms: u64,
    /// Times that the next one was put off because something had to be read first.
    pub(super) agains: u32,
    /// The tick that was not answered yet.
    pub(super) asked: Option<u64>,
    /// The load of this rank as the policy weighed it at the last tick.
    pub(super) weighed: Weighed,
    /// When something came to a rank last, as the subtree map told, milliseconds.
    pub(super) came_ms: BTreeMap<Rank, u64>,
    /// Directories of others above those of this rank.
    pub(super) distants: Distants,
    /// Migrations that decisions began.
    pub(super) moves: u64,
    /// Migrations that decisions wanted and that were refused.
    pub(super) refused: u64,
    /// Ticks to which no answer came before the next one, and how many of these there were in a row up to now.
    pub(super) unanswered: u64,
    pub(super) silent: u64,
    /// At the last tick there was something to ask.
    pub(super) asks: bool,
    pub(super) scratch: Scratch,
}
