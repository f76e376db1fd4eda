//! Records, numbers and rights that a decoupled subtree lacks, and which of them is asked of its rank next. Not here: the request, and what
//! its answer does (`ask`).

use loligo_types::{Answer, DecoupledRecord, FsError, Ino, Need, SubtreeAnswer};

use super::Job;
use super::command::Begin;

/// Numbers asked for at once at most when those that were granted are used up.
pub(crate) const MORE_MAX: u64 = 1 << 20;

/// The kind of request.
#[derive(Debug)]
pub(crate) enum Ask {
    Records,
    Numbers,
    Rights(Vec<Ino>),
    /// To change files that others read as they were at the last merge.
    Overwrite(Vec<Ino>),
    /// To have a version of files that others may change, before what changes them is decided.
    Fork(Vec<Ino>, u64),
    Resume,
    /// The rank is told that this client answers below the root by itself: after a decoupling, with the number of its command.
    Answers(Option<u64>),
    /// It was not to be: it is given back, and the command has failed like this.
    Undo(u64, FsError),
    /// To have it.
    Begin(Box<Begin>),
    /// Fetch of an inode known only by its number, from before decoupling: if the subtree contains it, the job is done here. The roots
    /// tried so far.
    Claim(Box<Job>, Vec<Ino>),
}

pub(crate) fn record_of(answer: Answer) -> Option<DecoupledRecord> {
    let Answer::Subtree(answer) = answer else { return None };
    match *answer {
        SubtreeAnswer::Decoupled { record, .. } | SubtreeAnswer::Forked { record, .. } => Some(record),
        _ => None,
    }
}

/// The names behind one that is looked for.
pub(crate) fn range_at(key: (u64, u64), need: &Need) -> Option<Need> {
    let Need::Entry { dir, name } = need else { return None };
    let from_hash = loligo_types::hash::name_hash(key, name.as_bytes());
    Some(Need::Range { dir: *dir, from_hash })
}
