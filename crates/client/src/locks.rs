//! Locks pass through to the server; here is only remembered which are held, to claim them again after the server
//! restarted, and to give those of an owner, or of an open file description, back when it closes.
//!
//! Locks are given back behind the caller's back, too: when a file is closed, or when nobody waits any more for what was
//! got. So an owner may ask for a lock before the last one is known to be given back; and requests that are sent on to
//! another rank need not come there in the order in which they were made. What is asked for waits until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::{Cred, FileLock, FsError, Ino, LockKind, LockOwner, Op, Rank};

use crate::Fh;
use crate::dispatch::Pass;
use crate::file::Files;
use crate::file::Opened;
use crate::machine::{Client, Waiter};
use crate::own::Own;
use crate::ranks::Ranks;
use crate::recover::waiter_of;
use crate::session::{Pending, Then};

/// Key of locks: file, family, owner.
type Key = (Ino, LockKind, LockOwner);

/// Locks held: by inode, family and owner, with the handle each was taken through.
pub(crate) type Locks = BTreeMap<Key, Vec<(u64, FileLock)>>;

/// A request for a lock whose owner is giving locks back.
#[derive(Debug)]
pub(crate) struct Behind {
    key: Key,
    /// Which was to be asked.
    rank: Rank,
    cred: Cred,
    op: Op,
    then: Then,
    hops: u32,
}

impl Ranks {
    /// Requests that were sent, or are to be sent on.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Pending> {
        let paused = self.paused.iter().map(|paused| &paused.pending);
        self.sessions.values().flat_map(|session| session.pending.values()).chain(paused)
    }

    /// The locks that a request asks for and must wait for, because others of that owner are being given back: done first, it would get
    /// locks that are then given back with them.
    pub(crate) fn given_back_first(&self, op: &Op) -> Option<Key> {
        let key = taken(op)?;
        self.unanswered().any(|pending| given_back(&pending.request.op) == Some(key)).then_some(key)
    }

    /// It waits for that.
    pub(crate) fn wait_behind(&mut self, key: Key, rank: Rank, cred: Cred, op: Op, then: Then, hops: u32) {
        self.behind.push(Behind { key, rank, cred, op, then, hops });
    }

    /// Waiters for locks that this rank is to give, or before that to take back.
    pub(crate) fn waiters_behind(&self, rank: Rank) -> impl Iterator<Item = Waiter> {
        let gives = move |key: Key| {
            let session = self.session(rank);
            session.is_some_and(|session| session.pending.values().any(|p| given_back(&p.request.op) == Some(key)))
        };
        let at = self.behind.iter().filter(move |behind| behind.rank == rank || gives(behind.key));
        at.filter_map(|behind| waiter_of(&behind.then))
    }

    /// Drops the requests for these locks; true if there were any.
    pub(crate) fn end_taking(&mut self, own: &mut Own, key: Key) -> bool {
        let sent = self.sessions.values_mut().flat_map(|session| session.pending.values_mut());
        let all = sent.chain(self.paused.iter_mut().map(|paused| &mut paused.pending));
        let all = all.map(|pending| (&pending.request.op, &mut pending.then));
        let all = all.chain(self.behind.iter_mut().map(|behind| (&behind.op, &mut behind.then)));
        let mut any = false;
        for (op, then) in all.chain(own.asked_mut()) {
            if taken(op) == Some(key)
                && let Then::Pass(pass) = then
            {
                (pass.over, any) = (true, true);
            }
        }
        any
    }
}

impl Files {
    /// True if a request gives back locks of a handle that was not lost.
    pub(crate) fn gives_back(&self, op: &Op) -> bool {
        matches!(op, Op::Unlock { handle, .. } if self.at.contains_key(handle))
    }

    /// Notes that a lock was taken, or given back.
    pub(crate) fn lock_changed(&mut self, handle: u64, lock: &FileLock, take: bool) {
        let Some(ino) = self.handles.get(&handle).map(|handle| handle.ino) else { return };
        let key = (ino, lock.kind, lock.owner);
        let held = self.locks.entry(key).or_default();
        let mut left = Vec::new();
        for (through, old) in held.drain(..) {
            subtract(&old, lock, |part| left.push((through, part)));
        }
        if take {
            left.push((handle, *lock));
        }
        if left.is_empty() {
            self.locks.remove(&key);
        } else {
            self.locks.insert(key, left);
        }
    }

    pub(crate) fn holds_locks(&self, ino: Ino, kind: LockKind, owner: LockOwner) -> bool {
        self.locks.contains_key(&(ino, kind, owner))
    }
}

impl Client {
    pub(crate) fn set_lock(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, lock: FileLock, wait: bool) {
        match self.files.fh_handle(fh) {
            Ok((ino, handle)) => {
                let op = Op::SetLock { ino, handle, lock, wait };
                self.lock_request(waiter, cred, op, (handle, lock, true));
            }
            Err(error) => self.calls.fail(&mut self.core, waiter, error),
        }
    }

    pub(crate) fn unlock(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, lock: FileLock) {
        match self.files.fh_handle(fh) {
            Ok((ino, handle)) => {
                let op = Op::Unlock { ino, handle, lock };
                self.lock_request(waiter, cred, op, (handle, lock, false));
            }
            Err(error) => self.calls.fail(&mut self.core, waiter, error),
        }
    }

    fn lock_request(&mut self, waiter: Waiter, cred: &Arc<Cred>, op: Op, lock: (u64, FileLock, bool)) {
        self.request(cred, op, Then::Pass(Pass { lock: Some(lock), ..Pass::new(waiter, cred) }));
    }

    /// A lock was got after its call had been given up: nobody would ever give it back. Not done if the owner has others
    /// there, or asks for one, which would go with it.
    pub(crate) fn give_lock_back(&mut self, cred: &Arc<Cred>, handle: u64, lock: FileLock) -> bool {
        let Some(ino) = self.files.handles.get(&handle).map(|handle| handle.ino) else { return false };
        let key = (ino, lock.kind, lock.owner);
        let asks = self.ranks.unanswered().any(|pending| taken(&pending.request.op) == Some(key));
        if asks || self.files.holds_locks(ino, lock.kind, lock.owner) {
            return false;
        }
        self.lock_request(Waiter::Nobody, cred, Op::Unlock { ino, handle, lock }, (handle, lock, false));
        true
    }

    /// Asks for locks that waited until others were given back, or were lost with a session.
    pub(crate) fn end_behind(&mut self) {
        if self.ranks.behind.is_empty() {
            return;
        }
        let busy: BTreeSet<Key> =
            self.ranks.unanswered().filter_map(|pending| given_back(&pending.request.op)).collect();
        let (wait, ready) =
            std::mem::take(&mut self.ranks.behind).into_iter().partition(|behind| busy.contains(&behind.key));
        self.ranks.behind = wait;
        for Behind { cred, op, then, hops, .. } in ready {
            // The file may have moved meanwhile. What nobody waits for any more is not asked for at all.
            if waiter_of(&then).is_some_and(|waiter| self.calls.is_awaited(waiter)) {
                self.request_at(self.ranks.route(&self.files, &self.own, &op), cred, op, then, hops);
            }
        }
    }

    /// An owner waits no longer for locks that no server has been asked for yet, or only one that sent the request on. Of
    /// the others the server knows.
    pub(crate) fn cancel_behind(&mut self, ino: Ino, owner: LockOwner) {
        let of_it =
            |op: &Op| matches!(op, Op::SetLock { ino: of, lock, wait: true, .. } if (*of, lock.owner) == (ino, owner));
        let behind =
            self.ranks.behind.extract_if(.., |behind| of_it(&behind.op)).map(|behind| (behind.rank, behind.then));
        let mut ended: Vec<_> = behind.collect();
        let paused = self.ranks.paused.extract_if(.., |paused| of_it(&paused.pending.request.op));
        ended.extend(paused.map(|paused| (paused.rank, paused.pending.then)));
        for (rank, then) in ended {
            self.replied(rank, then, Err(FsError::Interrupted));
        }
    }

    /// The open file that a flock belongs to is gone, and so is what was asked for and is not answered yet: a kernel lets nobody close what
    /// a lock is being taken through, but a program that uses the library may.
    pub(crate) fn drop_flock(&mut self, cred: &Arc<Cred>, opened: &Opened, owner: LockOwner) {
        let kind = LockKind::Flock;
        let asked = self.ranks.end_taking(&mut self.own, (opened.ino, kind, owner));
        if asked {
            // It may wait at the server. If it has it, it is given back below: what is asked of a rank is done in order.
            self.cancel_behind(opened.ino, owner);
            self.request(cred, Op::CancelLock { ino: opened.ino, owner }, Then::Nothing);
        }
        if !asked && !self.files.holds_locks(opened.ino, kind, owner) {
            return;
        }
        self.files.locks.remove(&(opened.ino, kind, owner));
        let lock = FileLock { kind, owner, pid: 0, exclusive: false, start: 0, end: u64::MAX };
        let op = Op::Unlock { ino: opened.ino, handle: opened.handle, lock };
        self.lock_request(Waiter::Nobody, cred, op, (opened.handle, lock, false));
    }

    /// An open file is gone, and with it the record locks that were taken through it and are held still. Those are of its open file
    /// description (`F_OFD_SETLK`): nothing else tells of their end, and a process gives its own back at each close. The handle may serve
    /// the next open, so the server does not end them by itself.
    pub(crate) fn drop_taken_through(&mut self, cred: &Arc<Cred>, opened: &Opened) {
        if self.files.locks.is_empty() {
            return;
        }
        let (ino, kind) = (opened.ino, LockKind::Posix);
        let of_file = (ino, kind, LockOwner(0))..=(ino, kind, LockOwner(u64::MAX));
        let mut taken = Vec::new();
        for (_, held) in self.files.locks.range_mut(of_file.clone()) {
            taken.extend(held.extract_if(.., |(through, _)| *through == opened.handle).map(|(_, lock)| lock));
        }
        if taken.is_empty() {
            return;
        }
        let ended: Vec<Key> =
            self.files.locks.range(of_file).filter(|(_, held)| held.is_empty()).map(|(key, _)| *key).collect();
        ended.iter().for_each(|key| _ = self.files.locks.remove(key));
        for lock in taken {
            let op = Op::Unlock { ino, handle: opened.handle, lock };
            self.lock_request(Waiter::Nobody, cred, op, (opened.handle, lock, false));
        }
    }
}

/// The locks that a request asks for.
fn taken(op: &Op) -> Option<Key> {
    match op {
        Op::SetLock { ino, lock, .. } => Some((*ino, lock.kind, lock.owner)),
        _ => None,
    }
}

/// The locks that a request gives back.
fn given_back(op: &Op) -> Option<Key> {
    match op {
        Op::Unlock { ino, lock, .. } => Some((*ino, lock.kind, lock.owner)),
        _ => None,
    }
}

/// The rest of a lock without a range.
fn subtract(old: &FileLock, cut: &FileLock, mut part: impl FnMut(FileLock)) {
    if old.end < cut.start || old.start > cut.end {
        return part(*old);
    }
    if old.start < cut.start {
        part(FileLock { end: cut.start - 1, ..*old });
    }
    if old.end > cut.end {
        part(FileLock { start: cut.end + 1, ..*old });
    }
}
