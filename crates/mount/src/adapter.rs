//! The callbacks of the FUSE library: words are translated, nothing is decided. See [`crate::fs`] for what they do.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use loligo_client::Call;

use crate::body::is_flock;
use crate::core::{Core, ino};
use crate::fs::locks::Wanted;
use crate::fs::names::Changes;
use crate::kernel::EPOCH_MINOR;
use crate::metrics::FuseOp;
use crate::submit::Submit;

/// What is asked of the kernel, as far as it has it.
///
/// Not asked for, on purpose: the write-back cache (written data would be held where leases do not reach), splicing,
/// readdirplus (see [`crate::fs::dirs`]) and export by NFS.
const WANTED: [InitFlags; 11] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_POSIX_LOCKS,
    InitFlags::FUSE_FLOCK_LOCKS,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // The target of a symlink never changes, and numbers of inodes are never used again.
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_ASYNC_DIO,
    // Pages are dropped when a lease says so. Handles that outlive the right to cache need more: before each read the
    // kernel looks whether size or modification time are others than those of its pages.
    InitFlags::FUSE_AUTO_INVAL_DATA,
];
/// Requests that the kernel may have under way in the background (read-ahead, closes).
const BACKGROUND: u16 = 128;

/// One mount, as the FUSE library sees it.
pub(crate) struct Adapter<S> {
    pub core: Arc<Core<S>>,
    pub max_write: u32,
}

impl<S: Submit> Filesystem for Adapter<S> {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in WANTED {
            if config.add_capabilities(flag).is_err() {
                tracing::info!(?flag, "the kernel does not have this");
            }
        }
        if !config.capabilities().contains(InitFlags::FUSE_POSIX_ACL) {
            tracing::warn!("the kernel's FUSE does not know ACLs; only the server checks them");
        }
        // Values out of range leave the kernel's own, which are good enough.
        let _ = config.set_max_write(self.max_write);
        let _ = config.set_max_background(BACKGROUND);
        let abi = config.kernel_abi();
        let epochs = abi.0 == 7 && abi.1 >= EPOCH_MINOR;
        if !epochs {
            tracing::info!(version = %abi, "names are not cached in the kernel: it is too old to drop them safely (Linux 6.16 can)");
        }
        self.core.kernel.set_epochs(epochs);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.core.lookup(self.core.asked(FuseOp::Lookup, req), ino(parent), name, reply);
    }

    fn forget(&self, _req: &Request, node: INodeNo, nlookup: u64) {
        self.core.ops.count(FuseOp::Forget);
        self.core.kernel.table.forget(ino(node), nlookup);
    }

    fn getattr(&self, req: &Request, node: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let asked = self.core.asked(FuseOp::GetAttr, req);
        self.core.attr(asked, Call::GetAttr { ino: ino(node) }, reply);
    }

    fn setattr(
        &self,
        req: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, uid, gid, size, atime, mtime };
        self.core.setattr(self.core.asked(FuseOp::SetAttr, req), ino(node), changes, fh, reply);
    }

    fn readlink(&self, req: &Request, node: INodeNo, reply: ReplyData) {
        self.core.readlink(self.core.asked(FuseOp::Readlink, req), ino(node), reply);
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        self.core.mknod(self.core.asked(FuseOp::Mknod, req), ino(parent), name, mode, umask, rdev, reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.core.mkdir(self.core.asked(FuseOp::Mkdir, req), ino(parent), name, mode, umask, reply);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.remove(self.core.asked(FuseOp::Unlink, req), ino(parent), name, false, reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.remove(self.core.asked(FuseOp::Rmdir, req), ino(parent), name, true, reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.core.symlink(self.core.asked(FuseOp::Symlink, req), ino(parent), name, target.as_os_str(), reply);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let asked = self.core.asked(FuseOp::Rename, req);
        self.core.rename(asked, (ino(parent), name), (ino(newparent), newname), flags.bits(), reply);
    }

    fn link(&self, req: &Request, node: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        self.core.link(self.core.asked(FuseOp::Link, req), ino(node), ino(newparent), newname, reply);
    }

    fn open(&self, req: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.core.open(self.core.asked(FuseOp::Open, req), ino(node), flags.0, reply);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.core.create(self.core.asked(FuseOp::Create, req), ino(parent), name, mode, umask, flags, reply);
    }

    fn read(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.core.read(self.core.asked(FuseOp::Read, req), ino(node), fh, offset, size, reply);
    }

    fn write(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let asked = self.core.asked(FuseOp::Write, req);
        self.core.write(asked, ino(node), fh, offset, data, write_flags, flags.0, reply);
    }

    fn flush(&self, req: &Request, node: INodeNo, fh: FileHandle, lock_owner: LockOwner, reply: ReplyEmpty) {
        self.core.flush(self.core.asked(FuseOp::Flush, req), ino(node), fh, lock_owner.0, reply);
    }

    fn release(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let flock = lock_owner.map(|owner| owner.0);
        self.core.release(self.core.asked(FuseOp::Release, req), ino(node), fh, flock, reply);
    }

    fn fsync(&self, req: &Request, _node: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.core.fsync(self.core.asked(FuseOp::Fsync, req), fh, datasync, reply);
    }

    fn opendir(&self, req: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.core.opendir(self.core.asked(FuseOp::OpenDir, req), ino(node), reply);
    }

    fn readdir(&self, req: &Request, node: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.core.readdir(self.core.asked(FuseOp::ReadDir, req), ino(node), fh, offset, reply);
    }

    fn releasedir(&self, req: &Request, _node: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.core.releasedir(self.core.asked(FuseOp::ReleaseDir, req), fh, reply);
    }

    fn fsyncdir(&self, req: &Request, _node: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.core.fsyncdir(self.core.asked(FuseOp::FsyncDir, req), reply);
    }

    fn statfs(&self, req: &Request, _node: INodeNo, reply: ReplyStatfs) {
        self.core.statfs(self.core.asked(FuseOp::StatFs, req), reply);
    }

    fn setxattr(
        &self,
        req: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.core.setxattr(self.core.asked(FuseOp::SetXattr, req), ino(node), name, value, flags, reply);
    }

    fn getxattr(&self, req: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.core.getxattr(self.core.asked(FuseOp::GetXattr, req), ino(node), name, size, reply);
    }

    fn listxattr(&self, req: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.core.listxattr(self.core.asked(FuseOp::ListXattr, req), ino(node), size, reply);
    }

    fn removexattr(&self, req: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.removexattr(self.core.asked(FuseOp::RemoveXattr, req), ino(node), name, reply);
    }

    fn access(&self, req: &Request, node: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.core.access(self.core.asked(FuseOp::Access, req), ino(node), mask.bits(), reply);
    }

    fn getlk(
        &self,
        req: &Request,
        _node: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let wanted = Wanted { flock: false, owner: lock_owner.0, start, end, typ, pid };
        self.core.getlk(self.core.asked(FuseOp::GetLock, req), fh, &wanted, reply);
    }

    fn setlk(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let flock = is_flock(req, lock_owner.0, start, end);
        let wanted = Wanted { flock, owner: lock_owner.0, start, end, typ, pid };
        self.core.setlk(self.core.asked(FuseOp::SetLock, req), ino(node), fh, &wanted, sleep, reply);
    }

    fn fallocate(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.core.fallocate(self.core.asked(FuseOp::Fallocate, req), ino(node), fh, offset, length, mode, reply);
    }

    fn lseek(&self, req: &Request, _node: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.core.seek(self.core.asked(FuseOp::Seek, req), fh, offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        req: &Request,
        _ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let asked = self.core.asked(FuseOp::Copy, req);
        self.core.copy(asked, (fh_in, offset_in), (ino(ino_out), fh_out, offset_out), len, reply);
    }

    fn ioctl(
        &self,
        _req: &Request,
        _node: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.core.ops.count(FuseOp::Ioctl);
        reply.error(fuser::Errno::ENOTTY);
    }

    fn bmap(&self, _req: &Request, _node: INodeNo, _blocksize: u32, _idx: u64, reply: ReplyBmap) {
        // There are no blocks of a device here; the kernel does not ask again.
        reply.error(fuser::Errno::ENOSYS);
    }
}
