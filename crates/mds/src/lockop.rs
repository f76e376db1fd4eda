//! The lock operations: what a request does with the table of locks.

use loligo_types::{Answer, FileLock, FsError, FsResult, Ino, Op};

use crate::execute::Step;
use crate::machine::Mds;
use crate::park::{Job, WaitReason};
use crate::session::Slot;

impl Mds {
    /// Any of the lock operations. The handle has been checked.
    pub(crate) fn lock_op(&mut self, job: &mut Job) -> Step {
        match job.op {
            Op::SetLock { ino, handle, lock, wait } => self.set_lock(job, ino, handle, lock, wait),
            Op::Unlock { ino, lock, .. } => {
                self.locks.unlock(ino, job.slot, &lock);
                self.grant_locks(vec![ino]);
                Step::Answer(Ok(Answer::Done))
            }
            Op::GetLock { ino, lock, .. } => Step::Answer(Ok(Answer::Lock(self.locks.conflict(ino, job.slot, &lock)))),
            Op::CancelLock { ino, owner } => {
                let jobs = self.locks.cancel(ino, job.slot, owner);
                self.end_waits(jobs, FsError::Interrupted);
                Step::Answer(Ok(Answer::Done))
            }
            _ => Step::Answer(Err(FsError::Invalid)),
        }
    }

    fn set_lock(&mut self, job: &mut Job, ino: Ino, handle: u64, lock: FileLock, wait: bool) -> Step {
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
}
