//! Advisory locks. A wait for a lock ends when the kernel says that the waiter has a signal to take ([`crate::waits`]).

use std::sync::Arc;

use loligo_client::{Call, Done};
use loligo_fuse::{LockAsked, ReplyEmpty, ReplyLock};
use loligo_types::{Answer, FileLock, FsError, Ino, LockKind};

use crate::convert;
use crate::core::{Asked, Core, Handle};
use crate::submit::Submit;

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
        let core = self.clone();
        let waits_for = wait.then_some((ino, lock.owner));
        self.send_waiting(asked, waits_for, Call::SetLock { fh, lock, wait }, move |result| match result {
            Ok(_) => reply.ok(),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }
}
