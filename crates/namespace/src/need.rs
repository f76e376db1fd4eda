//! Which records an operation must have in memory before it can be decided. Decides nothing.

pub use loligo_types::Need;
use loligo_types::{Cred, Ino, Inode, Name, Op, Target, limits};

use crate::op;
use crate::tree::{Found, Lookup, Tree};

/// Records that must be loaded before [`crate::prepare`] can decide the operation; empty: it can now. Ask again after
/// the loads: what they brought may point to more.
pub fn need(tree: &Tree, op: &Op, cred: &Cred) -> Vec<Need> {
    let mut wants = Wants { tree, list: Vec::new() };
    op::need(&mut wants, op, cred);
    wants.list
}

/// Collects what is missing.
pub(crate) struct Wants<'a> {
    pub tree: &'a Tree,
    pub list: Vec<Need>,
}

impl<'a> Wants<'a> {
    /// Wants an inode; gives it if it is here. A part of it is not enough.
    pub fn inode(&mut self, ino: Ino) -> Option<&'a Inode> {
        match self.tree.find(ino) {
            Found::Here(inode) if inode.part_of().is_some() => self.add(Need::Inode(ino)),
            Found::Here(inode) => return Some(inode),
            Found::Unknown if ino.0 != 0 => self.add(Need::Inode(ino)),
            _ => {}
        }
        None
    }

    /// Wants an inode with all its parts.
    pub fn whole(&mut self, ino: Ino) -> Option<&'a Inode> {
        let inode = self.inode(ino)?;
        if inode.is_spread() && !self.tree.is_whole(ino) {
            self.add(Need::Parts(ino));
            return None;
        }
        Some(inode)
    }

    /// Wants a directory for the sake of its names: this rank's part of it will do.
    pub fn dir(&mut self, ino: Ino) -> Option<&'a Inode> {
        match self.tree.find(ino) {
            Found::Here(inode) => return Some(inode),
            Found::Unknown if ino.0 != 0 => self.add(Need::Inode(ino)),
            _ => {}
        }
        None
    }

    /// Wants a directory and a name in it; gives the entry if it is here.
    pub fn entry(&mut self, dir: Ino, name: &Name) -> Option<Target> {
        self.dir(dir);
        match self.tree.entry(dir, name) {
            Lookup::Present(target) => return Some(target),
            Lookup::Unknown => self.add(Need::Entry { dir, name: name.clone() }),
            Lookup::Absent => {}
        }
        None
    }

    /// Wants a name and the inode it points to.
    pub fn target(&mut self, dir: Ino, name: &Name) -> Option<&'a Inode> {
        let target = self.entry(dir, name)?;
        self.whole(target.ino)
    }

    /// Wants all xattrs.
    pub fn xattrs(&mut self, inode: &Inode) {
        if !self.tree.xattrs_known(inode) {
            self.add(Need::Xattrs(inode.ino));
        }
    }

    /// Wants the inline data.
    pub fn inline(&mut self, inode: &Inode) {
        if self.tree.inline(inode).is_none() {
            self.add(Need::Inline(inode.ino));
        }
    }

    /// Wants the directory that counts an inode.
    pub fn counter(&mut self, inode: &Inode) {
        self.dir(inode.parent);
    }

    /// Wants to know the primary name of an inode.
    pub fn primary(&mut self, inode: &Inode) {
        if let Some(hash) = inode.place.hash()
            && self.dir(inode.parent).is_some()
            && !self.tree.primary_known(inode)
        {
            self.add(Need::Range { dir: inode.parent, from_hash: hash });
        }
    }

    /// Wants all directories above one, itself included.
    pub fn ancestors(&mut self, dir: Ino) {
        let mut at = dir;
        for _ in 0..limits::DEPTH_MAX {
            match self.dir(at) {
                Some(inode) if at != Ino::ROOT && inode.parent.0 != 0 => at = inode.parent,
                _ => return,
            }
        }
    }

    /// Adds one thing, once.
    pub fn add(&mut self, need: Need) {
        if !self.list.contains(&need) {
            self.list.push(need);
        }
    }
}
