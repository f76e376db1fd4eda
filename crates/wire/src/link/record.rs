//! Records that one rank wants of another, and those that it lends, to bytes and back with every check.

use std::sync::Arc;

use loligo_journal::codec::parts::{Cursor, entry_kind, put_bytes, put_frag, put_inode, put_list, put_rank, put_u64};
use loligo_journal::codec::parts::{take_entry_kind, take_frag, take_inode, take_lease, take_list, take_rank};
use loligo_types::peer::{Apart, Lent, Want};
use loligo_types::{Ino, Inode, Loaded, Name, Need, Target, XattrPair};

use super::Result;
use super::peer::take_bool;

/// Kinds of records. On the wire: keep stable, never reuse.
mod code {
    pub const INODE: u8 = 1;
    pub const ENTRY: u8 = 2;
    pub const RANGE: u8 = 3;
    pub const XATTRS: u8 = 4;
    pub const INLINE: u8 = 5;
    pub const PARTS: u8 = 6;
    pub const PART: u8 = 7;
    pub const PARTS_SHOWN: u8 = 8;
}

fn put(out: &mut Vec<u8>, code: u8, ino: Ino) {
    out.push(code);
    put_u64(out, ino.0);
}

pub(crate) fn put_want(out: &mut Vec<u8>, want: &Want) {
    match &want.need {
        Need::Inode(ino) => put(out, code::INODE, *ino),
        Need::Entry { dir, name } => {
            put(out, code::ENTRY, *dir);
            put_bytes(out, name.as_bytes());
        }
        // Hashes are not asked of another rank: it lends what it has.
        Need::Range { dir, from_hash } | Need::Hashes { dir, from_hash } => {
            put(out, code::RANGE, *dir);
            put_u64(out, *from_hash);
        }
        Need::Xattrs(ino) => put(out, code::XATTRS, *ino),
        Need::Inline(ino) => put(out, code::INLINE, *ino),
        Need::Parts(dir) if want.shown => put(out, code::PARTS_SHOWN, *dir),
        Need::Parts(dir) => put(out, code::PARTS, *dir),
    }
    out.push(want.recall.0);
}

pub(crate) fn take_want(from: &mut Cursor<'_>) -> Result<Want> {
    let (code, ino) = (from.u8()?, Ino(from.u64()?));
    let need = match code {
        code::INODE => Need::Inode(ino),
        code::ENTRY => Need::Entry { dir: ino, name: from.name()? },
        code::RANGE => Need::Range { dir: ino, from_hash: from.u64()? },
        code::XATTRS => Need::Xattrs(ino),
        code::INLINE => Need::Inline(ino),
        code::PARTS | code::PARTS_SHOWN => Need::Parts(ino),
        _ => return Err(from.invalid("kind of a record")),
    };
    Ok(Want { need, recall: take_lease(from)?, shown: code == code::PARTS_SHOWN })
}

/// Records of inodes; the small tables of a rank are its own, as is what it knows of hashes, and are left out.
pub(crate) fn put_items(out: &mut Vec<u8>, items: &[Loaded]) {
    let count = items.iter().filter(|item| is_lent(item)).count();
    put_u64(out, count as u64);
    items.iter().for_each(|item| put_item(out, item));
}

pub(crate) fn take_items(from: &mut Cursor<'_>) -> Result<Vec<Loaded>> {
    take_list(from, 3, "number of records", take_item)
}

pub(super) fn put_lent(out: &mut Vec<u8>, lent: &Lent) {
    put_items(out, &lent.items);
    put_list(out, &lent.opens, |out, (ino, opens)| {
        put_u64(out, ino.0);
        put_u64(out, u64::from(*opens));
    });
    put_list(out, &lent.elsewhere, |out, (ino, rank)| {
        put_u64(out, ino.0);
        put_rank(out, *rank);
    });
    put_list(out, &lent.apart, |out, apart| {
        put_u64(out, apart.ino.0);
        put_u64(out, apart.root.0);
        out.push(u8::from(apart.allows));
    });
}

pub(super) fn take_lent(from: &mut Cursor<'_>) -> Result<Lent> {
    Ok(Lent {
        items: take_items(from)?,
        opens: take_list(from, 2, "number of open inodes", |from| Ok((Ino(from.u64()?), from.u32()?)))?,
        elsewhere: take_list(from, 2, "number of inodes elsewhere", |from| Ok((Ino(from.u64()?), take_rank(from)?)))?,
        apart: take_list(from, 3, "number of inodes apart", |from| {
            Ok(Apart { ino: Ino(from.u64()?), root: Ino(from.u64()?), allows: take_bool(from)? })
        })?,
    })
}

fn is_lent(item: &Loaded) -> bool {
    match item {
        Loaded::Inode(..)
        | Loaded::Entry { .. }
        | Loaded::Range { .. }
        | Loaded::Xattrs(..)
        | Loaded::Inline(..)
        | Loaded::Part { .. } => true,
        Loaded::Hashes { .. }
        | Loaded::Orphan(_)
        | Loaded::Discard { .. }
        | Loaded::Session(_)
        | Loaded::NextIno(_)
        | Loaded::Route(_)
        | Loaded::Peer(_)
        | Loaded::Decoupled(_) => false,
    }
}

fn put_item(out: &mut Vec<u8>, item: &Loaded) {
    match item {
        Loaded::Inode(ino, inode) => {
            put(out, code::INODE, *ino);
            put_option(out, inode.as_deref(), put_inode);
        }
        Loaded::Entry { dir, name, found } => {
            put(out, code::ENTRY, *dir);
            put_bytes(out, name.as_bytes());
            put_option(out, found.as_ref(), put_target);
        }
        Loaded::Range { dir, from_hash, upto_hash, entries } => {
            put(out, code::RANGE, *dir);
            put_u64(out, *from_hash);
            put_u64(out, *upto_hash);
            put_list(out, entries, |out, (name, target)| {
                put_bytes(out, name.as_bytes());
                put_target(out, target);
            });
        }
        Loaded::Xattrs(ino, pairs) => {
            put(out, code::XATTRS, *ino);
            put_list(out, pairs, |out, (name, value)| {
                put_bytes(out, name);
                put_bytes(out, value);
            });
        }
        Loaded::Inline(ino, data) => {
            put(out, code::INLINE, *ino);
            put_option(out, data.as_deref(), put_bytes);
        }
        Loaded::Part { dir, part, frags } => {
            put(out, code::PART, *dir);
            put_option(out, part.as_deref(), put_inode);
            put_list(out, frags, |out, frag| put_frag(out, *frag));
        }
        Loaded::Hashes { .. }
        | Loaded::Orphan(_)
        | Loaded::Discard { .. }
        | Loaded::Session(_)
        | Loaded::NextIno(_)
        | Loaded::Route(_)
        | Loaded::Peer(_)
        | Loaded::Decoupled(_) => {}
    }
}

fn take_item(from: &mut Cursor<'_>) -> Result<Loaded> {
    let (code, ino) = (from.u8()?, Ino(from.u64()?));
    let boxed = |from: &mut Cursor<'_>| -> Result<Box<Inode>> { Ok(Box::new(take_inode(from, ino)?)) };
    Ok(match code {
        code::INODE => Loaded::Inode(ino, take_option(from, boxed)?),
        code::ENTRY => Loaded::Entry { dir: ino, name: from.name()?, found: take_option(from, take_target)? },
        code::RANGE => Loaded::Range {
            dir: ino,
            from_hash: from.u64()?,
            upto_hash: from.u64()?,
            entries: take_list(from, 4, "number of entries", |from| -> Result<(Name, Target)> {
                Ok((from.name()?, take_target(from)?))
            })?,
        },
        code::XATTRS => Loaded::Xattrs(
            ino,
            take_list(from, 2, "number of xattrs", |from| -> Result<XattrPair> {
                Ok((from.bytes()?.into(), from.bytes()?.into()))
            })?,
        ),
        code::INLINE => Loaded::Inline(ino, take_option(from, |from| Ok(Arc::from(from.bytes()?)))?),
        code::PART => Loaded::Part {
            dir: ino,
            part: take_option(from, boxed)?,
            frags: take_list(from, 2, "number of fragments", take_frag)?,
        },
        _ => return Err(from.invalid("kind of a record")),
    })
}

fn put_target(out: &mut Vec<u8>, target: &Target) {
    put_u64(out, target.ino.0);
    out.push(entry_kind(target.kind, target.remote));
}

fn take_target(from: &mut Cursor<'_>) -> Result<Target> {
    let ino = Ino(from.u64()?);
    let (kind, remote) = take_entry_kind(from)?;
    Ok(Target { ino, kind, remote })
}

fn put_option<T: ?Sized>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn take_option<T>(from: &mut Cursor<'_>, take: impl FnOnce(&mut Cursor<'_>) -> Result<T>) -> Result<Option<T>> {
    if take_bool(from)? { take(from).map(Some) } else { Ok(None) }
}
