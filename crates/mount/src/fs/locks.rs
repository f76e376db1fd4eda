//! Advisory locks. A wait for a lock ends early when a signal comes: the FUSE library does not pass the kernel's
//! interrupts on, so waiting threads are looked at once a tick.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fuser::{FileHandle, ReplyEmpty, ReplyLock};
use loligo_client::{Call, Done};
use loligo_types::{Answer, FileLock, FsError, Ino, LockKind, LockOwner};

use crate::convert;
use crate::core::{Asked, Core, Handle};
use crate::cred;
use crate::submit::Submit;

struct Wait {
    tid: u32,
    ino: Ino,
    owner: LockOwner,
}

/// Threads that wait for a lock.
#[derive(Default)]
pub(crate) struct Waits(Mutex<(u64, BTreeMap<u64, Wait>)>);

impl Waits {
    fn add(&self, wait: Wait) -> u64 {
        let mut waits = self.0.lock().unwrap_or_else(|e| e.into_inner());
        waits.0 += 1;
        let id = waits.0;
        waits.1.insert(id, wait);
        id
    }

    fn remove(&self, id: u64) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).1.remove(&id);
    }

    /// Those whose thread has a signal to take.
    fn interrupted(&self) -> Vec<(Ino, LockOwner)> {
        let waits = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let signalled = |wait: &&Wait| wait.tid != 0 && cred::signal_pending(wait.tid) != Some(false);
        waits.1.values().filter(signalled).map(|w| (w.ino, w.owner)).collect()
    }
}

/// A lock as the kernel asks for it.
pub(crate) struct Wanted {
    pub flock: bool,
    pub owner: u64,
    pub start: u64,
    pub end: u64,
    pub typ: i32,
    pub pid: u32,
}

impl Wanted {
    fn lock(&self) -> FileLock {
        let kind = if self.flock { LockKind::Flock } else { LockKind::Posix };
        convert::file_lock(kind, self.owner, self.start, self.end, self.typ == libc::F_WRLCK, self.pid)
    }
}

impl<S: Submit> Core<S> {
    pub fn getlk(self: &Arc<Self>, asked: Asked, fh: FileHandle, wanted: &Wanted, reply: ReplyLock) {
        let core = self.clone();
        let call = Call::GetLock { fh: Handle::decode(fh).fh, lock: wanted.lock() };
        self.send(asked, call, move |result| match result {
            Ok(Done { answer: Answer::Lock(Some(lock)), .. }) => {
                let typ = if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
                reply.locked(lock.start, lock.end.min(i64::MAX as u64), typ, lock.pid);
            }
            Ok(Done { answer: Answer::Lock(None), .. }) => reply.locked(0, 0, libc::F_UNLCK, 0),
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn setlk(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        fh: FileHandle,
        wanted: &Wanted,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let (fh, lock) = (Handle::decode(fh).fh, wanted.lock());
        if wanted.typ == libc::F_UNLCK {
            return self.empty(asked, Call::Unlock { fh, lock }, reply);
        }
        if wanted.typ != libc::F_RDLCK && wanted.typ != libc::F_WRLCK {
            return reply.error(self.errno(asked.op, FsError::Invalid));
        }
        if lock.kind == LockKind::Posix {
            self.kernel.table.lock_taken(ino);
        }
        let id = wait.then(|| self.waits.add(Wait { tid: asked.who.pid, ino, owner: lock.owner }));
        let core = self.clone();
        self.send(asked, Call::SetLock { fh, lock, wait }, move |result| {
            if let Some(id) = id {
                core.waits.remove(id);
            }
            match result {
                Ok(_) => reply.ok(),
                Err(failed) => reply.error(core.errno(asked.op, failed.error)),
            }
        });
    }

    /// Gives up the waits of threads that have a signal to take.
    pub fn interrupt_waits(self: &Arc<Self>) {
        let cred = self.creds.plain(cred::Who { uid: 0, gid: 0, pid: 0 });
        for (ino, owner) in self.waits.interrupted() {
            // A wait that ended meanwhile is no matter.
            self.client.submit(&cred, Call::CancelLock { ino, owner }, |_| ());
        }
    }
}
