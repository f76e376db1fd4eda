//! The gate: an answer leaves when the journal holds all that it saw, durably. Errors and reads pass it, too.

use std::collections::VecDeque;

use loligo_types::msg::{Hello, ToClient};
use loligo_types::{Answer, FsResult, Ino, Lsn, Rank, Seq, SessionId};

use crate::cluster::{Cluster, principal};
use crate::core::Core;
use crate::grant::Asks;
use crate::handshake::Begun;
use crate::io::{ConnId, Output};
use crate::machine::Mds;
use crate::park::Job;
use crate::relaxed::Lag;
use crate::session::{Sessions, Slot};

/// It is another rank's to answer.
#[derive(Clone, Copy)]
pub(crate) struct Redirect {
    rank: Rank,
    /// It was executed here before: what it made.
    done: Option<(Ino, u64)>,
    /// The inode that it is about.
    about: Option<Ino>,
}

/// An answer on its way.
pub(crate) struct Reply {
    pub(crate) slot: Slot,
    pub(crate) session: SessionId,
    pub(crate) seq: Seq,
    pub(crate) result: FsResult<Answer>,
    /// Leases that would be welcome with it.
    pub(crate) asks: Asks,
    /// Lookup leases that it brings.
    pub(crate) ways: Vec<(Ino, u16)>,
    /// Inode that it shows and whose objects were cut, which must be done first.
    pub(crate) cut: Option<Ino>,
    pub(crate) redirect: Option<Redirect>,
    /// It may leave before the journal is durable.
    pub(crate) lag: Option<Lag>,
    /// Inodes that it is about, as far as their last changes are not durable.
    pub(crate) shows: Vec<Ino>,
}

impl Mds {
    /// The answer of a request that is executed.
    pub(crate) fn reply(&mut self, job: &Job, result: FsResult<Answer>) -> Reply {
        let op = match &job.walk {
            Some(walk) => self.core.counters.count(&walk.op(), result.is_ok()),
            None => self.core.counters.count(&job.op, result.is_ok()),
        };
        self.core.tally_answer(job, op, &result);
        if self.heat.sampler.choose() {
            self.heat.heat_op(&mut self.core, &self.cluster.atlas, &job.op);
        }
        let asks = Asks::of(&self.core.tree, job, &result);
        let ways = self.promise_ways(job);
        // Whoever sees the file as it is after a cut may write to it at once, and the drop must not come after that.
        let cut = result.as_ref().ok().and_then(Answer::attr).map(|attr| attr.ino);
        let cut = cut.filter(|ino| self.discards.is_pending(*ino));
        let lag = match job.lag {
            Some(lag) => Some(lag),
            None if !job.is_strict => self.relaxed.lag_of(&mut self.core, &mut self.cluster, job),
            None => None,
        };
        let shows = self.relaxed.shown_by(job, &result);
        Reply {
            slot: job.slot,
            session: job.session,
            seq: job.seq,
            result,
            asks,
            ways,
            cut,
            redirect: None,
            lag,
            shows,
        }
    }
}

impl Reply {
    /// Sends the client to another rank.
    pub(crate) fn redirect(job: Job, rank: Rank) -> Reply {
        let Job { slot, session, seq, again, op, .. } = job;
        let redirect = Some(Redirect { rank, done: again, about: principal(&op) });
        let (asks, ways) = (Asks::default(), Vec::new());
        let shows = Vec::new();
        Reply { slot, session, seq, result: Ok(Answer::Done), asks, ways, cut: None, redirect, lag: None, shows }
    }
}

// Welcomes are few: a box around each reply would cost more than their empty room.
#[allow(clippy::large_enum_variant)]
enum Gated {
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
    fn wait(&mut self, core: &Core, reply: Reply) {
        self.queue.push_back((core.log.last, Gated::Reply(reply)));
    }

    /// The next one that may leave.
    fn next(&mut self, core: &Core) -> Option<Gated> {
        if self.queue.front().is_none_or(|(upto, _)| *upto > core.log.durable) {
            return None;
        }
        self.queue.pop_front().map(|(_, gated)| gated)
    }
}

impl Mds {
    /// Lets an answer leave as soon as all that was applied before it is durable.
    pub(crate) fn gate(&mut self, mut reply: Reply) {
        if self.core.log.last <= self.core.log.durable {
            return self.pass(reply);
        }
        if reply.lag.is_some_and(|lag| self.relaxed.may_run_ahead(&self.core, lag)) {
            self.relaxed.early += 1;
            // What is promised for a time is not asked back when a crash takes it back.
            reply.ways.clear();
            return self.pass(reply);
        }
        self.gate.wait(&self.core, reply);
    }

    /// The journal is durable up to here.
    pub(crate) fn durable(&mut self, lsn: Lsn) {
        self.core.log.durable = self.core.log.durable.max(lsn).min(self.core.log.last);
        self.relaxed.relaxed_durable(&mut self.core, &self.sessions, &self.opens, &mut self.cluster);
        self.decoupled.emit_thaws(&mut self.core, &mut self.sessions, &self.opens);
        self.discards.emit_discards(&mut self.core);
        self.decoupled.emit_restores(&mut self.core);
        self.decoupled.emit_forks(&mut self.core);
        self.checkpointer.emit_checkpoint(&mut self.core, &mut self.cluster, &mut self.heat);
        self.decoupled.emit_merge_rows(&mut self.core);
        let greeted = self.cluster.cluster_durable(&mut self.core);
        while let Some(gated) = self.gate.next(&self.core) {
            match gated {
                Gated::Reply(reply) => self.pass(reply),
                Gated::Welcome { conn, slot, session } => {
                    self.sessions.welcome(&mut self.core, &self.cluster, conn, slot, session, Begun::default())
                }
                Gated::Hello(conn, hello) => self.hello(conn, hello),
                Gated::Evicted(conn) => self.sessions.say_evicted(&mut self.core, conn),
            }
        }
        greeted.into_iter().for_each(|rank| self.hello_said(rank));
    }

    fn pass(&mut self, reply: Reply) {
        match reply.cut {
            Some(ino) if self.discards.is_pending(ino) => self.discards.wait(ino, reply),
            _ => self.release(reply),
        }
    }

    /// The answer leaves, with the leases that can be given at this moment.
    pub(crate) fn release(&mut self, mut reply: Reply) {
        let Some(session) = self.sessions.same(reply.slot, reply.session) else { return };
        session.window.answer(reply.seq);
        session.errors += u64::from(reply.result.is_err());
        let Some(conn) = session.conn else { return };
        if let Some(Redirect { rank, done, about }) = reply.redirect {
            let routes = self.cluster.atlas.routes_about(&self.core, about);
            let msg = ToClient::Redirect { seq: reply.seq, rank, routes, done };
            return self.core.out.push_back(Output::Send { conn, msg });
        }
        let granted = self.grant(&mut reply);
        let volatile = self.relaxed.volatile(&self.core, reply.lag.is_some(), &reply.shows);
        let msg = ToClient::Reply { seq: reply.seq, result: reply.result, granted, ways: reply.ways, volatile };
        self.core.out.push_back(Output::Send { conn, msg });
        // Behind the answer: a recall of what the answer brings must not come before it.
        self.recalls.shed_leases(&mut self.core, &mut self.sessions, &mut self.leases, reply.slot);
    }
}

impl Gate {
    /// The same for the end of a handshake.
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
