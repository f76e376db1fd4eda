//! Timers, and stopping.

use loligo_types::msg::ToServer;
use loligo_types::{Op, Rank};

use crate::Output;
use crate::core::Core;
use crate::machine::Client;
use crate::ranks::Ranks;
use crate::session::{Link, Session};

/// A rank that is waited for is not doubted earlier than after this, milliseconds, however soon calls are given up.
const DOUBT_MIN_MS: u64 = 500;

impl Ranks {
    /// True if a rank may have ended a session, not having heard of this client; a little before it may think so.
    pub(crate) fn may_have_ended(&self, core: &Core, session: &Session) -> bool {
        let unproven = core.now.ms.saturating_sub(session.proven);
        self.lives(session).is_some_and(|lives| unproven > lives * 3 / 4)
    }

    /// The time a session lives without a message, milliseconds. Files that moved to a rank that was not reached yet are held in a
    /// session that this client has not seen: it lives as long there as elsewhere. `None`: nothing can be held there.
    pub(crate) fn lives(&self, session: &Session) -> Option<u64> {
        let of = |session: &Session| session.id.map(|_| session.session_ms);
        of(session).or_else(|| self.sessions.values().filter_map(of).min())
    }
}

impl Client {
    pub(crate) fn on_tick(&mut self) {
        let ranks: Vec<_> = self.ranks.sessions.keys().copied().collect();
        for rank in &ranks {
            self.keep_alive(*rank);
        }
        self.end_pauses();
        self.calls.end_unsettled(&self.ranks);
        self.leave_ranks();
        if !ranks.iter().any(|rank| self.ranks.is_up(*rank)) {
            return;
        }
        self.close_idle();
        self.send_closes();
        for rank in &ranks {
            self.ranks.release_forgotten(&mut self.core, &self.files, *rank);
        }
        self.flush_old();
        self.own.tick(&mut self.core, &mut self.calls);
        for rank in ranks {
            self.ranks.repeat_busy(&mut self.core, rank);
        }
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
        self.ask_life(rank);
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

    /// Asks a rank that is waited for whether it lives, and leaves one that does not say so.
    fn ask_life(&mut self, rank: Rank) {
        let now = self.core.now.ms;
        // It takes up to one and a half times as long: calls that are to fail earlier must not wait for that.
        let doubt = self.core.config.doubt_ms.min((self.core.config.give_up_ms / 2).max(DOUBT_MIN_MS));
        let Some(session) = self.ranks.sessions.get_mut(&rank).filter(|_| doubt > 0) else { return };
        let quiet = now.saturating_sub(session.heard);
        let waits = !session.pending.is_empty() || !session.data.is_empty();
        session.waits_since = waits.then(|| session.waits_since.unwrap_or(now));
        match session.link {
            Link::Up if waits => {
                let asked = session.unanswered.front().map(|sent| now.saturating_sub(*sent));
                if quiet >= doubt && asked.is_some_and(|asked| asked >= doubt) {
                    // It was not there when they began to wait, and not only since that is known. A client that was itself stopped for
                    // long knows no more than that it asked.
                    let since =
                        session.waits_since.unwrap_or(now).max(session.heard).max(now.saturating_sub(2 * doubt));
                    // Where it is sought goes by when the connection was lost.
                    session.silent_since.get_or_insert(since);
                    self.disconnected(rank);
                } else if quiet >= doubt / 2 && now.saturating_sub(session.asked_life) >= doubt / 2 {
                    self.ranks.send(&mut self.core, rank, ToServer::Ping);
                }
            }
            // One that has just started may have much to do before it welcomes anybody: it is given more time every other time.
            Link::Greeting if now.saturating_sub(session.asked_life) >= doubt << (session.mute / 2).min(5) => {
                session.mute += 1;
                self.disconnected(rank);
            }
            _ => {}
        }
    }

    /// Stops: no new calls, everything back to the server.
    pub(crate) fn stop(&mut self) {
        if self.core.stopping {
            return;
        }
        self.core.stopping = true;
        for ino in self.files.dirty.clone() {
            self.start_run(ino);
        }
        self.own.stop(&mut self.core, &mut self.calls);
    }

    pub(crate) fn check_stopped(&mut self) {
        if self.core.stopped {
            return;
        }
        let hopeless = |session: &Session| self.ranks.refused || session.is_hopeless();
        // Without a session there is nothing to give back and nobody to give it to.
        let waits = |ino| {
            let session = self.files.map.get(ino).and_then(|file| self.ranks.session(file.rank));
            session.is_none_or(|session| !hopeless(session))
        };
        // A farewell lets others write at once.
        if self.files.dirty.iter().any(waits) || self.direct.is_writing() {
            return;
        }
        if self.own.is_stopping() && !self.ranks.sessions.values().all(hopeless) {
            return;
        }
        for session in self.ranks.sessions.values() {
            if session.link == Link::Up {
                // Waits for locks may never end; everything else is answered soon.
                let waits = |op: &Op| matches!(op, Op::SetLock { wait: true, .. });
                if !session.data.is_empty() || !session.pending.values().all(|p| waits(&p.request.op)) {
                    return;
                }
            } else if !hopeless(session) && session.down_since.is_none() {
                return;
            }
        }
        for rank in self.ranks.sessions.keys().copied().collect::<Vec<_>>() {
            if self.ranks.is_up(rank) {
                self.ranks.send(&mut self.core, rank, ToServer::Goodbye { gone: true });
            }
        }
        self.core.stopped = true;
        self.calls.give_up_calls(&mut self.core, &mut self.ranks, &mut self.files);
        self.core.out.push_back(Output::Stopped);
    }
}
