//! A level over system calls: any directory of any file system that this machine has mounted.
//!
//! Each call is made as its user: the calling thread's user, group and supplementary groups are changed for it, which
//! needs root. Making a level moves the calling thread's root directory to it, so that `..` ends there as in the model:
//! give each level a thread of its own.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use loligo_types::{Cred, FsError, FsResult, Kind, RenameMode, XattrMode};

use crate::level::{PathFs, Stat};

/// The calling thread's root directory as a level; or several in turn, which are the same directory of several mounts.
pub struct Posix {
    /// The next call is made in the one behind this; none: the root directory stays what it is.
    roots: Vec<Fd>,
    turn: usize,
}

/// errno of the last call, as an error kind. A number without a kind is a failure of the test, and says so.
fn last<T>() -> FsResult<T> {
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Err(match errno {
        libc::ENOENT => FsError::NotFound,
        libc::EEXIST => FsError::Exists,
        libc::ENOTDIR => FsError::NotDir,
        libc::EISDIR => FsError::IsDir,
        libc::ENOTEMPTY => FsError::NotEmpty,
        libc::EACCES => FsError::Access,
        libc::EPERM => FsError::Perm,
        libc::EINVAL => FsError::Invalid,
        libc::ENAMETOOLONG => FsError::NameTooLong,
        libc::ELOOP => FsError::Loop,
        libc::ENODATA => FsError::NoData,
        libc::ENOSPC => FsError::NoSpace,
        libc::EXDEV => FsError::CrossDevice,
        libc::EOPNOTSUPP => FsError::NotSupported,
        libc::ESTALE => FsError::Stale,
        other => panic!("errno {other}: {}", io::Error::from_raw_os_error(other)),
    })
}

fn check(result: i64) -> FsResult<i64> {
    if result < 0 { last() } else { Ok(result) }
}

/// Becomes a user for as long as it lives; only the calling thread, by bare system calls.
struct As;

impl As {
    fn user(who: &Cred) -> As {
        // SAFETY: plain system calls with valid arguments.
        unsafe {
            let groups = &who.groups;
            assert_eq!(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), 0, "setgroups needs root");
            assert_eq!(libc::syscall(libc::SYS_setresgid, -1, who.gid, -1), 0, "setresgid");
            assert_eq!(libc::syscall(libc::SYS_setresuid, -1, who.uid, -1), 0, "setresuid");
        }
        As
    }
}

impl Drop for As {
    fn drop(&mut self) {
        // SAFETY: as above; the real ids stayed root's.
        unsafe {
            libc::syscall(libc::SYS_setresuid, -1, 0, -1);
            libc::syscall(libc::SYS_setresgid, -1, 0, -1);
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>());
        }
    }
}

/// A descriptor that is closed at the end.
struct Fd(RawFd);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { libc::close(self.0) };
    }
}

fn c(text: &str) -> CString {
    CString::new(text).expect("names of the test hold no NUL")
}

impl Posix {
    /// Over this directory, which should be empty and of mode 0777, for the calling thread.
    pub fn enter(root: &Path) -> io::Result<Posix> {
        let root = CString::new(root.as_os_str().as_bytes())?;
        // SAFETY: valid C strings; the thread's view of the file system is its own from the first call on.
        unsafe {
            if libc::unshare(libc::CLONE_FS) != 0 || libc::chroot(root.as_ptr()) != 0 || libc::chdir(c"/".as_ptr()) != 0
            {
                return Err(io::Error::last_os_error());
            }
            libc::umask(0);
        }
        Ok(Posix { roots: Vec::new(), turn: 0 })
    }

    /// The same over several mounts of one directory: each call is made in the next one.
    pub fn enter_in_turn(roots: &[&Path]) -> io::Result<Posix> {
        let open = |root: &&Path| {
            let root = CString::new(root.as_os_str().as_bytes())?;
            // SAFETY: a valid C string.
            match unsafe { libc::open(root.as_ptr(), libc::O_DIRECTORY | libc::O_CLOEXEC) } {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Fd(fd)),
            }
        };
        let all = roots.iter().map(open).collect::<io::Result<Vec<Fd>>>()?;
        let first = roots.first().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Posix { roots: all, ..Posix::enter(first)? })
    }

    /// The next call is made by a user, in the mount whose turn it is.
    fn act_as(&mut self, who: &Cred) -> As {
        self.turn += 1;
        if let Some(root) = self.roots.get(self.turn % self.roots.len().max(1)) {
            // SAFETY: the descriptor is open; nothing above the new root is reached by name.
            let moved = unsafe { libc::fchdir(root.0) == 0 && libc::chroot(c".".as_ptr()) == 0 };
            assert!(moved, "the root directory can be changed: {}", io::Error::last_os_error());
        }
        As::user(who)
    }

    fn path(&self, path: &str) -> CString {
        c(&format!("/{path}"))
    }

    fn open(&self, path: &str, flags: i32, mode: u16) -> FsResult<Fd> {
        // SAFETY: a valid C string.
        check(unsafe { libc::open(self.path(path).as_ptr(), flags | libc::O_CLOEXEC, u32::from(mode)) }.into())
            .map(|fd| Fd(fd as RawFd))
    }
}

/// Writes all; a short write is a failure of the test.
fn write_all(fd: &Fd, data: &[u8], offset: Option<u64>) -> FsResult<()> {
    // SAFETY: valid buffer.
    let n = check(unsafe {
        match offset {
            Some(at) => libc::pwrite(fd.0, data.as_ptr().cast(), data.len(), at as i64),
            None => libc::write(fd.0, data.as_ptr().cast(), data.len()),
        }
    } as i64)?;
    assert_eq!(n as usize, data.len(), "short write");
    Ok(())
}

fn kind_of(mode: u32) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Dir,
        libc::S_IFLNK => Kind::Symlink,
        libc::S_IFIFO => Kind::Fifo,
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFCHR => Kind::Char,
        _ => Kind::Block,
    }
}

impl PathFs for Posix {
    fn stat(&mut self, who: &Cred, path: &str) -> FsResult<Stat> {
        let _as = self.act_as(who);
        // SAFETY: valid C string and buffer.
        let st = unsafe {
            let mut st = std::mem::zeroed::<libc::stat>();
            check(libc::lstat(self.path(path).as_ptr(), &mut st).into())?;
            st
        };
        let kind = kind_of(st.st_mode);
        let size = if kind == Kind::Dir { 0 } else { st.st_size as u64 };
        let mode = (st.st_mode & 0o7777) as u16;
        Ok(Stat { kind, mode, uid: st.st_uid, gid: st.st_gid, nlink: st.st_nlink as u32, size })
    }

    fn create(&mut self, who: &Cred, path: &str, mode: u16, exclusive: bool) -> FsResult<()> {
        let _as = self.act_as(who);
        let flags = libc::O_CREAT | libc::O_RDONLY | if exclusive { libc::O_EXCL } else { 0 };
        self.open(path, flags, mode).map(drop)
    }

    fn write(&mut self, who: &Cred, path: &str, offset: u64, data: &[u8], cut: bool) -> FsResult<()> {
        let _as = self.act_as(who);
        let fd = self.open(path, libc::O_WRONLY | if cut { libc::O_TRUNC } else { 0 }, 0)?;
        write_all(&fd, data, Some(offset))
    }

    fn append(&mut self, who: &Cred, path: &str, data: &[u8]) -> FsResult<()> {
        let _as = self.act_as(who);
        let fd = self.open(path, libc::O_WRONLY | libc::O_APPEND, 0)?;
        write_all(&fd, data, None)
    }

    fn read(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let _as = self.act_as(who);
        let fd = self.open(path, libc::O_RDONLY, 0)?;
        let mut all = Vec::new();
        loop {
            let mut part = [0u8; 8192];
            // SAFETY: valid buffer.
            let n = check(unsafe { libc::read(fd.0, part.as_mut_ptr().cast(), part.len()) } as i64)?;
            if n == 0 {
                return Ok(all);
            }
            all.extend_from_slice(&part[..n as usize]);
        }
    }

    fn truncate(&mut self, who: &Cred, path: &str, size: u64) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C string.
        check(unsafe { libc::truncate(self.path(path).as_ptr(), size as i64) }.into()).map(drop)
    }

    fn mkdir(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C string.
        check(unsafe { libc::mkdir(self.path(path).as_ptr(), mode.into()) }.into()).map(drop)
    }

    fn rmdir(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C string.
        check(unsafe { libc::rmdir(self.path(path).as_ptr()) }.into()).map(drop)
    }

    fn unlink(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C string.
        check(unsafe { libc::unlink(self.path(path).as_ptr()) }.into()).map(drop)
    }

    fn link(&mut self, who: &Cred, old: &str, new: &str) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C strings.
        check(unsafe { libc::link(self.path(old).as_ptr(), self.path(new).as_ptr()) }.into()).map(drop)
    }

    fn symlink(&mut self, who: &Cred, target: &str, path: &str) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C strings.
        check(unsafe { libc::symlink(c(target).as_ptr(), self.path(path).as_ptr()) }.into()).map(drop)
    }

    fn readlink(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let _as = self.act_as(who);
        let mut buffer = [0u8; 4096];
        // SAFETY: valid C string and buffer.
        let n = check(
            unsafe { libc::readlink(self.path(path).as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) } as i64
        )?;
        Ok(buffer[..n as usize].to_vec())
    }

    fn rename(&mut self, who: &Cred, old: &str, new: &str, mode: RenameMode) -> FsResult<()> {
        let _as = self.act_as(who);
        let flags = match mode {
            RenameMode::Replace => 0,
            RenameMode::NoReplace => libc::RENAME_NOREPLACE,
            RenameMode::Exchange => libc::RENAME_EXCHANGE,
            RenameMode::Whiteout => libc::RENAME_WHITEOUT,
            RenameMode::NewWhiteout => libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE,
        };
        let (old, new) = (self.path(old), self.path(new));
        // SAFETY: valid C strings.
        check(unsafe {
            libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags)
        })
        .map(drop)
    }

    fn chmod(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        let _as = self.act_as(who);
        // SAFETY: valid C string.
        check(unsafe { libc::chmod(self.path(path).as_ptr(), mode.into()) }.into()).map(drop)
    }

    fn chown(&mut self, who: &Cred, path: &str, uid: Option<u32>, gid: Option<u32>) -> FsResult<()> {
        let _as = self.act_as(who);
        let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
        // SAFETY: valid C string.
        check(unsafe { libc::lchown(self.path(path).as_ptr(), uid, gid) }.into()).map(drop)
    }

    fn list(&mut self, who: &Cred, path: &str) -> FsResult<Vec<(Vec<u8>, Kind)>> {
        use std::os::unix::fs::FileTypeExt;
        let _as = self.act_as(who);
        let mut all = Vec::new();
        let kind = |t: std::fs::FileType| match () {
            () if t.is_dir() => Kind::Dir,
            () if t.is_symlink() => Kind::Symlink,
            () if t.is_fifo() => Kind::Fifo,
            () => Kind::File,
        };
        let entries = match std::fs::read_dir(format!("/{path}")) {
            Ok(entries) => entries,
            Err(_) => return last(),
        };
        for entry in entries {
            let entry = entry.expect("an open directory can be read to its end");
            all.push((entry.file_name().as_bytes().to_vec(), kind(entry.file_type().expect("the entry has a type"))));
        }
        all.sort();
        Ok(all)
    }

    fn set_xattr(&mut self, who: &Cred, path: &str, name: &str, value: &[u8], mode: XattrMode) -> FsResult<()> {
        let _as = self.act_as(who);
        let flags = match mode {
            XattrMode::Set => 0,
            XattrMode::Create => libc::XATTR_CREATE,
            XattrMode::Replace => libc::XATTR_REPLACE,
        };
        let (path, name) = (self.path(path), c(name));
        // SAFETY: valid C strings and buffer.
        check(
            unsafe { libc::lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags) }.into(),
        )
        .map(drop)
    }

    fn get_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<Vec<u8>> {
        let _as = self.act_as(who);
        let (path, name) = (self.path(path), c(name));
        let mut value = [0u8; 256];
        // SAFETY: valid C strings and buffer.
        let n = check(
            unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) } as i64,
        )?;
        Ok(value[..n as usize].to_vec())
    }

    fn remove_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<()> {
        let _as = self.act_as(who);
        let (path, name) = (self.path(path), c(name));
        // SAFETY: valid C strings.
        check(unsafe { libc::lremovexattr(path.as_ptr(), name.as_ptr()) }.into()).map(drop)
    }
}
