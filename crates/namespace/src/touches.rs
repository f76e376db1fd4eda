//! Inodes and directories that an operation would change or look at, for the recall of leases before it is decided. Those of each
//! operation are in `op`.

use std::ops::Deref;

use loligo_types::{Ino, Inode, Kind, OpenFlags};

use crate::tree::Tree;

/// A short list of inodes without a heap block for up to four.
#[derive(Clone, Debug, Default)]
pub struct Inos {
    few: [Ino; 4],
    len: u8,
    many: Vec<Ino>,
}

impl Inos {
    /// Adds one, once.
    pub fn add(&mut self, ino: Ino) {
        if self.contains(&ino) {
            return;
        }
        if self.many.is_empty() && usize::from(self.len) < self.few.len() {
            self.few[usize::from(self.len)] = ino;
            self.len += 1;
            return;
        }
        if self.many.is_empty() {
            self.many = self.few.to_vec();
        }
        self.many.push(ino);
    }
}

impl From<Vec<Ino>> for Inos {
    fn from(many: Vec<Ino>) -> Inos {
        Inos { many, ..Inos::default() }
    }
}

impl Deref for Inos {
    type Target = [Ino];
    fn deref(&self) -> &[Ino] {
        if self.many.is_empty() { &self.few[..usize::from(self.len)] } else { &self.many }
    }
}

/// Inodes that an operation touches. Never too few; sometimes more than it turns out to.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    /// Inodes whose attributes, xattrs or target change: recall ATTR.
    pub attr: Inos,
    /// Directories whose entries change: recall NAMES.
    pub names: Inos,
    /// Inodes whose size or times the answer tells, or whose data is read: a holder of BUFFER must flush first.
    pub reads: Inos,
}

impl Touch {
    pub(crate) fn dir(&mut self, dir: Ino) {
        self.attr.add(dir);
        self.names.add(dir);
    }

    /// Changes an inode and answers its attributes.
    pub(crate) fn both(&mut self, ino: Ino) {
        self.attr.add(ino);
        self.reads.add(ino);
    }

    /// Opens an inode.
    pub(crate) fn open(&mut self, tree: &Tree, ino: Ino, flags: OpenFlags) {
        self.reads.add(ino);
        // Of clients that are not believed an open for writing ends privileges.
        let may_have_some = |inode: &Inode| inode.kind == Kind::File && (inode.mode & 0o6000 != 0 || inode.has_xattrs);
        if flags.truncate || flags.write && tree.inode(ino).is_some_and(may_have_some) {
            self.attr.add(ino);
        }
    }
}
