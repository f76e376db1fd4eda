//! The machine: admits operations, starts them in order, answers. Not what they do to objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_types::{DataAnswer, DataError, DataOp, Ino, SessionId};

use crate::admit::{check_limits, class_asked, class_of, cost, refusal, to_effect, touches};
use crate::dirty::Dirty;
use crate::execute::{Durable, Effect, EffectResult, to_data_error};
use crate::frozen::AllFrozen;
use crate::io::{Access, EffectId, Input, Output, Tag};
use crate::logged::Logged;
use crate::queue::{Queue, Queued, Waiter};
use crate::quiesce::Quiesce;

/// Limits of an object server.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Bytes of operations that may wait or run; more are refused with `Busy`.
    pub queue_bytes: u64,
    /// Files with changes not synced that are remembered; with more, everything is synced.
    pub dirty_files: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { queue_bytes: 64 << 20, dirty_files: 16_384 }
    }
}

/// A discard that was carried out: its tag, its file, and the index of the object that was cut.
type Carried = (Tag, Ino, u64);

/// A discard that is durable before it is answered.
fn now(effect: Effect) -> Effect {
    match effect {
        Effect::Discard { ino, object_size, from, .. } => {
            Effect::Discard { ino, object_size, from, durable: Durable::Now }
        }
        effect => effect,
    }
}

/// A sync of everything.
#[derive(Debug)]
struct SyncAll {
    id: EffectId,
    /// Changes up to this stamp are in it.
    stamp: u64,
    /// Tags of the requests for it.
    tags: Vec<Tag>,
}

/// The object server.
#[derive(Debug)]
pub struct Osd {
    config: Config,
    pub(crate) rights: BTreeMap<(SessionId, Ino), Access>,
    /// Of many files at once: the first, how many.
    pub(crate) ranges: BTreeMap<SessionId, Vec<(Ino, u64, Access)>>,
    pub(crate) trusted: BTreeSet<SessionId>,
    pub(crate) files: BTreeMap<Ino, Queue>,
    /// Which file an effect that is out belongs to.
    running: BTreeMap<EffectId, Ino>,
    /// The dirty objects that a running sync covers; put back if it fails.
    syncing: BTreeMap<EffectId, Dirty>,
    /// Objects changed and not synced.
    pub(crate) dirty: BTreeMap<Ino, Dirty>,
    /// Discards that were carried out and wait to be made durable.
    pub(crate) discarded: Vec<Carried>,
    /// The discards being made durable: one sync covers all that came meanwhile.
    pub(crate) discard_sync: Option<(EffectId, Vec<Carried>)>,
    /// A sync of everything that is out.
    sync_all: Option<SyncAll>,
    /// Data of a process before this one may not be durable: no sync of everything has ended yet.
    inherits: bool,
    /// Tags of requests for a sync of everything that came since the current one began.
    sync_all_asked: Vec<Tag>,
    /// Sessions being fenced, with the number of their operations still running.
    pub(crate) fencing: BTreeMap<SessionId, usize>,
    /// Files that one session changes while others read them as they were.
    frozen: AllFrozen,
    /// Writes that the journal has.
    pub(crate) logged: Logged,
    /// Files with such a write that had no room.
    pub(crate) paused: BTreeSet<Ino>,
    /// Files that are to be quiet.
    pub(crate) quiesces: Vec<Quiesce>,
    /// Bytes waiting or running.
    pub(crate) queued: u64,
    /// Counts changes, for [`Dirty::stamp`].
    stamp: u64,
    next_id: EffectId,
    pub(crate) out: VecDeque<Output>,
}

impl Osd {
    /// An object server with nothing to do and nobody who may ask.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            rights: BTreeMap::new(),
            ranges: BTreeMap::new(),
            trusted: BTreeSet::new(),
            files: BTreeMap::new(),
            running: BTreeMap::new(),
            syncing: BTreeMap::new(),
            dirty: BTreeMap::new(),
            discarded: Vec::new(),
            discard_sync: None,
            sync_all: None,
            inherits: true,
            sync_all_asked: Vec::new(),
            fencing: BTreeMap::new(),
            frozen: AllFrozen::default(),
            logged: Logged::default(),
            paused: BTreeSet::new(),
            quiesces: Vec::new(),
            queued: 0,
            stamp: 0,
            next_id: 1,
            out: VecDeque::new(),
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, input: Input) {
        match input {
            Input::Request { session, tag, ino, object_size, op } => {
                if let Err(error) = self.request(session, tag, ino, u64::from(object_size), op) {
                    self.out.push_back(Output::Reply { session, tag, result: Err(error) });
                }
            }
            Input::Discard { tag, ino, object_size, from } => {
                // Many are made durable together, see `sync_discards`.
                let effect =
                    Effect::Discard { ino, object_size: u64::from(object_size), from, durable: Durable::Later };
                let effect = match self.frozen.shared(ino) {
                    // What it drops is the copy's, which is not synced with the others.
                    Some(_) => self.frozen.as_told(ino, now(effect)),
                    None => effect,
                };
                self.enqueue(self.frozen.file_of(ino), Waiter::Discard(tag, ino), effect);
            }
            Input::Spill { tag, ino, object_size, data } => {
                let effect = Effect::Spill { ino, object_size: u64::from(object_size), data };
                let effect = self.frozen.as_told(ino, effect);
                self.enqueue(ino, Waiter::Spill(tag), effect);
            }
            Input::WriteLogged { lsn, ino, object_size, patches } => {
                self.write_logged(lsn, ino, u64::from(object_size), patches);
            }
            Input::SettleLogged => self.settle_logged(Ino(0)),
            Input::Forget { ino, upto } => self.forget_logged(ino, upto),
            Input::Retry => self.retry_logged(),
            Input::SyncAll { tag } => {
                self.sync_all_asked.push(tag);
                self.start_sync_all();
            }
            Input::Done { id, result } => self.done(id, result),
            Input::Access { session, ino, access } => self.set_access(session, ino, access),
            Input::AccessRange { session, first, count, access } => self.set_range(session, first, count, access),
            Input::Freeze { ino, copy, size, owner, shared } => self.frozen.freeze(ino, copy, size, owner, shared),
            Input::Thaw { ino } => self.frozen.thaw(ino),
            Input::Restore { tag, ino, copy } => {
                self.enqueue(ino, Waiter::Restore(tag), Effect::Restore { ino, copy });
            }
            Input::KeepTheirs { tag, ino, copy, object_size, to, len } => {
                let (size, object_size) = (self.frozen.size(ino), u64::from(object_size));
                let effect = Effect::KeepTheirs { ino, copy, size, object_size, to, len };
                self.enqueue(ino, Waiter::Keep(tag, to), effect);
            }
            Input::LookAtFork { tag, ino, copy } => {
                self.enqueue(ino, Waiter::Look(tag), Effect::LookAtFork { copy });
            }
            Input::Trust { session } => {
                self.trusted.insert(session);
            }
            Input::Fence { session } => self.fence(session),
            Input::Quiesce { ticket, inos } => self.quiesce(ticket, inos),
        }
    }

    /// The next thing to do, in order.
    pub fn next_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Bytes of operations that wait or run.
    pub fn queued_bytes(&self) -> u64 {
        self.queued
    }

    /// True if nothing waits, runs, or is left to be drained.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty()
            && self.files.is_empty()
            && self.discard_sync.is_none()
            && self.sync_all.is_none()
            && self.quiesces.is_empty()
    }

    fn request(
        &mut self,
        session: SessionId,
        tag: Tag,
        ino: Ino,
        object_size: u64,
        op: DataOp,
    ) -> Result<(), DataError> {
        check_limits(object_size, &op)?;
        if let Some(error) = refusal(self.access(session, ino), class_asked(&op)) {
            return Err(error);
        }
        let effect = self.frozen.as_asked(session, ino, to_effect(ino, object_size, op));
        // A lone operation is always let in, or a small bound would refuse it for ever.
        if self.queued > 0 && self.queued + cost(&effect) > self.config.queue_bytes {
            return Err(DataError::Busy);
        }
        self.enqueue(ino, Waiter::Session(session, tag), effect);
        Ok(())
    }

    pub(crate) fn enqueue(&mut self, ino: Ino, waiter: Waiter, effect: Effect) {
        let id = self.new_id();
        let (class, range) = class_of(&effect);
        let (cost, touches) = (cost(&effect), touches(&effect));
        self.queued += cost;
        let op =
            Queued { id, waiter, class, range, touches, cost, effect: Some(effect), orphaned: false, paused: false };
        self.files.entry(ino).or_default().push(op);
        self.start(ino);
    }

    /// Starts all operations on a file that may run.
    pub(crate) fn start(&mut self, ino: Ino) {
        let Some(queue) = self.files.get_mut(&ino) else { return };
        while let Some(op) = queue.startable(|op| self.logged.holds(ino, op).is_some()) {
            let mut effect = op.effect.take().expect("what may start has not started");
            if let Effect::Sync { ranges, removed, copy, .. } = &mut effect {
                *copy = self.frozen.shared(ino);
                let dirty = self.dirty.remove(&ino).unwrap_or_default();
                *removed = dirty.removed;
                *ranges = dirty.clone().into_ranges();
                self.syncing.insert(op.id, dirty);
            }
            if let Waiter::Logged(lsn) = op.waiter {
                self.logged.started(ino, lsn, (op.id, &effect));
            }
            let asked = match &mut effect {
                Effect::Copying { effect, .. } | Effect::Theirs { effect, .. } => &mut **effect,
                effect => effect,
            };
            if let Effect::Discard { durable: durable @ Durable::IfDropped, .. } = asked {
                // Removals that are not durable yet: what they dropped must not be back either.
                let under_way = |(id, dirty): (&EffectId, &Dirty)| dirty.removed && self.running.get(id) == Some(&ino);
                if self.dirty.get(&ino).is_some_and(|dirty| dirty.removed) || self.syncing.iter().any(under_way) {
                    *durable = Durable::Now;
                }
            }
            self.running.insert(op.id, ino);
            self.out.push_back(Output::Run { id: op.id, effect });
        }
        let held = queue.first_held(|op| self.logged.holds(ino, op));
        if held.is_some_and(|upto| self.logged.is_written(ino, upto)) {
            self.settle_logged(ino);
        }
    }

    fn done(&mut self, id: EffectId, result: EffectResult) {
        if self.discard_sync.as_ref().is_some_and(|(ours, _)| *ours == id) {
            return self.discards_synced(result);
        }
        if self.sync_all.as_ref().is_some_and(|sync| sync.id == id) {
            return self.all_synced(result);
        }
        if self.logged_synced(id, &result) {
            return;
        }
        let Some(ino) = self.running.remove(&id) else { return };
        if self.pauses(id, ino, &result) {
            return;
        }
        let Some(queue) = self.files.get_mut(&ino) else { return };
        let Some(op) = queue.remove(id) else { return };
        if queue.is_empty() {
            self.files.remove(&ino);
        }
        self.queued -= op.cost;
        self.note_changes(ino, &op, result.is_ok());
        if op.waiter == Waiter::Quiesce && result.is_err() {
            self.not_quiet(ino);
        }
        self.answer(ino, &op, result);
        self.start(ino);
        self.sync_discards();
        self.quieten(ino);
        self.bound_dirty();
    }

    /// Remembers what a later sync must cover. A change that failed may have been made in part.
    fn note_changes(&mut self, ino: Ino, op: &Queued, ok: bool) {
        if matches!(op.waiter, Waiter::Logged(_)) {
            return;
        }
        self.stamp += 1;
        let stamp = self.stamp;
        if let Some(taken) = self.syncing.remove(&op.id) {
            if !ok {
                let dirty = self.dirty.entry(ino).or_default();
                dirty.merge(taken);
                dirty.stamp = stamp;
            }
            return;
        }
        // What the metadata server asked for is made durable before it is answered.
        let is_durable = ok && (op.touches.durable || !matches!(op.waiter, Waiter::Session(..)));
        let Some((first, last)) = op.touches.objects.filter(|_| !is_durable) else { return };
        let dirty = self.dirty.entry(ino).or_default();
        dirty.stamp = stamp;
        dirty.removed |= op.touches.removes;
        dirty.add(first, last);
    }

    fn answer(&mut self, ino: Ino, op: &Queued, result: EffectResult) {
        if let Waiter::Logged(lsn) = op.waiter {
            return self.patched(ino, lsn, op, &result);
        }
        let result = result.map_err(|error| to_data_error(&error));
        match op.waiter {
            Waiter::Session(session, _) if op.orphaned => self.one_less(session),
            Waiter::Session(session, tag) => self.out.push_back(Output::Reply { session, tag, result }),
            Waiter::Spill(tag) => {
                self.out.push_back(Output::Spilled { tag, ino, result: result.map(drop) });
            }
            Waiter::Discard(tag, of) => match result {
                Ok(_) => {
                    self.frozen.dropped(of);
                    self.logged.cut(of, op.range.0);
                    self.discarded.push((tag, of, op.touches.objects.map_or(0, |(cut, _)| cut)));
                }
                Err(error) => self.out.push_back(Output::Discarded { tag, ino: of, result: Err(error) }),
            },
            Waiter::Restore(tag) => {
                self.out.push_back(Output::Restored { tag, ino, result: result.map(drop) });
            }
            Waiter::Keep(tag, to) => {
                self.out.push_back(Output::Kept { tag, ino, to, result: result.map(drop) });
            }
            Waiter::Look(tag) => {
                let result = result.map(|answer| match answer {
                    DataAnswer::Offset(size) => size,
                    _ => None,
                });
                self.out.push_back(Output::Fork { tag, ino, result });
            }
            Waiter::Quiesce | Waiter::Logged(_) => {}
        }
    }

    /// Makes finished discards durable, all that there are in one go.
    fn sync_discards(&mut self) {
        if self.discard_sync.is_some() || self.discarded.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.discarded);
        let files = batch.iter().map(|(_, ino, cut)| (*ino, *cut)).collect();
        let id = self.new_id();
        self.discard_sync = Some((id, batch));
        self.out.push_back(Output::Run { id, effect: Effect::SyncDiscards { files } });
    }

    fn discards_synced(&mut self, result: EffectResult) {
        let result = result.map(drop).map_err(|error| to_data_error(&error));
        let (_, batch) = self.discard_sync.take().expect("the caller saw it");
        for (tag, ino, _) in &batch {
            self.out.push_back(Output::Discarded { tag: *tag, ino: *ino, result });
        }
        self.sync_discards();
        batch.iter().for_each(|(_, ino, _)| self.quieten(*ino));
    }

    /// Syncs everything when too many files wait for a sync that may never come.
    fn bound_dirty(&mut self) {
        if self.dirty.len() > self.config.dirty_files {
            self.start_sync_all();
        }
    }

    /// Syncs everything for all who asked; one that is under way may have missed what they mean.
    pub(crate) fn start_sync_all(&mut self) {
        if self.sync_all.is_some() {
            return;
        }
        let tags = std::mem::take(&mut self.sync_all_asked);
        if !self.inherits && self.dirty.is_empty() && self.syncing.is_empty() {
            // Nothing that was answered is not durable.
            let done = |tag| Output::SyncedAll { tag, result: Ok(()) };
            self.out.extend(tags.into_iter().map(done));
            return;
        }
        let id = self.new_id();
        self.sync_all = Some(SyncAll { id, stamp: self.stamp, tags });
        self.out.push_back(Output::Run { id, effect: Effect::SyncAll });
    }

    fn all_synced(&mut self, result: EffectResult) {
        let sync = self.sync_all.take().expect("the caller saw it");
        if result.is_ok() {
            self.dirty.retain(|_, dirty| dirty.stamp > sync.stamp);
            self.inherits = false;
        }
        let result = result.map(drop).map_err(|error| to_data_error(&error));
        for tag in sync.tags {
            self.out.push_back(Output::SyncedAll { tag, result });
        }
        if !self.sync_all_asked.is_empty() {
            self.start_sync_all();
        }
        self.quieten_all(result.is_ok());
    }

    pub(crate) fn new_id(&mut self) -> EffectId {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}
