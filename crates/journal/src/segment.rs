//! The header of a segment: the first 64 bytes of each file of a journal. Records follow it back to back.
//!
//! ```text
//! offset  bytes  field (integers little endian)
//!      0      8  magic "LOLIGOJL"
//!      8      2  format version, 1
//!     10      2  length of this header, 64
//!     12      4  rank
//!     16     16  file system id
//!     32      8  segment id
//!     40      8  LSN of the first record
//!     48     12  zeros, reserved
//!     60      4  CRC-32C of bytes 0..60, in every version
//! ```

use loligo_types::Lsn;
use thiserror::Error;

/// Random name of a file system; all zeros is a valid one.
pub type FsId = [u8; 16];

/// Bytes of the header.
pub const SEGMENT_HEADER_LEN: usize = 64;
/// First bytes of every segment. Persisted.
pub const SEGMENT_MAGIC: [u8; 8] = *b"LOLIGOJL";
/// Version of segments and of the frames in them. Persisted.
pub const SEGMENT_VERSION: u16 = 1;

const CRC_AT: usize = SEGMENT_HEADER_LEN - 4;

/// Header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The file system it belongs to.
    pub fs: FsId,
    /// The rank whose journal it is part of.
    pub rank: u32,
    /// Its number, also its name; later segments have higher ones.
    pub id: u64,
    /// LSN of its first record, also when it has none yet.
    pub first: Lsn,
}

/// A segment that exists. Its records end where those of the next one start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    /// Its number.
    pub id: u64,
    /// LSN of its first record.
    pub first: Lsn,
    /// Its length.
    pub bytes: u64,
}

/// Error of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeaderError {
    /// It was never written whole, or was damaged since.
    #[error("it is not whole, or its checksum is wrong")]
    Damaged,
    /// Its checksum is right, and its version is not known here.
    #[error("it has format version {found}, this program knows {SEGMENT_VERSION}")]
    UnknownVersion {
        /// The version found.
        found: u16,
    },
}

impl SegmentHeader {
    /// The bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = [0; SEGMENT_HEADER_LEN];
        out[..8].copy_from_slice(&SEGMENT_MAGIC);
        out[8..10].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&(SEGMENT_HEADER_LEN as u16).to_le_bytes());
        out[12..16].copy_from_slice(&self.rank.to_le_bytes());
        out[16..32].copy_from_slice(&self.fs);
        out[32..40].copy_from_slice(&self.id.to_le_bytes());
        out[40..48].copy_from_slice(&self.first.0.to_le_bytes());
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let header = bytes.first_chunk::<SEGMENT_HEADER_LEN>().ok_or(HeaderError::Damaged)?;
        let crc = u32::from_le_bytes(field(header, CRC_AT));
        if header[..8] != SEGMENT_MAGIC || crc32c::crc32c(&header[..CRC_AT]) != crc {
            return Err(HeaderError::Damaged);
        }
        let found = u16::from_le_bytes(field(header, 8));
        if found != SEGMENT_VERSION || u16::from_le_bytes(field(header, 10)) != SEGMENT_HEADER_LEN as u16 {
            return Err(HeaderError::UnknownVersion { found });
        }
        Ok(SegmentHeader {
            rank: u32::from_le_bytes(field(header, 12)),
            fs: field(header, 16),
            id: u64::from_le_bytes(field(header, 32)),
            first: Lsn(u64::from_le_bytes(field(header, 40))),
        })
    }
}

/// `N` bytes at a place that the caller knows to be inside.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}
