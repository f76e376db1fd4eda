//! A decoupled subtree whose owner is not heard any more, and has left its journal in the store: others merge that, or give it up. Here who
//! may, and when; reading the journal and merging it are the client library's.
//!
//! It stays the same decoupling, with its epoch: the journal's object, the inode numbers that it speaks of, and the merges that are done
//! go by that. Only the owner's number is another one, and the owner of before learns with its next request that it has lost it.

use loligo_types::{DecoupledRecord, FsError, FsResult, Ino};

use super::Owned;
use crate::execute::Step;
use crate::machine::Mds;
use crate::park::Job;

impl Owned {
    /// Whether its owner was not heard for longer than its lease.
    pub(super) fn is_left(&self, record: &DecoupledRecord, now_ms: u64) -> bool {
        self.by.is_none() && now_ms > self.lost_ms + u64::from(record.lease_ms)
    }
}

impl Mds {
    /// Another one is the owner from now on, if it may be.
    pub(super) fn take_over_subtree(&mut self, job: &mut Job, dir: Ino, owner: u64, now: bool) -> Step {
        match self.may_take_over(job, dir, owner, now) {
            Ok(()) => self.speak_for(job, dir, Some(owner)),
            Err(error) => Step::Answer(Err(error)),
        }
    }

    fn may_take_over(&self, job: &Job, dir: Ino, owner: u64, now: bool) -> FsResult<()> {
        let record = self.tree.decoupled(dir).ok_or(FsError::NotFound)?;
        if owner == 0 {
            return Err(FsError::Invalid);
        }
        if !job.cred.is_root() && (now || job.cred.uid != record.uid) {
            return Err(FsError::Perm);
        }
        // A request that comes again, also in another session, finds what it has made: nobody else knows the number.
        if record.owner == owner {
            return Ok(());
        }
        if now {
            // Root knows better than the lease that the owner is gone. If it is not, it has lost the subtree, as one that was not heard.
            return Ok(());
        }
        let owned = self.decoupled.by_dir.get(&dir).ok_or(FsError::Busy)?;
        if !owned.is_left(record, self.now.mono_ms) {
            return Err(FsError::Busy);
        }
        if record.journal.is_some() { Ok(()) } else { Err(FsError::NotFound) }
    }
}
