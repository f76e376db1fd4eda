//! Status of the rank, gathered from its parts. Its form is in `status.rs`.

use crate::machine::Mds;
use crate::status::{GraceStatus, PathStatus, Status};

impl Mds {
    /// Directories split and merged so far.
    pub fn recuts(&self) -> u64 {
        self.core.counters.splits + self.core.counters.merges
    }

    /// A picture of the moment. Walks over sessions and locks: not for every request.
    pub fn status(&self) -> Status {
        let ops = self.core.counters.all_ops();
        let grace = self.grace.as_ref().map(|grace| GraceStatus {
            left_ms: self.sessions.grace_until(grace).saturating_sub(self.core.now.mono_ms),
            missing: self.sessions.missing().count(),
        });
        Status {
            rank: self.core.config.rank,
            member: self.cluster.atlas.member_state(&self.core),
            drain_stuck: self.cluster.drain_stuck(&self.core),
            sessions: self.sessions.session_status(&self.core, &self.leases, &self.opens, &self.locks),
            ops,
            cache_bytes: self.core.tree.memory_bytes(),
            hash_bytes: self.core.tree.hash_bytes(),
            cache_inodes: self.core.tree.inodes_cached(),
            dirty: self.core.tree.dirty_records(),
            leases: self.leases.total(),
            lease_bytes: self.leases.memory_bytes(),
            locks: self.locks.held(),
            last_lsn: self.core.log.last,
            durable_lsn: self.core.log.durable,
            gated: self.gate.len(),
            relaxed: self.relaxed.status(self.core.now.mono_ms),
            journal_bytes: self.core.log.used,
            journal_limit: self.core.log.limit,
            full: self.core.log.full || self.core.log.no_room || self.core.log.stuck,
            failed: self.core.log.failed,
            grace,
            recalls_pending: self.recalls.len(),
            recalls: self.core.counters.recalls,
            evicted: self.core.counters.evicted,
            checkpoints_failed: self.core.counters.checkpoints_failed,
            decoupled: self.decoupled.statuses(&self.core.tree, self.core.now.mono_ms, &|dir| self.path_of(dir)),
            decoupled_count: self.decoupled.count(&self.core.tree, self.core.now.mono_ms),
            subtree_merges: self.core.counters.subtree_merges,
            subtree_conflicts: self.core.counters.subtree_conflicts,
            decouplings_lost: self.core.counters.decouplings_lost,
            redirects: self.core.counters.redirects,
            splits: self.core.counters.splits,
            merges: self.core.counters.merges,
            scattered: self.core.counters.scattered,
            data_taken: self.core.data.taken(),
            data_held: self.core.data.held(),
            spreads: self.core.counters.spreads,
            paths: self.path_status(),
            tally: self.core.counters.tally.status(),
            loads: self.core.loads.len(),
            discards: self.discards.len() + self.tidy.left(),
            orphans: self.core.tree.orphans().count(),
            waiting: self.core.waiting_status(),
            waiting_count: self.core.parked.len(),
            load: self.load_now(),
            others: self.heat.known_loads(&self.core, &self.cluster.atlas),
            balance: self.balance.balance_status(&self.cluster.atlas),
            hottest: self.heat.hottest(&self.core),
            heat_frags: self.heat.table.size(),
            heat_totals: self.heat.totals,
        }
    }

    fn path_status(&self) -> PathStatus {
        let (held, lent) = (&self.cluster.replicas.held, &self.cluster.replicas.lent);
        PathStatus {
            held: held.len(),
            lent: lent.len(),
            steps: held.steps,
            partings: held.partings,
            asks: held.asks,
            asked_back: lent.asked_back,
            shortcuts: self.shortcuts.len(),
            shortcuts_taken: self.shortcuts.taken,
            promised: self.promises.len(),
            promises: self.promises.given,
            promise_waits: self.promises.waits,
        }
    }
}
