//! Result of a step of a request, and what an operation says of handles and data. Which steps a request takes is not here
//! (`stages/run.rs`).

use loligo_types::{About, Answer, FsResult, Ino, Op, Origin, Rank};

use crate::job::{Job, WaitReason};

/// The result of a step of a request.
pub(crate) enum Step {
    /// It is to be answered so.
    Answer(FsResult<Answer>),
    /// It waits.
    Wait(WaitReason),
    /// Another rank is to answer it.
    Redirect(Rank),
}

/// The handle in an operation, and the inode it must be of.
pub(crate) fn handle_of(op: &Op) -> Option<(u64, Ino)> {
    op.props().handle.zip(op.subjects()[0].ino())
}

/// The inode whose size or data an operation of the tree is about to change, if its number is known beforehand.
pub(crate) fn data_of(op: &Op) -> Option<Ino> {
    match op.about() {
        About::Inode(ino) if op.props().data => Some(ino),
        About::Inode(_) | About::Names(_) | About::Nothing => None,
    }
}

pub(crate) fn origin_of(job: &Job, ino: Ino, value: u64) -> Origin {
    // What the client had of answers is filled in when the record is made.
    Origin { session: job.session, seq: job.seq, answered: loligo_types::Seq(0), ino, value }
}
