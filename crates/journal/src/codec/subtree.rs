//! The bytes of a decoupled subtree's record without its root (which stands in the key or before it).

use loligo_types::{DecoupledRecord, Ino, Interfere, SessionId, StoredJournal};

use super::{Cursor, DecodeError, put_bytes, put_u64};

/// The shortest range of numbers: the first, and how many.
const RANGE_MIN: usize = 2;

/// Appends one.
pub fn put_decoupled(out: &mut Vec<u8>, record: &DecoupledRecord) {
    put_u64(out, record.epoch);
    // Chosen at random: a varint would be longer.
    out.extend_from_slice(&record.owner.to_le_bytes());
    put_u64(out, record.session.0);
    put_u64(out, u64::from(record.uid));
    put_bytes(out, &record.name);
    put_u64(out, u64::from(record.lease_ms));
    put_u64(out, record.used.0);
    put_u64(out, record.merges);
    put_ranges(out, &record.grants);
    out.push(record.interfere as u8);
    let journal = record.journal.unwrap_or(StoredJournal { ino: Ino(0), bytes: 0 });
    put_u64(out, journal.ino.0);
    put_u64(out, journal.bytes);
    put_ranges(out, &record.objects);
}

/// Takes one; its ranges of numbers ascend and none ends beyond the last number that there is.
pub fn take_decoupled(from: &mut Cursor<'_>, dir: Ino) -> Result<DecoupledRecord, DecodeError> {
    let record = take_decoupled_v1(from, dir)?;
    let interfere = match from.u8()? {
        0 => Interfere::Block,
        1 => Interfere::Allow,
        _ => return Err(from.invalid("what others meet in a subtree")),
    };
    let journal = StoredJournal { ino: Ino(from.u64()?), bytes: from.u64()? };
    let journal = (journal.ino.0 != 0 || journal.bytes != 0).then_some(journal);
    if journal.is_some_and(|journal| journal.ino.0 == 0) {
        return Err(from.invalid("number of a stored journal"));
    }
    Ok(DecoupledRecord { interfere, journal, objects: take_ranges(from, "numbers that have objects")?, ..record })
}

/// One as it was written before there was more to say of it.
pub fn take_decoupled_v1(from: &mut Cursor<'_>, dir: Ino) -> Result<DecoupledRecord, DecodeError> {
    Ok(DecoupledRecord {
        dir,
        epoch: from.u64()?,
        owner: u64::from_le_bytes(from.array()?),
        session: SessionId(from.u64()?),
        uid: from.u32()?,
        name: from.bytes()?.into(),
        lease_ms: from.u32()?,
        used: Ino(from.u64()?),
        merges: from.u64()?,
        grants: take_ranges(from, "granted numbers")?,
        ..DecoupledRecord::default()
    })
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[(Ino, u64)]) {
    put_u64(out, ranges.len() as u64);
    for (first, count) in ranges {
        put_u64(out, first.0);
        put_u64(out, *count);
    }
}

fn take_ranges(from: &mut Cursor<'_>, what: &'static str) -> Result<Vec<(Ino, u64)>, DecodeError> {
    let count = from.count(RANGE_MIN, "number of ranges")?;
    let (mut ranges, mut after) = (Vec::new(), 0);
    for _ in 0..count {
        let (first, length) = (from.u64()?, from.u64()?);
        let end = first.checked_add(length).filter(|_| first >= after && length > 0);
        after = end.ok_or_else(|| from.invalid(what))?;
        ranges.push((Ino(first), length));
    }
    Ok(ranges)
}
