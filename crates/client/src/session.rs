//! A session with a rank: its state, what was asked in it, and what answers are for. Not here: the messages (`sessions`), requests and
//! their answers (`request`), what concerns several ranks (`moves`), and what happens when a connection or a session is lost (`recover`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use loligo_types::limits::{INLINE_MAX, PATCH_BYTES_MAX};
use loligo_types::msg::{DataRequest, Hello, PROTOCOL_VERSION, Request, ToClient, ToServer, Welcome};
use loligo_types::{Cred, Ino, Rank, SessionId};

use crate::Output;
use crate::calls::Waiter;
use crate::core::Core;
use crate::direct::Told;
use crate::leases::Leases;
use crate::numbers::Numbers;
use crate::own::Ask;
use crate::pace::Pace;
use crate::ranks::Ranks;
use crate::volatile::Ahead;

/// A rank that cannot be connected to for so long may be gone, milliseconds.
const LOST_MS: u64 = 250;

/// The continuation for the answer to a request.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    /// A call that is one request.
    Pass(Pass),
    /// A step of a task.
    Task(u64),
    /// A step of writing a file back.
    Flush(Ino),
    /// The server has taken back what was held, so data requests are welcome.
    Reclaimed(u64),
    /// Where a file is whose data requests wait.
    Located(Ino),
    /// Verification that a rank knows a handle.
    Verified(u64),
    /// The answer that another rank began.
    Second(Box<Second>),
    /// Inode numbers.
    Numbers,
    /// Something that a subtree which is decoupled for this client lacked.
    Own {
        root: Ino,
        ask: Ask,
    },
    /// A step of a task that completes such a subtree.
    OwnTask(u64),
    /// Registration at a rank of this client's address at the store, for this life of the direct connection.
    Address(u64),
}

/// Names that were held when an answer came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldNames {
    /// Of which directory.
    pub dir: Ino,
    /// The rank that lent them.
    pub of: Rank,
    /// The loss count of names at that time ([`crate::leases::NamesLost`]).
    pub lost: u64,
}

/// An answer of which one rank gave the first part.
#[derive(Debug)]
pub(crate) struct Second {
    /// Names held when the first part came: only names held all the time may be cached.
    pub names: Option<HeldNames>,
    /// In answer to a create: whether the file is new.
    pub created: Option<bool>,
    pub then: Then,
}

/// The continuation for the answer to a data request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DataThen {
    Task(u64),
    /// Bytes from an offset on, for a task that reads.
    Read {
        task: u64,
        at: u64,
    },
    Flush(Ino),
    /// Bytes in a subtree that is decoupled for this client are to be dropped.
    Own(u64),
    /// The journal of such a subtree goes into the store, for a task.
    OwnTask(u64),
    /// A block of the read cache.
    Block {
        ino: Ino,
        start: u64,
    },
}

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct Pending {
    pub request: Request,
    pub then: Then,
    /// Number of times the request was sent on.
    pub hops: u32,
}

/// A data request without an answer.
#[derive(Debug)]
pub(crate) struct PendingData {
    pub request: DataRequest,
    pub then: DataThen,
    /// The server was too busy: to be sent again.
    pub again: bool,
    /// Number of times the file had moved.
    pub hops: u32,
}

/// The state of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Link {
    /// None.
    #[default]
    Down,
    /// Hello was sent.
    Greeting,
    /// Welcome came.
    Up,
}

/// State of the session with one rank.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub link: Link,
    /// Id and secret.
    pub id: Option<(SessionId, u64)>,
    /// A connection was lost over which it was greeted without one: it may have begun one. Who refuses has not.
    pub greeted: bool,
    /// It may have begun one upon such a hello, after the one had ended that came with what moved there.
    pub replaced: bool,
    pub inline_max: u64,
    /// Most bytes of data that the rank takes into its journal at once.
    pub journal_max: u64,
    pub session_ms: u64,
    pub next_seq: u64,
    pub pending: BTreeMap<u64, Pending>,
    /// The first request that was not sent over this connection.
    pub unsent: u64,
    /// The first request that was sent over no connection.
    pub never_sent: u64,
    /// Answers to requests before this one may have been given before another rank was told what is held: see `late`.
    pub late_below: u64,
    /// Requests sent over this connection and not answered.
    pub in_flight: usize,
    pub data: BTreeMap<u64, PendingData>,
    /// Data requests wait for the answer to this request: the server restarted and may not know yet what is open.
    pub data_held: Option<u64>,
    /// The server's latest epoch of data that it may have lost.
    pub data_epoch: u64,
    /// Number of server restarts within the session that may have lost data.
    pub restarts: u64,
    /// When it was told last what is held of it, because it had restarted.
    pub reclaimed_ms: Option<u64>,
    /// When it was asked last for a sign of life: by a hello or a ping.
    pub asked_life: u64,
    /// When the hello and pings were sent over this connection that are not answered yet.
    pub unanswered: VecDeque<u64>,
    /// When the latest hello or ping was sent that was answered: the server has certainly heard of this client since. That
    /// something else was heard from the server does not say so.
    pub proven: u64,
    /// When something came from it last.
    pub heard: u64,
    /// Since when something has been waited for, as far as ticks tell.
    pub waits_since: Option<u64>,
    /// Hellos in a row that were not answered in time.
    pub mute: u32,
    /// Since when there is no working connection, milliseconds.
    pub down_since: Option<u64>,
    /// Since when what is waited for is not answered, if the connection was given up for that.
    pub silent_since: Option<u64>,
    /// Calls fail until there is one again.
    pub gave_up: bool,
    /// So long without the server that it may have given the leases to others: nothing cached is used.
    pub suspended: bool,
    /// Recalls that were answered lately: the answer may have been lost with a connection.
    pub recalls_done: VecDeque<(Ino, u64)>,
    /// Rate of its clock relative to this client's, over this connection.
    pub pace: Pace,
    /// The leases it has granted.
    pub leases: Leases,
    /// State of the registration of this client's store address at it.
    pub direct: Told,
    /// This client has ended it, and waits for the connection to be closed.
    pub left: bool,
    /// Inode numbers that it has given.
    pub numbers: Numbers,
    /// Answers of it that were not durable when they came.
    pub ahead: Ahead,
    /// A connection is wanted, and where to is not known.
    pub nowhere: bool,
    /// It was sought last where the first connection was made to.
    pub at_first: bool,
    /// Notices of files that moved away from this rank may be lost: with a connection, or because there was none yet.
    pub missed: bool,
}

/// The change of a session with a welcome.
pub(crate) struct Welcomed {
    /// There was one before.
    pub had: bool,
    pub replaced: bool,
    /// The epoch of the server's data before, and whether data may be lost.
    pub before: u64,
    pub lost: bool,
    pub suspended: bool,
}

impl Session {
    /// A rank welcomes this client.
    pub(crate) fn welcome(&mut self, welcome: &Welcome) -> Welcomed {
        let had = self.id.replace((welcome.session, welcome.secret)).is_some();
        // Or what has moved there is the session's. A restart cannot tell it from one that was begun without that, and what was
        // held may have been given to others since.
        let replaced = std::mem::take(&mut self.replaced);
        self.greeted = false;
        if !had || !welcome.resumed || welcome.direct.is_empty() {
            self.direct = Told::default();
        }
        let before = std::mem::replace(&mut self.data_epoch, welcome.data_epoch);
        // What was written before it moved there is durable.
        let lost = had && (before != welcome.data_epoch || before == 0);
        self.inline_max = u64::from(welcome.inline_max);
        self.journal_max = u64::from(welcome.journal_max).min(PATCH_BYTES_MAX as u64);
        self.session_ms = u64::from(welcome.session_ms).max(100);
        (self.down_since, self.silent_since) = (None, None);
        self.gave_up = false;
        self.missed = if had { self.missed && welcome.resumed } else { welcome.resumed || welcome.kept };
        let suspended = std::mem::take(&mut self.suspended);
        Welcomed { had, replaced, before, lost, suspended }
    }

    /// Nothing can be given back to it, and nothing got from it.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.id.is_none() || self.gave_up
    }

    pub(crate) fn first_unanswered(&self) -> u64 {
        self.pending.keys().next().copied().unwrap_or(self.next_seq)
    }
}

/// A rank that is waited for is not doubted earlier than after this, milliseconds, however soon calls are given up.
const DOUBT_MIN_MS: u64 = 500;

/// A call that is one request.
#[derive(Debug)]
pub(crate) struct Pass {
    pub waiter: Waiter,
    pub cred: Arc<Cred>,
    /// Directory whose names the answer speaks of; 0: none.
    pub dir: Ino,
    /// The directory that it gives a name in which something else had elsewhere, and the one in which the other has that, if they change places.
    pub renamed: Option<(Ino, Option<Ino>)>,
    /// Handle whose locks it changes, for the record; 0: none.
    pub lock: Option<(u64, loligo_types::FileLock, bool)>,
    /// True if it changes attributes of its target: handles that were opened before may not serve others then.
    pub sets: bool,
    /// Entries that other ranks have listed before.
    pub listed: Vec<loligo_types::DirEntry>,
    /// The file through which the lock was to be taken was closed meanwhile: nobody is asked for it any more, and if somebody gave it, it is
    /// given back behind it.
    pub over: bool,
    /// Lookup leases are welcome with the answer; the walk begins so deep below the root.
    pub ways: Option<u16>,
}

impl Pass {
    /// One of which nothing is to be remembered.
    pub(crate) fn new(waiter: Waiter, cred: &Arc<Cred>) -> Pass {
        let cred = Arc::clone(cred);
        Pass {
            waiter,
            cred,
            dir: Ino(0),
            renamed: None,
            lock: None,
            sets: false,
            listed: Vec::new(),
            over: false,
            ways: None,
        }
    }
}

impl Ranks {
    /// A message has come from a rank: the state of the connection. `None`: there is no session.
    pub(crate) fn hears(&mut self, core: &mut Core, rank: Rank, message: &ToClient) -> Option<Link> {
        let now = core.now.ms;
        let session = self.sessions.get_mut(&rank)?;
        (session.heard, session.mute) = (now, 0);
        if let ToClient::Welcome(_) | ToClient::Pong { .. } = message {
            let asked = session.unanswered.pop_front();
            session.proven = asked.unwrap_or(session.proven);
            if let (ToClient::Pong { at_ms: at_ms @ 1.. }, Some(asked)) = (message, asked)
                && let Some(runs) = session.pace.compare(asked, now, *at_ms)
            {
                core.out.push_back(Output::ClockRuns { rank, runs });
            }
        }
        self.speaker = rank;
        Some(session.link)
    }

    /// Asks a rank that is waited for whether it lives. Whether it is to be left, because it has not said so.
    pub(crate) fn asks_in_vain(&mut self, core: &mut Core, rank: Rank) -> bool {
        let now = core.now.ms;
        // It takes up to one and a half times as long: calls that are to fail earlier must not wait for that.
        let doubt = core.config.doubt_ms.min((core.config.give_up_ms / 2).max(DOUBT_MIN_MS));
        let Some(session) = self.sessions.get_mut(&rank).filter(|_| doubt > 0) else { return false };
        let quiet = now.saturating_sub(session.heard);
        let waits = !session.pending.is_empty() || !session.data.is_empty();
        session.waits_since = waits.then(|| session.waits_since.unwrap_or(now));
        match session.link {
            Link::Up if waits => {
                let asked = session.unanswered.front().map(|sent| now.saturating_sub(*sent));
                if quiet >= doubt && asked.is_some_and(|asked| asked >= doubt) {
                    // It was not there when they began to wait, and not only since that is known. A client that was itself stopped for
                    // long knows no more than that it asked.
                    let since =
                        session.waits_since.unwrap_or(now).max(session.heard).max(now.saturating_sub(2 * doubt));
                    // Where it is sought goes by when the connection was lost.
                    session.silent_since.get_or_insert(since);
                    return true;
                } else if quiet >= doubt / 2 && now.saturating_sub(session.asked_life) >= doubt / 2 {
                    self.send(core, rank, ToServer::Ping);
                }
            }
            // One that has just started may have much to do before it welcomes anybody: it is given more time every other time.
            Link::Greeting if now.saturating_sub(session.asked_life) >= doubt << (session.mute / 2).min(5) => {
                session.mute += 1;
                return true;
            }
            _ => {}
        }
        false
    }

    /// Largest file that a rank holds in its inode, bytes. Of a rank that has not welcomed this client it is not known: it says so itself if a file
    /// is too large.
    pub(crate) fn inline_max(&self, rank: Rank) -> u64 {
        let met = self.session(rank).filter(|session| session.id.is_some());
        met.map_or(INLINE_MAX as u64, |session| session.inline_max)
    }

    /// The session with a rank, for reading.
    pub(crate) fn session(&self, rank: Rank) -> Option<&Session> {
        self.sessions.get(&rank)
    }

    /// The session with a rank; asks for a connection if there was none.
    pub(crate) fn open_session(&mut self, core: &mut Core, rank: Rank) -> &mut Session {
        if !self.sessions.contains_key(&rank) {
            // What moves there unseen is held by the rank that speaks until after its last sign of life.
            let proven = self.session(self.speaker).map_or(core.now.ms, |speaker| speaker.proven);
            let (down_since, next_seq) = (Some(core.now.ms), self.first_seq);
            let session = Session { down_since, proven, next_seq, ..Session::default() };
            self.sessions.insert(rank, session);
            self.want_connection(core, rank);
        }
        self.sessions.entry(rank).or_default()
    }

    /// A rank that was nowhere is sought once more where somebody may know of it: whoever would tell this client may be gone, too.
    pub(crate) fn seek_again(&mut self, core: &mut Core, rank: Rank) {
        // One that was never met would begin a session there.
        let seeks = |session: &Session| session.nowhere && !session.left && session.id.is_some();
        if self.home_moved && self.session(rank).is_some_and(seeks) {
            self.want_connection(core, rank);
        }
    }

    /// Asks for a connection, now or when it is known where to.
    pub(crate) fn want_connection(&mut self, core: &mut Core, rank: Rank) {
        let first = self.is_at_first(core, rank);
        let address = if first { None } else { self.router.address(rank) };
        let nowhere = !first && address.is_none();
        if let Some(session) = self.sessions.get_mut(&rank) {
            session.nowhere = nowhere;
        }
        if !nowhere {
            core.out.push_back(Output::Connect { rank: self.swapped(rank), address });
        }
    }

    /// True if a rank is to be sought at the address of the first connection. A server there knows the current ranks, even if this client
    /// has missed that all ranks it knows have gone. So other ranks than the first are sought there, too, now and then, if they cannot be
    /// found and nothing else comes from there.
    fn is_at_first(&mut self, core: &Core, rank: Rank) -> bool {
        if !self.home_moved {
            return rank == self.home;
        }
        let now = core.now.ms;
        let Some(session) = self.sessions.get_mut(&rank) else { return false };
        // Whoever takes connections and says nothing may have lost the rank to another server.
        if session.mute == 0 && session.down_since.is_none_or(|since| now < since + LOST_MS) {
            return false;
        }
        session.at_first = !session.at_first;
        session.at_first
    }

    /// From the number by which the driver knows a connection to the rank, and back. The driver's first connection was
    /// made before it was known which rank is there: if it is another one than was thought, the two change names.
    pub(crate) fn swapped(&self, rank: Rank) -> Rank {
        if rank == self.home {
            self.named
        } else if rank == self.named {
            self.home
        } else {
            rank
        }
    }

    pub(crate) fn send(&mut self, core: &mut Core, rank: Rank, message: ToServer) {
        if let (ToServer::Hello(_) | ToServer::Ping, Some(session)) = (&message, self.sessions.get_mut(&rank)) {
            session.asked_life = core.now.ms;
            session.unanswered.push_back(core.now.ms);
        }
        core.out.push_back(Output::Send { rank: self.swapped(rank), message });
    }

    /// A connection was made: greets.
    pub(crate) fn connected(&mut self, core: &mut Core, rank: Rank) {
        let late = self.session(rank).is_some_and(|session| self.may_have_ended(core, session));
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        session.link = Link::Greeting;
        session.unanswered.clear();
        // Who answers may be another process with another clock.
        session.pace = Pace::default();
        session.replaced |= session.id.is_none() && session.greeted && late;
        let hello = Hello {
            versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
            resume: session.id,
            name: core.config.name.clone(),
            client: core.config.client,
            fs_id: self.fs_id,
        };
        self.send(core, rank, ToServer::Hello(hello));
    }

    /// Which rank is where the driver's first connection goes. Whether it is the one that it ought to be.
    pub(crate) fn find_home(&mut self, rank: Rank, speaks: Rank) -> Option<Rank> {
        if rank == speaks {
            self.home_known |= rank == self.home;
            return Some(rank);
        }
        if rank != self.home || self.home_known {
            return None;
        }
        if self.sessions.contains_key(&speaks) {
            return None;
        }
        let session = self.sessions.remove(&rank)?;
        self.sessions.insert(speaks, session);
        (self.home, self.home_known, self.speaker) = (speaks, true, speaks);
        Some(speaks)
    }
}

/// The receiver of an answer.
pub(crate) fn waiter_of(then: &Then) -> Option<Waiter> {
    match then {
        Then::Task(id) => Some(Waiter::Task(*id)),
        Then::Pass(pass) => Some(pass.waiter),
        Then::Second(second) => waiter_of(&second.then),
        Then::Nothing
        | Then::Flush(_)
        | Then::Own { .. }
        | Then::OwnTask(_)
        | Then::Reclaimed(_)
        | Then::Located(_)
        | Then::Verified(_)
        | Then::Numbers
        | Then::Address(_) => None,
    }
}

/// The task that waits for an answer.
pub(crate) fn task_of(then: &Then) -> Option<u64> {
    match waiter_of(then)? {
        Waiter::Task(id) => Some(id),
        Waiter::Call(_) | Waiter::Nobody => None,
    }
}
