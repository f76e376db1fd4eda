//! Any row of the table, for whoever walks all of it: fsck, dump, the fuzzer.

use std::sync::Arc;

use loligo_types::{Ino, Inode, Kind, Name, SessionId, SessionRecord};

use super::key::{self, split, split_entry_key, split_xattr_key};
use super::value;
use super::{Meta, key_meta};
use crate::codec::DecodeError;

/// A decoded row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Row {
    /// An inode.
    Inode(Box<Inode>),
    /// A directory entry, with the hash that its key has.
    Entry { dir: Ino, hash: u64, name: Name, ino: Ino, kind: Kind },
    /// An xattr.
    Xattr { ino: Ino, name: Arc<[u8]>, value: Arc<[u8]> },
    /// The data held in an inode.
    Inline { ino: Ino, data: Arc<[u8]> },
    /// An inode without a name.
    Orphan(Ino),
    /// Bytes of objects to be dropped.
    Discard { ino: Ino, from: u64, object_size: u32 },
    /// A session.
    Session(SessionRecord),
    /// A single value.
    Meta { meta: Meta, value: u64 },
}

impl Row {
    /// The key and value of the row.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Row::Inode(inode) => (key::key_inode(inode.ino), value::encode_inode(inode)),
            Row::Entry { dir, hash, name, ino, kind } => {
                (key::key_entry(*dir, *hash, name), value::encode_entry(*ino, *kind))
            }
            Row::Xattr { ino, name, value } => (key::key_xattr(*ino, name), value::encode_xattr(value)),
            Row::Inline { ino, data } => (key::key_inline(*ino), value::encode_inline(data)),
            Row::Orphan(ino) => (key::key_orphan(*ino), value::encode_orphan()),
            Row::Discard { ino, from, object_size } => {
                (key::key_discard(*ino), value::encode_discard(*from, *object_size))
            }
            Row::Session(session) => (key::key_session(session.id), value::encode_session(session)),
            Row::Meta { meta, value } => (key_meta(*meta), value::encode_meta(*value)),
        }
    }
}

/// Reads any row. The key must be exactly one that this module makes.
pub fn decode_row(key: &[u8], value: &[u8]) -> Result<Row, DecodeError> {
    let bad = DecodeError::Invalid { what: "table key", at: key.len() };
    if let [key::META, code] = key {
        let meta = Meta::from_code(*code).ok_or(bad)?;
        return Ok(Row::Meta { meta, value: value::decode_meta(value)? });
    }
    let (prefix, number, rest) = split(key).ok_or(bad)?;
    let ino = Ino(number);
    match prefix {
        key::ENTRY => {
            let (dir, hash, name) = split_entry_key(key).ok_or(bad)?;
            let (ino, kind) = value::decode_entry(value)?;
            Ok(Row::Entry { dir, hash, name, ino, kind })
        }
        key::XATTR => {
            let (ino, name) = split_xattr_key(key).ok_or(bad)?;
            Ok(Row::Xattr { ino, name: name.into(), value: value::decode_xattr(value)? })
        }
        _ if !rest.is_empty() => Err(bad),
        key::INODE => Ok(Row::Inode(Box::new(value::decode_inode(ino, value)?))),
        key::INLINE => Ok(Row::Inline { ino, data: value::decode_inline(value)? }),
        key::ORPHAN => value::decode_orphan(value).map(|()| Row::Orphan(ino)),
        key::DISCARD => {
            let (from, object_size) = value::decode_discard(value)?;
            Ok(Row::Discard { ino, from, object_size })
        }
        key::SESSION => Ok(Row::Session(value::decode_session(SessionId(number), value)?)),
        _ => Err(bad),
    }
}
