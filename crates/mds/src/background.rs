//! Background work, done on ticks a little at a time: time-outs, sums, eviction, and the remains of ended sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_namespace::{Need, propagate, propagate_abroad, propagate_need};
use loligo_types::{Event, FsError, Ino, Letter};

use crate::cluster::{Cluster, Where};
use crate::core::Core;
use crate::grace::Grace;
use crate::lease::Leases;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::Opens;
use crate::recall::Recalls;
use crate::session::{Sessions, Slot, Standing};

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
        self.background.end_orphans(&mut self.core, &mut self.opens);
        self.tidy_left();
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
}

impl Background {
    fn free_slots(&mut self, core: &Core, sessions: &mut Sessions, leases: &mut Leases) {
        leases.drain(core.config.some(DRAIN_PER_TICK));
        let freed = std::mem::take(&mut self.freed_slots);
        for slot in freed {
            if leases.is_drained(slot) {
                sessions.free_slot(slot);
            } else {
                self.freed_slots.push(slot);
            }
        }
    }

    fn end_orphans(&mut self, core: &mut Core, opens: &mut Opens) {
        if self.orphans_at_ms.is_some_and(|at| core.now.mono_ms >= at) {
            self.orphans_at_ms = None;
            let unused = core.tree.orphans().filter(|ino| opens.is_closed(*ino));
            let unused: Vec<Ino> = unused.collect();
            opens.reaps.extend(unused);
        }
        opens.reaps.append(&mut self.reap_later);
    }
}

impl Core {
    /// Gives memory back if the cache is over its limit, in small steps.
    pub(crate) fn evict(&mut self, cluster: &Cluster, grace: &Option<Grace>) {
        // In the grace time what was looked up for a reclaim must still be there when the rest of it is read; the same when
        // something is about to move, or a request would read for ever what leaves memory again.
        if self.tree.memory_bytes() <= self.config.cache_bytes_max {
            return;
        }
        let keeps = grace.is_some() || cluster.exports.keeps_all() || self.parked.starves();
        if !keeps {
            let low = self.config.cache_bytes_max - self.config.cache_bytes_max / 32;
            self.tree.evict_some(low, EVICT_STEPS, &|_| false);
        }
    }
}

impl Recalls {
    /// Asks the oldest leases back from a session that holds too many.
    pub(crate) fn shed_leases(&mut self, core: &mut Core, sessions: &mut Sessions, leases: &mut Leases, slot: Slot) {
        let held = leases.count(slot);
        if held <= core.config.leases_max {
            return;
        }
        if sessions.get(slot).is_none_or(|session| session.shedding > 0) {
            return;
        }
        let batch = SHED_BATCH.min(held / 8 + 1);
        for (ino, bits) in leases.unused(slot, batch) {
            self.shed(core, sessions, ino, slot, bits);
        }
    }
}
