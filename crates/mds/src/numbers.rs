//! Inode numbers that sessions are given before they use them: asked for, used, refused. A number never makes two inodes:
//! those that were given are below the rank's counter for good, and which of them are used is in the session's record, or
//! follows from its requests in the journal.

use loligo_types::{Answer, Event, FsError, FsResult, Granted, Ino, limits};

use crate::execute::origin_of;
use crate::machine::Mds;
use crate::park::Job;

/// The inodes that a record speaks of.
pub(crate) fn made_by(events: &[Event], mut each: impl FnMut(Ino)) {
    for event in events {
        if let Event::Inode(inode) = event {
            each(inode.ino);
        }
    }
}

impl Mds {
    /// Gives numbers to a session, with one record that says so of the session and of the counter.
    pub(crate) fn grant_inos(&mut self, job: &Job, count: u32) -> FsResult<Answer> {
        if count == 0 || count > limits::INO_GRANT_MAX {
            return Err(FsError::Invalid);
        }
        let first = self.core.tree.next_ino();
        let after = Ino(first.0 + u64::from(count));
        if after.birth_rank() != self.core.me() {
            return Err(FsError::NoSpace);
        }
        let Some(session) = self.sessions.same(job.slot, job.session) else { return Err(FsError::Stale) };
        if session.grants.left() + u64::from(count) > u64::from(limits::INO_GRANT_MAX) {
            return Err(FsError::Quota);
        }
        session.grants.add(first, count);
        let record = session.record();
        self.commit(Some(origin_of(job, Ino(0), first.0)), &[Event::NextIno(after), Event::Session(record)]);
        Ok(Answer::Inos { first, count })
    }

    /// Why the number that a request names cannot make an inode; none: it can, or it names none.
    #[inline]
    pub(crate) fn refuse_number(&mut self, job: &Job) -> Option<FsError> {
        let ino = job.ino?;
        if !job.op.makes_inode() {
            return Some(FsError::Invalid);
        }
        match self.sessions.same(job.slot, job.session)?.grants.state(ino) {
            Granted::Free => None,
            Granted::Used => Some(FsError::NumberUsed),
            Granted::No => Some(FsError::NotGranted),
        }
    }

    /// Uses up the inode numbers of what a request has made: it has them for good.
    #[inline]
    pub(crate) fn use_number(&mut self, job: &Job, events: &[Event]) {
        if job.ino.is_some()
            && let Some(session) = self.sessions.same(job.slot, job.session)
        {
            made_by(events, |ino| _ = session.grants.use_up(ino));
        }
    }
}
