//! Telling the kernel to drop what it caches, and that a file is longer than it knows.

use rustix::io::Errno;

use crate::Device;

const NOTIFY_INVAL_INODE: i32 = 2;
const NOTIFY_INVAL_ENTRY: i32 = 3;
const NOTIFY_STORE: i32 = 4;
const NOTIFY_INC_EPOCH: i32 = 8;
/// Of an entry: it stays, but is not believed any more (minor version 38, Linux 6.2).
const EXPIRE_ONLY: u32 = 1;
/// First minor version of the protocol whose kernel expires single names and keeps them in use (Linux 6.2).
pub const EXPIRE_MINOR: u32 = 38;
/// First minor version of the protocol whose kernel knows epochs (Linux 6.16).
pub const EPOCH_MINOR: u32 = 44;

/// Notification to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify<'a> {
    /// Attributes of an inode, and its pages in a range; `len` 0: to the end; `offset` negative: no pages.
    Inode {
        /// The inode.
        node: u64,
        /// First byte, or negative.
        offset: i64,
        /// Bytes.
        len: i64,
    },
    /// A name is looked up again before it is believed; what it leads to stays in use meanwhile.
    Entry {
        /// The directory. The kernel takes its lock, so this waits for every call on the directory that has begun.
        parent: u64,
        /// The name.
        name: &'a [u8],
    },
    /// All names that the kernel caches. Takes no lock. Each is *dropped* when it is next come by, and then looked up: until that is
    /// answered, a directory that somebody works in counts as removed, and what is mounted below is unmounted for good.
    Epoch,
    /// A file has at least so many bytes. The kernel does not make it shorter for this. Its answers to requests that were sent before do not
    /// change the size any more if this made the file longer.
    ///
    /// The message is that by which pages are stored (`FUSE_NOTIFY_STORE`), for the last byte. The kernel moves the size first and copies
    /// the byte then, from memory that cannot be read: so no page changes, also none that a mapping has changed.
    Grown {
        /// The file.
        node: u64,
        /// Its size, bytes.
        size: u64,
    },
}

impl Notify<'_> {
    pub(crate) fn message(self) -> Vec<u8> {
        match self {
            Notify::Epoch => message(NOTIFY_INC_EPOCH, &[]),
            Notify::Entry { parent, name } => {
                let numbers = [(name.len() as u32).to_ne_bytes(), EXPIRE_ONLY.to_ne_bytes()].concat();
                message(NOTIFY_INVAL_ENTRY, &[&parent.to_ne_bytes()[..], &numbers, name, &[0]].concat())
            }
            Notify::Inode { node, offset, len } => {
                let body = [node.to_ne_bytes(), offset.to_ne_bytes(), len.to_ne_bytes()].concat();
                message(NOTIFY_INVAL_INODE, &body)
            }
            Notify::Grown { node, size } => {
                let numbers = [node.to_ne_bytes(), size.saturating_sub(1).to_ne_bytes()].concat();
                let body = [&numbers[..], &1u32.to_ne_bytes(), &0u32.to_ne_bytes()].concat();
                message_of(NOTIFY_STORE, &body, 1)
            }
        }
    }
}

fn message(code: i32, body: &[u8]) -> Vec<u8> {
    message_of(code, body, 0)
}

/// `more`: bytes that follow.
fn message_of(code: i32, body: &[u8], more: u32) -> Vec<u8> {
    let len = 16 + body.len() as u32 + more;
    [&len.to_ne_bytes()[..], &code.to_ne_bytes(), &0u64.to_ne_bytes(), body].concat()
}

impl Device {
    /// Notifies the kernel; returns when it has done what it was told. May wait for pages or for a directory's lock, and so for other requests.
    /// `false`: the kernel does not know the inode, or has no such entry.
    pub fn notify(&self, what: Notify<'_>) -> bool {
        let message = what.message();
        let told = match what {
            Notify::Grown { .. } => self.write_and_unreadable(&message),
            _ => self.write(&message),
        };
        match told {
            Ok(()) => true,
            Err(Errno::FAULT) if matches!(what, Notify::Grown { .. }) => true,
            Err(Errno::NOENT) => false,
            // Unmounted: there is nothing left to drop.
            Err(Errno::NODEV | Errno::NOTCONN | Errno::PERM) => true,
            Err(error) => {
                tracing::warn!(?what, %error, "the kernel refused a notification");
                true
            }
        }
    }
}
