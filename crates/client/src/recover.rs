//! When a connection, a rank or the session with one is lost: what other ranks have goes on.
//!
//! A lost connection costs nothing: the session goes on over a new one, and what was not answered is sent again. A server
//! that restarted is told what was held. A lost session loses what was held under it: handles are stale, and data that
//! was not written is reported lost, once, by the next close or fsync. Not here: what of the state is lost (`losses`).

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_types::msg::{Refusal, ToServer};
use loligo_types::{Answer, Control, Cred, FsError, FsResult, Ino, Lsn, Op, Rank, Route};

use crate::Output;
use crate::losses::{Asked, Lost};
use crate::machine::Client;
use crate::route::NOWHERE;
use crate::run::ANY_LOCK;
use crate::session::{Link, Pending, Then, task_of};
use crate::task::Event;

/// Handles closed in one request.
const CLOSES_MAX: usize = 4096;
/// Handles of lost sessions that are remembered: the newest.
const LOST_MAX: usize = 65_536;

impl Client {
    /// A connection is gone.
    pub(crate) fn disconnected(&mut self, rank: Rank) {
        let now = self.core.now.ms;
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        session.greeted |= session.link == Link::Greeting && session.id.is_none();
        (session.link, session.missed) = (Link::Down, true);
        session.down_since.get_or_insert(now);
        if self.ranks.refused || self.core.stopped {
            return;
        }
        if self.ranks.session(rank).is_some_and(|session| session.left) {
            return self.left(rank);
        }
        if self.ranks.router.may_be(rank) {
            return self.ranks.want_connection(&mut self.core, rank);
        }
        // The rank is no more, and what it had is another's.
        self.core.out.push_back(Output::Disconnect { rank: self.ranks.swapped(rank) });
        self.session_lost(rank);
        self.ranks.sessions.remove(&rank);
        self.ranks.stay_somewhere(&mut self.core);
    }

    pub(crate) fn refused(&mut self, rank: Rank, why: Refusal, text: String) {
        if let Some(session) = self.ranks.sessions.get_mut(&rank) {
            session.link = Link::Down;
        }
        let for_now = matches!(why, Refusal::TooMany | Refusal::Stopping) && self.ranks.fs_id.is_some();
        if for_now || rank != self.ranks.home {
            // It was welcome before: this may be over soon.
            return self.disconnected(rank);
        }
        self.ranks.refused = true;
        self.core.out.push_back(Output::Refused { why, text });
        self.ranks.give_up_rank(&mut self.core, &mut self.calls, &mut self.files, rank);
    }

    /// A rank has ended the session.
    pub(crate) fn evicted(&mut self, rank: Rank) {
        if let Some(session) = self.ranks.sessions.get_mut(&rank) {
            session.id = None;
            session.link = Link::Down;
        }
        self.session_lost(rank);
        self.disconnected(rank);
    }

    /// Everything held there is void. Calls under way fail, but those that may simply be asked again.
    pub(crate) fn session_lost(&mut self, rank: Rank) {
        let single = self.ranks.sessions.len() == 1 && !self.own.is_any();
        self.files.guessed.retain(|(_, before)| *before != rank);
        let Some(asked) = self.ranks.end_session(&self.files, &self.direct, rank) else { return };
        let Asked { pending, elsewhere, tasks: lost } = asked;
        self.lose_held(rank, lost, single);
        if self.own.is_any() {
            // Whether its server was restarted is not known.
            self.files.rewrite_unstable(&mut self.core, rank);
        }
        let alone = self.ranks.router.is_single();
        // What it was to close may have moved, as well as what is lost now; so may what it has opened without a word of that.
        let closes = pending.values().filter_map(|pending| match &pending.request.op {
            Op::Control(Control::Close { handles, .. }) if !handles.is_empty() => {
                Some((pending.request.cred.clone(), handles.clone()))
            }
            op if !alone => op.opens().map(|(handle, _)| (pending.request.cred.clone(), vec![handle])),
            _ => None,
        });
        for (cred, handles) in closes.collect::<Vec<_>>() {
            self.close_elsewhere(rank, &cred, &handles);
        }
        for (_, pending) in pending {
            self.pending_lost(pending);
        }
        // Of files that moved meanwhile: every data operation may be repeated.
        for (id, pending) in elsewhere {
            if let Some(to) = self.files.map.get(&pending.request.ino).map(|file| file.rank) {
                self.data_elsewhere(to, id, pending);
            }
        }
    }

    /// The first session with a rank has begun, and nothing was there of what is believed to have moved to it. That was lost with a
    /// session that had ended before it was met; or it comes just now, or is elsewhere. So nothing lent is relied on, and the
    /// rank is asked for each handle.
    pub(crate) fn begun_without(&mut self, rank: Rank) {
        self.recalls.give_up_leases(&mut self.core, &mut self.ranks, &mut self.files, rank);
        for ino in self.files.files_at(rank) {
            if let Some(file) = self.files.map.get_mut(&ino) {
                file.doubted = true;
            }
            self.doubt(ino);
        }
        let there = self.files.handles.iter().filter(|(number, _)| self.files.at.get(number) == Some(&rank));
        let there: Vec<_> = there.map(|(number, handle)| (*number, handle.ino, Cred::clone(&handle.cred))).collect();
        for (handle, ino, cred) in there {
            let op = Op::Control(Control::GetLock { ino, handle, lock: ANY_LOCK });
            self.request_at(rank, cred, op, Then::Verified(handle), 0);
        }
    }

    /// The rank that has what a handle opens has said whether it knows the handle. If not, that was lost, and others of this
    /// client with it.
    pub(crate) fn handle_verified(&mut self, rank: Rank, handle: u64, result: &FsResult<Answer>) {
        let ino = self.files.handles.get(&handle).map(|handle| handle.ino);
        let Some(ino) = ino.filter(|_| *result == Err(FsError::BadHandle)) else { return };
        let files = &mut self.files;
        if files.at.get(&handle) != Some(&rank) {
            return;
        }
        let of_it = files.handles.iter().filter(|(_, handle)| handle.ino == ino).map(|(number, _)| *number);
        of_it.for_each(|number| _ = files.at.insert(number, NOWHERE));
        _ = files.map.get_mut(&ino).map(|file| file.rank = NOWHERE);
        self.lose_held(NOWHERE, BTreeSet::new(), false);
    }

    /// Gives up everything that a rank had lent, and the tasks that need it. `all`: every one.
    pub(crate) fn lose_held(&mut self, rank: Rank, mut lost: BTreeSet<u64>, all: bool) {
        self.ranks.drop_leases(&mut self.core, rank);
        self.recalls.clear(rank);
        let Lost { files: orphans, waiting, handles, cred } =
            self.files.lose(&mut self.core, &mut self.direct, &mut self.recalls, rank);
        if let Some(cred) = cred {
            self.close_elsewhere(rank, &cred, &handles);
        }
        self.ranks.forget_asked(&orphans);
        if all {
            lost.extend(self.calls.tasks.keys());
        } else {
            lost.extend(self.calls.tasks.iter().filter(|(_, task)| orphans.contains(&task.ino)).map(|(id, _)| *id));
        }
        let tasks: Vec<_> = lost.into_iter().filter_map(|id| Some((id, self.calls.tasks.remove(&id)?))).collect();
        for (id, task) in tasks {
            if all {
                self.calls.fail(&mut self.core, task.waiter, FsError::Stale);
            } else {
                self.finish(id, &task, Err(FsError::Stale.into()));
            }
        }
        // Others that wait for one of several files.
        self.calls.events.extend(waiting.into_iter().map(|task| (task, Event::Flushed)));
        if all {
            for (waiter, _) in std::mem::take(&mut self.files.blocked) {
                self.calls.fail(&mut self.core, waiter, FsError::Stale);
            }
        }
        // Those that go on have lost only what was wanted back.
        for ino in self.files.map.keys().copied().collect::<Vec<_>>() {
            if let Some(file) = self.files.map.get_mut(&ino) {
                file.void_recalls(rank);
            }
            self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, ino);
        }
        self.relieve();
        self.finish_recalls();
    }

    fn pending_lost(&mut self, pending: Pending) {
        let op = pending.request.op;
        match pending.then {
            // Also of a file that moved meanwhile: to give back once more what was given back does no harm, and nobody else would.
            Then::Pass(pass) if op.props().repeatable || self.files.gives_back(&op) => {
                let cred = pass.cred.clone();
                self.request(&cred, op, Then::Pass(pass));
            }
            Then::Second(second) if op.props().repeatable && task_of(&second.then).is_none() => {
                self.request(&Arc::new(pending.request.cred), op, Then::Second(second));
            }
            // Of a file that moved meanwhile, and so is not lost: what a run asks for may be repeated.
            Then::Flush(ino) if self.files.map.contains_key(&ino) => {
                self.request(&Arc::new(pending.request.cred), op, Then::Flush(ino));
            }
            // Whether it was done is not known.
            Then::Pass(pass) => self.calls.fail(&mut self.core, pass.waiter, FsError::Io),
            Then::Located(ino) => self.located(ino, self.ranks.home, &Err(FsError::Stale)),
            // What is decoupled for this client stays so for longer than a session.
            Then::Own { root, ask } => self.own_asked(root, ask, Err(FsError::Stale)),
            Then::OwnTask(id) => self.calls.events.push_back((id, Event::Reply(Err(FsError::Stale)))),
            // They were given to the session that is gone.
            Then::Numbers | Then::Address(_) => {}
            _ => {}
        }
    }

    /// Closes handles of a lost session at all other ranks: what they open may have moved there, with locks, before this
    /// client heard of it, and nobody will use it any more.
    pub(crate) fn close_elsewhere(&mut self, lost: Rank, cred: &Cred, handles: &[u64]) {
        if self.direct.delays_closes(lost, cred, handles) {
            return;
        }
        let others: Vec<Rank> = self.ranks.sessions.keys().copied().filter(|rank| *rank != lost).collect();
        for rank in others {
            self.close_lost(rank, cred, handles);
        }
        self.files.lost.extend(handles);
        let surplus = self.files.lost.len().saturating_sub(self.core.config.some(LOST_MAX));
        self.files.lost.drain(..surplus);
        self.files.lost_cred = Some(cred.clone());
    }

    fn close_lost(&mut self, rank: Rank, cred: &Cred, handles: &[u64]) {
        for handles in handles.chunks(self.core.config.some(CLOSES_MAX)) {
            let op = Op::Control(Control::Close { handles: handles.to_vec(), lost: true });
            self.request_at(rank, cred.clone(), op, Then::Nothing, 0);
        }
    }

    /// The session with a rank began with what had moved there: also, maybe, with handles that were lost before with the
    /// session that they had moved from. Nobody else would close them.
    pub(crate) fn close_lost_there(&mut self, rank: Rank) {
        if self.direct.delays_closes_at(rank) {
            return;
        }
        if let Some(cred) = self.files.lost_cred.clone() {
            let handles = self.files.lost.clone();
            self.close_lost(rank, &cred, &handles);
        }
    }

    /// A rank restarted: tells it what is held. `lost`: it may have forgotten data that was not synced. `routes`: who has
    /// what, as it says.
    pub(crate) fn reclaim(&mut self, rank: Rank, routes: &[Route], lost: bool) {
        // Recalls of the server before the restart are void; if it still wants something back it says so again.
        self.recalls.clear(rank);
        self.lose_rooms(rank);
        self.files.map.values_mut().for_each(|file| file.void_recalls(rank));
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        session.recalls_done.clear();
        session.reclaimed_ms = Some(self.core.now.ms);
        session.restarts += u64::from(lost);
        if lost {
            // Before the routes are learned: what they say to have moved away may have stayed, and what is kept of it is dropped
            // with the rights to it, unless it waits to be written.
            self.files.rewrite_unstable(&mut self.core, rank);
        }
        let Some(session) = self.ranks.sessions.get(&rank) else { return };
        let mut leases = session.leases.all();
        let there = self.files.handles.iter().filter(|(number, _)| self.files.at.get(number) == Some(&rank));
        let opened: BTreeSet<Ino> = there.map(|(_, handle)| handle.ino).collect();
        if !self.ranks.router.is_single() {
            // What has moved there unheard it has forgotten, too, and it gives that to others if nobody claims it now: be the
            // word of it lost, or still under way from a rank that is there, and though the map may not say where it is. What is
            // only believed to have moved away may be there still. Of what it has not got it takes no notice.
            self.learn_routes(routes);
            leases.extend(self.ranks.leases_claimed(rank));
        }
        let claim = self.files.claim(&self.ranks, &self.recalls, rank, leases);
        self.ranks.send(&mut self.core, rank, ToServer::Reclaim(claim));
        self.ranks.doubt_answers(rank);
        self.close_what_may_have_moved(rank);
        self.ask_where(rank, &opened);
        for ino in self.files.map.keys().copied().collect::<Vec<_>>() {
            self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, ino);
        }
    }

    /// Closes handles at a restarted rank that may have moved away before: the rank may have forgotten that, and they are not reclaimed, so
    /// nobody says where they are.
    fn close_what_may_have_moved(&mut self, rank: Rank) {
        if self.ranks.router.is_single() {
            return;
        }
        let Some(session) = self.ranks.sessions.get(&rank) else { return };
        let asked = session.pending.values().filter_map(|pending| match &pending.request.op {
            Op::Control(Control::Close { handles, .. }) => Some((pending.request.cred.clone(), handles.clone())),
            _ => None,
        });
        let mut closes: Vec<(Cred, Vec<u64>)> = asked.collect();
        if let Some(cred) = &self.files.close_cred {
            let here = self.files.closing.iter().filter(|number| self.files.at.get(number) == Some(&rank));
            closes.push((Cred::clone(cred), here.copied().collect()));
        }
        closes.retain(|(_, handles)| !handles.is_empty());
        if closes.is_empty() {
            return;
        }
        // Handles that were lost were told to all already.
        let told: BTreeSet<u64> = self.files.lost.iter().copied().collect();
        for (cred, mut handles) in closes {
            handles.retain(|number| !told.contains(number));
            if !handles.is_empty() {
                self.close_elsewhere(rank, &cred, &handles);
            }
        }
    }

    /// A rank says hello. `epochs`: of its data, before and now; each start that may have lost something counts one. If they are the same, nothing is
    /// lost, and what is ahead of its journal still is.
    pub(crate) fn lose_volatile(&mut self, rank: Rank, recovered: Lsn, epochs: (u64, u64)) {
        let Some((lost, at_once)) = self.ranks.lose_ahead(&self.calls, &self.files, rank, recovered, epochs) else {
            return;
        };
        self.files.unsynced.fail(FsError::Io);
        // Changes that were seen and lost may be cached anywhere.
        self.recalls.give_up_leases(&mut self.core, &mut self.ranks, &mut self.files, rank);
        if self.files.lose_inodes(rank, &lost) {
            self.lose_held(NOWHERE, BTreeSet::new(), false);
            for opened in self.files.opened.values_mut() {
                opened.lost |= opened.dead && at_once.contains(&opened.ino) && opened.flags.write;
            }
        }
    }
}
