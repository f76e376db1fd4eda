//! The hardware of the memory backend: contents old and new, space, planned faults, crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::MemStore;
use super::blobs::ObjectDisk;
use loligo_types::Random;

use super::fault::{CrashPlan, Fault, FaultPoint};
use super::log::LogDisk;
use super::table::TableDisk;
use crate::{Identity, ObjectId, Result, Segment, StoreError};

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

pub(crate) struct State {
    identity: Identity,
    /// Number of the present opening; handles of earlier ones are dead.
    generation: u64,
    open: bool,
    faults: BTreeMap<(FaultPoint, u64), Fault>,
    calls: BTreeMap<FaultPoint, u64>,
    pub(crate) capacity: Option<u64>,
    /// Bytes beyond the capacity that only journals and the table get.
    reserve: u64,
    /// True if nothing is left of the capacity.
    pub(crate) full: Arc<AtomicBool>,
    /// Bytes in use by what can be read now.
    pub(crate) used: u64,
    pub(crate) table: TableDisk,
    pub(crate) ranks: BTreeSet<u32>,
    pub(crate) logs: BTreeMap<(u32, u64), LogDisk>,
    /// Of each rank's journal the newest segment and how much of it is durable. Not a file: a crash leaves it.
    pub(crate) marks: BTreeMap<u32, Segment>,
    pub(crate) blobs: BTreeMap<ObjectId, ObjectDisk>,
}

impl MemDisk {
    /// A freshly formatted disk without a limit of space.
    pub fn new(identity: Identity) -> Self {
        let state = State {
            identity,
            generation: 0,
            open: false,
            faults: BTreeMap::new(),
            calls: BTreeMap::new(),
            capacity: None,
            reserve: 0,
            full: Arc::default(),
            used: 0,
            table: TableDisk::default(),
            ranks: BTreeSet::new(),
            logs: BTreeMap::new(),
            marks: BTreeMap::new(),
            blobs: BTreeMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Opens the disk; [`StoreError::InUse`] while an earlier opening has handles.
    pub fn open(&self) -> Result<Arc<MemStore>> {
        let mut state = self.lock();
        if state.open {
            return Err(StoreError::InUse {
                dir: "the memory disk".into(),
                owner: "an opening in this process".into(),
            });
        }
        state.open = true;
        state.generation += 1;
        let ctx = Ctx { disk: self.clone(), generation: state.generation };
        drop(state);
        Ok(Arc::new(MemStore { ctx: Arc::new(ctx) }))
    }

    /// The machine stops and starts again: handles of the present opening are dead, and `plan` says
    /// what of the unsynced changes is left. Planned faults are forgotten.
    pub fn crash(&self, plan: &CrashPlan) {
        let mut state = self.lock();
        state.open = false;
        state.generation += 1;
        state.faults.clear();
        let mut rng = Random::new(plan.seed);
        state.table.crash(plan, &mut rng);
        state.logs.values_mut().for_each(|log| log.crash(plan, &mut rng));
        state.blobs.values_mut().for_each(|object| object.crash(plan, &mut rng));
        state.blobs.retain(|_, object| !object.is_gone());
        state.used = state.table.bytes()
            + state.logs.values().map(LogDisk::bytes).sum::<u64>()
            + state.blobs.values().map(ObjectDisk::bytes).sum::<u64>();
    }

    /// Makes the `nth` call of a kind from now on fail (1 is the next one), once.
    pub fn fail(&self, point: FaultPoint, nth: u64, fault: Fault) {
        let mut state = self.lock();
        let at = state.calls.get(&point).copied().unwrap_or(0) + nth;
        state.faults.insert((point, at), fault);
    }

    /// Forgets the planned faults.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Limits the space: writes that would bring the disk over `bytes` fail with
    /// [`StoreError::Full`]. `None` takes the limit away.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        let mut state = self.lock();
        state.capacity = bytes;
        state.look();
    }

    /// Bytes that journals and the table may take beyond the capacity.
    pub fn set_reserve(&self, bytes: u64) {
        self.lock().reserve = bytes;
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// Calls of a kind made so far.
    pub fn calls(&self, point: FaultPoint) -> u64 {
        self.lock().calls.get(&point).copied().unwrap_or(0)
    }

    pub(crate) fn identity(&self) -> Identity {
        self.lock().identity
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call and fails it if that was planned.
    pub(crate) fn arrive(&mut self, point: FaultPoint, what: &str) -> Result<()> {
        let calls = self.calls.entry(point).or_default();
        *calls += 1;
        let at = *calls;
        match self.faults.remove(&(point, at)) {
            None => Ok(()),
            Some(Fault::Full) => Err(StoreError::Full { what: what.to_string() }),
            Some(Fault::Io) => Err(StoreError::Io { what: what.to_string(), cause: "planned fault".to_string() }),
            Some(Fault::Die) => {
                self.generation += 1;
                Err(dead(what))
            }
        }
    }

    /// Notes how far a journal is durable.
    pub(crate) fn mark(&mut self, rank: u32, id: u64, len: u64) {
        let mark = self.marks.entry(rank).or_default();
        *mark = (*mark).max(Segment { id, len });
    }

    /// Fails if `more` bytes do not fit.
    pub(crate) fn room(&self, more: u64, what: &str) -> Result<()> {
        self.room_beyond(0, more, what)
    }

    /// The same, with the reserve.
    pub(crate) fn room_in_reserve(&self, more: u64, what: &str) -> Result<()> {
        self.room_beyond(self.reserve, more, what)
    }

    fn room_beyond(&self, beyond: u64, more: u64, what: &str) -> Result<()> {
        match self.capacity {
            Some(capacity) if self.used + more > capacity + beyond => Err(StoreError::Full { what: what.to_string() }),
            _ => Ok(()),
        }
    }

    /// Looks whether anything is left.
    fn look(&mut self) {
        let full = self.capacity.is_some_and(|capacity| self.used >= capacity);
        self.full.store(full, Ordering::Release);
    }
}

/// One opening; all handles share it, and the last one gives the disk free.
pub(crate) struct Ctx {
    disk: MemDisk,
    generation: u64,
}

impl Ctx {
    pub(crate) fn disk(&self) -> &MemDisk {
        &self.disk
    }

    /// Runs `f` on the contents, unless this opening is over.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        let mut state = self.disk.lock();
        if state.generation != self.generation {
            return Err(dead("the memory disk"));
        }
        let done = f(&mut state);
        state.look();
        done
    }
}

impl Drop for Ctx {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        if state.generation == self.generation {
            state.open = false;
        }
    }
}

fn dead(what: &str) -> StoreError {
    StoreError::Io { what: what.to_string(), cause: "the simulated machine has stopped".to_string() }
}
