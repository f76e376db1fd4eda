//! Migration between ranks, as a client sees it: requests that another rank is to answer, remote inodes, and files, leases and locks that
//! move. Not here: the rank to ask first (`route`), and what is noted of a move (`places`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::msg::Request;
use loligo_types::{
    Again, Answer, Control, Cred, DataError, FsError, FsResult, Ino, Kind, Lease, Op, OpenFlags, Rank, Route, Seq,
};

use crate::machine::Client;
use crate::places::Paused;
use crate::route::{Found, Subject};
use crate::session::{DataThen, Pending, PendingData, Second, Then};

/// A request is sent on at most this often, and a data request asked where its file is.
const HOPS_MAX: u32 = 32;
/// After this often with pauses: the ranks are busy moving things.
const HOPS_AT_ONCE: u32 = 3;
/// The first pause and the longest, milliseconds.
const PAUSE_MS: u64 = 50;
const PAUSE_MAX_MS: u64 = 1600;

/// Pause before a retry, milliseconds.
fn pause_ms(times: u32) -> u64 {
    (PAUSE_MS << times.saturating_sub(HOPS_AT_ONCE + 1).min(16)).min(PAUSE_MAX_MS)
}

impl Client {
    /// Another rank is to be asked.
    pub(crate) fn redirected(&mut self, rank: Rank, seq: Seq, to: Rank, routes: &[Route], done: Option<(Ino, u64)>) {
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        let Some(mut pending) = session.pending.remove(&seq.0) else { return };
        session.in_flight = session.in_flight.saturating_sub(1);
        if let (Some(ino), None) = (pending.request.ino, done) {
            // The other rank knows only of numbers of its own.
            session.numbers.give_back(ino);
        }
        self.learn_routes(routes);
        pending.hops += 1;
        self.at_hand.put_down();
        match self.ranks.router.subject(&pending.request.op) {
            // Said of what was made at the end of a way, not of where that begins.
            _ if done.is_some() && matches!(pending.request.op, Op::Via { .. }) => {}
            // One that has some of its names has not got it for that.
            Subject::Names(dir, _) if self.ranks.router.is_parted(dir) => {}
            Subject::Names(dir, _) => {
                self.ranks.router.correct(dir, to);
                // Or that one has the name alone: what is open of the directory may be where it was.
                self.believe(dir, to, None);
            }
            Subject::Inode(ino) => {
                self.ranks.router.correct(ino, to);
                self.believe(ino, to, Some(rank));
            }
            Subject::Root | Subject::Handles => {}
        }
        if let Op::Control(Control::Close { handles, .. }) = &pending.request.op
            && handles.len() > 1
        {
            // Of those that were there some may have moved to others still: each answer names one of them.
            let (cred, op) = (pending.request.cred.clone(), pending.request.op.clone());
            self.request_at(rank, cred, op, Then::Nothing, 0);
        }
        match done {
            Some((ino, value)) => self.make_answer(to, pending, ino, value),
            None => self.send_on(to, pending),
        }
        self.ranks.send_requests(&mut self.core, rank);
    }

    /// Asks another rank the same.
    fn send_on(&mut self, to: Rank, pending: Pending) {
        let hops = pending.hops;
        if self.files.rests_on_what_was_lost(&pending.request.op) {
            return self.drop_lost(to, pending);
        }
        if hops > HOPS_MAX {
            return self.replied(to, pending.then, Err(FsError::Busy));
        }
        if hops > HOPS_AT_ONCE {
            return self.ranks.paused.push(Paused { due: self.core.now.ms + pause_ms(hops), rank: to, pending });
        }
        let Request { cred, op, .. } = pending.request;
        self.request_at(to, cred, op, pending.then, hops);
    }

    /// Looks at a file's attributes again, because what they said proved wrong so often. Others are at work on the file, or the
    /// answer that says what has changed is under way: after some times there is a pause.
    pub(crate) fn refresh(&mut self, cred: &Cred, ino: Ino, then: Then, times: u32) {
        let op = Op::GetAttr { ino };
        let rank = self.ranks.route(&self.files, &self.own, &op);
        if times <= HOPS_AT_ONCE {
            return self.request_at(rank, cred.clone(), op, then, 0);
        }
        let request =
            Request { seq: Seq(0), answered: Seq(0), want: Lease::ATTR, cred: cred.clone(), op, ino: None, ways: None };
        let pending = Pending { request, then, hops: 0 };
        self.ranks.paused.push(Paused { due: self.core.now.ms + pause_ms(times), rank, pending });
    }

    /// It is not sent on.
    fn drop_lost(&mut self, rank: Rank, pending: Pending) {
        // The run that it was of has gone with the file; one of the same file that is there now is another one.
        if !matches!(pending.then, Then::Flush(_)) {
            self.replied(rank, pending.then, Err(FsError::Stale));
        }
    }

    /// Sends on what has waited long enough.
    pub(crate) fn end_pauses(&mut self) {
        let now = self.core.now.ms;
        let (due, later) =
            std::mem::take(&mut self.ranks.paused).into_iter().partition(|paused: &Paused| paused.due <= now);
        self.ranks.paused = later;
        for Paused { rank, pending, .. } in due {
            if self.files.rests_on_what_was_lost(&pending.request.op) {
                self.drop_lost(rank, pending);
                continue;
            }
            let Request { cred, op, .. } = pending.request;
            let rank = self.ranks.instead_of(&self.files, &self.own, rank, &op);
            self.request_at(rank, cred, op, pending.then, pending.hops);
        }
    }

    /// The operation was executed before what it is about moved: only its answer is made.
    fn make_answer(&mut self, to: Rank, pending: Pending, ino: Ino, value: u64) {
        let Pending { request: Request { cred, op, .. }, then, hops } = pending;
        let op = if let Op::Via { what, .. } = op { *what } else { op };
        let props = op.props();
        let (again, created) = match props.again {
            Again::Open => match props.opens {
                Some((handle, flags)) => {
                    let flags = OpenFlags { truncate: false, ..flags };
                    (Op::Open { ino, flags, handle }, Some(value == 1))
                }
                None => return self.replied(to, then, Ok(Answer::Done)),
            },
            Again::Attr => (Op::GetAttr { ino }, None),
            // A rank of before has made the file longer with it.
            Again::Value => return self.replied(to, then, Ok(Answer::Offset(value))),
            // It changes nothing: to do it once more is no harm.
            Again::Repeat => return self.request_at(to, cred, op, then, hops),
            Again::Done => return self.replied(to, then, Ok(Answer::Done)),
        };
        // What has become of the name since then nobody says.
        let second = Second { names: None, created, then };
        self.request_at(to, cred, again, Then::Second(Box::new(second)), hops);
    }

    /// The name is there, and another rank has the inode: asks that one for the rest of the answer.
    pub(crate) fn ask_remote(&mut self, rank: Rank, pending: Pending, ino: Ino, kind: Kind, there: Rank) {
        let Pending { request: Request { cred, op, .. }, then, hops } = pending;
        if let (Op::Lookup { dir, .. }, Kind::Dir) = (&op, kind) {
            let hash = self.ranks.router.subject(&op).hash();
            self.ranks.router.see_child(ino, *dir, hash, there);
        }
        let to = match (self.files.map.get(&ino), self.ranks.router.find(ino, None)) {
            (Some(file), _) => file.rank,
            (None, Found::Known(known)) if self.ranks.router.has_rank(known) => known,
            _ => there,
        };
        let name = op.first_name().filter(|_| op.props().remote);
        let names = name.and_then(|(dir, _)| self.lent().held_names(rank, dir));
        // At the end of a way a create may find the name.
        let (again, created) = match op.opens() {
            Some((handle, flags)) => (Op::Open { ino, flags, handle }, Some(false)),
            None => (Op::GetAttr { ino }, None),
        };
        let second = Second { names, created, then };
        if hops >= HOPS_MAX {
            return self.replied(rank, second.then, Err(FsError::Busy));
        }
        self.request_at(to, cred, again, Then::Second(Box::new(second)), hops + 1);
    }

    /// The rest of an answer came.
    pub(crate) fn second(&mut self, rank: Rank, second: Second, result: FsResult<Answer>) {
        let result = match (result, second.created) {
            (Ok(Answer::Opened { attr, rights, data, .. }), Some(created)) => {
                Ok(Answer::Opened { attr, created, rights, data })
            }
            // The name was there a moment ago; that it is not there is nothing that anybody said.
            (Err(FsError::NotFound), _) => Err(FsError::Stale),
            (result, _) => result,
        };
        let kept = second.names.filter(|held| self.core.names_lost.count(held.dir) == held.lost);
        self.at_hand.names_from = kept.map(|held| held.of);
        self.replied(rank, second.then, result);
    }

    /// Takes changes of the subtree map. A rank from which something moves lists the part of it that is held here ([`Client::moved`]); if
    /// that message may have been lost, the place is guessed, and asked for.
    pub(crate) fn learn_routes(&mut self, routes: &[Route]) {
        if routes.is_empty() || !self.ranks.router.learn(routes) || self.ranks.router.is_single() {
            return;
        }
        self.follow_files();
        self.ranks.follow_leases(&mut self.core, &mut self.files, &mut self.recalls);
    }

    /// The map has changed, and these are not the rank's any more that says so. Nothing else of it has moved: a file that
    /// has lost its name stays when the directory moves that it was in. `frozen_ms`: since when the other rank may have them.
    pub(crate) fn moved(&mut self, from: Rank, routes: &[Route], moved: &[Ino], to: Option<Rank>, frozen_ms: u32) {
        self.ranks.router.learn(routes);
        let Some(to) = to.filter(|to| *to != from) else { return };
        if !moved.is_empty() && self.ranks.router.may_be(to) {
            // Also if nothing of it is held here any more, which the other rank does not know: who changes it there would wait
            // for this client to give it back.
            let known = self.ranks.sessions.contains_key(&to);
            let session = self.ranks.open_session(&mut self.core, to);
            if !known {
                // The speaker may have answered since that rank began to wait for this client.
                session.proven = session.proven.saturating_sub(u64::from(frozen_ms));
            }
        }
        let forgotten = self.ranks.may_have_forgotten(&self.core, to, frozen_ms);
        for ino in moved {
            if self.files.map.get(ino).is_some_and(|file| file.rank == from) {
                self.move_file(*ino, to);
                self.files.is_known(*ino);
            }
            self.files.move_dir(&mut self.core, &mut self.ranks, *ino, Some(from), to);
            self.files.moved_guess(from, *ino, to);
            self.ranks.move_lease(
                &mut self.core,
                &mut self.files,
                &mut self.recalls,
                (from, to),
                *ino,
                Lease::ATTR | Lease::NAMES,
            );
            if forgotten {
                let lent = self
                    .ranks
                    .sessions
                    .get_mut(&to)
                    .map(|session| session.leases.take(*ino, Lease::ATTR | Lease::NAMES));
                self.recalls.give_up_lease(&mut self.core, &mut self.files, to, *ino, lent.unwrap_or_default());
            }
        }
    }

    /// Files, and below leases, of which it may have been missed that they moved are believed to be where the subtree map says.
    fn follow_files(&mut self) {
        let moved = |ino: &Ino, from: Rank| match self.ranks.router.find(*ino, None) {
            Found::Known(to) if to != from && self.ranks.may_have_missed(from) => Some((*ino, to)),
            _ => None,
        };
        let files: Vec<_> = self.files.map.iter().filter_map(|(ino, file)| moved(ino, file.rank)).collect();
        let dirs = self.files.handles.iter().filter(|(_, handle)| handle.dir);
        let dirs: Vec<_> =
            dirs.filter_map(|(number, handle)| moved(&handle.ino, *self.files.at.get(number)?)).collect();
        let mut asks: BTreeMap<Rank, BTreeSet<Ino>> = BTreeMap::new();
        for (ino, to) in files.into_iter().chain(dirs) {
            if self.ranks.router.may_be(to) {
                asks.entry(to).or_default().insert(ino);
                self.believe(ino, to, None);
                continue;
            }
            // A rank that is no more, told by one that has missed who has it since, or one of which it is not heard yet: nobody
            // could be asked there. Nothing lent is relied on, and who had it says where it is.
            self.files.suspend_file(&mut self.core, ino);
            if let Some(from) =
                self.files.map.get(&ino).map(|file| file.rank).filter(|from| self.ranks.router.may_be(*from))
            {
                asks.entry(from).or_default().insert(ino);
            }
        }
        for (to, inos) in asks {
            self.ask_where(to, &inos);
        }
    }

    /// Asks a rank for inodes that are open there, as is believed: if that is not so, the answer says where they are.
    pub(crate) fn ask_where(&mut self, rank: Rank, inos: &BTreeSet<Ino>) {
        if self.ranks.is_single() {
            return;
        }
        let mut asks: BTreeMap<Ino, Cred> = BTreeMap::new();
        for handle in self.files.handles.values().filter(|handle| inos.contains(&handle.ino)) {
            asks.entry(handle.ino).or_insert_with(|| Cred::clone(&handle.cred));
        }
        for (ino, cred) in asks {
            self.request_at(rank, cred, Op::GetAttr { ino }, Then::Nothing, 0);
        }
    }

    /// Notes the believed rank of an open inode. It may still be where it was believed to be before, unless just that rank says that it is
    /// not.
    fn believe(&mut self, ino: Ino, to: Rank, not_at: Option<Rank>) {
        let parted = self.ranks.router.is_parted(ino);
        let files = &mut self.files;
        for (number, _) in files.handles.iter().filter(|(_, of)| of.ino == ino && !(of.dir && parted)) {
            files.guessed.extend(files.at.get(number).map(|before| (*number, *before)));
            for rank in not_at.into_iter().chain([to]) {
                files.guessed.remove(&(*number, rank));
            }
        }
        self.follow_file(ino, to);
        self.files.move_dir(&mut self.core, &mut self.ranks, ino, None, to);
    }

    /// As [`Client::move_file`], but what was held of it may have been lost on the way: its rank did not say that it moved, or
    /// that was not heard.
    fn follow_file(&mut self, ino: Ino, to: Rank) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let moves = file.rank != to;
        // Before anything is sent on.
        file.doubted |= moves;
        self.move_file(ino, to);
        if moves {
            self.doubt(ino);
        }
    }

    /// Notes that the rank may have lost the state of an open file.
    pub(crate) fn doubt(&mut self, ino: Ino) {
        self.files.forbid_reuse(ino);
        self.doubt_rights(ino);
    }

    /// An open file is another rank's from now on, with all that is held on it. What is on its way to the old one is
    /// answered there, or sent on.
    pub(crate) fn move_file(&mut self, ino: Ino, to: Rank) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let from = std::mem::replace(&mut file.rank, to);
        if from != to {
            for handle in &file.handles {
                self.files.at.insert(*handle, to);
            }
            self.ranks.open_session(&mut self.core, to);
            self.ranks.move_lease(&mut self.core, &mut self.files, &mut self.recalls, (from, to), ino, Lease::ATTR);
            if self.files.is_suspended(&self.ranks, &self.own, ino) {
                self.files.suspend_file(&mut self.core, ino);
            }
            self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, ino);
        }
        self.unpark(ino, to);
    }

    /// A file is not where its data was asked for.
    pub(crate) fn data_moved(&mut self, rank: Rank, id: u64, mut pending: PendingData) {
        pending.hops += 1;
        let ino = pending.request.ino;
        if self.calls.rests_on_room(&pending.then) {
            return self.data_replied(id, pending.then, Err(DataError::Stale));
        }
        let Some(file) = self.files.map.get(&ino) else {
            return self.data_replied(id, pending.then, Err(DataError::Stale));
        };
        if pending.hops > HOPS_MAX {
            return self.data_replied(id, pending.then, Err(DataError::Stale));
        }
        if file.rank != rank {
            let to = file.rank;
            return self.data_elsewhere(to, id, pending);
        }
        let cred = file.handles.first().and_then(|h| self.files.handles.get(h)).map(|h| Cred::clone(&h.cred));
        let Some(cred) = cred else {
            return self.data_replied(id, pending.then, Err(DataError::Stale));
        };
        let parked = self.ranks.parked.entry(ino).or_default();
        parked.push((id, pending));
        if parked.len() == 1 {
            self.request_at(rank, cred, Op::GetAttr { ino }, Then::Located(ino), 0);
        }
    }

    /// Sends a data request to where its file is by now. What was held back is first asked about, if that is only believed.
    pub(crate) fn data_elsewhere(&mut self, to: Rank, id: u64, pending: PendingData) {
        match pending.then {
            DataThen::Flush(ino) if self.files.map.get(&ino).is_some_and(|file| file.doubted) => {
                self.flush_elsewhere(ino)
            }
            then if self.calls.rests_on_room(&then) => self.data_replied(id, then, Err(DataError::Stale)),
            _ => self.data_request_at(to, id, pending),
        }
    }

    /// It was asked where a file is, and not said that it is elsewhere.
    pub(crate) fn located(&mut self, ino: Ino, rank: Rank, result: &FsResult<Answer>) {
        if result.is_ok() {
            return self.unpark(ino, rank);
        }
        // That the rank failed to look does not say that the file is lost.
        let error = match result {
            Err(FsError::Stale | FsError::NotFound | FsError::BadHandle) => DataError::Stale,
            _ => DataError::Io,
        };
        for (id, pending) in self.ranks.parked.remove(&ino).unwrap_or_default() {
            self.data_replied(id, pending.then, Err(error));
        }
    }

    /// Sends data requests that waited for their file to be found, in order.
    fn unpark(&mut self, ino: Ino, to: Rank) {
        let mut parked = self.ranks.parked.remove(&ino).unwrap_or_default();
        parked.sort_unstable_by_key(|(id, _)| *id);
        for (id, pending) in parked {
            self.data_elsewhere(to, id, pending);
        }
    }
}
