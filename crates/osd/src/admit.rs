//! Admission of an operation before it is queued: its limits, the right it needs, and its range of bytes and objects. Not order.

use loligo_store::{BLOCK_SIZE, MAX_OBJECT_LEN};
use loligo_types::{DataError, DataOp, Ino, Patches, limits};

use crate::execute::{Durable, Effect};
use crate::io::Access;

/// Bytes that an operation counts at least: it occupies the queue even if it moves no data.
const COST_MIN: u64 = 256;

/// Class of an operation: the way it affects its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Reads a range.
    Read,
    /// Changes a range.
    Write,
    /// Makes earlier changes durable.
    Sync,
}

/// Objects that an operation may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Touches {
    /// First and last index.
    pub(crate) objects: Option<(u64, u64)>,
    /// True if it may remove objects.
    pub(crate) removes: bool,
    /// True if what it has changed is durable when it is done.
    pub(crate) durable: bool,
}

/// Refuses what no file can hold and what is longer than one operation may be.
pub(crate) fn check_limits(object_size: u64, op: &DataOp) -> Result<(), DataError> {
    let sizes = BLOCK_SIZE..=MAX_OBJECT_LEN;
    let fits = |offset: u64, len: usize| {
        len <= limits::DATA_OP_MAX && offset.checked_add(len as u64).is_some_and(|end| end <= limits::FILE_SIZE_MAX)
    };
    let fine = match op {
        DataOp::Read { offset, len } => fits(*offset, *len as usize),
        DataOp::Write { offset, data } => fits(*offset, data.len()),
        DataOp::Punch { offset, .. } | DataOp::Seek { offset, .. } => *offset <= limits::FILE_SIZE_MAX,
        DataOp::Sync | DataOp::Discard { .. } => true,
    };
    let size_fits = sizes.contains(&object_size) && object_size.is_multiple_of(BLOCK_SIZE);
    if fine && size_fits { Ok(()) } else { Err(DataError::TooLarge) }
}

/// The class of a request, as far as it matters for the right to do it.
pub(crate) fn class_asked(op: &DataOp) -> Class {
    match op {
        DataOp::Read { .. } | DataOp::Seek { .. } => Class::Read,
        DataOp::Sync => Class::Sync,
        DataOp::Write { .. } | DataOp::Punch { .. } | DataOp::Discard { .. } => Class::Write,
    }
}

/// Why whoever has this right may not do this; `None`: it may.
pub(crate) fn refusal(access: Access, class: Class) -> Option<DataError> {
    match (access, class) {
        (Access::Write, _) | (Access::Read, Class::Read | Class::Sync) => None,
        (Access::None | Access::Hidden | Access::Read, _) => Some(DataError::Stale),
        (Access::Moving, _) => Some(DataError::Busy),
        (Access::Moved, _) => Some(DataError::Moved),
    }
}

/// The effect of a request within the limits.
pub(crate) fn to_effect(ino: Ino, object_size: u64, op: DataOp) -> Effect {
    match op {
        DataOp::Read { offset, len } => Effect::Read { ino, object_size, offset, len },
        DataOp::Write { offset, data } => Effect::Write { ino, object_size, offset, data },
        DataOp::Sync => Effect::Sync { ino, ranges: Vec::new(), removed: false, copy: None },
        DataOp::Punch { offset, len } => {
            Effect::Punch { ino, object_size, offset, len: len.min(limits::FILE_SIZE_MAX - offset) }
        }
        // A file begins to live in objects with it: what lay there must not be back when the inode says so.
        DataOp::Discard { from } => Effect::Discard { ino, object_size, from, durable: Durable::IfDropped },
        DataOp::Seek { offset, size, data } => {
            Effect::Seek { ino, object_size, offset, size: size.min(limits::FILE_SIZE_MAX), data }
        }
    }
}

/// The class of an effect and its range of bytes (first, and first behind).
pub(crate) fn class_of(effect: &Effect) -> (Class, (u64, u64)) {
    match effect {
        Effect::Read { offset, len, .. } => (Class::Read, (*offset, offset + u64::from(*len))),
        Effect::Seek { offset, size, .. } => (Class::Read, (*offset, *size)),
        Effect::Write { offset, data, .. } => (Class::Write, (*offset, offset + data.len() as u64)),
        Effect::Patch { patches, .. } => (Class::Write, (first_of(patches), patches.end())),
        Effect::Punch { offset, len, .. } => (Class::Write, (*offset, offset + len)),
        Effect::Discard { from, .. } => (Class::Write, (*from, u64::MAX)),
        Effect::Spill { .. } => (Class::Write, (0, u64::MAX)),
        Effect::Sync { .. } | Effect::SyncDiscards { .. } | Effect::SyncFiles { .. } | Effect::SyncAll => {
            (Class::Sync, (0, u64::MAX))
        }
        // Whole objects are copied.
        Effect::Copying { effect, .. } | Effect::Theirs { effect, .. } => {
            let (class, (first, end)) = class_of(effect);
            let size = object_size(effect);
            (class, (first / size * size, end.checked_next_multiple_of(size).unwrap_or(u64::MAX)))
        }
        Effect::AsItWas { effect, .. } => class_of(effect),
        Effect::Restore { .. } => (Class::Write, (0, u64::MAX)),
        Effect::KeepTheirs { .. } | Effect::LookAtFork { .. } => (Class::Read, (0, u64::MAX)),
    }
}

/// The first byte of patches.
fn first_of(patches: &Patches) -> u64 {
    patches.places().iter().map(|(offset, _)| *offset).min().unwrap_or(0)
}

/// Bytes in one of the objects of a file.
fn object_size(effect: &Effect) -> u64 {
    match effect {
        Effect::Write { object_size, .. }
        | Effect::Punch { object_size, .. }
        | Effect::Discard { object_size, .. }
        | Effect::Read { object_size, .. }
        | Effect::Seek { object_size, .. }
        | Effect::Spill { object_size, .. } => (*object_size).max(1),
        _ => BLOCK_SIZE,
    }
}

/// The objects that an effect may change.
pub(crate) fn touches(effect: &Effect) -> Touches {
    let spanned = |offset: u64, len: u64, size: u64| {
        let objects = (len > 0).then(|| (offset / size, (offset + len - 1) / size));
        Touches { objects, ..Touches::default() }
    };
    match effect {
        Effect::Write { object_size, offset, data, .. } => spanned(*offset, data.len() as u64, *object_size),
        Effect::Patch { object_size, patches, .. } => {
            spanned(first_of(patches), patches.end() - first_of(patches), *object_size)
        }
        Effect::Punch { object_size, offset, len, .. } => {
            Touches { removes: *len >= *object_size, ..spanned(*offset, *len, *object_size) }
        }
        Effect::Discard { object_size, from, durable, .. } => {
            let durable = *durable != Durable::Later;
            Touches { objects: Some((from / object_size, from / object_size)), removes: true, durable }
        }
        Effect::Spill { object_size, data, .. } => {
            Touches { removes: true, ..spanned(0, data.len() as u64, *object_size) }
        }
        Effect::Copying { effect, .. } | Effect::Theirs { effect, .. } => Touches { durable: false, ..touches(effect) },
        _ => Touches::default(),
    }
}

/// Bytes that an effect counts in the bound of the queue.
pub(crate) fn cost(effect: &Effect) -> u64 {
    let bytes = match effect {
        Effect::Read { len, .. } => u64::from(*len),
        Effect::Write { data, .. } | Effect::Spill { data, .. } => data.len() as u64,
        Effect::Patch { patches, .. } => patches.len() as u64,
        Effect::Copying { effect, .. } | Effect::AsItWas { effect, .. } | Effect::Theirs { effect, .. } => cost(effect),
        _ => 0,
    };
    bytes.max(COST_MIN)
}
