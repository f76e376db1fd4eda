//! The place to mount at: what is there, whether it may be used, and how to get rid of what a dead process left.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::MountError;

/// Type of our mounts in `/proc/self/mountinfo`.
pub const FS_TYPE: &str = "fuse.loligo";
/// Time limit for an existing mount to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Time between two looks at requests that have no answer yet.
const LOOKS_EVERY: Duration = Duration::from_millis(5);
/// Time after which requests whose number stays are not waited for.
const STAYS_FOR: Duration = Duration::from_secs(1);
/// Time for the writes where the kernel does not tell how many there are.
const UNSEEN_FOR: Duration = Duration::from_millis(500);
/// Types of file systems in which only the kernel makes directories: proc and sysfs.
const VIRTUAL: [u64; 2] = [0x9fa0, 0x6265_6572];

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountLine {
    /// Minor number of the device, which names a FUSE connection in `/sys/fs/fuse/connections`.
    pub minor: u32,
    pub major: u32,
    pub path: PathBuf,
    pub fs_type: String,
    pub source: String,
}

/// The mount at a path, the top one if there are several. Does not touch the path.
pub(crate) fn mounted_at(path: &Path) -> io::Result<Option<MountLine>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).rfind(|line| line.path == path))
}

fn parse(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|b| *b == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let path = unescape(fields.nth(1)?);
    let mut rest = fields.skip_while(|f| *f != b"-").skip(1);
    let text = |f: &[u8]| String::from_utf8_lossy(&unescape(f).into_os_string().into_vec()).into_owned();
    let (fs_type, source) = (text(rest.next()?), text(rest.next()?));
    Some(MountLine { major: major.parse().ok()?, minor: minor.parse().ok()?, path, fs_type, source })
}

/// Undoes the kernel's `\ooo` for spaces and the like.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let code = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        match code.and_then(|c| u8::from_str_radix(std::str::from_utf8(c).ok()?, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// The path without symlinks, and without touching what is mounted at it.
pub(crate) fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path) };
    let inside = parent.canonicalize()?.join(name);
    match std::fs::read_link(&inside) {
        Ok(_) => inside.canonicalize(),
        Err(_) => Ok(inside),
    }
}

/// Makes sure that a path can be mounted at, makes it if it is not there, and detaches a dead mount of our own there.
/// Returns the path to use, and what the user should know.
pub(crate) fn prepare(path: &Path, nonempty: bool) -> Result<(PathBuf, Vec<String>), MountError> {
    let fail = |source| MountError::Path { path: path.to_owned(), source };
    let mut notes = Vec::new();
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
    {
        std::fs::create_dir_all(parent).map_err(fail)?;
    }
    let path = absolute(path).map_err(fail)?;
    while let Some(there) = mounted_at(&path).map_err(fail)? {
        if there.fs_type != FS_TYPE || alive(&path) {
            return Err(MountError::InUse { path, fs_type: there.fs_type, source_name: there.source });
        }
        detach(&path).map_err(fail)?;
        notes.push(format!("detached a dead mount of {} at {}", there.source, path.display()));
    }
    match std::fs::create_dir(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(fail(e)),
        _ => (),
    }
    let mut entries = std::fs::read_dir(&path).map_err(fail)?;
    if let Some(entry) = entries.next() {
        entry.map_err(fail)?;
        if !nonempty {
            return Err(MountError::NotEmpty { path });
        }
        notes.push(format!("{} has entries, which are hidden as long as it is mounted", path.display()));
    }
    Ok((path, notes))
}

/// Checks that a path can be mounted at, as far as can be seen without changing anything, before anything else is made for the mount.
/// Returns the path without symlinks. A dead mount of our own is no obstacle: the mount detaches it.
pub fn check(path: &Path, nonempty: bool) -> Result<PathBuf, MountError> {
    let fail = |source| MountError::Path { path: path.to_owned(), source };
    let full = std::path::absolute(path).map_err(fail)?;
    let Some(above) = full.parent().and_then(|parent| parent.ancestors().find(|above| above.exists())) else {
        return Ok(full);
    };
    let below = full.strip_prefix(above).unwrap_or(&full);
    // With no more than its last name missing.
    let in_place = below.components().count() == 1;
    let path = if in_place { absolute(&full) } else { above.canonicalize().map(|above| above.join(below)) };
    let path = path.map_err(fail)?;
    if let Some(there) = mounted_at(&path).map_err(fail)? {
        let is_dead = there.fs_type == FS_TYPE && !alive(&path);
        let (fs_type, source_name) = (there.fs_type, there.source);
        return if is_dead { Ok(path) } else { Err(MountError::InUse { path, fs_type, source_name }) };
    }
    match std::fs::read_dir(&path) {
        Ok(mut entries) => match entries.next() {
            Some(_) if !nonempty => Err(MountError::NotEmpty { path }),
            _ => Ok(path),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            use rustix::fs::Access;
            if below.components().any(|part| part == Component::ParentDir) {
                // The kernel follows `..` only through directories that are there.
                return Err(fail(error));
            }
            let is_virtual = rustix::fs::statfs(above).is_ok_and(|fs| VIRTUAL.contains(&fs.f_type.cast_unsigned()));
            if is_virtual {
                return Err(fail(io::Error::other("no directory can be made in this file system of the kernel")));
            }
            let makes = rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK);
            makes.map(|()| path).map_err(|error| fail(error.into()))
        }
        Err(error) => Err(fail(error)),
    }
}

/// True if a mount answers. One that hangs counts as alive: somebody may be waiting for it to come back.
fn alive(path: &Path) -> bool {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    // A thread, because a hanging mount would hold this one for ever.
    std::thread::spawn(move || sender.send(rustix::fs::statfs(&path).map(|_| ())));
    !matches!(
        receiver.recv_timeout(ANSWER_WITHIN),
        Ok(Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED))
    )
}

/// Has the kernel write back the dirty pages of a mount, within a time limit; whether it did.
pub(crate) fn write_back(path: &Path, line: Option<&MountLine>, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    // A thread, because a server that hangs would hold this one.
    std::thread::spawn(move || {
        let synced = std::fs::File::open(&path).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
        sender.send(synced.is_ok())
    });
    if !receiver.recv_timeout(limit).unwrap_or(false) {
        return false;
    }
    // Since Linux 6.16 syncfs begins the writes to FUSE, and does not wait for their answers.
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let Some(requests) = waiting(line) else {
            std::thread::sleep(UNSEEN_FOR);
            return true;
        };
        if requests != last {
            (last, since) = (requests, Instant::now());
        }
        // Requests that stay are no writes; the wait for a lock is one of them.
        if requests == 0 || since.elapsed() >= STAYS_FOR || Instant::now() >= until {
            return requests == 0;
        }
        std::thread::sleep(LOOKS_EVERY);
    }
}

/// Requests of a mount that the kernel has no answer to yet; none: it does not tell.
fn waiting(line: Option<&MountLine>) -> Option<u64> {
    let path = format!("/sys/fs/fuse/connections/{}/waiting", line?.minor);
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Takes a mount out of sight, whether it is in use or not.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    use rustix::mount::UnmountFlags;
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Err(rustix::io::Errno::PERM) => fusermount(path, true),
        other => Ok(other?),
    }
}

/// Takes a mount out of sight and ends its connection: all who use it get errors.
pub(crate) fn force(line: Option<&MountLine>, path: &Path) -> io::Result<()> {
    use rustix::mount::UnmountFlags;
    match rustix::mount::unmount(path, UnmountFlags::FORCE | UnmountFlags::DETACH) {
        Err(rustix::io::Errno::PERM) => {
            fusermount(path, true)?;
            line.map_or(Ok(()), |line| abort(line.minor))
        }
        other => Ok(other?),
    }
}

/// Unmounts; fails with `ResourceBusy` if it is in use.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    use rustix::mount::UnmountFlags;
    match rustix::mount::unmount(path, UnmountFlags::empty()) {
        Err(rustix::io::Errno::PERM) => fusermount(path, false),
        other => Ok(other?),
    }
}

/// For users who are not root.
fn fusermount(path: &Path, lazy: bool) -> io::Result<()> {
    let mut command = std::process::Command::new("fusermount3");
    command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(path);
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if text.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, text))
}

/// Ends a FUSE connection by force: all who wait for it get an error.
pub(crate) fn abort(minor: u32) -> io::Result<()> {
    std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1")
}

/// Lets the kernel read further ahead than its default of 128 KiB. Without the right to do so it stays as it is.
pub(crate) fn read_ahead(line: &MountLine, bytes: u32) {
    let path = format!("/sys/class/bdi/{}:{}/read_ahead_kb", line.major, line.minor);
    if let Err(error) = std::fs::write(&path, (bytes >> 10).to_string()) {
        tracing::debug!(%error, path, "read-ahead stays at the kernel's default");
    }
}

/// A path for the kernel.
pub(crate) fn c_path(path: &Path) -> io::Result<std::ffi::CString> {
    Ok(std::ffi::CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_taken_apart() {
        let line = b"36 35 0:57 / /mnt\\040x/y rw,nosuid shared:1 master:2 - fuse.loligo loligo:/data rw,user_id=0";
        let parsed = parse(line).expect("a line");
        assert_eq!((parsed.major, parsed.minor), (0, 57));
        assert_eq!(parsed.path, Path::new("/mnt x/y"));
        assert_eq!((parsed.fs_type.as_str(), parsed.source.as_str()), (FS_TYPE, "loligo:/data"));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 0:57 / /mnt rw"), None);
    }

    #[test]
    fn the_root_is_mounted_and_a_made_up_path_is_not() {
        assert!(mounted_at(Path::new("/")).expect("mountinfo").is_some());
        assert!(mounted_at(Path::new("/no/such/place")).expect("mountinfo").is_none());
    }

    #[test]
    fn a_place_in_use_or_with_entries_is_refused() {
        assert!(matches!(prepare(Path::new("/proc"), false), Err(MountError::InUse { .. })));
        let dir = std::env::temp_dir().join(format!("loligo-mountpoint-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("entry")).expect("a directory");
        assert!(matches!(prepare(&dir, false), Err(MountError::NotEmpty { .. })));
        assert_eq!(prepare(&dir, true).expect("allowed").1.len(), 1);
        let (made, notes) = prepare(&dir.join("new/place"), false).expect("made");
        assert!(made.is_dir() && notes.is_empty());
        std::fs::remove_dir_all(&dir).expect("removed");
        std::fs::write(&dir, "").expect("a file");
        assert!(matches!(prepare(&dir, false), Err(MountError::Path { .. })));
        std::fs::remove_file(&dir).expect("removed");
    }
}
