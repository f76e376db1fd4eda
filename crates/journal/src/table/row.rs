//! Any row of the table, for whoever walks all of it: fsck, dump, the fuzzer.

use std::sync::Arc;

use loligo_types::{DecoupledRecord, Ino, Inode, Name, PeerRecord, Rank, Route, SessionId, SessionRecord, Target};

use super::key::{self, split, split_entry_key, split_xattr_key};
use super::value;
use super::{Meta, key_meta};
use crate::codec::DecodeError;

/// A decoded row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Row {
    /// An inode, or a rank's part of a directory.
    Inode(Box<Inode>),
    /// A directory entry, with the hash that its key has.
    Entry { dir: Ino, hash: u64, name: Name, target: Target },
    /// An xattr.
    Xattr { ino: Ino, name: Arc<[u8]>, value: Arc<[u8]> },
    /// The data held in an inode.
    Inline { ino: Ino, data: Arc<[u8]> },
    /// An inode without a name, and the rank that has it.
    Orphan { ino: Ino, rank: Rank },
    /// Bytes of objects to be dropped, and the rank that does it.
    Discard { ino: Ino, rank: Rank, from: u64, object_size: u32 },
    /// A decoupled subtree, and the rank that has it.
    Decoupled { rank: Rank, record: Box<DecoupledRecord> },
    /// A line of the subtree map that a rank (the first) has put down.
    Route { of: Rank, route: Route },
    /// State of the letters between a rank (the first) and another one.
    Peer { of: Rank, peer: PeerRecord },
    /// A session.
    Session(SessionRecord),
    /// Something that a service keeps with the file system.
    Note { name: String, data: Arc<[u8]> },
    /// A single value.
    Meta { meta: Meta, rank: Rank, value: u64 },
}

impl Row {
    /// The key and value of the row.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Row::Inode(inode) => (key::key_inode_of(inode), value::encode_inode(inode)),
            Row::Entry { dir, hash, name, target } => (key::key_entry(*dir, *hash, name), value::encode_entry(*target)),
            Row::Xattr { ino, name, value } => (key::key_xattr(*ino, name), value::encode_xattr(value)),
            Row::Inline { ino, data } => (key::key_inline(*ino), value::encode_inline(data)),
            Row::Orphan { ino, rank } => (key::key_orphan(*ino), value::encode_orphan(*rank)),
            Row::Discard { ino, rank, from, object_size } => {
                (key::key_discard(*ino), value::encode_discard(*rank, *from, *object_size))
            }
            Row::Decoupled { rank, record } => (key::key_decoupled(record.dir), value::encode_decoupled(*rank, record)),
            Row::Route { of, route } => (key::key_route(*of, route.dir, route.frag), value::encode_route(route)),
            Row::Peer { of, peer } => (key::key_peer(*of, peer.rank), value::encode_peer(peer)),
            Row::Session(session) => (key::key_session(session.id), value::encode_session(session)),
            Row::Note { name, data } => (key::key_note(name), value::encode_note(data)),
            Row::Meta { meta, rank, value } => (key_meta(*meta, *rank), value::encode_meta(*value)),
        }
    }
}

/// Reads any row. The key must be exactly one that this module makes.
pub fn decode_row(key: &[u8], value: &[u8]) -> Result<Row, DecodeError> {
    let bad = DecodeError::Invalid { what: "table key", at: key.len() };
    if let [key::META, code, high, low] = key {
        let (meta, rank) = (Meta::from_code(*code).ok_or(bad)?, Rank(u16::from_be_bytes([*high, *low])));
        return Ok(Row::Meta { meta, rank, value: value::decode_meta(value)? });
    }
    if let Some(name) = key::split_note_key(key) {
        return Ok(Row::Note { name: name.into(), data: value::decode_note(value)? });
    }
    if let Some((of, dir, frag)) = key::split_route_key(key) {
        let (rank, version) = value::decode_route(value)?;
        return Ok(Row::Route { of, route: Route { dir, frag, rank, version } });
    }
    if let Some((of, rank)) = key::split_peer_key(key) {
        return Ok(Row::Peer { of, peer: value::decode_peer(rank, value)? });
    }
    if let Some((rank, dir)) = key::split_part_key(key) {
        let part = value::decode_inode(dir, value)?;
        return if part.part_of() == Some(rank) { Ok(Row::Inode(Box::new(part))) } else { Err(bad) };
    }
    let (prefix, number, rest) = split(key).ok_or(bad)?;
    let ino = Ino(number);
    match prefix {
        key::ENTRY => {
            let (dir, hash, name) = split_entry_key(key).ok_or(bad)?;
            Ok(Row::Entry { dir, hash, name, target: value::decode_entry(value)? })
        }
        key::XATTR => {
            let (ino, name) = split_xattr_key(key).ok_or(bad)?;
            Ok(Row::Xattr { ino, name: name.into(), value: value::decode_xattr(value)? })
        }
        _ if !rest.is_empty() => Err(bad),
        key::INODE => {
            let inode = value::decode_inode(ino, value)?;
            if inode.part_of().is_some() { Err(bad) } else { Ok(Row::Inode(Box::new(inode))) }
        }
        key::INLINE => Ok(Row::Inline { ino, data: value::decode_inline(value)? }),
        key::ORPHAN => Ok(Row::Orphan { ino, rank: value::decode_orphan(value)? }),
        key::DISCARD => {
            let (rank, from, object_size) = value::decode_discard(value)?;
            Ok(Row::Discard { ino, rank, from, object_size })
        }
        key::DECOUPLED => {
            let (rank, record) = value::decode_decoupled(ino, value)?;
            Ok(Row::Decoupled { rank, record: Box::new(record) })
        }
        key::SESSION => Ok(Row::Session(value::decode_session(SessionId(number), value)?)),
        _ => Err(bad),
    }
}
