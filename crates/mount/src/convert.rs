//! Between the kernel's words and ours: attributes, types, times, open flags, offsets. Pure functions.

use std::time::Duration;

use loligo_fuse as fuse;
use loligo_types::{Attr, FileLock, FsError, Kind, LockKind, LockOwner, OpenFlags, RenameMode, SetTime, Time};

/// Cache time of entries and attributes under a lease: until an invalidation.
pub const FOREVER: Duration = Duration::from_secs(1_000_000_000);
/// `f_flags` of an open for execution (`__FMODE_EXEC` of the kernel).
const FMODE_EXEC: i32 = 0x20;

/// Time to live of something that may be cached, or not.
pub fn ttl(cached: bool) -> Duration {
    if cached { FOREVER } else { Duration::ZERO }
}

/// A type, as it stands in a mode.
pub fn file_type(kind: Kind) -> u32 {
    match kind {
        Kind::File => libc::S_IFREG,
        Kind::Dir => libc::S_IFDIR,
        Kind::Symlink => libc::S_IFLNK,
        Kind::Fifo => libc::S_IFIFO,
        Kind::Socket => libc::S_IFSOCK,
        Kind::Char => libc::S_IFCHR,
        Kind::Block => libc::S_IFBLK,
    }
}

/// The type in the mode of `mknod`; without one it is a regular file. A directory cannot be made by it.
pub fn node_kind(mode: u32) -> Result<Kind, FsError> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Ok(Kind::File),
        libc::S_IFIFO => Ok(Kind::Fifo),
        libc::S_IFSOCK => Ok(Kind::Socket),
        libc::S_IFCHR => Ok(Kind::Char),
        libc::S_IFBLK => Ok(Kind::Block),
        _ => Err(FsError::Invalid),
    }
}

const NS: i64 = 1_000_000_000;

/// Seconds, and nanoseconds after them.
fn fuse_time(time: Time) -> (i64, u32) {
    (time.0.div_euclid(NS), time.0.rem_euclid(NS) as u32)
}

/// A time to set.
pub fn set_time(time: fuse::SetTime) -> SetTime {
    match time {
        fuse::SetTime::Now => SetTime::Now,
        fuse::SetTime::At(sec, nsec) => SetTime::At(Time::new(sec, nsec)),
    }
}

/// Attributes as `stat` shows them.
pub fn file_attr(attr: &Attr) -> fuse::Attr {
    fuse::Attr {
        ino: attr.ino.0,
        size: attr.size,
        blocks: if attr.kind == Kind::File { attr.size.div_ceil(512) } else { 0 },
        atime: fuse_time(attr.atime),
        mtime: fuse_time(attr.mtime),
        ctime: fuse_time(attr.ctime),
        mode: file_type(attr.kind) | u32::from(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: 4096,
    }
}

/// Attributes that go with "no such name".
pub const ABSENT: fuse::Attr = fuse::Attr {
    ino: 0,
    size: 0,
    blocks: 0,
    atime: (0, 0),
    mtime: (0, 0),
    ctime: (0, 0),
    mode: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 4096,
};

/// True for a file with a setuid or setgid bit.
pub fn has_setid(attr: &Attr) -> bool {
    attr.kind == Kind::File && attr.mode & 0o6000 != 0
}

/// Open flags, from those of `open(2)`.
pub fn open_flags(flags: i32) -> OpenFlags {
    let access = flags & libc::O_ACCMODE;
    OpenFlags {
        read: access == libc::O_RDONLY || access == libc::O_RDWR,
        write: access == libc::O_WRONLY || access == libc::O_RDWR,
        truncate: flags & libc::O_TRUNC != 0,
        append: flags & libc::O_APPEND != 0,
        exec: flags & FMODE_EXEC != 0,
    }
}

/// Mode of a rename, from the flags of `renameat2(2)`.
pub fn rename_mode(flags: u32) -> Result<RenameMode, FsError> {
    const NEW_WHITEOUT: u32 = libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE;
    match flags {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        libc::RENAME_WHITEOUT => Ok(RenameMode::Whiteout),
        NEW_WHITEOUT => Ok(RenameMode::NewWhiteout),
        _ => Err(FsError::Invalid),
    }
}

/// A lock as the kernel describes it; its `end` for "to the end of the file" is the largest offset.
pub fn file_lock(kind: LockKind, owner: u64, start: u64, end: u64, exclusive: bool, pid: u32) -> FileLock {
    let end = if end >= i64::MAX as u64 { u64::MAX } else { end };
    FileLock { kind, owner: LockOwner(owner), pid, exclusive, start, end }
}

/// Readdir offset of `.`.
pub const OFFSET_DOT: u64 = 1;
/// Readdir offset of `..`; those of entries follow.
pub const OFFSET_DOTDOT: u64 = 2;

/// The kernel's offset after an entry with this cookie.
pub fn offset_of(cookie: u64) -> u64 {
    cookie.saturating_add(OFFSET_DOTDOT).min(i64::MAX as u64)
}

/// The cookie to go on after.
pub fn cookie_of(offset: u64) -> u64 {
    offset.saturating_sub(OFFSET_DOTDOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive_the_way_there_and_back() {
        assert_eq!(set_time(fuse::SetTime::At(-2, 500_000_000)), SetTime::At(Time(-1_500_000_000)));
        assert_eq!(fuse_time(Time(-1_500_000_000)), (-2, 500_000_000));
        assert_eq!(fuse_time(Time(1)), (0, 1));
        assert_eq!(set_time(fuse::SetTime::At(i64::MAX, 7)), SetTime::At(Time(i64::MAX)));
    }

    #[test]
    fn open_flags_are_taken_apart() {
        let flags = open_flags(libc::O_RDWR | libc::O_APPEND | libc::O_TRUNC);
        assert_eq!(flags, OpenFlags { read: true, write: true, truncate: true, append: true, exec: false });
        assert!(open_flags(libc::O_RDONLY | FMODE_EXEC).exec);
        assert!(!open_flags(libc::O_WRONLY).read);
    }

    #[test]
    fn offsets_of_entries_never_meet_those_of_the_dots() {
        assert_eq!(offset_of(1), 3);
        assert_eq!(cookie_of(offset_of(1)), 1);
        assert_eq!(cookie_of(0), 0);
        assert_eq!(cookie_of(OFFSET_DOT), 0);
        assert_eq!(cookie_of(OFFSET_DOTDOT), 0);
        assert!(offset_of(i64::MAX as u64) <= i64::MAX as u64);
    }

    #[test]
    fn a_lock_to_the_end_of_the_file_has_no_end() {
        assert_eq!(file_lock(LockKind::Posix, 1, 5, i64::MAX as u64, true, 2).end, u64::MAX);
        assert_eq!(file_lock(LockKind::Posix, 1, 5, 9, true, 2).end, 9);
    }

    #[test]
    fn flags_of_a_rename_that_contradict_each_other_are_refused() {
        assert_eq!(rename_mode(libc::RENAME_WHITEOUT), Ok(RenameMode::Whiteout));
        assert_eq!(rename_mode(libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE), Ok(RenameMode::NewWhiteout));
        assert_eq!(rename_mode(libc::RENAME_WHITEOUT | libc::RENAME_EXCHANGE), Err(FsError::Invalid));
        assert_eq!(rename_mode(libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE), Err(FsError::Invalid));
        assert_eq!(rename_mode(libc::RENAME_EXCHANGE), Ok(RenameMode::Exchange));
    }
}
