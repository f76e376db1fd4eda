//! The state that makes a rank one of several: its parts side by side, and what is asked of them everywhere. Not what they do.

use loligo_namespace::Need;
use loligo_types::{ClusterMap, Ino, Rank};

use crate::cluster::atlas::{Atlas, Where};
use crate::cluster::borrowing::Borrowing;
use crate::cluster::drain::Drain;
use crate::cluster::exports::Exports;
use crate::cluster::lend::Loans;
use crate::cluster::peers::Peers;
use crate::cluster::placement::Placement;
use crate::cluster::replicas::Replicas;
use crate::core::Core;
use crate::load::Waiter;

/// The state: parts that each have their own, and what one asks of another it is given for the call.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) atlas: Atlas,
    pub(crate) peers: Peers,
    pub(crate) borrowing: Borrowing,
    pub(crate) loans: Loans,
    pub(crate) replicas: Replicas,
    pub(crate) exports: Exports,
    pub(crate) placement: Placement,
    /// This rank is to give everything away.
    pub(crate) drain: Option<Box<Drain>>,
}

impl Cluster {
    /// Of a rank that begins with this map.
    pub(crate) fn new(map: &ClusterMap, own: Rank) -> Cluster {
        Cluster { atlas: Atlas::new(map, own), ..Cluster::default() }
    }

    /// Reads these for somebody; how many reads that is to wait for.
    pub(crate) fn load(&mut self, core: &mut Core, needs: Vec<Need>, waiter: Waiter) -> usize {
        self.atlas.load(core, needs, waiter)
    }

    /// Locates an inode; records to read first are added to `wants`.
    pub(crate) fn locate(&mut self, core: &mut Core, ino: Ino, wants: &mut Vec<Need>) -> Where {
        self.atlas.locate(core, &mut self.exports, ino, wants)
    }

    /// True if there never was another rank.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.atlas.is_alone()
    }
}
