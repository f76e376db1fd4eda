//! A caller that waits no longer: its call ends with `Interrupted`. What was not sent for it is not done; what was sent may be done, and counts as
//! unsettled until that is known (`indeterminate`). When calls end because a rank stays away is in `recover`.

use loligo_types::{FsError, Lease, Op, Rank};

use crate::calls::Calls;
use crate::core::Core;
use crate::file::Files;
use crate::machine::{Client, Waiter};
use crate::ranks::Ranks;
use crate::recover::waiter_of;
use crate::session::Then;
use crate::{CallId, Output};

impl Ranks {
    pub(crate) fn is_unserved(&self, calls: &Calls, files: &Files, id: CallId) -> bool {
        self.sessions.keys().any(|rank| !self.is_up(*rank) && self.calls_at(calls, files, *rank).contains(&id))
    }
}

impl Calls {
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
}

impl Client {
    /// Ends a call; `unserved`: only if it waits for a rank to which there is no connection.
    pub(crate) fn interrupt(&mut self, id: CallId, unserved: bool) {
        if !self.calls.waiting.contains(&id) || unserved && !self.ranks.is_unserved(&self.calls, &self.files, id) {
            return;
        }
        self.calls.waiting.remove(&id);
        self.core.out.push_back(Output::Complete { id, result: Err(FsError::Interrupted.into()) });
        self.calls.withdraw_tasks(&mut self.core, &mut self.files, id);
        self.withdraw_requests(id);
        self.calls.begin_unsettled(&mut self.core, &self.ranks, &mut self.files);
    }

    /// Requests of a call that were never sent become requests for nothing: their numbers must not be missing.
    fn withdraw_requests(&mut self, id: CallId) {
        let mut unsent: Vec<(Rank, u64)> = Vec::new();
        for (rank, session) in &self.ranks.sessions {
            let of_call = session.pending.range(session.never_sent..).filter(|(_, pending)| {
                waiter_of(&pending.then).and_then(|waiter| self.calls.call_of(waiter)) == Some(id)
            });
            unsent.extend(of_call.map(|(seq, _)| (*rank, *seq)));
        }
        for (rank, seq) in unsent {
            let Some(session) = self.ranks.sessions.get_mut(&rank) else { continue };
            let Some(pending) = session.pending.get_mut(&seq) else { continue };
            let then = std::mem::replace(&mut pending.then, Then::Nothing);
            let request = &mut pending.request;
            (request.op, request.want, request.ways) =
                (Op::Close { handles: Vec::new(), lost: false }, Lease::NONE, None);
            session.numbers.answered(request.ino.take(), &Err(FsError::Interrupted));
            self.replied(rank, then, Err(FsError::Interrupted));
        }
    }
}
