//! The journal of a rank: segments, and an object with their numbers. A segment is a row of objects of one size, its pieces: what a write to
//! an object costs grows with how often it was written to, on some stores.
//!
//! Several writes are in flight at a time; those of one connection on one object take effect in order, and no piece is begun before all of
//! the one before has landed. So what is durable is always a prefix. Written at offsets, not appended to: a write that the library sends
//! again lands where it landed before.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use loligo_rados::{Error, Pool, ReadOp, Reading, WriteOp};
use loligo_store::{Landed, LogDir, LogFile, LogReader, Result, Segment, StoreError};

use crate::error::{corrupt, fenced, store};
use crate::names;
use crate::slots::{self, Slot, Slots};
use crate::table::claim;

/// A segment that is there.
pub(crate) const THERE: u8 = 1;
/// One that is being removed.
pub(crate) const GOING: u8 = 2;
/// Bytes of a piece.
pub(crate) const PIECE: u64 = 128 << 10;
/// Pieces that are looked at, or removed, at a time.
pub(crate) const AT_ONCE: u64 = 64;

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

    fn segment(&self, id: u64) -> Pieces {
        Pieces { pool: self.pool.clone(), rank: self.rank, id }
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
                self.segment(id).claim(&slot)?;
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
        let segment = self.segment(id);
        // From the end, so that what is left of one that is cut off here is found again.
        segment.remove(0..segment.lens()?.len() as u64)?;
        self.change(slot, |op| _ = op.omap_remove([key.as_slice()]))?;
        Ok(())
    }

    /// The segment, if it is in the list.
    fn listed(&self, id: u64) -> Result<Pieces> {
        let segment = self.segment(id);
        if self.segments()?.contains(&(id, THERE)) {
            return Ok(segment);
        }
        Err(StoreError::NotFound { what: format!("segment {id} of the journal of rank {}", self.rank) })
    }
}

/// The objects of a segment.
#[derive(Clone)]
struct Pieces {
    pool: Arc<Pool>,
    rank: u32,
    id: u64,
}

impl Pieces {
    fn name(&self, piece: u64) -> String {
        names::segment(self.rank, self.id, piece)
    }

    /// The lengths of those that are there.
    fn lens(&self) -> Result<Vec<u64>> {
        let mut lens = Vec::new();
        loop {
            let first = lens.len() as u64;
            let begin = |piece: u64| {
                let mut op = ReadOp::new().map_err(store)?;
                op.stat();
                op.begin(&self.pool, &self.name(piece)).map_err(store)
            };
            let begun: Vec<Reading> = (first..first + AT_ONCE).map(begin).collect::<Result<_>>()?;
            for reading in begun {
                match reading.wait().and_then(|brought| brought.stat(0)) {
                    Ok(stat) => lens.push(stat.len),
                    Err(Error::NotFound { .. }) => return Ok(lens),
                    Err(error) => return Err(store(error)),
                }
            }
        }
    }

    fn len(&self) -> Result<u64> {
        Ok(self.lens()?.iter().sum())
    }

    /// Nobody of an earlier epoch writes anything more. The piece behind the last one is made for that: else it could still be begun.
    fn claim(&self, slot: &Slot) -> Result<()> {
        loop {
            let lens = self.lens()?;
            let count = lens.len() as u64;
            // From that on in which it ends; there may be empty ones behind it, made by those who owned it before.
            let first = (lens.iter().sum::<u64>() / PIECE).saturating_sub(1);
            for piece in first..=count {
                claim(&self.pool, &self.name(piece), slot, None)?;
            }
            // Unless it was begun, and the next one, too, before this was done.
            if self.lens()?.len() as u64 == count + 1 {
                return Ok(());
            }
        }
    }

    /// Removes some, the last ones first.
    fn remove(&self, pieces: std::ops::Range<u64>) -> Result<()> {
        let mut end = pieces.end;
        while end > pieces.start {
            let first = end.saturating_sub(AT_ONCE).max(pieces.start);
            let begin = |piece: u64| {
                let mut op = WriteOp::new().map_err(store)?;
                op.remove();
                op.begin(&self.pool, &self.name(piece)).map_err(store)
            };
            let begun: Vec<_> = (first..end).rev().map(begin).collect::<Result<_>>()?;
            for pending in begun {
                match pending.wait() {
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(store(error)),
                }
            }
            end = first;
        }
        Ok(())
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
        let segments = self.segments()?.into_iter().filter(|(_, state)| *state == THERE);
        segments.map(|(id, _)| Ok(Segment { id, len: self.segment(id).len()? })).collect()
    }

    fn create(&self, id: u64) -> Result<Box<dyn LogFile>> {
        let slot = self.own()?;
        let (key, segment) = (key_of(id), self.segment(id));
        if !self.change(slot, |op| _ = op.assert_omap(&key, b"").omap_set([(key.as_slice(), [THERE].as_slice())]))? {
            return Err(StoreError::Io {
                what: format!("object {}", segment.name(0)),
                cause: "it exists already".into(),
            });
        }
        claim(&self.pool, &segment.name(0), slot, None)?;
        Ok(Box::new(RadosFile::new(segment, slot.clone(), 0, 1)))
    }

    fn open(&self, id: u64) -> Result<Box<dyn LogReader>> {
        Ok(Box::new(RadosReader { segment: self.listed(id)? }))
    }

    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>> {
        let slot = self.own()?;
        let segment = self.listed(id)?;
        segment.claim(slot)?;
        let lens = segment.lens()?;
        Ok(Box::new(RadosFile::new(segment, slot.clone(), lens.iter().sum(), lens.len() as u64)))
    }

    fn truncate(&self, id: u64, len: u64) -> Result<()> {
        let slot = self.own()?;
        let segment = self.listed(id)?;
        segment.claim(slot)?;
        let lens = segment.lens()?;
        for (piece, there) in (len / PIECE..).zip(lens.iter().skip((len / PIECE) as usize)) {
            // Emptied and not removed: another one could make them again.
            let stays = if piece == len / PIECE { len % PIECE } else { 0 };
            if *there > stays {
                claim(&self.pool, &segment.name(piece), slot, None)?;
                let mut op = WriteOp::new().map_err(store)?;
                op.assert_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?.truncate(stays);
                written(op.run(&self.pool, &segment.name(piece)), slot)?;
            }
        }
        Ok(())
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

/// Result of a conditional write.
fn written(done: loligo_rados::Result<u64>, slot: &Slot) -> Result<()> {
    match done {
        Ok(_) => Ok(()),
        Err(Error::Changed { .. }) => Err(fenced(&slot.name)),
        Err(error) => Err(store(error)),
    }
}

/// Writes of a segment under way.
#[derive(Default)]
struct Flight {
    /// Writes that have not landed.
    writes: usize,
    /// The piece that they are to.
    piece: u64,
    /// Pieces below this are known to be there, and to be this epoch's.
    made: u64,
    /// Writes that wait until all of a piece has landed: offset, bytes, and who is told.
    waiting: VecDeque<(u64, Vec<u8>, Option<Landed>)>,
    failed: Option<StoreError>,
}

/// A segment that is written, shared with the calls that tell when writes have landed.
struct Tail {
    segment: Pieces,
    slot: Arc<Slot>,
    flight: Mutex<Flight>,
    landed: Condvar,
}

impl Tail {
    fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write within a piece.
    fn begin(self: &Arc<Tail>, flight: &mut Flight, at: u64, bytes: &[u8], then: Option<Landed>) -> Result<()> {
        let piece = at / PIECE;
        let mut op = WriteOp::new().map_err(store)?;
        let (name, epoch) = (self.slot.xattr(), self.slot.epoch.to_le_bytes());
        if piece < flight.made {
            op.assert_xattr(&name, &epoch).map_err(store)?;
        } else {
            // Another one's, if it is there: who takes over makes the piece behind the last one.
            op.create_exclusive().set_xattr(&name, &epoch).map_err(store)?;
        }
        op.write(at % PIECE, bytes);
        let tail = self.clone();
        op.begin_then(&self.segment.pool, &self.segment.name(piece), move |done| tail.ended(done, then))
            .map_err(store)?;
        flight.writes += 1;
        flight.piece = piece;
        flight.made = flight.made.max(piece + 1);
        Ok(())
    }

    /// A write has landed, or never will.
    fn ended(self: &Arc<Tail>, done: loligo_rados::Result<u64>, then: Option<Landed>) {
        let mut flight = self.lock();
        flight.writes -= 1;
        if let Err(error) = written(done, &self.slot) {
            // Nothing behind it counts, either.
            flight.failed.get_or_insert(error);
        }
        let mut told: Vec<Landed> = then.into_iter().collect();
        while flight.failed.is_none()
            && let Some((at, bytes, then)) = flight.waiting.pop_front()
        {
            if flight.writes > 0 && flight.piece != at / PIECE {
                flight.waiting.push_front((at, bytes, then));
                break;
            }
            if let Err(error) = self.begin(&mut flight, at, &bytes, then) {
                flight.failed = Some(error);
            }
        }
        if flight.failed.is_some() {
            told.extend(flight.waiting.drain(..).filter_map(|(_, _, then)| then));
        }
        let failed = flight.failed.clone();
        drop(flight);
        self.landed.notify_all();
        for then in told {
            then(failed.clone().map_or(Ok(()), Err));
        }
    }
}

struct RadosFile {
    tail: Arc<Tail>,
    len: u64,
}

impl RadosFile {
    /// `made`: so many of its pieces are there; that in which it ends, and those behind, are this epoch's.
    fn new(segment: Pieces, slot: Arc<Slot>, len: u64, made: u64) -> RadosFile {
        let flight = Flight { made, ..Flight::default() };
        RadosFile { tail: Arc::new(Tail { segment, slot, flight: Mutex::new(flight), landed: Condvar::new() }), len }
    }

    /// Without somebody to tell it waits until all is at least begun, so that whoever reads then finds it.
    fn write(&mut self, mut bytes: &[u8], mut then: Option<Landed>) -> Result<()> {
        let tail = self.tail.clone();
        let waits = then.is_none();
        let mut flight = tail.lock();
        loop {
            let piece = self.len / PIECE;
            let must_wait = |flight: &Flight| !flight.waiting.is_empty() || flight.writes > 0 && flight.piece != piece;
            if waits {
                let blocked = |flight: &mut Flight| must_wait(flight) && flight.failed.is_none();
                flight = tail.landed.wait_while(flight, blocked).unwrap_or_else(PoisonError::into_inner);
            }
            if let Some(error) = &flight.failed {
                return Err(error.clone());
            }
            let (now, later) = bytes.split_at(bytes.len().min((PIECE - self.len % PIECE) as usize));
            let then = if later.is_empty() { then.take() } else { None };
            if must_wait(&flight) {
                flight.waiting.push_back((self.len, now.to_vec(), then));
            } else if let Err(error) = tail.begin(&mut flight, self.len, now, then) {
                // What was begun of it before may be there.
                flight.failed = Some(error.clone());
                return Err(error);
            }
            self.len += now.len() as u64;
            bytes = later;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }
}

impl LogFile for RadosFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.write(bytes, None) }
    }

    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.append(&parts.concat())
    }

    fn append_then(&mut self, bytes: &[u8], landed: Landed) -> Result<()> {
        self.write(bytes, Some(landed))
    }

    fn sync(&mut self) -> Result<()> {
        let flight = self.tail.lock();
        let flies = |flight: &mut Flight| flight.writes > 0 || !flight.waiting.is_empty() && flight.failed.is_none();
        let flight = self.tail.landed.wait_while(flight, flies).unwrap_or_else(PoisonError::into_inner);
        flight.failed.clone().map_or(Ok(()), Err)
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
    segment: Pieces,
}

impl LogReader for RadosReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            let at = offset + read as u64;
            let want = (buf.len() - read).min((PIECE - at % PIECE) as usize);
            let mut op = ReadOp::new().map_err(store)?;
            let step = op.read(at % PIECE, want);
            let brought = match op.run(&self.segment.pool, &self.segment.name(at / PIECE)) {
                Ok(brought) => brought,
                Err(Error::NotFound { .. }) => break,
                Err(error) => return Err(store(error)),
            };
            let data = brought.data(step).map_err(store)?;
            buf[read..read + data.len()].copy_from_slice(data);
            read += data.len();
            if data.len() < want {
                break;
            }
        }
        Ok(read)
    }

    fn len(&self) -> Result<u64> {
        self.segment.len()
    }
}
