//! A sync of everything, or of a directory, where subtrees are decoupled for this client: what their policies make durable is made so first, then
//! the ranks do the rest. Not how that is done (`task.rs`).

use std::sync::Arc;

use loligo_types::{Cred, FsError, Ino, Op};

use super::task::Goal;
use crate::calls::Calls;
use crate::core::Core;
use crate::machine::{Client, Waiter};
use crate::own::Own;
use crate::task::{Event, Step, Task};
use crate::{Call, CallResult};

/// One under way.
#[derive(Debug)]
pub(crate) struct SyncFirst {
    /// Subtrees that are not done.
    left: usize,
    /// The next call.
    then: Option<Call>,
    failed: Option<FsError>,
}

impl Own {
    pub(crate) fn to_persist(&self) -> Vec<(Ino, Goal)> {
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

impl Client {
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
            _ if self.ranks.is_single() => self.pass(waiter, &cred, Op::Sync),
            _ => self.sync_ranks(waiter, &cred),
        }
        None
    }
}
