//! Inode numbers that sessions are given before they use them: asked for, used, refused. A number never makes two inodes:
//! those that were given are below the rank's counter for good, and which of them are used is in the session's record, or
//! follows from its requests in the journal.

use loligo_types::{Event, FsError, Granted, Ino};

use crate::job::Job;
use crate::session::Sessions;

/// The inodes that a record speaks of.
pub(crate) fn made_by(events: &[Event], mut each: impl FnMut(Ino)) {
    for event in events {
        if let Event::Inode(inode) = event {
            each(inode.ino);
        }
    }
}

impl Sessions {
    /// Why the number that a request names cannot make an inode; none: it can, or it names none.
    #[inline]
    pub(crate) fn refuse_number(&mut self, job: &Job) -> Option<FsError> {
        let ino = job.ino?;
        if !job.op.makes_inode() {
            return Some(FsError::Invalid);
        }
        match self.same(job.slot, job.session)?.grants.state(ino) {
            Granted::Free => None,
            Granted::Used => Some(FsError::NumberUsed),
            Granted::No => Some(FsError::NotGranted),
        }
    }

    /// Uses up the inode numbers of what a request has made: it has them for good.
    #[inline]
    pub(crate) fn use_number(&mut self, job: &Job, events: &[Event]) {
        if job.ino.is_some()
            && let Some(session) = self.same(job.slot, job.session)
        {
            made_by(events, |ino| _ = session.grants.use_up(ino));
        }
    }
}
