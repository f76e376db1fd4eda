//! Calls of a program to a client: at the level of files, with reads cached and writes held back.
//!
//! A call with no state of its own is an [`Op`] passed through; those that touch an open file's data go by its handle.

use std::sync::Arc;

use loligo_types::{
    Access, Answer, Attr, DataOp, DirEntry, FileLock, Ino, LockOwner, Name, Op, OpenFlags, Rank, SetAttr,
};

/// A file opened through this client; unique for its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fh(pub u64);

/// Modes of `fallocate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallocate {
    /// Make sure the range reads (as zeros where nothing was) and, unless `keep_size`, the file reaches over it.
    Allocate { keep_size: bool },
    /// Free the range; it reads as zeros; the size stays.
    PunchHole,
    /// The range reads as zeros; the size grows over it unless `keep_size`.
    ZeroRange { keep_size: bool },
}

/// Which rank is asked for a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WalkAt {
    /// The one with the first name.
    #[default]
    First,
    /// This one: it is believed to have the last name, or the directory that it is in, and finds the way there itself. That directory's number: where it is
    /// known to be in fragments of several ranks the one with the name is asked.
    Rank(Rank, Ino),
    /// The one that the path gives: the names from this one on, counted from 0, are of directories that have their ranks by their paths.
    ByPath(u32),
}

/// The calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Any operation that concerns names or attributes only: Lookup, LookupParent, Mknod, Mkdir, Symlink, Link, Unlink,
    /// Rmdir, Rename, Readlink, xattr operations, Access, StatFs. `Done::answer` as documented with [`Op`].
    Op(Op),
    /// Finds names one after the other, as far as the rank leads that is asked. `Answer::Walked`. `to_dir`: the last one is a directory, too, and only
    /// its number matters. `path_cache`: lookup leases are welcome, and it begins so deep below the root.
    Walk { dir: Ino, names: Arc<[Name]>, at: WalkAt, to_dir: bool, ways: Option<u16> },
    /// Does something where names lead to, as [`Op::Via`] has it; the directory, inode and handle in `what` do not count. Answered as `what` is, with
    /// `Done::fh` if it opens, or with `Answer::Walked` if nothing was done, but the way gone: there the caller goes on. That is also the answer where
    /// it cannot be one request: what is cached, held back or decoupled here must be looked at first.
    Via { dir: Ino, names: Arc<[Name]>, at: WalkAt, what: Box<Op>, ways: Option<u16> },
    /// Attributes, with what this client holds back of size and times. `Answer::Entry`.
    GetAttr { ino: Ino },
    /// Changes attributes; a `size` is a truncate, ordered with the writes before and after it.
    SetAttr { ino: Ino, set: SetAttr, fh: Option<Fh> },
    /// Opens. `Done::fh` is set.
    Open { ino: Ino, flags: OpenFlags },
    /// Opens, making it if need be. `Done::fh` is set.
    Create { dir: Ino, name: Name, mode: u16, umask: u16, flags: OpenFlags, exclusive: bool },
    /// Opens a new nameless file. `Done::fh` is set.
    Tmpfile { dir: Ino, mode: u16, umask: u16, flags: OpenFlags, linkable: bool },
    /// Reads; short only at the end of the file. `Answer::Bytes`.
    Read { fh: Fh, offset: u64, len: u32 },
    /// Writes all of it. `append`: at the end, whatever the offset says. `Answer::Offset` with the number of bytes.
    /// `kill_priv`: the caller has no CAP_FSETID, so setuid and setgid end. Capabilities end in any case.
    Write { fh: Fh, offset: u64, data: Arc<[u8]>, append: bool, kill_priv: bool },
    /// A descriptor was closed: what was written goes to the server now, and errors show. Drops POSIX locks of `owner`.
    Flush { fh: Fh, owner: Option<LockOwner> },
    /// Everything written to the file is durable when it is answered.
    Fsync { fh: Fh, data_only: bool },
    /// All names in the directory that were answered are durable, and with them all else that this client was answered by its rank.
    FsyncDir { dir: Ino },
    /// The last descriptor was closed. `flock_owner`: whose flock ends with it.
    Release { fh: Fh, flock_owner: Option<LockOwner> },
    /// Space management. `kill_priv`: as of a write.
    Fallocate { fh: Fh, how: Fallocate, offset: u64, len: u64, kill_priv: bool },
    /// SEEK_DATA (`data`) or SEEK_HOLE. `Answer::Offset`; `NoSuchOffset` past the end.
    Seek { fh: Fh, offset: u64, data: bool },
    /// copy_file_range. `Answer::Offset` with the number of bytes copied. `kill_priv`: as of a write.
    Copy { from: Fh, from_offset: u64, to: Fh, to_offset: u64, len: u64, kill_priv: bool },
    /// Reads a directory opened with `Open`. `Answer::Entries`.
    Readdir { fh: Fh, cookie: u64, limit: u32, plus: bool },
    /// Takes or changes a lock. With `wait`, answered when it was got.
    SetLock { fh: Fh, lock: FileLock, wait: bool },
    /// Gives a range back.
    Unlock { fh: Fh, lock: FileLock },
    /// `Answer::Lock`.
    GetLock { fh: Fh, lock: FileLock },
    /// A signal came while waiting for a lock.
    CancelLock { ino: Ino, owner: LockOwner },
    /// Checks the caller's permission.
    Access { ino: Ino, want: Access },
    /// The kernel (or program) caches nothing of these inodes any more; leases may be given back when convenient.
    Forget { inos: Vec<Ino> },
    /// Everything that was written through this client before, through closed handles too, is at the server and durable
    /// (syncfs). An error if some of it was lost that no call of this kind has told of.
    SyncAll,
    /// One data request for objects that are no open file's: of numbers that a decoupled subtree was granted, as `SubtreeOp::Data` has allowed. `Answer::Bytes`,
    /// `Done`, or `Offset`. `Stale`: it is not allowed (any more), and what was written since the last `DataOp::Sync` may be lost.
    Data { ino: Ino, op: DataOp },
}

/// A call that went well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The answer.
    pub answer: Answer,
    /// The handle that was opened.
    pub fh: Option<Fh>,
    /// The attributes in the answer may be cached until [`Invalidation::Attr`] comes.
    pub attr_cached: bool,
    /// The name looked up (present or absent), or made, may be cached until [`Invalidation::Names`] of its directory. Of a rename: what
    /// was known of the old name may be taken for the new one, and the other way round if they changed places.
    pub names_cached: bool,
    /// The file's data may be kept in caches above this client across opens (it was not changed by others since the last).
    pub keep_data: bool,
    /// Lookup leases that came, if they were welcome (see [`loligo_types::msg::ToClient::Reply`]). They count from when the call was made.
    pub ways: Vec<(Ino, u16)>,
}

/// An invalidation that caches above the client must carry out before the client goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalidation {
    /// All entries of a directory.
    Names(Ino),
    /// Attributes, xattrs, symlink target, ACLs of an inode.
    Attr(Ino),
    /// Attributes and data of a file.
    Data(Ino),
}

impl Done {
    /// Nothing but an answer.
    pub fn plain(answer: Answer) -> Done {
        Done { answer, fh: None, attr_cached: false, names_cached: false, keep_data: false, ways: Vec::new() }
    }

    /// The attributes in the answer.
    pub fn attr(&self) -> Option<&Attr> {
        self.answer.attr()
    }

    /// The entries in the answer.
    pub fn entries(&self) -> Option<(&[DirEntry], bool)> {
        match &self.answer {
            Answer::Entries { entries, end, .. } => Some((entries, *end)),
            _ => None,
        }
    }
}

/// For a failed lookup: absence may be cached, too, so errors carry the same flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The error.
    pub error: loligo_types::FsError,
    /// With `NotFound` of a lookup: the absence may be cached until [`Invalidation::Names`].
    pub names_cached: bool,
}

impl From<loligo_types::FsError> for Failed {
    fn from(error: loligo_types::FsError) -> Failed {
        Failed { error, names_cached: false }
    }
}

/// Result of a call.
pub type CallResult = Result<Done, Failed>;
