//! The client machine as a whole: its parts, and the one way in and out.
//!
//! A call becomes one request (`dispatch`), or a task of several steps (`task`). Requests have a continuation (`Then`)
//! that says what their answer is for; a task ends by answering its [`Waiter`], which is a call or another task. Events
//! for tasks go through a queue, so that no step runs inside another.

use std::sync::Arc;

use loligo_types::{Answer, Attr, Cred, FsError};

use crate::calls::Calls;
pub(crate) use crate::calls::Waiter;
use crate::core::Core;
use crate::direct::Direct;
use crate::file::Files;
use crate::lent::AtHand;
use crate::own::Own;
use crate::ranks::Ranks;
use crate::recall::Recalls;
use crate::task::{Event, Task};
use crate::{Call, CallId, CallResult, Config, Done, Input, Invalidation, Now, Output, Token};

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

impl Calls {
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
}

impl Files {
    /// Changes attributes into what they will be when everything held back is written.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(file) = self.map.get(&attr.ino) {
            file.overlay(attr);
        }
    }
}

impl Core {
    /// Says what must be dropped above; with a token if somebody waits for it.
    pub(crate) fn invalidate(&mut self, what: Invalidation, wait: bool) -> Token {
        let token = if wait {
            self.next_token += 1;
            Token(self.next_token - 1)
        } else {
            Token::NONE
        };
        self.out.push_back(Output::Invalidate { token, what });
        token
    }
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
}
