//! Answers on their way: what goes with one, the wait until the journal is durable, and what follows from that. Which leases are asked for
//! follows from the operation (`grant.rs`).

use loligo_namespace::check_search;
use loligo_types::msg::ToClient;
use loligo_types::{Answer, Attr, Cred, FsResult, Ino, Kind, Lease, Lsn};

use crate::gate::Gated;
use crate::grant::{Ask, Asks};
use crate::handshake::Begun;
use crate::io::Output;
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::reply::{Redirect, Reply};
use crate::session::Slot;

impl Mds {
    /// The answer of a request that is executed.
    pub(crate) fn reply(&mut self, job: &Job, result: FsResult<Answer>) -> Reply {
        let kind = job.walk.as_ref().map_or_else(|| job.op.kind(), |walk| walk.op().kind());
        self.core.counters.count(kind, result.is_ok());
        self.core.counters.tally_answer(&self.core.tree, job, kind, &result);
        if self.heat.sampler.choose() {
            self.heat.heat_op(&self.core, &self.cluster.atlas, &job.op);
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
        let journal = self.relaxed.journaling_told(&mut self.core, &mut self.cluster, job, &result);
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
            journal,
        }
    }

    /// Lookup leases given with the answer to a walk: on the directory in which it began, and on each that its names led to. None for an
    /// identity that is limited to paths: its rights are looked at each time.
    fn promise_ways(&mut self, job: &Job) -> Vec<(Ino, u16)> {
        let (Some(depth), Some(walk)) = (job.lease_depth, &job.walk) else { return Vec::new() };
        let Some((start, names, found)) = walk.way() else { return Vec::new() };
        if walk.is_limited() || self.core.stopping || self.grace.is_some() || self.core.tree.has_decoupled() {
            return Vec::new();
        }
        let cred = walk.asks().unwrap_or(&job.cred);
        let first = self.promise(start, None, cred, u32::from(depth));
        if first == 0 {
            // Whoever may not rely on where a way begins can make nothing of the rest.
            return Vec::new();
        }
        let mut ways = Vec::with_capacity(found.len() + 1);
        ways.push((start, first));
        let mut above = start;
        for (at, dir) in found.iter().enumerate() {
            let depth = u32::from(depth) + at as u32 + 1;
            let name = names.get(at).map(|name| (above, self.core.tree.hash(name)));
            ways.push((*dir, self.promise(*dir, name, cred, depth)));
            above = *dir;
        }
        while ways.last().is_some_and(|(_, ms)| *ms == 0) {
            ways.pop();
        }
        ways
    }

    /// For how long one stays in that place, and may be searched; 0: that is not said.
    pub(crate) fn promise(&mut self, ino: Ino, place: Option<(Ino, u64)>, cred: &Cred, depth: u32) -> u16 {
        let now = self.core.now.mono_ms;
        let Some((dir, lender)) = self.cluster.known_dir(&self.core, ino) else { return 0 };
        let lease = dir.lookup_lease();
        if lease.is_none() || dir.kind != Kind::Dir || dir.nlink == 0 {
            return 0;
        }
        if place.is_some_and(|(above, hash)| dir.parent != above || dir.place.hash() != Some(hash)) {
            return 0;
        }
        if !ino.is_table() && check_search(dir, cred).is_err() {
            return 0;
        }
        let most = match lender {
            Some(rank) => self.cluster.replicas.held.left_ms(rank, now),
            None if self.cluster.is_lendable(&mut self.core, &self.grace, &self.decoupled, ino) == Ok(true) => u64::MAX,
            None => 0,
        };
        let ms = u64::from(self.promises.time(ino, lease, depth)).min(most) as u16;
        if ms > 0 && self.promises.give(ino, ms, now) { ms } else { 0 }
    }

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
        self.decoupled.emit_thaws(&mut self.core, &self.sessions, &self.opens);
        // Data is written before a later drop, which may be of the same bytes.
        self.core.emit_data();
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
        let Reply { seq, result, ways, journal, .. } = reply;
        let msg = ToClient::Reply { seq, result, granted, ways, volatile, journal };
        self.core.out.push_back(Output::Send { conn, msg });
        // Behind the answer: a recall of what the answer brings must not come before it.
        self.recalls.shed_leases(&mut self.core, &mut self.sessions, &mut self.leases, reply.slot);
    }

    /// Gives what can be given with an answer, and writes it into the answer.
    pub(crate) fn grant(&mut self, reply: &mut Reply) -> Vec<(Ino, Lease)> {
        let mut granted = Vec::new();
        for ask in reply.asks.list.into_iter().flatten() {
            if self.may_lease(&ask, reply.slot) {
                self.leases.grant(ask.ino, reply.slot, ask.bits);
                granted.push((ask.ino, ask.bits));
            }
        }
        if reply.asks.entries {
            self.grant_entries(reply);
        }
        if let Ok(Answer::Opened { attr, rights, data, .. }) = &mut reply.result {
            let fresh = self.core.tree.inode(attr.ino).is_some_and(|inode| inode.change == attr.change);
            *rights = self.give_rights(attr, fresh, reply.slot);
            if !fresh {
                *data = None;
            }
        }
        granted
    }

    fn grant_entries(&mut self, reply: &mut Reply) {
        let Ok(Answer::Entries { entries, .. }) = &mut reply.result else { return };
        for entry in entries {
            let Some(attr) = &entry.attr else { continue };
            let ask = Ask { ino: attr.ino, bits: Lease::ATTR, change: attr.change };
            if self.may_lease(&ask, reply.slot) {
                self.leases.grant(ask.ino, reply.slot, ask.bits);
                entry.lease = ask.bits;
            }
        }
    }

    /// A lease is given only on what has not changed since the answer was made, and that nobody waits to change.
    #[inline]
    fn may_lease(&mut self, ask: &Ask, slot: Slot) -> bool {
        if self.cluster.exports.is_active()
            && self.cluster.exports.is_leaving(&mut self.core, &mut self.cluster.atlas, ask.ino)
        {
            // What clients hold of it is on its way to another rank.
            return false;
        }
        if self.core.parked.is_marked(ask.ino) || !self.recalls.pending(ask.ino, slot).is_none() {
            return false;
        }
        if self.cluster.exports.is_spreading(ask.ino) {
            return false;
        }
        if self.core.tree.has_decoupled()
            && self.decoupled.is_decoupled(&mut self.core, &mut self.cluster, ask.ino, ask.bits)
        {
            return false;
        }
        let Some(inode) = self.core.tree.inode(ask.ino).filter(|inode| inode.change == ask.change) else {
            return false;
        };
        // Of a directory whose fragments are several ranks' nobody alone knows the attributes. Each lends the names that are its own, and
        // asks them back before a fragment goes.
        if inode.is_spread() && ask.bits != Lease::NAMES {
            return false;
        }
        // Attributes that another session is about to change (or may change without telling) are not lent.
        !self.background.is_contended(&self.core, ask.ino)
            && (ask.bits == Lease::NAMES || !self.opens.others_write(ask.ino, slot))
    }

    /// Gives a session the rights on an open file that all opens of this moment allow; what it has in the end. Nothing
    /// new, if the file has changed since the answer was made, somebody waits to change it, or what a dead session left of it is to be dropped.
    fn give_rights(&mut self, attr: &Attr, fresh: bool, slot: Slot) -> Lease {
        let ino = attr.ino;
        let recalled = self.recalls.pending(ino, slot);
        // Who writes in the store by himself would leave an object without a file.
        let unborn = self.core.config.direct.is_some() && self.relaxed.is_volatile(ino);
        // Who has changes at hand, or makes them in the store by himself, changes the owner's version of a file that has two.
        let forked = self.decoupled.is_still(ino)
            || self.core.config.direct.is_some()
                && self.core.tree.has_decoupled()
                && self.decoupled.is_forked(&self.core, ino);
        let waits = self.core.parked.is_marked(ino) || self.tidy.is_left(ino) || unborn || forked;
        // Of what is merged there nobody is asked to give anything back.
        let merged = self.core.tree.has_decoupled()
            && self.decoupled.is_decoupled(&mut self.core, &mut self.cluster, ino, Lease::CACHE);
        if fresh && recalled.is_none() && attr.kind == Kind::File && !waits && !merged {
            let mut rights = self.opens.allowed(ino, slot);
            if self.leases.others_hold(ino, slot, Lease::ATTR) {
                rights = rights.without(Lease::BUFFER);
            }
            self.opens.give(ino, slot, rights);
            if rights.has(Lease::CACHE) && self.opens.any_writer(ino) {
                // From now on it looks itself after what lies beyond the end.
                self.tidy.forget(ino);
            }
        }
        self.opens.rights(ino, slot).without(recalled)
    }

    /// Time goes on: whoever waits looks whether it still has to.
    pub(crate) fn end_promises(&mut self) {
        if self.promises.tick(self.core.now.mono_ms) {
            self.core.parked.wake(&WaitReason::LookupLeases);
            self.next_loans();
        }
    }

    /// True if nobody waits for records that are not journaled yet, so that more can be gathered before they are written: relaxed changes
    /// may be behind for a moment.
    pub fn journal_may_wait(&self) -> bool {
        self.relaxed.is_any()
            && !self.waits_for_journal()
            && !self.relaxed.awaits_birth()
            && self.grace.is_none()
            && !self.core.stopping
            && self.discards.nothing_waits()
            && self.cluster.is_only_rank(&self.core)
    }
}
