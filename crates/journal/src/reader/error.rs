//! Why a journal cannot be read to its end.

use loligo_types::Lsn;
use thiserror::Error;

use crate::segment::{SEGMENT_VERSION, SegmentHeader};

/// Error of a journal. `E` is the error of the source. None of these is ever the result of a crash alone.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReadError<E> {
    /// The bytes could not be read.
    #[error("the journal cannot be read: {0}")]
    Source(E),
    /// Records are missing, or a record stands where another belongs.
    #[error(
        "journal segment {segment}, offset {offset}: record {expected} is missing{}: a segment was removed or \
         exchanged; restore it, or look at what is there with `loligo journal inspect`",
        match found { Some(lsn) => format!(" (found {lsn})"), None => " (the journal ends before it)".to_string() }
    )]
    Gap {
        /// Where the record was looked for.
        segment: u64,
        /// Where in it.
        offset: u64,
        /// The record that should be there.
        expected: Lsn,
        /// The one that is.
        found: Option<Lsn>,
    },
    /// Bytes that were durable are not what was written.
    #[error(
        "journal segment {segment}, offset {offset}: the checksum of record {lsn} is wrong{}: the disk returned \
         other bytes than were written; restore the segment, or look at it with `loligo journal inspect`",
        match proof { Some(lsn) => format!(" and record {lsn} shows that it was once whole"), None => String::new() }
    )]
    BadChecksum {
        /// The segment.
        segment: u64,
        /// Where the broken record (or header, at 0) begins.
        offset: u64,
        /// The record that should be there.
        lsn: Lsn,
        /// A later record that proves that this one was durable.
        proof: Option<Lsn>,
    },
    /// The journal ends before what was durable.
    #[error(
        "journal segment {segment} {}, and {synced} bytes of it were durable: the newest changes that were acknowledged \
         are lost; put the segment back as it was, or go on with what is left: `loligo journal export`, then \
         `loligo journal import`",
        match left { None => "is missing".to_string(), Some(left) => format!("ends at offset {left}") }
    )]
    Lost {
        /// The segment.
        segment: u64,
        /// Its bytes that were durable.
        synced: u64,
        /// Where its records end; `None`: there is no such segment, and no newer one.
        left: Option<u64>,
    },
    /// A segment of a format that this program does not know.
    #[error(
        "journal segment {segment} has format version {found}, this program knows {SEGMENT_VERSION}: \
         use the version of loligo that wrote it"
    )]
    UnknownVersion {
        /// The segment.
        segment: u64,
        /// Its version.
        found: u16,
    },
    /// A segment of another journal.
    #[error(
        "journal segment {segment} says that it is segment {} of rank {} of another journal: \
         the files were mixed up; put the right one there",
        header.id, header.rank
    )]
    Foreign {
        /// The number it has here.
        segment: u64,
        /// The header that it has.
        header: SegmentHeader,
    },
}
