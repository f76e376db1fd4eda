//! Records, numbers and rights that a decoupled subtree lacks, and which of them is asked of its rank next. Not here: the request, and what
//! its answer does (`ask`).

use loligo_types::limits::{FETCH_MAX, SUBTREE_INOS_MAX};
use loligo_types::{Answer, DecoupledRecord, FsError, Ino, Need, SubtreeAnswer, SubtreeOp};

use super::Job;
use super::command::Begin;
use crate::own::Owned;

/// Numbers asked for at once at most when those that were granted are used up.
const MORE_MAX: u64 = 1 << 20;

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

impl Owned {
    /// The request for what it lacks; `None`: nothing is lacking, or it was asked for.
    pub(super) fn next_ask(&mut self) -> Option<(SubtreeOp, Ask)> {
        if self.asked {
            return None;
        }
        if std::mem::take(&mut self.doubted) {
            self.asked = true;
            return Some((SubtreeOp::resume(self.machine.record()), Ask::Resume));
        }
        let record = self.machine.record();
        let epoch = record.epoch;
        let next = if !self.needs.is_empty() {
            let mut needs = std::mem::take(&mut self.needs);
            needs.sort_unstable();
            needs.dedup();
            needs.truncate(FETCH_MAX / 2);
            // A program that looks up one name of a directory will look up others: the names behind it come along.
            let key = self.machine.settings().hash_key;
            let ranges: Vec<Need> = needs.iter().filter_map(|need| range_at(key, need)).collect();
            needs.extend(ranges);
            (SubtreeOp::Fetch { epoch, needs }, Ask::Records)
        } else if self.numbers {
            let had: u64 = record.grants.iter().map(|(_, count)| count).sum();
            let inos = had.clamp(1, MORE_MAX).min(SUBTREE_INOS_MAX);
            (SubtreeOp::Grant { epoch, inos }, Ask::Numbers)
        } else if !self.is_cutting() && self.unforked.iter().any(|(ino, ..)| !self.machine.lacks_data(*ino)) {
            let all = self.unforked.iter().map(|(ino, ..)| *ino);
            let mut inos: Vec<Ino> = all.filter(|ino| !self.machine.lacks_data(*ino)).collect();
            inos.sort_unstable();
            inos.dedup();
            inos.truncate(if self.one_by_one { 1 } else { FETCH_MAX / 2 });
            (SubtreeOp::Overwrite { epoch, inos: inos.clone() }, Ask::Fork(inos, self.rebased))
        } else if !self.data.is_empty() {
            let overwrites = |(_, pending): &&(u64, crate::session::PendingData)| self.overwrites(pending);
            let changes = self.data.iter().any(|pending| overwrites(&pending));
            let asked = self.data.iter().filter(|pending| overwrites(pending) == changes);
            let mut inos: Vec<Ino> = asked.map(|(_, pending)| pending.request.ino).collect();
            inos.sort_unstable();
            inos.dedup();
            inos.truncate(if self.one_by_one { 1 } else { FETCH_MAX / 2 });
            match changes {
                true => (SubtreeOp::Overwrite { epoch, inos: inos.clone() }, Ask::Overwrite(inos)),
                false => (SubtreeOp::Data { epoch, inos: inos.clone() }, Ask::Rights(inos)),
            }
        } else {
            self.one_by_one = false;
            return None;
        };
        self.asked = true;
        Some(next)
    }
}

/// The names behind one that is looked for.
fn range_at(key: (u64, u64), need: &Need) -> Option<Need> {
    let Need::Entry { dir, name } = need else { return None };
    let from_hash = loligo_types::hash::name_hash(key, name.as_bytes());
    Some(Need::Range { dir: *dir, from_hash })
}
