//! Telling the kernel to drop what it caches.

use rustix::io::Errno;

use crate::Device;

const NOTIFY_INVAL_INODE: i32 = 2;
const NOTIFY_INC_EPOCH: i32 = 8;
/// First minor version of the protocol whose kernel knows epochs (Linux 6.16).
pub const EPOCH_MINOR: u32 = 44;

/// What is to be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify {
    /// Attributes of an inode, and its pages in a range; `len` 0: to the end; `offset` negative: no pages.
    Inode {
        /// The inode.
        node: u64,
        /// First byte, or negative.
        offset: i64,
        /// Bytes.
        len: i64,
    },
    /// All names that the kernel caches: it looks every one up again.
    Epoch,
}

impl Notify {
    pub(crate) fn message(self) -> Vec<u8> {
        match self {
            Notify::Epoch => message(NOTIFY_INC_EPOCH, &[]),
            Notify::Inode { node, offset, len } => {
                let body = [node.to_ne_bytes(), offset.to_ne_bytes(), len.to_ne_bytes()].concat();
                message(NOTIFY_INVAL_INODE, &body)
            }
        }
    }
}

fn message(code: i32, body: &[u8]) -> Vec<u8> {
    let len = 16 + body.len() as u32;
    [&len.to_ne_bytes()[..], &code.to_ne_bytes(), &0u64.to_ne_bytes(), body].concat()
}

impl Device {
    /// Notifies the kernel; returns when it has dropped it. May wait for pages, and so for other requests. `false`: the
    /// kernel does not know the inode.
    pub fn notify(&self, what: Notify) -> bool {
        match self.write(&what.message()) {
            Ok(()) => true,
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
