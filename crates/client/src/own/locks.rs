//! Locks on files in subtrees that are decoupled for this client: all who could want one are its own programs. What is held is noted with
//! the files (`crate::locks`), as it is of locks that ranks give; here only whether something stands in the way.

use loligo_types::{Answer, FileLock, FsError, Ino, LockKind, Op};

use super::Job;
use crate::machine::Client;

/// True if one lock conflicts with another owner's.
fn excludes(held: &FileLock, asked: &FileLock) -> bool {
    let overlap = held.kind == LockKind::Flock || (held.start <= asked.end && asked.start <= held.end);
    overlap && (held.exclusive || asked.exclusive)
}

impl Client {
    pub(super) fn own_lock(&mut self, job: Job) {
        match job.op {
            Op::SetLock { lock, .. } if lock.start > lock.end => {
                self.own.answer(job.op, job.then, Err(FsError::Invalid));
            }
            Op::SetLock { ino, lock, wait, .. } => match self.own_conflict(ino, &lock) {
                None => self.own.answer(job.op, job.then, Ok(Answer::Done)),
                Some(_) if wait => self.own.locks.push(job),
                Some(_) => self.own.answer(job.op, job.then, Err(FsError::WouldBlock)),
            },
            Op::GetLock { ino, lock, .. } => {
                let found = self.own_conflict(ino, &lock);
                self.own.answer(job.op, job.then, Ok(Answer::Lock(found)));
            }
            Op::CancelLock { ino, owner } => {
                let of_it = |job: &mut Job| matches!(&job.op, Op::SetLock { ino: of, lock, .. } if (*of, lock.owner) == (ino, owner));
                for ended in self.own.locks.extract_if(.., of_it).collect::<Vec<_>>() {
                    self.own.answer(ended.op, ended.then, Err(FsError::Interrupted));
                }
                self.own.answer(job.op, job.then, Ok(Answer::Done));
            }
            // The range is given back where it is noted.
            _ => self.own.answer(job.op, job.then, Ok(Answer::Done)),
        }
    }

    /// The first lock of another owner that is in the way.
    fn own_conflict(&self, ino: Ino, asked: &FileLock) -> Option<FileLock> {
        let of_file = self
            .files
            .locks
            .iter()
            .filter(|((of, kind, owner), _)| (*of, *kind) == (ino, asked.kind) && *owner != asked.owner);
        let held = of_file.flat_map(|(_, held)| held.iter().map(|(_, lock)| *lock));
        held.filter(|held| excludes(held, asked)).min_by_key(|held| held.start)
    }

    /// Something was given back: those who wait may have it, one after the other.
    pub(super) fn own_try_locks(&mut self) {
        let free = self.own.locks.iter().position(
            |job| matches!(&job.op, Op::SetLock { ino, lock, .. } if self.own_conflict(*ino, lock).is_none()),
        );
        if let Some(at) = free {
            let job = self.own.locks.remove(at);
            self.own_lock(job);
        }
    }
}
