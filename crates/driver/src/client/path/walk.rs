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

/// Somewhere on the way.
type Place = (Ino, Kind);

/// Where every path begins.
const ROOT: Place = (Ino::ROOT, Kind::Dir);

/// Where one component leads.
enum Next {
    /// Nowhere else.
    Same,
    /// There.
    Found(Attr),
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
    pub(super) async fn walk(&self, path: &Path, follow: bool) -> FsResult<Attr> {
        let raw = bytes(path);
        let wants_dir = raw.ends_with(b"/") || raw.ends_with(b"/.");
        let mut way = Way::new(raw)?;
        let mut at = ROOT;
        let mut found = None;
        while let Some(part) = way.left.pop_front() {
            let next = self.step(at, &part).await?;
            let last = way.left.is_empty();
            found = None;
            match next {
                Next::Same => {}
                Next::Found(attr) if attr.kind == Kind::Symlink && (!last || follow || wants_dir) => {
                    at = self.enter_link(&mut way, at, attr.ino).await?;
                }
                Next::Found(attr) => (at, found) = ((attr.ino, attr.kind), Some(attr)),
            }
        }
        if wants_dir && at.1 != Kind::Dir {
            return Err(FsError::NotDir);
        }
        match found {
            Some(attr) => Ok(attr),
            None => entry(self.call(Call::GetAttr { ino: at.0 }).await?.answer),
        }
    }

    /// Goes to the directory in which a path's last name is, or is to be. `follow`: if the name is a symbolic link, to
    /// where that leads.
    pub(super) async fn place(&self, path: &Path, follow: bool) -> FsResult<(Ino, Name)> {
        let mut way = Way::new(bytes(path))?;
        let mut at = ROOT;
        while let Some(part) = way.left.pop_front() {
            let last = way.left.is_empty();
            if last && !follow {
                return name_in(at, &part);
            }
            match self.step(at, &part).await {
                Err(FsError::NotFound) if last => return name_in(at, &part),
                Err(error) => return Err(error),
                Ok(Next::Found(attr)) if attr.kind == Kind::Symlink => {
                    at = self.enter_link(&mut way, at, attr.ino).await?;
                }
                Ok(_) if last => return name_in(at, &part),
                Ok(Next::Found(attr)) => at = (attr.ino, attr.kind),
                Ok(Next::Same) => {}
            }
        }
        // The path is the root, or leads there.
        Err(FsError::Exists)
    }

    async fn step(&self, at: Place, part: &[u8]) -> FsResult<Next> {
        if at.1 != Kind::Dir {
            return Err(FsError::NotDir);
        }
        let answer: Answer = match part {
            b"." => return Ok(Next::Same),
            b".." => self.op(Op::LookupParent { dir: at.0 }).await?,
            name => self.op(Op::Lookup { dir: at.0, name: Name::new(name)? }).await?,
        };
        entry(answer).map(Next::Found)
    }

    /// Where to go on after a symbolic link in the directory `at`.
    async fn enter_link(&self, way: &mut Way, at: Place, link: Ino) -> FsResult<Place> {
        let target = answer_bytes(self.op(Op::Readlink { ino: link }).await?)?;
        way.follow(&target)?;
        if target.starts_with(b"/") { Ok(ROOT) } else { Ok(at) }
    }
}

fn name_in(dir: Place, part: &[u8]) -> FsResult<(Ino, Name)> {
    if dir.1 != Kind::Dir {
        return Err(FsError::NotDir);
    }
    Ok((dir.0, Name::new(part)?))
}
