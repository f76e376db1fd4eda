//! Things that are to be somewhere else than they are, or to be cut otherwise: pinned and growing directories, files that go home, and
//! the numbers of new directories. They are noted here, and looked at from time to time; migrations do the rest.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Event, Ino, Rank};

use crate::core::Core;

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

/// Progress of the look for files that are to go home.
#[derive(Default)]
pub(crate) struct Homes {
    pub(super) at_ms: u64,
    pub(super) place: usize,
    pub(super) again: u32,
}

/// Directories that may have to be spread.
#[derive(Default)]
pub(crate) struct Growing {
    pub(super) dirs: BTreeSet<Ino>,
    /// Nothing is tried before this, milliseconds.
    pub(super) not_before_ms: u64,
}

/// Numbers that are taken from the counter at once: what is left of them is lost with the rank's life.
const TAKEN: u64 = 1024;

/// Numbers that this rank may give to such directories.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(super) next: u64,
    pub(super) end: u64,
    /// Directories that other ranks have made here, in this life.
    pub(super) came: u64,
}

impl Numbers {
    /// If there are no more: takes some from the counter, with this record. None: there are some, or there will be no more.
    pub(super) fn take(&mut self, core: &Core) -> Option<Event> {
        if self.next < self.end {
            return None;
        }
        let first = core.tree.next_ino();
        // Too large a count names no rank.
        Ino(first.0 + TAKEN).scattered(Rank::ZERO)?;
        (self.next, self.end) = (first.0, first.0 + TAKEN);
        Some(Event::NextIno(Ino(first.0 + TAKEN)))
    }

    pub(super) fn next(&mut self) -> Option<Ino> {
        let number = (self.next < self.end).then_some(Ino(self.next))?;
        self.next += 1;
        Some(number)
    }
}
