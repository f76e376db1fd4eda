//! Group commit as a machine: records go in, contiguous bytes for segments come out, syncs are reported back.
//!
//! It writes nothing itself. Whoever does writes batches in their order, syncs the segment and then calls
//! [`Writer::synced`]; further batches may be written while a sync runs. A new segment is handed out only when all
//! before it is durable, so only the newest segment can ever be torn. After any failed write or sync:
//! [`Writer::fail`], and nothing is accepted or reported durable any more.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use loligo_types::Lsn;
use thiserror::Error;

use crate::frame::{BODY_MAX, FRAME_LEN, Salt, encode_frame};
use crate::reader::Tail;
use crate::segment::{FsId, SEGMENT_HEADER_LEN, SegmentHeader, SegmentInfo};

/// Default size after which a new segment is begun, bytes.
pub const SEGMENT_SIZE_DEFAULT: u64 = 64 << 20;

/// Identity of the journal, and the size of its segments.
#[derive(Clone, Copy, Debug)]
pub struct WriterConfig {
    /// The file system.
    pub fs: FsId,
    /// The rank.
    pub rank: u32,
    /// A segment ends before the record that would make it longer than this, bytes. A single record that is larger
    /// gets a segment of its own.
    pub segment_size: u64,
}

impl WriterConfig {
    /// With the default segment size.
    pub fn new(fs: FsId, rank: u32) -> WriterConfig {
        WriterConfig { fs, rank, segment_size: SEGMENT_SIZE_DEFAULT }
    }
}

/// Why a record was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AppendError {
    /// A write or sync failed before. Nobody knows what is on the disk: the rank must stop.
    #[error("the journal failed before and takes nothing more: restart the server after its disk was looked at")]
    Failed,
    /// Empty, or larger than a record may be.
    #[error("a journal record of {0} bytes cannot be written: it must have 1 to 16777216")]
    Size(usize),
}

/// Bytes to be written to one segment, and what they complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The segment.
    pub segment: u64,
    /// It does not exist yet: `bytes` begin with its header.
    pub new_segment: bool,
    /// Where in the segment they go: just behind the previous batch.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// First record in it.
    pub first: Lsn,
    /// Last record in it; durable with this batch and all before it.
    pub last: Lsn,
}

/// Records that were appended and are not durable yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// Number of records.
    pub records: u64,
    /// Their bytes, with what stands around them.
    pub bytes: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Writer {
    config: WriterConfig,
    /// Segments that exist, oldest first; the last one is being filled unless `fresh`.
    segments: VecDeque<SegmentInfo>,
    /// The next record begins a new segment in any case.
    fresh: bool,
    next_segment: u64,
    next_lsn: Lsn,
    durable: Lsn,
    /// Salt and length of the segment that is being filled.
    salt: Salt,
    offset: u64,
    /// Batches not yet taken; records are added to the last one.
    pending: VecDeque<Batch>,
    /// Last record and bytes of each batch that was taken and is not durable.
    in_flight: VecDeque<(Lsn, u64)>,
    bytes_outstanding: u64,
    spare: Vec<u8>,
    failed: bool,
}

impl Writer {
    /// A writer for a journal that has no segments.
    pub fn new(config: WriterConfig) -> Writer {
        Writer::resume(config, &Tail::default())
    }

    /// A writer that goes on where a reader found the end. It never adds to a segment that was there before: the
    /// first record begins a new one, so what a torn write left behind is never mixed with new records.
    pub fn resume(config: WriterConfig, tail: &Tail) -> Writer {
        Writer {
            config,
            segments: tail.segments.iter().copied().collect(),
            fresh: true,
            next_segment: tail.next_segment,
            next_lsn: tail.next_lsn,
            durable: Lsn(tail.next_lsn.0 - 1),
            salt: Salt::new(&config.fs, config.rank, 0),
            offset: 0,
            pending: VecDeque::new(),
            in_flight: VecDeque::new(),
            bytes_outstanding: 0,
            spare: Vec::new(),
            failed: false,
        }
    }

    /// Adds a record with this body and says its number. It is durable when [`Writer::durable`] has come to it.
    pub fn append(&mut self, body: &[u8]) -> Result<Lsn, AppendError> {
        if self.failed {
            return Err(AppendError::Failed);
        }
        if body.is_empty() || body.len() > BODY_MAX {
            return Err(AppendError::Size(body.len()));
        }
        let lsn = self.next_lsn;
        let len = (FRAME_LEN + body.len()) as u64;
        self.open_batch(len);
        let frame = encode_frame(self.salt, lsn, self.durable, body);
        let batch = self.pending.back_mut().expect("open_batch leaves one");
        batch.bytes.extend_from_slice(&frame);
        batch.bytes.extend_from_slice(body);
        batch.last = lsn;
        self.grow(len);
        self.next_lsn = lsn.next();
        Ok(lsn)
    }

    /// The oldest bytes that were not taken yet: all that was appended since, up to the end of a segment. `None` if
    /// there are none, after a failure, and while a new segment waits for the one before it: ask again after
    /// [`Writer::synced`].
    pub fn take_batch(&mut self) -> Option<Batch> {
        if !self.has_pending() {
            return None;
        }
        let batch = self.pending.pop_front()?;
        self.in_flight.push_back((batch.last, batch.bytes.len() as u64));
        Some(batch)
    }

    /// Gives the bytes of a batch back after they were written, to be filled again.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > self.spare.capacity() && bytes.capacity() <= BODY_MAX {
            bytes.clear();
            self.spare = bytes;
        }
    }

    /// All records up to this one are on the disk for good. Reports of what is durable already, or was not taken, or
    /// come after a failure, change nothing. Says what is durable now.
    pub fn synced(&mut self, lsn: Lsn) -> Lsn {
        if self.failed {
            return self.durable;
        }
        while let Some((last, bytes)) = self.in_flight.front().copied() {
            if last > lsn {
                break;
            }
            self.in_flight.pop_front();
            self.bytes_outstanding -= bytes;
            self.durable = last;
        }
        self.durable
    }

    /// A write or a sync failed: for ever.
    pub fn fail(&mut self) {
        self.failed = true;
        self.pending.clear();
    }

    /// True if [`Writer::fail`] was called.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// The segments that hold no record at or above `below`, and so can be deleted, oldest first. They are forgotten
    /// here. The newest segment that has a durable record always stays: a journal that ever had a record has one.
    ///
    /// Before the files are deleted the table must durably say that replay starts at `below`.
    pub fn trim(&mut self, below: Lsn) -> Vec<u64> {
        let below = below.min(self.durable);
        let mut gone = Vec::new();
        while self.segments.len() > 1 && self.segments[1].first <= below {
            gone.extend(self.segments.pop_front().map(|segment| segment.id));
        }
        gone
    }

    /// The number that the next record will have.
    pub fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    /// The last record that is durable; `Lsn(0)` if there is none.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// The records that were appended and are not durable: when they are many, let new work wait.
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { records: self.next_lsn.0 - 1 - self.durable.0, bytes: self.bytes_outstanding }
    }

    /// Bytes of what was not taken yet.
    pub fn pending_bytes(&self) -> u64 {
        self.pending.iter().map(|batch| batch.bytes.len() as u64).sum()
    }

    /// True if there is something to take now.
    pub fn has_pending(&self) -> bool {
        let Some(batch) = self.pending.front() else { return false };
        !self.failed && (!batch.new_segment || self.in_flight.is_empty())
    }

    /// Bytes of all segments that exist or are about to: when it is much, checkpoint and trim.
    pub fn space(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The segments that exist or are about to, oldest first.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = SegmentInfo> + '_ {
        self.segments.iter().copied()
    }

    /// Sees to it that the last pending batch is the one that a record of `len` bytes goes to.
    fn open_batch(&mut self, len: u64) {
        if self.fresh || self.offset + len > self.config.segment_size.max(SEGMENT_HEADER_LEN as u64 + len) {
            self.begin_segment();
        } else if self.pending.is_empty() {
            self.push_batch(self.next_segment - 1, false);
        }
    }

    fn begin_segment(&mut self) {
        let info = SegmentInfo { id: self.next_segment, first: self.next_lsn, bytes: 0 };
        let WriterConfig { fs, rank, .. } = self.config;
        let header = SegmentHeader { fs, rank, id: info.id, first: info.first }.encode();
        self.segments.push_back(info);
        self.next_segment += 1;
        self.fresh = false;
        self.offset = 0;
        self.salt = Salt::new(&fs, rank, info.id);
        self.push_batch(info.id, true);
        self.pending.back_mut().expect("just pushed").bytes.extend_from_slice(&header);
        self.grow(header.len() as u64);
    }

    fn push_batch(&mut self, segment: u64, new_segment: bool) {
        let bytes = std::mem::take(&mut self.spare);
        let (first, last) = (self.next_lsn, self.next_lsn);
        self.pending.push_back(Batch { segment, new_segment, offset: self.offset, bytes, first, last });
    }

    fn grow(&mut self, len: u64) {
        self.offset += len;
        self.bytes_outstanding += len;
        self.segments.back_mut().expect("a segment is open").bytes += len;
    }
}
