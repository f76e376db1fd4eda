//! Sessions with ranks: messages that come, the welcome that begins or resumes one, signs of life, and ranks that come and go. Not
//! here: what is known of a session (`session`), answers (`request`), and what is lost with one (`recover`).

use std::collections::BTreeMap;

use loligo_types::msg::{ToClient, ToServer, Welcome};
use loligo_types::{ClusterMap, Op, Rank};

use crate::Output;
use crate::machine::Client;
use crate::session::{Link, Then, Welcomed};

impl Client {
    pub(crate) fn message(&mut self, rank: Rank, message: ToClient) {
        let Some(link) = self.ranks.hears(&mut self.core, rank, &message) else { return };
        match (link, message) {
            (Link::Greeting, ToClient::Welcome(welcome)) => self.welcomed(rank, welcome),
            (Link::Greeting, ToClient::Refused { why, text }) => self.refused(rank, why, text),
            (Link::Up, ToClient::Reply { seq, result, granted, ways, volatile, journal }) => {
                self.ranks.note_volatile(rank, seq, &result, volatile);
                let journal =
                    journal.and_then(|journal| Some((self.ranks.file_of_answer(rank, seq, &result)?, journal)));
                // The next request about the file goes by its mode.
                self.files.journals_as(journal);
                self.reply(rank, seq, result, &granted, ways);
            }
            (Link::Up, ToClient::Redirect { seq, rank: to, routes, done }) => {
                self.redirected(rank, seq, to, &routes, done);
            }
            (Link::Up, ToClient::Data { id, result }) => self.data_reply(rank, id, result),
            (Link::Up, ToClient::Recall { ino, id, bits }) => self.recalled(rank, ino, id, bits),
            (Link::Up, ToClient::Routes { routes, moved, to, frozen_ms }) => {
                self.moved(rank, &routes, &moved, to, frozen_ms);
            }
            (Link::Up, ToClient::Map(map)) => self.learn_map(&map, None),
            (Link::Greeting, ToClient::Map(map)) => self.found_another(rank, &map),
            (Link::Up | Link::Greeting, ToClient::Evicted) => self.evicted(rank),
            // Of a connection that was given up already, or out of place.
            _ => {}
        }
    }

    fn welcomed(&mut self, rank: Rank, welcome: Welcome) {
        let Some(rank) = self.ranks.find_home(rank, welcome.rank) else {
            // Somebody else has the address by now, and tells who is there. What was begun there is not needed, and nobody is to wait
            // for it. But a server that was started again may have found the client's own, which it is about to ask for.
            let own = self.ranks.sessions.get(&welcome.rank).map(|own| own.id);
            let is_own = own.is_some_and(|id| id.is_none_or(|(id, _)| id == welcome.session));
            if !is_own {
                self.ranks.send(&mut self.core, rank, ToServer::Goodbye { gone: false });
            }
            return self.found_another(rank, &welcome.map);
        };
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        let Welcomed { had, replaced, before, lost, suspended } = session.welcome(&welcome);
        self.ranks.fs_id = Some(welcome.fs_id);
        self.ranks.router.hash_key = Some(welcome.hash_key);
        self.core.out.push_back(Output::Ready { rank: self.ranks.swapped(rank), welcome: welcome.clone() });
        // Before anything is given up or claimed: what is not here any more may be at a rank that was not known.
        self.learn_map(&welcome.map, Some(rank));
        self.lose_volatile(rank, welcome.recovered, (before, welcome.data_epoch));
        if had && !welcome.resumed {
            self.session_lost(rank);
            if welcome.kept {
                self.close_lost_there(rank);
            }
        } else if !replaced && welcome.resumed && !welcome.kept {
            self.reclaim(rank, &welcome.routes, lost);
            self.ranks.hold_data(&self.files, rank);
        } else if !had && !welcome.kept {
            self.begun_without(rank);
        } else if !had {
            self.close_lost_there(rank);
        } else if welcome.resumed {
            self.ranks.repeat_recalls_done(&mut self.core, rank);
        }
        if suspended {
            for ino in self.files.files_at(rank) {
                self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, ino);
            }
        }
        if let Some(session) = self.ranks.sessions.get_mut(&rank) {
            session.link = Link::Up;
        }
        if had && !(welcome.resumed && welcome.kept) {
            self.own_doubt_all(rank);
        }
        self.ranks.resend(&mut self.core, rank);
        self.leave_ranks();
        self.learn_routes(&welcome.routes);
        self.recalls.give_up_unplaced(&mut self.core, &mut self.ranks, &mut self.files, rank);
        // It may have been on its way for long.
        self.keep_alive(rank);
    }

    /// Where a rank was sought there is another one, which tells who is there.
    fn found_another(&mut self, rank: Rank, map: &ClusterMap) {
        self.ranks.home_moved |= rank == self.ranks.home;
        self.learn_map(map, None);
        // If it is elsewhere by now it is sought there already.
        if self.ranks.session(rank).is_some_and(|session| session.link == Link::Greeting) {
            self.disconnected(rank);
        }
    }

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

    /// Asks for a sign of life in time, and relies on nothing that a rank lent which may have ended the session.
    pub(crate) fn keep_alive(&mut self, rank: Rank) {
        let now = self.core.now.ms;
        let Some(session) = self.ranks.session(rank) else { return };
        let unproven = now.saturating_sub(session.proven);
        if session.link == Link::Up {
            if unproven > session.session_ms * 3 / 4 {
                // It answers no ping.
                self.disconnected(rank);
            } else if unproven >= session.session_ms / 3
                && now.saturating_sub(session.asked_life) >= session.session_ms / 12
            {
                self.ranks.send(&mut self.core, rank, ToServer::Ping);
            }
        }
        if self.ranks.asks_in_vain(&mut self.core, rank) {
            self.disconnected(rank);
        }
        self.ranks.seek_again(&mut self.core, rank);
        let Some(session) = self.ranks.session(rank) else { return };
        if !session.suspended && self.ranks.may_have_ended(&self.core, session) {
            self.ranks.suspend(&mut self.core, &mut self.files, &mut self.recalls, rank);
        }
        let Some(session) = self.ranks.session(rank) else { return };
        let since = session.down_since.map(|since| session.silent_since.unwrap_or(since).min(since));
        let down = since.map_or(0, |since| now.saturating_sub(since));
        if down >= self.core.config.give_up_ms && !session.gave_up {
            self.ranks.give_up_rank(&mut self.core, &mut self.calls, &mut self.files, rank);
        }
    }
}
