//! A client that lives on the rank's thread: its machine is fed and emptied there, between the metadata machine's own
//! rounds, and its messages are handed over as they are. No socket, no lock, no thread between it and the server, so a
//! request that its guest brings costs one wake-up in and one out. What it means is the same machine's that a client
//! elsewhere has ([`crate::client`]). Ranks that are added while it lives it reaches by connections, as any client does.
//!
//! Here are the handle for other threads and what the rank keeps; the steps are in `rank/resident.rs`.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use loligo_client::{Call, CallId, CallResult, Client as Machine, Config, Input, Token, Unmerged};
use loligo_types::msg::ToClient;
use loligo_types::{Cred, FsError, Rank, SessionId};

use super::conn::Asked;
use super::queue::Inbox;
use super::rank::{Done, PeerSockets};
use crate::client::calls::Callback;
use crate::client::invalidator::Invalidator;
use crate::client::keeping::Keeping;
use crate::client::{Options, prepare};

/// A guest on the rank's thread beside the machines, which makes the resident client's calls there: a mount.
pub trait Guest: Send {
    /// The descriptor that it waits for: readable means that [`Guest::take`] has something to take. It does not block.
    fn source(&self) -> BorrowedFd<'_>;

    /// Takes one request, if there is one, and submits calls for it by the [`Resident`]; must not wait for anything.
    fn take(&mut self) -> Took;

    /// The rank has ended before the guest has. Called on the rank's thread, as the last thing.
    fn orphaned(self: Box<Self>);
}

/// The result of a guest's look for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// It took one.
    Request,
    /// There is none now.
    Nothing,
    /// None will come any more.
    End,
}

/// A message of the resident client to the rank.
pub(crate) enum Ask {
    /// Begin: make the machine, connect it.
    Begin(Box<Residence>),
    Call {
        id: CallId,
        cred: Arc<Cred>,
        call: Call,
        done: Callback,
    },
    /// Nobody waits any more for a call; `unserved`: as in [`Input::Interrupt`].
    Interrupt {
        id: CallId,
        unserved: bool,
    },
    Invalidated(Token),
    Kept(u64, Result<Box<str>, FsError>),
    Host(Box<dyn Guest>),
    Stop,
}

/// A handle on a resident client; clones are the same one. Calls may be submitted from any thread.
#[derive(Clone)]
pub struct Resident {
    inbox: Arc<Inbox<Done>>,
    state: Arc<Stopped>,
}

#[derive(Default)]
pub(crate) struct Stopped {
    /// Number of the call that was numbered last.
    numbered: AtomicU64,
    /// Since it has stopped: the changes that were not merged.
    is: Mutex<Option<Vec<Unmerged>>>,
    told: Condvar,
}

impl Stopped {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Unmerged>>> {
        self.is.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, unmerged: Vec<Unmerged>) {
        self.lock().get_or_insert(unmerged);
        self.told.notify_all();
    }
}

impl Resident {
    pub(crate) fn begin(
        (rank, inbox): (Rank, &Arc<Inbox<Done>>),
        options: &Options,
        welcomed: Sender<std::result::Result<(), String>>,
    ) -> std::io::Result<Resident> {
        let resident = Resident { inbox: inbox.clone(), state: Arc::default() };
        let invalidator = match &options.invalidate {
            Some(target) => {
                let inbox = Arc::downgrade(inbox);
                let told = move |token| match inbox.upgrade() {
                    Some(inbox) => inbox.offer(Done::Resident(Ask::Invalidated(token))).is_ok(),
                    None => false,
                };
                Some(Invalidator::start(target, told)?)
            }
            None => None,
        };
        let keeping = match &options.keep {
            Some(dir) => {
                let inbox = Arc::downgrade(inbox);
                let kept = move |token, result| match inbox.upgrade() {
                    Some(inbox) => inbox.offer(Done::Resident(Ask::Kept(token, result))).is_ok(),
                    None => false,
                };
                Some(Keeping::start(dir.clone(), kept)?)
            }
            None => None,
        };
        let config = Config { rank, lives_with_rank: true, ..prepare(options) };
        let residence = Residence {
            rank: config.rank,
            machine: Machine::new(config),
            conn: 0,
            connected: false,
            wants_connection: false,
            abroad: PeerSockets::default(),
            hung_up: false,
            session: None,
            calls: HashMap::new(),
            incoming: VecDeque::new(),
            asked: VecDeque::new(),
            data_asked: VecDeque::new(),
            invalidator,
            keeping,
            welcomed: Some(welcomed),
            guest: None,
            stopped: false,
            state: resident.state.clone(),
        };
        resident.ask(Ask::Begin(Box::new(residence)));
        Ok(resident)
    }

    /// Sends a message; true if the rank will see it.
    fn ask(&self, ask: Ask) -> bool {
        self.inbox.offer(Done::Resident(ask)).is_ok()
    }

    /// Submits a call; `done` gets its result on the rank's thread. It must not wait for anything.
    pub fn submit(&self, cred: &Arc<Cred>, call: Call, done: impl FnOnce(CallResult) + Send + 'static) {
        self.submit_as(self.number(), cred, call, done);
    }

    /// A number for [`Resident::submit_as`], of no other call.
    pub fn number(&self) -> CallId {
        CallId(self.state.numbered.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Nobody waits any more for a call; as [`crate::client::Client::interrupt`].
    pub fn interrupt(&self, number: CallId, unserved: bool) {
        self.ask(Ask::Interrupt { id: number, unserved });
    }

    /// The same as [`Resident::submit`], with a number by which [`Resident::interrupt`] knows the call.
    pub fn submit_as(&self, id: CallId, cred: &Arc<Cred>, call: Call, done: impl FnOnce(CallResult) + Send + 'static) {
        let ask = Ask::Call { id, cred: Arc::clone(cred), call, done: Box::new(done) };
        if let Err(Done::Resident(Ask::Call { done, .. })) = self.inbox.offer(Done::Resident(ask)) {
            done(Err(FsError::Unavailable.into()));
        }
    }

    /// Lets a guest live on the rank's thread. If the rank has ended, it is told so at once.
    pub fn host(&self, guest: Box<dyn Guest>) {
        if let Err(Done::Resident(Ask::Host(guest))) = self.inbox.offer(Done::Resident(Ask::Host(guest))) {
            guest.orphaned();
        }
    }

    /// Writes everything back, gives everything back, and ends the session. Later calls fail with `Unavailable`.
    /// `Unavailable` if that took longer than `limit`: what was not written back by then is lost.
    pub fn stop(&self, limit: Duration) -> Result<(), FsError> {
        if !self.ask(Ask::Stop) {
            return Err(FsError::Unavailable);
        }
        let until = Instant::now() + limit;
        let mut stopped = self.state.lock();
        while stopped.is_none() {
            let left = until.checked_duration_since(Instant::now()).ok_or(FsError::Unavailable)?;
            stopped = self.state.told.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// The same as [`crate::client::Client::unmerged`]; nothing before it has stopped.
    pub fn unmerged(&self) -> Vec<Unmerged> {
        self.state.lock().clone().unwrap_or_default()
    }
}

/// The rank's state of its resident client.
pub(crate) struct Residence {
    pub(crate) machine: Machine,
    /// The machine's number for this server.
    pub(crate) rank: Rank,
    /// The number of its connection, which has no socket.
    pub(crate) conn: u64,
    pub(crate) connected: bool,
    /// It wants a (new) connection, which it gets with the next tick: what made it want one may need a moment to pass.
    pub(crate) wants_connection: bool,
    /// Its connections to other ranks.
    pub(crate) abroad: PeerSockets,
    /// The server has closed the connection; to be told once everything that was sent before is heard.
    pub(crate) hung_up: bool,
    pub(crate) session: Option<SessionId>,
    pub(crate) calls: HashMap<CallId, Callback>,
    /// Messages that the server has sent it.
    pub(crate) incoming: VecDeque<ToClient>,
    pub(crate) asked: VecDeque<Asked>,
    pub(crate) data_asked: VecDeque<Asked>,
    pub(crate) invalidator: Option<Invalidator>,
    pub(crate) keeping: Option<Keeping>,
    pub(crate) welcomed: Option<Sender<std::result::Result<(), String>>>,
    pub(crate) guest: Option<Box<dyn Guest>>,
    pub(crate) stopped: bool,
    pub(crate) state: Arc<Stopped>,
}

impl Residence {
    /// Takes a call.
    pub(crate) fn input(&mut self, id: CallId, cred: Arc<Cred>, call: Call, done: Callback) -> Input {
        self.calls.insert(id, done);
        Input::Call { id, cred, call }
    }

    /// Nothing that was asked over the last connection is answered any more.
    pub(crate) fn part(&mut self) {
        self.session = None;
        self.asked.clear();
        self.data_asked.clear();
    }

    /// Tells the first who waits how the handshake went.
    pub(crate) fn welcome(&mut self, how: std::result::Result<(), String>) {
        if let Some(to) = self.welcomed.take() {
            let _ = to.send(how);
        }
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.state.set(self.machine.unmerged());
        let mut left: Vec<_> = std::mem::take(&mut self.calls).into_iter().collect();
        left.sort_by_key(|(id, _)| *id);
        for (_, done) in left {
            done(Err(FsError::Unavailable.into()));
        }
        if let Some(guest) = self.guest.take() {
            guest.orphaned();
        }
    }
}
