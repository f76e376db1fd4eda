//! List of mounts, from /proc/self/mountinfo. Never touches a mount: one whose server is gone would hang.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::output::{Context, Failure};

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountLine {
    /// Where.
    pub path: PathBuf,
    /// Type, such as `fuse.loligo`.
    pub fs_type: String,
    /// Device or address.
    pub source: String,
    /// Number of the device, such as `0:51`.
    pub device: String,
    /// Options of this mount and, after a space, of the file system.
    options: String,
}

impl MountLine {
    /// Its options, and `ro` if the file system is read-only.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        let (own, all) = self.options.split_once(' ').unwrap_or((&self.options, ""));
        let read_only = all.split(',').filter(|option| *option == "ro");
        own.split(',').chain(read_only)
    }

    /// The user who has mounted it, if it is a FUSE mount.
    pub fn user_id(&self) -> Option<u32> {
        let options = self.options.split([',', ' ']);
        options.filter_map(|option| option.strip_prefix("user_id=")).find_map(|user| user.parse().ok())
    }

    /// The server's address or data directory, if it is one of ours.
    pub fn server(&self) -> Option<&str> {
        (self.fs_type == loligo_mount::FS_TYPE).then(|| self.source.strip_prefix("loligo:").unwrap_or(&self.source))
    }
}

/// All mounts that this process sees, in the order in which they were made.
pub fn all() -> Result<Vec<MountLine>, Failure> {
    of("/proc/self/mountinfo")
}

/// Those that another process sees.
pub fn of(list: &str) -> Result<Vec<MountLine>, Failure> {
    let text = std::fs::read(list).context(|| list.to_string())?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
}

/// The mount at exactly this path, the topmost if there are several.
pub fn at(lines: &[MountLine], path: &Path) -> Option<MountLine> {
    lines.iter().rfind(|line| line.path == path).cloned()
}

/// The mount that holds a path.
pub fn over(lines: &[MountLine], path: &Path) -> Option<MountLine> {
    // Of equally long ones the last is on top.
    lines.iter().filter(|line| path.starts_with(&line.path)).max_by_key(|line| line.path.as_os_str().len()).cloned()
}

/// The path without symlinks and dots, without touching what is mounted at it.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => Ok(path),
    }
}

fn parse(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|b| *b == b' ');
    let device = String::from_utf8_lossy(fields.nth(2)?).into_owned();
    let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let own = String::from_utf8_lossy(fields.next()?).into_owned();
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    let (fs_type, source) = (text(rest.next()?), text(rest.next()?));
    let options = format!("{own} {}", text(rest.next().unwrap_or_default()));
    Some(MountLine { path, fs_type, source, device, options })
}

/// Undoes the kernel's octal escapes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let digits = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        match digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok()) {
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
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<MountLine> {
        let text = "1 0 8:1 / / rw shared:1 - ext4 /dev/x rw\n\
                    2 1 0:50 / /m rw,nosuid - fuse.loligo loligo:/d rw,user_id=0\n\
                    3 2 0:51 / /m/in rw - fuse.loligo loligo:/my\\040data rw\n";
        text.as_bytes().split(|b| *b == b'\n').filter_map(parse).collect()
    }

    #[test]
    fn the_innermost_mount_over_a_path_is_found() {
        let lines = lines();
        let find = |path: &str| over(&lines, Path::new(path)).and_then(|line| line.server().map(str::to_string));
        assert_eq!(find("/m/a"), Some("/d".into()));
        assert_eq!(find("/m/in/x"), Some("/my data".into()));
        assert_eq!(find("/elsewhere"), None);
        assert_eq!(find("/mm"), None);
    }

    #[test]
    fn a_mount_point_is_told_from_a_path_inside() {
        let lines = lines();
        let line = at(&lines, Path::new("/m/in")).expect("a mount point");
        assert_eq!((&*line.device, line.user_id()), ("0:51", None));
        assert_eq!(at(&lines, Path::new("/m")).and_then(|line| line.user_id()), Some(0));
        assert_eq!(at(&lines, Path::new("/m/in/x")), None);
    }
}
