//! The ranks, as they are known here: the sessions with them, what waits to be asked of them, and which one is to be asked. Not
//! here: a session by itself (`session`), the map by itself (`route`), and what is done with answers (`request`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::msg::ToServer;
use loligo_types::{FsError, Ino, Name, Rank};

use crate::calls::{Calls, Waiter};
use crate::core::Core;
use crate::file::Files;
use crate::locks::Behind;
use crate::own::OWN;
use crate::places::Paused;
use crate::recall::Recalls;
use crate::route::{Router, SEEN_MAX};
use crate::session::{DataThen, Link, Pending, PendingData, Session, Then, waiter_of};
use crate::task::{Step, Task};
use crate::{CallId, Config, Output, WalkAt};

/// All ranks.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// One with each rank that was asked something.
    pub sessions: BTreeMap<Rank, Session>,
    /// Sessions that begin count their requests from here: above all of those before. A crash can take back that a rank has ended
    /// one, which then goes on and takes numbers for what they were.
    pub first_seq: u64,
    /// The number that the driver's first connection has in inputs and outputs ([`Config::rank`]).
    pub named: Rank,
    /// The rank at the driver's first connection: as configured, until it is known.
    pub home: Rank,
    pub home_known: bool,
    /// Where the driver's first connection was made to there is another rank by now, or may be.
    pub home_moved: bool,
    pub router: Router,
    /// The sender of the message that is being handled.
    pub speaker: Rank,
    /// Requests that are sent on later.
    pub paused: Vec<Paused>,
    /// Requests for locks whose owners are giving locks back.
    pub behind: Vec<Behind>,
    /// Data requests of files that are looked for.
    pub parked: BTreeMap<Ino, Vec<(u64, PendingData)>>,
    pub fs_id: Option<[u8; 16]>,
    /// The server will not have this client.
    pub refused: bool,
}

impl Ranks {
    pub(crate) fn new(config: &Config) -> Ranks {
        Ranks {
            sessions: BTreeMap::from([(config.rank, Session::default())]),
            first_seq: 1,
            named: config.rank,
            home: config.rank,
            home_known: false,
            home_moved: false,
            router: Router::with(config.some(SEEN_MAX)),
            speaker: config.rank,
            paused: Vec::new(),
            behind: Vec::new(),
            parked: BTreeMap::new(),
            fs_id: None,
            refused: false,
        }
    }

    /// True if a call waits for a rank to which there is no connection.
    pub(crate) fn is_unserved(&self, calls: &Calls, files: &Files, id: CallId) -> bool {
        let mut away = self.sessions.keys().filter(|rank| !self.is_up(**rank)).peekable();
        // The data of what is decoupled for this client goes to some rank, too; the file does not say to which one.
        let is_own = |(number, task): (&u64, &Task)| {
            let waits = || calls.call_of(Waiter::Task(*number)) == Some(id);
            files.map.get(&task.ino).is_some_and(|file| file.rank == OWN) && waits()
        };
        let is_any_away = away.peek().is_some();
        is_any_away && (calls.tasks.iter().any(is_own) || away.any(|r| self.calls_at(calls, files, *r).contains(&id)))
    }

    /// The rank that is asked for a way, if it is not the one with the first name.
    pub(crate) fn rank_of_walk(&self, names: &[Name], at: WalkAt, to_dir: bool) -> Option<Rank> {
        let dirs = if to_dir { names } else { names.split_last()?.1 };
        match at {
            WalkAt::First => None,
            WalkAt::Rank(rank, _) if to_dir => Some(rank),
            WalkAt::Rank(rank, dir) => {
                let hash = names.last().and_then(|name| self.router.hash(name));
                Some(self.router.rank_of_part(dir, hash?).unwrap_or(rank))
            }
            WalkAt::ByPath(from) => self.router.rank_by_path(dirs.get(from as usize..)?),
        }
    }

    /// True if a rank may have ended a session, not having heard of this client; a little before it may think so.
    pub(crate) fn may_have_ended(&self, core: &Core, session: &Session) -> bool {
        let unproven = core.now.ms.saturating_sub(session.proven);
        self.lives(session).is_some_and(|lives| unproven > lives * 3 / 4)
    }

    /// The time a session lives without a message, milliseconds. Files that moved to a rank that was not reached yet are held in a
    /// session that this client has not seen: it lives as long there as elsewhere. `None`: nothing can be held there.
    fn lives(&self, session: &Session) -> Option<u64> {
        let of = |session: &Session| session.id.map(|_| session.session_ms);
        of(session).or_else(|| self.sessions.values().filter_map(of).min())
    }

    pub(crate) fn leave(&mut self, core: &mut Core, rank: Rank) {
        self.send(core, rank, ToServer::Goodbye { gone: false });
        let now = core.now.ms;
        if let Some(session) = self.sessions.get_mut(&rank) {
            (session.link, session.left) = (Link::Down, true);
            session.down_since.get_or_insert(now);
        }
    }

    /// Keeps a session with some rank: without any, a client hears nothing of ranks that come and go.
    pub(crate) fn stay_somewhere(&mut self, core: &mut Core) {
        let stays = |(rank, session): (&Rank, &crate::session::Session)| !session.left && self.router.has_rank(*rank);
        if core.stopping || self.sessions.iter().any(stays) {
            return;
        }
        let rank = self.router.some_rank(self.home);
        if self.router.has_rank(rank) {
            self.open_session(core, rank);
        }
    }

    pub(crate) fn is_up(&self, rank: Rank) -> bool {
        self.session(rank).is_some_and(|session| session.link == Link::Up)
    }

    /// Nobody waits any more for what was asked for files that are lost: their runs and tasks have gone with them, and those of the
    /// same file, if it is opened again, are others, which must not take the answers for theirs.
    pub(crate) fn forget_asked(&mut self, lost: &BTreeSet<Ino>) {
        let is_of_it =
            |pending: &Pending| matches!(pending.then, Then::Flush(ino) | Then::Located(ino) if lost.contains(&ino));
        for session in self.sessions.values_mut() {
            session.data.retain(|_, pending| !lost.contains(&pending.request.ino));
            let asked = session.pending.values_mut().filter(|pending| is_of_it(pending));
            asked.for_each(|pending| pending.then = Then::Nothing);
        }
        self.paused.retain(|paused| !is_of_it(&paused.pending));
        self.parked.retain(|ino, _| !lost.contains(ino));
    }

    /// So long without a connection to a rank: calls that it is to answer fail, whatever becomes of their requests.
    pub(crate) fn give_up_rank(&mut self, core: &mut Core, calls: &mut Calls, files: &mut Files, rank: Rank) {
        if let Some(session) = self.sessions.get_mut(&rank) {
            session.gave_up = true;
        }
        if self.refused || self.is_single() {
            return calls.give_up_calls(core, self, files);
        }
        for id in self.calls_at(calls, files, rank) {
            if calls.waiting.remove(&id) {
                core.out.push_back(Output::Complete { id, result: Err(FsError::Unavailable.into()) });
            }
        }
        calls.begin_unsettled(core, self, files);
    }

    /// Calls that cannot end without a rank.
    fn calls_at(&self, calls: &Calls, files: &Files, rank: Rank) -> BTreeSet<CallId> {
        let mut waiters: Vec<Waiter> = files.blocked.iter().map(|(waiter, _)| *waiter).collect();
        if let Some(session) = self.session(rank) {
            waiters.extend(session.pending.values().filter_map(|pending| waiter_of(&pending.then)));
            waiters.extend(session.data.values().filter_map(|pending| match pending.then {
                DataThen::Task(task) | DataThen::Read { task, .. } => Some(Waiter::Task(task)),
                DataThen::Flush(_) | DataThen::Block { .. } | DataThen::Own(_) | DataThen::OwnTask(_) => None,
            }));
        }
        waiters.extend(self.waiters_behind(rank));
        let at = |ino: &Ino| files.map.get(ino).is_some_and(|file| file.rank == rank);
        let tasks = calls.tasks.iter().filter(|(_, task)| at(&task.ino) || matches!(task.step, Step::SyncAll { .. }));
        waiters.extend(tasks.map(|(id, _)| Waiter::Task(*id)));
        waiters.into_iter().filter_map(|waiter| calls.call_of(waiter)).collect()
    }

    /// A rank may have given to others what this client holds: nothing of it is served from here until it is back.
    pub(crate) fn suspend(&mut self, core: &mut Core, files: &mut Files, recalls: &mut Recalls, rank: Rank) {
        if let Some(session) = self.sessions.get_mut(&rank) {
            session.suspended = true;
        }
        recalls.give_up_leases(core, self, files, rank);
        for ino in files.files_at(rank) {
            files.suspend_file(core, ino);
        }
    }
}
