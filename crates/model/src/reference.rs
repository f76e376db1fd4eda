//! The model: nodes in a map, rules as Linux documents and does them. Slow and plain on purpose.

use std::collections::BTreeMap;

use loligo_types::{Cred, FsError, FsResult, Kind, RenameMode, XattrMode};

use crate::level::{PathFs, Stat};

const R: u16 = 4;
const W: u16 = 2;
const X: u16 = 1;
const ROOT: u64 = 1;

#[derive(Clone)]
struct Node {
    kind: Kind,
    mode: u16,
    uid: u32,
    gid: u32,
    nlink: u32,
    data: Vec<u8>,
    children: BTreeMap<String, u64>,
    parent: u64,
    xattrs: BTreeMap<String, Vec<u8>>,
}

/// The reference.
pub struct Reference {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    protected_hardlinks: bool,
}

/// Where a path leads: the directory of its last name and the name; or a directory by itself (`.`, `..`, "").
enum Place {
    In(u64, String),
    Dir(u64),
}

impl Default for Reference {
    fn default() -> Self {
        Reference::new()
    }
}

impl Reference {
    /// An empty root of mode 0777.
    pub fn new() -> Reference {
        let root = Node {
            kind: Kind::Dir,
            mode: 0o777,
            uid: 0,
            gid: 0,
            nlink: 2,
            data: Vec::new(),
            children: BTreeMap::new(),
            parent: ROOT,
            xattrs: BTreeMap::new(),
        };
        Reference { nodes: BTreeMap::from([(ROOT, root)]), next: 2, protected_hardlinks: false }
    }

    /// As a kernel with `fs.protected_hardlinks` does it.
    #[must_use]
    pub fn with_protected_hardlinks(mut self, on: bool) -> Reference {
        self.protected_hardlinks = on;
        self
    }

    fn node(&self, ino: u64) -> &Node {
        &self.nodes[&ino]
    }

    fn node_mut(&mut self, ino: u64) -> &mut Node {
        self.nodes.get_mut(&ino).expect("names lead to nodes only")
    }

    fn allowed(&self, who: &Cred, ino: u64, want: u16) -> bool {
        let n = self.node(ino);
        if who.is_root() {
            return want & X == 0 || n.kind == Kind::Dir || n.mode & 0o111 != 0;
        }
        let shift = if who.uid == n.uid {
            6
        } else if who.in_group(n.gid) {
            3
        } else {
            0
        };
        (n.mode >> shift) & want == want
    }

    fn need(&self, who: &Cred, ino: u64, want: u16) -> FsResult<()> {
        if self.allowed(who, ino, want) { Ok(()) } else { Err(FsError::Access) }
    }

    fn walk(&self, who: &Cred, path: &str, follow: bool) -> FsResult<Place> {
        let mut todo: Vec<String> = path.rsplit('/').filter(|n| !n.is_empty()).map(str::to_string).collect();
        let (mut dir, mut links) = (ROOT, 0);
        while let Some(name) = todo.pop() {
            self.need(who, dir, X)?;
            if name == "." {
                continue;
            }
            if name == ".." {
                dir = self.node(dir).parent;
                continue;
            }
            let end = todo.is_empty();
            let Some(found) = self.node(dir).children.get(&name).copied() else {
                return if end { Ok(Place::In(dir, name)) } else { Err(FsError::NotFound) };
            };
            match self.node(found).kind {
                Kind::Symlink if !end || follow => {
                    links += 1;
                    if links > 40 {
                        return Err(FsError::Loop);
                    }
                    let target = String::from_utf8_lossy(&self.node(found).data).into_owned();
                    todo.extend(target.rsplit('/').filter(|n| !n.is_empty()).map(str::to_string));
                }
                _ if end => return Ok(Place::In(dir, name)),
                Kind::Dir => dir = found,
                _ => return Err(FsError::NotDir),
            }
        }
        Ok(Place::Dir(dir))
    }

    fn find(&self, who: &Cred, path: &str, follow: bool) -> FsResult<u64> {
        match self.walk(who, path, follow)? {
            Place::Dir(ino) => Ok(ino),
            Place::In(dir, name) => self.node(dir).children.get(&name).copied().ok_or(FsError::NotFound),
        }
    }

    /// Directory, name and what has the name now.
    fn spot(&self, who: &Cred, path: &str) -> FsResult<(u64, String, Option<u64>)> {
        match self.walk(who, path, false)? {
            Place::In(dir, name) => {
                let found = self.node(dir).children.get(&name).copied();
                Ok((dir, name, found))
            }
            Place::Dir(_) => Err(FsError::Exists),
        }
    }

    fn may_make(&self, who: &Cred, path: &str) -> FsResult<(u64, String)> {
        let (dir, name, found) = self.spot(who, path)?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        self.need(who, dir, W | X)?;
        Ok((dir, name))
    }

    fn make(&mut self, who: &Cred, dir: u64, name: String, kind: Kind, mode: u16, data: Vec<u8>) {
        let parent = self.node(dir);
        let inherit = parent.mode & 0o2000 != 0;
        let gid = if inherit { parent.gid } else { who.gid };
        let mut mode = mode;
        if inherit && kind == Kind::Dir {
            mode |= 0o2000;
        } else if inherit && mode & 0o2010 == 0o2010 && !who.is_root() && !who.in_group(gid) {
            mode &= !0o2000;
        }
        let ino = self.next;
        self.next += 1;
        let nlink = if kind == Kind::Dir { 2 } else { 1 };
        let node = Node {
            kind,
            mode,
            uid: who.uid,
            gid,
            nlink,
            data,
            children: BTreeMap::new(),
            parent: dir,
            xattrs: BTreeMap::new(),
        };
        self.nodes.insert(ino, node);
        let parent = self.node_mut(dir);
        parent.children.insert(name, ino);
        if kind == Kind::Dir {
            parent.nlink += 1;
        }
    }

    /// `may_delete` of Linux: permission first, then the type.
    fn may_delete(&self, who: &Cred, dir: u64, victim: u64, as_dir: bool) -> FsResult<()> {
        self.need(who, dir, W | X)?;
        match (as_dir, self.node(victim).kind == Kind::Dir) {
            (true, false) => Err(FsError::NotDir),
            (false, true) => Err(FsError::IsDir),
            _ => Ok(()),
        }
    }

    fn drop_link(&mut self, ino: u64) {
        let node = self.node_mut(ino);
        node.nlink = if node.kind == Kind::Dir { 0 } else { node.nlink - 1 };
        if node.nlink == 0 {
            self.nodes.remove(&ino);
        }
    }

    /// Ends setuid and setgid at a write or truncation by somebody without privilege.
    fn kill_priv(&mut self, who: &Cred, ino: u64) {
        if who.is_root() {
            return;
        }
        let node = self.node_mut(ino);
        node.mode &= !0o4000;
        if node.mode & 0o2000 != 0 && (node.mode & 0o10 != 0 || !who.in_group(node.gid)) {
            node.mode &= !0o2000;
        }
    }

    fn open_for_write(&self, who: &Cred, path: &str) -> FsResult<u64> {
        let ino = self.find(who, path, true)?;
        if self.node(ino).kind == Kind::Dir {
            return Err(FsError::IsDir);
        }
        self.need(who, ino, W)?;
        Ok(ino)
    }

    fn put(&mut self, who: &Cred, ino: u64, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.kill_priv(who, ino);
        let content = &mut self.node_mut(ino).data;
        let (start, end) = (offset as usize, offset as usize + data.len());
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(data);
    }

    fn is_below(&self, mut ino: u64, ancestor: u64) -> bool {
        loop {
            if ino == ancestor {
                return true;
            }
            if ino == ROOT {
                return false;
            }
            ino = self.node(ino).parent;
        }
    }

    fn xattr_allowed(&self, who: &Cred, ino: u64, name: &str, write: bool) -> FsResult<()> {
        let refused = if write { FsError::Perm } else { FsError::NoData };
        if name.starts_with("trusted.") {
            return if who.is_root() { Ok(()) } else { Err(refused) };
        }
        if !matches!(self.node(ino).kind, Kind::File | Kind::Dir) {
            return Err(refused);
        }
        self.need(who, ino, if write { W } else { R })
    }

    fn move_dir(&mut self, ino: u64, from: u64, to: u64) {
        if self.node(ino).kind == Kind::Dir && from != to {
            self.node_mut(ino).parent = to;
            self.node_mut(from).nlink -= 1;
            self.node_mut(to).nlink += 1;
        }
    }
}

impl PathFs for Reference {
    fn stat(&mut self, who: &Cred, path: &str) -> FsResult<Stat> {
        let n = self.node(self.find(who, path, false)?);
        let size = if n.kind == Kind::Dir { 0 } else { n.data.len() as u64 };
        Ok(Stat { kind: n.kind, mode: n.mode, uid: n.uid, gid: n.gid, nlink: n.nlink, size })
    }

    fn create(&mut self, who: &Cred, path: &str, mode: u16, exclusive: bool) -> FsResult<()> {
        let (dir, name) = match self.walk(who, path, !exclusive)? {
            Place::In(dir, name) => (dir, name),
            Place::Dir(_) => return Err(if exclusive { FsError::Exists } else { FsError::IsDir }),
        };
        match self.node(dir).children.get(&name).copied() {
            Some(_) if exclusive => Err(FsError::Exists),
            Some(ino) if self.node(ino).kind == Kind::Dir => Err(FsError::IsDir),
            Some(ino) => self.need(who, ino, R),
            None => {
                self.need(who, dir, W | X)?;
                self.make(who, dir, name, Kind::File, mode, Vec::new());
                Ok(())
            }
        }
    }

    fn write(&mut self, who: &Cred, path: &str, offset: u64, data: &[u8], cut: bool) -> FsResult<()> {
        let ino = self.open_for_write(who, path)?;
        if cut {
            self.kill_priv(who, ino);
            self.node_mut(ino).data.clear();
        }
        self.put(who, ino, offset, data);
        Ok(())
    }

    fn append(&mut self, who: &Cred, path: &str, data: &[u8]) -> FsResult<()> {
        let ino = self.open_for_write(who, path)?;
        let end = self.node(ino).data.len() as u64;
        self.put(who, ino, end, data);
        Ok(())
    }

    fn read(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let ino = self.find(who, path, true)?;
        self.need(who, ino, R)?;
        if self.node(ino).kind == Kind::Dir {
            return Err(FsError::IsDir);
        }
        Ok(self.node(ino).data.clone())
    }

    fn truncate(&mut self, who: &Cred, path: &str, size: u64) -> FsResult<()> {
        let ino = self.open_for_write(who, path)?;
        self.kill_priv(who, ino);
        self.node_mut(ino).data.resize(size as usize, 0);
        Ok(())
    }

    fn mkdir(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        let (dir, name) = self.may_make(who, path)?;
        self.make(who, dir, name, Kind::Dir, mode & 0o1777, Vec::new());
        Ok(())
    }

    fn rmdir(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        let (dir, name, found) = self.spot(who, path)?;
        let ino = found.ok_or(FsError::NotFound)?;
        self.may_delete(who, dir, ino, true)?;
        if !self.node(ino).children.is_empty() {
            return Err(FsError::NotEmpty);
        }
        let parent = self.node_mut(dir);
        parent.children.remove(&name);
        parent.nlink -= 1;
        self.drop_link(ino);
        Ok(())
    }

    fn unlink(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        let (dir, name, found) = self.spot(who, path)?;
        let ino = found.ok_or(FsError::NotFound)?;
        self.may_delete(who, dir, ino, false)?;
        self.node_mut(dir).children.remove(&name);
        self.drop_link(ino);
        Ok(())
    }

    fn link(&mut self, who: &Cred, old: &str, new: &str) -> FsResult<()> {
        let ino = self.find(who, old, false)?;
        let (dir, name, found) = self.spot(who, new)?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        let n = self.node(ino);
        let special = n.mode & 0o4000 != 0 || n.mode & 0o2010 == 0o2010;
        let safe = n.kind == Kind::File && !special && self.allowed(who, ino, R | W);
        if self.protected_hardlinks && !who.is_root() && who.uid != n.uid && !safe {
            return Err(FsError::Perm);
        }
        self.need(who, dir, W | X)?;
        if self.node(ino).kind == Kind::Dir {
            return Err(FsError::Perm);
        }
        self.node_mut(ino).nlink += 1;
        self.node_mut(dir).children.insert(name, ino);
        Ok(())
    }

    fn symlink(&mut self, who: &Cred, target: &str, path: &str) -> FsResult<()> {
        let (dir, name) = self.may_make(who, path)?;
        self.make(who, dir, name, Kind::Symlink, 0o777, target.as_bytes().to_vec());
        Ok(())
    }

    fn readlink(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let ino = self.find(who, path, false)?;
        let n = self.node(ino);
        if n.kind == Kind::Symlink { Ok(n.data.clone()) } else { Err(FsError::Invalid) }
    }

    fn rename(&mut self, who: &Cred, old: &str, new: &str, mode: RenameMode) -> FsResult<()> {
        let (from, name, source) = self.spot(who, old)?;
        let (to, new_name, target) = self.spot(who, new)?;
        let source = source.ok_or(FsError::NotFound)?;
        let swap = mode == RenameMode::Exchange;
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound),
            _ => {}
        }
        if self.node(source).kind == Kind::Dir && from != to && self.is_below(to, source) {
            return Err(FsError::Invalid);
        }
        if let Some(t) = target {
            if self.node(t).kind == Kind::Dir && from != to && self.is_below(from, t) {
                return Err(if swap { FsError::Invalid } else { FsError::NotEmpty });
            }
            if t == source {
                return Ok(());
            }
        }
        let source_is_dir = self.node(source).kind == Kind::Dir;
        self.may_delete(who, from, source, source_is_dir)?;
        match target {
            None => self.need(who, to, W | X)?,
            Some(t) if swap => self.may_delete(who, to, t, self.node(t).kind == Kind::Dir)?,
            Some(t) => self.may_delete(who, to, t, source_is_dir)?,
        }
        if from != to {
            if source_is_dir {
                self.need(who, source, W)?;
            }
            if let Some(t) = target.filter(|t| swap && self.node(*t).kind == Kind::Dir) {
                self.need(who, t, W)?;
            }
        }
        if let Some(t) = target.filter(|_| !swap) {
            if !self.node(t).children.is_empty() {
                return Err(FsError::NotEmpty);
            }
            if self.node(t).kind == Kind::Dir {
                self.node_mut(to).nlink -= 1;
            }
            self.drop_link(t);
        }
        self.node_mut(from).children.remove(&name);
        self.node_mut(to).children.insert(new_name, source);
        self.move_dir(source, from, to);
        if let Some(t) = target.filter(|_| swap) {
            self.node_mut(from).children.insert(name, t);
            self.move_dir(t, to, from);
        }
        Ok(())
    }

    fn chmod(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        let ino = self.find(who, path, true)?;
        let node = self.node_mut(ino);
        if !who.is_root() && who.uid != node.uid {
            return Err(FsError::Perm);
        }
        node.mode = mode;
        if !who.is_root() && !who.in_group(node.gid) {
            node.mode &= !0o2000;
        }
        Ok(())
    }

    fn chown(&mut self, who: &Cred, path: &str, uid: Option<u32>, gid: Option<u32>) -> FsResult<()> {
        let ino = self.find(who, path, false)?;
        let node = self.node_mut(ino);
        let owner = who.uid == node.uid;
        let uid_ok = uid.is_none_or(|u| who.is_root() || (owner && u == node.uid));
        let gid_ok = gid.is_none_or(|g| who.is_root() || (owner && (who.in_group(g) || g == node.gid)));
        if !uid_ok || !gid_ok {
            return Err(FsError::Perm);
        }
        if node.kind != Kind::Dir {
            let group = node.gid;
            node.mode &= !0o4000;
            if node.mode & 0o10 != 0 || !(who.is_root() || who.in_group(group)) {
                node.mode &= !0o2000;
            }
        }
        node.uid = uid.unwrap_or(node.uid);
        node.gid = gid.unwrap_or(node.gid);
        Ok(())
    }

    fn list(&mut self, who: &Cred, path: &str) -> FsResult<Vec<(Vec<u8>, Kind)>> {
        let ino = self.find(who, path, true)?;
        if self.node(ino).kind != Kind::Dir {
            return Err(FsError::NotDir);
        }
        self.need(who, ino, R)?;
        Ok(self.node(ino).children.iter().map(|(n, i)| (n.as_bytes().to_vec(), self.node(*i).kind)).collect())
    }

    fn set_xattr(&mut self, who: &Cred, path: &str, name: &str, value: &[u8], mode: XattrMode) -> FsResult<()> {
        let ino = self.find(who, path, false)?;
        self.xattr_allowed(who, ino, name, true)?;
        let xattrs = &mut self.node_mut(ino).xattrs;
        match (mode, xattrs.contains_key(name)) {
            (XattrMode::Create, true) => Err(FsError::Exists),
            (XattrMode::Replace, false) => Err(FsError::NoData),
            _ => {
                xattrs.insert(name.to_string(), value.to_vec());
                Ok(())
            }
        }
    }

    fn get_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<Vec<u8>> {
        let ino = self.find(who, path, false)?;
        self.xattr_allowed(who, ino, name, false)?;
        self.node(ino).xattrs.get(name).cloned().ok_or(FsError::NoData)
    }

    fn remove_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<()> {
        let ino = self.find(who, path, false)?;
        self.xattr_allowed(who, ino, name, true)?;
        self.node_mut(ino).xattrs.remove(name).map(drop).ok_or(FsError::NoData)
    }
}
