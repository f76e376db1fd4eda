//! The frame around a message: 16 bytes of header, the message, the payload. Drawn in `docs/formats/frame.md`.

use loligo_types::limits::{DATA_OP_MAX, FRAME_MAX};

use crate::DecodeError;

/// The first two bytes of every frame.
pub const MAGIC: [u8; 2] = *b"Lo";
/// Layout of the frame. Changes only if the frame itself does; the protocol's version is in `Hello`.
pub const FRAME_VERSION: u8 = 1;
/// Bytes of the header.
pub const HEADER_LEN: usize = 16;
/// Longest message without its payload, bytes. A full readdir answer and a large `Reclaim` fit.
pub const HEAD_MAX: usize = FRAME_MAX - DATA_OP_MAX;
/// Longest frame of a client before the handshake is done, bytes.
pub const HANDSHAKE_MAX: usize = 16 << 10;

/// Direction byte of a message to a server.
pub(crate) const TO_SERVER: u8 = 1;
/// Direction byte of a message to a client.
pub(crate) const TO_CLIENT: u8 = 2;
/// Direction byte of a message between processes of one file system.
pub(crate) const BETWEEN_PROCESSES: u8 = 3;

/// A header whose lengths are within their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) head_len: usize,
    pub(crate) payload_len: usize,
    crc: u32,
    crc_start: u32,
}

impl Header {
    /// Checks everything that the header alone can tell. `max`: most bytes after the header.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN], direction: u8, max: usize) -> Result<Header, DecodeError> {
        Header::decode_limited(bytes, direction, (max, HEAD_MAX, DATA_OP_MAX))
    }

    /// The same with other limits: most bytes after the header, of the message, of the payload.
    pub(crate) fn decode_limited(
        bytes: &[u8; HEADER_LEN],
        direction: u8,
        (max, head_max, payload_max): (usize, usize, usize),
    ) -> Result<Header, DecodeError> {
        let found = [bytes[0], bytes[1]];
        if found != MAGIC {
            return Err(DecodeError::Magic { found });
        }
        if bytes[2] != FRAME_VERSION {
            return Err(DecodeError::Version { found: bytes[2], known: FRAME_VERSION });
        }
        if bytes[3] != direction {
            return Err(DecodeError::Direction { found: bytes[3] });
        }
        let head_len = u32_at(bytes, 4);
        let payload_len = u32_at(bytes, 8);
        limit(u64::from(head_len), max.min(head_max))?;
        limit(u64::from(payload_len), max.min(payload_max))?;
        limit(u64::from(head_len) + u64::from(payload_len), max)?;
        Ok(Header {
            head_len: head_len as usize,
            payload_len: payload_len as usize,
            crc: u32_at(bytes, 12),
            crc_start: crc32c::crc32c(&bytes[..12]),
        })
    }

    /// Checks the message against the header's checksum.
    pub(crate) fn check(&self, head: &[u8]) -> Result<(), DecodeError> {
        let computed = crc32c::crc32c_append(self.crc_start, head);
        if computed != self.crc {
            return Err(DecodeError::Checksum { found: self.crc, computed });
        }
        Ok(())
    }
}

/// Writes the header into the 16 bytes at `start`; the message stands behind them to the end of `out`.
pub(crate) fn seal(out: &mut [u8], start: usize, direction: u8, payload_len: usize) {
    let frame = &mut out[start..];
    let head_len = frame.len() - HEADER_LEN;
    frame[..2].copy_from_slice(&MAGIC);
    frame[2] = FRAME_VERSION;
    frame[3] = direction;
    frame[4..8].copy_from_slice(&(head_len as u32).to_le_bytes());
    frame[8..12].copy_from_slice(&(payload_len as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&frame[..12]), &frame[HEADER_LEN..]);
    frame[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn limit(len: u64, max: usize) -> Result<(), DecodeError> {
    let max = max as u64;
    if len > max { Err(DecodeError::TooLong { len, max }) } else { Ok(()) }
}

fn u32_at(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
