//! Values that both directions use, to protobuf and back with every check.

use loligo_types::limits::{OBJECT_SIZE_MAX, READDIR_MAX};
use loligo_types::{Attr, FileLock, Ino, Kind, Layout, Lease, LockKind, LockOwner, Name, OpenFlags, SetTime, Time};

use crate::{DecodeError, proto};

type Result<T> = std::result::Result<T, DecodeError>;

/// Smallest object, bytes.
const OBJECT_SIZE_MIN: u64 = 64 << 10;
/// All lease bits there are.
const LEASE_BITS: u32 = 31;

/// A message field that must be there.
pub(crate) fn need<T>(field: Option<T>, what: &'static str) -> Result<T> {
    field.ok_or(DecodeError::Missing(what))
}

/// At most `max` of something.
pub(crate) fn limit(found: usize, max: usize, what: &'static str) -> Result<()> {
    if found > max { Err(DecodeError::Limit { what, found, max }) } else { Ok(()) }
}

pub(crate) fn name(bytes: &[u8]) -> Result<Name> {
    Name::new(bytes).map_err(|_| DecodeError::Invalid("name"))
}

pub(crate) fn bits12(mode: u32) -> Result<u16> {
    if mode > 0o7777 { Err(DecodeError::Invalid("mode")) } else { Ok(mode as u16) }
}

pub(crate) fn kind(code: i32) -> Result<Kind> {
    u8::try_from(code).ok().and_then(Kind::from_code).ok_or(DecodeError::Invalid("file type"))
}

pub(crate) fn to_kind(kind: Kind) -> i32 {
    i32::from(kind.code())
}

pub(crate) fn lease(bits: u32) -> Result<Lease> {
    if bits > LEASE_BITS { Err(DecodeError::Invalid("lease")) } else { Ok(Lease(bits as u8)) }
}

pub(crate) fn to_lease(lease: Lease) -> u32 {
    u32::from(lease.0)
}

pub(crate) fn object_size(bytes: u32) -> Result<u32> {
    let fits = bytes.is_power_of_two() && (OBJECT_SIZE_MIN..=OBJECT_SIZE_MAX).contains(&u64::from(bytes));
    if fits { Ok(bytes) } else { Err(DecodeError::Invalid("object size")) }
}

pub(crate) fn fs_id(bytes: &[u8]) -> Result<[u8; 16]> {
    bytes.try_into().map_err(|_| DecodeError::Invalid("file system id"))
}

pub(crate) fn readdir_limit(limit: u32) -> u32 {
    limit.min(READDIR_MAX as u32)
}

pub(crate) fn to_set_time(time: SetTime) -> proto::SetTime {
    proto::SetTime {
        at: match time {
            SetTime::Now => None,
            SetTime::At(Time(ns)) => Some(ns),
        },
    }
}

pub(crate) fn set_time(time: proto::SetTime) -> SetTime {
    time.at.map_or(SetTime::Now, |ns| SetTime::At(Time(ns)))
}

pub(crate) fn to_flags(flags: OpenFlags) -> proto::OpenFlags {
    let OpenFlags { read, write, truncate, append, exec } = flags;
    proto::OpenFlags { read, write, truncate, append, exec }
}

pub(crate) fn flags(flags: Option<proto::OpenFlags>) -> OpenFlags {
    let proto::OpenFlags { read, write, truncate, append, exec } = flags.unwrap_or_default();
    OpenFlags { read, write, truncate, append, exec }
}

pub(crate) fn to_lock(lock: &FileLock) -> proto::FileLock {
    proto::FileLock {
        kind: match lock.kind {
            LockKind::Flock => 0,
            LockKind::Posix => 1,
        },
        owner: lock.owner.0,
        pid: lock.pid,
        exclusive: lock.exclusive,
        start: lock.start,
        end: lock.end,
    }
}

pub(crate) fn lock(lock: Option<proto::FileLock>) -> Result<FileLock> {
    let lock = need(lock, "the lock")?;
    if lock.start > lock.end {
        return Err(DecodeError::Invalid("lock range"));
    }
    Ok(FileLock {
        kind: match lock.kind {
            0 => LockKind::Flock,
            1 => LockKind::Posix,
            _ => return Err(DecodeError::Invalid("lock kind")),
        },
        owner: LockOwner(lock.owner),
        pid: lock.pid,
        exclusive: lock.exclusive,
        start: lock.start,
        end: lock.end,
    })
}

pub(crate) fn to_leases(leases: &[(Ino, Lease)]) -> Vec<proto::LeaseOn> {
    leases.iter().map(|(ino, bits)| proto::LeaseOn { ino: ino.0, bits: to_lease(*bits) }).collect()
}

pub(crate) fn leases(leases: Vec<proto::LeaseOn>) -> Result<Vec<(Ino, Lease)>> {
    leases.into_iter().map(|on| Ok((Ino(on.ino), lease(on.bits)?))).collect()
}

pub(crate) fn to_attr(attr: &Attr) -> proto::Attr {
    proto::Attr {
        ino: attr.ino.0,
        kind: to_kind(attr.kind),
        mode: u32::from(attr.mode),
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink,
        size: attr.size,
        rdev: attr.rdev,
        atime: attr.atime.0,
        mtime: attr.mtime.0,
        ctime: attr.ctime.0,
        btime: attr.btime.0,
        change: attr.change,
        cuts: attr.cuts,
        inline: attr.inline,
        has_xattrs: attr.has_xattrs,
        object_size: attr.layout.object_size,
    }
}

pub(crate) fn attr(attr: &proto::Attr) -> Result<Attr> {
    Ok(Attr {
        ino: Ino(attr.ino),
        kind: kind(attr.kind)?,
        mode: bits12(attr.mode)?,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink,
        size: attr.size,
        rdev: attr.rdev,
        atime: Time(attr.atime),
        mtime: Time(attr.mtime),
        ctime: Time(attr.ctime),
        btime: Time(attr.btime),
        change: attr.change,
        cuts: attr.cuts,
        inline: attr.inline,
        has_xattrs: attr.has_xattrs,
        layout: Layout { object_size: object_size(attr.object_size)? },
    })
}
