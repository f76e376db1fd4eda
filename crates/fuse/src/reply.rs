//! Answers, put together and written to the device. A reply's type is what its request may be told.

use std::marker::PhantomData;
use std::time::Duration;

use crate::Device;

/// Length of `struct fuse_out_header`.
const HEADER: usize = 16;
/// Alignment of entries of a directory.
const ENTRY_ALIGN: usize = 8;

/// A positive error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// Attributes of an inode. Times: seconds since 1970 and nanoseconds after them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attr {
    /// Number of the inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: (i64, u32),
    /// Last change of data.
    pub mtime: (i64, u32),
    /// Last change of anything.
    pub ctime: (i64, u32),
    /// Type and permission bits.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, as the kernel packs it into 32 bits.
    pub rdev: u32,
    /// Preferred size of reads and writes.
    pub blksize: u32,
}

/// Space and inodes of a file system, in the words of `struct fuse_kstatfs`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)]
pub struct Kstatfs {
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    pub namelen: u32,
    pub frsize: u32,
}

/// Treatment of an open file by the kernel: bits of `FOPEN_*`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// Through the page cache, emptied at the open.
    pub const NONE: OpenFlags = OpenFlags(0);
    /// Past the page cache.
    pub const DIRECT_IO: OpenFlags = OpenFlags(1);
    /// Through the page cache as it is.
    pub const KEEP_CACHE: OpenFlags = OpenFlags(1 << 1);
}

/// The answer to one request. Dropped without an answer, it answers `EIO`, so that nobody waits for ever.
#[derive(Debug)]
pub struct Reply<Shape = ()> {
    device: Option<Device>,
    unique: u64,
    shape: PhantomData<fn() -> Shape>,
}

/// Shapes of answers.
#[allow(missing_docs, missing_debug_implementations)]
pub mod shape {
    pub enum Empty {}
    pub enum Entry {}
    pub enum Attr {}
    pub enum Data {}
    pub enum Open {}
    pub enum Create {}
    pub enum Write {}
    pub enum Copied {}
    pub enum Statfs {}
    pub enum Xattr {}
    pub enum Lock {}
    pub enum Lseek {}
    pub enum Directory {}
}

/// To a request that is done, or not.
pub type ReplyEmpty = Reply<shape::Empty>;
/// To a request that finds or makes a name.
pub type ReplyEntry = Reply<shape::Entry>;
/// With attributes.
pub type ReplyAttr = Reply<shape::Attr>;
/// With bytes.
pub type ReplyData = Reply<shape::Data>;
/// With a handle.
pub type ReplyOpen = Reply<shape::Open>;
/// With a name and a handle.
pub type ReplyCreate = Reply<shape::Create>;
/// With a number of bytes written.
pub type ReplyWrite = Reply<shape::Write>;
/// With a number of bytes copied.
pub type ReplyCopied = Reply<shape::Copied>;
/// With space and inodes.
pub type ReplyStatfs = Reply<shape::Statfs>;
/// With a value or its length.
pub type ReplyXattr = Reply<shape::Xattr>;
/// With a lock.
pub type ReplyLock = Reply<shape::Lock>;
/// With an offset.
pub type ReplyLseek = Reply<shape::Lseek>;
/// With entries.
pub type ReplyDirectory = Reply<shape::Directory>;

impl<S> Drop for Reply<S> {
    fn drop(&mut self) {
        if self.device.is_some() {
            tracing::error!(unique = self.unique, "a request of the kernel was dropped without an answer");
            self.write(-libc::EIO, &mut [0; HEADER], &[]);
        }
    }
}

impl Reply {
    /// The answer to request `unique` of this device.
    pub fn new(device: &Device, unique: u64) -> Reply {
        Reply { device: Some(device.clone()), unique, shape: PhantomData }
    }

    /// Says what the request may be told.
    pub fn shaped<S>(mut self) -> Reply<S> {
        Reply { device: self.device.take(), unique: self.unique, shape: PhantomData }
    }

    /// No answer is wanted.
    pub fn none(mut self) {
        self.device = None;
    }

    pub(crate) fn bytes(self, bytes: &[u8]) {
        self.send(bytes);
    }
}

impl<S> Reply<S> {
    /// It failed.
    pub fn error(mut self, error: Errno) {
        self.write(-error.0, &mut [0; HEADER], &[]);
    }

    fn send(mut self, data: &[u8]) {
        self.write(0, &mut [0; HEADER], data);
    }

    /// A body of known length, written behind a header in one piece.
    fn fixed<const N: usize>(mut self, fill: impl FnOnce(&mut Fill<'_>)) {
        let mut message = [0; 512];
        let mut body = Fill { bytes: &mut message[HEADER..HEADER + N], at: 0 };
        fill(&mut body);
        debug_assert_eq!(body.at, N, "the body is as long as it says");
        self.write(0, &mut message[..HEADER + N], &[]);
    }

    /// `head`: room for the header, and what directly follows it.
    fn write(&mut self, error: i32, head: &mut [u8], data: &[u8]) {
        let Some(device) = self.device.take() else { return };
        let len = (head.len() + data.len()) as u32;
        head[..4].copy_from_slice(&len.to_ne_bytes());
        head[4..8].copy_from_slice(&error.to_ne_bytes());
        head[8..16].copy_from_slice(&self.unique.to_ne_bytes());
        let written = if data.is_empty() { device.write(head) } else { device.write_parts(head, data) };
        match written {
            Ok(()) => {}
            // The caller is gone (killed), or the mount is.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::PERM) => {}
            Err(error) => {
                tracing::error!(unique = self.unique, len, %error, "the kernel did not take an answer");
                // It waits still, unless what failed was the report of a failure.
                if len as usize > HEADER {
                    self.device = Some(device);
                    self.write(-libc::EIO, &mut [0; HEADER], &[]);
                }
            }
        }
    }
}

impl ReplyEmpty {
    /// Done.
    pub fn ok(self) {
        self.send(&[]);
    }
}

impl ReplyEntry {
    /// The name leads to this inode; `attr.ino` 0: to nothing. The kernel may keep attributes and name so long.
    pub fn entry(self, attr_ttl: Duration, entry_ttl: Duration, attr: &Attr) {
        self.entry_as(attr.ino, attr_ttl, entry_ttl, attr);
    }

    /// The same, by another number than `attr.ino`, which programs see: that of an inode which the kernel does not have.
    pub fn entry_as(self, node: u64, attr_ttl: Duration, entry_ttl: Duration, attr: &Attr) {
        self.fixed::<128>(|out| out.entry(node, attr_ttl, entry_ttl, attr));
    }
}

impl ReplyAttr {
    /// The attributes, which the kernel may keep so long.
    pub fn attr(self, ttl: Duration, attr: &Attr) {
        self.fixed::<104>(|out| {
            out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0).attr(attr);
        });
    }
}

impl ReplyData {
    /// The bytes, not more than were asked for.
    pub fn data(self, data: &[u8]) {
        self.send(data);
    }
}

impl ReplyOpen {
    /// The handle.
    pub fn opened(self, fh: u64, flags: OpenFlags) {
        self.fixed::<16>(|out| out.open(fh, flags));
    }
}

impl ReplyCreate {
    /// The name leads to this inode, which is open. The kernel may keep attributes and name so long.
    pub fn created(self, attr_ttl: Duration, entry_ttl: Duration, attr: &Attr, fh: u64, flags: OpenFlags) {
        self.fixed::<144>(|out| {
            out.entry(attr.ino, attr_ttl, entry_ttl, attr);
            out.open(fh, flags);
        });
    }
}

impl ReplyWrite {
    /// So many bytes are written.
    pub fn written(self, bytes: u32) {
        self.fixed::<8>(|out| {
            out.u32(bytes).u32(0);
        });
    }
}

impl ReplyCopied {
    /// So many bytes are copied. `wide`: as the request was.
    pub fn copied(self, bytes: u64, wide: bool) {
        self.fixed::<8>(|out| {
            if wide {
                out.u64(bytes);
            } else {
                out.u32(u32::try_from(bytes).unwrap_or(u32::MAX)).u32(0);
            }
        });
    }
}

impl ReplyStatfs {
    /// Space and inodes.
    pub fn statfs(self, s: &Kstatfs) {
        self.fixed::<80>(|out| {
            out.u64(s.blocks).u64(s.bfree).u64(s.bavail).u64(s.files).u64(s.ffree);
            out.u32(s.bsize).u32(s.namelen).u32(s.frsize).zeros(28);
        });
    }
}

impl ReplyXattr {
    /// The value.
    pub fn data(self, data: &[u8]) {
        self.send(data);
    }

    /// Answers with the length of the value.
    pub fn size(self, size: u32) {
        self.fixed::<8>(|out| {
            out.u32(size).u32(0);
        });
    }
}

impl ReplyLock {
    /// The lock that is in the way, or `F_UNLCK`.
    pub fn locked(self, start: u64, end: u64, typ: u32, pid: u32) {
        self.fixed::<24>(|out| {
            out.u64(start).u64(end).u32(typ).u32(pid);
        });
    }
}

impl ReplyLseek {
    /// The offset found.
    pub fn offset(self, offset: u64) {
        self.fixed::<8>(|out| {
            out.u64(offset);
        });
    }
}

impl ReplyDirectory {
    /// The entries; none: the end.
    pub fn entries(self, entries: &DirectoryBuffer) {
        self.send(&entries.bytes);
    }
}

/// Entries of a directory, as many as the kernel has room for.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    room: usize,
}

impl DirectoryBuffer {
    /// For so many bytes at most.
    pub fn new(room: u32) -> DirectoryBuffer {
        DirectoryBuffer { bytes: Vec::with_capacity((room as usize).min(64 << 10)), room: room as usize }
    }

    /// Adds an entry, with the offset after it. `mode`: its type, in the upper bits of a mode. `true`: no room, it was
    /// not added.
    pub fn add(&mut self, ino: u64, offset: u64, mode: u32, name: &[u8]) -> bool {
        let len = (24 + name.len()).next_multiple_of(ENTRY_ALIGN);
        if self.bytes.len() + len > self.room {
            return true;
        }
        let end = self.bytes.len() + len;
        self.bytes.extend_from_slice(&ino.to_ne_bytes());
        self.bytes.extend_from_slice(&offset.to_ne_bytes());
        self.bytes.extend_from_slice(&(name.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(&((mode & libc::S_IFMT) >> 12).to_ne_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        false
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Fills a body from its start.
pub(crate) struct Fill<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Fill<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn zeros(&mut self, n: usize) -> &mut Self {
        self.bytes[self.at..self.at + n].fill(0);
        self.at += n;
        self
    }

    /// `struct fuse_attr`.
    fn attr(&mut self, attr: &Attr) {
        self.u64(attr.ino).u64(attr.size).u64(attr.blocks);
        let times = [attr.atime, attr.mtime, attr.ctime];
        for (sec, _) in times {
            self.u64(sec.cast_unsigned());
        }
        for (_, nsec) in times {
            self.u32(nsec);
        }
        self.u32(attr.mode).u32(attr.nlink).u32(attr.uid).u32(attr.gid).u32(attr.rdev).u32(attr.blksize).u32(0);
    }

    /// `struct fuse_entry_out`. Inode numbers are never used again, so all are of one generation.
    fn entry(&mut self, node: u64, attr_ttl: Duration, entry_ttl: Duration, attr: &Attr) {
        self.u64(node).u64(0).u64(entry_ttl.as_secs()).u64(attr_ttl.as_secs());
        self.u32(entry_ttl.subsec_nanos()).u32(attr_ttl.subsec_nanos()).attr(attr);
    }

    /// `struct fuse_open_out`.
    fn open(&mut self, fh: u64, flags: OpenFlags) {
        self.u64(fh).u32(flags.0).u32(0);
    }
}
