//! What the owner of a decoupled subtree is told of what is in it: records, as the rank has them. Nothing else than what is below its
//! root, and its root.

use loligo_types::limits::FETCH_MAX;
use loligo_types::{Answer, FsError, Ino, Loaded, Need, SubtreeAnswer};

use crate::execute::Step;
use crate::machine::Mds;
use crate::park::Job;

/// What a need is about.
fn subject(need: &Need) -> Ino {
    match need {
        Need::Inode(ino) | Need::Xattrs(ino) | Need::Inline(ino) | Need::Parts(ino) => *ino,
        Need::Entry { dir, .. } | Need::Range { dir, .. } | Need::Hashes { dir, .. } => *dir,
    }
}

impl Mds {
    pub(super) fn fetch(&mut self, job: &mut Job, dir: Ino, epoch: u64, needs: &[Need]) -> Step {
        let record = match self.owned(job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        let mut missing = Vec::new();
        let mut items: Vec<Loaded> = Vec::new();
        for need in needs {
            let ino = subject(need);
            match if ino == dir { Ok(true) } else { self.may_be_below(ino, dir) } {
                Ok(true) => {}
                // Others have removed it since the owner heard of it; it does not hear of that before the merge.
                Ok(false) if self.tree.inode(ino).is_some_and(|inode| self.is_held_for(&record, inode)) => {}
                // It has a name there, but is counted elsewhere: it is others', too.
                Ok(false) if self.tree.inode(ino).is_some() => return Step::Answer(Err(FsError::Busy)),
                Ok(false) => {}
                Err(needs) => {
                    missing.extend(needs);
                    continue;
                }
            }
            match self.tree.lend(need, FETCH_MAX) {
                Some(item) => items.push(item),
                None if matches!(need, Need::Parts(_)) => return Step::Answer(Err(FsError::Invalid)),
                None => missing.push(self.to_be_read(need)),
            }
        }
        if missing.is_empty() {
            return Step::Answer(Ok(Answer::Subtree(Box::new(SubtreeAnswer::Records(items)))));
        }
        missing.sort_unstable();
        missing.dedup();
        self.wait_for(job, missing)
    }

    /// Names are wanted, whatever was asked for of them.
    fn to_be_read(&self, need: &Need) -> Need {
        match need {
            Need::Hashes { dir, from_hash } => Need::Range { dir: *dir, from_hash: *from_hash },
            need => need.clone(),
        }
    }
}
