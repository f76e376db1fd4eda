//! Files of which the owner of a decoupled subtree has one version and all others another one: both change theirs. The file's objects are the
//! owner's. The others' version is what was copied (`frozen.rs`), which they change, and what the owner has not changed of the file as it
//! was when it was forked. Here changes by others, the length at the fork, and what becomes of the others' version when the
//! two meet. Not here: whose version counts in the end.
//!
//! Behind the length at the fork the file's objects are the owner's alone: others see zeros there, unless the copy has something. After
//! a restart nobody remembers that length, so an object of the copy says it, which is durable before anybody changes anything.
//! Where there is none, nobody had changed anything when that was forgotten: then every object is copied before it is changed, however
//! far behind the end, and there is no length.

use loligo_store::{Blobs, ObjectId, Result};
use loligo_types::{DataAnswer, Ino};

use crate::execute::{Durable, Effect, EffectResult, execute, sync};
use crate::frozen::{LENGTH, MARK, View, copy_object, data_of, is_copied, keep};

/// Bytes of the object that says a length: a version, three zeros, the size of objects, the length, and the length with all bits turned.
const LENGTH_BYTES: usize = 24;
const VERSION: u8 = 1;

/// Why an object of a copy counts: the byte in its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// It is as it was when the file was forked.
    Owner = 1,
    /// Others may have changed it.
    Others = 2,
}

impl By {
    /// True if an object's mark says so already.
    pub(crate) fn is_marked(self, blobs: &dyn Blobs, copy: Ino, index: u64) -> Result<bool> {
        Ok(match self {
            By::Owner => is_copied(blobs, copy, index)?,
            By::Others => is_changed(blobs, copy, index)?,
        })
    }
}

/// True if others may have changed an object of the copy.
fn is_changed(blobs: &dyn Blobs, copy: Ino, index: u64) -> Result<bool> {
    let mut byte = [0];
    let id = ObjectId::new(copy.0, index | MARK);
    Ok(blobs.len(id)?.is_some() && blobs.read_at(id, 0, &mut byte)? == 1 && byte[0] == By::Others as u8)
}

/// The size of objects and the length of the file when it was forked, if that was put down.
pub(crate) fn length(blobs: &dyn Blobs, copy: Ino) -> Result<Option<(u64, u64)>> {
    let (id, mut bytes) = (ObjectId::new(copy.0, LENGTH), [0; LENGTH_BYTES]);
    if blobs.len(id)? != Some(LENGTH_BYTES as u64) || blobs.read_at(id, 0, &mut bytes)? != LENGTH_BYTES {
        return Ok(None);
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let object_size = u64::from(u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes")));
    // One that a crash has cut off was not durable: nobody had changed anything.
    let is_whole = bytes[..4] == [VERSION, 0, 0, 0] && number(8) == !number(16) && object_size > 0;
    Ok(is_whole.then(|| (object_size, number(8))))
}

/// The length of the file when it was forked, put down before the first change.
pub(crate) fn begin(blobs: &dyn Blobs, copy: Ino, object_size: u64, size: u64) -> Result<u64> {
    if let Some((_, known)) = length(blobs, copy)? {
        return Ok(known);
    }
    if size < u64::MAX {
        let mut bytes = [0; LENGTH_BYTES];
        bytes[0] = VERSION;
        bytes[4..8].copy_from_slice(&(object_size as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&size.to_le_bytes());
        bytes[16..].copy_from_slice(&(!size).to_le_bytes());
        blobs.write_at(ObjectId::new(copy.0, LENGTH), 0, &bytes)?;
        blobs.sync_many(copy.0, &[LENGTH])?;
    }
    Ok(size)
}

/// The others' version of a file.
pub(crate) fn theirs(blobs: &dyn Blobs, ino: Ino, copy: Ino, size: u64) -> Result<View> {
    let own = if size < u64::MAX { size } else { length(blobs, copy)?.map_or(u64::MAX, |(_, known)| known) };
    Ok(View { ino, copy: Some(copy), own })
}

/// Carries out a change by others, on the copy.
pub(crate) fn change(blobs: &dyn Blobs, copy: Ino, size: u64, effect: &Effect) -> EffectResult {
    match effect {
        Effect::Write { ino, object_size, offset, data } if !data.is_empty() => {
            let was = begin(blobs, copy, *object_size, size)?;
            let last = (offset + data.len() as u64 - 1) / object_size;
            keep(blobs, (*ino, copy), *object_size, was, offset / object_size..=last, By::Others)?;
            let (object_size, offset, data) = (*object_size, *offset, data.clone());
            execute(blobs, &Effect::Write { ino: copy, object_size, offset, data })
        }
        Effect::Punch { ino, object_size, offset, len } if *len > 0 => {
            let was = begin(blobs, copy, *object_size, size)?;
            let range = offset / object_size..=(offset + len - 1) / object_size;
            let there = there(blobs, (*ino, copy), *object_size, was)?.into_iter().filter(|at| range.contains(at));
            keep(blobs, (*ino, copy), *object_size, was, there, By::Others)?;
            let (object_size, offset, len) = (*object_size, *offset, *len);
            execute(blobs, &Effect::Punch { ino: copy, object_size, offset, len })
        }
        Effect::Discard { ino, object_size, from, durable } => {
            let was = begin(blobs, copy, *object_size, size)?;
            let dropped = discard(blobs, (*ino, copy), *object_size, was, *from)?;
            if *durable == Durable::Now || (*durable == Durable::IfDropped && dropped) {
                let cut = from / object_size;
                return sync(blobs, copy, &[(cut, cut)], true);
            }
            Ok(DataAnswer::Done)
        }
        Effect::Spill { ino, object_size, data } => {
            let was = begin(blobs, copy, *object_size, size)?;
            discard(blobs, (*ino, copy), *object_size, was, 0)?;
            let last = (data.len() as u64).saturating_sub(1) / object_size;
            keep(blobs, (*ino, copy), *object_size, 0, 0..=last, By::Others)?;
            let (object_size, data) = (*object_size, data.clone());
            execute(blobs, &Effect::Write { ino: copy, object_size, offset: 0, data })?;
            sync(blobs, copy, &[(0, last)], true)
        }
        Effect::Write { .. } | Effect::Punch { .. } => Ok(DataAnswer::Done),
        effect => execute(blobs, effect),
    }
}

/// Objects of the others' version, and what may become one of them.
fn there(blobs: &dyn Blobs, (ino, copy): (Ino, Ino), object_size: u64, was: u64) -> Result<Vec<u64>> {
    let own = blobs.objects_of(ino.0)?.into_iter().filter(|index| index.saturating_mul(object_size) < was);
    Ok(own.chain(data_of(blobs, copy)?).collect::<std::collections::BTreeSet<u64>>().into_iter().collect())
}

/// Drops the others' bytes from an offset on. True if there was something to drop.
fn discard(blobs: &dyn Blobs, (ino, copy): (Ino, Ino), object_size: u64, was: u64, from: u64) -> Result<bool> {
    let (first, within) = (from / object_size, from % object_size);
    let all = there(blobs, (ino, copy), object_size, was)?.into_iter().filter(|index| *index >= first);
    let (cut, behind): (Vec<u64>, Vec<u64>) = all.partition(|index| *index == first && within > 0);
    // Of what goes as a whole nothing is copied.
    keep(blobs, (ino, copy), object_size, was, cut.iter().copied(), By::Others)?;
    keep(blobs, (ino, copy), object_size, 0, behind.iter().copied(), By::Others)?;
    let mut dropped = false;
    for index in cut {
        let id = ObjectId::new(copy.0, index);
        if blobs.len(id)?.is_some_and(|len| len > within) {
            blobs.truncate(id, within)?;
            dropped = true;
        }
    }
    for index in behind {
        blobs.delete(ObjectId::new(copy.0, index))?;
        dropped = true;
    }
    Ok(dropped)
}

/// Makes the first `len` bytes of the others' version those of another file, durably. A file that is its own copy has one version.
pub(crate) fn keep_theirs(
    blobs: &dyn Blobs,
    (ino, copy, size): (Ino, Ino, u64),
    object_size: u64,
    (to, len): (Ino, u64),
) -> EffectResult {
    let view = if copy == ino { View { ino, copy: None, own: u64::MAX } } else { theirs(blobs, ino, copy, size)? };
    // What an attempt before it has left.
    blobs.delete_all(to.0)?;
    let mut indexes = Vec::new();
    for index in view.indexes(blobs)? {
        let (from, counts) = view.object(blobs, object_size, index)?;
        let len = object_size.min(counts).min(len.saturating_sub(index.saturating_mul(object_size)));
        if len > 0 && copy_object(blobs, from, ObjectId::new(to.0, index), len)? {
            indexes.push(index);
        }
    }
    blobs.sync_many(to.0, &indexes)?;
    blobs.sync_removals(to.0)?;
    Ok(DataAnswer::Done)
}

/// The length of the file when it was forked (of an unknown one the largest number); none: others may have changed its bytes since.
pub(crate) fn look(blobs: &dyn Blobs, copy: Ino) -> EffectResult {
    let marks = blobs.objects_of(copy.0)?.into_iter().filter(|index| index & MARK != 0);
    for mark in marks {
        if is_changed(blobs, copy, mark & !MARK)? {
            return Ok(DataAnswer::Offset(None));
        }
    }
    Ok(DataAnswer::Offset(Some(length(blobs, copy)?.map_or(u64::MAX, |(_, size)| size))))
}
