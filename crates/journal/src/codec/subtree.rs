//! The bytes of a decoupled subtree's record without its root (which stands in the key or before it).

use loligo_types::{DecoupledRecord, Ino, SessionId};

use super::{Cursor, DecodeError, put_bytes, put_u64};

/// The shortest range of numbers: the first, and how many.
const GRANT_MIN: usize = 2;

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
    put_u64(out, record.grants.len() as u64);
    for (first, count) in &record.grants {
        put_u64(out, first.0);
        put_u64(out, *count);
    }
}

/// Takes one; its numbers ascend and none ends beyond the last that there is.
pub fn take_decoupled(from: &mut Cursor<'_>, dir: Ino) -> Result<DecoupledRecord, DecodeError> {
    let mut record = DecoupledRecord {
        dir,
        epoch: from.u64()?,
        owner: u64::from_le_bytes(from.array()?),
        session: SessionId(from.u64()?),
        uid: from.u32()?,
        name: from.bytes()?.into(),
        lease_ms: from.u32()?,
        used: Ino(from.u64()?),
        merges: from.u64()?,
        grants: Vec::new(),
    };
    let count = from.count(GRANT_MIN, "number of granted ranges")?;
    let mut after = 0;
    for _ in 0..count {
        let (first, length) = (from.u64()?, from.u64()?);
        let end = first.checked_add(length).filter(|_| first >= after && length > 0);
        after = end.ok_or_else(|| from.invalid("granted numbers"))?;
        record.grants.push((Ino(first), length));
    }
    Ok(record)
}
