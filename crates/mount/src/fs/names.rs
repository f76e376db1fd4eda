//! Names and attributes.

use std::sync::Arc;

use loligo_client::{Call, Done};
use loligo_fuse::{self as fuse, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyStatfs};
use loligo_types::{Access, Answer, FsError, Ino, Name, Op, RenameMode, SetAttr, limits};

use crate::convert;
use crate::core::{Asked, Core, Handle};
use crate::cred::refused;
use crate::submit::Submit;

const BLOCK: u64 = 4096;

impl<S: Submit> Core<S> {
    /// Makes a call with a checked name, or answers why the name is none.
    fn named(
        self: &Arc<Self>,
        asked: Asked,
        text: &[u8],
        reply: ReplyEntry,
        op: impl FnOnce(Name) -> Result<Op, FsError>,
    ) {
        match Name::new(text).and_then(op) {
            Ok(op) => self.entry(asked, op, reply),
            Err(error) => reply.error(self.errno(asked.op, error)),
        }
    }

    pub fn lookup(self: &Arc<Self>, asked: Asked, dir: Ino, text: &[u8], reply: ReplyEntry) {
        self.dirs.looked_up(dir);
        self.named(asked, text, reply, |name| Ok(Op::Lookup { dir, name }));
    }

    #[allow(clippy::too_many_arguments)]
    pub fn mknod(
        self: &Arc<Self>,
        asked: Asked,
        dir: Ino,
        text: &[u8],
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.named(asked, text, reply, |name| {
            Ok(Op::Mknod { dir, name, kind: convert::node_kind(mode)?, mode: bits(mode), umask: bits(umask), rdev })
        });
    }

    pub fn mkdir(self: &Arc<Self>, asked: Asked, dir: Ino, text: &[u8], mode: u32, umask: u32, reply: ReplyEntry) {
        self.named(asked, text, reply, |name| Ok(Op::Mkdir { dir, name, mode: bits(mode), umask: bits(umask) }));
    }

    pub fn symlink(self: &Arc<Self>, asked: Asked, dir: Ino, text: &[u8], target: &[u8], reply: ReplyEntry) {
        self.named(asked, text, reply, |name| Ok(Op::Symlink { dir, name, target: target.into() }));
    }

    pub fn link(self: &Arc<Self>, asked: Asked, ino: Ino, dir: Ino, text: &[u8], reply: ReplyEntry) {
        self.named(asked, text, reply, |name| Ok(Op::Link { ino, dir, name }));
    }

    pub fn remove(self: &Arc<Self>, asked: Asked, dir: Ino, text: &[u8], is_dir: bool, reply: ReplyEmpty) {
        let name = match Name::new(text) {
            Ok(name) => name,
            Err(error) => return reply.error(self.errno(asked.op, error)),
        };
        let (core, known) = (self.clone(), name.clone());
        let op = if is_dir { Op::Rmdir { dir, name } } else { Op::Unlink { dir, name } };
        self.send(asked, Call::Op(op), move |result| match result {
            Ok(_) => {
                core.kernel.believed.removed(dir, known.as_bytes(), core.kernel.table.now());
                reply.ok();
            }
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn rename(
        self: &Arc<Self>,
        asked: Asked,
        (dir, from): (Ino, &[u8]),
        (new_dir, to): (Ino, &[u8]),
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let parsed = convert::rename_mode(flags).and_then(|mode| Ok((mode, Name::new(from)?, Name::new(to)?)));
        let (mode, name, new_name) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return reply.error(self.errno(asked.op, error)),
        };
        let (core, old, new) = (self.clone(), name.clone(), new_name.clone());
        let op = Op::Rename { dir, name, new_dir, new_name, mode };
        self.send(asked, Call::Op(op), move |result| match result {
            Ok(done) => {
                // The kernel moves what it knows of the old name to the new one, and believes it there as long as it would have here.
                // Nobody would tell when it is not true any more if names of that directory are not lent. It has both directories
                // locked until it has this answer, so it cannot be told of the one name.
                let (kernel, swapped) = (&core.kernel, mode == RenameMode::Exchange);
                let (from, to) = ((dir, old.as_bytes()), (new_dir, new.as_bytes()));
                let now = kernel.table.now();
                kernel.places.renamed(from, to, swapped);
                if kernel.caches_names()
                    && !kernel.believed.renamed(from, to, swapped, done.names_cached, asked.moment, now)
                {
                    return kernel.names_moved([dir, new_dir], move || reply.ok());
                }
                reply.ok();
            }
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn readlink(self: &Arc<Self>, asked: Asked, ino: Ino, reply: ReplyData) {
        let core = self.clone();
        self.send(asked, Call::Op(Op::Readlink { ino }), move |result| match result {
            Ok(Done { answer: Answer::Bytes(target), .. }) => reply.data(&target),
            Ok(_) => reply.error(core.odd(asked.op)),
            Err(failed) => reply.error(core.errno(asked.op, failed.error)),
        });
    }

    pub fn setattr(self: &Arc<Self>, asked: Asked, ino: Ino, changes: &fuse::SetAttr, reply: ReplyAttr) {
        let set = SetAttr {
            mode: changes.mode.map(bits),
            uid: changes.uid,
            gid: changes.gid,
            size: changes.size,
            grow: false,
            kill_priv: changes.kill_priv && changes.size.is_some(),
            atime: changes.atime.map(convert::set_time),
            mtime: changes.mtime.map(convert::set_time),
            layout: None,
        };
        if set == SetAttr::default() {
            return self.kill_priv(asked, ino, reply);
        }
        self.attr(asked, Call::SetAttr { ino, set, fh: changes.fh.map(|fh| Handle::decode(fh).fh) }, reply);
    }

    /// The kernel asks for no change of attributes: setuid and setgid are to end, because their file is about to be changed by a process without
    /// CAP_FSETID, or was given to the owner and group that it had. Whoever may only write by a handle that was opened before is refused that here;
    /// what the handle is used for next ends them.
    fn kill_priv(self: &Arc<Self>, asked: Asked, ino: Ino, reply: ReplyAttr) {
        let core = self.clone();
        let set = SetAttr { kill_priv: true, ..SetAttr::default() };
        self.send(asked, Call::SetAttr { ino, set, fh: None }, move |result| match result {
            Err(failed) if refused(&failed) => core.attr(asked, Call::GetAttr { ino }, reply),
            result => core.attr_answer(asked, result, reply),
        });
    }

    pub fn statfs(self: &Arc<Self>, asked: Asked, reply: ReplyStatfs) {
        let core = self.clone();
        self.send(asked, Call::Op(Op::StatFs), move |result| match result {
            Ok(Done { answer: Answer::StatFs(s), .. }) => reply.statfs(&fuse::Kstatfs {
                blocks: s.bytes / BLOCK,
                bfree: s.bytes_free / BLOCK,
                bavail: s.bytes_free / BLOCK,
                files: s.inodes.saturating_add(s.inodes_free),
                ffree: s.inodes_free,
                bsize: BLOCK as u32,
                namelen: limits::NAME_MAX as u32,
                frsize: BLOCK as u32,
            }),
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
