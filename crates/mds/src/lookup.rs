//! Lookup leases: which of them an answer to a walk brings, and that what would make one untrue waits until it has ended. So clients may go by where a
//! directory is, and that they may search it, without asking, and no rank knows who does (`IndexFS`; digest §2.3). Nothing is asked back, and nothing is
//! blocked but new leases on what is about to change. What was promised is in `lookup_leases.rs`; what a walk is, in `walk.rs`.
//!
//! A directory's own record says where it is and who may search it, so its own rank alone decides when that changes. Another rank that finds it by a
//! replica may promise it, too, for no longer than the replica counts, and says how long that is when it gives the replica back.

use loligo_namespace::check_search;
use loligo_types::{Cred, Event, Ino, Kind};

use crate::cluster::is_same_way;
use crate::core::Core;
use crate::lookup_leases::LookupLeases;
use crate::machine::Mds;
use crate::park::{Job, WaitReason};

impl Mds {
    /// Lookup leases given with the answer to a walk: on the directory in which it began, and on each that its names led to. None for an
    /// identity that is limited to paths: its rights are looked at each time.
    pub(crate) fn promise_ways(&mut self, job: &Job) -> Vec<(Ino, u16)> {
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
    fn promise(&mut self, ino: Ino, place: Option<(Ino, u64)>, cred: &Cred, depth: u32) -> u16 {
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

    /// Time goes on: whoever waits looks whether it still has to.
    pub(crate) fn end_promises(&mut self) {
        if self.promises.tick(self.core.now.mono_ms) {
            self.core.parked.wake(&WaitReason::LookupLeases);
            self.next_loans();
        }
    }
}

impl LookupLeases {
    /// Nothing, if a decided change may be applied as far as promises go; else this is what to wait for.
    pub(crate) fn settle_promises(&mut self, core: &mut Core, job: &mut Job, events: &[Event]) -> Option<WaitReason> {
        let due = self.changed_ways(core, events, true);
        if due.is_empty() {
            return None;
        }
        // However often it wakes too early.
        let first = !due.iter().all(|ino| job.marks.contains(ino));
        if first {
            due.iter().for_each(|ino| self.changes(*ino));
        }
        self.wait(first);
        core.parked.mark(job, due);
        Some(WaitReason::LookupLeases)
    }

    /// True if one of these has a lookup lease; then it is waited for. `first`: it was not before.
    pub(crate) fn are_promised(&mut self, core: &mut Core, inos: &[Ino], first: bool) -> bool {
        let now = core.now.mono_ms;
        if self.is_empty(now) {
            return false;
        }
        let may_be = |ino: &Ino| core.tree.inode(*ino).is_some_and(|inode| !inode.lookup_lease().is_none());
        let promised = inos.iter().any(|ino| self.holds(*ino, now) || self.may_hold(now) && may_be(ino));
        if promised {
            self.wait(first);
        }
        promised
    }

    /// The directories that events change in a way that is promised not to be. `unknown`: also those of which that is not known.
    fn changed_ways(&self, core: &Core, events: &[Event], unknown: bool) -> Vec<Ino> {
        let now = core.now.mono_ms;
        if self.is_empty(now) {
            return Vec::new();
        }
        let unknown = unknown && self.may_hold(now);
        let changed = |event: &Event| {
            let (ino, after) = match event {
                Event::Inode(inode) => (inode.ino, Some(inode)),
                Event::InodeGone(ino) => (*ino, None),
                _ => return None,
            };
            let held = self.holds(ino, now);
            if !held && !unknown {
                return None;
            }
            let before = core.tree.inode(ino).filter(|before| before.kind == Kind::Dir && before.nlink > 0)?;
            if before.part_of().is_some() || !held && before.lookup_lease().is_none() {
                return None;
            }
            after.is_none_or(|after| after.part_of().is_none() && !is_same_way(before, after)).then_some(ino)
        };
        events.iter().filter_map(changed).collect()
    }

    /// Asserts that committed events break no lookup lease: a mistake of this code, which simulations look for.
    #[inline]
    pub(crate) fn check_promises(&self, core: &Core, events: &[Event]) {
        if cfg!(debug_assertions) {
            let broken = self.changed_ways(core, events, false);
            assert!(broken.is_empty(), "rank {} changes what it has promised of directories: {broken:?}", core.me());
        }
    }
}
