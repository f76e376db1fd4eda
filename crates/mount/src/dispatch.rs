//! From the kernel's request to the function that serves it: words are translated, nothing is decided. See [`crate::fs`]
//! for what they do.

use std::sync::Arc;

use loligo_fuse::{Capabilities, Device, Errno, Operation, ParseError, Reply, Request, Wish};
use loligo_types::Ino;

use crate::core::{Asked, Core};
use crate::fs::files;
use crate::metrics::FuseOp;
use crate::places::is_other;
use crate::submit::Submit;

/// Features that the mount asks of the kernel, if it has them.
///
/// Not asked for, on purpose: the write-back cache (written data would be held where leases do not reach), splicing,
/// readdirplus (see [`crate::fs::dirs`]) and export by NFS.
const WANTED: Capabilities = Capabilities::ASYNC_READ
    .and(Capabilities::PARALLEL_DIROPS)
    .and(Capabilities::ATOMIC_O_TRUNC)
    .and(Capabilities::POSIX_LOCKS)
    .and(Capabilities::FLOCK_LOCKS)
    .and(Capabilities::DONT_MASK)
    .and(Capabilities::POSIX_ACL)
    .and(Capabilities::HANDLE_KILLPRIV_V2)
    // The target of a symlink never changes, and numbers of inodes are never used again.
    .and(Capabilities::CACHE_SYMLINKS)
    .and(Capabilities::DIRECT_IO_ALLOW_MMAP)
    .and(Capabilities::ASYNC_DIO)
    // Pages are dropped when a lease says so. Handles that outlive the right to cache need more: before each read the
    // kernel looks whether size or modification time are others than those of its pages.
    .and(Capabilities::AUTO_INVAL_DATA);
/// Requests that the kernel may have under way in the background (read-ahead, closes).
const BACKGROUND: u16 = 128;

/// The features to ask for.
pub(crate) fn wish(max_write: u32) -> Wish {
    Wish { capabilities: WANTED, max_write, max_background: BACKGROUND }
}

impl<S: Submit> Core<S> {
    /// Takes a request apart and sees to its answer. `bytes`: as the device gave them.
    pub fn take(self: &Arc<Self>, device: &Device, bytes: &[u8]) {
        match Request::parse(bytes) {
            Ok(request) => {
                let reply = Reply::new(device, request.header.unique);
                self.dispatch(request, reply);
            }
            Err(error) => {
                tracing::error!(%error, "is the kernel's FUSE newer than it says?");
                if let ParseError::Body(header) = error {
                    Reply::new(device, header.unique).error(Errno(libc::EIO));
                }
            }
        }
    }

    fn dispatch(self: &Arc<Self>, request: Request<'_>, reply: Reply) {
        let Request { header, operation } = request;
        let node = self.kernel.ino(header.node);
        let asked = |op: FuseOp| -> Asked { self.asked(op, &header) };
        match operation {
            Operation::Lookup { name } => self.lookup(asked(FuseOp::Lookup), node, name, reply.shaped()),
            Operation::Forget { nodes } => {
                reply.none();
                self.ops.count(FuseOp::Forget);
                nodes.for_each(|node, lookups| {
                    // By another number it was told of nothing that is counted.
                    if !is_other(node) {
                        self.kernel.table.forget(self.kernel.ino(node), lookups);
                    }
                });
            }
            Operation::GetAttr { fh } => self.getattr(asked(FuseOp::GetAttr), node, fh, reply.shaped()),
            Operation::SetAttr(set) => self.setattr(asked(FuseOp::SetAttr), node, &set, reply.shaped()),
            Operation::Readlink => self.readlink(asked(FuseOp::Readlink), node, reply.shaped()),
            Operation::Symlink { name, target } => {
                self.symlink(asked(FuseOp::Symlink), node, name, target, reply.shaped());
            }
            Operation::Mknod { name, mode, umask, rdev } => {
                self.mknod(asked(FuseOp::Mknod), node, name, mode, umask, rdev, reply.shaped());
            }
            Operation::Mkdir { name, mode, umask } => {
                self.mkdir(asked(FuseOp::Mkdir), node, name, mode, umask, reply.shaped());
            }
            Operation::Unlink { name } => self.remove(asked(FuseOp::Unlink), node, name, false, reply.shaped()),
            Operation::Rmdir { name } => self.remove(asked(FuseOp::Rmdir), node, name, true, reply.shaped()),
            Operation::Rename { name, new_dir, new_name, flags } => {
                let to = (self.kernel.ino(new_dir), new_name);
                self.rename(asked(FuseOp::Rename), (node, name), to, flags, reply.shaped());
            }
            Operation::Link { node: linked, name } => {
                self.link(asked(FuseOp::Link), self.kernel.ino(linked), node, name, reply.shaped());
            }
            Operation::SetXattr { name, value, flags } => {
                self.setxattr(asked(FuseOp::SetXattr), node, name, value, flags.cast_signed(), reply.shaped());
            }
            Operation::GetXattr { name, size } => {
                self.getxattr(asked(FuseOp::GetXattr), node, name, size, reply.shaped());
            }
            Operation::ListXattr { size } => self.listxattr(asked(FuseOp::ListXattr), node, size, reply.shaped()),
            Operation::RemoveXattr { name } => {
                self.removexattr(asked(FuseOp::RemoveXattr), node, name, reply.shaped());
            }
            Operation::Access { mask } => {
                self.access(asked(FuseOp::Access), node, mask.cast_signed(), reply.shaped());
            }
            Operation::Statfs => self.statfs(asked(FuseOp::StatFs), reply.shaped()),
            Operation::OpenDir { .. } => self.opendir(asked(FuseOp::OpenDir), node, reply.shaped()),
            Operation::ReadDir { fh, offset, size } => {
                self.readdir(asked(FuseOp::ReadDir), node, fh, offset, size, reply.shaped());
            }
            Operation::ReleaseDir { fh } => self.releasedir(asked(FuseOp::ReleaseDir), fh, reply.shaped()),
            Operation::FsyncDir { .. } => self.fsyncdir(asked(FuseOp::FsyncDir), node, reply.shaped()),
            Operation::Syncfs => self.sync_all(asked(FuseOp::SyncFs), reply.shaped()),
            Operation::Interrupt { unique } => {
                reply.none();
                self.ops.count(FuseOp::Interrupt);
                self.interrupt(unique);
            }
            Operation::Ioctl => {
                self.ops.count(FuseOp::Ioctl);
                reply.error(Errno(libc::ENOTTY));
            }
            Operation::Destroy => reply.shaped::<loligo_fuse::shape::Empty>().ok(),
            // The kernel does not ask again. STATX is among these on purpose: it only adds the time of birth, and with it
            // every first look of a program that may want one would be a request, whatever is cached.
            Operation::Init { .. } | Operation::Unknown => reply.error(Errno(libc::ENOSYS)),
            Operation::Open { .. }
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Release { .. }
            | Operation::Fsync { .. }
            | Operation::Flush { .. }
            | Operation::GetLock(_)
            | Operation::SetLock { .. }
            | Operation::Create { .. }
            | Operation::Tmpfile { .. }
            | Operation::Fallocate { .. }
            | Operation::Lseek { .. }
            | Operation::CopyFileRange { .. } => self.dispatch_file(asked, node, operation, reply),
        }
    }

    /// Requests on open files.
    fn dispatch_file(
        self: &Arc<Self>,
        asked: impl Fn(FuseOp) -> Asked,
        node: Ino,
        operation: Operation<'_>,
        reply: Reply,
    ) {
        match operation {
            Operation::Open { flags, kill_priv } => {
                self.open(asked(FuseOp::Open), node, flags.cast_signed(), kill_priv, reply.shaped());
            }
            Operation::Create { name, mode, umask, flags, kill_priv } => {
                let how = files::Create { mode, umask, flags: flags.cast_signed(), kill_priv };
                self.create(asked(FuseOp::Create), node, name, how, reply.shaped());
            }
            Operation::Tmpfile { mode, umask, flags } => {
                self.tmpfile(asked(FuseOp::Tmpfile), node, mode, umask, flags.cast_signed(), reply.shaped());
            }
            Operation::Read { fh, offset, size, direct } => {
                if !direct {
                    self.kernel.table.page(node);
                }
                self.read(asked(FuseOp::Read), node, fh, (offset, size), !direct, reply.shaped());
            }
            Operation::Write { fh, offset, data, how, flags } => {
                self.write(asked(FuseOp::Write), node, fh, offset, data, how, flags.cast_signed(), reply.shaped());
            }
            Operation::Flush { fh, owner } => self.flush(asked(FuseOp::Flush), node, fh, owner, reply.shaped()),
            Operation::Release { fh, flock_owner } => {
                self.release(asked(FuseOp::Release), node, fh, flock_owner, reply.shaped());
            }
            Operation::Fsync { fh, data_only } => self.fsync(asked(FuseOp::Fsync), fh, data_only, reply.shaped()),
            Operation::GetLock(lock) => self.getlk(asked(FuseOp::GetLock), &lock, reply.shaped()),
            Operation::SetLock { lock, wait } => {
                self.setlk(asked(FuseOp::SetLock), node, &lock, wait, reply.shaped());
            }
            Operation::Fallocate { fh, offset, len, mode } => {
                let mode = mode.cast_signed();
                self.fallocate(asked(FuseOp::Fallocate), node, fh, offset, len, mode, reply.shaped());
            }
            Operation::Lseek { fh, offset, whence } => {
                self.seek(asked(FuseOp::Seek), node, fh, offset, whence.cast_signed(), reply.shaped());
            }
            Operation::CopyFileRange { fh, offset, out_node, out_fh, out_offset, len, wide } => {
                let to = (self.kernel.ino(out_node), out_fh, out_offset);
                self.copy(asked(FuseOp::Copy), (fh, offset), to, len, wide, reply.shaped());
            }
            // Everything else is served by the caller.
            _ => reply.error(Errno(libc::ENOSYS)),
        }
    }
}
