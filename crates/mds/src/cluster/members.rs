//! Membership: ranks come, are drained, leave and are gone, while this one runs. The keeper of the cluster map says so;
//! the rules stand in docs/cluster.md, "Membership".

use loligo_namespace::Found;
use loligo_types::msg::ToClient;
use loligo_types::{ClusterMap, Rank, RankState};

use super::Drain;
use crate::cluster::Atlas;
use crate::cluster::Cluster;
use crate::cluster::Peers;
use crate::core::Core;
use crate::io::Output;
use crate::machine::Mds;
use crate::park::WaitReason;
use crate::peer::PeerMsg;

impl Mds {
    /// The cluster map has changed, as its keeper says or another rank that heard it before.
    pub(crate) fn map_changed(&mut self, map: ClusterMap) {
        if map.epoch <= self.cluster.atlas.map.epoch {
            return;
        }
        let was_alone = self.cluster.is_alone();
        let before = std::mem::replace(&mut self.cluster.atlas.map, map);
        self.cluster.atlas.routes.set_ranks(&self.cluster.atlas.map, self.core.config.rank);
        if was_alone {
            self.core.end_solitude();
        }
        for info in before.ranks {
            if !self.cluster.atlas.is_a_rank(&self.core, info.rank) {
                self.forget_rank(info.rank);
                self.cluster.atlas.removed.insert(info.rank);
            }
        }
        let map = &self.cluster.atlas.map;
        self.cluster.atlas.removed.retain(|rank| map.ranks.iter().all(|info| info.rank != *rank));
        self.cluster.atlas.doubt_nowhere();
        self.cluster.peers.greet_new_ranks(&self.core, &self.cluster.atlas);
        // Where things are may have been concluded from who was there, also by reads that are under way.
        self.cluster.atlas.foreign_inodes.clear();
        self.cluster.atlas.barrier = self.core.loads.newest();
        self.cluster.begin_or_end_drain(&self.core);
        // Those who wait for a rank that is gone, or for one that has come.
        self.core.parked.wake(&WaitReason::Peers);
        let conns: Vec<_> = self.sessions.iter().filter_map(|(_, session)| session.conn).collect();
        for conn in conns {
            self.core.out.push_back(Output::Send { conn, msg: ToClient::Map(self.cluster.atlas.map.clone()) });
        }
        self.cluster.peers.check_ready(&mut self.core, &self.cluster.atlas);
    }

    /// A rank was removed: it had nothing any more, all that it was told is in the table, and so is all that it told.
    fn forget_rank(&mut self, rank: Rank) {
        self.cluster.borrowing.void_loans_of(&mut self.core, rank);
        self.forget_holder(rank);
        self.cluster.borrowing.forget_found_at(rank);
        self.export_lost(rank);
        self.cluster.peers.links.remove(&rank);
        self.core.mail.retain(|(_, to, _)| *to != rank);
        self.core.out.retain(|output| !matches!(output, Output::Peer { to, msg: PeerMsg::Routes(_) } if *to == rank));
        self.cluster.exports.forget_given_to(&mut self.cluster.atlas, rank);
        self.end_births_of(rank);
    }

    /// Forgets the state of ranks that have been removed: they had handed it on.
    pub(crate) fn forget_removed(&mut self) {
        let known: Vec<Rank> = self.cluster.peers.links.keys().copied().collect();
        for rank in known {
            if !self.cluster.atlas.is_a_rank(&self.core, rank) {
                self.forget_rank(rank);
            }
        }
        self.cluster.atlas.doubt_nowhere();
        let given: Vec<Rank> = self.cluster.atlas.departed.values().map(|(rank, _)| *rank).collect();
        for rank in given {
            if !self.cluster.atlas.is_a_rank(&self.core, rank) {
                self.cluster.exports.forget_given_to(&mut self.cluster.atlas, rank);
            }
        }
    }
}

impl Core {
    /// Ends the assumption of a rank alone that a number which nothing has will never have something.
    fn end_solitude(&mut self) {
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
    fn greet_new_ranks(&mut self, core: &Core, atlas: &Atlas) {
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
