//! Requests, taken apart. Names and data are borrowed from the buffer that they were read into.

/// Length of `struct fuse_in_header`.
pub(crate) const HEADER: usize = 40;

/// Caller of a request, and its inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Number of the operation.
    pub opcode: u32,
    /// Number of the request, for its answer.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    /// User of the caller.
    pub uid: u32,
    /// Primary group of the caller.
    pub gid: u32,
    /// Thread of the caller; 0 if it is in another pid namespace.
    pub pid: u32,
}

/// A time that a caller sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The time at which the file system does it.
    Now,
    /// Seconds since 1970, and nanoseconds after them.
    At(i64, u32),
}

/// Attributes that a `SETATTR` changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetAttr {
    /// Permission bits (and, to be ignored, the type).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length, bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<SetTime>,
    /// Time of the last change of data.
    pub mtime: Option<SetTime>,
    /// The handle through which it is changed.
    pub fh: Option<u64>,
    /// Setuid and setgid end: the caller has no CAP_FSETID.
    pub kill_priv: bool,
}

/// Origin of a `WRITE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteFlags {
    /// From the page cache: the bytes have their place, and may be of any caller.
    pub cache: bool,
    /// Setuid and setgid bits are to be dropped.
    pub kill_priv: bool,
    /// Around the page cache: the kernel holds no page locked while it waits, and does not drop what pages have of the range after
    /// an asynchronous one.
    pub direct: bool,
}

/// A lock that is asked for or about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockAsked {
    /// Handle of the file.
    pub fh: u64,
    /// Lock owner, as the kernel tells owners apart.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub typ: u32,
    /// Process of the holder.
    pub pid: u32,
    /// It is a `flock(2)`, on the whole file.
    pub flock: bool,
}

/// Operation of a request. The names are those of the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Fields are those of `fuse.h`; offsets and lengths in bytes.
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// Inodes and how many lookups of each the kernel forgets. Wants no answer.
    Forget {
        nodes: Forgets<'a>,
    },
    GetAttr {
        fh: Option<u64>,
    },
    SetAttr(SetAttr),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_dir: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    /// `kill_priv`: it is cut, by a caller without CAP_FSETID.
    Open {
        flags: u32,
        kill_priv: bool,
    },
    /// `direct`: around the page cache. Otherwise the answer fills pages.
    Read {
        fh: u64,
        offset: u64,
        size: u32,
        direct: bool,
    },
    Write {
        fh: u64,
        offset: u64,
        data: &'a [u8],
        how: WriteFlags,
        flags: u32,
    },
    Statfs,
    /// `flock_owner`: locks of this kind end with the handle.
    Release {
        fh: u64,
        flock_owner: Option<u64>,
    },
    Fsync {
        fh: u64,
        data_only: bool,
    },
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Flush {
        fh: u64,
        owner: u64,
    },
    /// The first request of a connection; see [`crate::Offer`].
    Init {
        body: &'a [u8],
    },
    OpenDir {
        flags: u32,
    },
    ReadDir {
        fh: u64,
        offset: u64,
        size: u32,
    },
    ReleaseDir {
        fh: u64,
    },
    FsyncDir {
        fh: u64,
        data_only: bool,
    },
    GetLock(LockAsked),
    SetLock {
        lock: LockAsked,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    /// `kill_priv`: as of `Open`.
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: u32,
        kill_priv: bool,
    },
    /// An open file without a name.
    Tmpfile {
        mode: u32,
        umask: u32,
        flags: u32,
    },
    /// The caller of request `unique` has a signal to take. Wants no answer.
    Interrupt {
        unique: u64,
    },
    Destroy,
    Fallocate {
        fh: u64,
        offset: u64,
        len: u64,
        mode: u32,
    },
    Lseek {
        fh: u64,
        offset: u64,
        whence: u32,
    },
    /// `wide`: the answer has 64 bits.
    CopyFileRange {
        fh: u64,
        offset: u64,
        out_node: u64,
        out_fh: u64,
        out_offset: u64,
        len: u64,
        wide: bool,
    },
    Syncfs,
    Ioctl,
    /// Something this crate does not know; to be answered with `ENOSYS`, which the kernel remembers.
    Unknown,
}

/// The inodes of a `FORGET` or `BATCH_FORGET`: (inode, lookups).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forgets<'a> {
    /// One.
    One(u64, u64),
    /// `struct fuse_forget_one` after another.
    Many(&'a [u8]),
}

impl Forgets<'_> {
    /// Calls `each` with an inode and its number of forgotten lookups.
    pub fn for_each(&self, mut each: impl FnMut(u64, u64)) {
        match self {
            Forgets::One(node, lookups) => each(*node, *lookups),
            Forgets::Many(bytes) => {
                for one in bytes.chunks_exact(16) {
                    each(u64_at(one, 0), u64_at(one, 8));
                }
            }
        }
    }
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Caller and inode.
    pub header: Header,
    /// Operation.
    pub operation: Operation<'a>,
}

/// Why bytes are no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    /// Not even a header: there is nobody to answer.
    #[error("{0} bytes came from /dev/fuse, which is no request")]
    NoHeader(usize),
    /// The body of this operation is shorter than it must be, or has a name without an end.
    #[error("request {} of the kernel (operation {}) is malformed", .0.unique, .0.opcode)]
    Body(Header),
}

impl<'a> Request<'a> {
    /// Takes a request apart. `bytes`: what one read from the device gave.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, ParseError> {
        if bytes.len() < HEADER || u32_at(bytes, 0) as usize != bytes.len() {
            return Err(ParseError::NoHeader(bytes.len()));
        }
        let header = Header {
            opcode: u32_at(bytes, 4),
            unique: u64_at(bytes, 8),
            node: u64_at(bytes, 16),
            uid: u32_at(bytes, 24),
            gid: u32_at(bytes, 28),
            pid: u32_at(bytes, 32),
        };
        // Extensions (security contexts and the like) stand at the end and were not asked for.
        let extensions = 8 * usize::from(u16::from_ne_bytes([bytes[36], bytes[37]]));
        let end = bytes.len().checked_sub(extensions).filter(|end| *end >= HEADER);
        let body = Body(&bytes[HEADER..end.ok_or(ParseError::Body(header))?]);
        let operation = operation(&header, body).ok_or(ParseError::Body(header))?;
        Ok(Request { header, operation })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(four)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(eight)
}

/// Rest of a body.
#[derive(Clone, Copy)]
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32_at(b, 0))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| u64_at(b, 0))
    }

    fn skip(&mut self, n: usize) -> Option<()> {
        self.take(n).map(|_| ())
    }

    /// A string up to its NUL.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0)?;
        let name = self.take(end)?;
        self.skip(1)?;
        Some(name)
    }
}

/// `fuse.h`: `enum fuse_opcode`.
mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

const GETATTR_FH: u32 = 1;
const RELEASE_FLOCK_UNLOCK: u32 = 2;
const FSYNC_FDATASYNC: u32 = 1;
const READ_LOCKOWNER: u32 = 2;
const WRITE_CACHE: u32 = 1;
const WRITE_LOCKOWNER: u32 = 2;
const WRITE_KILL_SUIDGID: u32 = 4;
const OPEN_KILL_SUIDGID: u32 = 1;
const LK_FLOCK: u32 = 1;

fn operation<'a>(header: &Header, mut body: Body<'a>) -> Option<Operation<'a>> {
    let b = &mut body;
    Some(match header.opcode {
        opcode::LOOKUP => Operation::Lookup { name: b.name()? },
        opcode::FORGET => Operation::Forget { nodes: Forgets::One(header.node, b.u64()?) },
        opcode::BATCH_FORGET => {
            let count = b.u32()? as usize;
            b.skip(4)?;
            Operation::Forget { nodes: Forgets::Many(b.take(count.checked_mul(16)?)?) }
        }
        opcode::GETATTR => Operation::GetAttr { fh: handle_if(b, GETATTR_FH)? },
        opcode::SETATTR => Operation::SetAttr(set_attr(b)?),
        opcode::READLINK => Operation::Readlink,
        opcode::SYMLINK => Operation::Symlink { name: b.name()?, target: b.name()? },
        opcode::MKNOD => {
            let (mode, rdev, umask) = (b.u32()?, b.u32()?, b.u32()?);
            b.skip(4)?;
            Operation::Mknod { name: b.name()?, mode, umask, rdev }
        }
        opcode::MKDIR => {
            let (mode, umask) = (b.u32()?, b.u32()?);
            Operation::Mkdir { name: b.name()?, mode, umask }
        }
        opcode::UNLINK => Operation::Unlink { name: b.name()? },
        opcode::RMDIR => Operation::Rmdir { name: b.name()? },
        opcode::RENAME => {
            let new_dir = b.u64()?;
            Operation::Rename { name: b.name()?, new_dir, new_name: b.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let (new_dir, flags) = (b.u64()?, b.u32()?);
            b.skip(4)?;
            Operation::Rename { name: b.name()?, new_dir, new_name: b.name()?, flags }
        }
        opcode::LINK => Operation::Link { node: b.u64()?, name: b.name()? },
        opcode::OPEN => Operation::Open { flags: b.u32()?, kill_priv: b.u32()? & OPEN_KILL_SUIDGID != 0 },
        opcode::OPENDIR => Operation::OpenDir { flags: b.u32()? },
        opcode::READ | opcode::READDIR => {
            let (fh, offset, size) = (b.u64()?, b.u64()?, b.u32()?);
            if header.opcode == opcode::READ {
                // Only calls that go around the page cache name an owner of locks.
                let direct = b.u32()? & READ_LOCKOWNER != 0;
                Operation::Read { fh, offset, size, direct }
            } else {
                Operation::ReadDir { fh, offset, size }
            }
        }
        opcode::WRITE => write(b)?,
        opcode::STATFS => Operation::Statfs,
        opcode::RELEASE | opcode::RELEASEDIR => {
            let fh = b.u64()?;
            b.skip(4)?;
            let flags = b.u32()?;
            let owner = b.u64()?;
            if header.opcode == opcode::RELEASEDIR {
                Operation::ReleaseDir { fh }
            } else {
                Operation::Release { fh, flock_owner: (flags & RELEASE_FLOCK_UNLOCK != 0).then_some(owner) }
            }
        }
        opcode::FSYNC | opcode::FSYNCDIR => {
            let fh = b.u64()?;
            let data_only = b.u32()? & FSYNC_FDATASYNC != 0;
            if header.opcode == opcode::FSYNC {
                Operation::Fsync { fh, data_only }
            } else {
                Operation::FsyncDir { fh, data_only }
            }
        }
        opcode::SETXATTR => {
            // The short form of the structure: the long one was not asked for.
            let (size, flags) = (b.u32()?, b.u32()?);
            let name = b.name()?;
            Operation::SetXattr { name, value: b.take(size as usize)?, flags }
        }
        opcode::GETXATTR => {
            let size = b.u32()?;
            b.skip(4)?;
            Operation::GetXattr { name: b.name()?, size }
        }
        opcode::LISTXATTR => Operation::ListXattr { size: b.u32()? },
        opcode::REMOVEXATTR => Operation::RemoveXattr { name: b.name()? },
        opcode::FLUSH => {
            let fh = b.u64()?;
            b.skip(8)?;
            Operation::Flush { fh, owner: b.u64()? }
        }
        opcode::INIT => Operation::Init { body: b.0 },
        opcode::GETLK => Operation::GetLock(lock(b)?),
        opcode::SETLK => Operation::SetLock { lock: lock(b)?, wait: false },
        opcode::SETLKW => Operation::SetLock { lock: lock(b)?, wait: true },
        opcode::ACCESS => Operation::Access { mask: b.u32()? },
        opcode::CREATE | opcode::TMPFILE => {
            let (flags, mode, umask, how) = (b.u32()?, b.u32()?, b.u32()?, b.u32()?);
            let kill_priv = how & OPEN_KILL_SUIDGID != 0;
            if header.opcode == opcode::TMPFILE {
                Operation::Tmpfile { mode, umask, flags }
            } else {
                Operation::Create { name: b.name()?, mode, umask, flags, kill_priv }
            }
        }
        opcode::INTERRUPT => Operation::Interrupt { unique: b.u64()? },
        opcode::DESTROY => Operation::Destroy,
        opcode::IOCTL => Operation::Ioctl,
        opcode::FALLOCATE => Operation::Fallocate { fh: b.u64()?, offset: b.u64()?, len: b.u64()?, mode: b.u32()? },
        opcode::LSEEK => Operation::Lseek { fh: b.u64()?, offset: b.u64()?, whence: b.u32()? },
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => Operation::CopyFileRange {
            fh: b.u64()?,
            offset: b.u64()?,
            out_node: b.u64()?,
            out_fh: b.u64()?,
            out_offset: b.u64()?,
            len: b.u64()?,
            wide: header.opcode == opcode::COPY_FILE_RANGE_64,
        },
        opcode::SYNCFS => Operation::Syncfs,
        _ => Operation::Unknown,
    })
}

/// `struct fuse_getattr_in`: flags, padding, handle.
fn handle_if(b: &mut Body<'_>, flag: u32) -> Option<Option<u64>> {
    let flags = b.u32()?;
    b.skip(4)?;
    let fh = b.u64()?;
    Some((flags & flag != 0).then_some(fh))
}

fn set_attr(b: &mut Body<'_>) -> Option<SetAttr> {
    const MODE: u32 = 1;
    const UID: u32 = 1 << 1;
    const GID: u32 = 1 << 2;
    const SIZE: u32 = 1 << 3;
    const ATIME: u32 = 1 << 4;
    const MTIME: u32 = 1 << 5;
    const FH: u32 = 1 << 6;
    const ATIME_NOW: u32 = 1 << 7;
    const MTIME_NOW: u32 = 1 << 8;
    const KILL_SUIDGID: u32 = 1 << 11;
    let valid = b.u32()?;
    b.skip(4)?;
    let (fh, size, _owner) = (b.u64()?, b.u64()?, b.u64()?);
    let (atime, mtime, _ctime) = (b.u64()?.cast_signed(), b.u64()?.cast_signed(), b.u64()?);
    let (atime_ns, mtime_ns, _ctime_ns) = (b.u32()?, b.u32()?, b.u32()?);
    let mode = b.u32()?;
    b.skip(4)?;
    let (uid, gid) = (b.u32()?, b.u32()?);
    let has = |flag: u32| valid & flag != 0;
    let time = |given, now, sec, ns| match (has(given), has(now)) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(sec, ns)),
    };
    Some(SetAttr {
        mode: has(MODE).then_some(mode),
        uid: has(UID).then_some(uid),
        gid: has(GID).then_some(gid),
        size: has(SIZE).then_some(size),
        atime: time(ATIME, ATIME_NOW, atime, atime_ns),
        mtime: time(MTIME, MTIME_NOW, mtime, mtime_ns),
        fh: has(FH).then_some(fh),
        kill_priv: has(KILL_SUIDGID),
    })
}

fn write<'a>(b: &mut Body<'a>) -> Option<Operation<'a>> {
    let (fh, offset, size, how) = (b.u64()?, b.u64()?, b.u32()?, b.u32()?);
    let _owner = b.u64()?;
    let flags = b.u32()?;
    b.skip(4)?;
    let (cache, kill_priv) = (how & WRITE_CACHE != 0, how & WRITE_KILL_SUIDGID != 0);
    let direct = !cache && how & WRITE_LOCKOWNER != 0;
    let how = WriteFlags { cache, kill_priv, direct };
    Some(Operation::Write { fh, offset, data: b.take(size as usize)?, how, flags })
}

fn lock(b: &mut Body<'_>) -> Option<LockAsked> {
    let (fh, owner, start, end) = (b.u64()?, b.u64()?, b.u64()?, b.u64()?);
    let (typ, pid, flags) = (b.u32()?, b.u32()?, b.u32()?);
    Some(LockAsked { fh, owner, start, end, typ, pid, flock: flags & LK_FLOCK != 0 })
}
