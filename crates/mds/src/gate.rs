//! The gate: an answer leaves when the journal holds all that it saw, durably. Errors and reads pass it, too.

use std::collections::VecDeque;

use loligo_types::msg::Hello;
use loligo_types::{Answer, Lsn, Rank, SessionId};

use crate::cluster::Cluster;
use crate::cluster::principal;
use crate::core::Core;
use crate::grant::Asks;
use crate::handshake::Begun;
use crate::io::ConnId;
use crate::job::Job;
use crate::reply::{Redirect, Reply};
use crate::session::{Sessions, Slot};

impl Reply {
    /// Sends the client to another rank.
    pub(crate) fn redirect(job: Job, rank: Rank) -> Reply {
        let Job { slot, session, seq, again, op, .. } = job;
        let redirect = Some(Redirect { rank, done: again, about: principal(&op) });
        let (asks, ways) = (Asks::default(), Vec::new());
        let shows = Vec::new();
        let (cut, lag, journal) = (None, None, None);
        Reply { slot, session, seq, result: Ok(Answer::Done), asks, ways, cut, redirect, lag, shows, journal }
    }
}

// Welcomes are few: a box around each reply would cost more than their empty room.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Gated {
    Reply(Reply),
    Welcome { conn: ConnId, slot: Slot, session: SessionId },
    Hello(ConnId, Hello),
    Evicted(ConnId),
}

/// Answers that wait for the journal, in order.
#[derive(Default)]
pub(crate) struct Gate {
    queue: VecDeque<(Lsn, Gated)>,
}

impl Gate {
    /// Number of waiting answers.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// An answer waits until all that was applied before it is durable.
    pub(crate) fn wait(&mut self, core: &Core, reply: Reply) {
        self.queue.push_back((core.log.last, Gated::Reply(reply)));
    }

    /// The next one that may leave.
    pub(crate) fn next(&mut self, core: &Core) -> Option<Gated> {
        if self.queue.front().is_none_or(|(upto, _)| *upto > core.log.durable) {
            return None;
        }
        self.queue.pop_front().map(|(_, gated)| gated)
    }

    /// Lets the end of a handshake wait until all that was applied before it is durable.
    pub(crate) fn gate_welcome(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        cluster: &Cluster,
        conn: ConnId,
        slot: Slot,
        session: SessionId,
    ) {
        if core.log.last <= core.log.durable {
            return sessions.welcome(core, cluster, conn, slot, session, Begun::default());
        }
        self.queue.push_back((core.log.last, Gated::Welcome { conn, slot, session }));
    }

    /// A client that says hello is heard later.
    pub(crate) fn gate_hello(&mut self, core: &Core, conn: ConnId, hello: Hello) {
        self.queue.push_back((core.log.last, Gated::Hello(conn, hello)));
    }

    /// A client that is told that its session has ended begins anew, and nothing of before may come back.
    pub(crate) fn gate_evicted(&mut self, core: &mut Core, sessions: &mut Sessions, conn: ConnId) {
        if core.log.last <= core.log.durable {
            return sessions.say_evicted(core, conn);
        }
        self.queue.push_back((core.log.last, Gated::Evicted(conn)));
    }
}
