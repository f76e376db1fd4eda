//! Work that no request asks for: ticks, checkpoints, the end, and records that came from the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_namespace::{Loaded, Need, propagate, propagate_abroad, propagate_need};
use loligo_types::{Event, FsError, Ino, Letter, Lsn};

use crate::background::{SUMS_MS, SUMS_PER_TICK, TIMEOUTS_MS};
use crate::cluster::{Where, pinned_dirs};
use crate::data::AGAIN_MS;
use crate::io::Output;
use crate::job::WaitReason;
use crate::load::{Waiter, cut_dir};
use crate::machine::Mds;
use crate::session::{Slot, Standing};

impl Mds {
    /// Time goes on.
    pub(crate) fn tick(&mut self) {
        self.background.forgive_pause(
            &self.core,
            &mut self.sessions,
            &mut self.recalls,
            &mut self.opens,
            &mut self.grace,
        );
        let now = self.core.now.mono_ms;
        self.check_grace();
        self.reclaim_again();
        if now >= self.background.timeouts_at_ms {
            self.background.timeouts_at_ms = now + TIMEOUTS_MS;
            self.time_out();
        }
        self.end_promises();
        self.background.free_slots(&self.core, &mut self.sessions, &mut self.leases);
        self.background.end_orphans(&self.core, &mut self.opens);
        self.tidy_left();
        self.drop_strays();
        self.end_discards();
        self.relaxed.look_for_relaxed(&mut self.core, &self.sessions, &mut self.cluster);
        self.end_lost_decoupled();
        self.step_merges();
        self.move_sums();
        if !self.cluster.is_alone() {
            self.cluster_tick();
        }
        let (waiting, in_grace) = (self.gate.len(), self.grace.is_some());
        self.balance.balance(&mut self.core, &mut self.cluster, &self.heat, waiting, in_grace);
        let weighed = self.balance.weighed(&self.cluster.atlas);
        self.heat.beat(&mut self.core, &self.cluster, weighed, waiting);
        self.core.evict(&self.cluster, &self.grace);
        self.checkpointer.stop_if_soon(&mut self.core, &self.cluster, &self.grace);
        self.checkpoint();
        self.core.wake_if_room(&self.sessions, &self.cluster);
    }

    fn time_out(&mut self) {
        let now = self.core.now.mono_ms;
        self.background.contended.retain(|_, until| *until > now);
        let silent_ms = u64::from(self.core.config.session_ms);
        let silent = self
            .sessions
            .iter()
            .filter(|(_, s)| s.standing != Standing::Lost && s.ending.is_none() && s.heard_ms + silent_ms < now);
        let mut dead: Vec<Slot> = silent.map(|(slot, _)| slot).collect();
        dead.extend(self.recalls.disobedient(&self.core, &self.sessions, &self.opens, &self.tidy));
        dead.sort();
        dead.dedup();
        dead.into_iter().for_each(|slot| self.evict_session(slot));
        self.end_long_waits();
    }

    /// A request that waits for a lock keeps its session from forgetting all that came after it. If that becomes too
    /// much, the client has to ask for the lock again.
    fn end_long_waits(&mut self) {
        let stretched = self.sessions.iter().filter(|(_, session)| session.window.is_stretched());
        let slots: Vec<Slot> = stretched.map(|(slot, _)| slot).collect();
        for slot in slots {
            let jobs = self.locks.cancel_all(slot);
            self.end_waits(jobs, FsError::Busy);
        }
    }

    fn move_sums(&mut self) {
        if self.core.tree.unsettled() == 0 {
            self.background.sums_at_ms = self.core.now.mono_ms + SUMS_MS;
            return;
        }
        let early = self.core.now.mono_ms < self.background.sums_at_ms;
        if early
            || self.background.sums_waiting
            || self.core.stopping
            || self.core.is_short_of_space(&self.sessions, &self.cluster)
            || self.grace.is_some()
        {
            return;
        }
        // In replay a merge is there at once, and a sum of an inode as it was halfway would come over it.
        if self.decoupled.is_merging() {
            return;
        }
        let needs = propagate_need(&self.core.tree, self.core.config.some(SUMS_PER_TICK));
        if !self.cluster.is_alone() {
            return self.move_sums_in_cluster(needs);
        }
        if !needs.is_empty() {
            self.background.sums_waiting = true;
            self.cluster.load(&mut self.core, needs, Waiter::Sums);
            return;
        }
        if let Some(events) = propagate(&self.core.tree, self.core.config.some(SUMS_PER_TICK)) {
            self.commit(None, &events);
        }
        if self.core.tree.unsettled() == 0 {
            self.background.sums_at_ms = self.core.now.mono_ms + SUMS_MS;
        }
    }

    /// The same where some directories are other ranks'.
    fn move_sums_in_cluster(&mut self, needs: Vec<Need>) {
        if !self.cluster.peers.ready || self.cluster.exports.is_active() {
            return;
        }
        let (here, abroad) = self.cluster.atlas.sum_needs(&mut self.core, &mut self.cluster.exports, needs);
        if !here.is_empty() {
            self.background.sums_waiting = true;
            self.cluster.load(&mut self.core, here, Waiter::Sums);
            return;
        }
        // What is lent as a whole comes back as the borrower saw it.
        let locked = |ino| self.cluster.loans.is_locked_whole(ino);
        let (mut events, sums) = propagate_abroad(
            &self.core.tree,
            self.core.config.some(SUMS_PER_TICK),
            &|ino| abroad.contains(&ino),
            &locked,
        );
        // All in one record: what has been told and what is to be told of it are there together after a crash, or neither is.
        let mut peers = BTreeMap::new();
        for (dir, sum) in sums {
            let Where::Elsewhere(rank) = self.cluster.locate(&mut self.core, dir, &mut Vec::new()) else { continue };
            let peer = peers.entry(rank).or_insert_with(|| self.core.tree.peer(rank));
            peer.sent += 1;
            let letter = Arc::new(Letter::Sum { dir, entries: sum.entries, bytes: sum.bytes });
            events.push(Event::Letter { to: rank, seq: peer.sent, letter });
        }
        events.extend(peers.into_values().map(Event::Peer));
        if !events.is_empty() {
            self.commit(None, &events);
        }
    }

    /// Goes on with checkpointing, or starts a round if it is time.
    pub(crate) fn checkpoint(&mut self) {
        self.core.settle_data(false);
        if self.checkpointer.is_held_up(&self.core) {
            return;
        }
        if self.checkpointer.begins_round(&self.core, &self.sessions) {
            self.save_sessions();
            self.checkpointer.begin_round(self.core.log.last);
        }
        self.checkpointer.go_on(&mut self.core, &mut self.cluster, &mut self.heat, &self.grace);
    }

    /// Wants everything up to a record in the table soon.
    pub(crate) fn checkpoint_upto(&mut self, lsn: Lsn) {
        self.checkpointer.want(lsn);
        self.checkpoint();
    }

    /// Puts what the journal knows of executed requests into the records of their sessions, so that it can be trimmed.
    fn save_sessions(&mut self) {
        let unsaved = self.sessions.iter().filter(|(_, session)| session.unsaved.is_some());
        let slots: Vec<Slot> = unsaved.map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(session) = self.sessions.get_mut(slot) else { continue };
            session.unsaved = None;
            let record = session.record();
            self.commit(None, &[Event::Session(record)]);
        }
    }

    /// The slice is in the table.
    pub(crate) fn checkpoint_done(&mut self, id: u64) {
        if self.checkpointer.is_written(&mut self.core, id) {
            self.land_checkpoint();
        }
    }

    /// Ends the slice, once no read is under way that may have seen the table before it.
    fn land_checkpoint(&mut self) {
        if !self.checkpointer.land(&mut self.core) {
            return;
        }
        self.checkpointer.trim(&mut self.core, &self.sessions, &self.cluster);
        if !self.cluster.is_alone() {
            self.send_landed();
            self.step_export();
        }
        self.checkpoint();
        self.core.wake_if_room(&self.sessions, &self.cluster);
    }

    /// A file (0: each) has in its objects, durably, all that records up to this one say of its data.
    /// `no_room`: some of it waits for room on the disk.
    pub(crate) fn data_in_place(&mut self, ino: Ino, upto: Lsn, no_room: bool) {
        self.core.data.no_room = no_room;
        if ino == Ino(0) {
            self.core.data.settling = false;
            self.core.data.since_ms = self.core.now.mono_ms;
        }
        if self.core.data.oldest().is_none_or(|oldest| oldest > upto) && ino == Ino(0) {
            // The oldest is still to be written: whoever asks again at once hears the same.
            self.core.data.not_before_ms = self.core.now.mono_ms + AGAIN_MS;
            return;
        }
        if self.core.stopped {
            return;
        }
        self.commit(None, &[Event::DataInPlace { ino, upto }]);
        self.checkpointer.trim(&mut self.core, &self.sessions, &self.cluster);
        if !self.cluster.is_alone() {
            self.step_export();
        }
        self.core.wake_if_room(&self.sessions, &self.cluster);
    }

    /// Wants everything up to a record in the table for good; whether it is.
    pub(crate) fn settle_upto(&mut self, lsn: Lsn) -> bool {
        if self.cluster.atlas.settled > lsn {
            return true;
        }
        if let Some(upto) = self.checkpointer.settle(&mut self.core, &self.sessions, &mut self.cluster, lsn) {
            self.checkpoint_upto(upto);
        }
        false
    }

    /// It is.
    pub(crate) fn table_settled(&mut self, table_upto: Lsn) {
        self.cluster.atlas.settled = self.cluster.atlas.settled.max(table_upto);
        self.send_landed();
        self.step_export();
    }

    /// Another server is to run this rank: writes most into the table while it serves, and stops then.
    pub(crate) fn stop_soon(&mut self) {
        if self.checkpointer.stops_soon(&self.core) {
            self.checkpointer.stop_if_soon(&mut self.core, &self.cluster, &self.grace);
            self.checkpoint();
        }
    }

    /// Says so when everything is out and in the table.
    pub(crate) fn try_stop(&mut self) {
        if self.core.stopped {
            return;
        }
        self.end_discards();
        self.decoupled.drop_intakes(&mut self.core);
        self.checkpoint();
        let clean = self.core.tree.oldest_dirty().is_none() && self.sessions.oldest_unsaved().is_none();
        let clean = clean && !self.checkpointer.checkpoint_is_under_way() && self.core.tree.oldest_merge().is_none();
        // Data for which there is no room stays in the journal, from which the next start writes it.
        let clean = clean && (self.core.data.oldest().is_none() || self.core.data.no_room);
        if clean && self.gate.len() == 0 && self.core.log.durable == self.core.log.last {
            self.checkpointer.trim(&mut self.core, &self.sessions, &self.cluster);
            self.core.stopped = true;
            // Others may not have come to their stop yet, and this rank may live until they have. What a client asks for or
            // writes from now on the next life would not know of.
            let mut conns: Vec<_> = self.sessions.conns.keys().copied().collect();
            conns.sort_unstable();
            conns.into_iter().for_each(|conn| self.sessions.close_conn(&mut self.core, conn));
            self.core.out.push_back(Output::Stopped);
        }
    }

    /// The records came.
    pub(crate) fn loaded(&mut self, ticket: u64, items: Vec<Loaded>) {
        let Some(waiters) = self.core.loads.end_ticket(ticket) else { return };
        let is_load = waiters.iter().any(|waiter| waiter.is_load());
        let spots = if is_load { self.balance.spots_of(&self.core, &self.cluster.atlas, &items) } else { Vec::new() };
        let missed = self.core.missed(&items);
        let is_awaited = waiters.iter().any(|waiter| matches!(waiter, Waiter::Job(_)));
        let listed = if is_awaited { self.core.listed(&items) } else { Vec::new() };
        let pinned = pinned_dirs(&items);
        if self.cluster.is_alone() {
            items.into_iter().for_each(|item| self.core.tree.load(item));
        } else {
            let stale = ticket <= self.cluster.atlas.barrier;
            for item in items {
                let cut = cut_dir(&item);
                self.cluster.atlas.take_item(&mut self.core, &mut self.cluster.exports, &mut self.balance, item, stale);
                // A rank that starts anew learns so of what it has not given away yet.
                cut.into_iter().for_each(|dir| self.cluster.placement.has_grown(&self.core, &self.cluster.atlas, dir));
            }
        }
        pinned.into_iter().for_each(|dir| self.cluster.placement.note_loaded_pin(&self.core, dir));
        self.heat.heat_fetch(&self.core, &self.cluster.atlas, spots);
        self.core.loads.since_evict += 1;
        for waiter in waiters {
            match waiter {
                Waiter::Job(id) => self.core.parked.less(id),
                Waiter::Reap(ino) => drop(self.opens.reaps.insert(ino)),
                Waiter::EofCleanup(ino) => self.tidy_one(ino),
                Waiter::StrayObjects(ino) => self.drop_strays_of(ino),
                Waiter::Sums => self.background.sums_waiting = false,
                Waiter::Reclaim(slot, session) => self.reclaim_loaded(slot, session),
                Waiter::Way(rank, number, ino) => self.cluster.tell_way(&mut self.core, rank, number, ino),
                Waiter::Replicas => self.cluster.replicas_loaded(&mut self.core, &self.grace, &self.decoupled, true),
                Waiter::Loan(tx) => self.loan_loaded(tx),
                Waiter::Letter(rank) => self.letter_loaded(rank),
                Waiter::Survey => self.cluster.exports.survey_loaded(&mut self.core),
                Waiter::Nobody => self.core.parked.wake(&WaitReason::Locked),
                Waiter::Ahead => {}
            }
        }
        missed.into_iter().for_each(|(dir, hash)| self.cluster.atlas.read_ahead(&mut self.core, dir, hash));
        listed.into_iter().for_each(|(dir, hash)| self.cluster.atlas.read_on(&mut self.core, dir, hash));
        self.land_checkpoint();
        self.decoupled.land_merge_rows(&mut self.core);
    }

    /// They could not be read: the requests fail, background work is tried again later.
    pub(crate) fn load_failed(&mut self, ticket: u64) {
        let Some(waiters) = self.core.loads.end_ticket(ticket) else { return };
        for waiter in waiters {
            match waiter {
                Waiter::Job(id) => {
                    if let Some(job) = self.core.parked.take(id) {
                        self.fail(job, FsError::Io);
                    }
                }
                Waiter::Reap(ino) => drop(self.background.reap_later.insert(ino)),
                Waiter::Replicas => self.cluster.replicas_loaded(&mut self.core, &self.grace, &self.decoupled, false),
                // It asks again.
                Waiter::EofCleanup(_) | Waiter::StrayObjects(_) | Waiter::Way(..) => {}
                Waiter::Sums => self.background.sums_waiting = false,
                Waiter::Reclaim(slot, session) => self.reclaim_failed(slot, session),
                Waiter::Loan(tx) => self.cluster.loans.loan_failed(&mut self.core, &mut self.opens, &mut self.tidy, tx),
                Waiter::Letter(rank) => self.letter_loaded(rank),
                Waiter::Survey => self.cluster.exports.survey_loaded(&mut self.core),
                Waiter::Nobody => self.core.parked.wake(&WaitReason::Locked),
                Waiter::Ahead => {}
            }
        }
        self.land_checkpoint();
        self.decoupled.land_merge_rows(&mut self.core);
    }
}
