//! Blobs: the objects that hold file data. Not files: no names beside [`ObjectId`], no sizes of
//! files, no permissions; the object server above orders and fences.

use std::fmt;
use std::ops::ControlFlow;

use crate::{Result, StoreError};

/// Granularity of holes and checksums, in bytes.
pub const BLOCK_SIZE: u64 = 4096;

/// Largest length of one object, in bytes (1 GiB).
pub const MAX_OBJECT_LEN: u64 = 1 << 30;

/// Name of an object: the `index`-th piece of the data of inode `ino`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Inode number.
    pub ino: u64,
    /// Number of the piece, from 0.
    pub index: u64,
}

impl ObjectId {
    /// The object `index` of inode `ino`.
    pub fn new(ino: u64, index: u64) -> Self {
        Self { ino, index }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {:x}.{:x}", self.ino, self.index)
    }
}

/// A range of an object that holds data (not a hole).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Extent {
    /// First byte behind the range.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Checks that a range lies within the largest object, so that no later sum can overflow.
pub fn check_range(id: ObjectId, offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= MAX_OBJECT_LEN => Ok(()),
        _ => Err(StoreError::Io {
            what: format!("{id}, range of {len} bytes at {offset}"),
            cause: format!("an object holds at most {MAX_OBJECT_LEN} bytes"),
        }),
    }
}

/// The objects of all files. A write is seen by every read that begins after it returned; reads and
/// writes of the same bytes at the same time are the caller's mistake (it orders them), but never
/// give bytes that fail their checksum.
///
/// Nothing is durable until [`Blobs::sync`] (or [`Blobs::sync_all`]) returned. Before that a crash may
/// keep any part of the changes: each block old or new, the object there or not.
pub trait Blobs: Send + Sync {
    /// The largest length of an object, bytes.
    fn max_len(&self) -> u64 {
        MAX_OBJECT_LEN
    }

    /// Reads at `offset`; returns the bytes read, fewer than `buf.len()` only at the end of the
    /// object. Holes read as zeros; an absent object has length 0. Every block read is verified.
    fn read_at(&self, id: ObjectId, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Writes at `offset`; makes the object and lengthens it as needed (the gap is a hole).
    fn write_at(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()>;

    /// [`Blobs::write_at`] of bytes that a journal has durably, and that were acknowledged. They may take of what the store reserves for a full
    /// disk, and leave no block unverified if this process is killed behind the call.
    fn write_logged(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        self.write_at(id, offset, data)
    }

    /// Makes the blocks of a range damaged, as far as they are data: reads of them fail until they are written as a whole or cut off. For bytes that
    /// could not be replaced because the device does not read their block: if it reads it again, the earlier bytes must not be taken for
    /// them. Fails where a backend has no checksums.
    fn spoil(&self, id: ObjectId, _offset: u64, _len: u64) -> Result<()> {
        Err(StoreError::NotNow { what: id.to_string(), cause: "this store has no checksums of blocks".into() })
    }

    /// Sets the length; the bytes gained are a hole. Makes an absent object unless `len` is 0.
    fn truncate(&self, id: ObjectId, len: u64) -> Result<()>;

    /// Makes the bytes zero and releases whole blocks; the length stays.
    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<()>;

    /// Makes every earlier change of the object durable, its creation included. An absent object is
    /// no error.
    fn sync(&self, id: ObjectId) -> Result<()>;

    /// [`Blobs::sync`] of several objects of one inode, which a backend may do at less cost.
    fn sync_many(&self, ino: u64, indexes: &[u64]) -> Result<()> {
        indexes.iter().try_for_each(|index| self.sync(ObjectId::new(ino, *index)))
    }

    /// Makes earlier removals of objects of `ino` durable.
    fn sync_removals(&self, ino: u64) -> Result<()>;

    /// Makes every earlier change of every object durable. Expensive; for checkpoints.
    fn sync_all(&self) -> Result<()>;

    /// Removes the object and returns its space. An absent object is no error.
    fn delete(&self, id: ObjectId) -> Result<()>;

    /// Removes all objects of `ino`; whether there were some. Nobody writes to any of them meanwhile.
    fn delete_all(&self, ino: u64) -> Result<bool> {
        let indexes = self.objects_of(ino)?;
        indexes.iter().try_for_each(|index| self.delete(ObjectId::new(ino, *index)))?;
        Ok(!indexes.is_empty())
    }

    /// Others may have changed objects of `ino`: what is remembered of them counts no more.
    fn forget(&self, _ino: u64) {}

    /// The length of the object, or `None` if there is none.
    fn len(&self, id: ObjectId) -> Result<Option<u64>>;

    /// The parts of `offset..offset+len` that hold data, ascending, never empty, never touching one
    /// another. Each block of the object is data or a hole as a whole, whatever range is asked for, so
    /// both ends are multiples of [`BLOCK_SIZE`] or lie at the ends of the range or the object; behind
    /// the object's end nothing is data. Blocks written with zeros are data, unless the backend cannot
    /// tell them from holes. A block is a hole again when a truncation or a punch took all of it that
    /// the object has.
    fn extents(&self, id: ObjectId, offset: u64, len: u64) -> Result<Vec<Extent>>;

    /// The indexes of the objects of `ino`, lost ones included, ascending.
    fn objects_of(&self, ino: u64) -> Result<Vec<u64>>;

    /// Tells of objects that have to be there and are not (`None`: of many at once), and why that is known. Reading one fails; removing
    /// it ends that. Only backends that can notice a loss do.
    fn lost(&self, _visit: &mut dyn FnMut(Option<ObjectId>, &str)) -> Result<()> {
        Ok(())
    }

    /// Calls `visit` with the inodes that got an object since an opening that did not end cleanly, until it breaks; an inode may come more
    /// than once. Objects of them may be ones of which no inode tells. Nothing is visited after [`Blobs::strays_dropped`], or by backends that
    /// do not know.
    fn visit_strays(&self, _visit: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        Ok(())
    }

    /// Objects may be ones of which no inode tells, of any age: the next opening is to visit all ([`Blobs::visit_strays`]).
    fn expect_strays(&self) -> Result<()> {
        Ok(())
    }

    /// The objects of which no inode tells are dropped, as far as there were some when this opening began: they need not be searched again.
    fn strays_dropped(&self) -> Result<()> {
        Ok(())
    }

    /// Calls `visit` with each object and its length, in no order, in bounded memory, until it breaks.
    fn list(&self, visit: &mut dyn FnMut(ObjectId, u64) -> ControlFlow<()>) -> Result<()>;
}
