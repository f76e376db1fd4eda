//! A decoupled subtree whose owner is not heard any more, and has left its journal in the store: others merge that, or give it up. Here who
//! may, and when; reading the journal and merging it are the client library's.
//!
//! It stays the same decoupling, with its epoch: the journal's object, the inode numbers that it speaks of, and the merges that are done
//! go by that. Only the owner's number is another one. An owner who is connected is told at once, by a recall of the names of the root, which
//! are never lent to an owner; others learn with their next request that they have lost it.

use loligo_types::{DecoupledRecord, FsError, FsResult, Ino, Lease};

use super::Owned;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::Job;
use crate::recall::Recalls;
use crate::session::Sessions;

/// Time that a new owner waits until the former one, if it is connected, has heard of the takeover, milliseconds.
const TELL_MS: u64 = 1000;

impl Owned {
    /// True if its owner was not heard for longer than its lease.
    pub(super) fn is_left(&self, record: &DecoupledRecord, now_ms: u64) -> bool {
        record.owner == 0 || self.by.is_none() && now_ms > self.lost_ms + u64::from(record.lease_ms)
    }
}

impl Decoupled {
    /// True if the owner that a subtree was taken from is about to hear that. From the answer on it must not tell its programs that
    /// anything succeeded. An owner that is not connected, or does not answer in time, is not waited for: the rank refuses what it sends.
    pub(super) fn is_telling(
        &mut self,
        core: &Core,
        sessions: &Sessions,
        recalls: &Recalls,
        job: &mut Job,
        dir: Ino,
    ) -> bool {
        let Some(owned) = self.by_dir.get_mut(&dir) else { return false };
        let Some(slot) = owned.tells else { return false };
        let since_ms = *job.closing_ms.get_or_insert(core.now.mono_ms);
        let hears = sessions.get(slot).is_some_and(|session| session.conn.is_some());
        let waits = recalls.pending(dir, slot).has(Lease::NAMES);
        if hears && waits && core.now.mono_ms < since_ms + TELL_MS {
            return true;
        }
        owned.tells = None;
        false
    }

    pub(super) fn may_take_over(
        &self,
        core: &Core,
        sessions: &Sessions,
        job: &Job,
        dir: Ino,
        owner: u64,
        now: bool,
    ) -> FsResult<()> {
        let record = core.tree.decoupled(dir).ok_or(FsError::NotFound)?;
        if owner == 0 {
            return Err(FsError::Invalid);
        }
        if !job.cred.is_root() && (now || job.cred.uid != record.uid) {
            return Err(FsError::Perm);
        }
        // A request that comes again, also in another session, finds what it has made. The number is also in copies of the owner's journal.
        if record.owner == owner {
            return if self.owner_is_here(sessions, job, dir) && !now { Err(FsError::Busy) } else { Ok(()) };
        }
        if now {
            // Root knows better than the lease that the owner is gone. If it is not, it has lost the subtree, as one that was not heard.
            return Ok(());
        }
        let owned = self.by_dir.get(&dir).ok_or(FsError::Busy)?;
        if !owned.is_left(record, core.now.mono_ms) {
            return Err(FsError::Busy);
        }
        if record.journal.is_some() { Ok(()) } else { Err(FsError::NotFound) }
    }
}
