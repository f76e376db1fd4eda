//! Locks on files in subtrees that are decoupled for this client: all who could want one are its own programs. What is held is noted with
//! the files (`crate::locks`), as it is of locks that ranks give; here only whether something stands in the way.

use loligo_types::{Answer, Control, FileLock, FsError, Ino, LockKind, Op};

use super::{Job, Own};
use crate::locks::Locks;

/// True if one lock conflicts with another owner's.
fn excludes(held: &FileLock, asked: &FileLock) -> bool {
    let overlap = held.kind == LockKind::Flock || (held.start <= asked.end && asked.start <= held.end);
    overlap && (held.exclusive || asked.exclusive)
}

impl Own {
    /// Answers a request about locks, or lets it wait. `held`: the locks of all programs.
    pub(super) fn lock(&mut self, held: &Locks, job: Job) {
        match job.op {
            Op::Control(Control::SetLock { lock, .. }) if lock.start > lock.end => {
                self.answer(job.op, job.then, Err(FsError::Invalid));
            }
            Op::Control(Control::SetLock { ino, lock, wait, .. }) => match conflict(held, ino, &lock) {
                None => self.answer(job.op, job.then, Ok(Answer::Done)),
                Some(_) if wait => self.locks.push(job),
                Some(_) => self.answer(job.op, job.then, Err(FsError::WouldBlock)),
            },
            Op::Control(Control::GetLock { ino, lock, .. }) => {
                let found = conflict(held, ino, &lock);
                self.answer(job.op, job.then, Ok(Answer::Lock(found)));
            }
            Op::Control(Control::CancelLock { ino, owner }) => {
                let of_it = |job: &mut Job| matches!(&job.op, Op::Control(Control::SetLock { ino: of, lock, .. }) if (*of, lock.owner) == (ino, owner));
                for ended in self.locks.extract_if(.., of_it).collect::<Vec<_>>() {
                    self.answer(ended.op, ended.then, Err(FsError::Interrupted));
                }
                self.answer(job.op, job.then, Ok(Answer::Done));
            }
            // The range is given back where it is noted.
            _ => self.answer(job.op, job.then, Ok(Answer::Done)),
        }
    }

    /// Something was given back: those who wait may have it, one after the other.
    pub(super) fn try_locks(&mut self, held: &Locks) {
        let free = self
            .locks
            .iter()
            .position(|job| matches!(&job.op, Op::Control(Control::SetLock { ino, lock, .. }) if conflict(held, *ino, lock).is_none()));
        if let Some(at) = free {
            let job = self.locks.remove(at);
            self.lock(held, job);
        }
    }
}

/// The first lock of another owner that is in the way.
fn conflict(held: &Locks, ino: Ino, asked: &FileLock) -> Option<FileLock> {
    let of_file =
        held.iter().filter(|((of, kind, owner), _)| (*of, *kind) == (ino, asked.kind) && *owner != asked.owner);
    let locks = of_file.flat_map(|(_, held)| held.iter().map(|(_, lock)| *lock));
    locks.filter(|lock| excludes(lock, asked)).min_by_key(|lock| lock.start)
}
