//! The task that completes what was done in a subtree that is decoupled for this client: its goal, and how far it is. What it does is in
//! `task` and `merge`.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_subtree::Group;
use loligo_subtree_policy::{Completion, Mechanism, Run, SubtreePolicy};
use loligo_types::{Answer, Cred, FsError, FsResult, Ino, Lease, MergeInto, Op};

use super::Owned;
use super::rebase::Conflicts;
use super::store::Store;
use crate::calls::{Calls, Waiter};
use crate::core::Core;
use crate::file::Files;
use crate::own::Own;
use crate::ranks::Ranks;
use crate::task::{Event, Step, Task};
use crate::{Call, Invalidation, Output, Token};

/// A group is begun anew so often because the rank began a new life.
pub(crate) const TRIES: u32 = 8;

/// The goal of a task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Goal {
    /// Buffered writes of programs are flushed to the server first.
    pub flush: bool,
    /// Bytes are to be durable.
    pub durable: bool,
    /// Then these stages, as they are written.
    pub stages: Completion,
    /// The subtree is given back.
    pub end: bool,
    /// Without what is outstanding.
    pub abandon: bool,
}

impl Goal {
    /// The apply that runs.
    pub(super) fn apply(&self) -> Mechanism {
        let applies = self.stages.mechanisms().into_iter().find(|mechanism| mechanism.applies());
        applies.unwrap_or(Mechanism::VolatileApply)
    }

    /// The goal that a policy sets for the completion of work.
    pub(crate) fn of(policy: &SubtreePolicy) -> Goal {
        let stages = Completion::of(policy.pipeline());
        let durable = stages.mechanisms().into_iter().any(|mechanism| mechanism != Mechanism::VolatileApply);
        Goal { flush: true, durable, stages, ..Goal::default() }
    }

    /// The part of the goal that makes changes durable without making them visible.
    pub(crate) fn persist(self) -> Goal {
        Goal { stages: self.stages.persists(), end: false, ..self }
    }

    /// The same, and others see it.
    pub(crate) fn and_apply(self) -> Goal {
        Goal { stages: self.stages.and_apply(), ..self }
    }

    /// The journal goes to this machine's disk.
    pub(crate) fn local(&self) -> bool {
        self.stages.has(Mechanism::LocalPersist)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Bytes that are held back go to the server.
    Flush,
    /// They become durable there.
    Sync,
    /// The stages of the pipeline run.
    Stages,
    /// The rank is asked whether the subtree is this client's still.
    Check,
    /// Handles that are in use are waited for.
    Close,
    Drop,
    End,
    Policy,
}

/// The state of a merge, or its precondition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merging {
    Not,
    /// Writes that were begun before the cut are waited for.
    Freeze,
    /// The rank is told what is open here, where others may remove it.
    Hold,
    Parts,
    Merge,
    Resume,
    /// It is merged, and the rank is asked for the root as it is by then.
    Rebase,
    /// And for the files that are open.
    Refresh,
}

/// A task.
#[derive(Debug)]
pub(crate) struct OwnTask {
    pub root: Ino,
    pub goal: Goal,
    /// The command that it is for.
    pub command: Option<u64>,
    /// The policy that counts when all else is done, and the request that says so to the rank.
    pub policy: Option<Box<(SubtreePolicy, Op)>>,
    pub(super) stage: Stage,
    /// The progress of the pipeline's stages.
    pub(super) run: Run,
    /// The first of them that failed, and why.
    pub(super) failed: Option<(Mechanism, FsError)>,
    /// The write of the journal to the store, and the number of its starts.
    pub(super) store: Option<Store>,
    pub(super) store_tries: u32,
    /// Files that are being written, parts that were not answered.
    pub(super) left: usize,
    pub(super) merging: Merging,
    pub groups: VecDeque<Group>,
    pub next_part: usize,
    pub part_failed: Option<FsError>,
    pub(super) tries: u32,
    /// The rank had no room for a part: when it is sent again.
    pub(super) again_ms: Option<u64>,
    /// Since when handles that are in use are waited for.
    pub closing_ms: Option<u64>,
    /// Rounds of waiting for writes that were begun before the cut.
    pub(super) rounds: u32,
    /// The rank does not take this client's word for what it merges, because that is limited to paths: all of it is looked through.
    pub looked_through: bool,
    /// Bytes of the journal that are merged, and of all that is to be.
    pub merged: u64,
    pub total: u64,
    pub records: u64,
    /// Inodes that the rank is to be told or asked of, one request after the other, and number of requests sent.
    pub(super) open: VecDeque<Vec<Ino>>,
    pub(super) told: u32,
    /// Conflicts with what others did, and the first of them.
    pub conflicts: Conflicts,
}

impl OwnTask {
    /// A part was answered.
    pub(super) fn part_answered(&mut self, result: FsResult<Answer>) {
        self.left = self.left.saturating_sub(1);
        if let Err(error) = result {
            self.part_failed.get_or_insert(error);
        }
    }

    fn new(root: Ino, goal: Goal, command: Option<u64>) -> OwnTask {
        OwnTask {
            root,
            goal,
            command,
            policy: None,
            stage: Stage::Flush,
            run: Run::default(),
            failed: None,
            store: None,
            store_tries: 0,
            left: 0,
            merging: Merging::Not,
            groups: VecDeque::new(),
            next_part: 0,
            part_failed: None,
            tries: 0,
            again_ms: None,
            closing_ms: None,
            rounds: 0,
            looked_through: false,
            merged: 0,
            total: 0,
            records: 0,
            open: VecDeque::new(),
            told: 0,
            conflicts: Conflicts::default(),
        }
    }
}

/// One under way.
#[derive(Debug)]
pub(crate) struct SyncFirst {
    /// Subtrees that are not done.
    pub left: usize,
    /// The next call.
    pub then: Option<Call>,
    pub failed: Option<FsError>,
}

impl Own {
    /// Completes, after whatever is under way there.
    pub(crate) fn complete(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        root: Ino,
        waiter: Waiter,
        goal: Goal,
        command: Option<u64>,
    ) {
        self.enqueue(core, calls, waiter, OwnTask::new(root, goal, command));
    }

    fn enqueue(&mut self, core: &mut Core, calls: &mut Calls, waiter: Waiter, own: OwnTask) {
        let root = own.root;
        let Some(owned) = self.trees.get_mut(&root) else {
            return calls.fail(core, waiter, FsError::Stale);
        };
        let step = Step::Own(Box::new(own));
        let task = Task { waiter, cred: Arc::clone(&owned.cred), ino: Ino(0), exclusive: false, step };
        if owned.task.is_some() {
            return owned.queue.push_back(task);
        }
        self.start(calls, root, task);
    }

    /// The policy of a decoupled root is changed while it is decoupled: what is outstanding is first brought to what the new one promises,
    /// then the rank is told, and from then on the new one counts (Cudele's future work, "dynamic change"). Until then the old
    /// one does, whoever dies.
    pub(crate) fn change_policy(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        waiter: Waiter,
        root: Ino,
        policy: SubtreePolicy,
        op: Op,
    ) {
        let Some(owned) = self.trees.get(&root) else { return calls.fail(core, waiter, FsError::Stale) };
        let (old, new) = (Goal::of(&owned.policy), Goal::of(&policy));
        if new.local() && !core.config.keeps {
            return calls.fail(core, waiter, FsError::NotSupported);
        }
        let end = !policy.pipeline().has_client_journal();
        let is_new = |mechanism: Mechanism| match mechanism.applies() {
            true => !old.stages.applies(),
            false => !old.stages.has(mechanism),
        };
        let goal = Goal { stages: new.stages.only(is_new), end, ..new };
        let goal = if end { goal.and_apply() } else { goal };
        let policy = Some(Box::new((policy, op)));
        self.enqueue(core, calls, waiter, OwnTask { policy, ..OwnTask::new(root, goal, None) });
    }

    pub(crate) fn start(&mut self, calls: &mut Calls, root: Ino, task: Task) {
        let id = calls.new_task(task);
        if let Some(owned) = self.trees.get_mut(&root) {
            owned.task = Some(id);
        }
        calls.events.push_back((id, Event::Start));
    }

    /// True if bytes may have been written to objects of the subtree.
    pub(crate) fn has_written(&self, root: Ino) -> bool {
        let written = |owned: &Owned| !owned.rights.is_empty() || !owned.machine.record().objects.is_empty();
        self.trees.get(&root).is_some_and(written)
    }

    /// The merge mode that the policy sets: where new inodes go first, and whether the merge is blind (the rank trusts the owner), which
    /// only root may ask for.
    pub(crate) fn how(&self, root: Ino, cred: &Cred) -> (MergeInto, bool) {
        let policy = self.trees.get(&root).map(|owned| &owned.policy);
        let has = |mechanism| policy.is_some_and(|policy| policy.pipeline().composition().has(mechanism));
        let into = if has(Mechanism::NonvolatileApply) { MergeInto::Table } else { MergeInto::Memory };
        let is_shared = self.trees.get(&root).is_some_and(Owned::is_shared);
        (into, policy.is_some_and(SubtreePolicy::blind) && cred.is_root() && !is_shared)
    }

    /// Seals the outstanding changes into the groups of a merge.
    pub(super) fn seal(&mut self, core: &Core, own: &mut OwnTask) -> FsResult<()> {
        let owned = self.trees.get_mut(&own.root).ok_or(FsError::Stale)?;
        owned.synced_ms = core.now.ms;
        own.groups = owned.machine.sealed().into();
        own.total = own.groups.iter().map(|group| group.bytes).sum();
        Ok(())
    }

    /// True if programs have something open in it.
    pub(crate) fn is_in_use(&self, files: &Files, root: Ino) -> bool {
        let in_use = |handle: &u64| files.handles.get(handle).is_some_and(|handle| handle.fh.is_some());
        self.trees.get(&root).is_some_and(|owned| owned.handles.keys().any(in_use))
    }

    /// Says what caches above must drop of a subtree. What will be told when it is done.
    pub(super) fn drop_cached(&mut self, core: &mut Core, root: Ino, wait: bool) -> Vec<Token> {
        let Some(owned) = self.trees.get(&root) else { return Vec::new() };
        let cached = self.cached.iter().filter(|(ino, _)| owned.machine.knows(**ino));
        let mut cached: Vec<(Ino, Lease)> = cached.map(|(ino, bits)| (*ino, *bits)).collect();
        cached.sort_unstable();
        let mut tokens = Vec::new();
        for (ino, bits) in cached {
            self.cached.remove(&ino);
            if bits.has(Lease::NAMES) {
                core.names_lost.add(ino);
                tokens.push(core.invalidate(Invalidation::Names(ino), wait));
            }
            if bits.has(Lease::ATTR) {
                tokens.push(core.invalidate(Invalidation::Attr(ino), wait));
            }
        }
        tokens
    }

    /// Caches above have dropped something; whether that was said of such a subtree.
    pub(crate) fn invalidated(&mut self, calls: &mut Calls, token: Token) -> bool {
        let task = self.tokens.remove(&token);
        task.map(|id| calls.events.push_back((id, Event::Dropped))).is_some()
    }

    /// Sends again what was refused for want of room, and sends on what is outstanding, where that is due.
    pub(crate) fn tick(&mut self, core: &mut Core, calls: &mut Calls) {
        let now = core.now.ms;
        for id in self.trees.values().filter_map(|owned| owned.task) {
            if let Some(Task { step: Step::Own(own), .. }) = calls.tasks.get_mut(&id)
                && own.again_ms.take_if(|again| *again <= now).is_some()
            {
                calls.events.push_back((id, Event::Start));
            }
        }
        let due = |owned: &Owned| {
            let interval = owned.policy.sync_interval().map(loligo_subtree_policy::SyncInterval::millis);
            let is_due = interval.is_some_and(|interval| now >= owned.synced_ms + interval);
            // Without changes of its own, too, its owner learns what others did.
            is_due && owned.task.is_none() && (owned.machine.outstanding().changes > 0 || owned.is_shared())
        };
        let roots: Vec<Ino> = self.trees.iter().filter(|(_, owned)| due(owned)).map(|(root, _)| *root).collect();
        for root in roots {
            let Some(owned) = self.trees.get(&root) else { continue };
            let goal = Goal::of(&owned.policy).and_apply();
            self.complete(core, calls, root, Waiter::Nobody, goal, None);
        }
    }

    /// The client stops: what policies say is done, and what has nothing outstanding then is given back.
    pub(crate) fn stop(&mut self, core: &mut Core, calls: &mut Calls) {
        for root in self.trees.keys().copied().collect::<Vec<_>>() {
            let Some(owned) = self.trees.get(&root) else { continue };
            let goal = Goal { end: true, ..Goal::of(&owned.policy) };
            self.complete(core, calls, root, Waiter::Nobody, goal, None);
        }
    }

    /// True if a subtree is still to be completed before the client may stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.trees.values().any(|owned| !owned.given_up)
    }

    /// The root and goal of a file's fsync besides the file's own bytes; `None` if the policy promises nothing.
    pub(crate) fn fsync(&self, ino: Ino) -> Option<(Ino, Goal)> {
        let root = if self.is_any() { self.root_of(ino)? } else { return None };
        let goal = Goal::of(&self.trees.get(&root)?.policy).persist();
        // Other files' bytes are their own affair.
        goal.durable.then_some((root, Goal { flush: false, durable: false, ..goal }))
    }

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
    fn stage_failed(&mut self, core: &mut Core, own: &mut OwnTask, mechanism: Mechanism, error: FsError) {
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

    fn to_persist(&self) -> Vec<(Ino, Goal)> {
        let goals = self.trees.iter().map(|(root, owned)| (*root, Goal::of(&owned.policy).persist()));
        goals.filter(|(_, goal)| goal.durable).collect()
    }

    /// True if some policy persists a journal somewhere besides the ranks.
    pub(crate) fn persists(&self) -> bool {
        self.is_any() && !self.to_persist().is_empty()
    }

    pub(crate) fn sync_first(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        waiter: Waiter,
        cred: &Arc<Cred>,
        call: Call,
    ) {
        let goals = self.to_persist();
        let step = Step::OwnSync(SyncFirst { left: goals.len(), then: Some(call), failed: None });
        let id = calls.new_task(Task { waiter, cred: Arc::clone(cred), ino: Ino(0), exclusive: false, step });
        for (root, goal) in goals {
            self.complete(core, calls, root, Waiter::Task(id), goal, None);
        }
    }
}
