//! State of background work, and work that needs no record: eviction, and the remains of ended sessions. Ticks are `stages/upkeep.rs`.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::Ino;

use crate::cluster::Cluster;
use crate::core::Core;
use crate::grace::Grace;
use crate::lease::Leases;
use crate::open::Opens;
use crate::recall::Recalls;
use crate::session::{Sessions, Slot};

/// Leases of ended sessions freed in one tick.
const DRAIN_PER_TICK: usize = 10_000;
/// Inodes whose sums move up in one tick.
pub(crate) const SUMS_PER_TICK: usize = 512;
/// Time that sums wait before they move up, milliseconds.
pub(crate) const SUMS_MS: u64 = 1000;
/// Interval of the check for time-outs, milliseconds.
pub(crate) const TIMEOUTS_MS: u64 = 200;
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
    pub(crate) sums_at_ms: u64,
    pub(crate) timeouts_at_ms: u64,
    /// When the last tick was.
    pub(crate) ticked_ms: u64,
}

impl Background {
    pub(crate) fn free_slots(&mut self, core: &Core, sessions: &mut Sessions, leases: &mut Leases) {
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

    pub(crate) fn end_orphans(&mut self, core: &Core, opens: &mut Opens) {
        if self.orphans_at_ms.is_some_and(|at| core.now.mono_ms >= at) {
            self.orphans_at_ms = None;
            let unused = core.tree.orphans().filter(|ino| opens.is_closed(*ino));
            let unused: Vec<Ino> = unused.collect();
            opens.reaps.extend(unused);
        }
        opens.reaps.append(&mut self.reap_later);
    }

    /// True if leases on the directory had to be asked back lately, because its entries changed.
    pub(crate) fn is_contended(&self, core: &Core, dir: Ino) -> bool {
        let contended = &self.contended;
        !contended.is_empty() && contended.get(&dir).is_some_and(|until| core.now.mono_ms < *until)
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
