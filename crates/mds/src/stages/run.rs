//! One request from admission to the gate: whose it is, where it is, what it needs. Each wait is a [`WaitReason`], after which the
//! request starts here again; until it is applied it has changed nothing. What it changes is decided in `decide.rs`.

use std::sync::Arc;

use loligo_namespace::{Change, answer_again, need, need_again};
use loligo_types::msg::{Request, ToClient};
use loligo_types::{Answer, Control, FsError, FsResult, Op, Origin, Rank, SubtreeOp, limits};

use crate::admit::may_claim;
use crate::cluster::Gathered;
use crate::grant::Asks;
use crate::io::{ConnId, Output, Peer};
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::open::Handle;
use crate::reply::Reply;
use crate::rights::Squash;
use crate::session::Slot;
use crate::step::{Step, data_of, origin_of};
use crate::walk::Walk;
use crate::window::Verdict;

impl Mds {
    /// A request came on a connection that speaks for a session.
    pub(crate) fn request(&mut self, conn: ConnId, slot: Slot, request: Request) {
        let Some(session) = self.sessions.get_mut(slot) else { return };
        session.requests += 1;
        session.window.forget_below(request.answered.min(request.seq));
        let verdict = session.window.admit(request.seq);
        let (id, running) = (session.id, session.window.running());
        let again = match verdict {
            Verdict::New => None,
            Verdict::Again(ino, value) => Some((ino, value)),
            Verdict::Running | Verdict::Old => return,
            Verdict::TooFar => {
                let msg = ToClient::reply(request.seq.0, Err(FsError::Busy));
                return self.core.out.push_back(Output::Send { conn, msg });
            }
        };
        let Request { seq, mut want, mut cred, mut op, ino, ways, .. } = request;
        let reply = |error| Reply {
            slot,
            session: id,
            seq,
            result: Err(error),
            asks: Asks::default(),
            ways: Vec::new(),
            lag: None,
            shows: Vec::new(),
            cut: None,
            redirect: None,
            journal: None,
        };
        let peer = self.sessions.conns.get(&conn).map(|conn| &conn.peer);
        if !peer.is_some_and(|peer| may_claim(peer, &cred)) {
            return self.gate(reply(FsError::NotAuthorized));
        }
        peer.map_or(Squash::None, Peer::squash).apply(&mut cred);
        let distrusted = !peer.is_some_and(Peer::may_be_root);
        if distrusted {
            // Only who may act as root may say that a caller has CAP_FSETID.
            op.end_privileges();
        }
        if peer.is_some_and(Peer::is_read_only) && op.props().needs_write {
            return self.gate(reply(FsError::ReadOnly));
        }
        let limited = peer.and_then(Peer::limited).map(|identity| (Arc::clone(identity), self.ways.asks()));
        if running > limits::IN_FLIGHT_MAX || !self.core.parked.has_room(slot, self.core.config.waiting_bytes_max) {
            return self.gate(reply(FsError::Busy));
        }
        let (op, walk) = match Walk::begin(op, &mut want, limited.as_ref(), ways.is_some()) {
            Ok(begun) => begun,
            Err(error) => return self.gate(reply(error)),
        };
        let since_ms = self.core.now.mono_ms;
        let (flushed, marks) = (Vec::new(), Vec::new());
        let (tx, reads) = (None, 0);
        let mut job = Job {
            id: 0,
            slot,
            session: id,
            seq,
            want,
            cred,
            distrusted,
            op,
            walk,
            ino,
            again,
            flushed,
            marks,
            tx,
            since_ms,
            waits: None,
            closing_ms: None,
            scattered: None,
            reads,
            within: None,
            path_bound: limited.is_some(),
            way_only: false,
            limited,
            lease_depth: ways,
            lag: None,
            is_strict: false,
        };
        match self.shortcuts.begin_walk(&mut self.core, &self.cluster, &mut job) {
            Some(result) => self.finish(job, result),
            None => self.run(job),
        }
    }

    /// Runs a request as far as it goes.
    pub(crate) fn run(&mut self, mut job: Job) {
        self.core.counters.tally_waited(&mut job, self.core.now.mono_ms);
        let step = loop {
            let step = match self.step(&mut job) {
                Step::Redirect(rank) if self.cluster.peers.gives_to(rank) => Step::Wait(WaitReason::Moving),
                step => step,
            };
            if job.walk.is_none() {
                break step;
            }
            if let Some(step) =
                self.shortcuts.walk_on(&mut self.core, &mut self.cluster, &mut self.heat, &mut job, step)
            {
                break step;
            }
        };
        match step {
            Step::Wait(why) => {
                if job.tx.is_some() {
                    self.cluster.borrowing.give_back_for(&mut self.core, &mut job, &why);
                }
                let short = why == WaitReason::Space;
                job.begins_to_wait(&why, self.core.now.mono_ms);
                self.core.parked.park(job, why);
                if short {
                    self.checkpoint();
                }
            }
            Step::Answer(result) => self.finish(job, result),
            Step::Redirect(rank) => self.redirect(job, rank),
        }
    }

    /// Answers a request that waited for nothing but the answer.
    pub(crate) fn done(&mut self, job: Job, answer: Answer) {
        self.finish(job, Ok(answer));
    }

    /// Answers a request that cannot be executed.
    pub(crate) fn fail(&mut self, job: Job, error: FsError) {
        self.finish(job, Err(error));
    }

    pub(crate) fn finish(&mut self, mut job: Job, mut result: FsResult<Answer>) {
        self.core.counters.tally_waited(&mut job, self.core.now.mono_ms);
        if job.again.is_some() && result == Err(FsError::NotFound) {
            // It was there when the request was executed.
            result = Err(FsError::Stale);
        }
        self.core.parked.unmark(&mut job);
        self.cluster.borrowing.give_back(&mut self.core, &mut job, false);
        if !matches!(result, Ok(Answer::Opened { .. })) {
            self.close_unopened(&job);
        }
        // It tells nothing, and what it is about means nothing yet; if it is lost, that shows when it is to be merged.
        let is_part =
            matches!(&job.op, Op::Control(Control::Subtree { what, .. }) if matches!(**what, SubtreeOp::Part { .. }));
        // Room that is reserved is in memory only: it ends with this life of the rank, as does what it lies behind if that is not durable.
        let is_room = matches!(&job.op, Op::Extend { .. });
        let reply = self.reply(&job, result);
        if is_part || is_room { self.release(reply) } else { self.gate(reply) }
    }

    /// Sends a request to another rank; if it was executed here before, only for the answer.
    fn redirect(&mut self, mut job: Job, rank: Rank) {
        self.core.parked.unmark(&mut job);
        self.cluster.borrowing.give_back(&mut self.core, &mut job, false);
        self.close_unopened(&job);
        self.core.counters.tally_redirect(&self.core.tree, &job);
        self.heat.heat_redirect(&self.core, &self.cluster.atlas);
        let reply = Reply::redirect(job, rank);
        self.gate(reply);
    }

    fn step(&mut self, job: &mut Job) -> Step {
        if let Some(step) = self.core.admission(&self.sessions, &self.cluster, &self.grace, job) {
            return step;
        }
        if let Some(origin) = job.repeats().map(|done| origin_of(job, done.0, done.1)) {
            return self.again(job, &origin);
        }
        if !self.cluster.is_alone()
            && let Some(step) = self.cluster.authority(&mut self.core, &self.opens, job)
        {
            return step;
        }
        let held = match self.opens.check_handle(&self.core, job) {
            Ok(held) => held,
            Err(error) => return Step::Answer(Err(error)),
        };
        if job.limited.is_some()
            && let Some(step) = self.ways.limit(&mut self.core, &self.opens, &mut self.cluster, job, held)
        {
            return step;
        }
        job.within = None;
        if (self.core.tree.has_decoupled() || self.cluster.borrowing.has_apart(job))
            && let Some(step) = self.decoupled.busy_below(&mut self.core, &mut self.cluster, &mut self.ways, job)
        {
            return step;
        }
        if self.decoupled.has_hidden() {
            self.decoupled.show_hidden(&mut self.core, &self.opens, job);
        }
        match &job.op {
            Op::Control(_) => return self.control(job),
            Op::StatFs => return Step::Answer(Ok(Answer::StatFs(self.totals()))),
            _ => {}
        }
        if let Some(ino) = data_of(&job.op)
            && self.discards.data_is_busy(&self.decoupled, ino)
        {
            return Step::Wait(WaitReason::Data(ino));
        }
        if !self.cluster.is_alone() {
            return self.step_in_cluster(job, held);
        }
        let needs = need(&self.core.tree, &job.op, &job.cred);
        if !needs.is_empty() {
            return self.cluster.wait_for(&mut self.core, job, needs);
        }
        self.place_new_dir(job);
        self.step_loaded(job, held)
    }

    /// Leads a control request to what carries it out. Its handle has been checked.
    fn control(&mut self, job: &mut Job) -> Step {
        let Op::Control(control) = &job.op else { return Step::Answer(Err(FsError::Invalid)) };
        match control {
            Control::Close { handles, lost } => {
                let handles = handles.clone();
                self.close(job, handles, *lost)
            }
            Control::SetLock { ino, handle, lock, wait } => self.set_lock(job, *ino, *handle, *lock, *wait),
            Control::Unlock { ino, lock, .. } => self.unlock(job, *ino, lock),
            Control::GetLock { ino, lock, .. } => {
                Step::Answer(Ok(Answer::Lock(self.locks.conflict(*ino, job.slot, lock))))
            }
            Control::CancelLock { ino, owner } => self.cancel_lock(job, *ino, *owner),
            Control::Sync => Step::Wait(WaitReason::Sync(self.syncs.sync_data(&mut self.core))),
            // The gate waits.
            Control::Persist => Step::Answer(Ok(Answer::Done)),
            Control::GrantInos { count } => Step::Answer(self.grant_inos(job, *count)),
            Control::DataAddress { address } => Step::Answer(self.take_address(job, address)),
            Control::Subtree { dir, what } => {
                let (dir, what) = (*dir, what.clone());
                self.subtree_op(job, dir, &what)
            }
        }
    }

    /// Where the directory that a request makes is to live, if that is not with its name.
    fn place_new_dir(&mut self, job: &mut Job) {
        if let Some(taken) = self.cluster.place_new_dir(&mut self.core, job) {
            self.commit(None, &[taken]);
            self.cluster.place_new_dir(&mut self.core, job);
        }
    }

    /// A step where some of what is needed may be other ranks'.
    fn step_in_cluster(&mut self, job: &mut Job, held: Option<Handle>) -> Step {
        if let Some(tx) = job.tx {
            self.cluster.borrowing.invite(&mut self.core, tx);
        }
        let mut has_guests = job.tx.is_some();
        let step = match self.cluster.borrowing.gather(
            &mut self.core,
            &mut self.cluster.atlas,
            &mut self.cluster.exports,
            job,
        ) {
            Gathered::All => match self.cluster.blocked(&mut self.core, job) {
                Some(step) => step,
                None if self.cluster.borrowing.has_apart(job) && self.cluster.ends_root(&self.core, job) => {
                    Step::Answer(Err(FsError::Busy))
                }
                None => {
                    self.place_new_dir(job);
                    has_guests |= job.tx.is_some();
                    self.step_loaded(job, held)
                }
            },
            Gathered::Own(needs) => self.cluster.wait_for(&mut self.core, job, needs),
            Gathered::Remote(ino, rank) => self.cluster.tell_remote(&mut self.core, job, ino, rank),
            // What is still in memory of something that has moved says nothing of what is to be borrowed.
            Gathered::Foreign(foreign) => {
                match self.cluster.atlas.has_moved_on(&mut self.core, &mut self.cluster.exports, job) {
                    Some(step) => step,
                    None => self.cluster.borrowing.borrow(
                        &mut self.core,
                        &self.cluster.peers,
                        &mut self.cluster.replicas,
                        &self.sessions,
                        job,
                        foreign,
                    ),
                }
            }
            Gathered::Again => self.cluster.borrowing.come_again(&mut self.core, &mut self.cluster.peers, job),
        };
        if has_guests {
            self.core.tree.dismiss();
        }
        step
    }

    /// Answers a request that was executed before.
    fn again(&mut self, job: &mut Job, origin: &Origin) -> Step {
        if let Op::Control(Control::Subtree { dir, what }) = &job.op {
            let (dir, what) = (*dir, what.clone());
            // It looks at what is so by now, and may be another request than the one that had this number.
            return match self.ways.admit_again(&mut self.core, &self.opens, &mut self.cluster, job, dir) {
                Some(step) => step,
                None => self.subtree_again(job, dir, &what),
            };
        }
        if !self.cluster.is_alone()
            && origin.ino.0 != 0
            && let Some(step) = self.cluster.again_elsewhere(&mut self.core, job, origin.ino)
        {
            return step;
        }
        if self.core.tree.inode(origin.ino).is_some_and(|inode| inode.is_spread()) {
            // What a client sees of it must be asked of other ranks, as for any request for its attributes.
            (job.op, job.ino) = (Op::GetAttr { ino: origin.ino }, None);
            return self.step(job);
        }
        let mut needs = need_again(&self.core.tree, origin);
        if needs.is_empty()
            && job.op.opens().is_some()
            && let Some(inode) = self.core.tree.inode(origin.ino)
            && self.core.tree.inline(inode).is_none()
        {
            needs.push(loligo_namespace::Need::Inline(origin.ino));
        }
        if !needs.is_empty() {
            return self.cluster.wait_for(&mut self.core, job, needs);
        }
        let answer = answer_again(&self.core.tree, &job.op, origin);
        if let Ok(Answer::Opened { .. }) = &answer
            && let Some(step) =
                self.ways.refuse_opening_again(&mut self.core, &self.opens, &mut self.cluster, job, origin)
        {
            return step;
        }
        if let Ok(answer) = &answer {
            let change = Change::only(answer.clone());
            if let Some(why) = self.settle_conflicts(job, &change) {
                return Step::Wait(why);
            }
            self.open_handle(job, answer);
        }
        Step::Answer(answer)
    }
}
