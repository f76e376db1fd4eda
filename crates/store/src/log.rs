//! Journal files: numbered segments that grow at the end. Not the journal: records, checksums and
//! what a tail means belong to `loligo-journal`.

use crate::Result;

/// Told when appended bytes have become durable, or why they never will; by any thread, and must not block.
pub type Landed = Box<dyn FnOnce(Result<()>) + Send>;

/// A segment as listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Its number, chosen at creation.
    pub id: u64,
    /// Its length in bytes; may count bytes that were appended but never synced.
    pub len: u64,
}

/// The segments of one rank's journal.
///
/// After a crash a segment holds every byte that a successful [`LogFile::sync`] covered. Bytes
/// appended after that may be there, be missing, be cut at any byte, or be replaced by zeros in whole
/// sectors; a reader must accept both the end of the file and zeros behind the tail. Zeros and space that an
/// implementation has ahead of the tail show in no length while the segment is open for appending; after a crash zeros may.
/// The next appender after a crash cuts them off first ([`LogDir::truncate`]).
pub trait LogDir: Send + Sync {
    /// All segments in ascending order of id.
    fn list(&self) -> Result<Vec<Segment>>;

    /// Makes an empty segment, durably ([`LogDir::sync_dir`] included). An existing id is an error.
    fn create(&self, id: u64) -> Result<Box<dyn LogFile>>;

    /// Opens a segment for reading. [`crate::StoreError::NotFound`] if there is none.
    fn open(&self, id: u64) -> Result<Box<dyn LogReader>>;

    /// Opens a segment to append behind its present end, for a writer that goes on after recovery.
    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>>;

    /// Cuts a segment to `len` bytes, durably: how a torn tail is removed.
    fn truncate(&self, id: u64, len: u64) -> Result<()>;

    /// Removes a segment, durably ([`LogDir::sync_dir`] included). An absent id is no error.
    fn delete(&self, id: u64) -> Result<()>;

    /// Makes the set of segments durable.
    fn sync_dir(&self) -> Result<()>;

    /// The newest segment that is known to be durable, and up to which length: what a successful [`LogFile::sync`] covered, or how it was
    /// made. A journal that ends before that has lost what was acknowledged. It may lag behind the truth, after a loss of power by as much
    /// as was not written yet, and never runs ahead of it. `None`: nothing is known.
    fn synced(&self) -> Result<Option<Segment>> {
        Ok(None)
    }

    /// From now on [`LogDir::synced`] says this, durably: for the copy of a journal, which may end with what its original never synced.
    /// Nothing where nothing is known.
    fn set_synced(&self, _mark: Option<Segment>) -> Result<()> {
        Ok(())
    }

    /// True if [`LogFile::append_then`] returns before the bytes are durable: then several may be under way.
    fn is_async(&self) -> bool {
        false
    }
}

/// A segment open for appending. There is one writer for a segment.
pub trait LogFile: Send {
    /// Appends `bytes`. After an error nothing counts as appended: the next call writes at the same
    /// place, so a call refused with [`crate::StoreError::Full`] can be made again.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Appends the parts one behind the other, as one [`LogFile::append`].
    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()>;

    /// Makes all appended bytes durable (fdatasync). After a failed sync nobody knows what is on the
    /// disk: every later call on this file fails too, and the caller stops.
    fn sync(&mut self) -> Result<()>;

    /// Appends `bytes`, and tells `landed` when they and all before them are durable, in the order of the calls. After an error of the
    /// call itself nothing is told; after one that is told every later call fails, too.
    fn append_then(&mut self, bytes: &[u8], landed: Landed) -> Result<()> {
        self.append(bytes)?;
        landed(self.sync());
        Ok(())
    }

    /// Bytes appended, those before this opening included.
    fn len(&self) -> u64;

    /// True if nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A segment open for reading.
pub trait LogReader: Send {
    /// Reads at `offset` into `buf`; a count below `buf.len()` means the end of the segment.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Length of the segment now.
    fn len(&self) -> Result<u64>;

    /// True if the segment holds no byte.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}
