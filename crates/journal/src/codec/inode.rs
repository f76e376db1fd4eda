//! The bytes of an inode without its number (which stands in the key or before it).
//!
//! The common case is small: a time that equals another is a flag, and what is zero or absent takes no byte.

use loligo_types::attr::Extra;
use loligo_types::limits::{EXPECTED_ENTRIES_MAX, OBJECT_SIZE_MAX};
use loligo_types::{
    Acl, AclEntry, AclTag, Frag, Ino, Inode, Kind, Layout, LookupLease, Place, Placement, RStat, Rank, Spread, Time,
};

use super::{Cursor, DecodeError, put_bytes, put_u64, put_zigzag};

// Flags of an inode. Persisted: keep stable.
const INLINE: u16 = 1 << 0;
const HAS_XATTRS: u16 = 1 << 1;
// 1 << 2 was the device number in version 1, which is a rare part now.
const EXTRA: u16 = 1 << 3;
const ACCOUNTED: u16 = 1 << 4;
const ATIME: u16 = 1 << 5;
const MTIME: u16 = 1 << 6;
const CTIME: u16 = 1 << 7;
const CUTS: u16 = 1 << 8;
const FRAGS: u16 = 1 << 9;
/// Of a directory whose fragments are several ranks': behind all else, 0 at its home, else the rank of the part plus one.
const SPREAD: u16 = 1 << 15;
const FLAGS_ALL: u16 = ((FRAGS << 1) - 1) & !(1 << 2) | SPREAD;

// Flags of the rare parts. Persisted: keep stable.
const SYMLINK: u8 = 1 << 0;
const ACL: u8 = 1 << 1;
const DEFAULT_ACL: u8 = 1 << 2;
const RSTAT: u8 = 1 << 3;
const LAYOUT: u8 = 1 << 4;
const LINKABLE: u8 = 1 << 5;
const RDEV: u8 = 1 << 6;
/// The last one that there is room for.
const PLACEMENT: u8 = 1 << 7;
/// In the byte of that: a scattered directory has been given to another rank.
const MOVED: u8 = 1 << 7;
/// The same: the policy of lookup leases follows.
const LEASED: u8 = 1 << 6;

/// The shortest ACL entry: tag, id and permissions of one byte each.
const ACL_ENTRY_MIN: usize = 3;

fn flag<T: Default>(bit: T, set: bool) -> T {
    if set { bit } else { T::default() }
}

/// Appends an inode without its number.
pub fn put_inode(out: &mut Vec<u8>, inode: &Inode) {
    debug_assert!(inode.mode <= 0o7777, "mode {:o} has bits beyond the permission bits", inode.mode);
    let flags = flag(INLINE, inode.inline)
        | flag(HAS_XATTRS, inode.has_xattrs)
        | flag(EXTRA, inode.extra.is_some())
        | flag(ACCOUNTED, inode.accounted != RStat::default())
        | flag(ATIME, inode.atime != inode.btime)
        | flag(MTIME, inode.mtime != inode.btime)
        | flag(CTIME, inode.ctime != inode.mtime)
        | flag(CUTS, inode.cuts != 0)
        | flag(FRAGS, has_frags(inode))
        | flag(SPREAD, inode.is_spread());
    let kind_mode = (u16::from(inode.kind.code()) << 12 | (inode.mode & 0o7777)).to_le_bytes();
    let flags = flags.to_le_bytes();
    out.extend_from_slice(&[kind_mode[0], kind_mode[1], flags[0], flags[1]]);
    put_times(out, inode);
    put_u64(out, u64::from(inode.uid));
    put_u64(out, u64::from(inode.gid));
    put_u64(out, u64::from(inode.nlink));
    put_u64(out, inode.size);
    put_u64(out, inode.parent.0);
    // A hash has all its bits: a varint would be longer.
    out.extend_from_slice(&inode.place.0.to_le_bytes());
    put_u64(out, inode.change);
    if inode.accounted != RStat::default() {
        put_rstat(out, inode.accounted);
    }
    if inode.cuts != 0 {
        put_u64(out, u64::from(inode.cuts));
    }
    if has_frags(inode) {
        out.push(inode.frag_bits);
        put_u64(out, inode.expected_entries());
    }
    if let Some(extra) = &inode.extra {
        put_extra(out, extra);
    }
    match inode.spread() {
        Spread::No => {}
        Spread::Home => put_u64(out, 0),
        Spread::Part(rank) => put_u64(out, u64::from(rank.0) + 1),
    }
}

/// The policy is written beside what follows from it: the flags of the rare parts are almost used up.
fn has_frags(inode: &Inode) -> bool {
    inode.frag_bits != 0 || inode.expected_entries() != 0
}

/// Takes an inode; its number comes from elsewhere.
pub fn take_inode(from: &mut Cursor<'_>, ino: Ino) -> Result<Inode, DecodeError> {
    let kind_mode = u16::from_le_bytes(from.array()?);
    let kind = Kind::from_code((kind_mode >> 12) as u8).ok_or_else(|| from.invalid("kind of the inode"))?;
    let flags = u16::from_le_bytes(from.array()?);
    if flags & !FLAGS_ALL != 0 {
        return Err(from.invalid("flags of the inode"));
    }
    let btime = take_time(from)?;
    let atime = if flags & ATIME != 0 { take_time(from)? } else { btime };
    let mtime = if flags & MTIME != 0 { take_time(from)? } else { btime };
    let ctime = if flags & CTIME != 0 { take_time(from)? } else { mtime };
    let mut expected_entries = 0;
    let mut inode = Inode {
        ino,
        kind,
        mode: kind_mode & 0o7777,
        atime,
        mtime,
        ctime,
        btime,
        uid: from.u32()?,
        gid: from.u32()?,
        nlink: from.u32()?,
        size: from.u64()?,
        parent: Ino(from.u64()?),
        place: Place(u64::from_le_bytes(from.array()?)),
        change: from.u64()?,
        accounted: if flags & ACCOUNTED != 0 { take_rstat(from)? } else { RStat::default() },
        cuts: if flags & CUTS != 0 { from.u32()? } else { 0 },
        frag_bits: if flags & FRAGS != 0 { take_frags(from, &mut expected_entries)? } else { 0 },
        inline: flags & INLINE != 0,
        has_xattrs: flags & HAS_XATTRS != 0,
        extra: if flags & EXTRA != 0 { Some(Box::new(take_extra(from)?)) } else { None },
    };
    if expected_entries != 0 {
        inode.extra_mut().expected_entries = expected_entries;
    }
    if flags & SPREAD != 0 {
        if kind != Kind::Dir || inode.extra.is_none() {
            return Err(from.invalid("fragments at several ranks"));
        }
        inode.extra_mut().spread = match from.u64()?.checked_sub(1) {
            None => Spread::Home,
            Some(rank) => Spread::Part(u16::try_from(rank).map(Rank).map_err(|_| from.invalid("rank of a part"))?),
        };
    }
    Ok(inode)
}

/// In how many fragments a directory is cut, and how many entries it is expected to have.
fn take_frags(from: &mut Cursor<'_>, expected_entries: &mut u64) -> Result<u8, DecodeError> {
    let bits = from.u8()?;
    *expected_entries = from.u64()?;
    if bits > Frag::BITS_MAX || *expected_entries > EXPECTED_ENTRIES_MAX || (bits, *expected_entries) == (0, 0) {
        return Err(from.invalid("fragments of the directory"));
    }
    Ok(bits)
}

fn put_times(out: &mut Vec<u8>, inode: &Inode) {
    out.extend_from_slice(&inode.btime.0.to_le_bytes());
    if inode.atime != inode.btime {
        out.extend_from_slice(&inode.atime.0.to_le_bytes());
    }
    if inode.mtime != inode.btime {
        out.extend_from_slice(&inode.mtime.0.to_le_bytes());
    }
    if inode.ctime != inode.mtime {
        out.extend_from_slice(&inode.ctime.0.to_le_bytes());
    }
}

fn take_time(from: &mut Cursor<'_>) -> Result<Time, DecodeError> {
    Ok(Time(i64::from_le_bytes(from.array()?)))
}

fn put_rstat(out: &mut Vec<u8>, rstat: RStat) {
    put_zigzag(out, rstat.entries);
    put_zigzag(out, rstat.bytes);
}

fn take_rstat(from: &mut Cursor<'_>) -> Result<RStat, DecodeError> {
    Ok(RStat { entries: from.zigzag()?, bytes: from.zigzag()? })
}

fn put_extra(out: &mut Vec<u8>, extra: &Extra) {
    out.push(
        flag(SYMLINK, extra.symlink.is_some())
            | flag(ACL, extra.acl.is_some())
            | flag(DEFAULT_ACL, extra.default_acl.is_some())
            | flag(RSTAT, extra.rstat != RStat::default())
            | flag(LAYOUT, extra.layout.is_some())
            | flag(LINKABLE, extra.linkable)
            | flag(RDEV, extra.rdev != 0)
            | flag(PLACEMENT, has_placing(extra)),
    );
    if let Some(target) = &extra.symlink {
        put_bytes(out, target);
    }
    for acl in [&extra.acl, &extra.default_acl].into_iter().flatten() {
        put_acl(out, acl);
    }
    if extra.rstat != RStat::default() {
        put_rstat(out, extra.rstat);
    }
    if let Some(layout) = extra.layout {
        put_object_size(out, layout.object_size);
    }
    if extra.rdev != 0 {
        put_u64(out, u64::from(extra.rdev));
    }
    if has_placing(extra) {
        let leased = flag(LEASED, !extra.lookup_lease.is_none());
        out.push(extra.placement as u8 | flag(MOVED, extra.moved) | leased);
        if !extra.lookup_lease.is_none() {
            out.extend_from_slice(&extra.lookup_lease.code().to_le_bytes());
        }
    }
}

/// True if the byte of the placement has anything in it: the flags of the rare parts are used up.
fn has_placing(extra: &Extra) -> bool {
    extra.placement != Placement::Inherited || extra.moved || !extra.lookup_lease.is_none()
}

fn take_extra(from: &mut Cursor<'_>) -> Result<Extra, DecodeError> {
    let flags = from.u8()?;
    let mut extra = Extra { linkable: flags & LINKABLE != 0, ..Extra::default() };
    if flags & SYMLINK != 0 {
        extra.symlink = Some(from.bytes()?.into());
    }
    if flags & ACL != 0 {
        extra.acl = Some(take_acl(from)?);
    }
    if flags & DEFAULT_ACL != 0 {
        extra.default_acl = Some(take_acl(from)?);
    }
    if flags & RSTAT != 0 {
        extra.rstat = take_rstat(from)?;
    }
    if flags & LAYOUT != 0 {
        extra.layout = Some(Layout { object_size: take_object_size(from)? });
    }
    if flags & RDEV != 0 {
        extra.rdev = from.u32()?;
    }
    if flags & PLACEMENT != 0 {
        let byte = from.u8()?;
        extra.moved = byte & MOVED != 0;
        let alone = byte & (MOVED | LEASED) == 0;
        let said =
            Placement::from_code(byte & !(MOVED | LEASED)).filter(|said| !alone || *said != Placement::Inherited);
        extra.placement = said.ok_or_else(|| from.invalid("placement of the directory"))?;
        if byte & LEASED != 0 {
            let code = u16::from_le_bytes(from.array()?);
            let lease = LookupLease::from_code(code).ok_or_else(|| from.invalid("lookup lease of the directory"))?;
            extra.lookup_lease = lease;
        }
    }
    Ok(extra)
}

fn put_acl(out: &mut Vec<u8>, acl: &Acl) {
    put_u64(out, acl.0.len() as u64);
    for entry in &acl.0 {
        // An id is meaningless for most tags and then u32::MAX: plus one it is a single byte.
        out.push(entry.tag as u16 as u8);
        put_u64(out, u64::from(entry.id.wrapping_add(1)));
        out.push(entry.perm);
    }
}

fn take_acl(from: &mut Cursor<'_>) -> Result<Acl, DecodeError> {
    let count = from.count(ACL_ENTRY_MIN, "number of ACL entries")?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let tag = from.u8()?;
        let tag = acl_tag(tag).ok_or_else(|| from.invalid("ACL tag"))?;
        let id = from.u32()?.wrapping_sub(1);
        let perm = from.u8()?;
        if perm > 7 {
            return Err(from.invalid("ACL permissions"));
        }
        entries.push(AclEntry { tag, id, perm });
    }
    Ok(Acl(entries))
}

fn acl_tag(code: u8) -> Option<AclTag> {
    Some(match code {
        0x01 => AclTag::UserObj,
        0x02 => AclTag::User,
        0x04 => AclTag::GroupObj,
        0x08 => AclTag::Group,
        0x10 => AclTag::Mask,
        0x20 => AclTag::Other,
        _ => return None,
    })
}

/// Appends the size of objects.
pub(crate) fn put_object_size(out: &mut Vec<u8>, object_size: u32) {
    debug_assert!(object_size_is_valid(object_size), "object size {object_size} is no power of two up to 1 GiB");
    put_u64(out, u64::from(object_size));
}

/// Takes the size of objects, which others divide by.
pub(crate) fn take_object_size(from: &mut Cursor<'_>) -> Result<u32, DecodeError> {
    let object_size = from.u32()?;
    if object_size_is_valid(object_size) { Ok(object_size) } else { Err(from.invalid("object size")) }
}

fn object_size_is_valid(object_size: u32) -> bool {
    object_size.is_power_of_two() && u64::from(object_size) <= OBJECT_SIZE_MAX
}
