//! The rank that has each thing, as far as this one knows: the ranks, the lines of the subtree map, what the table says of others' inodes,
//! and where the table is behind. Its methods are in files by subject (`locate.rs`, `spread.rs`, `stale_rows.rs` and others). Not here: how
//! something comes to be another rank's (`exports.rs`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::Need;
use loligo_types::{ClusterMap, Frag, Ino, Lsn, Rank, RankState, Route};

use crate::cluster::births::EarlyRequests;
use crate::cluster::routes::Routes;
use crate::cluster::strangers::Strangers;
use crate::load::Waiter;
use loligo_types::hash::IntMap;

/// The state.
#[derive(Default)]
pub(crate) struct Atlas {
    pub(crate) map: ClusterMap,
    pub(crate) routes: Routes,
    /// The ranks that were removed in this life and did not come again.
    pub(super) removed: BTreeSet<Rank>,
    pub(crate) foreign_inodes: Strangers,
    /// Inodes that are another rank's and that the table does not yet show to be: whose, and the record that says so.
    pub(crate) departed: IntMap<Ino, (Rank, Lsn)>,
    /// The record with which a directory, or a fragment, came here last.
    pub(crate) imported: Lsn,
    /// Reads of the table up to this one may have been made before something became this rank's.
    pub(crate) barrier: u64,
    /// Changes of inodes in records below this are in the table for good.
    pub(crate) settled: Lsn,
    /// The record up to which that was asked for last.
    pub(crate) settling: Lsn,
    /// When, milliseconds.
    pub(crate) settling_ms: u64,
    /// Fragments of directories with lines that another rank has told and that name this one, which does not know of them; and
    /// whether the table was read in vain since.
    pub(super) unconfirmed_routes: BTreeMap<(Ino, Frag), bool>,
    /// Lines that name ranks which were removed, and whether the table was read in vain since.
    pub(super) nowhere: BTreeMap<(Ino, Frag), (Route, bool)>,
    /// Inodes that are remembered as gone because the table does not have them.
    pub(super) absent: Vec<Ino>,
    pub(super) riddles: StaleRows,
    pub(crate) births: EarlyRequests,
    /// Something has changed that others can only learn from the table.
    pub(crate) told_by_table: bool,
}

impl Atlas {
    /// Of a rank that begins with this map.
    pub(super) fn new(map: &ClusterMap, own: Rank) -> Atlas {
        let mut atlas = Atlas { map: map.clone(), ..Atlas::default() };
        atlas.routes.set_ranks(map, own);
        atlas
    }

    /// True if there never was another rank. Lines of the subtree map and remote entries of removed ranks are left, so
    /// with a map of one rank it is not alone.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.map.ranks.is_empty()
    }

    /// The rank that an inode was given to which the table may not yet show to be there.
    pub(crate) fn given_to(&self, ino: Ino) -> Option<Rank> {
        self.departed.get(&ino).map(|(rank, _)| *rank)
    }

    /// True if an inode may have come back with a directory: a letter tells only of inodes that have changed or are open.
    /// If it has come back, the entry shows it. The rank that had it meanwhile may not be heard, and so not say that the
    /// table has it.
    pub(crate) fn may_be_back(&self, ino: Ino) -> bool {
        self.departed.get(&ino).is_some_and(|(_, lsn)| *lsn < self.imported)
    }

    /// True if a rank exists and may be given something.
    pub(crate) fn takes_more(&self, rank: Rank) -> bool {
        self.map.ranks.iter().any(|info| info.rank == rank && info.state == RankState::Up)
    }
}

/// Location of an inode, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    /// It is this rank's, and in memory (also that it is gone).
    Here,
    /// It is another rank's, as far as is known.
    Elsewhere(Rank),
    /// Records must be read first.
    Unknown,
}

/// All of them.
#[derive(Default)]
pub(crate) struct StaleRows {
    /// Since when, milliseconds.
    pub(super) since: BTreeMap<Ino, u64>,
    /// Reads that wait for the next tick.
    pub(super) later: Vec<(Need, Waiter)>,
}
