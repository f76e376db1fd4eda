//! Files that one session changes while all others read them as they were: before an object is changed for the first time, a copy of it is
//! made under another inode number, and others read the copy. Here which files, and what that means on objects. Not here: when a file
//! is to be read as it is again, which the metadata server says.
//!
//! An object of the copy counts when its mark is there: an object of one byte, whose index has [`MARK`] set. It is made when the copy is
//! durable, and is durable before the file's object is changed. So a crash at any time leaves either the old object, or a whole copy. A mark
//! without a copy says that the file had no such object.

use std::collections::{BTreeMap, BTreeSet};

use loligo_store::{Blobs, ObjectId, Result};
use loligo_types::{DataAnswer, Ino, SessionId};

use crate::execute::{Effect, EffectResult, execute};

/// Set in the index of a mark. No file has an object with such an index.
pub(crate) const MARK: u64 = 1 << 62;
/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// A file that others read as it was.
#[derive(Debug, Clone, Copy)]
struct Frozen {
    /// The number of the objects that hold the copy.
    copy: Ino,
    /// Bytes that it had: what lies behind them nobody reads, and it is not copied.
    size: u64,
    /// The session that changes it.
    owner: SessionId,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct AllFrozen {
    files: BTreeMap<Ino, Frozen>,
    /// The files of copies, until the copies are dropped.
    of_copy: BTreeMap<Ino, Ino>,
}

impl AllFrozen {
    pub(crate) fn freeze(&mut self, file: Ino, copy: Ino, size: u64, owner: SessionId) {
        self.files.insert(file, Frozen { copy, size, owner });
        self.of_copy.insert(copy, file);
    }

    pub(crate) fn thaw(&mut self, file: Ino) {
        self.files.remove(&file);
    }

    /// The file in whose order the objects of this number are dropped: a read of the copy may be under way.
    pub(crate) fn file_of(&self, ino: Ino) -> Ino {
        self.of_copy.get(&ino).copied().unwrap_or(ino)
    }

    /// The objects of this number are dropped.
    pub(crate) fn dropped(&mut self, ino: Ino) {
        self.of_copy.remove(&ino);
    }

    /// Maps an effect that a session requests to the effect to run: others read the copy of a frozen file; a change below `size` copies
    /// first.
    pub(crate) fn as_asked(&self, session: SessionId, ino: Ino, effect: Effect) -> Effect {
        let Some(Frozen { copy, size, owner }) = self.files.get(&ino).copied() else { return effect };
        match &effect {
            Effect::Read { .. } | Effect::Seek { .. } if session != owner => {
                Effect::AsItWas { copy, size, effect: Box::new(effect) }
            }
            Effect::Write { offset, .. } | Effect::Punch { offset, .. } | Effect::Discard { from: offset, .. }
                if *offset < size =>
            {
                Effect::Copying { copy, size, effect: Box::new(effect) }
            }
            _ => effect,
        }
    }
}

/// The objects in which a file's bytes are looked for.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) ino: Ino,
    /// Those of this number first, where they count.
    pub(crate) copy: Option<Ino>,
}

impl View {
    /// The file as it is.
    pub(crate) fn of(ino: Ino) -> View {
        View { ino, copy: None }
    }

    /// The object that has a piece.
    pub(crate) fn object(&self, blobs: &dyn Blobs, index: u64) -> Result<ObjectId> {
        match self.copy {
            Some(copy) if is_copied(blobs, copy, index)? => Ok(ObjectId::new(copy.0, index)),
            _ => Ok(ObjectId::new(self.ino.0, index)),
        }
    }

    /// The indexes of objects that there may be, ascending.
    pub(crate) fn indexes(&self, blobs: &dyn Blobs) -> Result<Vec<u64>> {
        let mut all = blobs.objects_of(self.ino.0)?;
        if let Some(copy) = self.copy {
            let copied = blobs.objects_of(copy.0)?.into_iter().filter(|index| index & MARK == 0);
            all = all.into_iter().chain(copied).collect::<BTreeSet<u64>>().into_iter().collect();
        }
        Ok(all)
    }
}

fn is_copied(blobs: &dyn Blobs, copy: Ino, index: u64) -> Result<bool> {
    Ok(blobs.len(ObjectId::new(copy.0, index | MARK))?.is_some())
}

/// Carries out a change, after what it changes is copied.
pub(crate) fn change(blobs: &dyn Blobs, copy: Ino, size: u64, effect: &Effect) -> EffectResult {
    match effect {
        Effect::Write { ino, object_size, offset, data } if !data.is_empty() => {
            let last = (offset + data.len() as u64 - 1) / object_size;
            keep(blobs, (*ino, copy), *object_size, size, offset / object_size..=last)?;
        }
        // What is not there stays so.
        Effect::Punch { ino, object_size, offset, len } if *len > 0 => {
            let range = offset / object_size..=(offset + len - 1) / object_size;
            let there = blobs.objects_of(ino.0)?.into_iter().filter(|index| range.contains(index));
            keep(blobs, (*ino, copy), *object_size, size, there)?;
        }
        Effect::Discard { ino, object_size, from, .. } => {
            let there = blobs.objects_of(ino.0)?.into_iter().filter(|index| *index >= from / object_size);
            keep(blobs, (*ino, copy), *object_size, size, there)?;
        }
        _ => {}
    }
    execute(blobs, effect)
}

/// Copies objects that are not copied yet, durably.
fn keep(
    blobs: &dyn Blobs,
    (ino, copy): (Ino, Ino),
    object_size: u64,
    size: u64,
    indexes: impl IntoIterator<Item = u64>,
) -> Result<()> {
    let (mut copied, mut marks) = (Vec::new(), Vec::new());
    for index in indexes.into_iter().filter(|index| index.saturating_mul(object_size) < size) {
        if is_copied(blobs, copy, index)? {
            continue;
        }
        let len = object_size.min(size - index * object_size);
        if copy_object(blobs, ObjectId::new(ino.0, index), ObjectId::new(copy.0, index), len)? {
            copied.push(index);
        }
        marks.push(index | MARK);
    }
    if marks.is_empty() {
        return Ok(());
    }
    blobs.sync_many(copy.0, &copied)?;
    marks.iter().try_for_each(|mark| blobs.write_at(ObjectId::new(copy.0, *mark), 0, &[1]))?;
    blobs.sync_many(copy.0, &marks)
}

/// Copies the data of the first bytes of an object; whether there was some.
fn copy_object(blobs: &dyn Blobs, from: ObjectId, to: ObjectId, len: u64) -> Result<bool> {
    let extents = blobs.extents(from, 0, len)?;
    for extent in &extents {
        let mut at = extent.offset;
        while at < extent.end() {
            let mut bytes = vec![0; CHUNK.min(extent.end() - at) as usize];
            let read = blobs.read_at(from, at, &mut bytes)?;
            blobs.write_at(to, at, &bytes[..read])?;
            at += bytes.len() as u64;
        }
    }
    Ok(!extents.is_empty())
}

/// Puts back what was copied, durably. The copy stays: done again, it comes to the same.
pub(crate) fn restore(blobs: &dyn Blobs, ino: Ino, copy: Ino) -> EffectResult {
    let marks: Vec<u64> = blobs.objects_of(copy.0)?.into_iter().filter(|index| index & MARK != 0).collect();
    let mut indexes = Vec::new();
    for index in marks.iter().map(|mark| mark & !MARK) {
        let (from, to) = (ObjectId::new(copy.0, index), ObjectId::new(ino.0, index));
        blobs.delete(to)?;
        if let Some(len) = blobs.len(from)? {
            copy_object(blobs, from, to, len)?;
            indexes.push(index);
        }
    }
    if !marks.is_empty() {
        blobs.sync_many(ino.0, &indexes)?;
        blobs.sync_removals(ino.0)?;
    }
    Ok(DataAnswer::Done)
}
