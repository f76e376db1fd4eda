//! Locks pass through to the server; here is only remembered which are held, to claim them again after the server
//! restarted, and to give those of an owner back when it closes.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{Cred, FileLock, Ino, LockKind, LockOwner, Op};

use crate::Fh;
use crate::dispatch::Pass;
use crate::file::Opened;
use crate::machine::{Client, Waiter};
use crate::session::Then;

/// Locks held: by inode, family and owner, with the handle each was taken through.
pub(crate) type Locks = BTreeMap<(Ino, LockKind, LockOwner), Vec<(u64, FileLock)>>;

impl Client {
    pub(crate) fn set_lock(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, lock: FileLock, wait: bool) {
        match self.fh_handle(fh) {
            Ok((ino, handle)) => {
                let op = Op::SetLock { ino, handle, lock, wait };
                self.lock_request(waiter, cred, op, (handle, lock, true));
            }
            Err(error) => self.fail(waiter, error),
        }
    }

    pub(crate) fn unlock(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, lock: FileLock) {
        match self.fh_handle(fh) {
            Ok((ino, handle)) => {
                let op = Op::Unlock { ino, handle, lock };
                self.lock_request(waiter, cred, op, (handle, lock, false));
            }
            Err(error) => self.fail(waiter, error),
        }
    }

    fn lock_request(&mut self, waiter: Waiter, cred: &Arc<Cred>, op: Op, lock: (u64, FileLock, bool)) {
        let pass = Pass { waiter, cred: Arc::clone(cred), dir: Ino(0), lock: Some(lock), listed: Vec::new() };
        self.request(cred, op, Then::Pass(pass));
    }

    /// A lock was got after its call had been given up: nobody would ever give it back. Not done if the owner has others
    /// there, or asks for one, which would go with it.
    pub(crate) fn give_lock_back(&mut self, cred: &Arc<Cred>, handle: u64, lock: FileLock) -> bool {
        let Some(ino) = self.files.handles.get(&handle).map(|handle| handle.ino) else { return false };
        let paused = self.paused.iter().map(|paused| &paused.pending);
        let mut pending = self.sessions.values().flat_map(|session| session.pending.values()).chain(paused);
        let asks = pending.any(|pending| match &pending.request.op {
            Op::SetLock { ino: of, lock: other, .. } => (*of, other.kind, other.owner) == (ino, lock.kind, lock.owner),
            _ => false,
        });
        if asks || self.holds_locks(ino, lock.kind, lock.owner) {
            return false;
        }
        self.lock_request(Waiter::Nobody, cred, Op::Unlock { ino, handle, lock }, (handle, lock, false));
        true
    }

    /// Notes that a lock was taken, or given back.
    pub(crate) fn lock_changed(&mut self, handle: u64, lock: &FileLock, take: bool) {
        let Some(ino) = self.files.handles.get(&handle).map(|handle| handle.ino) else { return };
        let key = (ino, lock.kind, lock.owner);
        let held = self.files.locks.entry(key).or_default();
        let mut left = Vec::new();
        for (through, old) in held.drain(..) {
            subtract(&old, lock, |part| left.push((through, part)));
        }
        if take {
            left.push((handle, *lock));
        }
        if left.is_empty() {
            self.files.locks.remove(&key);
        } else {
            self.files.locks.insert(key, left);
        }
    }

    pub(crate) fn holds_locks(&self, ino: Ino, kind: LockKind, owner: LockOwner) -> bool {
        self.files.locks.contains_key(&(ino, kind, owner))
    }

    /// The open file that a flock belongs to is gone.
    pub(crate) fn drop_flock(&mut self, cred: &Arc<Cred>, opened: &Opened, owner: LockOwner) {
        if !self.holds_locks(opened.ino, LockKind::Flock, owner) {
            return;
        }
        let kind = LockKind::Flock;
        let lock = FileLock { kind, owner, pid: 0, exclusive: false, start: 0, end: u64::MAX };
        let op = Op::Unlock { ino: opened.ino, handle: opened.handle, lock };
        self.lock_request(Waiter::Nobody, cred, op, (opened.handle, lock, false));
    }
}

/// What is left of a lock without a range.
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
