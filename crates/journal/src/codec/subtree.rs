//! The bytes of a decoupled subtree's record without its root (which stands in the key or before it).

use loligo_types::{DecoupledRecord, Ino, Interfere, Overwritten, Promise, SessionId, StoredJournal};

use super::{Cursor, DecodeError, put_bytes, put_u64};

/// The shortest range of numbers: the first, and how many.
const RANGE_MIN: usize = 2;
/// The shortest row of files that are overwritten: the first, its copy, and how many.
const FILES_MIN: usize = 3;
/// In the byte of terms: others read the state of the last merge.
const READ: u8 = 1 << 4;
/// In the same byte of a record: others work there, and of some files they and the owner each have a version.
const FORKS: u8 = 1 << 5;

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
    let forks = record.interfere == Interfere::Allow && !record.overwritten.is_empty();
    out.push(put_terms(record.interfere, record.promise) | if forks { FORKS } else { 0 });
    let journal = record.journal.unwrap_or(StoredJournal { ino: Ino(0), bytes: 0 });
    put_u64(out, journal.ino.0);
    put_u64(out, journal.bytes);
    put_ranges(out, &record.objects);
    if record.interfere == Interfere::Read || forks {
        put_u64(out, record.overwritten.len() as u64);
        for Overwritten { file, copy, count } in &record.overwritten {
            [file.0, copy.0, *count].into_iter().for_each(|number| put_u64(out, number));
        }
    }
}

/// Takes one; its ranges of numbers ascend and none ends beyond the last number that there is.
pub fn take_decoupled(from: &mut Cursor<'_>, dir: Ino) -> Result<DecoupledRecord, DecodeError> {
    let record = take_decoupled_v1(from, dir)?;
    let byte = from.u8()?;
    let forks = byte & FORKS != 0;
    let (interfere, promise) = terms_of(from, byte & !FORKS)?;
    if forks && interfere != Interfere::Allow {
        return Err(from.invalid("what others meet in a subtree"));
    }
    let journal = StoredJournal { ino: Ino(from.u64()?), bytes: from.u64()? };
    let journal = (journal.ino.0 != 0 || journal.bytes != 0).then_some(journal);
    if journal.is_some_and(|journal| journal.ino.0 == 0) {
        return Err(from.invalid("number of a stored journal"));
    }
    let objects = take_ranges(from, "numbers that have objects")?;
    let overwritten = if interfere == Interfere::Read || forks { take_overwritten(from)? } else { Vec::new() };
    if forks && overwritten.is_empty() {
        return Err(from.invalid("files that are overwritten"));
    }
    Ok(DecoupledRecord { interfere, journal, objects, promise, overwritten, ..record })
}

fn take_overwritten(from: &mut Cursor<'_>) -> Result<Vec<Overwritten>, DecodeError> {
    let rows = from.count(FILES_MIN, "number of rows of files")?;
    let (mut all, mut after) = (Vec::new(), 0);
    for _ in 0..rows {
        let (file, copy, count) = (from.u64()?, from.u64()?, from.u64()?);
        let ends = [file, copy].map(|first| first.checked_add(count));
        after = match ends {
            [Some(end), Some(_)] if file >= after && file > 0 && copy > 0 && count > 0 => end,
            _ => return Err(from.invalid("files that are overwritten")),
        };
        all.push(Overwritten { file: Ino(file), copy: Ino(copy), count });
    }
    Ok(all)
}

/// The byte of what others meet in a subtree (bits 0 and 4; in a record also 5), and of what its owner gives (bits 1 to 3; 0 where that was not said).
pub fn put_terms(interfere: Interfere, promise: Promise) -> u8 {
    let met = match interfere {
        Interfere::Block => 0,
        Interfere::Allow => 1,
        Interfere::Read => READ,
    };
    met | promise.code() << 1
}

/// Takes that byte.
pub fn take_terms(from: &mut Cursor<'_>) -> Result<(Interfere, Promise), DecodeError> {
    let byte = from.u8()?;
    terms_of(from, byte)
}

fn terms_of(from: &Cursor<'_>, byte: u8) -> Result<(Interfere, Promise), DecodeError> {
    let interfere = match byte & (1 | READ) {
        0 => Interfere::Block,
        1 => Interfere::Allow,
        READ => Interfere::Read,
        _ => return Err(from.invalid("what others meet in a subtree")),
    };
    let promise = Promise::from_code((byte & !READ) >> 1).ok_or_else(|| from.invalid("what a subtree promises"))?;
    Ok((interfere, promise))
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
