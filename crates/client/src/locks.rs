//! Locks pass through to the server; here is only remembered which are held, to claim them again after the server
//! restarted, and to give those of an owner, or of an open file description, back when it closes.
//!
//! Locks are given back behind the caller's back, too: when a file is closed, or when nobody waits any more for what was
//! got. So an owner may ask for a lock before the last one is known to be given back; and requests that are sent on to
//! another rank need not come there in the order in which they were made. What is asked for waits until then.
//! Not here: the requests (`dispatch`, `open`, `request`).

use std::collections::BTreeMap;

use loligo_types::{Control, Cred, FileLock, Ino, LockKind, LockOwner, Op, Rank};

use crate::calls::Waiter;
use crate::file::Files;
use crate::own::Own;
use crate::ranks::Ranks;
use crate::session::{Pending, Then, waiter_of};

/// Key of locks: file, family, owner.
pub(crate) type Key = (Ino, LockKind, LockOwner);

/// Locks held: by inode, family and owner, with the handle each was taken through.
pub(crate) type Locks = BTreeMap<Key, Vec<(u64, FileLock)>>;

/// A request for a lock whose owner is giving locks back.
#[derive(Debug)]
pub(crate) struct Behind {
    pub key: Key,
    /// Which was to be asked.
    pub rank: Rank,
    pub cred: Cred,
    pub op: Op,
    pub then: Then,
    pub hops: u32,
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
        matches!(op, Op::Control(Control::Unlock { handle, .. }) if self.at.contains_key(handle))
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

/// The locks that a request asks for.
pub(crate) fn taken(op: &Op) -> Option<Key> {
    match op {
        Op::Control(Control::SetLock { ino, lock, .. }) => Some((*ino, lock.kind, lock.owner)),
        _ => None,
    }
}

/// The locks that a request gives back.
pub(crate) fn given_back(op: &Op) -> Option<Key> {
    match op {
        Op::Control(Control::Unlock { ino, lock, .. }) => Some((*ino, lock.kind, lock.owner)),
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
