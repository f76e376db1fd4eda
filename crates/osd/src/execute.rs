//! Execution of operations on a file's bytes as operations on objects. Blocking; called by a driver's threads and by the simulator. Not
//! order, not rights: effects that reach this may run.

use std::sync::Arc;

use loligo_store::{Blobs, ObjectId, Result, StoreError};
use loligo_types::{DataAnswer, Ino, Patches};

use crate::fork;
use crate::frozen::{self, View};
use crate::patch;

/// A store operation that the machine requests. Offsets are offsets in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Effect {
    /// Exactly `len` bytes; what is not stored is zero.
    Read { ino: Ino, object_size: u64, offset: u64, len: u32 },
    /// Write; not durable.
    Write { ino: Ino, object_size: u64, offset: u64, data: Arc<[u8]> },
    /// Write bytes that the journal has; not durable.
    Patch { ino: Ino, object_size: u64, patches: Arc<Patches> },
    /// Make a range zero and free it; not durable.
    Punch { ino: Ino, object_size: u64, offset: u64, len: u64 },
    /// Drop all bytes from an offset on.
    Discard { ino: Ino, object_size: u64, from: u64, durable: Durable },
    /// The first data (or hole) in `offset..size`.
    Seek { ino: Ino, object_size: u64, offset: u64, size: u64, data: bool },
    /// Drop all bytes, write these from offset 0, durably.
    Spill { ino: Ino, object_size: u64, data: Arc<[u8]> },
    /// Make changes of the objects in these ranges of indexes (ends included) durable, and removals.
    /// `copy`: of this copy, too, where others change the file.
    Sync { ino: Ino, ranges: Vec<(u64, u64)>, removed: bool, copy: Option<Ino> },
    /// Make removals, and changes of the object that was cut, durable for many files at once.
    SyncDiscards { files: Vec<(Ino, u64)> },
    /// Make changes of objects in these ranges of indexes durable, of many files.
    SyncFiles { files: Vec<(Ino, Vec<(u64, u64)>)> },
    /// Make everything durable.
    SyncAll,
    /// Change a file of which others read the first `size` bytes as they were: objects are copied, durably, before they are changed first.
    /// `shared`: others change their version of it, too.
    Copying { copy: Ino, size: u64, shared: bool, effect: Box<Effect> },
    /// Read a file as it was, of so many bytes: what was copied from the copy. `shared`: as others have changed it since.
    AsItWas { copy: Ino, size: u64, shared: bool, effect: Box<Effect> },
    /// Change a file of which the owner of the subtree changes its own version: the change is one of the copy.
    Theirs { copy: Ino, size: u64, effect: Box<Effect> },
    /// Put back what was copied, durably.
    Restore { ino: Ino, copy: Ino },
    /// Make the others' version of a file, of `len` bytes, that of another one, durably.
    KeepTheirs { ino: Ino, copy: Ino, size: u64, object_size: u64, to: Ino, len: u64 },
    /// The length that the file of a copy had, and whether others may have changed it since.
    LookAtFork { copy: Ino },
}

impl Effect {
    /// True if it makes something durable: the disk takes its time for that, and others should not wait behind it.
    pub fn syncs(&self) -> bool {
        match self {
            Effect::Read { .. } | Effect::Seek { .. } | Effect::Write { .. } | Effect::Punch { .. } => false,
            Effect::Patch { .. } => false,
            Effect::SyncFiles { .. } => true,
            Effect::Discard { durable, .. } => *durable != Durable::Later,
            Effect::AsItWas { effect, .. } => effect.syncs(),
            Effect::Spill { .. } | Effect::Sync { .. } | Effect::SyncDiscards { .. } | Effect::SyncAll => true,
            Effect::Copying { .. } | Effect::Theirs { .. } | Effect::Restore { .. } | Effect::KeepTheirs { .. } => true,
            Effect::LookAtFork { .. } => false,
        }
    }
}

/// When what a discard drops must be so durably: it does not come back with a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// Another effect does it.
    Later,
    /// Before it is answered, if there is something to drop.
    IfDropped,
    /// Before it is answered: removals before it may not be durable either.
    Now,
}

/// The result of an effect.
pub type EffectResult = Result<DataAnswer>;

/// Ranges up to this many objects are synced one by one without asking which exist.
const SYNC_BY_INDEX: u64 = 16;

/// With more files than this one sync of everything is cheaper than one of each.
const SYNC_FILES: usize = 64;

/// Carries out `effect`. Blocks.
pub fn execute(blobs: &dyn Blobs, effect: &Effect) -> EffectResult {
    match effect {
        Effect::Read { ino, object_size, offset, len } => {
            read(blobs, View::of(*ino), *object_size, (*offset, *len), u64::MAX)
        }
        Effect::Write { ino, object_size, offset, data } => write(blobs, *ino, *object_size, *offset, data),
        Effect::Patch { ino, object_size, patches } => patch::write(blobs, *ino, *object_size, patches),
        Effect::Punch { ino, object_size, offset, len } => punch(blobs, *ino, *object_size, *offset, *len),
        Effect::Discard { ino, object_size, from, durable } => {
            let dropped = discard(blobs, *ino, *object_size, *from)?;
            if *durable == Durable::Now || (*durable == Durable::IfDropped && dropped) {
                let cut = from / object_size;
                return sync(blobs, *ino, &[(cut, cut)], true);
            }
            Ok(DataAnswer::Done)
        }
        Effect::Seek { ino, object_size, offset, size, data } => {
            seek(blobs, View::of(*ino), *object_size, (*offset, *size), *data)
        }
        Effect::Spill { ino, object_size, data } => spill(blobs, *ino, *object_size, data),
        Effect::Sync { ino, ranges, removed, copy } => {
            if let Some(copy) = copy {
                sync(blobs, *copy, ranges, *removed)?;
            }
            sync(blobs, *ino, ranges, *removed)
        }
        Effect::SyncDiscards { files } => sync_discards(blobs, files),
        Effect::SyncFiles { files } if files.len() > SYNC_FILES => blobs.sync_all().map(|()| DataAnswer::Done),
        Effect::SyncFiles { files } => patch::sync(blobs, files),
        Effect::SyncAll => blobs.sync_all().map(|()| DataAnswer::Done),
        Effect::Copying { copy, size, shared, effect } => frozen::change(blobs, *copy, *size, *shared, effect),
        Effect::AsItWas { copy, size: was, shared, effect } => {
            let (view, end) = match &**effect {
                Effect::Read { ino, .. } | Effect::Seek { ino, .. } if *shared => {
                    (fork::theirs(blobs, *ino, *copy, *was)?, u64::MAX)
                }
                Effect::Read { ino, .. } | Effect::Seek { ino, .. } => {
                    (View { ino: *ino, copy: Some(*copy), own: u64::MAX }, *was)
                }
                effect => return execute(blobs, effect),
            };
            match &**effect {
                Effect::Seek { object_size, offset, size, data, .. } => {
                    seek(blobs, view, *object_size, (*offset, *size.min(&end)), *data)
                }
                Effect::Read { object_size, offset, len, .. } => read(blobs, view, *object_size, (*offset, *len), end),
                effect => execute(blobs, effect),
            }
        }
        Effect::Theirs { copy, size, effect } => fork::change(blobs, *copy, *size, effect),
        Effect::KeepTheirs { ino, copy, size, object_size, to, len } => {
            fork::keep_theirs(blobs, (*ino, *copy, *size), *object_size, (*to, *len))
        }
        Effect::LookAtFork { copy } => fork::look(blobs, *copy),
        Effect::Restore { ino, copy } => frozen::restore(blobs, *ino, *copy),
    }
}

/// A part of a range of a file that lies in one object.
pub(crate) struct Piece {
    pub(crate) id: ObjectId,
    /// Offset in the object.
    pub(crate) within: u64,
    /// Offset in the range.
    pub(crate) at: u64,
    pub(crate) len: u64,
}

pub(crate) fn pieces(ino: Ino, object_size: u64, offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let here = offset + at;
        let within = here % object_size;
        let id = ObjectId::new(ino.0, here / object_size);
        let piece = Piece { id, within, at, len: (object_size - within).min(len - at) };
        at += piece.len;
        Some(piece)
    })
}

/// `size`: behind it all is zeros.
fn read(blobs: &dyn Blobs, view: View, object_size: u64, (offset, len): (u64, u32), size: u64) -> EffectResult {
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, len as usize).collect();
    let buf = Arc::get_mut(&mut bytes).expect("it was just made");
    for piece in pieces(view.ino, object_size, offset, u64::from(len).min(size.saturating_sub(offset))) {
        let (id, counts) = view.object(blobs, object_size, piece.id.index)?;
        let len = piece.len.min(counts.saturating_sub(piece.within));
        if len > 0 {
            blobs.read_at(id, piece.within, &mut buf[piece.at as usize..(piece.at + len) as usize])?;
        }
    }
    Ok(DataAnswer::Bytes(bytes))
}

fn write(blobs: &dyn Blobs, ino: Ino, object_size: u64, offset: u64, data: &[u8]) -> EffectResult {
    for piece in pieces(ino, object_size, offset, data.len() as u64) {
        blobs.write_at(piece.id, piece.within, &data[piece.at as usize..(piece.at + piece.len) as usize])?;
    }
    Ok(DataAnswer::Done)
}

fn punch(blobs: &dyn Blobs, ino: Ino, object_size: u64, offset: u64, len: u64) -> EffectResult {
    if len == 0 {
        return Ok(DataAnswer::Done);
    }
    let end = offset + len;
    let (first, last) = (offset / object_size, (end - 1) / object_size);
    for index in present(blobs, ino, first, last)? {
        let id = ObjectId::new(ino.0, index);
        let start = index * object_size;
        let from = offset.saturating_sub(start);
        let to = (end - start).min(object_size);
        if from == 0 && to == object_size {
            blobs.delete(id)?;
        } else {
            blobs.punch(id, from, to - from)?;
        }
    }
    Ok(DataAnswer::Done)
}

/// Drops the file's bytes from an offset on. True if there was something to drop.
fn discard(blobs: &dyn Blobs, ino: Ino, object_size: u64, from: u64) -> Result<bool> {
    if from == 0 {
        return blobs.delete_all(ino.0);
    }
    let (first, within) = (from / object_size, from % object_size);
    let mut dropped = false;
    for index in blobs.objects_of(ino.0)? {
        let id = ObjectId::new(ino.0, index);
        if index == first && within > 0 {
            if blobs.len(id)?.is_some_and(|len| len > within) {
                blobs.truncate(id, within)?;
                dropped = true;
            }
        } else if index >= first {
            blobs.delete(id)?;
            dropped = true;
        }
    }
    Ok(dropped)
}

fn spill(blobs: &dyn Blobs, ino: Ino, object_size: u64, data: &[u8]) -> EffectResult {
    discard(blobs, ino, object_size, 0)?;
    write(blobs, ino, object_size, 0, data)?;
    let last = (data.len() as u64).saturating_sub(1) / object_size;
    sync(blobs, ino, &[(0, last)], true)
}

fn seek(blobs: &dyn Blobs, view: View, object_size: u64, (offset, size): (u64, u64), data: bool) -> EffectResult {
    match data {
        true => seek_data(blobs, view, object_size, offset, size),
        false => seek_hole(blobs, view, object_size, offset, size),
    }
}

fn seek_data(blobs: &dyn Blobs, view: View, object_size: u64, offset: u64, size: u64) -> EffectResult {
    let first = offset / object_size;
    for index in view.indexes(blobs)?.into_iter().filter(|index| *index >= first) {
        let start = index.saturating_mul(object_size);
        let within = offset.saturating_sub(start);
        let data = view.extents(blobs, object_size, index, (within, object_size - within))?;
        if let Some(extent) = data.first() {
            let place = start.saturating_add(extent.offset);
            return Ok(DataAnswer::Offset((place < size).then_some(place)));
        }
    }
    Ok(DataAnswer::Offset(None))
}

fn seek_hole(blobs: &dyn Blobs, view: View, object_size: u64, offset: u64, size: u64) -> EffectResult {
    if offset >= size {
        return Ok(DataAnswer::Offset(None));
    }
    let mut place = offset;
    while place < size {
        let within = place % object_size;
        let data = view.extents(blobs, object_size, place / object_size, (within, object_size - within))?;
        let Some(extent) = data.first().filter(|extent| extent.offset == within) else { break };
        place += extent.len;
        if extent.end() < object_size {
            break;
        }
    }
    Ok(DataAnswer::Offset(Some(place.min(size))))
}

pub(crate) fn sync(blobs: &dyn Blobs, ino: Ino, ranges: &[(u64, u64)], removed: bool) -> EffectResult {
    for (first, last) in ranges {
        blobs.sync_many(ino.0, &present(blobs, ino, *first, *last)?)?;
    }
    if removed {
        blobs.sync_removals(ino.0)?;
    }
    Ok(DataAnswer::Done)
}

fn sync_discards(blobs: &dyn Blobs, files: &[(Ino, u64)]) -> EffectResult {
    for (ino, cut) in files {
        blobs.sync(ObjectId::new(ino.0, *cut))?;
        blobs.sync_removals(ino.0)?;
    }
    Ok(DataAnswer::Done)
}

/// The indexes in `first..=last` that may exist: all of a short range, else those that do.
pub(crate) fn present(blobs: &dyn Blobs, ino: Ino, first: u64, last: u64) -> Result<Vec<u64>> {
    if last - first < SYNC_BY_INDEX {
        return Ok((first..=last).collect());
    }
    let all = blobs.objects_of(ino.0)?;
    Ok(all.into_iter().filter(|index| (first..=last).contains(index)).collect())
}

/// The word for an error that a client understands; the text is for the server's log.
pub(crate) fn to_data_error(error: &StoreError) -> loligo_types::DataError {
    match error {
        StoreError::Full { .. } => loligo_types::DataError::NoSpace,
        StoreError::Corrupt { .. } => loligo_types::DataError::Corrupt,
        _ => loligo_types::DataError::Io,
    }
}
