//! A journal as one file, to carry it elsewhere: a header, and behind it segments back to back, as they are in a journal. A rank's is
//! made by `loligo journal export`; a client's has the same form.
//!
//! Pure like the rest: [`FileWriter`] gives bytes, [`FileReader`] takes them from a [`Source`](crate::Source) whose one segment, number 0,
//! is the file. Both go from front to back and hold one record at a time. Not here: which records belong in a file
//! ([`Filter`](crate::Filter)), and what is done with them.
//!
//! ```text
//! offset  bytes  field (integers little endian)
//!      0      8  magic "LOLIGOJF"
//!      8      2  format version, 1
//!     10      2  length of this header, 64
//!     12      1  whose journal: 1 a rank's, 2 a client's
//!     13      1  flags: bit 0 it is whole, and the two counts below hold; bit 1 it is a selection
//!     14      2  zeros
//!     16     16  file system id
//!     32      8  number of the rank or of the client
//!     40      8  records in it; 0 without flag bit 0
//!     48      8  bytes of the file, this header included; 0 without flag bit 0
//!     56      4  zeros, reserved
//!     60      4  CRC-32C of bytes 0..60, in every version
//! ```

mod error;
mod reader;
mod segments;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;

pub use error::FileError;
pub use reader::{FileReader, FileSegment, FileTail};
pub use segments::FileSegments;
pub use writer::{FileAppendError, FileWriter};

use crate::segment::{FsId, HeaderError, SEGMENT_HEADER_LEN, field};

/// Bytes of the header.
pub const FILE_HEADER_LEN: usize = 64;
/// First bytes of every journal file. Persisted.
pub const FILE_MAGIC: [u8; 8] = *b"LOLIGOJF";
/// Version of the header and of what stands behind it. Persisted.
pub const FILE_VERSION: u16 = 1;

/// Value in place of a rank in the segments of a client's journal. Persisted.
pub const CLIENT_RANK: u32 = u32::MAX;

/// Persisted: keep stable, never reuse.
const OF_RANK: u8 = 1;
const OF_CLIENT: u8 = 2;
const WHOLE: u8 = 1;
const SELECTION: u8 = 2;

const CRC_AT: usize = FILE_HEADER_LEN - 4;

// The same check of the same place tells an unknown version from damage, in both.
const _: () = assert!(FILE_HEADER_LEN == SEGMENT_HEADER_LEN);

/// Owner of a journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// A rank's.
    Rank(u32),
    /// A client's, by its number.
    Client(u64),
}

impl Owner {
    /// The value in place of a rank in its segments, which is also what their checksums go on from.
    pub fn rank(self) -> u32 {
        match self {
            Owner::Rank(rank) => rank,
            Owner::Client(_) => CLIENT_RANK,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Rank(rank) => write!(f, "rank {rank}"),
            Owner::Client(client) => write!(f, "client {client}"),
        }
    }
}

/// Size of a file that was written to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Bytes, the header included.
    pub bytes: u64,
}

/// Header of a journal file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// The file system it belongs to.
    pub fs: FsId,
    /// The owner of the journal.
    pub owner: Owner,
    /// Some records were left out: between its segments others may be missing.
    pub selection: bool,
    /// Its size; `None` as long as it is being written, and for ever if that was cut off.
    pub totals: Option<Totals>,
}

impl FileHeader {
    /// The bytes.
    pub fn encode(&self) -> [u8; FILE_HEADER_LEN] {
        let mut out = [0; FILE_HEADER_LEN];
        let (kind, number) = match self.owner {
            Owner::Rank(rank) => (OF_RANK, u64::from(rank)),
            Owner::Client(client) => (OF_CLIENT, client),
        };
        out[..8].copy_from_slice(&FILE_MAGIC);
        out[8..10].copy_from_slice(&FILE_VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&(FILE_HEADER_LEN as u16).to_le_bytes());
        out[12] = kind;
        out[13] = if self.selection { SELECTION } else { 0 };
        out[16..32].copy_from_slice(&self.fs);
        out[32..40].copy_from_slice(&number.to_le_bytes());
        if let Some(Totals { records, bytes }) = self.totals {
            out[13] |= WHOLE;
            out[40..48].copy_from_slice(&records.to_le_bytes());
            out[48..56].copy_from_slice(&bytes.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the start of `bytes`, which are known to begin with [`FILE_MAGIC`].
    pub fn decode(bytes: &[u8]) -> Result<FileHeader, HeaderError> {
        let header = bytes.first_chunk::<FILE_HEADER_LEN>().ok_or(HeaderError::Damaged)?;
        let crc = u32::from_le_bytes(field(header, CRC_AT));
        if header[..8] != FILE_MAGIC || crc32c::crc32c(&header[..CRC_AT]) != crc {
            return Err(HeaderError::Damaged);
        }
        let found = u16::from_le_bytes(field(header, 8));
        let number = u64::from_le_bytes(field(header, 32));
        let owner = match header[12] {
            OF_RANK => u32::try_from(number).ok().map(Owner::Rank),
            OF_CLIENT => Some(Owner::Client(number)),
            _ => None,
        };
        let known = found == FILE_VERSION
            && u16::from_le_bytes(field(header, 10)) == FILE_HEADER_LEN as u16
            && header[13] & !(WHOLE | SELECTION) == 0;
        let (true, Some(owner)) = (known, owner) else { return Err(HeaderError::UnknownVersion { found }) };
        let totals = (header[13] & WHOLE != 0).then(|| Totals {
            records: u64::from_le_bytes(field(header, 40)),
            bytes: u64::from_le_bytes(field(header, 48)),
        });
        Ok(FileHeader { fs: field(header, 16), owner, selection: header[13] & SELECTION != 0, totals })
    }
}
