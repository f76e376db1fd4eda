//! Lookup leases: which of them an answer to a walk brings, and that what would make one untrue waits until it has ended. So clients may go by where a
//! directory is, and that they may search it, without asking, and no rank knows who does (`IndexFS`; digest §2.3). Nothing is asked back, and nothing is
//! blocked but new leases on what is about to change. What was promised is in `lookup_leases.rs`; what a walk is, in `walk.rs`.
//!
//! A directory's own record says where it is and who may search it, so its own rank alone decides when that changes. Another rank that finds it by a
//! replica may promise it, too, for no longer than the replica counts, and says how long that is when it gives the replica back.

use loligo_types::{Event, Ino, Kind};

use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::lookup_leases::LookupLeases;
use crate::shortcuts::is_same_way;

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
    pub(crate) fn are_promised(&mut self, core: &Core, inos: &[Ino], first: bool) -> bool {
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
