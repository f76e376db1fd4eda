//! The stages of a pipeline, carried out for a subtree that is decoupled for this client, and the cut before its merge, and taking over
//! what others did meanwhile. Each stage begins when all of the one before has succeeded, and what stands in parallel runs at the same time. A failure is
//! told with the name of its stage, and what was done before counts. Which begins when is said by [`loligo_subtree_policy::Run`]. Not here: the parts of a
//! merge and the end (`task.rs`), and the journal's way into the store (`serve.rs`).
//!
//! The rules of pipelines have no apply beside a persist, so an answer of a rank is either about the store or about the merge.

use std::sync::Arc;

use loligo_subtree_policy::Mechanism;
use loligo_types::{Answer, Attr, Control, Cred, FsError, FsResult, Ino, Need, Op, SubtreeAnswer, SubtreeOp};

use super::OWN;
use crate::machine::Client;
use crate::own::goal::{Merging, OwnTask, Stage, TRIES};
use crate::own::needs::Ask;
use crate::own::rebase::chunks;
use crate::route::NOWHERE;
use crate::session::Then;
use crate::task::Event;

/// If nothing says that a change has ended, it is looked again after so long, milliseconds.
const FREEZE_PAUSE_MS: u64 = 20;
/// Most rounds of waiting for writes that are under way and looking again.
const ROUNDS_MAX: u32 = 1000;

impl Client {
    /// Bytes are where the stages need them: the first stage begins.
    pub(crate) fn own_synced(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
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
    pub(crate) fn own_hear(
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
            Event::Reply(result) => (own.goal.apply(), self.own_hear_of_merge(id, own, cred, result)),
            Event::Start if own.merging == Merging::Freeze => (own.goal.apply(), self.own_freeze(id, own, cred)),
            Event::Flushed if own.merging == Merging::Freeze => {
                own.left = own.left.saturating_sub(1);
                let frozen = if own.left == 0 { self.own_freeze(id, own, cred) } else { None };
                (own.goal.apply(), frozen)
            }
            Event::Start if own.merging == Merging::Parts => (own.goal.apply(), self.own_parts(id, own, cred)),
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

    fn own_hear_of_merge(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match own.merging {
            Merging::Parts => {
                own.part_answered(result);
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
    fn own_cut(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
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
        self.request_at(
            rank,
            Cred::clone(cred),
            Op::Control(Control::Subtree { dir: own.root, what }),
            Then::OwnTask(id),
            0,
        );
        None
    }

    /// Cuts off what is merged, when all that was written before is at the server.
    fn own_freeze(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        own.merging = Merging::Freeze;
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        owned.freezing = true;
        let dirty = self.own.unwritten(&self.files, own.root);
        if dirty.is_empty() && !self.own.is_changing(&self.ranks, &self.files, own.root) {
            let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
            owned.sealed = true;
            if owned.is_shared() {
                // A write from here on would go over changes that others made meanwhile.
                owned.gated = true;
                return self.own_hold_open(id, own, cred);
            }
            owned.freezing = false;
            self.own.start_writes(&mut self.calls, &self.ranks, &mut self.files, own.root);
            return self.own_cut(id, own, cred);
        }
        own.rounds += 1;
        if own.rounds > ROUNDS_MAX {
            return Some(Err(FsError::Busy));
        }
        own.left = dirty.len();
        for ino in &dirty {
            if own.goal.durable { self.sync_then(*ino, id) } else { self.flush_then(*ino, id) }
        }
        if dirty.is_empty() {
            own.again_ms = Some(self.core.now.ms + FREEZE_PAUSE_MS);
        }
        None
    }

    /// Ends freezing and sealing once the cut state is merged, or will not be; sends the data requests that waited for it.
    pub(crate) fn own_unseal(&mut self, root: Ino) {
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        let was_frozen = std::mem::take(&mut owned.freezing);
        let was_gated = std::mem::take(&mut owned.gated);
        owned.sealed = false;
        for (id, pending) in std::mem::take(&mut owned.held) {
            self.own_data(id, pending);
        }
        if was_gated {
            self.own_retry(root);
        }
        if was_frozen {
            self.own.start_writes(&mut self.calls, &self.ranks, &mut self.files, root);
        }
        self.own_start_unforked(root);
    }

    /// Tells the rank that programs here ask this client for what is below, and not the rank any more: what the rank has lent of it is given back.
    pub(crate) fn own_say_answers(&mut self, root: Ino, command: Option<u64>) {
        let Some(owned) = self.own.trees.get(&root) else { return };
        let what = SubtreeOp::HoldOpen { epoch: owned.machine.record().epoch, first: true, inos: Vec::new() };
        self.own_say(root, what, Ask::Answers(command));
    }

    /// The rank knows it, or a program has something open that it has opened at the rank.
    pub(crate) fn own_answers(&mut self, root: Ino, command: Option<u64>, result: FsResult<()>) {
        // Another session is introduced by what is asked next.
        let Some(command) = command else { return };
        let Some(owned) = self.own.trees.get_mut(&root) else {
            return self.own.commands.done(command, Err(FsError::Stale));
        };
        match result {
            Ok(()) => {
                owned.gated = false;
                self.own.commands.done(command, Ok((0, 0)));
                self.own_retry(root);
                self.own_start_unforked(root);
            }
            Err(error) => {
                let what = SubtreeOp::End { epoch: owned.machine.record().epoch };
                self.own_say(root, what, Ask::Undo(command, error));
            }
        }
    }

    /// It is given back as it was, or the rank takes it back.
    pub(crate) fn own_undone(&mut self, root: Ino, command: u64, error: FsError) {
        self.own.commands.done(command, Err(error));
        // Whatever the rank says of it: this client does not have it.
        _ = self.own_ended(root, Ok(Answer::Done));
    }

    /// Tells the rank what is open here; then the merge begins.
    pub(crate) fn own_hold_open(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let record = owned.machine.record();
        let open: Vec<Ino> = owned.opens.keys().copied().filter(|ino| !record.is_new(*ino)).collect();
        own.open = chunks(open);
        if own.open.is_empty() {
            // Nothing: what was open before the last merge is not any more.
            own.open.push_back(Vec::new());
        }
        own.merging = Merging::Hold;
        own.told = 0;
        self.own_hold_next(id, own, cred)
    }

    fn own_hold_next(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(inos) = own.open.pop_front() else { return self.own_cut(id, own, cred) };
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let what = SubtreeOp::HoldOpen { epoch: owned.machine.record().epoch, first: own.told == 0, inos };
        own.told += 1;
        self.own_ask_rank(id, own, cred, what);
        None
    }

    fn own_ask_rank(&mut self, id: u64, own: &OwnTask, cred: &Arc<Cred>, what: SubtreeOp) {
        let op = Op::Control(Control::Subtree { dir: own.root, what: Box::new(what) });
        self.request_at(self.ranks.own_rank(own.root), Cred::clone(cred), op, Then::OwnTask(id), 0);
    }

    /// The rank knows it, or does not know this session for the owner's.
    fn own_held_open(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match result {
            Ok(_) => self.own_hold_next(id, own, cred),
            // More than the rank remembers: handles of the rest are stale if others have removed what they open.
            Err(FsError::Quota) => {
                own.open.clear();
                self.own_cut(id, own, cred)
            }
            // The rank is told who this is, and asked once more.
            Err(FsError::Stale) => self.own_parts_failed(id, own, cred, FsError::Stale),
            Err(error) => Some(Err(error)),
        }
    }

    /// All is merged: asks the rank for the root as it is now.
    pub(crate) fn own_rebase(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        own.merging = Merging::Rebase;
        let what = self.own.resume_op(own.root)?;
        self.own_ask_rank(id, own, cred, what);
        None
    }

    /// The root is known: all else is forgotten, and the files that are open are fetched.
    fn own_rebase_on(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        let (record, inode) = match result {
            Ok(Answer::Subtree(answer)) => match *answer {
                SubtreeAnswer::Decoupled { record, root, .. } => (record, root),
                _ => return Some(Err(FsError::Io)),
            },
            Ok(_) => return Some(Err(FsError::Io)),
            Err(error) => return self.own_not_resumed(own, error),
        };
        if self.own.trees.get(&own.root).is_some_and(|owned| owned.machine.outstanding().changes > 0) {
            // Nothing else has them.
            return Some(Err(FsError::Busy));
        }
        // Programs that wait here may be waited for by the kernel when it drops something, so that is not waited for.
        self.own.drop_cached(&mut self.core, own.root, false);
        let idle: Vec<Ino> =
            self.files.files_at(OWN).into_iter().filter(|ino| self.own.root_of(*ino) == Some(own.root)).collect();
        idle.into_iter().for_each(|ino| self.close_unused(ino));
        self.send_closes();
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        owned.machine.take_record(record);
        owned.forked.clear();
        owned.rebased += 1;
        let opens = &owned.opens;
        owned.machine.forget_but(*inode, &|ino| opens.contains_key(&ino));
        // Of those that were removed here, and merged, the rank knows nothing.
        let open: Vec<Ino> = opens.keys().copied().filter(|ino| owned.machine.inode(*ino).is_none()).collect();
        own.open = chunks(open);
        self.own_refresh(id, own, cred)
    }

    fn own_refresh(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let Some(inos) = own.open.pop_front() else { return Some(self.own_rebased(own.root)) };
        own.merging = Merging::Refresh;
        let needs = inos.into_iter().map(Need::Inode).collect();
        let what = SubtreeOp::Fetch { epoch: owned.machine.record().epoch, needs };
        self.own_ask_rank(id, own, cred, what);
        None
    }

    fn own_refreshed(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match result {
            Ok(Answer::Subtree(answer)) => {
                if let (SubtreeAnswer::Records(items), Some(owned)) = (*answer, self.own.trees.get_mut(&own.root)) {
                    owned.machine.learn_open(items);
                }
            }
            // The rank has another session of this client by now: all is asked once more.
            Err(FsError::Stale) if own.tries < TRIES => {
                own.tries += 1;
                return self.own_rebase(id, own, cred);
            }
            // One that has gone elsewhere, or is nobody's any more: its handles are stale.
            _ => {}
        }
        self.own_refresh(id, own, cred)
    }

    /// Files that are open here become what they are now. Programs go on.
    fn own_rebased(&mut self, root: Ino) -> FsResult<()> {
        let owned = self.own.trees.get(&root).ok_or(FsError::Stale)?;
        let open: Vec<(Ino, Option<Attr>)> =
            owned.opens.keys().map(|ino| (*ino, owned.machine.inode(*ino).map(|inode| inode.attr()))).collect();
        let mut gone = Vec::new();
        for (ino, attr) in open {
            match attr {
                Some(attr) => self.files.own_becomes(&mut self.core, &attr),
                None => gone.push(ino),
            }
        }
        if !gone.is_empty() {
            self.own_lose_files(root, &gone);
        }
        self.own_unseal(root);
        Ok(())
    }

    /// Handles of files that are not there any more, and were not said to be open in time.
    fn own_lose_files(&mut self, root: Ino, gone: &[Ino]) {
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        owned.handles.retain(|handle, ino| {
            let stays = !gone.contains(ino);
            if !stays {
                self.files.at.insert(*handle, NOWHERE);
                _ = self.files.map.get_mut(ino).map(|file| file.rank = NOWHERE);
            }
            stays
        });
        owned.opens.retain(|ino, _| !gone.contains(ino));
        self.lose_held(NOWHERE, std::collections::BTreeSet::new(), false);
    }
}
