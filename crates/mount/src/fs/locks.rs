//! Advisory locks. A wait for a lock ends when the kernel says that the waiter has a signal to take.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use loligo_client::{Call, Done};
use loligo_fuse::{LockAsked, ReplyEmpty, ReplyLock};
use loligo_types::{Answer, FileLock, FsError, Ino, LockKind, LockOwner};

use crate::convert;
use crate::core::{Asked, Core, Handle};
use crate::cred;
use crate::submit::Submit;

/// Interrupts that are remembered for requests which are not there (yet).
const EARLY_MAX: usize = 64;

/// Requests that wait for a lock.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    by_request: BTreeMap<u64, (Ino, LockOwner)>,
    /// Interrupted before they were seen here, when several threads take requests; or no waits at all.
    early: VecDeque<u64>,
}

impl Waits {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Notes a wait; `false`: it is interrupted already.
    fn add(&self, unique: u64, ino: Ino, owner: LockOwner) -> bool {
        let mut waiting = self.lock();
        if let Some(at) = waiting.early.iter().position(|early| *early == unique) {
            waiting.early.remove(at);
            return false;
        }
        waiting.by_request.insert(unique, (ino, owner));
        true
    }

    fn remove(&self, unique: u64) {
        self.lock().by_request.remove(&unique);
    }

    /// The wait of a request that is interrupted.
    fn interrupt(&self, unique: u64) -> Option<(Ino, LockOwner)> {
        let mut waiting = self.lock();
        let wait = waiting.by_request.get(&unique).copied();
        if wait.is_none() {
            if waiting.early.len() == EARLY_MAX {
                waiting.early.pop_front();
            }
            waiting.early.push_back(unique);
        }
        wait
    }
}

fn file_lock(asked: &LockAsked) -> FileLock {
    let kind = if asked.flock { LockKind::Flock } else { LockKind::Posix };
    let exclusive = asked.typ == libc::F_WRLCK.cast_unsigned();
    convert::file_lock(kind, asked.owner, asked.start, asked.end, exclusive, asked.pid)
}

impl<S: Submit> Core<S> {
    pub fn getlk(self: &Arc<Self>, asked: Asked, wanted: &LockAsked, reply: ReplyLock) {
        let core = self.clone();
        let call = Call::GetLock { fh: Handle::decode(wanted.fh).fh, lock: file_lock(wanted) };
        self.send(asked, call, move |result| match result {
            Ok(Done { answer: Answer::Lock(Some(lock)), .. }) => {
                let typ = if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
                reply.locked(lock.start, lock.end.min(i64::MAX as u64), typ.cast_unsigned(), lock.pid);
            }
            Ok(Done { answer: Answer::Lock(None), .. }) => reply.locked(0, 0, libc::F_UNLCK.cast_unsigned(), 0),
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn setlk(self: &Arc<Self>, asked: Asked, ino: Ino, wanted: &LockAsked, wait: bool, reply: ReplyEmpty) {
        let (fh, lock) = (Handle::decode(wanted.fh).fh, file_lock(wanted));
        match wanted.typ.cast_signed() {
            libc::F_UNLCK => return self.empty(asked, Call::Unlock { fh, lock }, reply),
            libc::F_RDLCK | libc::F_WRLCK => {}
            _ => return reply.error(self.errno(asked.op, FsError::Invalid)),
        }
        if lock.kind == LockKind::Posix {
            self.kernel.table.lock_taken(ino);
        }
        if wait && !self.waits.add(asked.unique, ino, lock.owner) {
            return reply.error(self.errno(asked.op, FsError::Interrupted));
        }
        let core = self.clone();
        self.send(asked, Call::SetLock { fh, lock, wait }, move |result| {
            if wait {
                core.waits.remove(asked.unique);
            }
            match result {
                Ok(_) => reply.ok(),
                Err(failed) => reply.error(core.errno(asked.op, failed.error)),
            }
        });
    }

    /// The caller of a request has a signal to take: it does not wait for a lock any more. Other requests end soon.
    pub fn interrupt(self: &Arc<Self>, unique: u64) {
        if let Some((ino, owner)) = self.waits.interrupt(unique) {
            let cred = self.creds.plain(cred::Who { uid: 0, gid: 0, pid: 0 });
            // A wait that ended meanwhile is no matter.
            self.client.submit(&cred, Call::CancelLock { ino, owner }, |_| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_finds_its_wait_whichever_comes_first() {
        let waits = Waits::default();
        let wait = (Ino(300), LockOwner(5));
        assert!(waits.add(2, wait.0, wait.1));
        assert_eq!(waits.interrupt(2), Some(wait));
        waits.remove(2);
        assert_eq!(waits.interrupt(4), None);
        assert!(!waits.add(4, wait.0, wait.1), "interrupted before it was seen");
        assert!(waits.add(6, wait.0, wait.1));
    }

    #[test]
    fn interrupts_of_other_requests_are_forgotten_in_time() {
        let waits = Waits::default();
        for unique in 0..10 * EARLY_MAX as u64 {
            waits.interrupt(unique);
        }
        assert_eq!(waits.lock().early.len(), EARLY_MAX);
    }
}
