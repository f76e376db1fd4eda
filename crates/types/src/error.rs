//! Errors of operations, in kinds that tell a caller what to do. Errno numbers live at the mount only.

use std::fmt;

/// Result of a file system operation.
pub type FsResult<T> = Result<T, FsError>;

/// The kinds. The number is persisted in the wire protocol: keep stable, never reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FsError {
    /// No such entry or inode (ENOENT).
    NotFound = 1,
    /// The name is taken (EEXIST).
    Exists = 2,
    /// A component that must be a directory is not (ENOTDIR).
    NotDir = 3,
    /// The operation does not work on a directory (EISDIR).
    IsDir = 4,
    /// The directory has entries (ENOTEMPTY).
    NotEmpty = 5,
    /// Mode bits or ACL forbid it (EACCES).
    Access = 6,
    /// Only the owner or root may (EPERM).
    Perm = 7,
    /// An argument makes no sense (EINVAL).
    Invalid = 8,
    /// Over 255 bytes, or a target over 4095 (ENAMETOOLONG).
    NameTooLong = 9,
    /// The link count is at its limit (EMLINK).
    TooManyLinks = 10,
    /// Past the largest file size (EFBIG).
    FileTooBig = 11,
    /// Too many symlinks, or O_NOFOLLOW met one (ELOOP).
    Loop = 12,
    /// The store is full; free space and try again (ENOSPC).
    NoSpace = 13,
    /// A quota is used up (EDQUOT).
    Quota = 14,
    /// No such xattr, or no data there for SEEK_DATA/SEEK_HOLE past the end (ENODATA or ENXIO: see the mount's table).
    NoData = 15,
    /// Offset past the end of the file for a seek (ENXIO).
    NoSuchOffset = 16,
    /// A value is larger than the limit (E2BIG).
    TooBig = 17,
    /// The caller's buffer is too small (ERANGE).
    Range = 18,
    /// Another holds a conflicting lock; try again (EAGAIN).
    WouldBlock = 19,
    /// Waiting for the lock would wait for ever (EDEADLK).
    Deadlock = 20,
    /// The handle or inode is of the past: the file is gone or the session was evicted (ESTALE).
    Stale = 21,
    /// The file system is read-only (EROFS).
    ReadOnly = 22,
    /// Crosses a boundary that cannot be crossed; copy instead (EXDEV).
    CrossDevice = 23,
    /// Not supported on this object (EOPNOTSUPP).
    NotSupported = 24,
    /// In use (EBUSY).
    Busy = 25,
    /// The store failed or its bytes are broken; see the server's log (EIO).
    Io = 26,
    /// The wait was given up (EINTR).
    Interrupted = 27,
    /// The server is gone or stops; try again later (EIO at the mount after the time-out).
    Unavailable = 28,
    /// Not an open file, or not open for this (EBADF).
    BadHandle = 29,
    /// No such device behind a device node (ENXIO).
    NoDevice = 30,
    /// Numbers too large to hold (EOVERFLOW).
    Overflow = 31,
    /// The caller may not claim to be that user (EPERM at the mount).
    NotAuthorized = 32,
    /// The inode number was not granted to this session at this rank (EINVAL at the mount).
    NotGranted = 33,
    /// The inode number has made an inode before (EINVAL at the mount).
    NumberUsed = 34,
}

impl FsError {
    /// All kinds, in the order of their numbers.
    pub const ALL: [FsError; 34] = {
        use FsError::*;
        [
            NotFound,
            Exists,
            NotDir,
            IsDir,
            NotEmpty,
            Access,
            Perm,
            Invalid,
            NameTooLong,
            TooManyLinks,
            FileTooBig,
            Loop,
            NoSpace,
            Quota,
            NoData,
            NoSuchOffset,
            TooBig,
            Range,
            WouldBlock,
            Deadlock,
            Stale,
            ReadOnly,
            CrossDevice,
            NotSupported,
            Busy,
            Io,
            Interrupted,
            Unavailable,
            BadHandle,
            NoDevice,
            Overflow,
            NotAuthorized,
            NotGranted,
            NumberUsed,
        ]
    };

    /// The kind with this number, if there is one.
    pub fn from_code(code: u8) -> Option<FsError> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// The stable number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FsError::NotFound => "no such file or directory",
            FsError::Exists => "the name exists already",
            FsError::NotDir => "not a directory",
            FsError::IsDir => "is a directory",
            FsError::NotEmpty => "the directory is not empty",
            FsError::Access => "permission denied",
            FsError::Perm => "only the owner or root may do this",
            FsError::Invalid => "invalid argument",
            FsError::NameTooLong => "the name is too long",
            FsError::TooManyLinks => "too many hard links to one file",
            FsError::FileTooBig => "the file would be larger than the largest allowed",
            FsError::Loop => "too many levels of symbolic links",
            FsError::NoSpace => "no space left in the store",
            FsError::Quota => "the quota is used up",
            FsError::NoData => "no such attribute",
            FsError::NoSuchOffset => "the offset is past the end of the file",
            FsError::TooBig => "the value is larger than the limit",
            FsError::Range => "the buffer is too small",
            FsError::WouldBlock => "another holds a conflicting lock",
            FsError::Deadlock => "waiting for the lock would never end",
            FsError::Stale => "the file is gone, or the session was evicted",
            FsError::ReadOnly => "the file system is read-only",
            FsError::CrossDevice => "crosses a boundary; copy instead",
            FsError::NotSupported => "not supported here",
            FsError::Busy => "in use",
            FsError::Io => "the store failed; the server's log says more",
            FsError::Interrupted => "interrupted",
            FsError::Unavailable => "the server cannot be reached or is stopping",
            FsError::BadHandle => "not open, or not open for this",
            FsError::NoDevice => "no such device",
            FsError::Overflow => "a number is too large",
            FsError::NotAuthorized => "the caller may not act as that user",
            FsError::NotGranted => "the inode number was not granted to this session; ask the rank for a grant",
            FsError::NumberUsed => "the inode number has made an inode before; take another one",
        })
    }
}

impl std::error::Error for FsError {}
