//! The FUSE protocol of Linux (`include/uapi/linux/fuse.h`, version 7): requests taken apart, answers put together, and
//! the device that they come from and go to. It knows no file system, starts no thread and decides nothing.
//!
//! Ours rather than a library's because of who waits for whom: a library that owns the reading loop needs a thread of
//! its own between the kernel and the file system, and every request pays for waking it. Here the device is a file
//! descriptor like any other, which the owner of a machine waits for beside its sockets (docs/decisions/fuse.md).
//!
//! Bytes from the kernel are trusted to be from the kernel, and checked all the same: whatever they are, taking them
//! apart gives a request or an error, and reads nothing but them.

mod device;
mod fusermount;
mod init;
mod notify;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use device::{Buffer, Device, Received};
pub use fusermount::{FusermountError, fusermount};
pub use init::{Capabilities, InitError, Offer, Wish};
pub use notify::{EPOCH_MINOR, EXPIRE_MINOR, Notify};
pub use reply::{
    Attr, DirectoryBuffer, Errno, Kstatfs, OpenFlags, Reply, ReplyAttr, ReplyCopied, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    shape,
};
pub use request::{Forgets, Header, LockAsked, Operation, ParseError, Request, SetAttr, SetTime, WriteFlags};

/// Version of the protocol whose structures this crate knows.
pub const MAJOR: u32 = 7;
/// Newest minor version whose structures this crate knows.
pub const MINOR: u32 = 45;
/// Oldest minor version that is served (Linux 5.4).
pub const MINOR_MIN: u32 = 31;
