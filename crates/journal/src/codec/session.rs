//! The bytes of a session record without its id (which stands in the key or before it).

use loligo_types::{Ino, InoGrant, InoGrants, Seq, SessionId, SessionRecord};

use super::{Cursor, DecodeError, put_bytes, put_u64};

// Flags of a session. Persisted: keep stable.
const LOCAL: u8 = 1 << 0;
const GRANTS: u8 = 1 << 1;
const ADDRESSES: u8 = 1 << 2;
/// The shortest address.
const ADDRESS_MIN: usize = 1;
/// The shortest grant of inode numbers: first, how many, and how many ranges of them are used.
const GRANT_MIN: usize = 3;
/// The shortest range of used ones.
const USED_MIN: usize = 2;
/// The shortest executed request: number, inode and value of one byte each.
const DONE_MIN: usize = 3;

/// Appends a session without its id.
pub(crate) fn put_session(out: &mut Vec<u8>, session: &SessionRecord) {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    let (grants, addresses) = (!session.grants.is_empty(), !session.addresses.is_empty());
    out.push(bit(session.local, LOCAL) | bit(grants, GRANTS) | bit(addresses, ADDRESSES));
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
    if addresses {
        put_addresses(out, &session.addresses);
    }
}

/// Appends addresses of clients in the store.
pub(crate) fn put_addresses(out: &mut Vec<u8>, addresses: &[Box<[u8]>]) {
    put_u64(out, addresses.len() as u64);
    addresses.iter().for_each(|address| put_bytes(out, address));
}

/// Takes some; none would not have been put.
pub(crate) fn take_addresses(from: &mut Cursor<'_>) -> Result<Vec<Box<[u8]>>, DecodeError> {
    let count = from.count(ADDRESS_MIN, "number of addresses in the store")?;
    if count == 0 {
        return Err(from.invalid("number of addresses in the store"));
    }
    (0..count).map(|_| Ok(Box::from(from.bytes()?))).collect()
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
    if flags & !(LOCAL | GRANTS | ADDRESSES) != 0 {
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
    let addresses = if flags & ADDRESSES != 0 { take_addresses(from)? } else { Vec::new() };
    Ok(SessionRecord { id, name, client, local, uid, answered, done, grants, addresses })
}
