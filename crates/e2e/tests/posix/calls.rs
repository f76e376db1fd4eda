//! The system calls that the programs make, by way of libc, with outcomes as text. No wrapper checks or converts anything: the kernel's
//! answer is the outcome.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Begins each line of an outcome: a test harness prints other lines, too.
pub const MARK: &str = "outcome ";

/// A program: its name, whether it runs as an ordinary user, and its body.
pub type Entry = (&'static str, bool, fn(&mut Log));

/// Takes the outcomes of a program.
#[derive(Default)]
pub struct Log {
    seen: std::collections::BTreeSet<String>,
}

impl Log {
    /// Puts an outcome down. Labels are unique in a program.
    pub fn say(&mut self, label: &str, outcome: impl std::fmt::Display) {
        assert!(self.seen.insert(label.to_owned()), "{label} is said twice");
        println!("{MARK}{label} = {outcome}");
    }

    /// Puts the outcome of a call down: its value, or the name of the error.
    pub fn call(&mut self, label: &str, result: i64) -> i64 {
        self.say(label, outcome(result));
        result
    }

    /// The same for a call whose value may differ between two runs (a descriptor): only whether it worked.
    pub fn works(&mut self, label: &str, result: i64) -> i64 {
        let text = if result < 0 { outcome(result) } else { "done".into() };
        self.say(label, text);
        result
    }
}

/// A value, or the name of the error of the last call.
pub fn outcome(result: i64) -> String {
    if result >= 0 { result.to_string() } else { errno() }
}

/// The name of the error of the last call.
pub fn errno() -> String {
    let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let names = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::EIO, "EIO"),
        (libc::ENXIO, "ENXIO"),
        (libc::E2BIG, "E2BIG"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::ETXTBSY, "ETXTBSY"),
        (libc::EFBIG, "EFBIG"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EROFS, "EROFS"),
        (libc::EMLINK, "EMLINK"),
        (libc::ERANGE, "ERANGE"),
        (libc::ENAMETOOLONG, "ENAMETOOLONG"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::ELOOP, "ELOOP"),
        (libc::ENODATA, "ENODATA"),
        (libc::EOVERFLOW, "EOVERFLOW"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ESTALE, "ESTALE"),
    ];
    names
        .iter()
        .find(|(number, _)| *number == error)
        .map_or_else(|| format!("errno {error}"), |(_, name)| (*name).into())
}

/// A path for a call.
pub fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).expect("no NUL in a path")
}

/// open(2).
pub fn open(path: impl AsRef<Path>, flags: i32, mode: u32) -> i64 {
    // SAFETY: the path is a C string that lives until the call returns.
    i64::from(unsafe { libc::open(c(path).as_ptr(), flags | libc::O_CLOEXEC, mode) })
}

/// close(2).
pub fn close(fd: i64) {
    // SAFETY: a number; one that is no descriptor is refused.
    unsafe { libc::close(fd as i32) };
}

/// A file with these bytes.
pub fn file(path: impl AsRef<Path>, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a file is made");
}

/// pwrite(2).
pub fn pwrite(fd: i64, bytes: &[u8], at: i64) -> i64 {
    // SAFETY: pointer and length are those of a slice.
    (unsafe { libc::pwrite(fd as i32, bytes.as_ptr().cast(), bytes.len(), at) }) as i64
}

/// write(2).
pub fn write(fd: i64, bytes: &[u8]) -> i64 {
    // SAFETY: as above.
    (unsafe { libc::write(fd as i32, bytes.as_ptr().cast(), bytes.len()) }) as i64
}

/// pread(2): the outcome, with what was read.
pub fn pread(fd: i64, len: usize, at: i64) -> String {
    let mut bytes = vec![0u8; len];
    // SAFETY: as above.
    let got = unsafe { libc::pread(fd as i32, bytes.as_mut_ptr().cast(), len, at) };
    if got < 0 {
        return errno();
    }
    shown(&bytes[..got as usize])
}

/// Bytes as text: runs of the same byte are counted.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes:", bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count();
        text += &format!(" {run}x{}", char::from(bytes[at]).escape_default());
        at += run;
    }
    text
}

/// The content of a file.
pub fn content(path: impl AsRef<Path>) -> String {
    std::fs::read(path).map_or_else(|error| format!("{:?}", error.kind()), |bytes| shown(&bytes))
}

/// lseek(2).
pub fn lseek(fd: i64, at: i64, whence: i32) -> i64 {
    // SAFETY: numbers only.
    unsafe { libc::lseek(fd as i32, at, whence) }
}

/// fstat(2), or zeros.
pub fn fstat(fd: i64) -> libc::stat {
    // SAFETY: a plain structure of numbers; the call fills it.
    unsafe {
        let mut stat = std::mem::zeroed();
        libc::fstat(fd as i32, &mut stat);
        stat
    }
}

/// lstat(2), or zeros.
pub fn lstat(path: impl AsRef<Path>) -> libc::stat {
    // SAFETY: as above.
    unsafe {
        let mut stat = std::mem::zeroed();
        libc::lstat(c(path).as_ptr(), &mut stat);
        stat
    }
}

/// Type and permissions as `ls` would give the number.
pub fn mode(path: impl AsRef<Path>) -> String {
    format!("{:o}", lstat(path).st_mode)
}

/// A call with one path.
pub fn with_path(path: impl AsRef<Path>, call: impl Fn(*const libc::c_char) -> i32) -> i64 {
    i64::from(call(c(path).as_ptr()))
}

/// A call with two paths.
pub fn with_paths(
    one: impl AsRef<Path>,
    two: impl AsRef<Path>,
    call: impl Fn(*const libc::c_char, *const libc::c_char) -> i32,
) -> i64 {
    i64::from(call(c(one).as_ptr(), c(two).as_ptr()))
}

/// rename(2).
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> i64 {
    // SAFETY: both are C strings.
    with_paths(from, to, |from, to| unsafe { libc::rename(from, to) })
}

/// renameat2(2).
pub fn rename_with(from: impl AsRef<Path>, to: impl AsRef<Path>, flags: u32) -> i64 {
    // SAFETY: both are C strings.
    with_paths(from, to, |from, to| unsafe { libc::renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, flags) })
}

/// link(2).
pub fn link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> i64 {
    // SAFETY: both are C strings.
    with_paths(from, to, |from, to| unsafe { libc::link(from, to) })
}

/// symlink(2).
pub fn symlink(target: impl AsRef<Path>, path: impl AsRef<Path>) -> i64 {
    // SAFETY: both are C strings.
    with_paths(target, path, |target, path| unsafe { libc::symlink(target, path) })
}

/// unlink(2).
pub fn unlink(path: impl AsRef<Path>) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::unlink(path) })
}

/// rmdir(2).
pub fn rmdir(path: impl AsRef<Path>) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::rmdir(path) })
}

/// mkdir(2).
pub fn mkdir(path: impl AsRef<Path>, mode: u32) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::mkdir(path, mode) })
}

/// mknod(2).
pub fn mknod(path: impl AsRef<Path>, mode: u32, device: u64) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::mknod(path, mode, device) })
}

/// chmod(2).
pub fn chmod(path: impl AsRef<Path>, mode: u32) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::chmod(path, mode) })
}

/// lchown(2).
pub fn chown(path: impl AsRef<Path>, uid: u32, gid: u32) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::lchown(path, uid, gid) })
}

/// truncate(2).
pub fn truncate(path: impl AsRef<Path>, len: i64) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::truncate(path, len) })
}

/// ftruncate(2).
pub fn ftruncate(fd: i64, len: i64) -> i64 {
    // SAFETY: numbers only.
    i64::from(unsafe { libc::ftruncate(fd as i32, len) })
}

/// fallocate(2).
pub fn fallocate(fd: i64, mode: i32, at: i64, len: i64) -> i64 {
    // SAFETY: numbers only.
    i64::from(unsafe { libc::fallocate(fd as i32, mode, at, len) })
}

/// setxattr(2).
pub fn setxattr(path: impl AsRef<Path>, name: &CStr, value: &[u8], flags: i32) -> i64 {
    // SAFETY: C strings, and pointer and length of a slice.
    with_path(path, |path| unsafe { libc::lsetxattr(path, name.as_ptr(), value.as_ptr().cast(), value.len(), flags) })
}

/// getxattr(2) into so many bytes; 0: asks for the length.
pub fn getxattr(path: impl AsRef<Path>, name: &CStr, len: usize) -> i64 {
    let mut value = vec![0u8; len];
    // SAFETY: as above.
    (unsafe { libc::lgetxattr(c(path).as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), len) }) as i64
}

/// removexattr(2).
pub fn removexattr(path: impl AsRef<Path>, name: &CStr) -> i64 {
    // SAFETY: C strings.
    with_path(path, |path| unsafe { libc::lremovexattr(path, name.as_ptr()) })
}

/// The names that listxattr(2) gives, sorted.
pub fn xattrs(path: impl AsRef<Path>) -> String {
    let mut names = vec![0u8; 4096];
    // SAFETY: as above.
    let got = unsafe { libc::llistxattr(c(path).as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    if got < 0 {
        return errno();
    }
    let mut list: Vec<String> = names[..got as usize]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    list.sort();
    list.join(" ")
}
