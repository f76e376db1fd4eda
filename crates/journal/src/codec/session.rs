//! The bytes of a session record without its id (which stands in the key or before it).

use loligo_types::{Ino, InoGrant, InoGrants, Seq, SessionId, SessionRecord};

use super::{Cursor, DecodeError, put_bytes, put_u64};

// Flags of a session. Persisted: keep stable.
const LOCAL: u8 = 1 << 0;
const GRANTS: u8 = 1 << 1;
/// The shortest grant of inode numbers: first, how many, and how many ranges of them are used.
const GRANT_MIN: usize = 3;
/// The shortest range of used ones.
const USED_MIN: usize = 2;
/// The shortest executed request: number, inode and value of one byte each.
const DONE_MIN: usize = 3;

/// Appends a session without its id.
pub(crate) fn put_session(out: &mut Vec<u8>, session: &SessionRecord) {
    out.push(if session.local { LOCAL } else { 0 } | if session.grants.is_empty() { 0 } else { GRANTS });
    put_bytes(out, &session.name);
    put_u64(out, u64::from(session.uid));
    put_u64(out, session.client);
    put_u64(out, session.answered.0);
    put_u64(out, session.done.len() as u64);
    for (seq, ino, value) in &session.done {
        put_u64(out, seq.0);
        put_u64(out, ino.0);
        put_u64(out, *value);
    }
    if !session.grants.is_empty() {
        put_grants(out, &session.grants);
    }
}

fn put_grants(out: &mut Vec<u8>, grants: &InoGrants) {
    put_u64(out, grants.0.len() as u64);
    for InoGrant { first, count, used } in &grants.0 {
        put_u64(out, first.0);
        put_u64(out, u64::from(*count));
        put_u64(out, used.len() as u64);
        for (from, to) in used {
            put_u64(out, u64::from(*from));
            put_u64(out, u64::from(*to));
        }
    }
}

fn take_grants(from: &mut Cursor<'_>) -> Result<InoGrants, DecodeError> {
    let count = from.count(GRANT_MIN, "number of grants of inode numbers")?;
    let mut grants = Vec::with_capacity(count);
    for _ in 0..count {
        let (first, numbers) = (Ino(from.u64()?), from.u32()?);
        let ranges = from.count(USED_MIN, "number of ranges of used inode numbers")?;
        let mut used = Vec::with_capacity(ranges);
        for _ in 0..ranges {
            used.push((from.u32()?, from.u32()?));
        }
        let grant = InoGrant { first, count: numbers, used };
        if !grant.is_valid() {
            return Err(from.invalid("grant of inode numbers"));
        }
        grants.push(grant);
    }
    if grants.is_empty() {
        return Err(from.invalid("number of grants of inode numbers"));
    }
    Ok(InoGrants(grants))
}

/// Takes a session; its id comes from elsewhere.
pub(crate) fn take_session(from: &mut Cursor<'_>, id: SessionId) -> Result<SessionRecord, DecodeError> {
    let flags = from.u8()?;
    if flags & !(LOCAL | GRANTS) != 0 {
        return Err(from.invalid("session flags"));
    }
    let local = flags & LOCAL != 0;
    let name = from.bytes()?.into();
    let uid = from.u32()?;
    let client = from.u64()?;
    let answered = Seq(from.u64()?);
    let count = from.count(DONE_MIN, "number of executed requests")?;
    let mut done = Vec::with_capacity(count);
    for _ in 0..count {
        done.push((Seq(from.u64()?), Ino(from.u64()?), from.u64()?));
    }
    let grants = if flags & GRANTS != 0 { take_grants(from)? } else { InoGrants::default() };
    Ok(SessionRecord { id, name, client, local, uid, answered, done, grants })
}
