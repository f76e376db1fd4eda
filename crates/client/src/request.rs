//! Numbered requests and their answers, and data requests, at one rank each or in the store. Not here: how they are sent (`sending`), and
//! what is done when a rank says that another one is to be asked (`moves`).

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_types::msg::{DataRequest, Request, ToServer};
use loligo_types::{
    Answer, Control, Cred, DataAnswer, DataError, DataOp, DirEntry, FsError, FsResult, Ino, Lease, LockOwner, Op,
    OpenFlags, Rank, Seq, limits,
};

use crate::direct::Way;
use crate::file::File;
use crate::io::DirectError;
use crate::locks::{Behind, Key, given_back};
use crate::machine::Client;
use crate::own::{Job, OWN};
use crate::reading::bytes_at;
use crate::session::{DataThen, Link, Pending, PendingData, Second, Then, task_of, waiter_of};
use crate::stale_replies::lends_nothing;
use crate::task::Event;

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
        let want = self.core.want(&op);
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
        if matches!(
            (&pending.request.op, &result),
            (Op::Control(Control::SetLock { wait: true, .. }), Err(FsError::Busy))
        ) {
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
            self.direct.request(&mut self.core, &self.files, id, pending);
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

    /// Asks for more numbers if something is to be made, and less than half of them are left.
    fn refill_numbers(&mut self, rank: Rank, cred: &Cred, op: &Op) {
        // Those of requests under way count as given, too.
        let wanted = u64::from(self.core.config.ino_grant.min(limits::INO_GRANT_MAX / 2));
        if wanted == 0 || !op.makes_inode() {
            return;
        }
        let numbers = &mut self.ranks.open_session(&mut self.core, rank).numbers;
        if numbers.asked || numbers.refused || numbers.left > wanted / 2 {
            return;
        }
        let Ok(count) = u32::try_from(wanted - numbers.left) else { return };
        numbers.asked = true;
        self.request_at(rank, cred.clone(), Op::Control(Control::GrantInos { count }), Then::Numbers, 0);
    }

    /// Such an answer came: asks again, or gives back what it is for, if the answer (without what it lends) is as good as any.
    fn ask_once_more(&mut self, pending: Pending, result: &mut FsResult<Answer>) -> Option<Pending> {
        let Ok(answer) = result else { return Some(pending) };
        lends_nothing(answer);
        let gives_back = matches!(pending.request.op, Op::Control(Control::Unlock { .. }));
        if !gives_back && waiter_of(&pending.then).is_none_or(|waiter| !self.calls.is_awaited(waiter)) {
            // Nobody waits for it: what it has got is given back.
            return Some(pending);
        }
        let cred = Arc::new(pending.request.cred.clone());
        match (answer, pending.request.op.opens()) {
            (Answer::Opened { attr, created, .. }, Some((handle, flags))) => {
                // It was cut when it was opened first.
                let op = Op::Open { ino: attr.ino, flags: OpenFlags { truncate: false, ..flags }, handle };
                let second = Second { names: None, created: Some(*created), then: pending.then };
                self.request(&cred, op, Then::Second(Box::new(second)));
                None
            }
            (Answer::Done, None)
                if matches!(pending.request.op, Op::Control(Control::SetLock { .. } | Control::Unlock { .. })) =>
            {
                self.request(&cred, pending.request.op, pending.then);
                None
            }
            _ => Some(pending),
        }
    }

    /// True if a data operation bypasses the rank. If the rank does not know the connection yet, it is told.
    fn goes_direct(&mut self, ino: Ino, op: &DataOp) -> bool {
        match self.direct.way(&self.ranks, &self.files, ino, op) {
            Way::Store => return true,
            Way::Rank => {}
            Way::Tell(rank, cred) => self.tell_address(rank, cred),
        }
        false
    }

    /// Tells a rank by what the store knows this client.
    fn tell_address(&mut self, rank: Rank, cred: Cred) {
        let Some(address) = self.direct.address.clone() else { return };
        let life = self.direct.life;
        if let Some(session) = self.ranks.sessions.get_mut(&rank) {
            session.direct.asked = life;
        }
        self.request_at(rank, cred, Op::Control(Control::DataAddress { address }), Then::Address(life), 0);
    }

    /// It was done, or not.
    pub(crate) fn direct_done(&mut self, id: u64, result: Result<DataAnswer, DirectError>) {
        if self.direct.left.remove(&id).is_some() {
            self.finish_recalls();
            if self.direct.left.is_empty() {
                self.close_left();
            }
            return;
        }
        let Some(pending) = self.direct.data.remove(&id) else { return };
        match result {
            Ok(answer) => self.data_replied(id, pending.then, Ok(answer)),
            Err(DirectError::Failed(error)) => self.data_replied(id, pending.then, Err(error)),
            Err(DirectError::Refused) => match self.files.map.get(&pending.request.ino) {
                Some(file) => {
                    let rank = file.rank;
                    self.data_elsewhere(rank, id, pending);
                }
                None => self.data_replied(id, pending.then, Err(DataError::Stale)),
            },
        }
        self.leave_ranks();
    }

    /// Nothing is left of lost files: what others may have of them now can be closed.
    fn close_left(&mut self) {
        for (lost, cred, handles) in std::mem::take(&mut self.direct.closes) {
            self.close_elsewhere(lost, &cred, &handles);
        }
        for rank in std::mem::take(&mut self.direct.closes_at) {
            self.close_lost_there(rank);
        }
    }

    /// Asks for locks that waited until others were given back, or were lost with a session.
    pub(crate) fn end_behind(&mut self) {
        if self.ranks.behind.is_empty() {
            return;
        }
        let busy: BTreeSet<Key> =
            self.ranks.unanswered().filter_map(|pending| given_back(&pending.request.op)).collect();
        let (wait, ready) =
            std::mem::take(&mut self.ranks.behind).into_iter().partition(|behind| busy.contains(&behind.key));
        self.ranks.behind = wait;
        for Behind { cred, op, then, hops, .. } in ready {
            // The file may have moved meanwhile. What nobody waits for any more is not asked for at all.
            if waiter_of(&then).is_some_and(|waiter| self.calls.is_awaited(waiter)) {
                self.request_at(self.ranks.route(&self.files, &self.own, &op), cred, op, then, hops);
            }
        }
    }

    /// An owner waits no longer for locks that no server has been asked for yet, or only one that sent the request on. Of
    /// the others the server knows.
    pub(crate) fn cancel_behind(&mut self, ino: Ino, owner: LockOwner) {
        let of_it = |op: &Op| matches!(op, Op::Control(Control::SetLock { ino: of, lock, wait: true, .. }) if (*of, lock.owner) == (ino, owner));
        let behind =
            self.ranks.behind.extract_if(.., |behind| of_it(&behind.op)).map(|behind| (behind.rank, behind.then));
        let mut ended: Vec<_> = behind.collect();
        let paused = self.ranks.paused.extract_if(.., |paused| of_it(&paused.pending.request.op));
        ended.extend(paused.map(|paused| (paused.rank, paused.pending.then)));
        for (rank, then) in ended {
            self.replied(rank, then, Err(FsError::Interrupted));
        }
    }
}

/// True if nobody wants the answer any more, and it leaves nothing to give back.
fn is_over(then: &Then) -> bool {
    matches!(then, Then::Pass(pass) if pass.over)
}

/// True if EBUSY of a rank may mean a subtree that this client has decoupled.
fn may_claim(pending: &Pending) -> bool {
    let asks = matches!(pending.then, Then::Pass(_) | Then::Task(_));
    !pending.request.op.props().busy_is_own && asks
}

/// True if a data request may only be sent on if this client still has its rights there: if they had been lost on the way, it would
/// destroy writes of others. Data requests of a run are verified before they are sent on.
fn rests_on_rights(pending: &PendingData) -> bool {
    matches!(pending.request.op, DataOp::Discard { .. }) && !matches!(pending.then, DataThen::Flush(_))
}
