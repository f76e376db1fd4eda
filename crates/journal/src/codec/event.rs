//! The bytes of one event: a code, then its fields.

use std::sync::Arc;

use loligo_types::{Event, EventView, InlinePatch, Ino, Kind, Lsn, Patches, Rank, SessionId};

use super::letter::{put_frag, put_inos, put_letter, put_peer, put_rank, put_route, take_inos, take_letter};
use super::letter::{take_frag, take_peer, take_rank, take_route};
use super::{Cursor, DecodeError, put_bytes, put_decoupled, put_inode, put_object_size, put_session, put_u64};
use super::{take_decoupled, take_decoupled_v1, take_inode, take_object_size, take_session};

/// The codes. Persisted: keep stable, never reuse.
mod code {
    pub const INODE: u8 = 1;
    pub const INODE_GONE: u8 = 2;
    pub const ENTRY: u8 = 3;
    pub const ENTRY_GONE: u8 = 4;
    pub const XATTR: u8 = 5;
    pub const XATTR_GONE: u8 = 6;
    pub const INLINE: u8 = 7;
    pub const INLINE_GONE: u8 = 8;
    pub const ORPHAN: u8 = 9;
    pub const ORPHAN_GONE: u8 = 10;
    pub const DISCARD: u8 = 11;
    pub const DISCARD_GONE: u8 = 12;
    pub const SESSION: u8 = 13;
    pub const SESSION_GONE: u8 = 14;
    pub const NEXT_INO: u8 = 15;
    pub const ROUTE: u8 = 16;
    pub const ROUTE_GONE: u8 = 17;
    pub const LETTER: u8 = 18;
    pub const PEER: u8 = 19;
    pub const DEPARTED: u8 = 20;
    pub const DEPARTED_FRAG: u8 = 21;
    pub const PART_GONE: u8 = 22;
    /// As it was before there was more to say; read, and not written any more.
    pub const DECOUPLED_V1: u8 = 23;
    pub const DECOUPLED_GONE: u8 = 24;
    pub const MERGE_PART: u8 = 25;
    pub const MERGE: u8 = 26;
    pub const DECOUPLED: u8 = 27;
    pub const DATA: u8 = 28;
    pub const DATA_IN_PLACE: u8 = 29;
    pub const PAD: u8 = 30;
    pub const INLINE_PATCH: u8 = 31;
}

/// Code of a letter, which no other letter may hold.
pub(super) const LETTER: u8 = code::LETTER;

/// Code of a change of data in an inode, which no letter may hold: it means something in its own journal only.
pub(super) const INLINE_PATCH: u8 = code::INLINE_PATCH;

/// The short names of all events, in the order of their codes.
pub const EVENT_NAMES: [&str; 30] = [
    "inode",
    "inode_gone",
    "entry",
    "entry_gone",
    "xattr",
    "xattr_gone",
    "inline",
    "inline_gone",
    "orphan",
    "orphan_gone",
    "discard",
    "discard_gone",
    "session",
    "session_gone",
    "next_ino",
    "route",
    "route_gone",
    "letter",
    "peer",
    "departed",
    "departed_frag",
    "part_gone",
    "decoupled",
    "decoupled_gone",
    "merge_part",
    "merge",
    "data",
    "data_in_place",
    "pad",
    "inline_patch",
];

/// Short name of an event, the same in `loligo journal inspect`, logs and the documentation.
pub fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Inode(_) => "inode",
        Event::InodeGone(_) => "inode_gone",
        Event::Entry { .. } => "entry",
        Event::EntryGone { .. } => "entry_gone",
        Event::Xattr { .. } => "xattr",
        Event::XattrGone { .. } => "xattr_gone",
        Event::Inline { .. } => "inline",
        Event::InlineGone(_) => "inline_gone",
        Event::Orphan(_) => "orphan",
        Event::OrphanGone(_) => "orphan_gone",
        Event::Discard { .. } => "discard",
        Event::DiscardGone(_) => "discard_gone",
        Event::Session(_) => "session",
        Event::SessionGone(_) => "session_gone",
        Event::NextIno(_) => "next_ino",
        Event::Route(_) => "route",
        Event::RouteGone(_) => "route_gone",
        Event::Letter { .. } => "letter",
        Event::Peer(_) => "peer",
        Event::Departed(_) => "departed",
        Event::DepartedFrag { .. } => "departed_frag",
        Event::PartGone { .. } => "part_gone",
        Event::Decoupled(_) => "decoupled",
        Event::DecoupledGone(_) => "decoupled_gone",
        Event::MergePart { .. } => "merge_part",
        Event::Merge { .. } => "merge",
        Event::Data { .. } => "data",
        Event::DataInPlace { .. } => "data_in_place",
        Event::Pad { .. } => "pad",
        Event::InlinePatch(_) => "inline_patch",
    }
}

/// Appends the code and the number that every event starts with.
#[inline]
fn put_head(out: &mut Vec<u8>, code: u8, number: u64) {
    out.push(code);
    put_u64(out, number);
}

pub(super) fn put_event(out: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Inode(inode) => {
            put_head(out, code::INODE, inode.ino.0);
            put_inode(out, inode);
        }
        Event::InodeGone(ino) => put_head(out, code::INODE_GONE, ino.0),
        Event::Entry { dir, name, ino, kind, remote } => {
            put_head(out, code::ENTRY, dir.0);
            put_bytes(out, name.as_bytes());
            put_u64(out, ino.0);
            out.push(entry_kind(*kind, *remote));
        }
        Event::EntryGone { dir, name } => {
            put_head(out, code::ENTRY_GONE, dir.0);
            put_bytes(out, name.as_bytes());
        }
        Event::Xattr { ino, name, value } => {
            put_head(out, code::XATTR, ino.0);
            put_bytes(out, name);
            put_bytes(out, value);
        }
        Event::XattrGone { ino, name } => {
            put_head(out, code::XATTR_GONE, ino.0);
            put_bytes(out, name);
        }
        Event::Inline { ino, data } => {
            put_head(out, code::INLINE, ino.0);
            put_bytes(out, data);
        }
        Event::InlineGone(ino) => put_head(out, code::INLINE_GONE, ino.0),
        Event::Orphan(ino) => put_head(out, code::ORPHAN, ino.0),
        Event::OrphanGone(ino) => put_head(out, code::ORPHAN_GONE, ino.0),
        Event::Discard { ino, from, object_size } => {
            put_head(out, code::DISCARD, ino.0);
            put_u64(out, *from);
            put_object_size(out, *object_size);
        }
        Event::DiscardGone(ino) => put_head(out, code::DISCARD_GONE, ino.0),
        Event::Session(session) => {
            put_head(out, code::SESSION, session.id.0);
            put_session(out, session);
        }
        Event::SessionGone(id) => put_head(out, code::SESSION_GONE, id.0),
        Event::NextIno(ino) => put_head(out, code::NEXT_INO, ino.0),
        Event::Route(route) => {
            put_head(out, code::ROUTE, route.dir.0);
            put_route(out, route);
        }
        Event::RouteGone(dir) => put_head(out, code::ROUTE_GONE, dir.0),
        Event::Letter { to, seq, letter } => {
            put_head(out, code::LETTER, *seq);
            put_rank(out, *to);
            put_letter(out, letter);
        }
        Event::Peer(peer) => {
            put_head(out, code::PEER, u64::from(peer.rank.0));
            put_peer(out, peer);
        }
        Event::Departed(inos) => {
            put_head(out, code::DEPARTED, 0);
            put_inos(out, inos);
        }
        Event::DepartedFrag { dir, frag } => {
            put_head(out, code::DEPARTED_FRAG, dir.0);
            put_frag(out, *frag);
        }
        Event::PartGone { dir, rank } => {
            put_head(out, code::PART_GONE, dir.0);
            put_rank(out, *rank);
        }
        Event::Decoupled(record) => {
            put_head(out, code::DECOUPLED, record.dir.0);
            put_decoupled(out, record);
        }
        Event::DecoupledGone(dir) => put_head(out, code::DECOUPLED_GONE, dir.0),
        Event::MergePart { dir, part, body } => {
            put_head(out, code::MERGE_PART, dir.0);
            put_u64(out, u64::from(*part));
            put_bytes(out, body);
        }
        Event::Merge { dir } => put_head(out, code::MERGE, dir.0),
        Event::Data { ino, object_size, patches } => {
            put_head(out, code::DATA, ino.0);
            put_object_size(out, *object_size);
            put_patches(out, patches);
        }
        Event::DataInPlace { ino, upto } => {
            put_head(out, code::DATA_IN_PLACE, ino.0);
            put_u64(out, upto.0);
        }
        Event::Pad { len } => {
            put_head(out, code::PAD, 0);
            put_u64(out, u64::from(*len));
            out.resize(out.len() + *len as usize, 0);
        }
        Event::InlinePatch(patch) => {
            put_head(out, code::INLINE_PATCH, patch.ino.0);
            put_inline_patch(out, patch);
        }
    }
}

/// The code and the number that every event starts with.
#[inline]
fn take_head(from: &mut Cursor<'_>) -> Result<(u8, u64), DecodeError> {
    let at = from.at();
    let code = from.u8()?;
    if !(code::INODE..=code::INLINE_PATCH).contains(&code) {
        // Before its number: that field may not exist in an event of the future.
        return Err(DecodeError::UnknownEvent { code, at });
    }
    Ok((code, from.u64()?))
}

pub(super) fn take_event(from: &mut Cursor<'_>) -> Result<Event, DecodeError> {
    let at = from.at();
    let (code, number) = take_head(from)?;
    take_rest(from, (code, number), at)
}

/// Shows an event where it stands. `visit` is not asked about one that cannot be read.
#[inline]
pub(super) fn view_event<T>(
    from: &mut Cursor<'_>,
    visit: &mut impl FnMut(EventView<'_>) -> T,
) -> Result<T, DecodeError> {
    let at = from.at();
    let (code, number) = take_head(from)?;
    Ok(match code {
        code::INODE => visit(EventView::Inode(&take_inode(from, Ino(number))?)),
        code::ENTRY => {
            let (name, ino) = (from.name_bytes()?, Ino(from.u64()?));
            let (kind, remote) = take_entry_kind(from)?;
            visit(EventView::Entry { dir: Ino(number), name, ino, kind, remote })
        }
        code => visit(EventView::Other(&take_rest(from, (code, number), at)?)),
    })
}

fn take_rest(from: &mut Cursor<'_>, (code, number): (u8, u64), at: usize) -> Result<Event, DecodeError> {
    let ino = Ino(number);
    Ok(match code {
        code::INODE => Event::Inode(Box::new(take_inode(from, ino)?)),
        code::INODE_GONE => Event::InodeGone(ino),
        code::ENTRY => {
            let (name, to) = (from.name()?, Ino(from.u64()?));
            let (kind, remote) = take_entry_kind(from)?;
            Event::Entry { dir: ino, name, ino: to, kind, remote }
        }
        code::ENTRY_GONE => Event::EntryGone { dir: ino, name: from.name()? },
        code::XATTR => Event::Xattr { ino, name: from.bytes()?.into(), value: from.bytes()?.into() },
        code::XATTR_GONE => Event::XattrGone { ino, name: from.bytes()?.into() },
        code::INLINE => Event::Inline { ino, data: from.bytes()?.into() },
        code::INLINE_GONE => Event::InlineGone(ino),
        code::ORPHAN => Event::Orphan(ino),
        code::ORPHAN_GONE => Event::OrphanGone(ino),
        code::DISCARD => Event::Discard { ino, from: from.u64()?, object_size: take_object_size(from)? },
        code::DISCARD_GONE => Event::DiscardGone(ino),
        code::SESSION => Event::Session(take_session(from, SessionId(number))?),
        code::SESSION_GONE => Event::SessionGone(SessionId(number)),
        code::NEXT_INO => Event::NextIno(ino),
        code::ROUTE => Event::Route(take_route(from, ino)?),
        code::ROUTE_GONE => Event::RouteGone(ino),
        code::LETTER => {
            let to = take_rank(from)?;
            Event::Letter { to, seq: number, letter: Arc::new(take_letter(from)?) }
        }
        code::PEER => {
            let rank = u16::try_from(number).map(Rank).map_err(|_| from.invalid("rank"))?;
            Event::Peer(take_peer(from, rank)?)
        }
        code::DEPARTED => Event::Departed(take_inos(from)?),
        code::DEPARTED_FRAG => Event::DepartedFrag { dir: ino, frag: take_frag(from)? },
        code::PART_GONE => Event::PartGone { dir: ino, rank: take_rank(from)? },
        code::DECOUPLED => Event::Decoupled(Box::new(take_decoupled(from, ino)?)),
        code::DECOUPLED_V1 => Event::Decoupled(Box::new(take_decoupled_v1(from, ino)?)),
        code::DECOUPLED_GONE => Event::DecoupledGone(ino),
        code::MERGE_PART => Event::MergePart { dir: ino, part: from.u32()?, body: from.bytes()?.into() },
        code::MERGE => Event::Merge { dir: ino },
        code::DATA => {
            let object_size = take_object_size(from)?;
            Event::Data { ino, object_size, patches: Arc::new(take_patches(from)?) }
        }
        code::DATA_IN_PLACE => Event::DataInPlace { ino, upto: Lsn(from.u64()?) },
        code::PAD => {
            let zeros = from.bytes()?;
            match u32::try_from(zeros.len()) {
                Ok(len) if ino.0 == 0 && zeros.iter().all(|byte| *byte == 0) => Event::Pad { len },
                _ => return Err(from.invalid("pad")),
            }
        }
        code::INLINE_PATCH => Event::InlinePatch(Box::new(take_inline_patch(from, ino)?)),
        code => return Err(DecodeError::UnknownEvent { code, at }),
    })
}

/// Bit of the kind of an entry: its inode does not live with it. Persisted.
const REMOTE: u8 = 0x80;

/// The byte of what an entry points to.
pub fn entry_kind(kind: Kind, remote: bool) -> u8 {
    kind.code() | if remote { REMOTE } else { 0 }
}

/// Takes it.
pub fn take_entry_kind(from: &mut Cursor<'_>) -> Result<(Kind, bool), DecodeError> {
    let code = from.u8()?;
    let kind = Kind::from_code(code & !REMOTE).ok_or_else(|| from.invalid("kind"))?;
    Ok((kind, code & REMOTE != 0))
}

fn put_inline_patch(out: &mut Vec<u8>, patch: &InlinePatch) {
    put_u64(out, patch.whole.0);
    for number in [patch.base_len, patch.base_crc, patch.len, patch.offset] {
        put_u64(out, u64::from(number));
    }
    put_bytes(out, &patch.bytes);
}

fn take_inline_patch(from: &mut Cursor<'_>, ino: Ino) -> Result<InlinePatch, DecodeError> {
    let whole = Lsn(from.u64()?);
    let (base_len, base_crc, len, offset) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
    let patch = InlinePatch { ino, whole, base_len, base_crc, len, offset, bytes: from.bytes()?.into() };
    if !patch.is_valid() {
        return Err(from.invalid("change of data in an inode"));
    }
    Ok(patch)
}

/// The shortest place of patches: two numbers of one byte.
const PLACE_MIN: usize = 2;

fn put_patches(out: &mut Vec<u8>, patches: &Patches) {
    put_u64(out, patches.places().len() as u64);
    for (offset, len) in patches.places() {
        put_u64(out, *offset);
        put_u64(out, u64::from(*len));
    }
    put_bytes(out, patches.bytes());
}

fn take_patches(from: &mut Cursor<'_>) -> Result<Patches, DecodeError> {
    let count = from.count(PLACE_MIN, "number of places")?;
    let mut places = Vec::with_capacity(count);
    for _ in 0..count {
        places.push((from.u64()?, from.u32()?));
    }
    Patches::new(places, from.bytes()?.into()).ok_or_else(|| from.invalid("places of data"))
}
