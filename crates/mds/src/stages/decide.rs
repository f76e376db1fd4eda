//! Decision of a request that has all it needs: prepare, conflicts, apply, log. What an operation does is not here
//! (`loligo-namespace`), nor when its answer leaves (`answer.rs`).

use std::collections::BTreeMap;

use loligo_journal::encode_record;
use loligo_namespace::{Change, Ctx, apply, apply_decided, prepare};
use loligo_types::{Answer, Event, FsError, FsResult, Ino, Journaling, Kind, Lease, Lsn, Op, Origin, Stamp, limits};

use crate::conflict::{CLAIMS_FEW, Claim, claim_of};
use crate::inline_spill::spilled_events;
use crate::io::Output;
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::modes;
use crate::open::Handle;
use crate::paths::shown_on_the_way;
use crate::relaxed::{NUMBERS, Relaxation};
use crate::step::{Step, origin_of};

impl Mds {
    pub(crate) fn step_loaded(&mut self, job: &mut Job, held: Option<Handle>) -> Step {
        if let Some(step) = self.opens.room_first(&self.core, &mut self.tidy, job, held) {
            return step;
        }
        match self.tidy_first(job, held) {
            Some(why) => Step::Wait(why),
            None => self.decide(job, held),
        }
    }

    /// If the request lets a file of several writers grow over what may be left there: drops that first, and says what
    /// to wait for.
    fn tidy_first(&mut self, job: &Job, held: Option<Handle>) -> Option<WaitReason> {
        let ino = match job.op {
            Op::Extend { len: 0, .. } => return None,
            Op::Extend { ino, .. } => ino,
            // Who holds CACHE and writes is alone.
            Op::SetData { ino, grow_to: Some(to), cuts, .. } if !self.opens.rights(ino, job.slot).has(Lease::CACHE) => {
                if self.opens.room(ino, job.slot).is_some_and(|room| room.end == to) {
                    // He grows over what he has written himself.
                    return None;
                }
                self.core.tree.inode(ino).filter(|inode| to > inode.size && cuts == inode.cuts)?.ino
            }
            _ => return None,
        };
        if self.tidy.is_known(ino) || !held.is_some_and(|handle| handle.write) {
            return None;
        }
        self.cut_beyond(ino).then_some(WaitReason::Data(ino))
    }

    fn decide(&mut self, job: &mut Job, held: Option<Handle>) -> Step {
        if let Some(error) = self.sessions.refuse_number(job) {
            return Step::Answer(Err(error));
        }
        let held = held.or_else(|| self.opens.opened_before(job));
        let relaxation = self.relax(job);
        let (lag, reserved) = (relaxation.lag, relaxation.number);
        let journaling = match self.relaxed.journaling_before(&mut self.core, &mut self.cluster, job) {
            Ok(journaling) => journaling,
            Err(needs) => return self.cluster.wait_for(&mut self.core, job, needs),
        };
        if let Some(error) = self.refuse_data(job, lag.is_some(), journaling) {
            return Step::Answer(Err(error));
        }
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
                return self.opens.reserve_behind(&self.core, job, ino, len);
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
        if let (Some(journaling), Op::SetData { patches, .. }) = (journaling, &job.op) {
            events.extend(modes::pad(journaling, patches.as_deref()));
        }
        (job.lag, job.is_strict) = (lag, lag.is_none());
        let lsn = self.commit_made(Some(origin), &events, tx.is_none().then_some(made));
        self.relaxed.end(&relaxation, &events, lsn);
        self.sessions.use_number(job, &events);
        self.opens.room_used(&mut self.tidy, job);
        self.cluster.placement.note_policy(&self.core, &self.cluster.atlas, &job.op);
        if let Some(dir) = job.within.filter(|_| !matches!(job.op, Op::Tmpfile { .. })) {
            self.decoupled.hold(dir, &events);
        }
        Step::Answer(Ok(answer))
    }

    /// Why the data that comes with a request cannot go into the journal; `None`: there is none, or it can. It is to be written to objects
    /// then. `relaxed`: the answer may leave before it is durable, so whoever hears it would not read the data.
    pub(crate) fn refuse_data(&self, job: &Job, relaxed: bool, journaling: Option<Journaling>) -> Option<FsError> {
        let Op::SetData { ino, patches: Some(patches), .. } = &job.op else { return None };
        // Others may write objects at the same time, or read another version of them.
        let alone = self.opens.rights(*ino, job.slot).has(Lease::BUFFER) && job.tx.is_none();
        if relaxed || !alone || self.core.tree.has_decoupled() {
            return Some(FsError::NotSupported);
        }
        if let Err(error) = modes::refuse_by_mode(journaling.unwrap_or_default(), patches) {
            return Some(error);
        }
        self.core.data.refusal(&self.core, &self.statfs, patches)
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

    /// A number for an inode that a request makes in a relaxed directory; none: there is none that is reserved, and the request is as strict as any.
    fn reserved_number(&mut self) -> Option<Ino> {
        if self.relaxed.lacks_numbers() {
            let first = self.core.tree.next_ino();
            let after = Ino(first.0 + NUMBERS);
            if after.birth_rank() == self.core.me() {
                let lsn = self.commit(None, &[Event::NextIno(after)]);
                self.relaxed.take_numbers(first, after, lsn);
            }
        }
        self.relaxed.next_number(&self.core)
    }

    /// A write does not fit into the inode (any more).
    fn spill(&mut self, job: &mut Job) -> Step {
        let busy = Step::Answer(Err(FsError::Busy));
        let Op::WriteInline { ino, handle, .. } = job.op else { return busy };
        let reads = self.opens.handle(job.slot, handle).is_some_and(|handle| handle.read);
        if reads && self.opens.rights(ino, job.slot).has(Lease::BUFFER) {
            return busy;
        }
        let Some(inode) = self.core.tree.inode(ino).filter(|inode| inode.inline) else { return busy };
        let Some(data) = self.core.tree.inline(inode) else {
            return Step::Answer(Err(FsError::Io));
        };
        let object_size = inode.layout().object_size;
        if self.relaxed.is_volatile(ino) {
            // No object without a durable file.
            self.relaxed.wait_for_birth(ino);
            return Step::Wait(WaitReason::Data(ino));
        }
        let change = Change { events: spilled_events(&self.core.tree, ino), ..Change::only(Answer::Done) };
        if let Some(why) = self.settle_conflicts(job, &change) {
            return Step::Wait(why);
        }
        // Also when there is nothing to move: what an earlier writer may have left in objects must not show.
        self.core.out.push_back(Output::Spill { ino, data, object_size });
        self.discards.spills.insert(ino, object_size);
        Step::Wait(WaitReason::Data(ino))
    }

    /// Nothing, if the change may be applied now; else the recalls are on their way, and this is what to wait for.
    pub(crate) fn settle_conflicts(&mut self, job: &mut Job, change: &Change) -> Option<WaitReason> {
        if !self.cluster.replicas.lent.is_empty()
            && let Some(why) = self.cluster.replicas.lent.settle_replicas(&mut self.core, job, &change.events)
        {
            return Some(why);
        }
        if !self.promises.is_empty(self.core.now.mono_ms)
            && let Some(why) = self.promises.settle_promises(&mut self.core, job, &change.events)
        {
            return Some(why);
        }
        if self.sessions.len() < 2 {
            return None;
        }
        let data = job.op.props().data;
        let events = || change.events.iter().filter_map(|event| claim_of(&self.core.tree, event, data));
        let answer = self.opens.claim_of_answer(job, &change.answer);
        if !events().chain(answer).any(|claim| self.opens.conflicts(&self.leases, job, claim)) {
            return None;
        }
        let mut claims: Vec<Claim> = Vec::new();
        // A merge may claim very much; other requests a few.
        let mut places: BTreeMap<Ino, usize> = BTreeMap::new();
        for (ino, bits) in events().chain(answer) {
            if claims.len() == CLAIMS_FEW && places.is_empty() {
                places.extend(claims.iter().enumerate().map(|(place, (ino, _))| (*ino, place)));
            }
            let known = match places.is_empty() {
                true => claims.iter().position(|(other, _)| *other == ino),
                false => places.get(&ino).copied(),
            };
            match known {
                Some(place) => claims[place].1 = claims[place].1 | bits,
                None => {
                    if !places.is_empty() {
                        places.insert(ino, claims.len());
                    }
                    claims.push((ino, bits));
                }
            }
        }
        Some(self.recall_all(job, claims))
    }

    fn recall_all(&mut self, job: &mut Job, claims: Vec<Claim>) -> WaitReason {
        let id = self.core.parked.number(job);
        let mut count = 0;
        for claim in &claims {
            for (slot, bits) in self.opens.holders_due(&self.leases, job, *claim) {
                self.recalls.recall(&mut self.core, &self.sessions, claim.0, slot, bits, id);
                count += 1;
                if claim.1.has(Lease::NAMES) {
                    // Several work in this directory: lending it out again at once would only mean asking again.
                    self.background.contended.insert(claim.0, self.core.now.mono_ms + self.core.config.contended_ms);
                }
                if bits.has(Lease::FLUSH) && !job.flushed.contains(&claim.0) {
                    job.flushed.push(claim.0);
                }
            }
        }
        self.core.parked.mark(job, claims.into_iter().map(|(ino, _)| ino).collect());
        WaitReason::Recall(count)
    }

    /// Registers what the answer opened. From now on it counts as open; its rights come with the reply. A number that
    /// is in use is that of a repeated request whose first answer was lost, and is given to what was opened now.
    pub(crate) fn open_handle(&mut self, job: &Job, answer: &Answer) {
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
    pub(crate) fn close_unopened(&mut self, job: &Job) {
        let opens = job.walk.as_ref().map_or_else(|| job.op.opens(), |walk| walk.opens());
        if let Some((number, _)) = opens
            && self.opens.handle(job.slot, number).is_some()
            && self.sessions.same(job.slot, job.session).is_some()
        {
            self.close_handle(job.slot, job.session, number);
        }
    }

    /// Gives numbers to a session, with one record that says so of the session and of the counter.
    pub(crate) fn grant_inos(&mut self, job: &Job, count: u32) -> FsResult<Answer> {
        if count == 0 || count > limits::INO_GRANT_MAX {
            return Err(FsError::Invalid);
        }
        let first = self.core.tree.next_ino();
        let after = Ino(first.0 + u64::from(count));
        if after.birth_rank() != self.core.me() {
            return Err(FsError::NoSpace);
        }
        let Some(session) = self.sessions.same(job.slot, job.session) else { return Err(FsError::Stale) };
        if session.grants.left() + u64::from(count) > u64::from(limits::INO_GRANT_MAX) {
            return Err(FsError::Quota);
        }
        session.grants.add(first, count);
        let record = session.record();
        self.commit(Some(origin_of(job, Ino(0), first.0)), &[Event::NextIno(after), Event::Session(record)]);
        Ok(Answer::Inos { first, count })
    }

    /// Applies events and gives them to the journal as one record, which may have some in short.
    pub(crate) fn commit(&mut self, origin: Option<Origin>, events: &[Event]) -> Lsn {
        self.commit_made(origin, events, None)
    }

    /// The same; `made`: they are what an operation decided here over records of this rank alone, and this is the number it was given
    /// for a new inode.
    fn commit_made(&mut self, origin: Option<Origin>, events: &[Event], made: Option<Ino>) -> Lsn {
        let lsn = self.core.log.last.next();
        self.core.log.last = lsn;
        let origin = origin.map(|origin| self.sessions.remember(origin, lsn));
        let mut record = Vec::with_capacity(self.core.log.last_len + 16);
        let tree = &self.core.tree;
        let short = self.core.shortener.shorten(lsn, events, |ino| tree.inline_state(ino));
        let (logged, left_out) = short.as_ref().map_or((events, 0), |(events, left_out)| (&events[..], *left_out));
        encode_record(&mut record, origin.as_ref(), logged);
        self.core.log.last_len = record.len();
        self.core.log.used += record.len() as u64;
        self.relaxed.note_relaxed(&self.core, &self.cluster, events, lsn, made);
        let alone = self.cluster.is_alone();
        if !alone {
            self.cluster.replicas.lent.check_replicas(&self.core, events);
            self.decoupled.note_arrivals(&self.core, events);
        }
        self.promises.check_promises(&self.core, events);
        for event in events {
            self.core.data.note(lsn, event, self.core.now.mono_ms);
            self.shortcuts.note(&self.core.tree, event);
            if !alone {
                self.cluster.atlas.note_for_others(&self.core, event);
            }
            match made {
                // It gets into memory in steps.
                _ if matches!(event, Event::Merge { .. }) => {}
                Some(made) => apply_decided(&mut self.core.tree, event, lsn, made),
                None => apply(&mut self.core.tree, event, lsn),
            }
            match event {
                Event::Discard { ino, from, object_size } => {
                    self.discards.add(*ino, *from, *object_size, lsn);
                    self.tidy.dropped(&self.opens, *ino);
                }
                Event::Data { .. } | Event::DataInPlace { .. } | Event::Pad { .. } => {}
                Event::InodeGone(ino) => {
                    self.leases.forget(*ino);
                    self.decoupled.note_promise(event);
                }
                Event::Merge { dir } => self.core.tree.begin_merge(*dir),
                Event::Letter { to, seq, letter } => self.cluster.peers.letter_written(*to, *seq, letter, lsn),
                Event::Route(route) => {
                    self.cluster.atlas.route_written(&mut self.core, &self.cluster.peers, &mut self.balance, *route)
                }
                Event::RouteGone(dir) => self.cluster.atlas.route_gone(&mut self.core, &self.cluster.peers, *dir),
                Event::Xattr { .. } | Event::XattrGone { .. } => {
                    self.cluster.placement.note_pin(event);
                    self.decoupled.note_promise(event);
                }
                _ => {}
            }
        }
        let recuts = self.core.tree.take_recuts();
        if !recuts.is_empty() {
            self.heat.recut(&mut self.core, &mut self.cluster, recuts);
        }
        if let Some(tail) = &mut self.cluster.exports.tail {
            // Other ranks get it whole.
            tail.add(events, self.core.log.last_len + left_out);
        }
        self.core.out.push_back(Output::Append { lsn, record });
        lsn
    }
}
