//! From a path to an inode, component by component, following symbolic links.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use loligo_types::{Answer, Attr, FsError, FsResult, Ino, Kind, Name, Op, limits};

use super::{AsyncFs, bytes as answer_bytes, entry};
use crate::client::Call;

/// Most symbolic links followed in one path, as on Linux.
const LINKS_MAX: u32 = 40;
/// Longest path, bytes.
const PATH_MAX: usize = 4096;

/// Where a path leads.
pub struct Found {
    /// What is there.
    pub attr: Attr,
}

/// The bytes of a path.
pub fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The way that is left to go.
struct Way {
    left: VecDeque<Vec<u8>>,
    links: u32,
}

impl Way {
    fn new(path: &[u8]) -> FsResult<Way> {
        if path.len() >= PATH_MAX {
            return Err(FsError::NameTooLong);
        }
        let left = path.split(|b| *b == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
        Ok(Way { left, links: 0 })
    }

    /// A symbolic link stands in the way: its target comes before the rest.
    fn follow(&mut self, target: &[u8]) -> FsResult<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(FsError::Loop);
        }
        if target.is_empty() || target.len() > limits::SYMLINK_MAX {
            return Err(FsError::NotFound);
        }
        let parts: Vec<_> = target.split(|b| *b == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
        for part in parts.into_iter().rev() {
            self.left.push_front(part);
        }
        Ok(())
    }
}

impl AsyncFs {
    /// Goes a path to its end. `follow`: also a symbolic link at the end.
    pub(super) async fn walk(&self, path: &Path, follow: bool) -> FsResult<Found> {
        let raw = bytes(path);
        let wants_dir = raw.ends_with(b"/") || raw.ends_with(b"/.");
        let mut way = Way::new(raw)?;
        let mut at = self.root().await?;
        while let Some(part) = way.left.pop_front() {
            let next = self.step(&at, &part).await?;
            let last = way.left.is_empty();
            if next.kind == Kind::Symlink && (!last || follow || wants_dir) {
                at = self.enter_link(&mut way, at, next.ino).await?;
            } else {
                at = next;
            }
        }
        if wants_dir && at.kind != Kind::Dir {
            return Err(FsError::NotDir);
        }
        Ok(Found { attr: at })
    }

    /// Goes to the directory in which a path's last name is, or is to be. `follow`: if the name is a symbolic link, to
    /// where that leads.
    pub(super) async fn place(&self, path: &Path, follow: bool) -> FsResult<(Ino, Name)> {
        let mut way = Way::new(bytes(path))?;
        let mut at = self.root().await?;
        while let Some(part) = way.left.pop_front() {
            let last = way.left.is_empty();
            if last && !follow {
                return self.name_in(&at, &part);
            }
            let next = match self.step(&at, &part).await {
                Err(FsError::NotFound) if last => return self.name_in(&at, &part),
                other => other?,
            };
            if next.kind == Kind::Symlink {
                at = self.enter_link(&mut way, at, next.ino).await?;
            } else if last {
                return self.name_in(&at, &part);
            } else {
                at = next;
            }
        }
        // The path is the root, or leads there.
        Err(FsError::Exists)
    }

    fn name_in(&self, dir: &Attr, part: &[u8]) -> FsResult<(Ino, Name)> {
        if dir.kind != Kind::Dir {
            return Err(FsError::NotDir);
        }
        Ok((dir.ino, Name::new(part)?))
    }

    async fn root(&self) -> FsResult<Attr> {
        entry(self.call(Call::GetAttr { ino: Ino::ROOT }).await?.answer)
    }

    async fn step(&self, at: &Attr, part: &[u8]) -> FsResult<Attr> {
        if at.kind != Kind::Dir {
            return Err(FsError::NotDir);
        }
        let answer: Answer = match part {
            b"." => return Ok(*at),
            b".." => self.op(Op::LookupParent { dir: at.ino }).await?,
            name => self.op(Op::Lookup { dir: at.ino, name: Name::new(name)? }).await?,
        };
        entry(answer)
    }

    /// Where to go on after a symbolic link in the directory `at`.
    async fn enter_link(&self, way: &mut Way, at: Attr, link: Ino) -> FsResult<Attr> {
        let target = answer_bytes(self.op(Op::Readlink { ino: link }).await?)?;
        way.follow(&target)?;
        if target.starts_with(b"/") { self.root().await } else { Ok(at) }
    }
}
