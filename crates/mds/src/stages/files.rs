//! Open files from their last change to what is left of them: closes, file locks, orphans, and bytes of objects that are to be dropped.

use std::collections::BTreeSet;

use loligo_namespace::{Found, Need, reap};
use loligo_types::{
    Answer, Event, FileLock, FsError, FsResult, Granted, Ino, Kind, Layout, LockOwner, Rank, SessionId,
};

use crate::cluster::Where;
use crate::eof_cleanup::LEFT_PER_TICK;
use crate::inline_spill::spilled_events;
use crate::io::Output;
use crate::job::{Job, WaitReason};
use crate::load::Waiter;
use crate::machine::Mds;
use crate::session::Slot;
use crate::step::Step;
use crate::stray_objects::STRAYS_PER_TICK;

impl Mds {
    /// Ends handles. Unknown ones are ignored.
    pub(crate) fn close(&mut self, job: &Job, handles: Vec<u64>, lost: bool) -> Step {
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
                self.decoupled.thaw_when_durable(&mut self.core, &self.sessions, &self.opens, Ino(0), at, thaws);
            }
        }
    }

    /// Gives back a range of a file lock.
    pub(crate) fn unlock(&mut self, job: &Job, ino: Ino, lock: &FileLock) -> Step {
        self.locks.unlock(ino, job.slot, lock);
        self.grant_locks(vec![ino]);
        Step::Answer(Ok(Answer::Done))
    }

    /// Gives up the waits of an owner for file locks.
    pub(crate) fn cancel_lock(&mut self, job: &Job, ino: Ino, owner: LockOwner) -> Step {
        let jobs = self.locks.cancel(ino, job.slot, owner);
        self.end_waits(jobs, FsError::Interrupted);
        Step::Answer(Ok(Answer::Done))
    }

    /// Takes or changes a file lock, or waits for it. The handle has been checked.
    pub(crate) fn set_lock(&mut self, job: &mut Job, ino: Ino, handle: u64, lock: FileLock, wait: bool) -> Step {
        match self.try_lock(ino, job.slot, handle, lock, wait) {
            Ok(true) => Step::Answer(Ok(Answer::Done)),
            Ok(false) => {
                let id = self.core.parked.number(job);
                self.locks.wait(ino, job.slot, handle, lock, id);
                Step::Wait(WaitReason::Lock)
            }
            Err(error) => Step::Answer(Err(error)),
        }
    }

    /// Tries to take a file lock: `true` if it was got, `false` if it is to be waited for.
    fn try_lock(&mut self, ino: Ino, slot: Slot, handle: u64, lock: FileLock, wait: bool) -> FsResult<bool> {
        if lock.start > lock.end {
            return Err(FsError::Invalid);
        }
        if self.locks.is_full(ino) {
            return Err(FsError::NoSpace);
        }
        if self.locks.conflict(ino, slot, &lock).is_none() {
            self.locks.set(ino, slot, handle, lock);
            // It may have become weaker: others may go on.
            self.grant_locks(vec![ino]);
            return Ok(true);
        }
        if !wait {
            return Err(FsError::WouldBlock);
        }
        if self.locks.would_deadlock(ino, slot, &lock) {
            return Err(FsError::Deadlock);
        }
        Ok(false)
    }

    /// Locks on these files became free: those who wait get them.
    pub(crate) fn grant_locks(&mut self, inos: Vec<Ino>) {
        for ino in inos {
            for id in self.locks.grantable(ino) {
                if let Some(job) = self.core.parked.take(id) {
                    self.done(job, Answer::Done);
                }
            }
        }
    }

    /// Ends waits for locks with an error.
    pub(crate) fn end_waits(&mut self, jobs: Vec<u64>, error: FsError) {
        for id in jobs {
            if let Some(job) = self.core.parked.take(id) {
                self.fail(job, error);
            }
        }
    }

    /// Lets those go on that waited for room to be written or given up.
    pub(crate) fn rooms_ended(&mut self) {
        while self.opens.has_ended_rooms() {
            for (ino, given_up) in self.opens.take_ended_rooms() {
                if given_up {
                    self.tidy.forget(ino);
                }
                if !self.opens.has_rooms(ino) {
                    self.tidy.open_end(ino);
                    self.tidy_one(ino);
                }
                self.core.parked.wake(&WaitReason::Data(ino));
            }
        }
    }

    /// Drops what lies beyond the end of a file of objects that several write, or did: what they have written there and not told of is
    /// refused as stale.
    pub(crate) fn cut_beyond(&mut self, ino: Ino) -> bool {
        let file = self.core.tree.inode(ino).filter(|inode| inode.kind == Kind::File && !inode.inline);
        let Some(mut inode) = file.cloned() else { return false };
        inode.cuts = inode.cuts.wrapping_add(1);
        let discard = Event::Discard { ino, from: inode.size, object_size: inode.layout().object_size };
        self.commit(None, &[Event::Inode(Box::new(inode)), discard]);
        self.tidy.know(ino);
        true
    }

    /// Drops what dead sessions left of files, a few at a time.
    pub(crate) fn tidy_left(&mut self) {
        let some: Vec<Ino> = self.tidy.inos().take(self.core.config.some(LEFT_PER_TICK)).collect();
        some.into_iter().for_each(|ino| self.tidy_one(ino));
    }

    /// Drops what dead sessions left of a file, unless that is done already. Goes on as soon as something was read for it:
    /// what was may not stay in memory for long.
    pub(crate) fn tidy_one(&mut self, ino: Ino) {
        let held_up = self.grace.is_some()
            || self.core.stopping
            || !self.cluster.peers.ready
            || self.core.is_short_of_space(&self.sessions, &self.cluster);
        if held_up || !self.tidy.is_left(ino) {
            return;
        }
        if self.discards.data_is_busy(&self.decoupled, ino) || self.opens.has_rooms(ino) {
            return;
        }
        let mut wants = Vec::new();
        let place = self.cluster.locate_here(&mut self.core, ino, &mut wants);
        if place == Where::Unknown {
            self.cluster.load(&mut self.core, wants, Waiter::EofCleanup(ino));
            return;
        }
        self.tidy.is_looked_at(ino);
        if place == Where::Here {
            match (self.opens.any_writer(ino), self.opens.is_alone_with(ino)) {
                // It drops that itself, and may be writing there now, also in the store by itself.
                (true, true) => {}
                (true, false) => _ = self.cut_beyond(ino),
                (false, _) => self.drop_left(ino),
            }
        }
    }

    fn drop_left(&mut self, ino: Ino) {
        let (from, object_size) = match self.core.tree.find(ino) {
            Found::Here(inode) if inode.kind == Kind::File => {
                (if inode.inline { 0 } else { inode.size }, inode.layout().object_size)
            }
            // It may have been inline, and dropped nothing. Which size its objects had is all the same here.
            Found::Gone => (0, Layout::default().object_size),
            Found::Here(_) | Found::Unknown => return,
        };
        self.commit(None, &[Event::Discard { ino, from, object_size }]);
    }

    /// Drops objects that no inode tells of, of some of the files in which they may be.
    pub(crate) fn drop_strays(&mut self) {
        let some = self.strays.some(self.core.config.some(STRAYS_PER_TICK));
        some.into_iter().for_each(|ino| self.drop_strays_of(ino));
        if let Some(all) = self.strays.end_list(self.core.log.durable) {
            self.core.out.push_back(Output::StraysDropped { all });
        }
    }

    /// The same of one file, as soon as its inode was read.
    pub(crate) fn drop_strays_of(&mut self, ino: Ino) {
        let held_up = self.grace.is_some()
            || self.core.stopping
            || !self.cluster.peers.ready
            || self.core.is_short_of_space(&self.sessions, &self.cluster);
        if held_up || !self.strays.has(ino) || self.discards.data_is_busy(&self.decoupled, ino) {
            return;
        }
        // The owner of a decoupled subtree has objects of which the rank hears with the merge, also of files that are inline here, and may
        // be away. Of several ranks another one may have the subtree or the inode. In doubt nothing is dropped.
        if !self.cluster.is_alone() {
            return self.strays.is_looked_at(ino, None);
        }
        if self.core.tree.has_decoupled() {
            return self.strays.leave_open(ino);
        }
        let mut wants = Vec::new();
        if self.cluster.locate_here(&mut self.core, ino, &mut wants) == Where::Unknown {
            self.cluster.load(&mut self.core, wants, Waiter::StrayObjects(ino));
            return;
        }
        let object_size = match self.core.tree.find(ino) {
            Found::Here(inode) if inode.kind == Kind::File && inode.inline && !self.opens.any_writer(ino) => {
                Some(inode.layout().object_size)
            }
            // A session may be going to use its number, and have written the data first.
            Found::Gone if self.sessions.iter().all(|(_, session)| session.grants.state(ino) == Granted::No) => {
                Some(Layout::default().object_size)
            }
            _ => None,
        };
        let drop = |object_size| self.commit(None, &[Event::Discard { ino, from: 0, object_size }]);
        let dropped = object_size.map(drop);
        self.strays.is_looked_at(ino, dropped);
    }

    /// The inline data are in the first object, or are not. The writers start again: they meet a file with objects,
    /// or the error.
    pub(crate) fn spilled(&mut self, ino: Ino, ok: bool) {
        let Some(object_size) = self.discards.spills.remove(&ino) else { return };
        if !ok {
            for job in self.core.parked.take_waiting(&WaitReason::Data(ino)) {
                self.fail(job, FsError::NoSpace);
            }
            return;
        }
        let mut events = spilled_events(&self.core.tree, ino);
        if matches!(self.core.tree.find(ino), Found::Gone) {
            // Removed meanwhile: what was written has no owner.
            events.push(Event::Discard { ino, from: 0, object_size });
        }
        if !events.is_empty() {
            self.commit(None, &events);
        }
        self.core.parked.wake(&WaitReason::Data(ino));
        self.opens.closed(&self.core, &mut self.tidy, ino);
    }

    /// The oldest drop of the inode is done.
    pub(crate) fn discarded(&mut self, ino: Ino) {
        if !self.discards.one_is_done(ino) {
            return;
        }
        if matches!(self.core.tree.find(ino), Found::Gone) {
            // Its number is never used again, so that a repeated drop does no harm.
            if self.discards.note_done(ino) {
                self.end_discards();
            }
        } else {
            self.commit(None, &[Event::DiscardGone(ino)]);
        }
        for reply in self.discards.take_replies(ino) {
            if self.core.config.direct.is_some() {
                // Its client may write in the store by itself then, and nothing orders that with a drop that a crash repeats.
                self.gate(reply);
            } else {
                self.release(reply);
            }
        }
        self.core.parked.wake(&WaitReason::Data(ino));
    }

    /// Tells the journal of the drops that are done.
    pub(crate) fn end_discards(&mut self) {
        let events = self.discards.take_done();
        if !events.is_empty() {
            self.commit(None, &events);
        }
    }

    /// One is done. Who waits is answered.
    pub(crate) fn data_synced(&mut self, ticket: u64, ok: bool) {
        if !self.syncs.end(ticket) {
            return;
        }
        for job in self.core.parked.take_waiting(&WaitReason::Sync(ticket)) {
            if ok { self.done(job, Answer::Done) } else { self.fail(job, FsError::Io) }
        }
        self.syncs.go_on(&mut self.core);
        if self.cluster.exports.is_active() {
            self.synced_before_move(ticket, ok);
        }
    }
}
