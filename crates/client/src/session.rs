//! The sessions, one with each rank that was asked something: handshake and messages. Requests and their answers are in
//! `request`, what concerns several ranks in `moves`; what happens when a connection or a session is lost is in `recover`.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::msg::{DataRequest, Hello, PROTOCOL_VERSION, Request, ToClient, ToServer, Welcome};
use loligo_types::{ClusterMap, Ino, Rank, SessionId};

use crate::Output;
use crate::core::Core;
use crate::direct::Told;
use crate::dispatch::Pass;
use crate::file::Files;
use crate::leases::Leases;
use crate::machine::Client;
use crate::numbers::Numbers;
use crate::own::Ask;
use crate::own::Own;
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

impl Session {
    /// Nothing can be given back to it, and nothing got from it.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.id.is_none() || self.gave_up
    }

    pub(crate) fn first_unanswered(&self) -> u64 {
        self.pending.keys().next().copied().unwrap_or(self.next_seq)
    }
}

impl Ranks {
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
    pub(crate) fn is_at_first(&mut self, core: &Core, rank: Rank) -> bool {
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

impl Files {
    /// The open files that a rank has.
    pub(crate) fn files_at(&self, rank: Rank) -> Vec<Ino> {
        self.map.iter().filter(|(_, file)| file.rank == rank).map(|(ino, _)| *ino).collect()
    }

    /// True if the leases that a rank granted for an open file cannot be relied on.
    pub(crate) fn is_suspended(&self, ranks: &Ranks, own: &Own, ino: Ino) -> bool {
        let session = self.map.get(&ino).and_then(|file| ranks.session(file.rank));
        session.is_some_and(|session| session.suspended) || own.is_any() && own.is_freezing(ino)
    }

    /// Number of restarts with possible data loss of the rank that has an open file.
    pub(crate) fn restarts(&self, ranks: &Ranks, ino: Ino) -> u64 {
        let session = self.map.get(&ino).and_then(|file| ranks.session(file.rank));
        session.map_or(0, |session| session.restarts)
    }
}

impl Client {
    pub(crate) fn message(&mut self, rank: Rank, message: ToClient) {
        let now = self.core.now.ms;
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        (session.heard, session.mute) = (now, 0);
        if let ToClient::Welcome(_) | ToClient::Pong { .. } = message {
            let asked = session.unanswered.pop_front();
            session.proven = asked.unwrap_or(session.proven);
            if let (ToClient::Pong { at_ms: at_ms @ 1.. }, Some(asked)) = (&message, asked)
                && let Some(runs) = session.pace.compare(asked, now, *at_ms)
            {
                self.core.out.push_back(Output::ClockRuns { rank, runs });
            }
        }
        self.ranks.speaker = rank;
        match (session.link, message) {
            (Link::Greeting, ToClient::Welcome(welcome)) => self.welcomed(rank, welcome),
            (Link::Greeting, ToClient::Refused { why, text }) => self.refused(rank, why, text),
            (Link::Up, ToClient::Reply { seq, result, granted, ways, volatile }) => {
                self.ranks.note_volatile(rank, seq, &result, volatile);
                self.reply(rank, seq, result, &granted, ways);
            }
            (Link::Up, ToClient::Redirect { seq, rank: to, routes, done }) => {
                self.redirected(rank, seq, to, &routes, done);
            }
            (Link::Up, ToClient::Data { id, result }) => self.data_reply(rank, id, result),
            (Link::Up, ToClient::Recall { ino, id, bits }) => self.recalled(rank, ino, id, bits),
            (Link::Up, ToClient::Routes { routes, moved, to, frozen_ms }) => {
                self.moved(rank, &routes, &moved, to, frozen_ms);
            }
            (Link::Up, ToClient::Map(map)) => self.learn_map(&map, None),
            (Link::Greeting, ToClient::Map(map)) => self.found_another(rank, &map),
            (Link::Up | Link::Greeting, ToClient::Evicted) => self.evicted(rank),
            // Of a connection that was given up already, or out of place.
            _ => {}
        }
    }

    /// Where a rank was sought there is another one, which tells who is there.
    fn found_another(&mut self, rank: Rank, map: &ClusterMap) {
        self.ranks.home_moved |= rank == self.ranks.home;
        self.learn_map(map, None);
        // If it is elsewhere by now it is sought there already.
        if self.ranks.session(rank).is_some_and(|session| session.link == Link::Greeting) {
            self.disconnected(rank);
        }
    }

    fn welcomed(&mut self, rank: Rank, welcome: Welcome) {
        let Some(rank) = self.ranks.find_home(rank, welcome.rank) else {
            // Somebody else has the address by now, and tells who is there. What was begun there is not needed, and nobody is to wait
            // for it. But a server that was started again may have found the client's own, which it is about to ask for.
            let own = self.ranks.sessions.get(&welcome.rank).map(|own| own.id);
            let is_own = own.is_some_and(|id| id.is_none_or(|(id, _)| id == welcome.session));
            if !is_own {
                self.ranks.send(&mut self.core, rank, ToServer::Goodbye { gone: false });
            }
            return self.found_another(rank, &welcome.map);
        };
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        let had = session.id.replace((welcome.session, welcome.secret)).is_some();
        // Or what has moved there is the session's. A restart cannot tell it from one that was begun without that, and what was
        // held may have been given to others since.
        let replaced = std::mem::take(&mut session.replaced);
        session.greeted = false;
        if !had || !welcome.resumed || welcome.direct.is_empty() {
            session.direct = Told::default();
        }
        let before = std::mem::replace(&mut session.data_epoch, welcome.data_epoch);
        // What was written before it moved there is durable.
        let lost = had && (before != welcome.data_epoch || before == 0);
        session.inline_max = u64::from(welcome.inline_max);
        session.session_ms = u64::from(welcome.session_ms).max(100);
        (session.down_since, session.silent_since) = (None, None);
        session.gave_up = false;
        session.missed = if had { session.missed && welcome.resumed } else { welcome.resumed || welcome.kept };
        let suspended = std::mem::take(&mut session.suspended);
        self.ranks.fs_id = Some(welcome.fs_id);
        self.ranks.router.hash_key = Some(welcome.hash_key);
        self.core.out.push_back(Output::Ready { rank: self.ranks.swapped(rank), welcome: welcome.clone() });
        // Before anything is given up or claimed: what is not here any more may be at a rank that was not known.
        self.learn_map(&welcome.map, Some(rank));
        self.lose_volatile(rank, welcome.recovered, (before, welcome.data_epoch));
        if had && !welcome.resumed {
            self.session_lost(rank);
            if welcome.kept {
                self.close_lost_there(rank);
            }
        } else if !replaced && welcome.resumed && !welcome.kept {
            self.reclaim(rank, &welcome.routes, lost);
            self.ranks.hold_data(&self.files, rank);
        } else if !had && !welcome.kept {
            self.begun_without(rank);
        } else if !had {
            self.close_lost_there(rank);
        } else if welcome.resumed {
            self.ranks.repeat_recalls_done(&mut self.core, rank);
        }
        if suspended {
            for ino in self.files.files_at(rank) {
                self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, ino);
            }
        }
        if let Some(session) = self.ranks.sessions.get_mut(&rank) {
            session.link = Link::Up;
        }
        if had && !(welcome.resumed && welcome.kept) {
            self.own_doubt_all(rank);
        }
        self.ranks.resend(&mut self.core, rank);
        self.leave_ranks();
        self.learn_routes(&welcome.routes);
        self.recalls.give_up_unplaced(&mut self.core, &mut self.ranks, &mut self.files, rank);
        // It may have been on its way for long.
        self.keep_alive(rank);
    }
}
