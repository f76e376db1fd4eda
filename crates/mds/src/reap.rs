//! Closing handles, and the end of inodes that have no name and no handle any more.

use std::collections::BTreeSet;

use loligo_namespace::{Found, Need, reap};
use loligo_types::{Answer, FsError, Ino, Kind, Op, Rank, SessionId};

use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::execute::Step;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::Opens;
use crate::park::{Job, WaitReason};
use crate::session::Slot;

impl Mds {
    /// Ends handles. Unknown ones are ignored.
    pub(crate) fn close(&mut self, job: &mut Job) -> Step {
        let Op::Close { handles, lost } = &job.op else { return Step::Answer(Ok(Answer::Done)) };
        let (handles, lost) = (handles.clone(), *lost);
        // The client had not heard that these have moved: whoever has them now is to close them. If those are several, it asks again.
        let went = |number: &u64| self.cluster.exports.moved_handles.get(&(job.slot, *number)).copied();
        let ranks: BTreeSet<Rank> = handles.iter().filter_map(went).collect();
        if ranks.iter().any(|rank| self.cluster.peers.gives_to(*rank)) {
            // That one cannot be asked yet. Nothing may be forgotten before: all this is done again then.
            return Step::Wait(WaitReason::Moving);
        }
        let to = ranks.first().copied();
        for number in handles {
            let left =
                self.opens.handle(job.slot, number).filter(|handle| lost && handle.write).map(|handle| handle.ino);
            if let Some(ino) = left {
                // As when a session dies.
                self.tidy.forget(ino);
                self.tidy.leave(ino);
            }
            if to.is_some() && self.cluster.exports.moved_handles.get(&(job.slot, number)).copied() == to {
                self.cluster.exports.moved_handles.remove(&(job.slot, number));
            }
            self.close_handle(job.slot, job.session, number);
            left.into_iter().for_each(|ino| self.tidy_one(ino));
        }
        to.map_or(Step::Answer(Ok(Answer::Done)), Step::Redirect)
    }

    /// Ends a handle with what was taken through it.
    pub(crate) fn close_handle(&mut self, slot: Slot, session: SessionId, number: u64) {
        let Some((handle, change)) = self.opens.close(slot, number) else { return };
        let is_dir = self.core.tree.inode(handle.ino).is_some_and(|inode| inode.kind == Kind::Dir);
        if !is_dir {
            self.relaxed.tell_access(&mut self.core, &self.decoupled, session, change);
        }
        if self.locks.is_locked(handle.ino) {
            let waited = self.locks.drop_handle(handle.ino, slot, number);
            self.end_waits(waited, FsError::BadHandle);
            self.grant_locks(vec![handle.ino]);
        }
        self.decoupled.end_hidden(&self.opens, handle.ino, slot);
        self.opens.closed(&self.core, &mut self.tidy, handle.ino);
    }

    /// Ends up to `max` orphans that nobody has open. Not in the grace time: some may be reclaimed.
    pub(crate) fn reap_some(&mut self, max: usize) {
        if self.grace.is_some() || self.opens.reaps.is_empty() {
            return;
        }
        for _ in 0..max {
            let Some(ino) = self.opens.reaps.pop_first() else { return };
            if !self.opens.is_closed(ino) || !self.core.tree.is_orphan(ino) {
                continue;
            }
            if self.decoupled.is_held(ino) {
                // The merge, or the end of the decoupling, asks again.
                continue;
            }
            if self.discards.spills.contains_key(&ino) {
                // The end of the spill asks again.
                continue;
            }
            if self.cluster.loans.locked(ino).is_some() {
                // The end of the loan asks again: what is decided elsewhere would bring it back.
                continue;
            }
            if matches!(self.core.tree.find(ino), Found::Unknown) {
                self.cluster.load(&mut self.core, vec![Need::Inode(ino)], Waiter::Reap(ino));
                continue;
            }
            let mut events = reap(&self.core.tree, ino);
            if !events.is_empty() {
                let of_copy = self.decoupled.fork_gone(&self.core, ino);
                let thaws = if of_copy.is_empty() { Vec::new() } else { vec![(ino, true)] };
                events.extend(of_copy);
                let at = self.commit(None, &events);
                self.decoupled.thaw_when_durable(&mut self.core, &mut self.sessions, &self.opens, Ino(0), at, thaws);
            }
        }
    }
}

impl Opens {
    /// A handle on the inode has ended: it may be the last of an orphan.
    pub(crate) fn closed(&mut self, core: &Core, tidy: &mut EofCleanup, ino: Ino) {
        if self.is_closed(ino) {
            tidy.forget(ino);
            if core.tree.is_orphan(ino) {
                self.reaps.insert(ino);
            }
        }
    }
}
