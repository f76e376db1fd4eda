//! The calls that are not answered, and the tasks that work on them. Not here: what a call is (`call`), and what the tasks do
//! (`task` and the files of their subjects).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_types::{Answer, Cred, FsError, Ino};

use crate::call::Done;
use crate::core::Core;
use crate::file::Files;
use crate::ranks::Ranks;
use crate::session::Then;
use crate::task::{Event, Step, Task};
use crate::{CallId, CallResult, Output};

/// Receiver of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    Call(CallId),
    Task(u64),
    Nobody,
}

/// Calls and tasks under way.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Calls that have not been answered.
    pub waiting: BTreeSet<CallId>,
    pub tasks: BTreeMap<u64, Task>,
    /// Events that wait for their task.
    pub events: VecDeque<(u64, Event)>,
    pub next_task: u64,
    /// Changes may be under way whose callers wait no longer.
    pub unsettled: bool,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            waiting: BTreeSet::new(),
            tasks: BTreeMap::new(),
            events: VecDeque::new(),
            next_task: 1,
            unsettled: false,
        }
    }
}

impl Calls {
    /// True if somebody still waits for the result of a task. A call that was given up or interrupted is answered, but goes on: it must
    /// not consume news that are told only once.
    pub(crate) fn is_waited_for(&self, waiter: Waiter) -> bool {
        match waiter {
            Waiter::Call(id) => self.waiting.contains(&id),
            _ => true,
        }
    }

    /// Answers.
    pub(crate) fn complete(&mut self, core: &mut Core, waiter: Waiter, result: CallResult) {
        match waiter {
            Waiter::Call(id) => {
                if self.waiting.remove(&id) {
                    core.out.push_back(Output::Complete { id, result });
                }
            }
            Waiter::Task(id) => self.events.push_back((id, Event::Done(result))),
            Waiter::Nobody => {}
        }
    }

    /// True if somebody still waits: a call may have been given up.
    pub(crate) fn is_awaited(&self, waiter: Waiter) -> bool {
        match waiter {
            Waiter::Call(id) => self.waiting.contains(&id),
            Waiter::Task(id) => self.tasks.contains_key(&id),
            Waiter::Nobody => false,
        }
    }

    /// Answers with an error.
    pub(crate) fn fail(&mut self, core: &mut Core, waiter: Waiter, error: FsError) {
        self.complete(core, waiter, Err(error.into()));
    }

    /// Answers with nothing but an answer.
    pub(crate) fn answer(&mut self, core: &mut Core, waiter: Waiter, answer: Answer) {
        self.complete(core, waiter, Ok(Done::plain(answer)));
    }

    pub(crate) fn new_task(&mut self, task: Task) -> u64 {
        let id = self.next_task;
        self.next_task += 1;
        self.tasks.insert(id, task);
        id
    }

    /// Steps of a call that wait for their turn on a file are not begun.
    pub(crate) fn withdraw_tasks(&mut self, core: &mut Core, files: &mut Files, id: CallId) {
        let waiting = files.map.values().flat_map(|file| file.waiting.iter().copied());
        let of_call: Vec<u64> = waiting.filter(|task| self.call_of(Waiter::Task(*task)) == Some(id)).collect();
        for number in of_call {
            let Some(task) = self.tasks.remove(&number) else { continue };
            if let Some(file) = files.map.get_mut(&task.ino) {
                file.waiting.retain(|other| *other != number);
            }
            self.complete(core, task.waiter, Err(FsError::Interrupted.into()));
        }
    }

    /// Starts a task on the file of a handle.
    pub(crate) fn spawn_fh(
        &mut self,
        core: &mut Core,
        files: &mut Files,
        waiter: Waiter,
        cred: &Arc<Cred>,
        fh: crate::Fh,
        step: impl FnOnce(Ino) -> Step,
    ) {
        let Some(opened) = files.opened.get(&fh) else { return self.fail(core, waiter, FsError::BadHandle) };
        if opened.dead {
            let error = files.dead_error(fh);
            return self.fail(core, waiter, error);
        }
        let ino = opened.ino;
        if !files.map.contains_key(&ino) {
            // A directory: there is nothing to flush, sync or seek in.
            return self.answer(core, waiter, Answer::Done);
        }
        let task = Task { waiter, cred: Arc::clone(cred), ino, exclusive: false, step: step(ino) };
        let id = self.new_task(task);
        self.events.push_back((id, Event::Start));
    }

    /// All calls fail.
    pub(crate) fn give_up_calls(&mut self, core: &mut Core, ranks: &mut Ranks, files: &mut Files) {
        self.forget_raw(ranks);
        for id in std::mem::take(&mut self.waiting) {
            core.out.push_back(Output::Complete { id, result: Err(FsError::Unavailable.into()) });
        }
        self.begin_unsettled(core, ranks, files);
    }

    pub(crate) fn call_of(&self, mut waiter: Waiter) -> Option<CallId> {
        loop {
            match waiter {
                Waiter::Call(id) => return Some(id),
                Waiter::Task(id) => waiter = self.tasks.get(&id)?.waiter,
                Waiter::Nobody => return None,
            }
        }
    }

    /// Depth below the root at which a walk begins, if lookup leases are welcome with its answer.
    pub(crate) fn ways_of(&self, then: &Then) -> Option<u16> {
        match then {
            Then::Pass(pass) => pass.ways,
            Then::Task(id) => self.tasks.get(id).and_then(|task| match &task.step {
                Step::Open(opening) => opening.ways,
                _ => None,
            }),
            _ => None,
        }
    }

    /// Says that a rank is not there, instead of asking it. Not of what must be asked sooner or later.
    pub(crate) fn deny(&mut self, core: &mut Core, then: &Then) -> bool {
        match then {
            // A lock that is given back behind everybody's back.
            Then::Pass(pass) if pass.waiter == Waiter::Nobody => return false,
            Then::Pass(pass) => self.fail(core, pass.waiter, FsError::Unavailable),
            Then::Task(id) => self.events.push_back((*id, Event::Reply(Err(FsError::Unavailable)))),
            Then::Second(second) => return self.deny(core, &second.then),
            Then::OwnTask(id) => self.events.push_back((*id, Event::Reply(Err(FsError::Unavailable)))),
            Then::Nothing
            | Then::Own { .. }
            | Then::Flush(_)
            | Then::Reclaimed(_)
            | Then::Located(_)
            | Then::Verified(_)
            | Then::Numbers
            | Then::Address(_) => {
                return false;
            }
        }
        true
    }

    /// Reads under way that touch a range must look again.
    pub(crate) fn redo_reads(&mut self, files: &Files, ino: Ino, start: u64, end: u64) {
        let Some(file) = files.map.get(&ino) else { return };
        for id in &file.reads {
            if let Some(Task { step: Step::Read(read), .. }) = self.tasks.get_mut(id) {
                read.redo |= read.overlaps(start, end);
            }
        }
    }
}
