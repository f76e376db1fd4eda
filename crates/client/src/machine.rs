//! The client machine as a whole: its parts, and the one way in and out.
//!
//! A call becomes one request (`dispatch`), or a task of several steps (`task`). Requests have a continuation (`Then`)
//! that says what their answer is for; a task ends by answering its [`Waiter`], which is a call or another task. Events
//! for tasks go through a queue, so that no step runs inside another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_types::{Answer, Attr, Cred, FsError, FsResult, Ino, Lease, Rank};

use crate::direct::Direct;
use crate::file::Files;
use crate::leases::{AtHand, NamesLost};
use crate::locks::Behind;
use crate::moves::Paused;
use crate::own::Own;
use crate::recall::Recalls;
use crate::route::{Router, SEEN_MAX};
use crate::session::{PendingData, Session};
use crate::task::{Event, Task};
use crate::unsynced::Unsynced;
use crate::{Call, CallId, CallResult, Config, Done, Input, Invalidation, Now, Output, Token};

/// Receiver of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    Call(CallId),
    Task(u64),
    Nobody,
}

/// The client machine. See [`crate::io`] for how to drive it.
#[derive(Debug)]
pub struct Client {
    pub(crate) config: Config,
    pub(crate) now: Now,
    pub(crate) out: VecDeque<Output>,
    /// Calls that have not been answered.
    pub(crate) calls: BTreeSet<CallId>,
    /// Changes may be under way whose callers wait no longer.
    pub(crate) unsettled: bool,
    /// One with each rank that was asked something.
    pub(crate) sessions: BTreeMap<Rank, Session>,
    /// Sessions that begin count their requests from here: above all of those before. A crash can take back that a rank has ended
    /// one, which then goes on and takes numbers for what they were.
    pub(crate) first_seq: u64,
    /// The rank at the driver's first connection: as configured, until it is known.
    pub(crate) home: Rank,
    pub(crate) home_known: bool,
    /// Where the driver's first connection was made to there is another rank by now, or may be.
    pub(crate) home_moved: bool,
    pub(crate) router: Router,
    /// Ranks of the message that is being handled: its sender, and the one that answered for the names in it.
    pub(crate) speaker: Rank,
    pub(crate) names_from: Option<Rank>,
    pub(crate) at_hand: AtHand,
    /// Losses of directories' names.
    pub(crate) names_lost: NamesLost,
    /// Requests that are sent on later.
    pub(crate) paused: Vec<Paused>,
    /// Requests for locks whose owners are giving locks back.
    pub(crate) behind: Vec<Behind>,
    /// Data requests of files that are looked for.
    pub(crate) parked: BTreeMap<Ino, Vec<(u64, PendingData)>>,
    pub(crate) fs_id: Option<[u8; 16]>,
    /// The server will not have this client.
    pub(crate) refused: bool,
    pub(crate) next_data: u64,
    pub(crate) direct: Direct,
    /// Subtrees that are decoupled for this client.
    pub(crate) own: Own,
    pub(crate) files: Files,
    pub(crate) recalls: Recalls,
    pub(crate) tasks: BTreeMap<u64, Task>,
    /// Events that wait for their task.
    pub(crate) events: VecDeque<(u64, Event)>,
    /// Files with something to be written.
    pub(crate) dirty: BTreeSet<Ino>,
    /// Files that may hold data which the server's disk may not have.
    pub(crate) unstable: BTreeSet<Ino>,
    pub(crate) unsynced: Unsynced,
    /// Files with blocks in the read cache, and a clock that counts uses.
    pub(crate) blocks_of: BTreeSet<Ino>,
    pub(crate) block_bytes: u64,
    pub(crate) tick: u64,
    /// Until when writes are not answered before they are at the server, because its store was full, milliseconds.
    pub(crate) full_until: u64,
    /// Writes that wait for room in the buffer, with their lengths.
    pub(crate) blocked: VecDeque<(Waiter, u64)>,
    pub(crate) next_task: u64,
    pub(crate) next_token: u64,
    pub(crate) stopping: bool,
    pub(crate) stopped: bool,
}

impl Client {
    /// A client that is not connected. Its driver is to connect at once.
    pub fn new(config: Config) -> Client {
        Client {
            sessions: BTreeMap::from([(config.rank, Session::default())]),
            first_seq: 1,
            home: config.rank,
            home_known: false,
            home_moved: false,
            router: Router::with(config.some(SEEN_MAX)),
            speaker: config.rank,
            names_from: None,
            at_hand: AtHand::default(),
            names_lost: NamesLost::default(),
            paused: Vec::new(),
            behind: Vec::new(),
            parked: BTreeMap::new(),
            fs_id: None,
            refused: false,
            next_data: 0,
            direct: Direct::default(),
            own: Own::default(),
            config,
            now: Now::default(),
            out: VecDeque::new(),
            calls: BTreeSet::new(),
            unsettled: false,
            files: Files::default(),
            recalls: Recalls::default(),
            tasks: BTreeMap::new(),
            events: VecDeque::new(),
            dirty: BTreeSet::new(),
            unstable: BTreeSet::new(),
            unsynced: Unsynced::default(),
            blocks_of: BTreeSet::new(),
            block_bytes: 0,
            tick: 0,
            full_until: 0,
            blocked: VecDeque::new(),
            next_task: 1,
            next_token: 1,
            stopping: false,
            stopped: false,
        }
    }

    /// Tells it what happened. A time of zero means "as before". Afterwards drain [`Client::poll`].
    pub fn handle(&mut self, now: Now, input: Input) {
        if now.ms >= self.now.ms && now != Now::default() {
            self.now = now;
        }
        match input {
            Input::Call { id, cred, call } => self.begin(id, cred, call),
            Input::Interrupt { id, unserved } => self.interrupt(id, unserved),
            Input::Connected { rank } => self.connected(self.swapped(rank)),
            Input::Message { rank, message } => self.message(self.swapped(rank), message),
            Input::Disconnected { rank } => self.disconnected(self.swapped(rank)),
            Input::Invalidated { token } => self.invalidated(token),
            Input::Direct { address } => self.direct_changed(address),
            Input::DirectDone { id, result } => self.direct_done(id, result),
            Input::KeepDone { token, result } => self.own_keep_done(token, result),
            Input::Tick => self.on_tick(),
            Input::Stop => self.stop(),
        }
        self.settle();
    }

    /// True if requests are unanswered, or wait to be sent: also of calls that were given up.
    pub fn has_requests(&self) -> bool {
        !self.paused.is_empty()
            || !self.behind.is_empty()
            || self.direct.is_busy()
            || self.sessions.values().any(|session| !session.pending.is_empty())
    }

    /// True if a handle of a rank is open here, or was closed and is kept for the next open of the same file. `client`: the number that
    /// this client gives itself.
    pub fn has_handle(&self, client: u64, number: u64) -> bool {
        self.config.client == client && self.files.handles.contains_key(&number)
    }

    /// Changes of subtrees that are decoupled for this client and that were not merged.
    pub fn unmerged(&self) -> Vec<crate::Unmerged> {
        self.own.unmerged()
    }

    /// The next output; `None`: none until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Runs tasks until none has an event.
    fn settle(&mut self) {
        self.end_behind();
        loop {
            if let Some((id, event)) = self.events.pop_front() {
                self.advance(id, event);
            } else if let Some(reply) = self.own.replies.pop_front() {
                self.own_replied(reply);
            } else {
                break;
            }
        }
        if self.stopping {
            self.check_stopped();
        }
    }

    fn begin(&mut self, id: CallId, cred: Arc<Cred>, call: Call) {
        self.calls.insert(id);
        let waiter = Waiter::Call(id);
        // What is open here is closed whoever is there: its caller does not come again.
        let closes = matches!(call, Call::Release { .. });
        let nobody = self.is_single() && self.session(self.only()).is_some_and(|session| session.gave_up) && !closes;
        if self.stopping || self.refused || nobody {
            self.fail(waiter, FsError::Unavailable);
        } else {
            self.dispatch(waiter, &cred, call);
        }
    }

    /// Answers.
    pub(crate) fn complete(&mut self, waiter: Waiter, result: CallResult) {
        match waiter {
            Waiter::Call(id) => {
                if self.calls.remove(&id) {
                    self.out.push_back(Output::Complete { id, result });
                }
            }
            Waiter::Task(id) => self.events.push_back((id, Event::Done(result))),
            Waiter::Nobody => {}
        }
    }

    /// True if somebody still waits: a call may have been given up.
    pub(crate) fn is_awaited(&self, waiter: Waiter) -> bool {
        match waiter {
            Waiter::Call(id) => self.calls.contains(&id),
            Waiter::Task(id) => self.tasks.contains_key(&id),
            Waiter::Nobody => false,
        }
    }

    /// Answers with an error.
    pub(crate) fn fail(&mut self, waiter: Waiter, error: FsError) {
        self.complete(waiter, Err(error.into()));
    }

    /// Answers with nothing but an answer.
    pub(crate) fn answer(&mut self, waiter: Waiter, answer: Answer) {
        self.complete(waiter, Ok(Done::plain(answer)));
    }

    /// Attributes as they are with what is held back, and whether they may be cached.
    pub(crate) fn done_attr(&mut self, mut attr: Attr) -> Done {
        self.overlay(&mut attr);
        self.own_overlay(&mut attr);
        Done { attr_cached: self.use_attr(attr.ino), ..Done::plain(Answer::Entry(attr)) }
    }

    /// Changes attributes into what they will be when everything held back is written.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(file) = self.files.map.get(&attr.ino) {
            file.overlay(attr);
        }
    }

    /// Takes attributes that the server sent. They are current if the ATTR lease is held with them.
    pub(crate) fn learn(&mut self, attr: &Attr) {
        let current = self.counts(attr.ino, Lease::ATTR);
        if let Some(file) = self.files.map.get_mut(&attr.ino)
            && file.learn(attr)
        {
            file.current = current;
        }
    }

    pub(crate) fn new_task(&mut self, task: Task) -> u64 {
        let id = self.next_task;
        self.next_task += 1;
        self.tasks.insert(id, task);
        id
    }

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

    /// The attributes of a plain answer.
    pub(crate) fn expect_entry(result: FsResult<Answer>) -> FsResult<Attr> {
        match result? {
            Answer::Entry(attr) => Ok(attr),
            // The server breaks the protocol; nothing it said can be used.
            _ => Err(FsError::Io),
        }
    }
}
