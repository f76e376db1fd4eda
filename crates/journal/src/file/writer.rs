//! Makes the bytes of a journal file, from front to back. It writes nothing itself.

use loligo_types::Lsn;
use thiserror::Error;

use super::{FILE_HEADER_LEN, FileHeader, Owner, Totals};
use crate::frame::{BODY_MAX, FRAME_LEN, Salt, encode_frame};
use crate::segment::{FsId, SEGMENT_HEADER_LEN, SegmentHeader};

/// Why a record was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FileAppendError {
    /// Empty, or larger than a record may be.
    #[error("a journal record of {0} bytes cannot be written: it must have 1 to 16777216")]
    Size(usize),
    /// It does not follow the one before.
    #[error("record {found} does not follow: the next one in this file must be {expected}{}", if *later { ", or a later one" } else { "" })]
    Order {
        /// The next record.
        expected: Lsn,
        /// That it is one of this file.
        found: Lsn,
        /// The file is a selection.
        later: bool,
    },
}

/// The machine. What it gives goes into a file in that order; only the header of [`FileWriter::finish`] goes over the first one.
#[derive(Clone, Debug)]
pub struct FileWriter {
    header: FileHeader,
    /// Number of the last segment that was begun.
    segment: u64,
    salt: Salt,
    /// The record that follows, once there is one.
    next: Option<Lsn>,
    /// All up to here were durable when what comes is made.
    durable: Lsn,
    records: u64,
    bytes: u64,
}

impl FileWriter {
    /// A file of this journal. `selection`: records will be left out.
    pub fn new(fs: FsId, owner: Owner, selection: bool) -> FileWriter {
        let header = FileHeader { fs, owner, selection, totals: None };
        FileWriter {
            header,
            segment: 0,
            salt: Salt::new(&fs, owner.rank(), 0),
            next: None,
            durable: Lsn(0),
            records: 0,
            bytes: FILE_HEADER_LEN as u64,
        }
    }

    /// The first bytes of the file. It says that it is not finished.
    pub fn header(&self) -> [u8; FILE_HEADER_LEN] {
        self.header.encode()
    }

    /// Adds the bytes of a record to `out`, with those of a segment before it where one begins.
    pub fn append(&mut self, out: &mut Vec<u8>, lsn: Lsn, body: &[u8]) -> Result<(), FileAppendError> {
        if body.is_empty() || body.len() > BODY_MAX {
            return Err(FileAppendError::Size(body.len()));
        }
        match self.next {
            Some(next) if next == lsn => {}
            Some(expected) if lsn < expected || !self.header.selection => {
                return Err(FileAppendError::Order { expected, found: lsn, later: self.header.selection });
            }
            _ => self.begin_segment(out, lsn),
        }
        out.extend_from_slice(&encode_frame(self.salt, lsn, self.durable, body));
        out.extend_from_slice(body);
        self.next = Some(lsn.next());
        self.records += 1;
        self.bytes += (FRAME_LEN + body.len()) as u64;
        Ok(())
    }

    /// All records up to this one are in the file for good: those that come say so, and prove it.
    pub fn synced(&mut self, lsn: Lsn) {
        self.durable = self.durable.max(lsn);
    }

    /// All records so far are in the file for good: these bytes, an empty segment, prove it from when they follow them on, and what comes
    /// goes into that segment. Without them a record that is damaged later, and that none follows which was made after a sync, looks like
    /// one whose write was cut off.
    pub fn seal(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(next) = self.next {
            self.begin_segment(&mut out, next);
        }
        out
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes so far, the header included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The header of the finished file, to be written over the first one when all else is durable.
    pub fn finish(mut self) -> [u8; FILE_HEADER_LEN] {
        self.header.totals = Some(Totals { records: self.records, bytes: self.bytes });
        self.header.encode()
    }

    fn begin_segment(&mut self, out: &mut Vec<u8>, first: Lsn) {
        self.segment += 1;
        let (fs, rank, id) = (self.header.fs, self.header.owner.rank(), self.segment);
        self.salt = Salt::new(&fs, rank, id);
        // What is left out, and what came before the file, is not missing.
        self.durable = Lsn(first.0.saturating_sub(1));
        out.extend_from_slice(&SegmentHeader { fs, rank, id, first }.encode());
        self.bytes += SEGMENT_HEADER_LEN as u64;
    }
}
