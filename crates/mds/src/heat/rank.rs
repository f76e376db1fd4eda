//! The heat of a rank: its parts in the machine, its load, and when it tells of it.

use std::collections::BTreeMap;

use loligo_namespace::Tree;
use loligo_types::{Ino, LoadVec, Rank, ThreadLoad, Weighed};

use crate::cluster::Atlas;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::core::Core;
use crate::heat::decay::DecayCounter;
use crate::heat::gossip::Gossip;
use crate::heat::sample::Sampler;
use crate::heat::table::HeatTable;
use crate::heat::vec::DecayVec;
use crate::heat::{Beat, Load};
use crate::peer::PeerMsg;

/// A thread that is less at work than this does not show what it could do, percent.
const CAPACITY_BUSY_PERCENT: f32 = 20.0;
/// Weight of a new measurement of capacity against those before it.
const CAPACITY_SHARE: f64 = 0.1;

/// Measured load of this rank.
pub(crate) struct Heat {
    pub(crate) sampler: Sampler,
    pub(crate) table: HeatTable,
    /// Work done for directories of others.
    pub(crate) besides: DecayVec,
    /// All that was ever counted.
    pub(crate) totals: LoadVec,
    /// The same, decaying: the heat of all ranks together is never more than this of all of them ([`HeatAccount`]).
    pub(crate) counted_here: DecayVec,
    /// As the driver said last.
    thread: ThreadLoad,
    /// See [`Load::capacity_per_s`].
    capacity_per_s: f64,
    /// Requests when the driver said that last, and when that was, milliseconds.
    measured: (u64, u64),
    requests: DecayCounter,
    /// Requests that `requests` knows of.
    counted: u64,
    pub(crate) gossip: Gossip,
}

/// Both sides of the account of heat, at one moment and decayed to it.
///
/// Heat moves between ranks with the fragments that it was counted for. A move may lose heat (a full table forgets its coldest
/// fragments), but never make any: the sum of `held` over all ranks is at most the sum of `counted` over all lives of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeatAccount {
    /// All that this rank counted in this life, whether or not the fragments are still its own.
    pub counted: LoadVec,
    /// The heat of the fragments that it has now, and of what it does besides.
    pub held: LoadVec,
}

impl Heat {
    /// Of a rank that has just started.
    pub(crate) fn new(config: &Config) -> Heat {
        Heat {
            sampler: Sampler::new(config.heat_sample),
            table: HeatTable::new(config.heat_dirs_max, config.heat_half_life_ms),
            besides: DecayVec::default(),
            totals: LoadVec::default(),
            counted_here: DecayVec::default(),
            thread: ThreadLoad::default(),
            capacity_per_s: 0.0,
            measured: (0, 0),
            requests: DecayCounter::default(),
            counted: 0,
            gossip: Gossip::new(config.rank),
        }
    }

    /// The load of this rank at this moment; `waiting`: requests that wait for the journal. Walks over the hot fragments: not for every request.
    pub(crate) fn load_now(&self, core: &Core, waiting: usize) -> Load {
        self.load_with(core, waiting, &self.table.sum(core.now.mono_ms))
    }

    /// Both sides of the account at this time, for a check that heat is conserved. Walks over the hot fragments.
    pub(crate) fn account(&self, core: &Core, now: u64) -> HeatAccount {
        let half_life = core.config.heat_half_life_ms;
        let mut held = self.table.sum(now);
        held.add(&self.besides.get(now, half_life));
        HeatAccount { counted: self.counted_here.get(now, half_life), held }
    }

    /// The last known load of another rank, and its age, milliseconds.
    pub(crate) fn load_of(&self, core: &Core, rank: Rank) -> Option<(Load, u64)> {
        self.gossip.load_of(rank, core.now.mono_ms).map(|(load, _, age_ms)| (load, age_ms))
    }

    /// The load of each hot directory with all that is below it, as far as the way up is in memory. For whoever looks for
    /// something to move; walks over all hot fragments and their ancestors.
    pub(crate) fn subtree_loads(&self, core: &Core) -> BTreeMap<Ino, LoadVec> {
        let mut sums: BTreeMap<Ino, LoadVec> = BTreeMap::new();
        for ((dir, _), load) in self.table.iter(core.now.mono_ms) {
            sums.entry(dir).or_default().add(&load);
        }
        // Each directory's parent, and how many below it are not added up yet: then from the leaves up, each one once.
        let (mut parents, mut waiting) = (BTreeMap::new(), BTreeMap::<Ino, u32>::new());
        for dir in sums.keys() {
            let mut at = *dir;
            while let Some(parent) = parent_of(&core.tree, at)
                && parents.insert(at, parent).is_none()
            {
                *waiting.entry(parent).or_default() += 1;
                at = parent;
            }
        }
        let mut ready: Vec<Ino> = parents.keys().filter(|dir| !waiting.contains_key(dir)).copied().collect();
        while let Some(dir) = ready.pop() {
            let (load, Some(parent)) = (sums.get(&dir).copied().unwrap_or_default(), parents.get(&dir)) else {
                continue;
            };
            sums.entry(*parent).or_default().add(&load);
            let left = waiting.entry(*parent).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                ready.push(*parent);
            }
        }
        sums
    }

    /// On ticks: once a round the own load is put down and told to those whose turn it is.
    pub(crate) fn beat(&mut self, core: &mut Core, cluster: &Cluster, weighed: Weighed, waiting: usize) {
        let wall_ms = u64::try_from(core.now.wall.0 / 1_000_000).unwrap_or(0);
        let round = wall_ms / core.config.beat_ms.max(1);
        if !self.gossip.is_due(round) {
            return;
        }
        let now = core.now.mono_ms;
        let requests = core.counters.requests();
        let fresh = (requests - std::mem::replace(&mut self.counted, requests)) as f64;
        self.requests.hit(fresh, now, core.config.heat_half_life_ms);
        let load = self.load_now(core, waiting);
        self.gossip.beat(round, load, weighed, now, wall_ms);
        if cluster.is_alone() {
            return;
        }
        let ranks = cluster.atlas.ranks();
        self.gossip.keep(&ranks);
        let is_up = |rank: Rank| cluster.peers.links.get(&rank).is_some_and(|link| link.up && link.greeted);
        let targets = self.gossip.targets(&ranks, is_up);
        let beats = self.gossip.message(ranks.len(), now);
        for to in targets {
            core.tell(to, PeerMsg::Beat(beats.clone()));
        }
    }

    /// The load of this rank, for who has added up already what was counted.
    pub(crate) fn load_with(&self, core: &Core, waiting: usize, sum: &LoadVec) -> Load {
        let (now, half_life) = (core.now.mono_ms, core.config.heat_half_life_ms);
        let (auth, besides) = (sum.metaload(), self.besides.get(now, half_life));
        let mut requests = self.requests;
        requests.hit((core.counters.requests() - self.counted) as f64, now, half_life);
        let memory = core.tree.memory_bytes() as f64 / core.config.cache_bytes_max.max(1) as f64;
        Load {
            own: *sum,
            besides,
            auth,
            all: auth + besides.metaload(),
            requests_per_s: requests.per_s(now, half_life),
            queue: u32::try_from(core.parked.len() + waiting).unwrap_or(u32::MAX),
            memory_percent: (memory * 100.0) as f32,
            cpu_percent: self.thread.cpu_percent,
            busy_percent: self.thread.busy_percent,
            capacity_per_s: self.capacity_per_s,
        }
    }

    /// The driver says how busy the thread was since it last said so.
    pub(crate) fn measured(&mut self, core: &Core, thread: ThreadLoad) {
        let (requests, now) = (core.counters.requests(), core.now.mono_ms);
        self.thread = thread;
        let (before, then) = std::mem::replace(&mut self.measured, (requests, now));
        let (done, seconds) = ((requests - before) as f64, now.saturating_sub(then) as f64 / 1000.0);
        if thread.busy_percent < CAPACITY_BUSY_PERCENT || seconds <= 0.0 || then == 0 {
            return;
        }
        let capacity = done / seconds / f64::from(thread.busy_percent / 100.0);
        let known = self.capacity_per_s > 0.0;
        self.capacity_per_s += if known { (capacity - self.capacity_per_s) * CAPACITY_SHARE } else { capacity };
    }

    /// Takes beats of another rank, about itself and others.
    pub(crate) fn beaten(&mut self, core: &Core, atlas: &Atlas, beats: &[Beat]) {
        let ranks = atlas.ranks();
        self.gossip.take(beats, &ranks, core.now.mono_ms);
    }
}

/// The directory above, if it is known; none of the root.
pub(super) fn parent_of(tree: &Tree, dir: Ino) -> Option<Ino> {
    let inode = tree.peek(dir).filter(|inode| inode.ino != Ino::ROOT && inode.parent.0 != 0)?;
    Some(inode.parent)
}

impl Atlas {
    /// All ranks, ascending.
    pub(super) fn ranks(&self) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = self.map.ranks.iter().map(|info| info.rank).collect();
        ranks.sort();
        ranks.dedup();
        ranks
    }
}
