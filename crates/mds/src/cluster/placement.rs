//! Things that are to be somewhere else than they are, or to be cut otherwise: pinned and growing directories, files that go home, and
//! the numbers of new directories. They are noted here, and looked at from time to time; migrations do the rest.

use std::collections::BTreeMap;

use loligo_types::{Ino, Rank};

use super::float::Homes;
use super::giga::Growing;
use super::scatter::Numbers;

/// The state.
#[derive(Default)]
pub(crate) struct Placement {
    /// Directories that are wanted at certain ranks, until they are there.
    pub(super) pins: BTreeMap<Ino, Vec<Rank>>,
    /// When they are looked at next.
    pub(super) pins_at_ms: u64,
    /// When this rank looked last how what it has of directories should be cut, it had counted so many entries of them; and
    /// how often it may still read names for that.
    pub(super) cuts: BTreeMap<Ino, (u64, u32)>,
    /// When it looks again, milliseconds.
    pub(super) cuts_at_ms: u64,
    pub(super) homes: Homes,
    pub(super) scattered: Numbers,
    pub(super) growing: Growing,
}
