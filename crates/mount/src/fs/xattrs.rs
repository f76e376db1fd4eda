//! Extended attributes, through which ACLs pass, too.
//!
//! The kernel asks for `security.capability` of every file that is written for the first time, and `ls -l` asks for ACLs
//! of every file; most files have none, which is known with their attributes.

use std::sync::Arc;

use loligo_client::{Call, Done};
use loligo_fuse::{ReplyEmpty, ReplyXattr};
use loligo_types::{Answer, FsError, Ino, Op, XattrMode};

use crate::core::{Asked, Core};
use crate::cred::{self, refused};
use crate::submit::Submit;

/// The xattr that holds a file's capabilities.
const CAPABILITY: &[u8] = b"security.capability";

impl<S: Submit> Core<S> {
    /// A value or a list of names; `size` 0 asks for its length only.
    fn bytes(self: &Arc<Self>, asked: Asked, op: Op, size: u32, reply: ReplyXattr) {
        let core = self.clone();
        self.send(asked, Call::Op(op), move |result| match result {
            Ok(Done { answer: Answer::Bytes(bytes), .. }) => match u32::try_from(bytes.len()) {
                Ok(len) if size == 0 => reply.size(len),
                Ok(len) if len <= size => reply.data(&bytes),
                _ => reply.error(core.errno(asked.op, FsError::Range)),
            },
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn getxattr(self: &Arc<Self>, asked: Asked, ino: Ino, name: &[u8], size: u32, reply: ReplyXattr) {
        if is_stored(name) && self.kernel.table.has_no_xattrs(ino) {
            return reply.error(self.errno(asked.op, FsError::NoData));
        }
        self.bytes(asked, Op::GetXattr { ino, name: name.into() }, size, reply);
    }

    pub fn listxattr(self: &Arc<Self>, asked: Asked, ino: Ino, size: u32, reply: ReplyXattr) {
        self.bytes(asked, Op::ListXattr { ino }, size, reply);
    }

    pub fn setxattr(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(self.errno(asked.op, FsError::Invalid)),
        };
        let op = Op::SetXattr { ino, name: name.into(), value: value.into(), mode };
        self.change(asked, ino, op, false, reply);
    }

    pub fn removexattr(self: &Arc<Self>, asked: Asked, ino: Ino, name: &[u8], reply: ReplyEmpty) {
        let op = Op::RemoveXattr { ino, name: name.into() };
        // The kernel itself removes capabilities in the name of those who are about to change the file, and otherwise lets only those who have
        // CAP_SETFCAP. It must not fail for the former: what they do next ends them, if there are any left.
        let by_kernel = name == CAPABILITY && !cred::may(asked.who, cred::SETFCAP);
        self.change(asked, ino, op, by_kernel, reply);
    }

    /// Changes xattrs of an inode. Cached xattrs are invalid from the call on; answers under way that were decided before the change is
    /// done must not be cached.
    fn change(self: &Arc<Self>, asked: Asked, ino: Ino, op: Op, may_fail: bool, reply: ReplyEmpty) {
        self.kernel.table.bar(ino);
        let core = self.clone();
        self.send(asked, Call::Op(op), move |result| {
            core.kernel.table.bar(ino);
            match result {
                Ok(_) => reply.ok(),
                Err(failed) if may_fail && (refused(&failed) || failed.error == FsError::NoData) => reply.ok(),
                Err(failed) => reply.error(core.errno(asked.op, failed.error)),
            }
        });
    }
}

/// True for names of xattrs that are kept with an inode; others may be computed, or are not supported.
fn is_stored(name: &[u8]) -> bool {
    [b"security.".as_slice(), b"user.", b"trusted.", b"system.posix_acl_"].iter().any(|kind| name.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_and_unknown_names_always_go_to_the_server() {
        assert!(is_stored(b"security.capability") && is_stored(b"system.posix_acl_access") && is_stored(b"user.x"));
        assert!(!is_stored(b"loligo.rentries") && !is_stored(b"system.other"));
    }
}
