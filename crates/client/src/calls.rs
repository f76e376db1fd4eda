//! The calls that are not answered, and the tasks that work on them. Not here: what a call is (`call`), and what the tasks do
//! (`task` and the files of their subjects).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::CallId;
use crate::task::{Event, Task};

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
