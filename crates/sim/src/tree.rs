//! A file system of names in a few lines: what the calls of the workload do to it, and what they may answer.

use std::collections::BTreeMap;

use loligo_types::{FsError, RenameMode};

/// An inode number as clients see it; 0: not seen yet.
pub type Number = u64;
/// Index of a name.
pub type NameId = u16;
/// Identity of a node in the model: the number of the call that made it.
pub type NodeId = u64;

/// A call on names or attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NsOp {
    Lookup { dir: Number, name: NameId },
    GetAttr { ino: Number },
    Readdir { dir: Number },
    Mkdir { dir: Number, name: NameId, mode: u16 },
    Create { dir: Number, name: NameId, mode: u16, exclusive: bool },
    Link { ino: Number, dir: Number, name: NameId },
    Unlink { dir: Number, name: NameId },
    Rmdir { dir: Number, name: NameId },
    Rename { dir: Number, name: NameId, to: Number, to_name: NameId, mode: RenameMode },
    Chmod { ino: Number, mode: u16 },
}

/// Result that a client was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Res {
    Done,
    /// Attributes: number, directory, mode, links.
    Entry {
        ino: Number,
        dir: bool,
        mode: u16,
        nlink: u32,
    },
    /// Target of a name, from a cache: number, directory.
    Name {
        ino: Number,
        dir: bool,
    },
    Created {
        ino: Number,
        created: bool,
    },
    List(Vec<(NameId, Number, bool)>),
    Err(FsError),
    /// Not executed, for want of room.
    Refused,
}

/// Answer of the model.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Out {
    Done,
    Entry {
        node: NodeId,
        ino: Number,
        dir: bool,
        mode: u16,
        nlink: u32,
    },
    Created {
        node: NodeId,
        ino: Number,
        created: bool,
    },
    List(Vec<(NameId, NodeId, Number, bool)>),
    /// One of these.
    Errs(Vec<FsError>),
    /// No name leads to it: absent, or an orphan that is still open.
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    pub ino: Number,
    pub dir: bool,
    pub mode: u16,
    pub nlink: u32,
    pub entries: BTreeMap<NameId, NodeId>,
    pub parent: NodeId,
}

/// A state.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    pub nodes: BTreeMap<NodeId, Node>,
}

impl Out {
    /// True if it tells of a file that is gone and whose number nobody was told: an answer with any number fits it.
    pub fn is_vague(&self, state: &State) -> bool {
        let vague = |node: &NodeId, ino: &Number| *ino == 0 && !state.nodes.contains_key(node);
        match self {
            Out::Entry { node, ino, .. } | Out::Created { node, ino, .. } => vague(node, ino),
            Out::List(entries) => entries.iter().any(|(_, node, ino, _)| vague(node, ino)),
            Out::Done | Out::Errs(_) | Out::Gone => false,
        }
    }
}

impl NsOp {
    /// True if it changes nothing.
    pub fn is_read(&self) -> bool {
        matches!(self, NsOp::Lookup { .. } | NsOp::GetAttr { .. } | NsOp::Readdir { .. })
    }

    /// True if the order of the two may matter, also in doubt.
    pub fn conflicts(&self, other: &NsOp) -> bool {
        use NsOp::{Chmod, Create, GetAttr, Link, Lookup, Mkdir, Readdir, Rename, Rmdir, Unlink};
        if matches!(self, Rename { .. } | Rmdir { .. }) || matches!(other, Rename { .. } | Rmdir { .. }) {
            return true;
        }
        let name = |op: &NsOp| match op {
            Lookup { dir, name }
            | Mkdir { dir, name, .. }
            | Create { dir, name, .. }
            | Link { dir, name, .. }
            | Unlink { dir, name } => Some((*dir, *name)),
            _ => None,
        };
        let listed = |op: &NsOp| match op {
            Readdir { dir } => Some(*dir),
            _ => None,
        };
        // Inodes whose attributes it reads or changes; `true`: which, is not known.
        let inodes = |op: &NsOp| match op {
            GetAttr { ino } | Chmod { ino, .. } => (vec![*ino], false),
            Link { ino, dir, .. } => (vec![*ino, *dir], false),
            Mkdir { dir, .. } | Create { dir, .. } => (vec![*dir], false),
            Unlink { .. } | Lookup { .. } => (Vec::new(), true),
            _ => (Vec::new(), false),
        };
        let (a, b) = (name(self), name(other));
        if a.is_some() && a == b {
            return true;
        }
        if listed(self).is_some_and(|dir| b.is_some_and(|(d, _)| d == dir))
            || listed(other).is_some_and(|dir| a.is_some_and(|(d, _)| d == dir))
        {
            return true;
        }
        let ((mine, any), (others, other_any)) = (inodes(self), inodes(other));
        let both_read = self.is_read() && other.is_read();
        mine.iter().any(|ino| others.contains(ino))
            || any && !others.is_empty()
            || other_any && !mine.is_empty()
            || any && other_any && !both_read
    }
}

impl State {
    pub fn by_ino(&self, ino: Number) -> Option<NodeId> {
        self.nodes.iter().find(|(_, node)| node.ino == ino && ino != 0).map(|(id, _)| *id)
    }

    fn dir(&self, ino: Number) -> Result<NodeId, Out> {
        match self.by_ino(ino) {
            Some(id) if self.nodes[&id].dir => Ok(id),
            Some(_) => Err(Out::Errs(vec![FsError::NotDir])),
            None => Err(Out::Errs(vec![FsError::NotFound])),
        }
    }

    fn entry(&self, id: NodeId) -> Out {
        let node = &self.nodes[&id];
        Out::Entry { node: id, ino: node.ino, dir: node.dir, mode: node.mode, nlink: node.nlink }
    }

    fn child(&self, dir: NodeId, name: NameId) -> Option<NodeId> {
        self.nodes[&dir].entries.get(&name).copied()
    }

    /// Executes; `id` names what it makes.
    pub fn run(&mut self, id: NodeId, op: &NsOp) -> Out {
        self.try_run(id, op).unwrap_or_else(|out| out)
    }

    fn try_run(&mut self, id: NodeId, op: &NsOp) -> Result<Out, Out> {
        let err = |error| Err(Out::Errs(vec![error]));
        match op {
            NsOp::Lookup { dir, name } => {
                let dir = self.dir(*dir)?;
                Ok(self.child(dir, *name).map_or(Out::Errs(vec![FsError::NotFound]), |id| self.entry(id)))
            }
            NsOp::GetAttr { ino } => Ok(self.by_ino(*ino).map_or(Out::Gone, |id| self.entry(id))),
            NsOp::Readdir { dir } => {
                let Ok(dir) = self.dir(*dir) else { return Ok(Out::Gone) };
                let entries = self.nodes[&dir].entries.iter();
                Ok(Out::List(entries.map(|(n, id)| (*n, *id, self.nodes[id].ino, self.nodes[id].dir)).collect()))
            }
            NsOp::Mkdir { dir, name, mode } => {
                let dir = self.dir(*dir)?;
                if self.child(dir, *name).is_some() {
                    return err(FsError::Exists);
                }
                self.make(id, dir, *name, true, *mode);
                Ok(self.entry(id))
            }
            NsOp::Create { dir, name, mode, exclusive } => {
                let dir = self.dir(*dir)?;
                match self.child(dir, *name) {
                    Some(_) if *exclusive => err(FsError::Exists),
                    Some(found) if self.nodes[&found].dir => err(FsError::IsDir),
                    Some(found) => Ok(Out::Created { node: found, ino: self.nodes[&found].ino, created: false }),
                    None => {
                        self.make(id, dir, *name, false, *mode);
                        Ok(Out::Created { node: id, ino: 0, created: true })
                    }
                }
            }
            NsOp::Link { ino, dir, name } => {
                let mut errs = Vec::new();
                let file = self.by_ino(*ino);
                let dir = self.dir(*dir);
                if file.is_none() || dir.is_err() {
                    errs.push(FsError::NotFound);
                }
                if let Ok(dir) = &dir
                    && self.child(*dir, *name).is_some()
                {
                    errs.push(FsError::Exists);
                }
                let (Some(file), Ok(dir), true) = (file, dir, errs.is_empty()) else { return Err(Out::Errs(errs)) };
                self.node(file).nlink += 1;
                self.node(dir).entries.insert(*name, file);
                Ok(self.entry(file))
            }
            NsOp::Unlink { dir, name } => {
                let dir = self.dir(*dir)?;
                let Some(victim) = self.child(dir, *name) else { return err(FsError::NotFound) };
                if self.nodes[&victim].dir {
                    return Err(Out::Errs(vec![FsError::IsDir, FsError::Perm]));
                }
                self.node(dir).entries.remove(name);
                self.drop_link(victim);
                Ok(Out::Done)
            }
            NsOp::Rmdir { dir, name } => {
                let dir = self.dir(*dir)?;
                let Some(victim) = self.child(dir, *name) else { return err(FsError::NotFound) };
                if !self.nodes[&victim].dir {
                    return err(FsError::NotDir);
                }
                if !self.nodes[&victim].entries.is_empty() {
                    return err(FsError::NotEmpty);
                }
                self.node(dir).entries.remove(name);
                self.node(dir).nlink -= 1;
                self.nodes.remove(&victim);
                Ok(Out::Done)
            }
            NsOp::Rename { dir, name, to, to_name, mode } => self.rename(*dir, *name, *to, *to_name, *mode),
            NsOp::Chmod { ino, mode } => {
                let Some(id) = self.by_ino(*ino) else { return Ok(Out::Gone) };
                self.node(id).mode = *mode;
                Ok(self.entry(id))
            }
        }
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("ids in entries lead to nodes")
    }

    fn make(&mut self, id: NodeId, dir: NodeId, name: NameId, is_dir: bool, mode: u16) {
        let nlink = if is_dir { 2 } else { 1 };
        self.nodes.insert(id, Node { ino: 0, dir: is_dir, mode, nlink, entries: BTreeMap::new(), parent: dir });
        let parent = self.node(dir);
        parent.entries.insert(name, id);
        parent.nlink += u32::from(is_dir);
    }

    fn drop_link(&mut self, file: NodeId) {
        let node = self.node(file);
        node.nlink -= 1;
        if node.nlink == 0 {
            self.nodes.remove(&file);
        }
    }

    /// True if `below` is `above` or under it.
    fn is_under(&self, mut below: NodeId, above: NodeId) -> bool {
        loop {
            if below == above {
                return true;
            }
            match self.nodes.get(&below) {
                Some(node) if node.parent != below => below = node.parent,
                _ => return false,
            }
        }
    }

    fn rename(&mut self, dir: Number, name: NameId, to: Number, to_name: NameId, mode: RenameMode) -> Result<Out, Out> {
        let (Ok(dir), Ok(to)) = (self.dir(dir), self.dir(to)) else {
            return Err(Out::Errs(vec![FsError::NotFound]));
        };
        let mut errs = Vec::new();
        let (source, target) = (self.child(dir, name), self.child(to, to_name));
        let exchange = mode == RenameMode::Exchange;
        if source.is_none() || exchange && target.is_none() {
            errs.push(FsError::NotFound);
        }
        if mode == RenameMode::NoReplace && target.is_some() {
            errs.push(FsError::Exists);
        }
        if source.is_some_and(|s| self.nodes[&s].dir && self.is_under(to, s)) {
            errs.push(FsError::Invalid);
        }
        if let Some(target) = target {
            if self.nodes[&target].dir && self.is_under(dir, target) {
                errs.push(if exchange { FsError::Invalid } else { FsError::NotEmpty });
            }
            if source.is_some_and(|s| s != target) && !exchange {
                let (from_dir, to_dir) = (source.is_some_and(|s| self.nodes[&s].dir), self.nodes[&target].dir);
                match (from_dir, to_dir) {
                    (true, false) => errs.push(FsError::NotDir),
                    (false, true) => errs.push(FsError::IsDir),
                    _ if !self.nodes[&target].entries.is_empty() => errs.push(FsError::NotEmpty),
                    _ => {}
                }
            }
        }
        let (Some(source), true) = (source, errs.is_empty()) else { return Err(Out::Errs(errs)) };
        if target == Some(source) {
            return Ok(Out::Done);
        }
        if exchange {
            let target = target.expect("checked above");
            self.place(source, dir, to, to_name);
            self.place(target, to, dir, name);
            return Ok(Out::Done);
        }
        if let Some(target) = target {
            if self.nodes[&target].dir {
                self.nodes.remove(&target);
                self.node(to).nlink -= 1;
            } else {
                self.drop_link(target);
            }
        }
        self.node(dir).entries.remove(&name);
        self.place(source, dir, to, to_name);
        Ok(Out::Done)
    }

    fn place(&mut self, id: NodeId, from: NodeId, to: NodeId, name: NameId) {
        self.node(to).entries.insert(name, id);
        if self.nodes[&id].dir {
            self.node(from).nlink -= 1;
            self.node(to).nlink += 1;
            self.node(id).parent = to;
        }
    }

    /// True if a client may have been told `res` when the model says `out`; then numbers seen for the first time are
    /// noted.
    pub fn accepts(&mut self, out: &Out, res: &Res) -> bool {
        match (out, res) {
            (Out::Done, Res::Done) => true,
            (Out::Errs(errs), Res::Err(error)) => errs.contains(error),
            (Out::Gone, Res::Err(FsError::NotFound)) => true,
            (Out::Gone, Res::Entry { nlink: 0, .. }) => true,
            (Out::Gone, Res::List(entries)) => entries.is_empty(),
            (Out::Entry { node, ino, dir, mode, nlink }, Res::Entry { ino: i, dir: d, mode: m, nlink: n }) => {
                dir == d && mode == m && nlink == n && self.is_number(*node, *ino, *i)
            }
            (Out::Entry { node, ino, dir, .. }, Res::Name { ino: i, dir: d }) => {
                dir == d && self.is_number(*node, *ino, *i)
            }
            (Out::Created { node, ino, created }, Res::Created { ino: i, created: c }) => {
                created == c && self.is_number(*node, *ino, *i)
            }
            (Out::List(entries), Res::List(seen)) => {
                entries.len() == seen.len()
                    && entries.iter().zip(seen).all(|(e, s)| e.0 == s.0 && e.3 == s.2 && self.is_number(e.1, e.2, s.1))
            }
            _ => false,
        }
    }

    /// True if a node may have this number.
    fn is_number(&mut self, id: NodeId, known: Number, seen: Number) -> bool {
        if known != 0 {
            return known == seen;
        }
        if self.nodes.iter().any(|(other, node)| *other != id && node.ino == seen) {
            return false;
        }
        match self.nodes.get_mut(&id) {
            Some(node) if node.ino == 0 => {
                node.ino = seen;
                true
            }
            Some(node) => node.ino == seen,
            // Removed since: its number tells nothing any more.
            None => true,
        }
    }
}
