//! Membership: ranks come, are drained, leave and are gone, while this one runs. The keeper of the cluster map says so;
//! the rules stand in docs/cluster.md, "Membership". A new map goes through all parts in `stages/links.rs`.

use loligo_namespace::Found;
use loligo_types::{Rank, RankState};

use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Drain, Peers};
use crate::core::Core;
use crate::peer::PeerMsg;

impl Core {
    /// Ends the assumption of a rank alone that a number which nothing has will never have something.
    pub(super) fn end_solitude(&mut self) {
        let (inodes, _) = self.tree.places();
        for place in 0..inodes {
            if let Some(ino) = self.tree.inode_at(place)
                && ino.birth_rank() != self.config.rank
                && matches!(self.tree.find(ino), Found::Gone)
            {
                self.tree.forget_absent(ino);
            }
        }
    }
}

impl Peers {
    /// Links to ranks that were not there before.
    pub(super) fn greet_new_ranks(&mut self, core: &Core, atlas: &Atlas) {
        let own = core.config.rank;
        for info in atlas.map.ranks.iter().filter(|info| info.rank != own) {
            self.links.entry(info.rank).or_default();
        }
    }

    /// Another rank says that nothing will come from it.
    pub(crate) fn peer_farewell(&mut self, from: Rank) {
        if let Some(link) = self.links.get_mut(&from) {
            link.farewell = true;
        }
    }
}

impl Atlas {
    /// The state of a rank in the map.
    pub(super) fn state_of(&self, rank: Rank) -> Option<RankState> {
        self.map.ranks.iter().find(|info| info.rank == rank).map(|info| info.state)
    }

    /// The state of this rank in the map; up, if it is alone.
    pub(crate) fn member_state(&self, core: &Core) -> RankState {
        self.state_of(core.config.rank).unwrap_or_default()
    }
}

impl Cluster {
    /// Begins to give everything away if the map says so, or stops that.
    pub(crate) fn begin_or_end_drain(&mut self, core: &Core) {
        match self.atlas.state_of(core.config.rank) {
            Some(RankState::Draining | RankState::Leaving) => {
                if self.drain.is_none() {
                    self.drain = Some(Box::new(Drain::new(core.now.mono_ms)));
                }
            }
            Some(RankState::Up) | None => self.drain = None,
        }
        for info in &self.atlas.map.ranks {
            if info.state == RankState::Up
                && let Some(link) = self.peers.links.get_mut(&info.rank)
            {
                link.empty = false;
            }
        }
    }

    // The last words between two ranks.

    /// Another rank says that it has nothing any more. All it said before has come, so where things are is known.
    pub(crate) fn peer_empty(&mut self, core: &mut Core, from: Rank) {
        self.atlas.foreign_inodes.clear();
        self.atlas.barrier = core.loads.newest();
        self.borrowing.forget_found_at(from);
        if let Some(link) = self.peers.links.get_mut(&from) {
            link.empty = true;
        }
        self.say_farewells(core);
    }

    /// Tells ranks that have nothing any more that nothing is on its way to them, when that is so.
    pub(crate) fn say_farewells(&mut self, core: &mut Core) {
        let waiting: Vec<Rank> =
            self.peers.links.iter().filter(|(_, link)| link.empty && link.greeted).map(|(rank, _)| *rank).collect();
        for rank in waiting {
            if self.has_words_for(rank) {
                continue;
            }
            if let Some(link) = self.peers.links.get_mut(&rank) {
                link.empty = false;
            }
            core.tell_durably(rank, PeerMsg::Farewell);
        }
    }

    /// True if something is under way to a rank, or the table may not show yet what was given to it.
    fn has_words_for(&self, rank: Rank) -> bool {
        let Some(link) = self.peers.links.get(&rank) else { return false };
        !link.outbox.is_empty()
            || !link.inbox.is_empty()
            || self.borrowing.borrows_from(rank)
            || self.exports.is_towards(rank)
            || self.atlas.departed.values().any(|(to, _)| *to == rank)
    }
}
