//! Paths over a level that speaks inode numbers: what the kernel does for a mount.

use loligo_types::{
    Access, Answer, Attr, Cred, FsError, FsResult, Ino, Kind, Name, Op, RenameMode, SetAttr, XattrMode, limits,
};

use crate::level::{Level, PathFs, Stat};

/// Makes a [`PathFs`] of a [`Level`].
pub struct Walk<L>(pub L);

/// Most symlinks on one way (Linux).
const LINKS_MAX: usize = 40;

impl<L: Level> Walk<L> {
    fn attr(&mut self, who: &Cred, op: Op) -> FsResult<Attr> {
        match self.0.op(who, op)? {
            Answer::Entry(attr) => Ok(attr),
            other => panic!("an answer with attributes was due, not {other:?}"),
        }
    }

    fn lookup(&mut self, who: &Cred, dir: Ino, name: &str) -> FsResult<Attr> {
        self.attr(who, Op::Lookup { dir, name: Name::new(name.as_bytes())? })
    }

    /// The directory that holds the last name of a path, and that name (none: the path is a directory by itself).
    fn parent(&mut self, who: &Cred, path: &str) -> FsResult<(Ino, String)> {
        let mut budget = LINKS_MAX;
        let (dir, last) = self.walk(who, path, false, &mut budget)?;
        match last {
            Last::Name(name) => Ok((dir, name)),
            Last::Dir => Err(FsError::Exists),
        }
    }

    /// The file at a path.
    fn find(&mut self, who: &Cred, path: &str, follow: bool) -> FsResult<Attr> {
        let mut budget = LINKS_MAX;
        let (dir, last) = self.walk(who, path, follow, &mut budget)?;
        match last {
            Last::Name(name) => self.lookup(who, dir, &name),
            Last::Dir => self.attr(who, Op::GetAttr { ino: dir }),
        }
    }

    fn walk(&mut self, who: &Cred, path: &str, follow: bool, budget: &mut usize) -> FsResult<(Ino, Last)> {
        let mut dir = Ino::ROOT;
        let mut todo: Vec<String> = path.rsplit('/').filter(|n| !n.is_empty()).map(str::to_string).collect();
        let mut last = Last::Dir;
        while let Some(name) = todo.pop() {
            let end = todo.is_empty();
            if name == "." || name == ".." {
                if name == ".." {
                    dir = self.attr(who, Op::LookupParent { dir })?.ino;
                } else {
                    self.may_search(who, dir)?;
                }
                last = Last::Dir;
                continue;
            }
            if end && !follow {
                // The kernel looks the last name up, too, before it goes on to another path.
                self.may_search(who, dir)?;
                return Ok((dir, Last::Name(name)));
            }
            let found = match self.lookup(who, dir, &name) {
                Err(FsError::NotFound) if end => return Ok((dir, Last::Name(name))),
                other => other?,
            };
            match found.kind {
                Kind::Symlink => {
                    *budget = budget.checked_sub(1).ok_or(FsError::Loop)?;
                    let target = self.target(who, found.ino)?;
                    todo.extend(target.rsplit('/').filter(|n| !n.is_empty()).map(str::to_string));
                    last = Last::Dir;
                }
                _ if end => return Ok((dir, Last::Name(name))),
                Kind::Dir => dir = found.ino,
                _ => return Err(FsError::NotDir),
            }
        }
        Ok((dir, last))
    }

    fn may_search(&mut self, who: &Cred, dir: Ino) -> FsResult<()> {
        let want = Access { exec: true, ..Access::default() };
        self.0.op(who, Op::Access { ino: dir, want }).map(drop)
    }

    fn target(&mut self, who: &Cred, ino: Ino) -> FsResult<String> {
        match self.0.op(who, Op::Readlink { ino })? {
            Answer::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            other => panic!("a target was due, not {other:?}"),
        }
    }

    fn name(name: &str) -> FsResult<Name> {
        Name::new(name.as_bytes())
    }
}

enum Last {
    Name(String),
    Dir,
}

impl<L: Level> PathFs for Walk<L> {
    fn stat(&mut self, who: &Cred, path: &str) -> FsResult<Stat> {
        let a = self.find(who, path, false)?;
        let size = if a.kind == Kind::Dir { 0 } else { a.size };
        Ok(Stat { kind: a.kind, mode: a.mode, uid: a.uid, gid: a.gid, nlink: a.nlink, size })
    }

    fn create(&mut self, who: &Cred, path: &str, mode: u16, exclusive: bool) -> FsResult<()> {
        let mut budget = LINKS_MAX;
        let (dir, last) = self.walk(who, path, !exclusive, &mut budget)?;
        match last {
            Last::Name(name) => self.0.create(who, dir, Self::name(&name)?, mode, exclusive).map(drop),
            Last::Dir => Err(FsError::IsDir),
        }
    }

    fn write(&mut self, who: &Cred, path: &str, offset: u64, data: &[u8], cut: bool) -> FsResult<()> {
        let found = self.find(who, path, true)?;
        self.0.write(who, found.ino, offset, data, cut)
    }

    fn append(&mut self, who: &Cred, path: &str, data: &[u8]) -> FsResult<()> {
        let found = self.find(who, path, true)?;
        self.0.append(who, found.ino, data)
    }

    fn read(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let found = self.find(who, path, true)?;
        if found.kind == Kind::Dir {
            // open(O_RDONLY) of a directory succeeds if it may be read; reading it does not.
            let want = Access { read: true, ..Access::default() };
            self.0.op(who, Op::Access { ino: found.ino, want })?;
            return Err(FsError::IsDir);
        }
        self.0.read(who, found.ino)
    }

    fn truncate(&mut self, who: &Cred, path: &str, size: u64) -> FsResult<()> {
        let found = self.find(who, path, true)?;
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.attr(who, Op::SetAttr { ino: found.ino, set, handle: None }).map(drop)
    }

    fn mkdir(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        let (dir, name) = self.parent(who, path)?;
        // The kernel lets only these bits through.
        let mode = mode & 0o1777;
        self.attr(who, Op::Mkdir { dir, name: Self::name(&name)?, mode, umask: 0 }).map(drop)
    }

    fn rmdir(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        let (dir, name) = self.parent(who, path)?;
        self.0.op(who, Op::Rmdir { dir, name: Self::name(&name)? }).map(drop)
    }

    fn unlink(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        let (dir, name) = self.parent(who, path)?;
        self.0.op(who, Op::Unlink { dir, name: Self::name(&name)? }).map(drop)
    }

    fn link(&mut self, who: &Cred, old: &str, new: &str) -> FsResult<()> {
        let found = self.find(who, old, false)?;
        let (dir, name) = self.parent(who, new)?;
        self.attr(who, Op::Link { ino: found.ino, dir, name: Self::name(&name)? }).map(drop)
    }

    fn symlink(&mut self, who: &Cred, target: &str, path: &str) -> FsResult<()> {
        assert!(target.len() <= limits::SYMLINK_MAX);
        let (dir, name) = self.parent(who, path)?;
        self.attr(who, Op::Symlink { dir, name: Self::name(&name)?, target: target.as_bytes().into() }).map(drop)
    }

    fn readlink(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let found = self.find(who, path, false)?;
        match self.0.op(who, Op::Readlink { ino: found.ino })? {
            Answer::Bytes(bytes) => Ok(bytes.to_vec()),
            other => panic!("a target was due, not {other:?}"),
        }
    }

    fn rename(&mut self, who: &Cred, old: &str, new: &str, mode: RenameMode) -> FsResult<()> {
        let (dir, name) = self.parent(who, old)?;
        let (new_dir, new_name) = self.parent(who, new)?;
        let (name, new_name) = (Self::name(&name)?, Self::name(&new_name)?);
        self.0.op(who, Op::Rename { dir, name, new_dir, new_name, mode }).map(drop)
    }

    fn chmod(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        let found = self.find(who, path, true)?;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        self.attr(who, Op::SetAttr { ino: found.ino, set, handle: None }).map(drop)
    }

    fn chown(&mut self, who: &Cred, path: &str, uid: Option<u32>, gid: Option<u32>) -> FsResult<()> {
        let found = self.find(who, path, false)?;
        let set = SetAttr { uid, gid, ..SetAttr::default() };
        self.attr(who, Op::SetAttr { ino: found.ino, set, handle: None }).map(drop)
    }

    fn list(&mut self, who: &Cred, path: &str) -> FsResult<Vec<(Vec<u8>, Kind)>> {
        let found = self.find(who, path, true)?;
        if found.kind != Kind::Dir {
            return Err(FsError::NotDir);
        }
        let mut all = Vec::new();
        let mut cookie = 0;
        loop {
            // A small limit, so that cookies are used.
            let op = Op::Readdir { dir: found.ino, cookie, limit: 3, plus: false, handle: None };
            let Answer::Entries { entries, end, .. } = self.0.op(who, op)? else { panic!("entries were due") };
            cookie = entries.last().map_or(cookie, |e| e.cookie);
            all.extend(entries.into_iter().map(|e| (e.name.as_bytes().to_vec(), e.kind)));
            if end {
                break;
            }
        }
        all.sort();
        Ok(all)
    }

    fn set_xattr(&mut self, who: &Cred, path: &str, name: &str, value: &[u8], mode: XattrMode) -> FsResult<()> {
        let found = self.find(who, path, false)?;
        let op = Op::SetXattr { ino: found.ino, name: name.as_bytes().into(), value: value.into(), mode };
        self.0.op(who, op).map(drop)
    }

    fn get_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<Vec<u8>> {
        let found = self.find(who, path, false)?;
        match self.0.op(who, Op::GetXattr { ino: found.ino, name: name.as_bytes().into() })? {
            Answer::Bytes(bytes) => Ok(bytes.to_vec()),
            other => panic!("a value was due, not {other:?}"),
        }
    }

    fn remove_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<()> {
        let found = self.find(who, path, false)?;
        self.0.op(who, Op::RemoveXattr { ino: found.ino, name: name.as_bytes().into() }).map(drop)
    }
}
