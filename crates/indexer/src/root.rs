//! ROOT files: the baskets of their trees, found by the headers of the file's records; nothing is decompressed and no object is read. A basket becomes
//! the file `TREE/BRANCH/NUMBER`, as in the thesis' namespace approach: a directory for each branch, a file for each basket.

use std::collections::BTreeMap;

use loligo_schema::{Body, Slice};
use loligo_types::Time;

use crate::fault::{About, Cause, Fault};
use crate::name::path_of;
use crate::{Input, Options, Sink};

/// Longest header of a record that is read, bytes: three names and numbers.
const HEAD_MAX: u64 = 4096;
/// Versions of files and records from this on have 64-bit places.
const BIG_FILE: u32 = 1_000_000;
const BIG_RECORD: u16 = 1000;

/// Indexes a file.
///
/// # Errors
///
/// The first record that does not make sense, with the cause.
pub fn index(input: &Input<'_>, options: &Options, sink: &mut dyn Sink) -> Result<(), Fault> {
    let (begin, end) = head(input).about(b"")?;
    let mut baskets: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut at = begin;
    while at < end {
        input.at(at);
        let place = format!("record at byte {at}");
        let record = record(input, at, end).about(place.as_bytes())?;
        if let Some((class, branch, tree)) = &record.names
            && class == b"TBasket"
        {
            let dir = [&tree[..], b"/", &branch[..]].concat();
            let number = baskets.entry(dir.clone()).or_default();
            let path = [&dir[..], format!("/{number:06}").as_bytes()].concat();
            *number += 1;
            let Some((path, false)) = path_of(&path).about(place.as_bytes())? else {
                return Err(Fault::new(place.as_bytes(), Cause::NoPath));
            };
            let slice = Slice { source: input.source(), offset: at, len: record.len };
            let mut attributes = options.file;
            attributes.mtime = record.time;
            sink.add(path, attributes, Some(Body::Slices([slice].into()))).about(place.as_bytes())?;
        }
        at += record.len;
    }
    Ok(())
}

/// First and last byte of the records.
fn head(input: &Input<'_>) -> Result<(u64, u64), Cause> {
    let mut head = [0; 20];
    input.read("the head", 0, &mut head)?;
    if head[..4] != *b"root" {
        return Err(Cause::Format("ROOT file"));
    }
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let begin = u64::from(number(8));
    let end = match number(4) >= BIG_FILE {
        true => u64::from(number(12)) << 32 | u64::from(number(16)),
        false => u64::from(number(12)),
    };
    if begin < head.len() as u64 || begin > end {
        return Err(Cause::Contradiction { what: "where its records begin", expected: end, found: begin });
    }
    if end > input.len() {
        return Err(Cause::Truncated { what: "its last record", end, len: input.len() });
    }
    Ok((begin, end))
}

/// A record of the file.
struct Record {
    len: u64,
    time: Option<Time>,
    /// Class, name and title; none: free space.
    names: Option<(Vec<u8>, Vec<u8>, Vec<u8>)>,
}

fn record(input: &Input<'_>, at: u64, end: u64) -> Result<Record, Cause> {
    let left = end - at;
    let mut bytes = vec![0; left.min(HEAD_MAX) as usize];
    input.read("a record", at, &mut bytes)?;
    let mut from = Bytes { bytes: &bytes, at: 0 };
    let len = from.u32()? as i32;
    if len == 0 || u64::from(len.unsigned_abs()) > left {
        return Err(Cause::Truncated {
            what: "a record",
            end: at.saturating_add(u64::from(len.unsigned_abs())),
            len: end,
        });
    }
    if len < 0 {
        return Ok(Record { len: u64::from(len.unsigned_abs()), time: None, names: None });
    }
    let version = from.u16()?;
    let _content = from.u32()?;
    let time = date(from.u32()?);
    let head = from.u16()?;
    let _cycle = from.u16()?;
    let own = match version > BIG_RECORD {
        true => u64::from(from.u32()?) << 32 | u64::from(from.u32()?),
        false => u64::from(from.u32()?),
    };
    from.take(if version > BIG_RECORD { 8 } else { 4 })?;
    let names = (from.name()?, from.name()?, from.name()?);
    // Baskets say where they are; a few other records, such as the first, do not.
    if names.0 == b"TBasket" && (own != at || u64::from(head) > u64::from(len.unsigned_abs())) {
        return Err(Cause::Contradiction { what: "where it is", expected: at, found: own });
    }
    Ok(Record { len: u64::from(len.unsigned_abs()), time, names: Some(names) })
}

/// Seconds of a packed date, which has no zone and is taken for UTC.
fn date(packed: u32) -> Option<Time> {
    let bits = |shift: u32, count: u32| i64::from(packed >> shift & ((1 << count) - 1));
    let (year, month, day) = (bits(26, 6) + 1995, bits(22, 4), bits(17, 5));
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(Time::new(days * 86_400 + bits(12, 5) * 3600 + bits(6, 6) * 60 + bits(0, 6), 0))
}

struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Cause> {
        let taken = self.bytes.get(self.at..self.at + len);
        self.at += len;
        taken.ok_or(Cause::Truncated {
            what: "the header of a record",
            end: self.at as u64,
            len: self.bytes.len() as u64,
        })
    }

    fn u16(&mut self) -> Result<u16, Cause> {
        Ok(self.take(2)?.iter().fold(0, |number, byte| number << 8 | u16::from(*byte)))
    }

    fn u32(&mut self) -> Result<u32, Cause> {
        Ok(self.take(4)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// A length of one byte, or 255 and one of four, and the bytes.
    fn name(&mut self) -> Result<Vec<u8>, Cause> {
        let len = match self.take(1)?[0] {
            255 => self.u32()? as usize,
            len => usize::from(len),
        };
        if len as u64 > HEAD_MAX {
            return Err(Cause::TooLong { what: "a name in a record", found: len as u64, max: HEAD_MAX });
        }
        Ok(self.take(len)?.to_vec())
    }
}
