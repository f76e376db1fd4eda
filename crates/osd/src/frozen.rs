//! Files that one session changes while all others see them as they were: before an object is changed for the first time, a copy of it is
//! made under another inode number, and others read the copy. Here which files, and what that means on objects. Not here: when a file
//! is to be seen by all as it is again, which the metadata server says; nor files that others change, too, which are `fork.rs`.
//!
//! An object of the copy counts when its mark is there: an object of one byte, whose index has [`MARK`] set. It is made when the copy is
//! durable, and is durable before the file's object is changed. So a crash at any time leaves either the old object, or a whole copy. A mark
//! without a copy says that the file had no such object.

use std::collections::{BTreeMap, BTreeSet};

use loligo_store::{Blobs, Extent, ObjectId, Result};
use loligo_types::{DataAnswer, Ino, SessionId};

use crate::execute::{Effect, EffectResult, execute};
use crate::fork::{self, By};

/// Set in the index of a mark. No file has an object with such an index.
pub(crate) const MARK: u64 = 1 << 62;
/// The index of the object of a copy that says how long the file was. No file has an object with such an index either.
pub(crate) const LENGTH: u64 = 1 << 61;
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
    /// Others change their version of it, too.
    shared: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct AllFrozen {
    files: BTreeMap<Ino, Frozen>,
    /// The files of copies, until the copies are dropped.
    of_copy: BTreeMap<Ino, Ino>,
}

impl AllFrozen {
    /// A file that was frozen before has the length that it had then, if this time nobody knows it.
    pub(crate) fn freeze(&mut self, file: Ino, copy: Ino, size: u64, owner: SessionId, shared: bool) {
        let before = self.files.get(&file).filter(|before| before.copy == copy && size == u64::MAX);
        let size = before.map_or(size, |before| before.size);
        self.files.insert(file, Frozen { copy, size, owner, shared });
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

    /// The copy in which others change a file.
    pub(crate) fn shared(&self, file: Ino) -> Option<Ino> {
        self.files.get(&file).filter(|frozen| frozen.shared).map(|frozen| frozen.copy)
    }

    /// The length that a file had, if it is known.
    pub(crate) fn size(&self, file: Ino) -> u64 {
        self.files.get(&file).map_or(u64::MAX, |frozen| frozen.size)
    }

    /// Maps an effect that a session requests to the effect to run: others read the copy of a frozen file; a change below `size` copies
    /// first. A change of a shared file by others is one of the copy.
    pub(crate) fn as_asked(&self, session: SessionId, ino: Ino, effect: Effect) -> Effect {
        let Some(Frozen { copy, size, owner, shared }) = self.files.get(&ino).copied() else { return effect };
        let is_owner = session == owner;
        match &effect {
            Effect::Read { .. } | Effect::Seek { .. } if !is_owner => {
                Effect::AsItWas { copy, size, shared, effect: Box::new(effect) }
            }
            Effect::Write { .. } | Effect::Punch { .. } | Effect::Discard { .. } if shared && !is_owner => {
                Effect::Theirs { copy, size, effect: Box::new(effect) }
            }
            Effect::Write { offset, .. } | Effect::Punch { offset, .. } | Effect::Discard { from: offset, .. }
                if shared || *offset < size =>
            {
                Effect::Copying { copy, size, shared, effect: Box::new(effect) }
            }
            _ => effect,
        }
    }

    /// The same for the metadata server, in which others have changed the file.
    pub(crate) fn as_told(&self, ino: Ino, effect: Effect) -> Effect {
        match self.shared(ino) {
            Some(copy) => Effect::Theirs { copy, size: self.size(ino), effect: Box::new(effect) },
            None => effect,
        }
    }
}

/// The objects in which a file's bytes are looked for.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) ino: Ino,
    /// Those of this number first, where they count.
    pub(crate) copy: Option<Ino>,
    /// From here on the file's own objects have nothing that is looked for.
    pub(crate) own: u64,
}

impl View {
    /// The file as it is.
    pub(crate) fn of(ino: Ino) -> View {
        View { ino, copy: None, own: u64::MAX }
    }

    /// The object that has a piece, and how many bytes of it count.
    pub(crate) fn object(&self, blobs: &dyn Blobs, object_size: u64, index: u64) -> Result<(ObjectId, u64)> {
        match self.copy {
            Some(copy) if is_copied(blobs, copy, index)? => Ok((ObjectId::new(copy.0, index), u64::MAX)),
            _ => Ok((ObjectId::new(self.ino.0, index), self.own.saturating_sub(index.saturating_mul(object_size)))),
        }
    }

    /// The data in a range of an object.
    pub(crate) fn extents(
        &self,
        blobs: &dyn Blobs,
        object_size: u64,
        index: u64,
        (within, len): (u64, u64),
    ) -> Result<Vec<Extent>> {
        let (id, counts) = self.object(blobs, object_size, index)?;
        let len = len.min(counts.saturating_sub(within));
        if len == 0 { Ok(Vec::new()) } else { blobs.extents(id, within, len) }
    }

    /// The indexes of objects that there may be, ascending.
    pub(crate) fn indexes(&self, blobs: &dyn Blobs) -> Result<Vec<u64>> {
        let mut all = blobs.objects_of(self.ino.0)?;
        if let Some(copy) = self.copy {
            let copied = data_of(blobs, copy)?;
            all = all.into_iter().chain(copied).collect::<BTreeSet<u64>>().into_iter().collect();
        }
        Ok(all)
    }
}

/// The indexes of a copy's objects, without marks and the length.
pub(crate) fn data_of(blobs: &dyn Blobs, copy: Ino) -> Result<Vec<u64>> {
    Ok(blobs.objects_of(copy.0)?.into_iter().filter(|index| index & (MARK | LENGTH) == 0).collect())
}

pub(crate) fn is_copied(blobs: &dyn Blobs, copy: Ino, index: u64) -> Result<bool> {
    Ok(blobs.len(ObjectId::new(copy.0, index | MARK))?.is_some())
}

/// Carries out a change, after what it changes is copied.
pub(crate) fn change(blobs: &dyn Blobs, copy: Ino, size: u64, shared: bool, effect: &Effect) -> EffectResult {
    let size = match (shared, effect) {
        (
            true,
            Effect::Write { object_size, .. } | Effect::Punch { object_size, .. } | Effect::Discard { object_size, .. },
        ) => fork::begin(blobs, copy, *object_size, size)?,
        _ => size,
    };
    let is_below = |index: &u64, object_size: u64| index.saturating_mul(object_size) < size;
    let (ino, object_size, indexes): (Ino, u64, Vec<u64>) = match effect {
        Effect::Write { ino, object_size, offset, data } if !data.is_empty() => {
            let last = (offset + data.len() as u64 - 1) / object_size;
            (*ino, *object_size, (offset / object_size..=last).collect())
        }
        // What is not there stays so.
        Effect::Punch { ino, object_size, offset, len } if *len > 0 => {
            let range = offset / object_size..=(offset + len - 1) / object_size;
            let there = blobs.objects_of(ino.0)?.into_iter().filter(|index| range.contains(index));
            (*ino, *object_size, there.collect())
        }
        Effect::Discard { ino, object_size, from, .. } => {
            let there = blobs.objects_of(ino.0)?.into_iter().filter(|index| *index >= from / object_size);
            (*ino, *object_size, there.collect())
        }
        _ => return execute(blobs, effect),
    };
    let below = indexes.into_iter().filter(|index| is_below(index, object_size));
    keep(blobs, (ino, copy), object_size, size, below, By::Owner)?;
    execute(blobs, effect)
}

/// Copies objects that are not copied yet, durably, each up to the `size` that the file had.
pub(crate) fn keep(
    blobs: &dyn Blobs,
    (ino, copy): (Ino, Ino),
    object_size: u64,
    size: u64,
    indexes: impl IntoIterator<Item = u64>,
    by: By,
) -> Result<()> {
    let (mut copied, mut marks, mut left) = (Vec::new(), Vec::new(), false);
    for index in indexes {
        if by.is_marked(blobs, copy, index)? {
            continue;
        }
        marks.push(index | MARK);
        if is_copied(blobs, copy, index)? {
            continue;
        }
        let len = object_size.min(size.saturating_sub(index.saturating_mul(object_size)));
        let (from, to) = (ObjectId::new(ino.0, index), ObjectId::new(copy.0, index));
        if blobs.len(to)?.is_some() {
            // Of one that a crash has cut off.
            blobs.delete(to)?;
            left = true;
        }
        if len > 0 && copy_object(blobs, from, to, len)? {
            copied.push(index);
        }
    }
    if marks.is_empty() {
        return Ok(());
    }
    blobs.sync_many(copy.0, &copied)?;
    if left {
        blobs.sync_removals(copy.0)?;
    }
    marks.iter().try_for_each(|mark| blobs.write_at(ObjectId::new(copy.0, *mark), 0, &[by as u8]))?;
    blobs.sync_many(copy.0, &marks)
}

/// Copies the data of the first bytes of an object; whether there was some.
pub(crate) fn copy_object(blobs: &dyn Blobs, from: ObjectId, to: ObjectId, len: u64) -> Result<bool> {
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

/// Puts back what was copied, durably. The copy stays: done again, it comes to the same. What the owner has put behind the end of a shared
/// file goes: others may have made that longer since.
pub(crate) fn restore(blobs: &dyn Blobs, ino: Ino, copy: Ino) -> EffectResult {
    let marks: BTreeSet<u64> = blobs.objects_of(copy.0)?.into_iter().filter(|index| index & MARK != 0).collect();
    let (mut indexes, mut changed) = (Vec::new(), !marks.is_empty());
    if let Some((object_size, size)) = fork::length(blobs, copy)? {
        for index in blobs.objects_of(ino.0)?.into_iter().filter(|index| !marks.contains(&(index | MARK))) {
            let (id, counts) = (ObjectId::new(ino.0, index), size.saturating_sub(index.saturating_mul(object_size)));
            if counts == 0 {
                blobs.delete(id)?;
                changed = true;
            } else if blobs.len(id)?.is_some_and(|len| len > counts) {
                blobs.truncate(id, counts)?;
                indexes.push(index);
            }
        }
    }
    for index in marks.iter().map(|mark| mark & !MARK) {
        let (from, to) = (ObjectId::new(copy.0, index), ObjectId::new(ino.0, index));
        blobs.delete(to)?;
        if let Some(len) = blobs.len(from)? {
            copy_object(blobs, from, to, len)?;
            indexes.push(index);
        }
    }
    blobs.sync_many(ino.0, &indexes)?;
    if changed {
        blobs.sync_removals(ino.0)?;
    }
    Ok(DataAnswer::Done)
}
