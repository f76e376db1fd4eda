//! The stages of a pipeline, carried out for a subtree that is decoupled for this client: each begins when all of the one before has succeeded,
//! and what stands in parallel runs at the same time. A failure is told with the name of its stage, and what was done before counts. Which
//! begins when is said by [`loligo_subtree_policy::Run`]. Not here: the journal's way into the store (`store.rs`), and the merge (`task.rs`).
//!
//! The rules of pipelines have no apply beside a persist, so an answer of a rank is either about the store or about the merge.

use std::sync::Arc;

use loligo_subtree_policy::Mechanism;
use loligo_types::{Answer, Cred, FsError, FsResult, Op, SubtreeOp};

use super::task::{Merging, OwnTask, Stage};
use crate::Output;
use crate::core::Core;
use crate::machine::Client;
use crate::own::Own;
use crate::ranks::Ranks;
use crate::session::Then;
use crate::task::Event;

impl Own {
    /// Bytes could not be made durable: without them the first stage would keep nothing.
    pub(super) fn not_synced(&mut self, core: &mut Core, own: &mut OwnTask, error: FsError) -> Option<FsResult<()>> {
        if let Some(first) = own.goal.stages.mechanisms().first() {
            self.stage_failed(core, own, *first, error);
        }
        Some(Err(error))
    }

    pub(crate) fn stage_ended(
        &mut self,
        core: &mut Core,
        own: &mut OwnTask,
        mechanism: Mechanism,
        result: FsResult<()>,
    ) {
        own.run.ended(mechanism, result.is_ok());
        match result {
            Ok(()) => {
                let owned = self.trees.get_mut(&own.root);
                _ = owned.and_then(|owned| owned.failed.take_if(|(failed, _)| *failed == mechanism));
            }
            Err(error) => self.stage_failed(core, own, mechanism, error),
        }
    }

    /// A stage has failed: it is told once, until it succeeds or fails in another way. It is begun again with the next completion.
    pub(crate) fn stage_failed(&mut self, core: &mut Core, own: &mut OwnTask, mechanism: Mechanism, error: FsError) {
        own.failed.get_or_insert((mechanism, error));
        let now = core.now.ms;
        let Some(owned) = self.trees.get_mut(&own.root) else { return };
        // The next one by itself when the interval has gone by again.
        owned.synced_ms = now;
        if owned.failed.replace((mechanism, error)) != Some((mechanism, error)) {
            core.out.push_back(Output::StageFailed { dir: own.root, stage: mechanism.name(), error });
        }
    }

    /// Has the driver put what is outstanding on this machine's disk.
    pub(crate) fn keep(&mut self, core: &mut Core, ranks: &Ranks, id: u64, own: &OwnTask) -> Option<FsResult<()>> {
        let Some(owned) = self.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        if owned.machine.outstanding().changes == 0 {
            return Some(Ok(()));
        }
        owned.persisting = owned.machine.outstanding().changes;
        let (record, groups) = (Box::new(owned.machine.record().clone()), owned.machine.groups());
        let fs = ranks.fs_id.unwrap_or_default();
        core.out.push_back(Output::Keep { token: id, fs, record, groups });
        None
    }

    pub(crate) fn file_kept(&mut self, own: &OwnTask, result: FsResult<Box<str>>) -> FsResult<()> {
        let file = result?;
        if let Some(owned) = self.trees.get_mut(&own.root) {
            (owned.persisted, owned.kept) = (owned.persisting, Some(file));
        }
        Ok(())
    }
}

impl Client {
    /// Bytes are where the stages need them: the first stage begins.
    pub(super) fn own_synced(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        own.stage = Stage::Stages;
        own.run = own.goal.stages.run();
        own.failed = None;
        self.own_run_on(id, own, cred)
    }

    /// Begins what can begin. What the task came to, if nothing is under way any more.
    fn own_run_on(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        loop {
            let begun = own.run.begin();
            if begun.is_empty() {
                break;
            }
            for mechanism in begun {
                if let Some(result) = self.own_begin_stage(id, own, cred, mechanism) {
                    self.own.stage_ended(&mut self.core, own, mechanism, result);
                }
            }
        }
        match own.failed {
            _ if !own.run.is_over() => None,
            Some((_, error)) => Some(Err(error)),
            // A merge has asked the rank already.
            None if own.goal.stages.applies() => self.own_applied(id, own, cred),
            None => self.own_check(id, own, cred),
        }
    }

    fn own_begin_stage(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        mechanism: Mechanism,
    ) -> Option<FsResult<()>> {
        match mechanism {
            Mechanism::LocalPersist => self.own.keep(&mut self.core, &self.ranks, id, own),
            Mechanism::GlobalPersist => self.own_store(id, own),
            Mechanism::VolatileApply | Mechanism::NonvolatileApply => {
                own.rounds = 0;
                let is_seen = self.own.trees.get(&own.root).is_some_and(super::Owned::is_seen_by_others);
                if is_seen { self.own_freeze(id, own, cred) } else { self.own_cut(id, own, cred) }
            }
            // They are done with each operation.
            Mechanism::Rpcs | Mechanism::AppendClientJournal | Mechanism::Stream => Some(Ok(())),
        }
    }

    /// Something happens while stages run, or while the rank is asked whose the subtree is.
    pub(super) fn own_hear(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        event: Event,
    ) -> Option<FsResult<()>> {
        let (mechanism, ended) = match event {
            Event::Kept(result) => (Mechanism::LocalPersist, Some(self.own.file_kept(own, result))),
            Event::Data(result) => (Mechanism::GlobalPersist, self.own_store_data(id, own, cred, result)),
            Event::Reply(result) if own.store.as_ref().is_some_and(super::store::Store::registers) => {
                (Mechanism::GlobalPersist, Some(self.own_store_kept(own, result)))
            }
            Event::Reply(result) => (self.own_apply(own), self.own_hear_of_merge(id, own, cred, result)),
            Event::Start if own.merging == Merging::Freeze => (self.own_apply(own), self.own_freeze(id, own, cred)),
            Event::Flushed if own.merging == Merging::Freeze => {
                own.left = own.left.saturating_sub(1);
                let frozen = if own.left == 0 { self.own_freeze(id, own, cred) } else { None };
                (self.own_apply(own), frozen)
            }
            Event::Start if own.merging == Merging::Parts => (self.own_apply(own), self.own_parts(id, own, cred)),
            _ => return None,
        };
        let result = ended?;
        if own.stage == Stage::Check {
            // The stages are over.
            return match result {
                Ok(()) => self.own_applied(id, own, cred),
                error => Some(error),
            };
        }
        self.own.stage_ended(&mut self.core, own, mechanism, result);
        self.own_run_on(id, own, cred)
    }

    /// The apply that runs.
    fn own_apply(&self, own: &OwnTask) -> Mechanism {
        let applies = own.goal.stages.mechanisms().into_iter().find(|mechanism| mechanism.applies());
        applies.unwrap_or(Mechanism::VolatileApply)
    }

    fn own_hear_of_merge(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match own.merging {
            Merging::Parts => {
                self.own_part_answered(own, result);
                self.own_parts(id, own, cred)
            }
            Merging::Merge => self.own_merged(id, own, cred, result),
            Merging::Resume => self.own_resumed(id, own, cred, result),
            Merging::Hold => self.own_held_open(id, own, cred, result),
            Merging::Rebase => self.own_rebase_on(id, own, cred, result),
            Merging::Refresh => self.own_refreshed(id, own, cred, result),
            Merging::Not if own.stage == Stage::Check => match result {
                // It does not know this session for the owner's, or somebody else has it.
                Err(FsError::Stale) => self.own_parts_failed(id, own, cred, FsError::Stale),
                // Or it is not there, and is not waited for.
                _ => Some(Ok(())),
            },
            Merging::Not | Merging::Freeze => None,
        }
    }

    /// Cuts the journal where it is now, and sends the part before the cut to be merged.
    pub(super) fn own_cut(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        if let Err(error) = self.own.seal(&self.core, own) {
            return Some(Err(error));
        }
        self.own_parts(id, own, cred)
    }

    /// The driver has put the journal on the disk, or cannot.
    pub(crate) fn own_keep_done(&mut self, token: u64, result: FsResult<Box<str>>) {
        self.calls.events.push_back((token, Event::Kept(result)));
    }

    /// Asks the rank whether the subtree is this client's still, if the rank can be reached: a sync to the local disk must not succeed after somebody
    /// else was told that it has the subtree. A store or a merge has asked already.
    fn own_check(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let rank = self.ranks.own_rank(own.root);
        if !own.goal.local() || own.goal.end || !self.ranks.is_up(rank) {
            return self.own_applied(id, own, cred);
        }
        let epoch = self.own.trees.get(&own.root)?.machine.record().epoch;
        own.stage = Stage::Check;
        let what = Box::new(SubtreeOp::Fetch { epoch, needs: Vec::new() });
        self.request_at(rank, Cred::clone(cred), Op::Subtree { dir: own.root, what }, Then::OwnTask(id), 0);
        None
    }
}
