//! Progress of the look at what clients hold on what moves: the state. Its steps are in `holdings.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_types::{Ino, Lease};

use crate::session::Slot;

/// Sessions with the inodes that they hold something of.
pub(super) type Holders = BTreeMap<Slot, Vec<Ino>>;

/// Open inodes that can move with a subtree: nobody can be made to close them, and one letter names them all.
const OPENS_MAX: usize = 65_536;

/// Something that somebody has open, or a lease that somebody has on it.
pub(super) struct HeldOne {
    pub(super) ino: Ino,
    pub(super) lease: Option<(Slot, Lease)>,
}

/// Progress of the look at what clients hold.
#[derive(Default)]
pub(super) struct Held {
    /// Leases below this place were not looked at; `None`: it has not begun.
    pub(super) place: Option<usize>,
    /// Open inodes that were not looked at.
    pub(super) opens: Vec<Ino>,
    /// Of these it is not known whether they move: records must be read first, and stay in memory until they are looked at.
    pub(super) unknown: Vec<HeldOne>,
    /// Inodes that move and that somebody holds something of, and those that may have become such since they were looked at.
    pub(super) inos: BTreeSet<Ino>,
    /// Leases among these.
    pub(super) leases: usize,
    /// Leases asked back that were not given back yet, or were given anew.
    pub(super) asked: VecDeque<(Ino, Slot)>,
    /// Set when some leases were asked back since the look began.
    pub(super) shed: bool,
    pub(super) rounds: u32,
    pub(super) done: bool,
}

impl Held {
    /// True if records are being read for unknown inodes.
    pub(super) fn asks(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Inodes of which somebody may hold something.
    pub(super) fn inos(&self) -> &BTreeSet<Ino> {
        &self.inos
    }

    /// Of those that are open: whether there are more than can move.
    pub(super) fn too_many(&self, is_open: impl Fn(Ino) -> bool) -> bool {
        self.inos.len() > OPENS_MAX && self.inos.iter().filter(|ino| is_open(**ino)).count() > OPENS_MAX
    }
}
