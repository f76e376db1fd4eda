//! Extended attributes, through which ACLs pass, too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{ReplyEmpty, ReplyXattr};
use loligo_client::{Call, Done};
use loligo_types::{Answer, FsError, Ino, Op, XattrMode};

use crate::core::{Asked, Core};
use crate::submit::Submit;

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

    pub fn getxattr(self: &Arc<Self>, asked: Asked, ino: Ino, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.bytes(asked, Op::GetXattr { ino, name: name.as_bytes().into() }, size, reply);
    }

    pub fn listxattr(self: &Arc<Self>, asked: Asked, ino: Ino, size: u32, reply: ReplyXattr) {
        self.bytes(asked, Op::ListXattr { ino }, size, reply);
    }

    pub fn setxattr(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        name: &OsStr,
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
        let op = Op::SetXattr { ino, name: name.as_bytes().into(), value: value.into(), mode };
        self.empty(asked, Call::Op(op), reply);
    }

    pub fn removexattr(self: &Arc<Self>, asked: Asked, ino: Ino, name: &OsStr, reply: ReplyEmpty) {
        self.empty(asked, Call::Op(Op::RemoveXattr { ino, name: name.as_bytes().into() }), reply);
    }
}
