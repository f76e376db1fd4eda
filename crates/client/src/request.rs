//! Numbered requests and their answers, and data requests, at one rank each. What is done when a rank says that another
//! one is to be asked is in `moves`.

use std::sync::Arc;

use loligo_types::limits::IN_FLIGHT_MAX;
use loligo_types::msg::{DataRequest, Request, ToServer};
use loligo_types::{
    Answer, Cred, DataAnswer, DataError, DataOp, DirEntry, FsError, FsResult, Ino, Lease, Op, Rank, Seq,
};

use crate::Invalidation;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::File;
use crate::file::Files;
use crate::lent::AtHand;
use crate::machine::{Client, Waiter};
use crate::own::{Job, OWN};
use crate::ranks::Ranks;
use crate::recover::task_of;
use crate::session::{DataThen, Link, Pending, PendingData, Then};
use crate::task::{Event, Step, Task};

/// Requests are sent at most this far beyond the oldest unanswered one, whose followers the server must remember.
const WINDOW: usize = 100_000;
/// So often the clock of a rank is asked for that gives lookup leases, milliseconds.
const COMPARE_MS: u64 = 1000;

impl Ranks {
    /// Sends what is unanswered, in order.
    pub(crate) fn resend(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        session.in_flight = 0;
        session.unsent = 0;
        session.late_below = 0;
        self.send_data(core, rank);
        self.send_requests(core, rank);
    }

    /// Sends all data requests that are unanswered, unless they must wait.
    pub(crate) fn send_data(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        if session.data_held.is_some() {
            return;
        }
        let mut data = Vec::new();
        for pending in session.data.values_mut() {
            pending.again = false;
            data.push(pending.request.clone());
        }
        for request in data {
            self.send(core, rank, ToServer::Data(request));
        }
    }

    /// Holds data requests back until a request was answered that the server does only when it knows what is open.
    pub(crate) fn hold_data(&mut self, files: &Files, rank: Rank) {
        // Also if only files of others were claimed: one of them may be said to have moved there before it is known there.
        let (files, single) = (files, self.is_single());
        let mut claimed = files.handles.iter().filter(|(number, handle)| {
            files.at.get(number) == Some(&rank) || !single && files.map.contains_key(&handle.ino)
        });
        let Some(cred) = claimed.next().map(|(_, handle)| Cred::clone(&handle.cred)) else { return };
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        let seq = session.next_seq.max(1);
        session.next_seq = seq + 1;
        session.data_held = Some(seq);
        let op = Op::Close { handles: Vec::new(), lost: false };
        let request = Request { seq: Seq(seq), answered: Seq(seq), want: Lease::NONE, cred, op, ino: None, ways: None };
        session.pending.insert(seq, Pending { request, then: Then::Reclaimed(seq), hops: 0 });
    }

    /// Sends requests as far as the server takes them.
    pub(crate) fn send_requests(&mut self, core: &mut Core, rank: Rank) {
        let window = core.config.some(WINDOW) as u64;
        while let Some(session) = self.sessions.get_mut(&rank) {
            if session.link != Link::Up || session.in_flight >= IN_FLIGHT_MAX {
                return;
            }
            let Some((seq, pending)) = session.pending.range(session.unsent..).next() else { return };
            let (seq, mut request) = (*seq, pending.request.clone());
            let first = session.first_unanswered();
            if seq >= first + window {
                return;
            }
            request.answered = Seq(first);
            session.unsent = seq + 1;
            session.never_sent = session.never_sent.max(seq + 1);
            session.in_flight += 1;
            self.send(core, rank, ToServer::Request(request));
        }
    }

    /// They came.
    pub(crate) fn lookup_leases_came(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        at_hand: &mut AtHand,
        rank: Rank,
        then: &Then,
        mut ways: Vec<(Ino, u16)>,
    ) {
        if !ways.is_empty() {
            let now = core.now.ms;
            let Some(session) = self.sessions.get(&rank) else { return };
            if !session.pace.trusts(now) {
                ways.clear();
            }
            if now.saturating_sub(session.asked_life) >= COMPARE_MS {
                // They are worth something only if the clocks run alike.
                self.send(core, rank, ToServer::Ping);
            }
        }
        match then {
            Then::Task(id) if !ways.is_empty() => {
                if let Some(Task { step: Step::Open(opening), .. }) = calls.tasks.get_mut(id) {
                    opening.leased = ways;
                }
            }
            _ => at_hand.ways = ways,
        }
    }

    /// True if a restarted rank has been asked whether it has the file of a data request and has not answered yet. It may have given the
    /// file away without this client hearing of it, and refuse the request because of that. Asked once per data request.
    pub(crate) fn is_sought(&self, rank: Rank, data: &PendingData) -> bool {
        let asks = |pending: &Pending| match &pending.request.op {
            Op::GetAttr { ino } => *ino == data.request.ino,
            Op::GetLock { ino, .. } => *ino == data.request.ino && matches!(pending.then, Then::Verified(_)),
            _ => false,
        };
        let session = self.session(rank).filter(|_| data.hops == 0 && !self.is_single());
        session.is_some_and(|session| session.pending.values().any(asks))
    }

    /// Sends data requests again that the server was too busy for. In order, and all: later ones of the same file may
    /// rest on earlier ones.
    pub(crate) fn repeat_busy(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        if session.link != Link::Up || session.data_held.is_some() {
            return;
        }
        let mut requests = Vec::new();
        for pending in session.data.values_mut().filter(|pending| pending.again) {
            pending.again = false;
            requests.push(pending.request.clone());
        }
        for request in requests {
            self.send(core, rank, ToServer::Data(request));
        }
    }

    /// Drops everything that was lent, above and here, without waiting: it may be somebody else's by now.
    pub(crate) fn drop_leases(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        for (ino, bits) in session.leases.take_all() {
            if bits.has(Lease::NAMES) {
                core.names_lost.add(ino);
                core.invalidate(Invalidation::Names(ino), false);
            }
            if bits.has(Lease::ATTR) {
                core.invalidate(Invalidation::Attr(ino), false);
            }
        }
    }
}

impl Calls {
    /// Depth below the root at which a walk begins, if lookup leases are welcome with its answer.
    pub(crate) fn ways_of(&self, then: &Then) -> Option<u16> {
        match then {
            Then::Pass(pass) => pass.ways,
            Then::Task(id) => self.tasks.get(id).and_then(|task| match &task.step {
                Step::Open(opening) => opening.ways,
                _ => None,
            }),
            _ => None,
        }
    }

    /// Says that a rank is not there, instead of asking it. Not of what must be asked sooner or later.
    pub(crate) fn deny(&mut self, core: &mut Core, then: &Then) -> bool {
        match then {
            // A lock that is given back behind everybody's back.
            Then::Pass(pass) if pass.waiter == Waiter::Nobody => return false,
            Then::Pass(pass) => self.fail(core, pass.waiter, FsError::Unavailable),
            Then::Task(id) => self.events.push_back((*id, Event::Reply(Err(FsError::Unavailable)))),
            Then::Second(second) => return self.deny(core, &second.then),
            Then::OwnTask(id) => self.events.push_back((*id, Event::Reply(Err(FsError::Unavailable)))),
            Then::Nothing
            | Then::Own { .. }
            | Then::Flush(_)
            | Then::Reclaimed(_)
            | Then::Located(_)
            | Then::Verified(_)
            | Then::Numbers
            | Then::Address(_) => {
                return false;
            }
        }
        true
    }
}

impl Client {
    /// Asks the rank that is likely to know.
    pub(crate) fn request(&mut self, cred: &Arc<Cred>, op: Op, then: Then) {
        if self.own.is_any()
            && let Some(error) = self.own.crosses(&op)
        {
            return self.own.answer(op, then, Err(error));
        }
        let rank = self.ranks.route(&self.files, &self.own, &op);
        self.request_at(rank, Cred::clone(cred), op, then, 0);
    }

    /// Asks a rank something.
    pub(crate) fn request_at(&mut self, rank: Rank, cred: Cred, op: Op, then: Then, hops: u32) {
        if rank == OWN {
            return self.own_request(cred, op, then);
        }
        let want = self.want(&op);
        let single = self.ranks.is_single();
        let session = self.ranks.open_session(&mut self.core, rank);
        if session.gave_up && !single && self.calls.deny(&mut self.core, &then) {
            return;
        }
        if is_over(&then) {
            return self.replied(rank, then, Err(FsError::Interrupted));
        }
        if let Some(key) = self.ranks.given_back_first(&op) {
            return self.ranks.wait_behind(key, rank, cred, op, then, hops);
        }
        self.refill_numbers(rank, &cred, &op);
        let ways = self.calls.ways_of(&then);
        let session = self.ranks.open_session(&mut self.core, rank);
        session.next_seq = session.next_seq.max(1);
        let seq = session.next_seq;
        session.next_seq += 1;
        session.ahead.ask(seq, &op);
        let ino = if op.makes_inode() { session.numbers.take() } else { None };
        let request = Request { seq: Seq(seq), answered: Seq(seq), want, cred, op, ino, ways };
        session.pending.insert(seq, Pending { request, then, hops });
        self.ranks.send_requests(&mut self.core, rank);
    }

    /// Leases that are of use with an operation.
    fn want(&self, op: &Op) -> Lease {
        if !self.core.config.cache {
            return Lease::NONE;
        }
        let names = if self.core.config.cache_names { Lease::NAMES } else { Lease::NONE };
        match op {
            Op::Lookup { .. }
            | Op::LookupParent { .. }
            | Op::Create { .. }
            | Op::Mknod { .. }
            | Op::Mkdir { .. }
            | Op::Symlink { .. }
            | Op::Link { .. } => names | Lease::ATTR,
            // As of an open by number.
            Op::Via { what, .. } if what.opens().is_some() => Lease::ATTR,
            Op::Readdir { plus: true, .. } => names | Lease::ATTR,
            // What caches above know of a name that moves is true of the new one as long as names there are lent.
            Op::Readdir { .. } | Op::Rename { .. } => names,
            Op::GetAttr { .. }
            | Op::SetAttr { .. }
            | Op::Open { .. }
            | Op::Tmpfile { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::WriteInline { .. }
            | Op::SetData { .. } => Lease::ATTR,
            _ => Lease::NONE,
        }
    }

    pub(crate) fn reply(
        &mut self,
        rank: Rank,
        seq: Seq,
        mut result: FsResult<Answer>,
        granted: &[(Ino, Lease)],
        ways: Vec<(Ino, u16)>,
    ) {
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        let Some(mut pending) = session.pending.remove(&seq.0) else { return };
        session.in_flight = session.in_flight.saturating_sub(1);
        if matches!((&pending.request.op, &result), (Op::SetLock { wait: true, .. }, Err(FsError::Busy))) {
            // It has waited so long that the server must remember too much for it: it is to ask again.
            let Request { cred, op, .. } = pending.request;
            return self.request(&Arc::new(cred), op, pending.then);
        }
        session.numbers.answered(pending.request.ino, &result);
        if matches!(result, Err(FsError::NotGranted | FsError::NumberUsed)) && pending.request.ino.is_some() {
            // Whoever is wrong about the number, the caller has not asked for it.
            let Request { cred, op, .. } = pending.request;
            return self.request_at(rank, cred, op, pending.then, pending.hops);
        }
        if result == Err(FsError::Busy) && self.own.is_any() && may_claim(&pending) {
            let Request { cred, op, .. } = pending.request;
            self.own_claim(Box::new(Job { cred, op, then: pending.then }), Vec::new());
            return self.ranks.send_requests(&mut self.core, rank);
        }
        let answered = session.first_unanswered();
        let late = seq.0 < session.late_below;
        let granted = if late { &[] } else { granted };
        if late {
            match self.ask_once_more(pending, &mut result) {
                Some(back) => pending = back,
                None => return self.ranks.send_requests(&mut self.core, rank),
            }
        }
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        if let Ok(Answer::Opened { attr, rights, .. }) = &mut result
            && session.leases.is_void(attr.ino, seq.0)
        {
            *rights = Lease::NONE;
        }
        session.leases.grant(seq.0, session.next_seq, granted, answered);
        self.at_hand.take_up(rank, seq.0, granted);
        self.ranks.lookup_leases_came(&mut self.core, &mut self.calls, &mut self.at_hand, rank, &pending.then, ways);
        if let Ok(answer) = &result {
            let (mut lent, files) = self.lent_beside_files();
            lent.learn_answer(files, rank, seq, &pending.request.op, answer);
            self.close_unwanted(&pending, answer);
        }
        match result {
            Ok(Answer::Remote { ino, kind, rank: there }) => self.ask_remote(rank, pending, ino, kind, there),
            Ok(Answer::Entries { entries, next, end: false }) => self.list_on(rank, pending, entries, next),
            result => self.replied(rank, pending.then, result),
        }
        self.ranks.send_requests(&mut self.core, rank);
    }

    /// Closes a handle whose open was given up meanwhile, with the loss of a rank: nobody else would.
    fn close_unwanted(&mut self, pending: &Pending, answer: &Answer) {
        let given_up = task_of(&pending.then).is_some_and(|task| !self.calls.tasks.contains_key(&task));
        if let (true, Answer::Opened { .. }, Some((handle, _))) = (given_up, answer, pending.request.op.opens()) {
            self.close_later(handle, &Arc::new(pending.request.cred.clone()));
        }
    }

    /// A listing is not at its end: where fragments are several ranks', the next one is asked for the rest.
    fn list_on(&mut self, rank: Rank, pending: Pending, mut entries: Vec<DirEntry>, next: u64) {
        let Pending { request: Request { cred, op, .. }, then, .. } = pending;
        match (op, then) {
            (Op::Readdir { dir, cookie, limit, plus, handle }, Then::Pass(mut pass))
                if entries.len() < limit as usize && next > cookie =>
            {
                let limit = limit - entries.len() as u32;
                pass.listed.append(&mut entries);
                let op = Op::Readdir { dir, cookie: next, limit, plus, handle };
                self.request(&Arc::new(cred), op, Then::Pass(pass));
            }
            (_, then) => self.replied(rank, then, Ok(Answer::Entries { entries, next, end: false })),
        }
    }

    /// Gives an answer to who asked.
    pub(crate) fn replied(&mut self, rank: Rank, then: Then, result: FsResult<Answer>) {
        match then {
            Then::Nothing => {}
            Then::Numbers => self.ranks.numbers_came(rank, &result),
            Then::Address(life) => self.ranks.address_told(rank, life, &result),
            Then::Pass(pass) => self.passed(pass, result),
            Then::Task(id) => self.calls.events.push_back((id, Event::Reply(result))),
            Then::Flush(ino) => self.flush_reply(ino, result),
            Then::Own { root, ask } => self.own_asked(root, ask, result),
            Then::OwnTask(id) => self.calls.events.push_back((id, Event::Reply(result))),
            // What waited is sent once: what comes again over the same connection comes after what was done in the store since the first
            // answer. So of several waits, for connections that were lost, only the last one counts.
            Then::Reclaimed(seq) => {
                let session = self.ranks.sessions.get_mut(&rank);
                if session.is_some_and(|session| session.data_held.take_if(|held| *held == seq).is_some()) {
                    self.ranks.send_data(&mut self.core, rank);
                }
            }
            Then::Located(ino) => self.located(ino, rank, &result),
            Then::Verified(handle) => self.handle_verified(rank, handle, &result),
            Then::Second(second) => self.second(rank, *second, result),
        }
    }

    /// Asks the data server something; the request's number. The file must be known.
    pub(crate) fn data_request(&mut self, ino: Ino, op: DataOp, then: DataThen) -> u64 {
        self.data_request_of(ino, op, then, None)
    }

    /// The same of what is no file; `at`: the rank that has it.
    pub(crate) fn data_request_of(&mut self, ino: Ino, op: DataOp, then: DataThen, at: Option<Rank>) -> u64 {
        let file = self.files.map.get(&ino);
        let object_size = file.map(|file| file.attr.layout).unwrap_or_default().object_size;
        let rank = file.map(|file| file.rank).or(at).unwrap_or_else(|| self.ranks.router.some_rank(self.ranks.home));
        self.core.next_data += 1;
        let id = self.core.next_data;
        let direct = self.goes_direct(ino, &op);
        if let (DataOp::Discard { .. }, Some(file)) = (&op, self.files.map.get_mut(&ino)) {
            file.pieces = id;
        }
        let request = DataRequest { id, ino, object_size, op };
        let pending = PendingData { request, then, again: false, hops: 0 };
        if rank == OWN {
            self.own_data(id, pending);
        } else if direct {
            self.direct.request(&mut self.core, &mut self.files, id, pending);
        } else {
            self.data_request_at(rank, id, pending);
        }
        id
    }

    pub(crate) fn data_request_at(&mut self, rank: Rank, id: u64, pending: PendingData) {
        if rank == OWN {
            return self.own_data(id, pending);
        }
        let session = self.ranks.open_session(&mut self.core, rank);
        if session.link == Link::Up && session.data_held.is_none() {
            let request = pending.request.clone();
            self.ranks.send(&mut self.core, rank, ToServer::Data(request));
        }
        self.ranks.open_session(&mut self.core, rank).data.insert(id, pending);
    }

    pub(crate) fn data_reply(&mut self, rank: Rank, id: u64, result: Result<DataAnswer, DataError>) {
        let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
        let Some(pending) = session.data.get_mut(&id) else { return };
        if result == Err(DataError::Busy) {
            pending.again = true;
            return;
        }
        let Some(mut pending) = session.data.remove(&id) else { return };
        let of_task = matches!(pending.then, DataThen::OwnTask(_));
        if result == Err(DataError::Stale) && self.own.is_any() && !of_task {
            match self.own_data_again(id, pending) {
                None => return,
                Some((_, back)) => pending = back,
            }
        }
        // Where it was before it moved it is not known any more after a restart, nor may it be where it is only believed to be: that
        // is asked, and then it is known.
        let file = self.files.map.get(&pending.request.ino);
        let follows = |file: &File| !file.doubted || !rests_on_rights(&pending);
        let asks = |file: &File| file.rank != OWN && file.rank != rank || self.files.is_guessed(file);
        let is_elsewhere = match result {
            Err(DataError::Moved) => true,
            Err(DataError::Stale) => {
                file.is_some_and(|file| asks(file) && follows(file)) || self.ranks.is_sought(rank, &pending)
            }
            _ => false,
        };
        if is_elsewhere {
            return self.data_moved(rank, id, pending);
        }
        if result == Err(DataError::Stale) {
            // Its rank does not know the handles. Those that open it from now on shall not suffer from that.
            self.files.forbid_reuse(pending.request.ino);
        }
        self.data_replied(id, pending.then, result);
    }

    /// Gives an answer to who asked.
    pub(crate) fn data_replied(&mut self, id: u64, then: DataThen, result: Result<DataAnswer, DataError>) {
        match then {
            DataThen::Task(task) => self.calls.events.push_back((task, Event::Data(result))),
            DataThen::Read { task, at } => self.calls.events.push_back((task, Event::Block(bytes_at(at, result)))),
            DataThen::Flush(ino) => self.flush_data(ino, result),
            DataThen::Own(token) => self.own.dropped(&mut self.calls, token, result),
            DataThen::OwnTask(task) => self.calls.events.push_back((task, Event::Data(result))),
            DataThen::Block { ino, start } => self.files.fetched(&self.core, &mut self.calls, id, ino, start, result),
        }
    }
}

/// True if nobody wants the answer any more, and it leaves nothing to give back.
fn is_over(then: &Then) -> bool {
    matches!(then, Then::Pass(pass) if pass.over)
}

/// True if EBUSY of a rank may mean a subtree that this client has decoupled.
fn may_claim(pending: &Pending) -> bool {
    let otherwise = matches!(
        pending.request.op,
        Op::WriteInline { .. } | Op::SetData { .. } | Op::SetLock { .. } | Op::Subtree { .. } | Op::Rmdir { .. }
    );
    let asks = matches!(pending.then, Then::Pass(_) | Then::Task(_));
    !otherwise && asks
}

/// The bytes of an answer to a read.
pub(crate) fn bytes_at(at: u64, result: Result<DataAnswer, DataError>) -> Result<(u64, Arc<[u8]>), DataError> {
    match result? {
        DataAnswer::Bytes(bytes) => Ok((at, bytes)),
        // The server breaks the protocol; nothing it said can be used.
        _ => Err(DataError::Io),
    }
}

/// True if a data request may only be sent on if this client still has its rights there: if they had been lost on the way, it would
/// destroy writes of others. Data requests of a run are verified before they are sent on.
fn rests_on_rights(pending: &PendingData) -> bool {
    matches!(pending.request.op, DataOp::Discard { .. }) && !matches!(pending.then, DataThen::Flush(_))
}
