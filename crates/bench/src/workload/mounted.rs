//! Calls as system calls below a directory of any file system. Not who makes them when.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use loligo_workload::Call;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, UTIME_OMIT, XattrFlags};

use super::{Place, Shell, Wrong};

/// Bytes read at a time, as many as a kernel asks for.
const READ_BYTES: usize = 128 << 10;

/// The new directory.
pub struct Directory {
    root: PathBuf,
}

/// Makes calls below it.
struct Below {
    root: PathBuf,
    buffer: Vec<u8>,
}

impl Directory {
    /// Makes it below a directory that is there.
    pub fn make(dir: &Path, name: &str) -> Result<Directory, String> {
        let root = dir.join(name);
        fs::DirBuilder::new().mode(0o755).create(&root).map_err(|e| format!("{}: {e}", root.display()))?;
        Ok(Directory { root })
    }
}

impl Place for Directory {
    fn shell(&self, _: usize) -> Box<dyn Shell> {
        Box::new(Below { root: self.root.clone(), buffer: Vec::new() })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        rustix::fs::setxattr(&self.root, name, value.as_bytes(), XattrFlags::empty())
            .map_err(|e| format!("xattr {name} of {}: {e}", self.root.display()))
    }

    fn remove(&mut self) -> Result<(), String> {
        fs::remove_dir_all(&self.root).map_err(|e| format!("removing {}: {e}", self.root.display()))
    }

    fn stop(&mut self) -> Result<(), String> {
        Ok(())
    }
}

impl Shell for Below {
    fn call(&mut self, call: &Call) -> Result<(), Wrong> {
        self.io(call).map_err(|e| Wrong { missing: e.kind() == io::ErrorKind::NotFound, text: e.to_string() })
    }
}

impl Below {
    /// The place of a path of the workload. The top itself is not to be removed or replaced.
    fn at(&self, path: &str, may_be_top: bool) -> io::Result<PathBuf> {
        let below = path.trim_start_matches('/');
        if below.is_empty() {
            return if may_be_top { Ok(self.root.clone()) } else { Err(io::ErrorKind::InvalidInput.into()) };
        }
        Ok(self.root.join(below))
    }

    fn io(&mut self, call: &Call) -> io::Result<()> {
        let may_be_top =
            matches!(call, Call::Stat(_) | Call::Open(_) | Call::Readdir(_) | Call::Chmod(..) | Call::Utimens(_));
        let path = self.at(call.path(), may_be_top)?;
        match call {
            Call::Mkdir(_) => fs::DirBuilder::new().mode(0o755).create(path),
            Call::Create(_) => {
                Ok(rustix::fs::mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o644), 0)?)
            }
            Call::Stat(_) => fs::metadata(path).map(drop),
            Call::Open(_) => self.read(&path),
            Call::Readdir(_) => {
                for entry in fs::read_dir(path)? {
                    entry?;
                }
                Ok(())
            }
            Call::Unlink(_) => fs::remove_file(path),
            Call::Rmdir(_) => fs::remove_dir(path),
            Call::Rename(_, to) => fs::rename(path, self.at(to, false)?),
            Call::Write(_, bytes) => {
                let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
                file.write_all(&vec![b'x'; *bytes as usize])
            }
            Call::Chmod(_, mode) => fs::set_permissions(path, fs::Permissions::from_mode(u32::from(*mode))),
            Call::Utimens(_) => {
                let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                let times = Timestamps { last_access: keep, last_modification: Timespec { tv_sec: 1, tv_nsec: 0 } };
                Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
            }
        }
    }

    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        self.buffer.resize(READ_BYTES, 0);
        while file.read(&mut self.buffer)? > 0 {}
        Ok(())
    }
}
