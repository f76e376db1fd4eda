//! Requests of owners of decoupled subtrees: which goes where, and what the owner is told.

use loligo_types::limits::{FETCH_MAX, HELD_OPEN_MAX};
use loligo_types::{Answer, FsError, Ino, Interfere, Lease, Loaded, Need, SubtreeAnswer, SubtreeOp};

use crate::decouple::migration_guard::need_of;
use crate::io::DataAccess;
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::session::Slot;
use crate::step::Step;

impl Mds {
    /// A request about a subtree.
    pub(crate) fn subtree_op(&mut self, job: &mut Job, dir: Ino, what: &SubtreeOp) -> Step {
        if self.decoupled.by_dir.get(&dir).is_some_and(|owned| owned.merging) {
            // Half of it is in memory.
            return Step::Wait(WaitReason::Merge(dir));
        }
        let is_of_owner = !matches!(what, SubtreeOp::End { .. } | SubtreeOp::Decouple { resume: 0, .. });
        if is_of_owner && self.core.is_ending(dir) {
            return Step::Answer(Err(FsError::Stale));
        }
        if self.decoupled.is_putting_back(dir) {
            return Step::Wait(WaitReason::Merge(dir));
        }
        if let Some(step) = self.cluster.load_root(&mut self.core, job, dir) {
            return step;
        }
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir)
            && owned.by == Some((job.slot, job.session))
        {
            owned.path_bound = job.path_bound;
        }
        match what {
            SubtreeOp::Decouple { owner, resume, inos, lease_ms, interfere, promise } => {
                self.decouple(job, dir, (*owner, *resume), *inos, (*lease_ms, *interfere, *promise))
            }
            SubtreeOp::TakeOver { owner, now } => self.take_over_subtree(job, dir, *owner, *now),
            SubtreeOp::Grant { epoch, inos } => self.grant_more(job, dir, *epoch, *inos),
            SubtreeOp::Fetch { epoch, needs } => self.fetch(job, dir, *epoch, needs),
            SubtreeOp::Part { epoch, merge, part, blind, body } => {
                self.merge_part(job, dir, *epoch, (*merge, *part), (*blind, body))
            }
            SubtreeOp::Merge { epoch, merge, parts, used, into } => {
                if let Some(step) = self.cluster.wait_for_loans(&mut self.core, job, dir) {
                    return step;
                }
                self.merge_parts(job, dir, *epoch, (*merge, *parts), (*used, *into))
            }
            SubtreeOp::Data { epoch, inos } => self.subtree_data(job, dir, *epoch, inos),
            SubtreeOp::Overwrite { epoch, inos } => self.overwrite(job, dir, *epoch, inos),
            SubtreeOp::HoldOpen { epoch, first, inos } => self.hold_open(job, dir, *epoch, (*first, inos)),
            SubtreeOp::Keep { epoch, journal } => self.keep_journal(job, dir, *epoch, *journal),
            SubtreeOp::End { epoch } => self.recouple(job, dir, *epoch),
        }
    }

    /// The answer to a request that was executed before, made again.
    pub(crate) fn subtree_again(&mut self, job: &mut Job, dir: Ino, what: &SubtreeOp) -> Step {
        match what {
            // These look at what is so by now.
            SubtreeOp::Decouple { .. }
            | SubtreeOp::TakeOver { .. }
            | SubtreeOp::Fetch { .. }
            | SubtreeOp::Merge { .. }
            | SubtreeOp::Data { .. }
            | SubtreeOp::Overwrite { .. }
            | SubtreeOp::Keep { .. } => self.subtree_op(job, dir, what),
            SubtreeOp::Grant { epoch, .. } => {
                if let Some(step) = self.cluster.load_root(&mut self.core, job, dir) {
                    return step;
                }
                Step::Answer(
                    self.decoupled
                        .owned(&self.core, job, dir, *epoch)
                        .and_then(|record| self.core.tell_decoupled(record)),
                )
            }
            SubtreeOp::Part { .. } | SubtreeOp::HoldOpen { .. } | SubtreeOp::End { .. } => {
                Step::Answer(Ok(Answer::Done))
            }
        }
    }

    fn fetch(&mut self, job: &mut Job, dir: Ino, epoch: u64, needs: &[Need]) -> Step {
        let record = match self.decoupled.owned(&self.core, job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        let mut missing = Vec::new();
        let mut items: Vec<Loaded> = Vec::new();
        for need in needs {
            let ino = need_of(need);
            match if ino == dir {
                Ok(true)
            } else {
                self.decoupled.may_be_below(&mut self.core, &mut self.cluster, ino, dir)
            } {
                Ok(true) => self.decoupled.note_lent(&self.core, ino, dir),
                // Others have removed it since the owner heard of it; it does not hear of that before the merge.
                Ok(false)
                    if self.core.tree.inode(ino).is_some_and(|inode| self.decoupled.is_held_for(&record, inode)) => {}
                // It has a name there, but is counted elsewhere: it is others', too.
                Ok(false) if self.core.tree.inode(ino).is_some() => return Step::Answer(Err(FsError::Busy)),
                // Or it lives by itself at another rank.
                Ok(false) if self.cluster.is_elsewhere(&mut self.core, ino) => {
                    return self.ways.fetch_home(&mut self.core, &mut self.cluster, job, dir, ino);
                }
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
                None => missing.push(to_be_read(need)),
            }
        }
        if missing.is_empty() {
            return Step::Answer(Ok(Answer::Subtree(Box::new(SubtreeAnswer::Records(items)))));
        }
        missing.sort_unstable();
        missing.dedup();
        self.cluster.wait_to_know(&mut self.core, job, missing)
    }

    /// A file that lived by itself at another rank may have come here since, with what clients held of it, and of one that nothing counts any more
    /// it was not known that it is in the subtree: the owner has it when they do not any more.
    fn ask_late_back(&mut self, job: &mut Job, ino: Ino, interfere: Interfere) -> Option<Step> {
        if self.cluster.is_alone() && self.core.tree.inode(ino).is_none_or(|inode| inode.place.rank().is_none()) {
            return None;
        }
        if self.opens.is_in_the_way(ino, interfere)
            && let Some(step) =
                self.recalls.wait_for_closes_of(&mut self.core, &self.sessions, &self.opens, job, &[ino])
        {
            return Some(step);
        }
        let held: Vec<(Slot, Lease)> = self.leases.holders(ino).filter(|(_, held)| !held.is_none()).collect();
        if held.is_empty() {
            return None;
        }
        let (id, count) = (self.core.parked.number(job), held.len());
        held.into_iter()
            .for_each(|(slot, bits)| self.recalls.recall(&mut self.core, &self.sessions, ino, slot, bits, id));
        Some(Step::Wait(WaitReason::Recall(count)))
    }

    /// The owner has these open.
    fn hold_open(&mut self, job: &mut Job, dir: Ino, epoch: u64, (first, inos): (bool, &[Ino])) -> Step {
        if let Err(error) = self.decoupled.owned(&self.core, job, dir, epoch) {
            return Step::Answer(Err(error));
        }
        if first && self.core.allows(dir) && !self.decoupled.by_dir.get(&dir).is_some_and(|owned| owned.has_left) {
            // One that says this opens there by itself. What its session has of the rank goes, and it gets no more.
            self.decoupled.set_answers(dir, true);
            if let Some(step) = self.leave_own(job, dir) {
                if matches!(step, Step::Answer(_)) {
                    self.decoupled.set_answers(dir, false);
                }
                return step;
            }
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { return Step::Answer(Err(FsError::Stale)) };
        if first {
            owned.has_left = owned.answers;
            owned.held.open.clear();
        }
        if owned.held.open.len() + inos.len() > HELD_OPEN_MAX {
            return Step::Answer(Err(FsError::Quota));
        }
        owned.held.open.extend(inos);
        Step::Answer(Ok(Answer::Done))
    }

    /// The session of an owner which answers below the root by itself from now on gives back what it has there as one of those that work there.
    fn leave_own(&mut self, job: &mut Job, dir: Ino) -> Option<Step> {
        let mut open = Vec::new();
        for ino in self.opens.inos() {
            if self.opens.access(ino, job.slot) == DataAccess::None {
                continue;
            }
            match self.cluster.is_below(&mut self.core, ino, dir) {
                Ok(below) => open.extend(below.then_some(ino)),
                Err(needs) => return Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
            }
        }
        if let Some(step) =
            self.recalls.wait_for_closes_by(&mut self.core, &self.sessions, &self.opens, job, &open, Some(job.slot))
        {
            return Some(step);
        }
        match self.leases.held_below(&mut self.core, &mut self.cluster, dir, Some(job.slot)) {
            Ok(due) if due.is_empty() => None,
            Ok(due) => Some(self.recalls.recall_held(&mut self.core, &self.sessions, job, due)),
            Err(needs) => Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
        }
    }
}

/// Names are wanted, whatever was asked for of them.
fn to_be_read(need: &Need) -> Need {
    match need {
        Need::Hashes { dir, from_hash } => Need::Range { dir: *dir, from_hash: *from_hash },
        need => need.clone(),
    }
}
