//! Names and attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{FileHandle, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyStatfs, TimeOrNow};
use loligo_client::{Call, Done};
use loligo_types::{Access, Answer, FsError, Ino, Name, Op, SetAttr, limits};

use crate::convert;
use crate::core::{Asked, Core, Handle};
use crate::submit::Submit;

const BLOCK: u64 = 4096;

fn name(name: &OsStr) -> Result<Name, FsError> {
    Name::new(name.as_bytes())
}

/// What `setattr` may bring.
pub(crate) struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
}

impl<S: Submit> Core<S> {
    /// Makes a call with a checked name, or answers why the name is none.
    fn named(
        self: &Arc<Self>,
        asked: Asked,
        text: &OsStr,
        reply: ReplyEntry,
        op: impl FnOnce(Name) -> Result<Op, FsError>,
    ) {
        match name(text).and_then(op) {
            Ok(op) => self.entry(asked, Call::Op(op), reply),
            Err(error) => reply.error(self.errno(asked.op, error)),
        }
    }

    pub fn lookup(self: &Arc<Self>, asked: Asked, dir: Ino, text: &OsStr, reply: ReplyEntry) {
        self.dirs.looked_up(dir);
        self.named(asked, text, reply, |name| Ok(Op::Lookup { dir, name }));
    }

    #[allow(clippy::too_many_arguments)]
    pub fn mknod(
        self: &Arc<Self>,
        asked: Asked,
        dir: Ino,
        text: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.named(asked, text, reply, |name| {
            Ok(Op::Mknod { dir, name, kind: convert::node_kind(mode)?, mode: bits(mode), umask: bits(umask), rdev })
        });
    }

    pub fn mkdir(self: &Arc<Self>, asked: Asked, dir: Ino, text: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.named(asked, text, reply, |name| Ok(Op::Mkdir { dir, name, mode: bits(mode), umask: bits(umask) }));
    }

    pub fn symlink(self: &Arc<Self>, asked: Asked, dir: Ino, text: &OsStr, target: &OsStr, reply: ReplyEntry) {
        self.named(asked, text, reply, |name| Ok(Op::Symlink { dir, name, target: target.as_bytes().into() }));
    }

    pub fn link(self: &Arc<Self>, asked: Asked, ino: Ino, dir: Ino, text: &OsStr, reply: ReplyEntry) {
        self.named(asked, text, reply, |name| Ok(Op::Link { ino, dir, name }));
    }

    pub fn remove(self: &Arc<Self>, asked: Asked, dir: Ino, text: &OsStr, is_dir: bool, reply: ReplyEmpty) {
        match name(text) {
            Ok(name) if is_dir => self.empty(asked, Call::Op(Op::Rmdir { dir, name }), reply),
            Ok(name) => self.empty(asked, Call::Op(Op::Unlink { dir, name }), reply),
            Err(error) => reply.error(self.errno(asked.op, error)),
        }
    }

    pub fn rename(
        self: &Arc<Self>,
        asked: Asked,
        (dir, from): (Ino, &OsStr),
        (new_dir, to): (Ino, &OsStr),
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let op = convert::rename_mode(flags)
            .and_then(|mode| Ok(Op::Rename { dir, name: name(from)?, new_dir, new_name: name(to)?, mode }));
        match op {
            Ok(op) => self.empty(asked, Call::Op(op), reply),
            Err(error) => reply.error(self.errno(asked.op, error)),
        }
    }

    pub fn readlink(self: &Arc<Self>, asked: Asked, ino: Ino, reply: ReplyData) {
        let core = self.clone();
        self.send(asked, Call::Op(Op::Readlink { ino }), move |result| match result {
            Ok(Done { answer: Answer::Bytes(target), .. }) => reply.data(&target),
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn setattr(
        self: &Arc<Self>,
        asked: Asked,
        ino: Ino,
        changes: Changes,
        fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            mode: changes.mode.map(bits),
            uid: changes.uid,
            gid: changes.gid,
            size: changes.size,
            atime: changes.atime.map(convert::set_time),
            mtime: changes.mtime.map(convert::set_time),
            layout: None,
        };
        let call = if set == SetAttr::default() {
            Call::GetAttr { ino }
        } else {
            Call::SetAttr { ino, set, fh: fh.map(|fh| Handle::decode(fh).fh) }
        };
        self.attr(asked, call, reply);
    }

    pub fn statfs(self: &Arc<Self>, asked: Asked, reply: ReplyStatfs) {
        let core = self.clone();
        self.send(asked, Call::Op(Op::StatFs), move |result| match result {
            Ok(Done { answer: Answer::StatFs(s), .. }) => reply.statfs(
                s.bytes / BLOCK,
                s.bytes_free / BLOCK,
                s.bytes_free / BLOCK,
                s.inodes.saturating_add(s.inodes_free),
                s.inodes_free,
                BLOCK as u32,
                limits::NAME_MAX as u32,
                BLOCK as u32,
            ),
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn access(self: &Arc<Self>, asked: Asked, ino: Ino, mask: i32, reply: ReplyEmpty) {
        let want = Access { read: mask & libc::R_OK != 0, write: mask & libc::W_OK != 0, exec: mask & libc::X_OK != 0 };
        self.empty(asked, Call::Access { ino, want }, reply);
    }
}

/// Permission bits of a mode.
pub(crate) fn bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}
