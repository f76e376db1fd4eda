//! Objects of the memory backend: pages old and new.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::disk::{Ctx, State};
use loligo_types::Random;

use super::fault::{CrashPlan, FaultPoint, Keep};
use crate::{BLOCK_SIZE, Blobs, Extent, ObjectId, Result, check_range};

const PAGE: usize = BLOCK_SIZE as usize;
const SECTOR: usize = 512;

type Page = Arc<[u8; PAGE]>;

/// Content of an object; an absent page is a hole.
#[derive(Clone, Default)]
struct Content {
    len: u64,
    pages: BTreeMap<u64, Page>,
}

/// An object: what reads see, and what a crash falls back to.
#[derive(Default)]
pub(crate) struct ObjectDisk {
    current: Option<Content>,
    durable: Option<Content>,
    /// It was deleted (and perhaps made again) since `durable`.
    removed: bool,
}

impl ObjectDisk {
    pub(crate) fn sync(&mut self) {
        self.durable = self.current.clone();
        self.removed = false;
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.current.is_none() && self.durable.is_none()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, Content::bytes)
    }

    pub(crate) fn crash(&mut self, plan: &CrashPlan, rng: &mut Random) {
        self.current = match plan.keep {
            Keep::All => self.current.take(),
            Keep::Nothing => self.durable.take(),
            Keep::Some => mix(self.durable.take(), self.current.take(), rng),
        };
        self.durable = self.current.clone();
        self.removed = false;
    }
}

/// Content of an object after a crash: each sector of it old or new.
fn mix(old: Option<Content>, new: Option<Content>, rng: &mut Random) -> Option<Content> {
    let (Some(old), Some(new)) = (&old, &new) else {
        return if rng.below(2) == 0 { old } else { new };
    };
    let len = if rng.below(2) == 0 { old.len } else { new.len };
    let mut mixed = Content { len: u64::MAX, pages: BTreeMap::new() };
    for page in old.pages.keys().chain(new.pages.keys()) {
        if mixed.pages.contains_key(page) {
            continue;
        }
        let mut bytes = [0; PAGE];
        for at in (0..PAGE).step_by(SECTOR) {
            let from = if rng.below(2) == 0 { old.pages.get(page) } else { new.pages.get(page) };
            if let Some(from) = from {
                bytes[at..at + SECTOR].copy_from_slice(&from[at..at + SECTOR]);
            }
        }
        mixed.pages.insert(*page, Arc::new(bytes));
    }
    mixed.set_len(len);
    Some(mixed)
}

impl Content {
    fn bytes(&self) -> u64 {
        self.pages.len() as u64 * BLOCK_SIZE
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let n = buf.len().min(self.len.saturating_sub(offset) as usize);
        buf[..n].fill(0);
        for (page, within, at, len) in pieces(offset, n) {
            if let Some(bytes) = self.pages.get(&page) {
                buf[at..at + len].copy_from_slice(&bytes[within..within + len]);
            }
        }
        n
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for (page, within, at, len) in pieces(offset, data.len()) {
            let bytes = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[within..within + len].copy_from_slice(&data[at..at + len]);
        }
        self.len = self.len.max(offset + data.len() as u64);
    }

    fn set_len(&mut self, len: u64) {
        self.pages.split_off(&len.div_ceil(BLOCK_SIZE));
        let tail = (len % BLOCK_SIZE) as usize;
        if tail != 0
            && let Some(bytes) = self.pages.get_mut(&(len / BLOCK_SIZE))
        {
            Arc::make_mut(bytes)[tail..].fill(0);
        }
        self.len = len;
    }

    fn punch(&mut self, offset: u64, len: u64) {
        let len = len.min(self.len.saturating_sub(offset)) as usize;
        let at_end = offset + len as u64 == self.len;
        for (page, within, _, len) in pieces(offset, len) {
            let last = at_end && page == self.len / BLOCK_SIZE;
            if within == 0 && (len == PAGE || last) {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                Arc::make_mut(bytes)[within..within + len].fill(0);
            }
        }
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let end = (offset + len).min(self.len);
        let mut out: Vec<Extent> = Vec::new();
        if offset >= end {
            return out;
        }
        for page in self.pages.range(offset / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE)).map(|(page, _)| *page) {
            let from = (page * BLOCK_SIZE).max(offset);
            let to = ((page + 1) * BLOCK_SIZE).min(end);
            match out.last_mut() {
                Some(last) if last.end() == from => last.len += to - from,
                _ => out.push(Extent { offset: from, len: to - from }),
            }
        }
        out
    }
}

/// Splits a range into (page, offset in the page, offset in the range, length).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let here = offset + at as u64;
        let within = (here % BLOCK_SIZE) as usize;
        let n = (PAGE - within).min(len - at);
        let piece = (here / BLOCK_SIZE, within, at, n);
        at += n;
        Some(piece)
    })
}

pub(crate) struct MemBlobs {
    pub(crate) ctx: Arc<Ctx>,
}

impl MemBlobs {
    fn read<R>(&self, id: ObjectId, f: impl FnOnce(&Content) -> R) -> Result<Option<R>> {
        self.ctx.with(|state| Ok(state.blobs.get(&id).and_then(|o| o.current.as_ref()).map(f)))
    }

    /// Changes an object; `grow` is an upper bound of the pages it may gain.
    fn change(&self, id: ObjectId, make: bool, grow: Grow, f: impl FnOnce(&mut Content)) -> Result<()> {
        self.ctx.with(|state| {
            let what = id.to_string();
            state.arrive(FaultPoint::BlobWrite, &what)?;
            match grow {
                Grow::Not | Grow::By(0) | Grow::Logged(0) => {}
                Grow::By(bytes) => state.room(bytes, &what)?,
                Grow::Logged(bytes) => state.room_in_reserve(bytes, &what)?,
            }
            let exists = state.blobs.get(&id).is_some_and(|o| o.current.is_some());
            if !exists && !make {
                return Ok(());
            }
            let content = state.blobs.entry(id).or_default().current.get_or_insert_default();
            let before = content.bytes();
            f(content);
            state.used = state.used + content.bytes() - before;
            Ok(())
        })
    }
}

/// Bytes that a change takes.
enum Grow {
    Not,
    By(u64),
    /// They may be of the reserve.
    Logged(u64),
}

fn new_bytes(state: &State, id: ObjectId, offset: u64, len: usize) -> u64 {
    let content = state.blobs.get(&id).and_then(|o| o.current.as_ref());
    let fresh = |page: &u64| content.is_none_or(|c| !c.pages.contains_key(page));
    pieces(offset, len).map(|piece| piece.0).filter(fresh).count() as u64 * BLOCK_SIZE
}

impl Blobs for MemBlobs {
    fn read_at(&self, id: ObjectId, offset: u64, buf: &mut [u8]) -> Result<usize> {
        check_range(id, offset, buf.len() as u64)?;
        self.ctx.with(|state| state.arrive(FaultPoint::BlobRead, &id.to_string()))?;
        Ok(self.read(id, |content| content.read(offset, buf))?.unwrap_or(0))
    }

    fn write_at(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        let grow = self.ctx.with(|state| Ok(new_bytes(state, id, offset, data.len())))?;
        self.change(id, true, Grow::By(grow), |content| content.write(offset, data))
    }

    fn write_logged(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        let grow = self.ctx.with(|state| Ok(new_bytes(state, id, offset, data.len())))?;
        self.change(id, true, Grow::Logged(grow), |content| content.write(offset, data))
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<()> {
        check_range(id, 0, len)?;
        self.change(id, len > 0, Grow::Not, |content| content.set_len(len))
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        check_range(id, offset, len)?;
        self.change(id, false, Grow::Not, |content| content.punch(offset, len))
    }

    fn sync(&self, id: ObjectId) -> Result<()> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::BlobSync, &id.to_string())?;
            if let Some(object) = state.blobs.get_mut(&id).filter(|o| o.current.is_some()) {
                object.sync();
            }
            Ok(())
        })
    }

    fn sync_removals(&self, ino: u64) -> Result<()> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::BlobSync, "the directory of objects")?;
            // One that was made again under its name is a new one: what the old one held does not come back.
            let removed = state.blobs.iter_mut().filter(|(id, object)| id.ino == ino && object.removed);
            removed.for_each(|(_, object)| (object.durable, object.removed) = (None, false));
            state.blobs.retain(|_, object| !object.is_gone());
            Ok(())
        })
    }

    fn sync_all(&self) -> Result<()> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::BlobSync, "the directory of objects")?;
            state.blobs.values_mut().for_each(ObjectDisk::sync);
            state.blobs.retain(|_, object| !object.is_gone());
            Ok(())
        })
    }

    fn delete(&self, id: ObjectId) -> Result<()> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::BlobWrite, &id.to_string())?;
            if let Some(object) = state.blobs.get_mut(&id) {
                state.used -= object.bytes();
                (object.current, object.removed) = (None, true);
                if object.is_gone() {
                    state.blobs.remove(&id);
                }
            }
            Ok(())
        })
    }

    fn len(&self, id: ObjectId) -> Result<Option<u64>> {
        self.read(id, |content| content.len)
    }

    fn extents(&self, id: ObjectId, offset: u64, len: u64) -> Result<Vec<Extent>> {
        check_range(id, offset, len)?;
        Ok(self.read(id, |content| content.extents(offset, len))?.unwrap_or_default())
    }

    fn objects_of(&self, ino: u64) -> Result<Vec<u64>> {
        self.ctx.with(|state| {
            let all = state.blobs.range(ObjectId::new(ino, 0)..=ObjectId::new(ino, u64::MAX));
            Ok(all.filter(|(_, o)| o.current.is_some()).map(|(id, _)| id.index).collect())
        })
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, u64) -> ControlFlow<()>) -> Result<()> {
        let all: Vec<(ObjectId, u64)> = self.ctx.with(|state| {
            Ok(state.blobs.iter().filter_map(|(id, o)| o.current.as_ref().map(|c| (*id, c.len))).collect())
        })?;
        for (id, len) in all {
            if visit(id, len).is_break() {
                break;
            }
        }
        Ok(())
    }
}
