//! Why a journal file cannot be read to its end.

use loligo_types::Lsn;
use thiserror::Error;

use super::FILE_VERSION;
use crate::segment::SegmentHeader;

/// Error of a journal file. `E` is the error of the source. None of these is the result of a write that was cut off.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FileError<E> {
    /// The bytes could not be read.
    #[error("it cannot be read: {0}")]
    Source(E),
    /// It begins otherwise than a journal file does.
    #[error(
        "this is no journal file: it begins {}",
        if *segment { "as a single segment of a journal does; export the journal that it is part of (loligo journal export)" }
        else { "with other bytes; `loligo journal export` makes one" }
    )]
    NoJournalFile {
        /// It begins as a segment.
        segment: bool,
    },
    /// The header is not whole.
    #[error("the header of this journal file is not whole, or its checksum is wrong: take another copy of it")]
    BadHeader,
    /// A format that this program does not know, of the file or of a segment in it.
    #[error(
        "offset {offset}: it has format version {found}, or parts of it, that this program (version {FILE_VERSION}) does not know: use the \
         version of loligo that wrote it"
    )]
    UnknownVersion {
        /// Where it says so.
        offset: u64,
        /// The version found.
        found: u16,
    },
    /// A segment of another journal.
    #[error(
        "offset {offset}: segment {} of rank {} does not belong to this journal file: files were put together that are not of one \
         journal; take another copy of it",
        header.id, header.rank
    )]
    Foreign {
        /// Where the segment begins.
        offset: u64,
        /// The header that it has.
        header: SegmentHeader,
    },
    /// Records are missing, or a record stands where another belongs.
    #[error(
        "offset {offset}: record {expected} is missing (found {found}): a part of the file was cut out or exchanged; take another copy \
         of it"
    )]
    Gap {
        /// Where the record was looked for.
        offset: u64,
        /// The record that should be there.
        expected: Lsn,
        /// The one that is.
        found: Lsn,
    },
    /// Bytes that were there are not what was written.
    #[error(
        "offset {offset}: the checksum of {} is wrong{}: other bytes than were written; take another copy of the file",
        match lsn { Some(lsn) => format!("record {lsn}"), None => "its first segment".to_string() },
        match proof { Some(lsn) => format!(", and record {lsn} behind it is whole"), None => String::new() }
    )]
    BadChecksum {
        /// Where the broken record or segment begins.
        offset: u64,
        /// The record that should be there.
        lsn: Option<Lsn>,
        /// A later record that proves that this one was there. Without one the header's counts do.
        proof: Option<Lsn>,
    },
}
