//! The frame of a record: 24 bytes before its body.
//!
//! ```text
//! offset  bytes  field (integers little endian)
//!      0      4  length of the body, 1..=16 MiB
//!      4      4  CRC-32C of the body, salted
//!      8      8  LSN
//!     16      4  distance: LSN minus the last LSN that was durable when this was made (capped)
//!     20      4  CRC-32C of bytes 0..20, salted
//!     24         body
//! ```
//!
//! Salted: the checksum goes on from that of file system id, rank and segment id, so that what an older use of the
//! same disk blocks left behind is never taken for a record. The distance is what tells a torn write from damage: a
//! record that says "all up to 17 was durable" proves that a broken record 15 was once whole.

use loligo_types::{Lsn, limits};

use crate::segment::{FsId, field};

/// Bytes before a body.
pub const FRAME_LEN: usize = 24;
/// Largest body, bytes.
pub const BODY_MAX: usize = 16 << 20;

const CRC_AT: usize = FRAME_LEN - 4;

// Whatever one change may carry of an inode's data and xattrs fits many times.
const _: () = assert!(BODY_MAX > 8 * (limits::INLINE_MAX + limits::XATTR_TOTAL_MAX));
// So does a session with all its requests: three numbers each.
const _: () = assert!(BODY_MAX > 8 * limits::IN_FLIGHT_MAX * 30);

/// Header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Bytes of the body.
    pub len: u32,
    /// Checksum of the body.
    pub body_crc: u32,
    /// Number of the record.
    pub lsn: Lsn,
    /// All records up to this one were durable when this one was made. (At least these: the distance is capped.)
    pub durable: Lsn,
}

/// Where the checksums of a segment start from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt(u32);

impl Salt {
    /// The salt of a segment.
    pub fn new(fs: &FsId, rank: u32, segment: u64) -> Salt {
        let mut bytes = [0; 28];
        bytes[..16].copy_from_slice(fs);
        bytes[16..20].copy_from_slice(&rank.to_le_bytes());
        bytes[20..].copy_from_slice(&segment.to_le_bytes());
        Salt(crc32c::crc32c(&bytes))
    }

    fn crc(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }
}

/// The frame of a body. `durable` is below `lsn`.
pub fn encode_frame(salt: Salt, lsn: Lsn, durable: Lsn, body: &[u8]) -> [u8; FRAME_LEN] {
    let distance = u32::try_from(lsn.0.saturating_sub(durable.0)).unwrap_or(u32::MAX);
    let mut out = [0; FRAME_LEN];
    out[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    out[4..8].copy_from_slice(&salt.crc(body).to_le_bytes());
    out[8..16].copy_from_slice(&lsn.0.to_le_bytes());
    out[16..20].copy_from_slice(&distance.to_le_bytes());
    let crc = salt.crc(&out[..CRC_AT]);
    out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    out
}

impl Frame {
    /// Reads a frame; `None` if its checksum or length says that there is none.
    pub fn decode(salt: Salt, bytes: &[u8]) -> Option<Frame> {
        let bytes = bytes.first_chunk::<FRAME_LEN>()?;
        let len = u32::from_le_bytes(field(bytes, 0));
        if len == 0 || len as usize > BODY_MAX {
            return None;
        }
        let lsn = u64::from_le_bytes(field(bytes, 8));
        let distance = u32::from_le_bytes(field(bytes, 16));
        if u32::from_le_bytes(field(bytes, CRC_AT)) != salt.crc(&bytes[..CRC_AT]) {
            return None;
        }
        Some(Frame {
            len,
            body_crc: u32::from_le_bytes(field(bytes, 4)),
            lsn: Lsn(lsn),
            durable: Lsn(lsn.saturating_sub(u64::from(distance))),
        })
    }

    /// True if this is the body of the frame.
    pub fn holds(&self, salt: Salt, body: &[u8]) -> bool {
        body.len() == self.len as usize && salt.crc(body) == self.body_crc
    }
}
