//! The bytes of one event: a code, then its fields.

use loligo_types::{Event, Ino, Kind, SessionId};

use super::{Cursor, DecodeError, put_bytes, put_inode, put_object_size, put_session, put_u64};
use super::{take_inode, take_object_size, take_session};

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
}

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
        Event::Entry { dir, name, ino, kind } => {
            put_head(out, code::ENTRY, dir.0);
            put_bytes(out, name.as_bytes());
            put_u64(out, ino.0);
            out.push(kind.code());
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
    }
}

pub(super) fn take_event(from: &mut Cursor<'_>) -> Result<Event, DecodeError> {
    let at = from.at();
    let code = from.u8()?;
    if !(code::INODE..=code::NEXT_INO).contains(&code) {
        // Before its number: that field may not exist in an event of the future.
        return Err(DecodeError::UnknownEvent { code, at });
    }
    let number = from.u64()?;
    let ino = Ino(number);
    Ok(match code {
        code::INODE => Event::Inode(Box::new(take_inode(from, ino)?)),
        code::INODE_GONE => Event::InodeGone(ino),
        code::ENTRY => Event::Entry { dir: ino, name: from.name()?, ino: Ino(from.u64()?), kind: take_kind(from)? },
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
        code => return Err(DecodeError::UnknownEvent { code, at }),
    })
}

/// Takes the code of a kind.
pub(crate) fn take_kind(from: &mut Cursor<'_>) -> Result<Kind, DecodeError> {
    let code = from.u8()?;
    Kind::from_code(code).ok_or_else(|| from.invalid("kind"))
}
