//! Completing what was done in a subtree that is decoupled for this client, as its policy says or as somebody asks: bytes to the server,
//! the stages of the pipeline (`merge.rs`), the parts of a merge, the end. One such task at a time in a subtree; programs go on meanwhile, and what they do then is
//! another task's to complete. Not what each mechanism promises: `docs/subtree-policies.md`.

use std::sync::Arc;

use loligo_subtree::{FULL_PAUSE_MS, PARTS_IN_FLIGHT};
use loligo_types::{Answer, Control, Cred, FsError, FsResult, Ino, Op, SubtreeAnswer, SubtreeOp};

use super::{OWN, Owned};
use crate::calls::Waiter;
use crate::machine::Client;
use crate::own::goal::{Merging, OwnTask, Stage, TRIES};
use crate::own::needs::record_of;
use crate::session::Then;
use crate::task::{Event, Step, Task};
use crate::{Call, CallResult, Done, Output};

/// Pause before the end is tried again while changes of objects wait for their right, milliseconds.
const QUIET_PAUSE_MS: u64 = 20;
/// So long the end waits for handles that are in use, milliseconds: a kernel tells of a close after the program has gone on.
const CLOSE_MS: u64 = 1500;

impl Client {
    /// Ends a task with its result; the next one begins.
    fn own_finish(&mut self, own: &OwnTask, result: FsResult<()>) -> CallResult {
        self.own_unseal(own.root);
        if let Some(command) = own.command {
            let stage = own.failed.filter(|(_, error)| result == Err(*error)).map(|(mechanism, _)| mechanism);
            self.own.commands.ended(command, result.map(|()| (own.records, own.merged)), stage, own.conflicts.clone());
        }
        if let Some(owned) = self.own.trees.get_mut(&own.root) {
            owned.task = None;
            owned.given_up |= self.core.stopping && result.is_err();
            if let Some(next) = owned.queue.pop_front() {
                self.own.start(&mut self.calls, own.root, next);
            }
        }
        result.map(|()| Done::plain(Answer::Done)).map_err(Into::into)
    }

    pub(crate) fn step_own(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let cred = Arc::clone(&task.cred);
        let Step::Own(own) = &mut task.step else { return None };
        if !self.own.trees.contains_key(&own.root) && own.stage != Stage::Policy {
            // It was lost meanwhile.
            return Some(self.own_finish(own, Err(FsError::Stale)));
        }
        let ended = match (own.stage, event) {
            (Stage::Flush, Event::Start) => {
                own.left = if own.goal.flush { 1 + self.own_flush(id, own) } else { 1 };
                self.calls.events.push_back((id, Event::Flushed));
                None
            }
            (Stage::Flush, Event::Flushed) => {
                own.left = own.left.saturating_sub(1);
                if own.left == 0 { self.own_flushed(id, own, &cred) } else { None }
            }
            (Stage::Sync, Event::Reply(result)) => match result {
                Ok(_) => self.own_synced(id, own, &cred),
                Err(error) => self.own.not_synced(&mut self.core, own, error),
            },
            (Stage::Stages | Stage::Check, event) => self.own_hear(id, own, &cred, event),
            (Stage::Close, Event::Start) if own.goal.abandon || self.own.is_in_use(&self.files, own.root) => {
                self.own_drop_caches(id, own, &cred)
            }
            (Stage::Close, Event::Start) => {
                // With a close something may have been written.
                own.stage = Stage::Flush;
                self.calls.events.push_back((id, Event::Start));
                None
            }
            (Stage::Drop, Event::Start) => {
                self.own_say_end(id, own, &cred);
                None
            }
            (Stage::Drop, Event::Dropped) => {
                own.left = own.left.saturating_sub(1);
                if own.left == 0 {
                    self.own_say_end(id, own, &cred);
                }
                None
            }
            (Stage::End, Event::Reply(result)) => Some(self.own_ended(own.root, result)),
            (Stage::Policy, Event::Reply(result)) => {
                if let (Ok(_), Some(changed), Some(owned)) =
                    (&result, own.policy.take(), self.own.trees.get_mut(&own.root))
                {
                    owned.policy = changed.0;
                }
                Some(result.map(drop))
            }
            _ => None,
        };
        if let (Some(Ok(())), Some(changed), false) = (&ended, &own.policy, own.stage == Stage::Policy) {
            own.stage = Stage::Policy;
            self.request_at(self.ranks.own_rank(own.root), Cred::clone(&cred), changed.1.clone(), Then::OwnTask(id), 0);
            return None;
        }
        ended.map(|result| self.own_finish(own, result))
    }

    /// Files with something to be written. How many.
    fn own_flush(&mut self, id: u64, own: &OwnTask) -> usize {
        let durable = own.goal.durable;
        let of_it = |ino: &Ino| self.own.root_of(*ino) == Some(own.root);
        let waits = |file: &crate::file::File| !file.is_clean() || file.run.is_some() || durable && file.unsynced;
        let found = self.files.map.iter().filter(|(_, file)| file.rank == OWN && waits(file));
        let inos: Vec<Ino> = found.map(|(ino, _)| *ino).filter(of_it).collect();
        for ino in &inos {
            if durable { self.sync_then(*ino, id) } else { self.flush_then(*ino, id) }
        }
        inos.len()
    }

    fn own_flushed(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        if own.goal.abandon {
            return self.own_drop_caches(id, own, cred);
        }
        let is_rank = !self.own.has_written(own.root);
        if !own.goal.durable || is_rank {
            return self.own_synced(id, own, cred);
        }
        // What was written through handles that are closed by now.
        own.stage = Stage::Sync;
        self.request_at(
            self.ranks.own_rank(own.root),
            Cred::clone(cred),
            Op::Control(Control::Sync),
            Then::OwnTask(id),
            0,
        );
        None
    }

    pub(super) fn own_applied(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        self.own_unseal(own.root);
        if !own.goal.end {
            return Some(Ok(()));
        }
        let outstanding = self.own.trees.get(&own.root).is_some_and(|owned| owned.machine.outstanding().changes > 0);
        if outstanding {
            // Made meanwhile, or never to be merged by itself.
            return if own.goal.stages.applies() && own.tries < TRIES {
                own.tries += 1;
                own.stage = Stage::Flush;
                self.calls.events.push_back((id, Event::Start));
                None
            } else {
                Some(Err(FsError::NotEmpty))
            };
        }
        self.own_drop_caches(id, own, cred)
    }

    /// Nothing of it may be held above when it is others', too.
    fn own_drop_caches(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let handles: Vec<u64> = owned.handles.keys().copied().collect();
        if !self.core.stopping && self.own.is_in_use(&self.files, own.root) {
            let now = self.core.now.ms;
            if now >= *own.closing_ms.get_or_insert(now) + CLOSE_MS {
                return Some(Err(FsError::Busy));
            }
            own.stage = Stage::Close;
            own.again_ms = Some(now + QUIET_PAUSE_MS);
            return None;
        }
        if !own.goal.abandon && handles.iter().any(|handle| self.files.is_needed(*handle)) {
            // Written and closed since all was flushed: it is not in the journal yet.
            own.stage = Stage::Flush;
            self.calls.events.push_back((id, Event::Start));
            return None;
        }
        handles.into_iter().for_each(|handle| self.close(handle));
        self.send_closes();
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        if owned.machine.outstanding().changes > 0 && !own.goal.abandon {
            return Some(Err(FsError::NotEmpty));
        }
        owned.ending = true;
        own.stage = Stage::Drop;
        let tokens = self.own.drop_cached(&mut self.core, own.root, true);
        own.left = tokens.len();
        for token in tokens {
            self.own.tokens.insert(token, id);
        }
        if own.left == 0 {
            self.own_say_end(id, own, cred);
        }
        None
    }

    fn own_say_end(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) {
        let waits = |owned: &Owned| !owned.data.is_empty() || !owned.held.is_empty();
        if self.own.trees.get(&own.root).is_some_and(waits) {
            // Objects of files without a name are to be dropped, for which the rank is being asked. After the end it would not be.
            own.stage = Stage::Drop;
            own.again_ms = Some(self.core.now.ms + QUIET_PAUSE_MS);
            return;
        }
        own.stage = Stage::End;
        let Some(epoch) = self.own.trees.get(&own.root).map(|owned| owned.machine.record().epoch) else { return };
        let op = Op::Control(Control::Subtree { dir: own.root, what: Box::new(SubtreeOp::End { epoch }) });
        self.request_at(self.ranks.own_rank(own.root), Cred::clone(cred), op, Then::OwnTask(id), 0);
    }

    /// It is a directory like others again, or is not this client's any more.
    pub(super) fn own_ended(&mut self, root: Ino, result: FsResult<Answer>) -> FsResult<()> {
        match result {
            // Stale: it was ended before, and the answer was lost; or it was taken back. Nothing is outstanding.
            Ok(_) | Err(FsError::Stale) => {
                let Some(owned) = self.own.trees.remove(&root) else { return Ok(()) };
                // Of what is on the disk nothing is needed: it is merged, or was given up.
                self.core.out.push_back(Output::KeptMerged { epoch: owned.machine.record().epoch, all: true });
                for job in owned.waiting {
                    self.request(&Arc::new(job.cred), job.op, job.then);
                }
                for (_, waiter, cred, call) in owned.unforked {
                    self.dispatch(waiter, &cred, call);
                }
                for task in owned.queue {
                    if let Step::Own(own) = &task.step
                        && let Some(command) = own.command
                    {
                        self.own.commands.done(command, Err(FsError::Stale));
                    }
                    self.calls.fail(&mut self.core, task.waiter, FsError::Stale);
                }
                let told = owned.told;
                told.into_iter().for_each(|(rank, id)| self.part_done(rank, root, id));
                Ok(())
            }
            Err(error) => {
                if let Some(owned) = self.own.trees.get_mut(&root) {
                    owned.ending = false;
                }
                self.own_retry(root);
                Err(error)
            }
        }
    }

    pub(crate) fn step_own_sync(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let cred = Arc::clone(&task.cred);
        let Step::OwnSync(sync) = &mut task.step else { return None };
        let Event::Done(result) = event else { return None };
        if sync.left == 0 {
            return Some(result);
        }
        sync.left -= 1;
        if let Err(failed) = result {
            sync.failed.get_or_insert(failed.error);
        }
        if sync.left > 0 {
            return None;
        }
        if let Some(error) = sync.failed {
            return Some(Err(error.into()));
        }
        let waiter = Waiter::Task(id);
        match sync.then.take()? {
            Call::SyncAll => self.sync_all(waiter, &cred),
            _ if self.ranks.is_single() => self.pass(waiter, &cred, Op::Control(Control::Sync)),
            _ => self.sync_ranks(waiter, &cred),
        }
        None
    }

    /// Sends the parts of the oldest group.
    pub(crate) fn own_parts(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        own.merging = Merging::Parts;
        let rank = self.ranks.own_rank(own.root);
        let Some(record) = self.own.trees.get(&own.root).map(|owned| owned.machine.record()) else {
            return Some(Err(FsError::Stale));
        };
        let (epoch, merge) = (record.epoch, record.merges + 1);
        let (into, blind) = self.own.how(own.root, cred);
        let blind = blind && !own.looked_through;
        let Some(group) = own.groups.front() else {
            own.merging = Merging::Not;
            let is_shared = self.own.trees.get(&own.root).is_some_and(Owned::is_shared);
            return if is_shared { self.own_rebase(id, own, cred) } else { Some(Ok(())) };
        };
        if let Some(error) = own.part_failed {
            // What was sent is still answered.
            if own.left > 0 {
                return None;
            }
            own.part_failed = None;
            return self.own_parts_failed(id, own, cred, error);
        }
        let parts = group.parts.len();
        let mut bodies = Vec::new();
        while own.next_part < parts && own.left < PARTS_IN_FLIGHT {
            bodies.push((own.next_part as u32, Arc::clone(&group.parts[own.next_part])));
            (own.next_part, own.left) = (own.next_part + 1, own.left + 1);
        }
        let used = group.used;
        for (part, body) in bodies {
            let what = Box::new(SubtreeOp::Part { epoch, merge, part, blind, body });
            let op = Op::Control(Control::Subtree { dir: own.root, what });
            self.request_at(rank, Cred::clone(cred), op, Then::OwnTask(id), 0);
        }
        if own.left == 0 {
            own.merging = Merging::Merge;
            let what = Box::new(SubtreeOp::Merge { epoch, merge, parts: parts as u32, used, into });
            self.request_at(
                rank,
                Cred::clone(cred),
                Op::Control(Control::Subtree { dir: own.root, what }),
                Then::OwnTask(id),
                0,
            );
        }
        None
    }

    /// This life of the rank does not know what was sent, or not who this is, or it has no room: from the first part on.
    pub(crate) fn own_parts_failed(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        error: FsError,
    ) -> Option<FsResult<()>> {
        own.tries += 1;
        own.next_part = 0;
        match error {
            FsError::WouldBlock if own.tries < TRIES => self.own_parts(id, own, cred),
            FsError::NoSpace if own.tries < TRIES => {
                own.merging = Merging::Parts;
                own.again_ms = Some(self.core.now.ms + (FULL_PAUSE_MS << (own.tries - 1)));
                None
            }
            FsError::Perm if !own.looked_through && self.own.how(own.root, cred).1 => {
                own.looked_through = true;
                self.own_parts(id, own, cred)
            }
            FsError::Stale if own.tries < TRIES => {
                own.merging = Merging::Resume;
                if let Some(what) = self.own.resume_op(own.root) {
                    let op = Op::Control(Control::Subtree { dir: own.root, what: Box::new(what) });
                    self.request_at(self.ranks.own_rank(own.root), Cred::clone(cred), op, Then::OwnTask(id), 0);
                }
                None
            }
            error => Some(Err(error)),
        }
    }

    pub(crate) fn own_resumed(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match result {
            Ok(answer) => {
                let merges = record_of(answer).map_or(0, |record| record.merges);
                let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
                owned.forget_rights();
                if merges > owned.machine.record().merges {
                    // The answer to the merge was lost, and it was done.
                    return self.own_group_done(id, own, cred, merges);
                }
                if owned.is_shared() {
                    // A new life of the rank does not know either what is open here.
                    return self.own_hold_open(id, own, cred);
                }
                self.own_parts(id, own, cred)
            }
            Err(error) => self.own_not_resumed(own, error),
        }
    }

    /// The rank does not take this client for the owner any more, or it is not known whether it does.
    pub(crate) fn own_not_resumed(&mut self, own: &OwnTask, error: FsError) -> Option<FsResult<()>> {
        match error {
            FsError::Stale | FsError::Perm | FsError::NotFound => {
                self.own_lost(own.root);
                Some(Err(FsError::Stale))
            }
            error => Some(Err(error)),
        }
    }

    pub(crate) fn own_merged(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match result {
            Ok(Answer::Subtree(answer)) => match *answer {
                SubtreeAnswer::Merged { merges, conflicts, told } => {
                    own.conflicts.add(conflicts, told);
                    self.own_group_done(id, own, cred, merges)
                }
                _ => Some(Err(FsError::Io)),
            },
            Ok(_) => Some(Err(FsError::Io)),
            Err(error) => self.own_parts_failed(id, own, cred, error),
        }
    }

    fn own_group_done(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>, merges: u64) -> Option<FsResult<()>> {
        let Some(group) = own.groups.pop_front() else { return Some(Err(FsError::Io)) };
        (own.next_part, own.tries) = (0, 0);
        own.merged += group.bytes;
        own.records += group.parts.len() as u64;
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        owned.machine.merged(merges, group.used);
        owned.rights_of_merge_end();
        let outstanding = owned.machine.outstanding().changes;
        (owned.persisted, owned.stored_changes) =
            (owned.persisted.min(outstanding), owned.stored_changes.min(outstanding));
        owned.stored.iter_mut().for_each(|(_, form)| form.one_is_merged());
        let (epoch, all) = (owned.machine.record().epoch, owned.machine.outstanding().changes == 0);
        self.core.out.push_back(Output::KeptMerged { epoch, all });
        self.own_parts(id, own, cred)
    }
}
