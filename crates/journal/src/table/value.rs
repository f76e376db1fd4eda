//! Values: a version byte and the same bytes as in the journal, without what the key already says.

use std::sync::Arc;

use loligo_types::{DecoupledRecord, Ino, Inode, PeerRecord, Rank, Route, SessionId, SessionRecord, Target};

use crate::codec::{
    Cursor, DecodeError, entry_kind, put_decoupled, put_inode, put_object_size, put_peer, put_rank, put_session,
    put_u64, take_decoupled, take_decoupled_v1, take_entry_kind, take_inode, take_object_size, take_peer, take_rank,
    take_session,
};

/// Version of every value, its first byte. Persisted.
pub const VALUE_VERSION: u8 = 2;
/// First byte of values of decoupled subtrees; those of version 2, which said less, are read.
const DECOUPLED_VERSION: u8 = 3;

/// Version of the table's layout as a whole, the value of `Meta::Format`. Persisted.
pub const TABLE_VERSION: u64 = 2;

/// Value of an inode.
pub fn encode_inode(inode: &Inode) -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    out.push(VALUE_VERSION);
    put_inode(&mut out, inode);
    out
}

/// Reads the value of an inode; `ino` stands in its key.
pub fn decode_inode(ino: Ino, value: &[u8]) -> Result<Inode, DecodeError> {
    whole(value, "inode value", |from| take_inode(from, ino))
}

/// Value of a directory entry.
pub fn encode_entry(target: Target) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    out.extend_from_slice(&[VALUE_VERSION, entry_kind(target.kind, target.remote)]);
    put_u64(&mut out, target.ino.0);
    out
}

/// Reads the value of a directory entry.
pub fn decode_entry(value: &[u8]) -> Result<Target, DecodeError> {
    whole(value, "entry value", |from| {
        let (kind, remote) = take_entry_kind(from)?;
        Ok(Target { ino: Ino(from.u64()?), kind, remote })
    })
}

/// Value of an xattr.
pub fn encode_xattr(value: &[u8]) -> Vec<u8> {
    versioned(value)
}

/// Reads the value of an xattr.
pub fn decode_xattr(value: &[u8]) -> Result<Arc<[u8]>, DecodeError> {
    whole(value, "xattr value", |from| Ok(from.rest().into()))
}

/// Value of the data held in an inode.
pub fn encode_inline(data: &[u8]) -> Vec<u8> {
    versioned(data)
}

/// Reads the data held in an inode.
pub fn decode_inline(value: &[u8]) -> Result<Arc<[u8]>, DecodeError> {
    whole(value, "inline value", |from| Ok(from.rest().into()))
}

/// Value of an orphan: the rank that has it.
pub fn encode_orphan(rank: Rank) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    put_rank(&mut out, rank);
    out
}

/// Reads the value of an orphan: the rank that has it.
pub fn decode_orphan(value: &[u8]) -> Result<Rank, DecodeError> {
    whole(value, "orphan value", take_rank)
}

/// Value of a decoupled subtree, with the rank that has it; its root stands in the key.
pub fn encode_decoupled(rank: Rank, record: &DecoupledRecord) -> Vec<u8> {
    let mut out = vec![DECOUPLED_VERSION];
    put_rank(&mut out, rank);
    put_decoupled(&mut out, record);
    out
}

/// Reads one; `dir` stands in its key.
pub fn decode_decoupled(dir: Ino, value: &[u8]) -> Result<(Rank, DecoupledRecord), DecodeError> {
    const WHAT: &str = "value of a decoupled subtree";
    if value.first() != Some(&DECOUPLED_VERSION) {
        return whole(value, WHAT, |from| Ok((take_rank(from)?, take_decoupled_v1(from, dir)?)));
    }
    whole_of(DECOUPLED_VERSION, value, WHAT, |from| Ok((take_rank(from)?, take_decoupled(from, dir)?)))
}

/// Value of a route; directory and fragment stand in its key.
pub fn encode_route(route: &Route) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    put_rank(&mut out, route.rank);
    put_u64(&mut out, route.version);
    out
}

/// Reads the value of a route: rank and version.
pub fn decode_route(value: &[u8]) -> Result<(Rank, u64), DecodeError> {
    whole(value, "route value", |from| Ok((take_rank(from)?, from.u64()?)))
}

/// Value of how far letters have come; the ranks stand in its key.
pub fn encode_peer(peer: &PeerRecord) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    put_peer(&mut out, peer);
    out
}

/// Reads how far letters have come; `rank`, the other one, stands in its key.
pub fn decode_peer(rank: Rank, value: &[u8]) -> Result<PeerRecord, DecodeError> {
    whole(value, "peer value", |from| take_peer(from, rank))
}

/// Value of a note: checksum and bytes. Notes are read once in a long while, and acted on: so they are checked apart from the
/// store.
pub fn encode_note(data: &[u8]) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    out.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    out.extend_from_slice(data);
    out
}

/// Reads a note.
pub fn decode_note(value: &[u8]) -> Result<Arc<[u8]>, DecodeError> {
    let mut from = Cursor::new(value);
    from.version(VALUE_VERSION, "note value")?;
    let sum = u32::from_le_bytes(from.array()?);
    let data = &value[1 + size_of::<u32>()..];
    if crc32c::crc32c(data) == sum { Ok(data.into()) } else { Err(from.invalid("checksum of a note")) }
}

/// Value of a discard: the rank that drops, first byte to drop, and the object size of the file.
pub fn encode_discard(rank: Rank, from: u64, object_size: u32) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    put_rank(&mut out, rank);
    put_u64(&mut out, from);
    put_object_size(&mut out, object_size);
    out
}

/// Reads the value of a discard: the rank that drops, first byte to drop, and object size.
pub fn decode_discard(value: &[u8]) -> Result<(Rank, u64, u32), DecodeError> {
    whole(value, "discard value", |from| Ok((take_rank(from)?, from.u64()?, take_object_size(from)?)))
}

/// Value of a session.
pub fn encode_session(session: &SessionRecord) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    put_session(&mut out, session);
    out
}

/// Reads the value of a session; `id` stands in its key.
pub fn decode_session(id: SessionId, value: &[u8]) -> Result<SessionRecord, DecodeError> {
    whole(value, "session value", |from| take_session(from, id))
}

/// Value of one of [`super::Meta`].
pub fn encode_meta(number: u64) -> Vec<u8> {
    let mut out = vec![VALUE_VERSION];
    put_u64(&mut out, number);
    out
}

/// Reads the value of one of [`super::Meta`].
pub fn decode_meta(value: &[u8]) -> Result<u64, DecodeError> {
    whole(value, "meta value", |from| from.u64())
}

fn versioned(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + bytes.len());
    out.push(VALUE_VERSION);
    out.extend_from_slice(bytes);
    out
}

/// Reads the version byte, what `take` takes, and then the end.
fn whole<'a, T>(
    value: &'a [u8],
    what: &'static str,
    take: impl FnOnce(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    whole_of(VALUE_VERSION, value, what, take)
}

fn whole_of<'a, T>(
    version: u8,
    value: &'a [u8],
    what: &'static str,
    take: impl FnOnce(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut from = Cursor::new(value);
    from.version(version, what)?;
    let taken = take(&mut from)?;
    from.finish()?;
    Ok(taken)
}
