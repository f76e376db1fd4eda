//! One request from admission to the gate: need, prepare, conflicts, apply. Each wait is a [`WaitReason`], after which the
//! request starts here again; until it is applied it has changed nothing.

use std::sync::Arc;

use loligo_namespace::{Change, Ctx, Lookup, Tree, answer_again, may_search, need, need_again, prepare};
use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Op, OpenFlags, Origin, Rank, Stamp, SubtreeOp};

use crate::cluster::{Cluster, Gathered, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::gate::Reply;
use crate::machine::Mds;
use crate::open::{HANDLES_MAX, Handle, Opens};
use crate::park::{Job, WaitReason};
use crate::paths::{PathCache, shown_on_the_way};
use crate::relaxed::Relaxation;

/// The result of a step of a request.
pub(crate) enum Step {
    /// It is to be answered so.
    Answer(FsResult<Answer>),
    /// It waits.
    Wait(WaitReason),
    /// Another rank is to answer it.
    Redirect(Rank),
}

/// The handle in an operation, and the inode it must be of.
pub(crate) fn handle_of(op: &Op) -> Option<(u64, Ino)> {
    match op {
        Op::SetAttr { ino, handle: Some(handle), .. } => Some((*handle, *ino)),
        Op::Readdir { dir, handle: Some(handle), .. } => Some((*handle, *dir)),
        Op::ReadInline { ino, handle }
        | Op::WriteInline { ino, handle, .. }
        | Op::SetData { ino, handle, .. }
        | Op::Extend { ino, handle, .. }
        | Op::SetLock { ino, handle, .. }
        | Op::Unlock { ino, handle, .. }
        | Op::GetLock { ino, handle, .. } => Some((*handle, *ino)),
        _ => None,
    }
}

/// The inode whose size or data an operation is about to change, if its number is known beforehand.
fn data_of(op: &Op) -> Option<Ino> {
    match op {
        Op::SetAttr { ino, set, .. } if set.size.is_some() => Some(*ino),
        Op::Open { ino, flags, .. } if flags.truncate => Some(*ino),
        Op::WriteInline { ino, .. } | Op::SetData { ino, .. } | Op::Extend { ino, .. } => Some(*ino),
        _ => None,
    }
}

impl Mds {
    /// Runs a request as far as it goes.
    pub(crate) fn run(&mut self, mut job: Job) {
        self.core.tally_waited(&mut job);
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
                self.core.tally_wait(&mut job, &why);
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
        self.core.tally_waited(&mut job);
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
        let is_part = matches!(&job.op, Op::Subtree { what, .. } if matches!(**what, SubtreeOp::Part { .. }));
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
        self.core.tally_redirect(&job);
        self.heat.heat_redirect(&mut self.core, &self.cluster.atlas);
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
            Op::Close { .. } => return self.close(job),
            Op::SetLock { .. } | Op::Unlock { .. } | Op::GetLock { .. } | Op::CancelLock { .. } => {
                return self.lock_op(job);
            }
            Op::Sync => return Step::Wait(WaitReason::Sync(self.syncs.sync_data(&mut self.core))),
            // The gate waits.
            Op::Persist => return Step::Answer(Ok(Answer::Done)),
            Op::GrantInos { count } => return Step::Answer(self.grant_inos(job, *count)),
            Op::DataAddress { address } => {
                let address = Arc::clone(address);
                return Step::Answer(self.take_address(job, &address));
            }
            Op::Subtree { dir, what } => {
                let (dir, what) = (*dir, what.clone());
                return self.subtree_op(job, dir, &what);
            }
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

    /// The same where some of what is needed may be other ranks'.
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

    fn step_loaded(&mut self, job: &mut Job, held: Option<Handle>) -> Step {
        if let Some(step) = self.opens.room_first(&mut self.core, &mut self.tidy, job, held) {
            return step;
        }
        match self.tidy_first(job, held) {
            Some(why) => Step::Wait(why),
            None => self.decide(job, held),
        }
    }

    fn decide(&mut self, job: &mut Job, held: Option<Handle>) -> Step {
        if let Some(error) = self.sessions.refuse_number(job) {
            return Step::Answer(Err(error));
        }
        let held = held.or_else(|| self.opens.opened_before(job));
        let relaxation = self.relax(job);
        let (lag, reserved) = (relaxation.lag, relaxation.number);
        let (opens, cluster, tx) = (&self.opens, &self.cluster, job.tx);
        let guest = |ino| tx.and_then(|tx| self.cluster.borrowing.opens_of_guest(tx, ino));
        let made = job.ino.or(job.scattered).or(reserved).unwrap_or_else(|| self.core.tree.next_ino());
        // Where the owner of a subtree may have changed what is removed it counts as open.
        let held_too = u32::from(job.within.is_some());
        let ctx = Ctx {
            cred: &job.cred,
            distrusted: job.distrusted,
            stamp: Stamp { now: self.core.now.wall, ino: made },
            handle_read: held.is_some_and(|handle| handle.read),
            handle_write: held.is_some_and(|handle| handle.write),
            open_count: &|ino| guest(ino).unwrap_or_else(|| opens.count(ino)) + held_too,
            route_version: &|ino| cluster.atlas.routes.version(ino),
        };
        let bad_pin = self.cluster.atlas.is_bad_pin(&self.core, job);
        let change = match prepare(&self.core.tree, &job.op, &ctx) {
            Ok(_) if bad_pin => return Step::Answer(Err(FsError::Invalid)),
            Ok(change) if job.way_only => shown_on_the_way(change),
            Ok(change) => change,
            Err(FsError::Busy) if matches!(job.op, Op::WriteInline { .. }) => return self.spill(job),
            Err(error) => return Step::Answer(Err(error)),
        };
        if self.core.log.no_room && self.core.adds(&job.op, &change.events) {
            return Step::Answer(Err(FsError::NoSpace));
        }
        if let Some(step) = self.decoupled.bounds_first(&mut self.core, &mut self.cluster, &mut self.ways, job) {
            return step;
        }
        if let Some(why) = self.opens.wait_for_cut(&self.discards, &mut self.tidy, &self.decoupled, job, &change) {
            return Step::Wait(why);
        }
        if let Some(why) = self.settle_conflicts(job, &change) {
            return Step::Wait(why);
        }
        let is_change = !change.events.is_empty();
        self.relaxed.begin(lag.filter(|_| is_change), &change.answer);
        self.open_handle(job, &change.answer);
        if change.events.is_empty() {
            if let Op::Extend { ino, len: len @ 1.., .. } = job.op {
                return self.opens.reserve_behind(&mut self.core, job, ino, len);
            }
            if let (Op::Readdir { dir, cookie: 1.., .. }, Answer::Entries { next, end: false, .. }) =
                (&job.op, &change.answer)
            {
                // What he will ask for next, if what he asked for now was all there.
                self.cluster.atlas.read_on(&mut self.core, *dir, next.saturating_add(1));
            }
            return Step::Answer(Ok(change.answer));
        }
        let origin = origin_of(job, change.origin_ino, change.origin_value);
        let Change { events, answer, .. } = change;
        self.core.counters.scattered += u64::from(made.zeroth_rank().is_some());
        let mut events = self.cluster.borrowing.part(&mut self.core, job, events);
        events.extend(self.core.with_new_promise(&job.op));
        (job.lag, job.is_strict) = (lag, lag.is_none());
        let lsn = self.commit_made(Some(origin), &events, tx.is_none().then_some(made));
        self.relaxed.end(&relaxation, &events, lsn);
        self.sessions.use_number(job, &events);
        self.opens.room_used(&mut self.tidy, job);
        self.cluster.placement.note_policy(&mut self.core, &self.cluster.atlas, &job.op);
        if let Some(dir) = job.within.filter(|_| !matches!(job.op, Op::Tmpfile { .. })) {
            self.decoupled.hold(dir, &events);
        }
        Step::Answer(Ok(answer))
    }

    /// Decides if a request is relaxed, and picks the number for the inode that it makes. A request that would make an inode for which no
    /// number is reserved is as strict as any.
    fn relax(&mut self, job: &Job) -> Relaxation {
        let lag = self.relaxed.lag_of(&mut self.core, &mut self.cluster, job);
        if let (Some(_), Some(_)) = (lag, job.scattered) {
            // It is made at another rank, too.
            return Relaxation { lacks_number: true, ..Relaxation::default() };
        }
        if lag.is_none() || !job.op.makes_inode() || job.ino.is_some() {
            return Relaxation { lag, ..Relaxation::default() };
        }
        let number = self.reserved_number();
        Relaxation { lag: lag.filter(|_| number.is_some()), number, lacks_number: number.is_none() }
    }

    /// Registers what the answer opened. From now on it counts as open; its rights come with the reply. A number that
    /// is in use is that of a repeated request whose first answer was lost, and is given to what was opened now.
    fn open_handle(&mut self, job: &Job, answer: &Answer) {
        let (Some((number, flags)), Answer::Opened { attr, .. }) = (job.op.opens(), answer) else { return };
        let handle = Handle::new(attr.ino, flags);
        if self.opens.handle(job.slot, number).is_some_and(|taken| taken.ino != attr.ino) {
            self.close_handle(job.slot, job.session, number);
        }
        let change = self.opens.open(job.slot, number, handle);
        if attr.kind == Kind::File {
            self.relaxed.tell_access(&mut self.core, &self.decoupled, job.session, change);
        }
    }

    /// A request that was to open something has not: if it came before and did, and its answer was lost, whoever asked does not know that it is
    /// open, and would never close it.
    fn close_unopened(&mut self, job: &Job) {
        let opens = job.walk.as_ref().map_or_else(|| job.op.opens(), |walk| walk.opens());
        if let Some((number, _)) = opens
            && self.opens.handle(job.slot, number).is_some()
            && self.sessions.same(job.slot, job.session).is_some()
        {
            self.close_handle(job.slot, job.session, number);
        }
    }

    /// Answers a request that was executed before.
    fn again(&mut self, job: &mut Job, origin: &Origin) -> Step {
        if let Op::Subtree { dir, what } = &job.op {
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

impl Opens {
    /// A cut of a file found by name while an earlier cut of it is not done yet.
    fn wait_for_cut(
        &self,
        discards: &Discards,
        tidy: &mut EofCleanup,
        decoupled: &Decoupled,
        job: &Job,
        change: &Change,
    ) -> Option<WaitReason> {
        let Op::Create { flags, .. } = &job.op else { return None };
        let ino = change.answer.attr()?.ino;
        match flags.truncate {
            true if discards.data_is_busy(decoupled, ino) => Some(WaitReason::Data(ino)),
            true => self.wait_for_rooms(tidy, ino),
            false => None,
        }
    }
}

impl Cluster {
    /// The name is here, its inode is not.
    fn tell_remote(&mut self, core: &mut Core, job: &mut Job, ino: Ino, rank: Rank) -> Step {
        let (dir, kind) = match &job.op {
            Op::Lookup { dir, name } | Op::Create { dir, name, .. } => match core.tree.entry(*dir, name) {
                Lookup::Present(target) => (*dir, target.kind),
                _ => return Step::Wait(WaitReason::Locked),
            },
            Op::LookupParent { dir } => return remote_parent(&core.tree, job, *dir, ino, rank),
            _ => return Step::Redirect(rank),
        };
        if let Some(step) = self.blocked(core, job) {
            return step;
        }
        Step::Answer(match may_search(&core.tree, dir, &job.cred) {
            Ok(()) if kind == Kind::Dir && matches!(job.op, Op::Create { .. }) => Err(FsError::IsDir),
            Ok(()) => Ok(Answer::Remote { ino, kind, rank }),
            Err(error) => Err(error),
        })
    }
}

fn remote_parent(tree: &Tree, job: &Job, dir: Ino, ino: Ino, rank: Rank) -> Step {
    Step::Answer(match tree.inode(dir) {
        Some(inode) if inode.kind != Kind::Dir && !job.cred.is_root() => Err(FsError::NotDir),
        Some(_) => Ok(Answer::Remote { ino, kind: Kind::Dir, rank }),
        None => Err(FsError::NotFound),
    })
}

impl Opens {
    /// The handle that the operation goes through.
    fn check_handle(&self, core: &Core, job: &Job) -> FsResult<Option<Handle>> {
        if job.op.opens().is_some() && self.handles(job.slot) >= HANDLES_MAX {
            return Err(FsError::NoSpace);
        }
        let Some((number, ino)) = handle_of(&job.op) else { return Ok(None) };
        match self.handle(job.slot, number) {
            Some(handle) if handle.ino == ino => Ok(Some(handle)),
            // It is open at the home of the directory.
            None if matches!(job.op, Op::Readdir { .. }) && core.tree.part(ino).is_some() => Ok(None),
            _ => Err(FsError::BadHandle),
        }
    }

    /// The handle that a request to open got before, if its answer was lost. The open was allowed then, and may not be any more (or, of a
    /// new file whose mode lets nobody write, by that alone).
    fn opened_before(&self, job: &Job) -> Option<Handle> {
        let Op::Open { ino, handle, .. } = &job.op else { return None };
        self.handle(job.slot, *handle).filter(|opened| opened.ino == *ino)
    }
}

impl Cluster {
    /// Lets a request wait for records.
    pub(crate) fn wait_for(&mut self, core: &mut Core, job: &mut Job, needs: Vec<loligo_namespace::Need>) -> Step {
        let id = core.parked.number(job);
        let count = self.load(core, needs, crate::load::Waiter::Job(id));
        job.reads += count;
        Step::Wait(WaitReason::Load(count))
    }
}

impl PathCache {
    /// The step for a request about a subtree with the number of an executed one; `None` if it may go on. Nothing says that it is the same
    /// request.
    fn admit_again(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
    ) -> Option<Step> {
        if !cluster.is_alone() {
            if !cluster.peers.ready {
                return Some(Step::Wait(WaitReason::Peers));
            }
            let mut wants = Vec::new();
            match cluster.locate(core, dir, &mut wants) {
                Where::Here => {}
                // As long as it was this client's it was here.
                Where::Elsewhere(_) => return Some(Step::Answer(Err(FsError::Stale))),
                Where::Unknown => return Some(cluster.wait_for(core, job, wants)),
            }
        }
        if job.limited.is_some() { self.limit(core, opens, cluster, job, None) } else { None }
    }

    /// Why a request to open does not open what was found or made when its number was executed. That need not have been the same request: a
    /// number does not say what was asked. So whoever has not just made the file, nor has it open, must be allowed to open it now.
    fn refuse_opening_again(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        origin: &Origin,
    ) -> Option<Step> {
        let (_, flags) = job.op.opens()?;
        let needs_write = flags.write || flags.truncate || flags.append;
        let inode = core.tree.inode(origin.ino)?;
        // A new file is open to who made it, whatever its mode says.
        let is_new = origin.value != 0 && inode.kind == Kind::File && inode.uid == job.cred.uid;
        let has_name = inode.nlink > 0;
        if let Some((identity, _)) = job.limited.clone()
            && (has_name || !is_new)
            && let Some(step) = self.limit_at(core, opens, cluster, job, &identity.rights, (origin.ino, needs_write))
        {
            return Some(step);
        }
        if is_new {
            return None;
        }
        let held = opens.opened_before(job);
        let ctx = Ctx {
            cred: &job.cred,
            stamp: Stamp { now: core.now.wall, ino: core.tree.next_ino() },
            handle_read: held.is_some_and(|handle| handle.read),
            handle_write: held.is_some_and(|handle| handle.write),
            open_count: &|_| 1,
            route_version: &|_| None,
            // Asked for the permission alone: nothing is opened by this.
            distrusted: false,
        };
        let flags = OpenFlags { truncate: false, write: flags.write || flags.truncate, ..flags };
        let open = Op::Open { ino: origin.ino, flags, handle: 0 };
        prepare(&core.tree, &open, &ctx).err().map(|error| Step::Answer(Err(error)))
    }
}

impl Cluster {
    /// The step for an executed request whose inode may have become another rank's; `None` if it is this rank's.
    fn again_elsewhere(&mut self, core: &mut Core, job: &mut Job, ino: Ino) -> Option<Step> {
        if !self.peers.ready {
            return Some(Step::Wait(WaitReason::Peers));
        }
        if let Some(step) = self.exports.moved(core, &mut self.atlas, ino) {
            return Some(step);
        }
        let mut wants = Vec::new();
        match self.locate(core, ino, &mut wants) {
            Where::Here => None,
            Where::Elsewhere(rank) => Some(Step::Redirect(rank)),
            Where::Unknown => Some(self.wait_for(core, job, wants)),
        }
    }
}

pub(crate) fn origin_of(job: &Job, ino: Ino, value: u64) -> Origin {
    // What the client had of answers is filled in when the record is made.
    Origin { session: job.session, seq: job.seq, answered: loligo_types::Seq(0), ino, value }
}
