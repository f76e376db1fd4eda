//! Result of a step of a request, and what an operation says of handles and data. Which steps a request takes is not here
//! (`stages/run.rs`).

use loligo_types::{Answer, Control, FsResult, Ino, Op, Origin, Rank};

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
    match op {
        Op::SetAttr { ino, handle: Some(handle), .. } => Some((*handle, *ino)),
        Op::Readdir { dir, handle: Some(handle), .. } => Some((*handle, *dir)),
        Op::ReadInline { ino, handle }
        | Op::WriteInline { ino, handle, .. }
        | Op::SetData { ino, handle, .. }
        | Op::Extend { ino, handle, .. }
        | Op::Control(
            Control::SetLock { ino, handle, .. }
            | Control::Unlock { ino, handle, .. }
            | Control::GetLock { ino, handle, .. },
        ) => Some((*handle, *ino)),
        _ => None,
    }
}

/// The inode whose size or data an operation is about to change, if its number is known beforehand.
pub(crate) fn data_of(op: &Op) -> Option<Ino> {
    match op {
        Op::SetAttr { ino, set, .. } if set.size.is_some() => Some(*ino),
        Op::Open { ino, flags, .. } if flags.truncate => Some(*ino),
        Op::WriteInline { ino, .. } | Op::SetData { ino, .. } | Op::Extend { ino, .. } => Some(*ino),
        _ => None,
    }
}

pub(crate) fn origin_of(job: &Job, ino: Ino, value: u64) -> Origin {
    // What the client had of answers is filled in when the record is made.
    Origin { session: job.session, seq: job.seq, answered: loligo_types::Seq(0), ino, value }
}

/// True if the operation is refused to a read-only peer. File locks are let through: they change nothing that stays.
pub(crate) fn changes(op: &Op) -> bool {
    match op {
        Op::Via { what, .. } => changes(what),
        Op::Open { flags, .. } => flags.write || flags.truncate || flags.append,
        Op::Access { want, .. } => want.write,
        Op::Control(Control::DataAddress { .. }) => false,
        op => op.is_change(),
    }
}
