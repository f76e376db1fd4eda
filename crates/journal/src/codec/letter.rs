//! The bytes of what a rank durably promises another one: routes, letters and what clients hold. Not their order.

use std::sync::Arc;

use loligo_types::msg::Reclaim;
use loligo_types::{
    Event, FileLock, Frag, Ino, Lease, Letter, LockKind, LockOwner, MovedClient, OpenFlags, PeerRecord, Rank, Route,
};

use super::event::{put_event, take_event};
use super::session::{put_addresses, take_addresses};
use super::{Cursor, DecodeError, EVENT_MIN, put_bytes, put_inode, put_u64, put_zigzag, take_inode};

/// The kinds of letters. Persisted: keep stable, never reuse.
mod code {
    pub const COMMIT: u8 = 1;
    pub const IMPORT: u8 = 2;
    pub const SUM: u8 = 3;
    pub const FRAGMENT: u8 = 4;
}

/// Added to the number of a client's user if addresses in the store follow. Persisted: keep stable.
const ADDRESSES: u64 = 1 << 32;
// Flags of an open. Persisted: keep stable.
const READ: u8 = 1;
const WRITE: u8 = 2;
const TRUNCATE: u8 = 4;
const APPEND: u8 = 8;
const EXEC: u8 = 16;
const OPEN_ALL: u8 = 31;
/// All bits of a lease.
const LEASE_ALL: u8 = 31;

/// Appends a rank.
pub fn put_rank(out: &mut Vec<u8>, rank: Rank) {
    put_u64(out, u64::from(rank.0));
}

/// Takes a rank.
pub fn take_rank(from: &mut Cursor<'_>) -> Result<Rank, DecodeError> {
    u16::try_from(from.u64()?).map(Rank).map_err(|_| from.invalid("rank"))
}

/// Appends a fragment.
pub fn put_frag(out: &mut Vec<u8>, frag: Frag) {
    out.push(frag.bits);
    put_u64(out, u64::from(frag.value));
}

/// Takes a fragment.
pub fn take_frag(from: &mut Cursor<'_>) -> Result<Frag, DecodeError> {
    let bits = from.u8()?;
    let value = from.u32()?;
    Frag::new(bits, value).ok_or_else(|| from.invalid("fragment"))
}

/// Appends a line of the subtree map, but for its directory.
pub fn put_route(out: &mut Vec<u8>, route: &Route) {
    put_frag(out, route.frag);
    put_rank(out, route.rank);
    put_u64(out, route.version);
}

/// Takes it; the directory comes from elsewhere.
pub fn take_route(from: &mut Cursor<'_>, dir: Ino) -> Result<Route, DecodeError> {
    Ok(Route { dir, frag: take_frag(from)?, rank: take_rank(from)?, version: from.u64()? })
}

/// Appends how far letters have come, but for the other rank.
pub(crate) fn put_peer(out: &mut Vec<u8>, peer: &PeerRecord) {
    put_u64(out, peer.sent);
    put_u64(out, peer.acked);
    put_u64(out, peer.received);
}

/// Takes it; the other rank comes from elsewhere.
pub(crate) fn take_peer(from: &mut Cursor<'_>, rank: Rank) -> Result<PeerRecord, DecodeError> {
    Ok(PeerRecord { rank, sent: from.u64()?, acked: from.u64()?, received: from.u64()? })
}

/// Appends a number of items and the items.
pub fn put_list<T>(out: &mut Vec<u8>, list: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_u64(out, list.len() as u64);
    list.iter().for_each(|one| put(out, one));
}

/// Takes them; each has `min` bytes at least.
pub fn take_list<T>(
    from: &mut Cursor<'_>,
    min: usize,
    what: &'static str,
    mut take: impl FnMut(&mut Cursor<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = from.count(min, what)?;
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(take(from)?);
    }
    Ok(list)
}

/// Appends a list of inode numbers: each but the first as its distance to the one before.
pub(crate) fn put_inos(out: &mut Vec<u8>, inos: &[Ino]) {
    let mut before = 0;
    put_list(out, inos, |out, ino| {
        put_zigzag(out, ino.0.wrapping_sub(before) as i64);
        before = ino.0;
    });
}

/// Takes one.
pub(crate) fn take_inos(from: &mut Cursor<'_>) -> Result<Arc<[Ino]>, DecodeError> {
    let mut before = 0u64;
    let inos = take_list(from, 1, "number of inodes", |from| {
        before = before.wrapping_add(from.zigzag()? as u64);
        Ok(Ino(before))
    })?;
    Ok(inos.into())
}

/// Appends a letter.
pub fn put_letter(out: &mut Vec<u8>, letter: &Letter) {
    match letter {
        Letter::Commit { tx, events } => {
            out.push(code::COMMIT);
            put_u64(out, *tx);
            put_list(out, events, put_event);
        }
        Letter::Import { routes, events, clients } => {
            out.push(code::IMPORT);
            put_moved(out, routes, events, clients);
        }
        Letter::Fragment { part, routes, events, clients } => {
            out.push(code::FRAGMENT);
            put_u64(out, part.ino.0);
            put_inode(out, part);
            put_moved(out, routes, events, clients);
        }
        Letter::Sum { dir, entries, bytes } => {
            out.push(code::SUM);
            put_u64(out, dir.0);
            put_zigzag(out, *entries);
            put_zigzag(out, *bytes);
        }
    }
}

/// Appends what moves to another rank.
fn put_moved(out: &mut Vec<u8>, routes: &[Route], events: &[Event], clients: &[MovedClient]) {
    put_list(out, routes, |out, route| {
        put_u64(out, route.dir.0);
        put_route(out, route);
    });
    put_list(out, events, put_event);
    put_list(out, clients, put_client);
}

fn take_routes(from: &mut Cursor<'_>) -> Result<Vec<Route>, DecodeError> {
    take_list(from, 5, "number of routes", |from| {
        let dir = Ino(from.u64()?);
        take_route(from, dir)
    })
}

/// Takes a letter. None lies in another one.
pub fn take_letter(from: &mut Cursor<'_>) -> Result<Letter, DecodeError> {
    Ok(match from.u8()? {
        code::COMMIT => Letter::Commit { tx: from.u64()?, events: take_events(from)? },
        code::IMPORT => Letter::Import {
            routes: take_routes(from)?,
            events: take_events(from)?,
            clients: take_list(from, 6, "number of clients", take_client)?,
        },
        code::FRAGMENT => {
            let dir = Ino(from.u64()?);
            let part = Box::new(take_inode(from, dir)?);
            if part.part_of().is_none() {
                return Err(from.invalid("part of a directory"));
            }
            Letter::Fragment {
                part,
                routes: take_routes(from)?,
                events: take_events(from)?,
                clients: take_list(from, 6, "number of clients", take_client)?,
            }
        }
        code::SUM => Letter::Sum { dir: Ino(from.u64()?), entries: from.zigzag()?, bytes: from.zigzag()? },
        _ => return Err(from.invalid("kind of a letter")),
    })
}

fn take_events(from: &mut Cursor<'_>) -> Result<Vec<Event>, DecodeError> {
    take_list(from, EVENT_MIN, "number of events in a letter", |from| {
        // Before it is read: letters in letters would make this as deep as the bytes are many.
        if from.peek() == Some(super::event::LETTER) {
            return Err(from.invalid("a letter in a letter"));
        }
        if from.peek() == Some(super::event::INLINE_PATCH) {
            return Err(from.invalid("a change of data in a letter"));
        }
        take_event(from)
    })
}

fn put_client(out: &mut Vec<u8>, client: &MovedClient) {
    put_u64(out, client.client);
    put_bytes(out, &client.name);
    put_u64(out, u64::from(client.uid) | if client.addresses.is_empty() { 0 } else { ADDRESSES });
    if !client.addresses.is_empty() {
        put_addresses(out, &client.addresses);
    }
    put_list(out, &client.held.opens, |out, (handle, ino, flags, rights)| {
        put_u64(out, *handle);
        put_u64(out, ino.0);
        out.extend_from_slice(&[open_bits(*flags), rights.0]);
    });
    let mut before = 0;
    put_list(out, &client.held.leases, |out, (ino, bits)| {
        put_zigzag(out, ino.0.wrapping_sub(before) as i64);
        before = ino.0;
        out.push(bits.0);
    });
    put_list(out, &client.held.locks, |out, (ino, handle, lock)| {
        put_u64(out, ino.0);
        put_u64(out, *handle);
        put_lock(out, lock);
    });
}

fn take_client(from: &mut Cursor<'_>) -> Result<MovedClient, DecodeError> {
    let client = from.u64()?;
    let name = from.bytes()?.into();
    let user = from.u64()?;
    let Ok(uid) = u32::try_from(user & !ADDRESSES) else { return Err(from.invalid("user")) };
    let addresses = if user & ADDRESSES != 0 { take_addresses(from)? } else { Vec::new() };
    let opens = take_list(from, 4, "number of open files", |from| {
        Ok((from.u64()?, Ino(from.u64()?), take_flags(from)?, take_lease(from)?))
    })?;
    let mut before = 0u64;
    let leases = take_list(from, 2, "number of leases", |from| {
        before = before.wrapping_add(from.zigzag()? as u64);
        Ok((Ino(before), take_lease(from)?))
    })?;
    let locks = take_list(from, 7, "number of locks", |from| Ok((Ino(from.u64()?), from.u64()?, take_lock(from)?)))?;
    Ok(MovedClient { client, name, uid, addresses, held: Reclaim { opens, leases, locks } })
}

fn open_bits(flags: OpenFlags) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    bit(flags.read, READ)
        | bit(flags.write, WRITE)
        | bit(flags.truncate, TRUNCATE)
        | bit(flags.append, APPEND)
        | bit(flags.exec, EXEC)
}

fn take_flags(from: &mut Cursor<'_>) -> Result<OpenFlags, DecodeError> {
    let bits = from.u8()?;
    if bits & !OPEN_ALL != 0 {
        return Err(from.invalid("flags of an open file"));
    }
    let has = |bit| bits & bit != 0;
    Ok(OpenFlags { read: has(READ), write: has(WRITE), truncate: has(TRUNCATE), append: has(APPEND), exec: has(EXEC) })
}

/// Takes the bits of a lease.
pub fn take_lease(from: &mut Cursor<'_>) -> Result<Lease, DecodeError> {
    let bits = from.u8()?;
    if bits & !LEASE_ALL != 0 { Err(from.invalid("lease")) } else { Ok(Lease(bits)) }
}

/// Flag of a lock: exclusive; and its family. Persisted: keep stable.
const EXCLUSIVE: u8 = 1;
const POSIX: u8 = 2;

fn put_lock(out: &mut Vec<u8>, lock: &FileLock) {
    let kind = if lock.kind == LockKind::Posix { POSIX } else { 0 };
    out.push(kind | if lock.exclusive { EXCLUSIVE } else { 0 });
    put_u64(out, lock.owner.0);
    put_u64(out, u64::from(lock.pid));
    put_u64(out, lock.start);
    // The end is mostly the largest number: plus one it is a single byte.
    put_u64(out, lock.end.wrapping_add(1));
}

fn take_lock(from: &mut Cursor<'_>) -> Result<FileLock, DecodeError> {
    let bits = from.u8()?;
    if bits & !(EXCLUSIVE | POSIX) != 0 {
        return Err(from.invalid("flags of a lock"));
    }
    Ok(FileLock {
        kind: if bits & POSIX != 0 { LockKind::Posix } else { LockKind::Flock },
        exclusive: bits & EXCLUSIVE != 0,
        owner: LockOwner(from.u64()?),
        pid: from.u32()?,
        start: from.u64()?,
        end: from.u64()?.wrapping_sub(1),
    })
}
