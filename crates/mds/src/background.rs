//! Background work, done on ticks a little at a time: time-outs, sums, eviction, and the remains of ended sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_namespace::{Need, propagate, propagate_abroad, propagate_need};
use loligo_types::{Event, FsError, Ino, Letter};

use crate::cluster::Where;

use crate::load::Waiter;
use crate::machine::Mds;
use crate::session::{Slot, Standing};

/// Leases of ended sessions freed in one tick.
const DRAIN_PER_TICK: usize = 10_000;
/// Inodes whose sums move up in one tick.
const SUMS_PER_TICK: usize = 512;
/// Time that sums wait before they move up, milliseconds.
const SUMS_MS: u64 = 1000;
/// Interval of the check for time-outs, milliseconds.
const TIMEOUTS_MS: u64 = 200;
/// Leases asked back at once from a session that holds too many.
const SHED_BATCH: usize = 64;
/// Steps of 64 inodes and 64 entries that the eviction's hands go at once.
const EVICT_STEPS: usize = 200;

/// State of the background work.
#[derive(Default)]
pub(crate) struct Background {
    /// Directories that had to be asked back because entries changed, and until when they are not lent again.
    pub(crate) contended: BTreeMap<Ino, u64>,
    /// When orphans that nobody has open may go after a restart.
    pub(crate) orphans_at_ms: Option<u64>,
    /// Orphans whose record could not be read.
    pub(crate) reap_later: BTreeSet<Ino>,
    /// Places of ended sessions whose leases are not all freed.
    pub(crate) freed_slots: Vec<Slot>,
    /// Records that the sums need are being read.
    pub(crate) sums_waiting: bool,
    sums_at_ms: u64,
    timeouts_at_ms: u64,
    /// When the last tick was.
    pub(crate) ticked_ms: u64,
}

impl Mds {
    /// Time goes on.
    pub(crate) fn tick(&mut self) {
        self.forgive_pause();
        let now = self.core.now.mono_ms;
        self.check_grace();
        self.reclaim_again();
        if now >= self.background.timeouts_at_ms {
            self.background.timeouts_at_ms = now + TIMEOUTS_MS;
            self.time_out();
        }
        self.end_promises();
        self.free_slots();
        self.end_orphans();
        self.tidy_left();
        self.end_discards();
        self.look_for_relaxed();
        self.end_lost_decoupled();
        self.step_merges();
        self.move_sums();
        if !self.cluster.is_alone() {
            self.cluster_tick();
        }
        self.balance();
        self.beat();
        self.evict();
        self.stop_if_soon();
        self.checkpoint();
        self.wake_if_room();
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
        dead.extend(self.disobedient());
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

    fn free_slots(&mut self) {
        self.leases.drain(self.core.config.some(DRAIN_PER_TICK));
        let freed = std::mem::take(&mut self.background.freed_slots);
        for slot in freed {
            if self.leases.is_drained(slot) {
                self.sessions.free_slot(slot);
            } else {
                self.background.freed_slots.push(slot);
            }
        }
    }

    fn end_orphans(&mut self) {
        if self.background.orphans_at_ms.is_some_and(|at| self.core.now.mono_ms >= at) {
            self.background.orphans_at_ms = None;
            let unused = self.core.tree.orphans().filter(|ino| self.opens.is_closed(*ino));
            let unused: Vec<Ino> = unused.collect();
            self.opens.reaps.extend(unused);
        }
        self.opens.reaps.append(&mut self.background.reap_later);
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
            || self.is_short_of_space()
            || self.grace.is_some()
        {
            return;
        }
        // In replay a merge is there at once, and a sum of an inode as it was halfway would come over it.
        if self.is_merging() {
            return;
        }
        let needs = propagate_need(&self.core.tree, self.core.config.some(SUMS_PER_TICK));
        if !self.cluster.is_alone() {
            return self.move_sums_in_cluster(needs);
        }
        if !needs.is_empty() {
            self.background.sums_waiting = true;
            self.load(needs, Waiter::Sums);
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
        let (here, abroad) = self.sum_needs(needs);
        if !here.is_empty() {
            self.background.sums_waiting = true;
            self.load(here, Waiter::Sums);
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
            let Where::Elsewhere(rank) = self.locate(dir, &mut Vec::new()) else {
                continue;
            };
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

    /// Gives memory back if the cache is over its limit, in small steps.
    pub(crate) fn evict(&mut self) {
        // In the grace time what was looked up for a reclaim must still be there when the rest of it is read; the same when
        // something is about to move, or a request would read for ever what leaves memory again.
        if self.core.tree.memory_bytes() <= self.core.config.cache_bytes_max {
            return;
        }
        let keeps = self.grace.is_some() || self.cluster.exports.keeps_all() || self.core.parked.starves();
        if !keeps {
            let low = self.core.config.cache_bytes_max - self.core.config.cache_bytes_max / 32;
            self.core.tree.evict_some(low, EVICT_STEPS, &|_| false);
        }
    }

    /// Asks the oldest leases back from a session that holds too many.
    pub(crate) fn shed_leases(&mut self, slot: Slot) {
        let held = self.leases.count(slot);
        if held <= self.core.config.leases_max {
            return;
        }
        if self.sessions.get(slot).is_none_or(|session| session.shedding > 0) {
            return;
        }
        let batch = SHED_BATCH.min(held / 8 + 1);
        for (ino, bits) in self.leases.unused(slot, batch) {
            self.shed(ino, slot, bits);
        }
    }
}
