//! The journal of a rank: an object for each segment, and one with their numbers. Several writes are in flight at a time; those of one
//! connection on one object take effect in order, so what is durable is always a prefix.
//!
//! Written at offsets, not appended to: a write that the library sends again lands where it landed before.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use loligo_rados::{Error, Pool, ReadOp, Reading, WriteOp};
use loligo_store::{Landed, LogDir, LogFile, LogReader, Result, Segment, StoreError};

use crate::error::{corrupt, fenced, store};
use crate::names;
use crate::slots::{self, Slot, Slots};
use crate::table::claim;

/// A segment that is there.
const THERE: u8 = 1;
/// One that is being removed.
const GOING: u8 = 2;
/// Bytes of one operation at most: the cluster takes no more than 90 MiB.
const OP_BYTES: usize = 32 << 20;

pub(crate) struct RadosLog {
    pool: Arc<Pool>,
    slots: Arc<Slots>,
    rank: u32,
    /// Owned from the first change on, at the latest.
    slot: OnceLock<Arc<Slot>>,
}

impl RadosLog {
    /// Makes it known that the rank has a journal.
    pub(crate) fn open(pool: &Arc<Pool>, slots: &Arc<Slots>, rank: u32) -> Result<RadosLog> {
        let mut op = WriteOp::new().map_err(store)?;
        op.create().omap_set([(format!("{rank:08x}").as_bytes(), [THERE].as_slice())]);
        op.run(pool, names::LOGS).map_err(store)?;
        Ok(RadosLog { pool: pool.clone(), slots: slots.clone(), rank, slot: OnceLock::new() })
    }

    /// The ranks that have one.
    pub(crate) fn ranks(pool: &Pool) -> Result<Vec<u32>> {
        let all = match keys(pool, names::LOGS) {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            all => all?,
        };
        let number = |key: &[u8]| u32::from_str_radix(std::str::from_utf8(key).ok()?, 16).ok();
        let numbers = all.iter().map(|(key, _)| number(key));
        numbers.collect::<Option<_>>().ok_or_else(|| corrupt("the list of journals", "a key is no number"))
    }

    fn head(&self) -> String {
        names::log(self.rank)
    }

    fn segment(&self, id: u64) -> String {
        names::segment(self.rank, id)
    }

    /// Owns it from now on: whoever owned it before can change nothing of it when this returns.
    pub(crate) fn own(&self) -> Result<&Arc<Slot>> {
        if let Some(slot) = self.slot.get() {
            return Ok(slot);
        }
        let slot = self.slots.take(&slots::of_rank(self.rank))?;
        // No segment is added from here on,
        claim(&self.pool, &self.head(), &slot, None)?;
        for (id, state) in self.segments()? {
            if state == GOING {
                self.remove(&slot, id)?;
            } else {
                // and nothing written to those that are there.
                claim(&self.pool, &self.segment(id), &slot, None)?;
            }
        }
        Ok(self.slot.get_or_init(|| slot))
    }

    fn segments(&self) -> Result<Vec<(u64, u8)>> {
        let keys = match keys(&self.pool, &self.head()) {
            Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
            keys => keys?,
        };
        let place = || format!("the list of segments of rank {}", self.rank);
        let segment = |(key, value): (Vec<u8>, Vec<u8>)| {
            let id = std::str::from_utf8(&key).ok().and_then(|key| u64::from_str_radix(key, 16).ok());
            match (id, value.as_slice()) {
                (Some(id), [state @ (THERE | GOING)]) => Ok((id, *state)),
                _ => Err(corrupt(place(), "a line of it was not written by this program")),
            }
        };
        keys.into_iter().map(segment).collect()
    }

    /// Changes the list of segments, if this is still the owner's.
    fn change(&self, slot: &Slot, fill: impl FnOnce(&mut WriteOp)) -> Result<bool> {
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?;
        fill(&mut op);
        match op.run(&self.pool, &self.head()) {
            Ok(_) => Ok(true),
            Err(Error::Changed { .. }) => {
                // Either of the conditions: whose it is decides.
                claim(&self.pool, &self.head(), slot, None)?;
                Ok(false)
            }
            Err(error) => Err(store(error)),
        }
    }

    fn remove(&self, slot: &Slot, id: u64) -> Result<()> {
        let key = key_of(id);
        let mut op = WriteOp::new().map_err(store)?;
        op.remove();
        match op.run(&self.pool, &self.segment(id)) {
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(store(error)),
        }
        self.change(slot, |op| _ = op.omap_remove([key.as_slice()]))?;
        Ok(())
    }

    fn len(&self, id: u64) -> Result<Reading> {
        let mut op = ReadOp::new().map_err(store)?;
        op.stat();
        op.begin(&self.pool, &self.segment(id)).map_err(store)
    }
}

fn key_of(id: u64) -> Vec<u8> {
    format!("{id:016x}").into_bytes()
}

/// Keys and values of a small omap.
fn keys(pool: &Pool, object: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut all, mut after) = (Vec::<(Vec<u8>, Vec<u8>)>::new(), Vec::new());
    loop {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.omap_after(&after, 1024).map_err(store)?;
        let page = op.run(pool, object).and_then(|brought| brought.omap(step)).map_err(store)?;
        all.extend(page.pairs);
        match all.last() {
            Some((last, _)) if page.more => after.clone_from(last),
            _ => return Ok(all),
        }
    }
}

impl LogDir for RadosLog {
    fn list(&self) -> Result<Vec<Segment>> {
        let ids: Vec<u64> =
            self.segments()?.into_iter().filter(|(_, state)| *state == THERE).map(|(id, _)| id).collect();
        let lens: Vec<Reading> = ids.iter().map(|id| self.len(*id)).collect::<Result<_>>()?;
        let len = |(id, reading): (u64, Reading)| match reading.wait().and_then(|brought| brought.stat(0)) {
            Ok(stat) => Ok(Segment { id, len: stat.len }),
            // It was put down, and not made.
            Err(Error::NotFound { .. }) => Ok(Segment { id, len: 0 }),
            Err(error) => Err(store(error)),
        };
        ids.into_iter().zip(lens).map(len).collect()
    }

    fn create(&self, id: u64) -> Result<Box<dyn LogFile>> {
        let slot = self.own()?;
        let (key, object) = (key_of(id), self.segment(id));
        if !self.change(slot, |op| _ = op.assert_omap(&key, b"").omap_set([(key.as_slice(), [THERE].as_slice())]))? {
            return Err(StoreError::Io { what: format!("object {object}"), cause: "it exists already".into() });
        }
        let mut op = WriteOp::new().map_err(store)?;
        op.create().truncate(0).set_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?;
        op.run(&self.pool, &object).map_err(store)?;
        Ok(Box::new(RadosFile::new(self.pool.clone(), slot.clone(), object, 0)))
    }

    fn open(&self, id: u64) -> Result<Box<dyn LogReader>> {
        let reader = RadosReader { pool: self.pool.clone(), object: self.segment(id) };
        reader.len()?;
        Ok(Box::new(reader))
    }

    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>> {
        let slot = self.own()?;
        let len = self.open(id)?.len()?;
        claim(&self.pool, &self.segment(id), slot, None)?;
        Ok(Box::new(RadosFile::new(self.pool.clone(), slot.clone(), self.segment(id), len)))
    }

    fn truncate(&self, id: u64, len: u64) -> Result<()> {
        let slot = self.own()?;
        self.open(id)?;
        claim(&self.pool, &self.segment(id), slot, None)?;
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?.truncate(len);
        written(op.run(&self.pool, &self.segment(id)), slot)
    }

    fn delete(&self, id: u64) -> Result<()> {
        let slot = self.own()?;
        let key = key_of(id);
        let going = |op: &mut WriteOp| {
            op.assert_omap(&key, &[THERE]).omap_set([(key.as_slice(), [GOING].as_slice())]);
        };
        // If it is not there, it is not there.
        if self.change(slot, going)? { self.remove(slot, id) } else { Ok(()) }
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    fn is_async(&self) -> bool {
        true
    }
}

/// What a conditional write ended with.
fn written(done: loligo_rados::Result<u64>, slot: &Slot) -> Result<()> {
    match done {
        Ok(_) => Ok(()),
        Err(Error::Changed { .. }) => Err(fenced(&slot.name)),
        Err(error) => Err(store(error)),
    }
}

/// What is under way of a segment.
#[derive(Default)]
struct Flight {
    writes: usize,
    failed: Option<StoreError>,
}

/// That, and who waits for it.
#[derive(Default)]
struct Flights {
    state: Mutex<Flight>,
    landed: Condvar,
}

struct RadosFile {
    pool: Arc<Pool>,
    slot: Arc<Slot>,
    object: String,
    len: u64,
    flights: Arc<Flights>,
}

impl RadosFile {
    fn new(pool: Arc<Pool>, slot: Arc<Slot>, object: String, len: u64) -> RadosFile {
        RadosFile { pool, slot, object, len, flights: Arc::default() }
    }

    /// Begins a write behind what is there; at its end `then` is told whether all up to there is durable.
    fn begin(&mut self, bytes: &[u8], then: Option<Landed>) -> Result<()> {
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_xattr(&self.slot.xattr(), &self.slot.epoch.to_le_bytes()).map_err(store)?.write(self.len, bytes);
        {
            let mut state = self.flights.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state.writes += 1;
        }
        let (flights, slot) = (self.flights.clone(), self.slot.clone());
        let ended = move |done| {
            let mut state = flights.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.writes -= 1;
            if let Err(error) = written(done, &slot) {
                // Nothing behind it counts, either.
                state.failed.get_or_insert(error);
            }
            let failed = state.failed.clone();
            drop(state);
            flights.landed.notify_all();
            if let Some(then) = then {
                then(failed.map_or(Ok(()), Err));
            }
        };
        if let Err(error) = op.begin_then(&self.pool, &self.object, ended) {
            self.flights.state.lock().unwrap_or_else(PoisonError::into_inner).writes -= 1;
            return Err(store(error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

impl LogFile for RadosFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        bytes.chunks(OP_BYTES).try_for_each(|chunk| self.begin(chunk, None))
    }

    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.append(&parts.concat())
    }

    fn append_then(&mut self, bytes: &[u8], landed: Landed) -> Result<()> {
        let last = bytes.len().saturating_sub(1) / OP_BYTES * OP_BYTES;
        self.append(&bytes[..last])?;
        self.begin(&bytes[last..], Some(landed))
    }

    fn sync(&mut self) -> Result<()> {
        let state = self.flights.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.flights.landed.wait_while(state, |state| state.writes > 0);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.failed.clone().map_or(Ok(()), Err)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for RadosFile {
    fn drop(&mut self) {
        // Nothing is under way any more when the slot is given back.
        let _ = self.sync();
    }
}

struct RadosReader {
    pool: Arc<Pool>,
    object: String,
}

impl LogReader for RadosReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.read(offset, buf.len());
        let brought = op.run(&self.pool, &self.object).map_err(store)?;
        let data = brought.data(step).map_err(store)?;
        buf[..data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn len(&self) -> Result<u64> {
        let mut op = ReadOp::new().map_err(store)?;
        let step = op.stat();
        Ok(op.run(&self.pool, &self.object).and_then(|brought| brought.stat(step)).map_err(store)?.len)
    }
}
