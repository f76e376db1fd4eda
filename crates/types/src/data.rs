//! Operations on a file's bytes in objects. Offsets are offsets in the file; the object server splits them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::limits;

/// Blocks that mode `data` of the data journal fills, bytes.
const PAD_BLOCK: u64 = 4096;

/// Operation on the bytes of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataOp {
    /// `Bytes`, exactly `len` of them: holes and what was never written read as zeros.
    Read { offset: u64, len: u32 },
    /// `Done`. In the store's cache; durable after `Sync`.
    Write { offset: u64, data: Arc<[u8]> },
    /// `Done` when all writes answered before are durable.
    Sync,
    /// Makes a range read as zeros and frees its space. `Done`.
    Punch { offset: u64, len: u64 },
    /// Drops everything from this offset on. `Done`. A client sends it before it lets a file grow past a gap or spills,
    /// so that bytes left by a writer that died never show.
    Discard { from: u64 },
    /// First data (or hole) at or after `offset` and before `size`. `Offset`; `None`: no more data.
    Seek { offset: u64, size: u64, data: bool },
}

impl DataOp {
    /// True if the operation changes the contents of objects.
    pub fn is_change(&self) -> bool {
        match self {
            DataOp::Write { .. } | DataOp::Punch { .. } | DataOp::Discard { .. } => true,
            DataOp::Read { .. } | DataOp::Sync | DataOp::Seek { .. } => false,
        }
    }
}

/// Answer to a data operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataAnswer {
    /// The bytes.
    Bytes(Arc<[u8]>),
    /// Done.
    Done,
    /// A place.
    Offset(Option<u64>),
}

/// Why it failed. The number is on the wire: keep stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum DataError {
    /// The store is full.
    NoSpace = 1,
    /// The store failed.
    Io = 2,
    /// A checksum does not fit; the server's log names the place.
    Corrupt = 3,
    /// The session does not have the file open for this (any more).
    Stale = 4,
    /// Too much is queued: send again later.
    Busy = 5,
    /// Longer than `limits::DATA_OP_MAX`, or past the largest file.
    TooLarge = 6,
    /// Another rank has the file now: send it there.
    Moved = 7,
}

/// Bytes for several places of one file, small enough to go into a journal. They are data, not a difference: what was there before does
/// not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Patches {
    /// Offset in the file and number of bytes of each, in the order in which they are written.
    places: Vec<(u64, u32)>,
    /// The bytes of all, one behind the other.
    bytes: Arc<[u8]>,
}

impl Patches {
    /// Puts these together; `None` if they break a limit: none at all, an empty one, too many, too long, or past the largest file.
    pub fn new(places: Vec<(u64, u32)>, bytes: Arc<[u8]>) -> Option<Patches> {
        let fits = |(offset, len): &(u64, u32)| {
            *len > 0 && offset.checked_add(u64::from(*len)).is_some_and(|end| end <= limits::FILE_SIZE_MAX)
        };
        let total: u64 = places.iter().map(|(_, len)| u64::from(*len)).sum();
        let fine = (1..=limits::PATCHES_MAX).contains(&places.len())
            && bytes.len() <= limits::PATCH_BYTES_MAX
            && total == bytes.len() as u64
            && places.iter().all(fits);
        fine.then_some(Patches { places, bytes })
    }

    /// Puts pieces of a file together, likewise.
    pub fn of(pieces: &[(u64, Arc<[u8]>)]) -> Option<Patches> {
        let places = pieces.iter().map(|(offset, data)| Some((*offset, u32::try_from(data.len()).ok()?)));
        let places = places.collect::<Option<Vec<_>>>()?;
        match pieces {
            [(_, data)] => Patches::new(places, Arc::clone(data)),
            _ => Patches::new(places, pieces.iter().flat_map(|(_, data)| data.iter().copied()).collect()),
        }
    }

    /// The offsets and lengths.
    pub fn places(&self) -> &[(u64, u32)] {
        &self.places
    }

    /// The bytes of all.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: see [`Patches::new`].
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Each with its offset.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = 0;
        self.places.iter().map(move |(offset, len)| {
            let end = at + *len as usize;
            let part = &self.bytes[at..end];
            at = end;
            (*offset, part)
        })
    }

    /// Bytes that fill the blocks of 4 KiB which the places touch, beside their own.
    pub fn padding(&self) -> u32 {
        let blocks = |(offset, len): &(u64, u32)| offset / PAD_BLOCK..(offset + u64::from(*len)).div_ceil(PAD_BLOCK);
        let touched: BTreeSet<u64> = self.places.iter().flat_map(blocks).collect();
        (touched.len() as u64 * PAD_BLOCK).saturating_sub(self.len() as u64) as u32
    }

    /// The first byte behind all of them.
    pub fn end(&self) -> u64 {
        self.places.iter().map(|(offset, len)| offset + u64::from(*len)).max().unwrap_or(0)
    }

    /// The part below an offset; `None`: there is none.
    pub fn below(&self, end: u64) -> Option<Patches> {
        if self.end() <= end {
            return Some(self.clone());
        }
        let cut = |(offset, part): (u64, &[u8])| {
            let len = (part.len() as u64).min(end.saturating_sub(offset)) as usize;
            (len > 0).then(|| (offset, Arc::from(&part[..len])))
        };
        let pieces: Vec<(u64, Arc<[u8]>)> = self.iter().filter_map(cut).collect();
        Patches::of(&pieces)
    }
}
