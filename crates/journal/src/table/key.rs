//! Keys: how they are made, taken apart, and which ranges of them belong together.

use loligo_types::{Frag, Ino, Inode, Name, Rank, SessionId};

use super::Meta;

/// Longest name of a note, bytes.
pub const NOTE_NAME_MAX: usize = 200;

/// First byte of the keys of inodes. Persisted, as all of these.
pub(super) const INODE: u8 = b'I';
pub(super) const ENTRY: u8 = b'E';
pub(super) const XATTR: u8 = b'X';
pub(super) const INLINE: u8 = b'D';
pub(super) const ORPHAN: u8 = b'O';
pub(super) const DISCARD: u8 = b'R';
pub(super) const SESSION: u8 = b'S';
pub(super) const META: u8 = b'M';
pub(super) const ROUTE: u8 = b'F';
pub(super) const PEER: u8 = b'P';
pub(super) const PART: u8 = b'Q';
pub(super) const NOTE: u8 = b'B';
pub(super) const DECOUPLED: u8 = b'C';

/// The first bytes of all keys, in ascending order.
pub const PREFIXES: [u8; 13] =
    [NOTE, DECOUPLED, INLINE, ENTRY, ROUTE, INODE, META, ORPHAN, PEER, PART, DISCARD, SESSION, XATTR];

/// Keys from `start` up to and without `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// First key that may be in it.
    pub start: Vec<u8>,
    /// First key after it; never empty, since no prefix is 0xff.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// True if a key lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }
}

fn numbered(prefix: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(prefix);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn of_rank(prefix: u8, rank: Rank) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    key.push(prefix);
    key.extend_from_slice(&rank.0.to_be_bytes());
    key
}

/// `I` ino: an inode.
pub fn key_inode(ino: Ino) -> Vec<u8> {
    numbered(INODE, ino.0)
}

/// `E` dir hash name: a directory entry; in the order of readdir.
pub fn key_entry(dir: Ino, hash: u64, name: &Name) -> Vec<u8> {
    let name = name.as_bytes();
    let mut key = Vec::with_capacity(17 + name.len());
    key.push(ENTRY);
    key.extend_from_slice(&dir.0.to_be_bytes());
    key.extend_from_slice(&hash.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// `X` ino name: an xattr.
pub fn key_xattr(ino: Ino, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + name.len());
    key.push(XATTR);
    key.extend_from_slice(&ino.0.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// `D` ino: the data held in an inode.
pub fn key_inline(ino: Ino) -> Vec<u8> {
    numbered(INLINE, ino.0)
}

/// `O` ino: an inode without a name.
pub fn key_orphan(ino: Ino) -> Vec<u8> {
    numbered(ORPHAN, ino.0)
}

/// `R` ino: bytes of objects that are to be dropped.
pub fn key_discard(ino: Ino) -> Vec<u8> {
    numbered(DISCARD, ino.0)
}

/// `C` dir: a decoupled subtree.
pub fn key_decoupled(dir: Ino) -> Vec<u8> {
    numbered(DECOUPLED, dir.0)
}

/// `S` id: a session.
pub fn key_session(id: SessionId) -> Vec<u8> {
    numbered(SESSION, id.0)
}

/// `M` code rank: a single value of a rank; those of the whole file system are rank 0's.
pub fn key_meta(meta: Meta, rank: Rank) -> Vec<u8> {
    let mut key = vec![META, meta.code()];
    key.extend_from_slice(&rank.0.to_be_bytes());
    key
}

/// `F` rank dir bits value: what a rank has put down of the subtree map.
pub fn key_route(rank: Rank, dir: Ino, frag: Frag) -> Vec<u8> {
    let mut key = of_rank(ROUTE, rank);
    key.extend_from_slice(&dir.0.to_be_bytes());
    key.push(frag.bits);
    key.extend_from_slice(&frag.value.to_be_bytes());
    key
}

/// `P` rank peer: how far letters between a rank and another one have come.
pub fn key_peer(rank: Rank, peer: Rank) -> Vec<u8> {
    let mut key = of_rank(PEER, rank);
    key.extend_from_slice(&peer.0.to_be_bytes());
    key
}

/// `Q` rank dir: a rank's part of a directory whose inode is another rank's.
pub fn key_part(rank: Rank, dir: Ino) -> Vec<u8> {
    let mut key = of_rank(PART, rank);
    key.extend_from_slice(&dir.0.to_be_bytes());
    key
}

/// `B` name: a note, something that services keep with the file system and that is no part of its tree.
pub fn key_note(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(NOTE);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Notes whose names begin so.
pub fn note_range(begin: &str) -> KeyRange {
    prefix_range(&key_note(begin))
}

/// Prefix of the names of notes that tell which directories have a policy of their own for all below them.
const POLICIED: &str = "subtree-policy/";

/// The note that a directory has a policy of its own (docs/subtree-policies.md): so those are found without looking at all xattrs. It is written and
/// removed with the xattr that holds the policy.
pub fn key_policied(dir: Ino) -> Vec<u8> {
    key_note(&format!("{POLICIED}{:016x}", dir.0))
}

/// The notes of all such directories from one on, ascending.
pub fn policied_range(from: Ino) -> KeyRange {
    KeyRange { start: key_policied(from), end: note_range(POLICIED).end }
}

/// The directory that such a note is about.
pub fn split_policied_key(key: &[u8]) -> Option<Ino> {
    let number = split_note_key(key)?.strip_prefix(POLICIED)?;
    u64::from_str_radix(number, 16).ok().map(Ino)
}

/// The note that the table has those of all directories with a policy. A table that was made before there were any does not have it: then all
/// xattrs are to be looked at.
pub fn key_policies_noted() -> Vec<u8> {
    key_note("subtree-policies-noted")
}

/// The name of a note; `None` if it is no such key.
pub(super) fn split_note_key(key: &[u8]) -> Option<&str> {
    let (NOTE, name) = key.split_first().map(|(prefix, rest)| (*prefix, rest))? else { return None };
    let name = std::str::from_utf8(name).ok()?;
    (1..=NOTE_NAME_MAX).contains(&name.len()).then_some(name)
}

/// The key of an inode's record: of a rank's part of a directory its own.
pub fn key_inode_of(inode: &Inode) -> Vec<u8> {
    inode.part_of().map_or_else(|| key_inode(inode.ino), |rank| key_part(rank, inode.ino))
}

/// All parts that a rank has.
pub fn part_range(rank: Rank) -> KeyRange {
    prefix_range(&of_rank(PART, rank))
}

/// Rank and directory of a part's key; `None` if it is no such key.
pub(super) fn split_part_key(key: &[u8]) -> Option<(Rank, Ino)> {
    let (PART, rest) = key.split_first().map(|(prefix, rest)| (*prefix, rest))? else { return None };
    let (rank, dir) = rest.split_first_chunk::<2>()?;
    Some((Rank(u16::from_be_bytes(*rank)), Ino(u64::from_be_bytes(dir.try_into().ok()?))))
}

/// All that a rank has put down of the subtree map.
pub fn route_range(rank: Rank) -> KeyRange {
    prefix_range(&of_rank(ROUTE, rank))
}

/// The keys of the records about a rank's letters.
pub fn peer_range(rank: Rank) -> KeyRange {
    prefix_range(&of_rank(PEER, rank))
}

/// Rank, directory and fragment of a route's key; `None` if it is no such key.
pub(super) fn split_route_key(key: &[u8]) -> Option<(Rank, Ino, Frag)> {
    let (ROUTE, rest) = key.split_first().map(|(prefix, rest)| (*prefix, rest))? else { return None };
    let (rank, rest) = rest.split_first_chunk::<2>()?;
    let (dir, rest) = rest.split_first_chunk::<8>()?;
    let (bits, value) = rest.split_first()?;
    let frag = Frag::new(*bits, u32::from_be_bytes(value.try_into().ok()?))?;
    Some((Rank(u16::from_be_bytes(*rank)), Ino(u64::from_be_bytes(*dir)), frag))
}

/// The two ranks of a peer's key; `None` if it is no such key.
pub(super) fn split_peer_key(key: &[u8]) -> Option<(Rank, Rank)> {
    let [PEER, a, b, c, d] = *key else { return None };
    Some((Rank(u16::from_be_bytes([a, b])), Rank(u16::from_be_bytes([c, d]))))
}

/// All keys that begin with `prefix`, which is none of 0xff alone.
pub fn prefix_range(prefix: &[u8]) -> KeyRange {
    KeyRange { start: prefix.to_vec(), end: after_prefix(prefix) }
}

/// The first key after all that begin with `prefix`: the last byte that can grow grows.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// All entries of a directory.
pub fn dir_range(dir: Ino) -> KeyRange {
    prefix_range(&numbered(ENTRY, dir.0))
}

/// The entries of a directory with at least this hash.
pub fn dir_range_from(dir: Ino, hash: u64) -> KeyRange {
    let mut range = dir_range(dir);
    range.start.extend_from_slice(&hash.to_be_bytes());
    range
}

/// All xattrs of an inode.
pub fn xattr_range(ino: Ino) -> KeyRange {
    prefix_range(&numbered(XATTR, ino.0))
}

/// Prefix, number and rest of a key.
pub(super) fn split(key: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (prefix, rest) = key.split_first()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    Some((*prefix, u64::from_be_bytes(*number), rest))
}

/// Directory, hash and name of an entry's key; `None` if it is no such key.
pub fn split_entry_key(key: &[u8]) -> Option<(Ino, u64, Name)> {
    let (ENTRY, dir, rest) = split(key)? else { return None };
    let (hash, name) = rest.split_first_chunk::<8>()?;
    Some((Ino(dir), u64::from_be_bytes(*hash), Name::new(name).ok()?))
}

/// The hash in an entry's key, without a check of the rest; `None` if the key is too short.
pub fn entry_hash(key: &[u8]) -> Option<u64> {
    let (ENTRY, _, rest) = split(key)? else { return None };
    rest.first_chunk::<8>().map(|hash| u64::from_be_bytes(*hash))
}

/// Inode and name of an xattr's key; `None` if it is no such key.
pub fn split_xattr_key(key: &[u8]) -> Option<(Ino, &[u8])> {
    let (XATTR, ino, name) = split(key)? else { return None };
    (!name.is_empty()).then_some((Ino(ino), name))
}
