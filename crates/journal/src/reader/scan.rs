//! Scan of the bytes behind the last whole record of a segment: nothing, the rest of a torn write, or proof of damage.

use std::ops::Range;

use loligo_types::Lsn;

use super::Source;
use crate::frame::{FRAME_LEN, Frame, Salt};

/// Bytes looked at in one go.
const CHUNK: usize = 256 << 10;

/// Result of the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Leftover {
    /// Bytes up to the last one that is not zero.
    pub bytes: u64,
    /// Frames of later records.
    pub records: u64,
    /// A later record that was written when the broken one was durable.
    pub proof: Option<Lsn>,
}

/// Looks at every byte of `range`. `broken` is the record that should stand at its start.
pub(crate) fn scan<S: Source>(
    source: &mut S,
    salt: Salt,
    segment: u64,
    range: Range<u64>,
    broken: Lsn,
) -> Result<Leftover, S::Error> {
    let mut found = Leftover::default();
    let mut buf = vec![0; CHUNK.min((range.end - range.start) as usize)];
    let mut base = range.start;
    let mut resume = range.start;
    while base < range.end {
        let want = buf.len().min((range.end - base) as usize);
        let count = source.read_at(segment, base, &mut buf[..want])?;
        let chunk = &buf[..count];
        if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
            found.bytes = base + last as u64 + 1 - range.start;
            resume = frames_in(chunk, base, resume.max(base), salt, broken, &mut found);
        }
        // A frame may lie across two chunks: the next begins with the bytes that were too few for one.
        if count < want || base + count as u64 == range.end {
            break;
        }
        base += (count - (FRAME_LEN - 1)) as u64;
    }
    Ok(found)
}

/// Notes the frames that begin in `chunk` at or behind `from`; says from where to go on.
fn frames_in(chunk: &[u8], base: u64, from: u64, salt: Salt, broken: Lsn, found: &mut Leftover) -> u64 {
    let mut at = (from - base) as usize;
    while at + FRAME_LEN <= chunk.len() {
        match later_frame(&chunk[at..], salt, broken) {
            Some(frame) => {
                found.records += 1;
                if frame.durable >= broken && found.proof.is_none() {
                    found.proof = Some(frame.lsn);
                }
                at += FRAME_LEN + frame.len as usize;
            }
            None => at += 1,
        }
    }
    base + at as u64
}

/// The frame of a record after `broken`. The number is looked at first: that spares almost every checksum.
fn later_frame(bytes: &[u8], salt: Salt, broken: Lsn) -> Option<Frame> {
    let lsn = u64::from_le_bytes(crate::segment::field(bytes, 8));
    let ahead = lsn.wrapping_sub(broken.0);
    if ahead == 0 || ahead > u64::from(u32::MAX) {
        return None;
    }
    Frame::decode(salt, bytes)
}
