//! Keys and values of the table, the sorted home of checkpointed metadata. Not the table itself.
//!
//! One key space; the first byte of a key says what its value is. Numbers in keys are big endian, so that the order
//! of the bytes is the order of the numbers. Every value starts with a version byte.

mod key;
mod row;
#[cfg(test)]
mod tests;
mod value;

pub use key::{
    KeyRange, NOTE_NAME_MAX, PREFIXES, dir_range, dir_range_from, entry_hash, key_decoupled, key_discard, key_entry,
    key_inline, key_inode, key_inode_of, key_meta, key_note, key_orphan, key_part, key_peer, key_policied,
    key_policies_noted, key_route, key_session, key_xattr, note_range, part_range, peer_range, policied_range,
    prefix_range, route_range, split_entry_key, split_policied_key, split_xattr_key, xattr_range,
};
pub use row::{Row, decode_row};
pub use value::{
    TABLE_VERSION, VALUE_VERSION, decode_decoupled, decode_discard, decode_entry, decode_inline, decode_inode,
    decode_meta, decode_note, decode_orphan, decode_peer, decode_route, decode_session, decode_xattr, encode_decoupled,
    encode_discard, encode_entry, encode_inline, encode_inode, encode_meta, encode_note, encode_orphan, encode_peer,
    encode_route, encode_session, encode_xattr,
};

/// Single values, of each rank or (rank 0's) of the whole file system. The number is persisted: keep stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Meta {
    /// Layout of the table; [`TABLE_VERSION`] when this program made it.
    Format = 1,
    /// Inode numbers below this may be in use.
    NextIno = 2,
    /// Every journal record below this LSN is in the table: replay starts here.
    ReplayFrom = 3,
    /// 1 after a clean stop, 0 while a server runs.
    Clean = 4,
    /// Grows when a server starts after another stop than a clean one: data may be lost that clients were told is
    /// written.
    DataEpoch = 5,
    /// Number of ranks that the file system has had, numbered from 0: their journals may hold changes. Of the whole file system, as
    /// `Format`, `Clean` and `DataEpoch`.
    Ranks = 6,
    /// Changes of inodes in journal records below this LSN are in the table, durably: replay does not apply them again,
    /// for another rank may have the inodes by now.
    TableUpto = 7,
    /// State of a rank in the cluster map: 1 up, 2 draining, 3 leaving, 4 removed; none: up. Its number, journal and
    /// other values stay when it is removed, and go on when it is added again.
    RankState = 8,
    /// Epoch of the newest cluster map, of the whole file system; none: there never was more than one rank.
    MapEpoch = 9,
    /// Number of the policy by which ranks balance, of the whole file system; none or 0: they do not.
    Policy = 10,
    /// 1 while a copy of a file system is made in this store: what there is so far is nothing to build on. Of the whole file system.
    Copying = 11,
}

impl Meta {
    /// All of them.
    pub const ALL: [Meta; 11] = [
        Meta::Format,
        Meta::NextIno,
        Meta::ReplayFrom,
        Meta::Clean,
        Meta::DataEpoch,
        Meta::Ranks,
        Meta::TableUpto,
        Meta::RankState,
        Meta::MapEpoch,
        Meta::Policy,
        Meta::Copying,
    ];

    /// The one with this number, if there is one.
    pub fn from_code(code: u8) -> Option<Meta> {
        Self::ALL.into_iter().find(|meta| *meta as u8 == code)
    }

    /// The stable number.
    pub fn code(self) -> u8 {
        self as u8
    }
}
