//! Ranks that come and go: the cluster map, and the end of sessions with ranks that leave. Where to ask instead is in
//! `route` and `moves`.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::msg::ToServer;
use loligo_types::{ClusterMap, Cred, Ino, Op, Rank};

use crate::Output;
use crate::core::Core;
use crate::file::Files;
use crate::machine::Client;
use crate::ranks::Ranks;
use crate::session::{Link, Then};

impl Files {
    /// Inodes that are open at a rank, each with somebody who opened it.
    pub(crate) fn held_at(&self, rank: Rank) -> Vec<(Ino, Cred)> {
        let mut seen = BTreeSet::new();
        let here = self.handles.iter().filter(|(number, _)| self.at.get(number) == Some(&rank));
        let first = here.filter(|(_, handle)| seen.insert(handle.ino));
        first.map(|(_, handle)| (handle.ino, Cred::clone(&handle.cred))).collect()
    }
}

impl Ranks {
    pub(crate) fn leave(&mut self, core: &mut Core, rank: Rank) {
        self.send(core, rank, ToServer::Goodbye { gone: false });
        let now = core.now.ms;
        if let Some(session) = self.sessions.get_mut(&rank) {
            (session.link, session.left) = (Link::Down, true);
            session.down_since.get_or_insert(now);
        }
    }

    /// Keeps a session with some rank: without any, a client hears nothing of ranks that come and go.
    pub(crate) fn stay_somewhere(&mut self, core: &mut Core) {
        let stays = |(rank, session): (&Rank, &crate::session::Session)| !session.left && self.router.has_rank(*rank);
        if core.stopping || self.sessions.iter().any(stays) {
            return;
        }
        let rank = self.router.some_rank(self.home);
        if self.router.has_rank(rank) {
            self.open_session(core, rank);
        }
    }
}

impl Client {
    /// Takes a new cluster map. `welcoming`: the rank that sends it as it welcomes this client, and which therefore is at the address that
    /// was reached.
    pub(crate) fn learn_map(&mut self, map: &ClusterMap, welcoming: Option<Rank>) {
        let before: BTreeMap<Rank, Option<String>> =
            self.ranks.sessions.keys().map(|rank| (*rank, self.ranks.router.address(*rank))).collect();
        if !self.ranks.router.learn_map(map) {
            return;
        }
        for (rank, before) in before {
            let now = self.ranks.router.address(rank);
            // What it was reached at before is another life of it, or nobody; and who is greeted in its stead while it was nowhere
            // may never answer.
            let greets = self.ranks.session(rank).is_some_and(|session| session.link == Link::Greeting);
            let has_gone = now.is_some() && now != before && (before.is_some() || greets);
            if has_gone && welcoming != Some(rank) && (rank != self.ranks.home || self.ranks.home_moved) {
                self.disconnected(rank);
            }
        }
        // If it comes back it listens elsewhere.
        self.ranks.home_moved |= !self.ranks.router.may_be(self.ranks.home);
        for rank in self.ranks.sessions.keys().copied().collect::<Vec<_>>() {
            let Some(session) = self.ranks.session(rank) else { continue };
            if session.nowhere {
                self.ranks.want_connection(&mut self.core, rank);
            } else if session.link == Link::Down && !self.ranks.router.may_be(rank) {
                // It is not sought any more.
                self.disconnected(rank);
            }
        }
        self.leave_ranks();
    }

    /// Ends sessions with ranks that leave, as soon as nothing is under way there. What is believed to be held there has
    /// moved: asking tells where to.
    pub(crate) fn leave_ranks(&mut self) {
        let leaving: Vec<Rank> =
            self.ranks.sessions.keys().copied().filter(|rank| self.ranks.router.is_leaving(*rank)).collect();
        // A farewell lets others write at once.
        for rank in leaving.into_iter().filter(|_| !self.direct.is_writing()).collect::<Vec<_>>() {
            let idle = |session: &crate::session::Session| {
                session.link == Link::Up && session.pending.is_empty() && session.data.is_empty()
            };
            if !self.ranks.session(rank).is_some_and(idle) {
                continue;
            }
            let held = self.files.held_at(rank);
            if held.is_empty() && !self.files.at.values().any(|at| *at == rank) {
                self.ranks.leave(&mut self.core, rank);
                self.ranks.stay_somewhere(&mut self.core);
            }
            for (ino, cred) in held {
                self.request_at(rank, cred, Op::GetAttr { ino }, Then::Nothing, 0);
            }
        }
    }

    /// The rank has closed the connection of a session that this client ended. If something wants it again meanwhile,
    /// it gets another session.
    pub(crate) fn left(&mut self, rank: Rank) {
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        (session.left, session.id) = (false, None);
        if !session.pending.is_empty() || !session.data.is_empty() {
            return self.ranks.want_connection(&mut self.core, rank);
        }
        self.core.out.push_back(Output::Disconnect { rank: self.ranks.swapped(rank) });
        self.session_lost(rank);
        self.ranks.sessions.remove(&rank);
        self.ranks.home_moved |= rank == self.ranks.home;
        self.ranks.stay_somewhere(&mut self.core);
    }
}
