//! The client machine as a whole: its parts, the one way in and out, and what drives tasks. The table of contents.
//!
//! A call becomes one request (`dispatch`), or a task of several steps (`task`). Requests have a continuation (`Then`)
//! that says what their answer is for; a task ends by answering its [`Waiter`], which is a call or another task. Events
//! for tasks go through a queue, so that no step runs inside another.
//!
//! Each part owns its state and knows the parts that it needs, but not the machine. The stages are the methods of the machine; each takes
//! the parts that a subject needs, and asks ranks and the store for what the parts decide.
//!
//! | stage | subject | parts, beside those of [`Client`] |
//! |---|---|---|
//! | `dispatch` | from a call to what is done for it | `session::Pass` |
//! | `request` | requests and their answers, data requests | `sending`, `numbers`, `stale_replies`, `direct`, `locks` |
//! | `sessions` | messages, welcome, signs of life, ranks that come and go | `session`, `ranks` |
//! | `recover` | lost connections, sessions and ranks | `losses`, `volatile`, `indeterminate` |
//! | `moves` | migration between ranks | `places`, `route` |
//! | `open` | opening and closing | `handles`, `file`, `lent` |
//! | `data` | reading and writing | `reading`, `cache`, `blocks`, `writing`, `buffer`, `extents` |
//! | `flush` | writing back, and obeying recalls | `run`, `unsynced`, `recall`, `leases` |
//! | `change` | changes that are ordered with writes, space, syncs | `space`, `volatile` |
//! | `own/serve`, `own/ask`, `own/task`, `own/merge` | subtrees that are decoupled for this client | the other files of `own` |

use std::sync::Arc;

use loligo_types::msg::ToServer;
use loligo_types::{Control, Cred, FsError, Lease, Op, Rank};

use crate::calls::{Calls, Waiter};
use crate::core::Core;
use crate::direct::Direct;
use crate::file::Files;
use crate::lent::{AtHand, Lent};
use crate::own::Own;
use crate::ranks::Ranks;
use crate::raw::step_raw;
use crate::recall::Recalls;
use crate::session::{Link, Session, Then, waiter_of};
use crate::space::step_sync_ranks;
use crate::task::{Event, Step, Task};
use crate::{Call, CallId, CallResult, Config, Input, Now, Output};

/// The client machine. See [`crate::io`] for how to drive it.
#[derive(Debug)]
pub struct Client {
    /// The configuration, the moment, the outputs.
    pub(crate) core: Core,
    /// Calls and tasks.
    pub(crate) calls: Calls,
    /// Sessions, and which rank to ask.
    pub(crate) ranks: Ranks,
    /// The answer that is being dealt with.
    pub(crate) at_hand: AtHand,
    /// Open files and their handles.
    pub(crate) files: Files,
    /// Leases and rights that ranks want back.
    pub(crate) recalls: Recalls,
    /// The connection to the store.
    pub(crate) direct: Direct,
    /// Subtrees that are decoupled for this client.
    pub(crate) own: Own,
}

impl Client {
    /// A client that is not connected. Its driver is to connect at once.
    pub fn new(config: Config) -> Client {
        Client {
            calls: Calls::default(),
            ranks: Ranks::new(&config),
            at_hand: AtHand::default(),
            files: Files::default(),
            recalls: Recalls::default(),
            direct: Direct::default(),
            own: Own::default(),
            core: Core::new(config),
        }
    }

    /// Tells it what happened. A time of zero means "as before". Afterwards drain [`Client::poll`].
    pub fn handle(&mut self, now: Now, input: Input) {
        if now.ms >= self.core.now.ms && now != Now::default() {
            self.core.now = now;
        }
        match input {
            Input::Call { id, cred, call } => self.begin(id, cred, call),
            Input::Interrupt { id, unserved } => self.interrupt(id, unserved),
            Input::Connected { rank } => self.ranks.connected(&mut self.core, self.ranks.swapped(rank)),
            Input::Message { rank, message } => self.message(self.ranks.swapped(rank), message),
            Input::Disconnected { rank } => self.disconnected(self.ranks.swapped(rank)),
            Input::Invalidated { token } => self.invalidated(token),
            Input::Direct { address } => self.direct.changed(address),
            Input::DirectDone { id, result } => self.direct_done(id, result),
            Input::KeepDone { token, result } => self.own_keep_done(token, result),
            Input::Tick => self.on_tick(),
            Input::Stop => self.stop(),
        }
        self.settle();
    }

    /// True if requests are unanswered, or wait to be sent: also of calls that were given up.
    pub fn has_requests(&self) -> bool {
        !self.ranks.paused.is_empty()
            || !self.ranks.behind.is_empty()
            || self.direct.is_busy()
            || self.ranks.sessions.values().any(|session| !session.pending.is_empty())
    }

    /// True if a handle of a rank is open here, or was closed and is kept for the next open of the same file. `client`: the number that
    /// this client gives itself.
    pub fn has_handle(&self, client: u64, number: u64) -> bool {
        self.core.config.client == client && self.files.handles.contains_key(&number)
    }

    /// Changes of subtrees that are decoupled for this client and that were not merged.
    pub fn unmerged(&self) -> Vec<crate::Unmerged> {
        self.own.unmerged()
    }

    /// The next output; `None`: none until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.core.out.pop_front()
    }

    /// Runs tasks until none has an event.
    fn settle(&mut self) {
        self.end_behind();
        loop {
            if let Some((id, event)) = self.calls.events.pop_front() {
                self.advance(id, event);
            } else if let Some(reply) = self.own.replies.pop_front() {
                self.own_replied(reply);
            } else {
                break;
            }
        }
        if self.core.stopping {
            self.check_stopped();
        }
    }

    fn begin(&mut self, id: CallId, cred: Arc<Cred>, call: Call) {
        self.calls.waiting.insert(id);
        let waiter = Waiter::Call(id);
        // What is open here is closed whoever is there: its caller does not come again.
        let closes = matches!(call, Call::Release { .. });
        let nobody = self.ranks.is_single()
            && self.ranks.session(self.ranks.only()).is_some_and(|session| session.gave_up)
            && !closes;
        if self.core.stopping || self.ranks.refused || nobody {
            self.calls.fail(&mut self.core, waiter, FsError::Unavailable);
        } else {
            self.dispatch(waiter, &cred, call);
        }
    }

    /// Gives an event to a task.
    fn advance(&mut self, id: u64, event: Event) {
        let Some(mut task) = self.calls.tasks.remove(&id) else { return };
        let result = match &mut task.step {
            Step::Open(_) => self.step_open(id, &mut task, event),
            Step::Read(_) => self.step_read(id, &mut task, event),
            Step::Write(_) => self.step_write(id, &mut task, event),
            Step::SetAttr { .. } => self.step_setattr(id, &mut task, event),
            Step::Behind(_) => self.step_behind(id, &mut task, event),
            Step::Flush { .. } => self.step_flush(id, &mut task, event),
            Step::Fsync { .. } => self.step_fsync(id, &mut task, event),
            Step::FsyncDir { .. } => self.step_fsync_dir(id, &mut task, event),
            Step::Fallocate(_) => self.step_fallocate(id, &mut task, event),
            Step::Seek(_) => self.step_seek(id, &mut task, event),
            Step::Copy(_) => self.step_copy(id, &mut task, event),
            Step::Own(_) => self.step_own(id, &mut task, event),
            Step::OwnSync(_) => self.step_own_sync(id, &mut task, event),
            Step::SyncRanks { left } => step_sync_ranks(left, event),
            Step::Raw => step_raw(event),
            Step::SyncAll { .. } => self.step_sync_all(id, &mut task, event),
        };
        match result {
            None => {
                self.calls.tasks.insert(id, task);
            }
            Some(result) => self.finish(id, &task, result),
        }
    }

    /// A task is done: its waiter gets the result, its file goes to the next.
    pub(crate) fn finish(&mut self, id: u64, task: &Task, result: CallResult) {
        if let Some(file) = self.files.map.get_mut(&task.ino) {
            file.reads.retain(|read| *read != id);
            if file.exclusive == Some(id) {
                file.exclusive = None;
            }
        }
        self.calls.complete(&mut self.core, task.waiter, result);
        if task.exclusive {
            self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, task.ino);
            self.step_recalls(task.ino);
            if self.own.is_any() {
                self.own.change_ended(&mut self.calls);
            }
        }
    }

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
                (Op::Control(Control::Close { handles: Vec::new(), lost: false }), Lease::NONE, None);
            session.numbers.answered(request.ino.take(), &Err(FsError::Interrupted));
            self.replied(rank, then, Err(FsError::Interrupted));
        }
    }

    fn on_tick(&mut self) {
        let ranks: Vec<_> = self.ranks.sessions.keys().copied().collect();
        for rank in &ranks {
            self.keep_alive(*rank);
        }
        self.end_pauses();
        self.calls.end_unsettled(&self.ranks);
        self.leave_ranks();
        if !ranks.iter().any(|rank| self.ranks.is_up(*rank)) {
            return;
        }
        self.close_idle();
        self.send_closes();
        for rank in &ranks {
            self.ranks.release_forgotten(&mut self.core, &self.files, *rank);
        }
        self.flush_old();
        self.own.tick(&mut self.core, &mut self.calls);
        for rank in ranks {
            self.ranks.repeat_busy(&mut self.core, rank);
        }
    }

    /// Stops: no new calls, everything back to the server.
    pub(crate) fn stop(&mut self) {
        if self.core.stopping {
            return;
        }
        self.core.stopping = true;
        for ino in self.files.dirty.clone() {
            self.start_run(ino);
        }
        self.own.stop(&mut self.core, &mut self.calls);
    }

    fn check_stopped(&mut self) {
        if self.core.stopped {
            return;
        }
        let hopeless = |session: &Session| self.ranks.refused || session.is_hopeless();
        // Without a session there is nothing to give back and nobody to give it to.
        let waits = |ino| {
            let session = self.files.map.get(ino).and_then(|file| self.ranks.session(file.rank));
            session.is_none_or(|session| !hopeless(session))
        };
        // A farewell lets others write at once.
        if self.files.dirty.iter().any(waits) || self.direct.is_writing() {
            return;
        }
        if self.own.is_stopping() && !self.ranks.sessions.values().all(hopeless) {
            return;
        }
        for session in self.ranks.sessions.values() {
            if session.link == Link::Up {
                // Waits for locks may never end; everything else is answered soon.
                let waits = |op: &Op| matches!(op, Op::Control(Control::SetLock { wait: true, .. }));
                if !session.data.is_empty() || !session.pending.values().all(|p| waits(&p.request.op)) {
                    return;
                }
            } else if !hopeless(session) && session.down_since.is_none() {
                return;
            }
        }
        for rank in self.ranks.sessions.keys().copied().collect::<Vec<_>>() {
            if self.ranks.is_up(rank) {
                self.ranks.send(&mut self.core, rank, ToServer::Goodbye { gone: true });
            }
        }
        self.core.stopped = true;
        self.calls.give_up_calls(&mut self.core, &mut self.ranks, &mut self.files);
        self.core.out.push_back(Output::Stopped);
    }

    pub(crate) fn lent(&mut self) -> Lent<'_> {
        self.lent_beside_files().0
    }

    /// And beside it the open files.
    pub(crate) fn lent_beside_files(&mut self) -> (Lent<'_>, &mut Files) {
        let Client { core, calls, ranks, at_hand, own, files, .. } = self;
        (Lent { at_hand, core, calls, ranks, own }, files)
    }
}
