//! Records that the owner of a decoupled subtree fetches, as the rank has them: the root and what is below it, nothing else.

use loligo_types::limits::FETCH_MAX;
use loligo_types::{Answer, FsError, Ino, Interfere, Lease, Loaded, Need, SubtreeAnswer};

use super::migration_guard::need_of;
use crate::execute::Step;
use crate::machine::Mds;
use crate::park::{Job, WaitReason};
use crate::session::Slot;

impl Mds {
    pub(super) fn fetch(&mut self, job: &mut Job, dir: Ino, epoch: u64, needs: &[Need]) -> Step {
        let record = match self.owned(job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        let mut missing = Vec::new();
        let mut items: Vec<Loaded> = Vec::new();
        for need in needs {
            let ino = need_of(need);
            match if ino == dir { Ok(true) } else { self.may_be_below(ino, dir) } {
                Ok(true) => self.note_lent(ino, dir),
                // Others have removed it since the owner heard of it; it does not hear of that before the merge.
                Ok(false) if self.core.tree.inode(ino).is_some_and(|inode| self.is_held_for(&record, inode)) => {}
                // It has a name there, but is counted elsewhere: it is others', too.
                Ok(false) if self.core.tree.inode(ino).is_some() => return Step::Answer(Err(FsError::Busy)),
                // Or it lives by itself at another rank.
                Ok(false) if self.is_elsewhere(ino) => return self.fetch_home(job, dir, ino),
                Ok(false) => {}
                Err(needs) => {
                    missing.extend(needs);
                    continue;
                }
            }
            if record.interfere.is_exclusive()
                && ino != dir
                && let Some(step) = self.ask_late_back(job, ino, record.interfere)
            {
                return step;
            }
            match self.core.tree.lend(need, FETCH_MAX) {
                Some(item) => {
                    if let (Need::Inline(ino), Interfere::Allow) = (need, record.interfere) {
                        // Others may have changed it since the owner fetched the inode: size and data are of one moment.
                        items.extend(self.core.tree.lend(&Need::Inode(*ino), FETCH_MAX));
                    }
                    items.push(item);
                }
                None if matches!(need, Need::Parts(_)) => return Step::Answer(Err(FsError::Invalid)),
                None => missing.push(self.to_be_read(need)),
            }
        }
        if missing.is_empty() {
            return Step::Answer(Ok(Answer::Subtree(Box::new(SubtreeAnswer::Records(items)))));
        }
        missing.sort_unstable();
        missing.dedup();
        self.wait_to_know(job, missing)
    }

    /// A file that lived by itself at another rank may have come here since, with what clients held of it, and of one that nothing counts any more
    /// it was not known that it is in the subtree: the owner has it when they do not any more.
    fn ask_late_back(&mut self, job: &mut Job, ino: Ino, interfere: Interfere) -> Option<Step> {
        if self.cluster.is_alone() && self.core.tree.inode(ino).is_none_or(|inode| inode.place.rank().is_none()) {
            return None;
        }
        if self.is_in_the_way(ino, interfere)
            && let Some(step) = self.wait_for_closes_of(job, &[ino])
        {
            return Some(step);
        }
        let held: Vec<(Slot, Lease)> = self.leases.holders(ino).filter(|(_, held)| !held.is_none()).collect();
        if held.is_empty() {
            return None;
        }
        let (id, count) = (self.core.parked.number(job), held.len());
        held.into_iter().for_each(|(slot, bits)| self.recall(ino, slot, bits, id));
        Some(Step::Wait(WaitReason::Recall(count)))
    }

    /// Names are wanted, whatever was asked for of them.
    fn to_be_read(&self, need: &Need) -> Need {
        match need {
            Need::Hashes { dir, from_hash } => Need::Range { dir: *dir, from_hash: *from_hash },
            need => need.clone(),
        }
    }
}
