//! Paths in a decoupled subtree: from its root, with or without a leading `/`. Symbolic links are not followed: they may lead out of it.

use std::path::Path;
use std::sync::Arc;

use loligo_types::{
    Answer, Attr, DirEntry, FsError, FsResult, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr, SetTime,
};

use super::Subtree;
use crate::client::path::{READDIR_BATCH, bytes_of};

/// Handle of files that are open here; the rank does not know them.
const HANDLE: u64 = 0;

impl Subtree {
    /// The attributes of what is at a path; of its root with an empty one.
    pub fn stat(&mut self, path: impl AsRef<Path>) -> FsResult<Attr> {
        let mut at = attr(self.op(&Op::GetAttr { ino: self.root() })?)?;
        for part in parts(path.as_ref())? {
            at = attr(self.op(&Op::Lookup { dir: at.ino, name: part })?)?;
        }
        Ok(at)
    }

    /// The directory that a path names something in, and the name.
    fn place(&mut self, path: &Path) -> FsResult<(Ino, Name)> {
        let mut way = parts(path)?;
        let name = way.pop().ok_or(FsError::Exists)?;
        let mut dir = self.root();
        for part in way {
            let found = attr(self.op(&Op::Lookup { dir, name: part })?)?;
            if found.kind != Kind::Dir {
                return Err(FsError::NotDir);
            }
            dir = found.ino;
        }
        Ok((dir, name))
    }

    /// Makes a directory.
    pub fn mkdir(&mut self, path: impl AsRef<Path>, mode: u16) -> FsResult<Attr> {
        let (dir, name) = self.place(path.as_ref())?;
        attr(self.op(&Op::Mkdir { dir, name, mode, umask: self.umask })?)
    }

    /// Makes a file, which must not be there.
    pub fn create(&mut self, path: impl AsRef<Path>, mode: u16) -> FsResult<Attr> {
        let (dir, name) = self.place(path.as_ref())?;
        self.create_in(dir, name, mode)
    }

    /// The same in a directory that is known by its number: nothing is looked up.
    pub fn create_in(&mut self, dir: Ino, name: Name, mode: u16) -> FsResult<Attr> {
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let op = Op::Create { dir, name, mode, umask: self.umask, flags, exclusive: true, handle: HANDLE };
        attr(self.op(&op)?)
    }

    /// Makes a file of this content, or gives one that is there this content. `FileTooBig` if it is more than is held in an inode.
    pub fn write(&mut self, path: impl AsRef<Path>, content: impl Into<Arc<[u8]>>) -> FsResult<()> {
        let (dir, name) = self.place(path.as_ref())?;
        let flags = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
        let op = Op::Create { dir, name, mode: 0o666, umask: self.umask, flags, exclusive: false, handle: HANDLE };
        let ino = attr(self.op(&op)?)?.ino;
        let data: Arc<[u8]> = content.into();
        if data.is_empty() {
            return Ok(());
        }
        let op = Op::WriteInline { ino, handle: HANDLE, offset: Some(0), data, mtime: SetTime::Now, kill_priv: true };
        match self.op(&op) {
            Err(FsError::Busy) => Err(FsError::FileTooBig),
            result => result.map(drop),
        }
    }

    /// The content of a file.
    pub fn read(&mut self, path: impl AsRef<Path>) -> FsResult<Arc<[u8]>> {
        let found = self.stat(path)?;
        if found.kind == Kind::Dir {
            return Err(FsError::IsDir);
        }
        match self.op(&Op::ReadInline { ino: found.ino, handle: HANDLE })? {
            Answer::Bytes(bytes) => Ok(bytes),
            _ => Err(FsError::Io),
        }
    }

    /// Makes a symbolic link.
    pub fn symlink(&mut self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> FsResult<Attr> {
        let (dir, name) = self.place(path.as_ref())?;
        attr(self.op(&Op::Symlink { dir, name, target: bytes_of(target.as_ref()).into() })?)
    }

    /// Takes a name of anything but a directory away.
    pub fn unlink(&mut self, path: impl AsRef<Path>) -> FsResult<()> {
        let (dir, name) = self.place(path.as_ref())?;
        self.op(&Op::Unlink { dir, name }).map(drop)
    }

    /// Takes an empty directory away.
    pub fn rmdir(&mut self, path: impl AsRef<Path>) -> FsResult<()> {
        let (dir, name) = self.place(path.as_ref())?;
        self.op(&Op::Rmdir { dir, name }).map(drop)
    }

    /// Renames, replacing what has the new name.
    pub fn rename(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> FsResult<()> {
        let (dir, name) = self.place(from.as_ref())?;
        let (new_dir, new_name) = self.place(to.as_ref())?;
        self.op(&Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace }).map(drop)
    }

    /// Changes attributes.
    pub fn set_attr(&mut self, path: impl AsRef<Path>, set: SetAttr) -> FsResult<Attr> {
        let ino = self.stat(path)?.ino;
        attr(self.op(&Op::SetAttr { ino, set, handle: None })?)
    }

    /// All entries of a directory, in no order that means anything, without `.` and `..`.
    pub fn readdir(&mut self, path: impl AsRef<Path>) -> FsResult<Vec<DirEntry>> {
        let dir = self.stat(path)?.ino;
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let op = Op::Readdir { dir, cookie, limit: READDIR_BATCH, plus: false, handle: None };
            let Answer::Entries { entries, next, end } = self.op(&op)? else { return Err(FsError::Io) };
            all.extend(entries);
            if end || next <= cookie {
                return Ok(all);
            }
            cookie = next;
        }
    }
}

fn attr(answer: Answer) -> FsResult<Attr> {
    answer.attr().copied().ok_or(FsError::Io)
}

fn parts(path: &Path) -> FsResult<Vec<Name>> {
    let parts = bytes_of(path).split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| Name::new(part).map_err(|_| FsError::Invalid)).collect()
}
