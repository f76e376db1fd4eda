//! Advisory locks as data: flock (whole file, owner is the open file) and fcntl (byte ranges, owner is the process).

/// Which of the two families, which never conflict with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// BSD `flock`; the range is the whole file.
    Flock,
    /// POSIX `fcntl` record lock.
    Posix,
}

/// Owner of a lock, within a session: the kernel's lock owner number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct LockOwner(pub u64);

/// A lock, held or asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FileLock {
    /// Family.
    pub kind: LockKind,
    /// Owner within the session.
    pub owner: LockOwner,
    /// Process id that `F_GETLK` reports; a hint only.
    pub pid: u32,
    /// Exclusive (write) or shared (read).
    pub exclusive: bool,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` for "to the end".
    pub end: u64,
}
