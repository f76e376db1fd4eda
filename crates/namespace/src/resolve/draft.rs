//! Statements of the owner of a subtree in the parts of its journal, taken together: of each name, inode, xattr and inline data the last
//! state, and of inodes that were there before also the first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::{Event, Ino, Inode, Kind, Name};

/// An inode that was there before.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// As the owner found it.
    pub base: Box<Inode>,
    /// As it is to be; `None`: gone.
    pub made: Option<Box<Inode>>,
    /// The name under which the owner found it.
    pub at: Option<(Ino, Name)>,
}

impl Known {
    /// True if the owner wants the inode to be there, as something else than it was.
    pub fn is_changed(&self) -> bool {
        self.made.as_ref().is_some_and(|made| **made != *self.base)
    }
}

/// Xattrs of an inode by name; `None`: taken away.
type Xattrs = BTreeMap<Arc<[u8]>, Option<Arc<[u8]>>>;

/// Statements of an owner.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub(crate) known: BTreeMap<Ino, Known>,
    /// Inodes that it made and that are there at the end.
    pub(crate) fresh: BTreeMap<Ino, Box<Inode>>,
    /// Names that it gave, or took (`None`).
    pub(crate) names: BTreeMap<(Ino, Name), Option<Ino>>,
    pub(crate) xattrs: BTreeMap<Ino, Xattrs>,
    pub(crate) inline: BTreeMap<Ino, Option<Arc<[u8]>>>,
    /// Objects of its own files that are to go.
    pub(crate) discards: Vec<Event>,
    /// Inodes of which it says something that its owner may not do, as others have them by now.
    pub(crate) denied: BTreeSet<Ino>,
    /// Data that it wrote into some of those.
    pub(crate) denied_data: BTreeMap<Ino, Arc<[u8]>>,
}

impl Draft {
    /// Adds the events of a record. `is_new`: whether a number may make an inode in this merge; `may_name`: whether what others removed
    /// may come back under its name in a directory.
    ///
    /// An entry that stands directly behind the first state of an inode and points to it changes nothing: it says how it was called.
    pub fn add(&mut self, events: Vec<Event>, is_new: &dyn Fn(Ino) -> bool, may_name: &dyn Fn(Ino) -> bool) {
        let mut first = None;
        for event in events {
            let before = first.take();
            match event {
                Event::Inode(inode) if is_new(inode.ino) => _ = self.fresh.insert(inode.ino, inode),
                Event::Inode(inode) => match self.known.get_mut(&inode.ino) {
                    Some(known) => known.made = Some(inode),
                    None => {
                        first = Some(inode.ino);
                        let known = Known { made: Some(inode.clone()), base: inode, at: None };
                        self.known.insert(known.base.ino, known);
                    }
                },
                Event::InodeGone(ino) => {
                    self.fresh.remove(&ino);
                    if let Some(known) = self.known.get_mut(&ino) {
                        known.made = None;
                    }
                    self.xattrs.remove(&ino);
                    self.inline.remove(&ino);
                }
                Event::Entry { dir, name, ino, .. } if before == Some(ino) => {
                    if let Some(known) = self.known.get_mut(&ino).filter(|_| may_name(dir)) {
                        known.at = Some((dir, name));
                    }
                }
                Event::Entry { dir, name, ino, .. } => _ = self.names.insert((dir, name), Some(ino)),
                Event::EntryGone { dir, name } => _ = self.names.insert((dir, name), None),
                Event::Xattr { ino, name, value } => {
                    self.xattrs.entry(ino).or_default().insert(name, Some(value));
                }
                Event::XattrGone { ino, name } => _ = self.xattrs.entry(ino).or_default().insert(name, None),
                Event::Inline { ino, data } => _ = self.inline.insert(ino, Some(data)),
                Event::InlineGone(ino) => _ = self.inline.insert(ino, None),
                Event::Discard { .. } => self.discards.push(event),
                _ => {}
            }
        }
    }

    /// Notes a statement that its owner may not make. It is not to be added.
    pub fn deny(&mut self, event: &Event) {
        match event {
            Event::Entry { ino, .. } => _ = self.denied.insert(*ino),
            Event::EntryGone { dir, .. } => _ = self.denied.insert(*dir),
            Event::Inode(inode) => _ = self.denied.insert(inode.ino),
            Event::InodeGone(ino)
            | Event::Xattr { ino, .. }
            | Event::XattrGone { ino, .. }
            | Event::InlineGone(ino) => {
                self.denied.insert(*ino);
            }
            Event::Inline { ino, data } => {
                self.denied.insert(*ino);
                self.denied_data.insert(*ino, data.clone());
            }
            // Objects go with the inode that they are of.
            _ => {}
        }
    }

    /// An inode that was there before, as the owner found it.
    pub fn base(&self, ino: Ino) -> Option<&Inode> {
        self.known.get(&ino).map(|known| &*known.base)
    }

    /// Inodes that were there before, as the owner found them and as they are to be; `None`: gone.
    pub fn known(&self) -> impl Iterator<Item = (Ino, &Inode, Option<&Inode>)> {
        self.known.iter().map(|(ino, known)| (*ino, &*known.base, known.made.as_deref()))
    }

    /// True if the owner may have written a file of whose objects it has a version of its own.
    pub fn writes(&self, ino: Ino) -> bool {
        let is_written = |known: &Known| known.made.as_deref().is_some_and(|made| super::is_written(&known.base, made));
        self.inline.contains_key(&ino) || self.known.get(&ino).is_some_and(is_written)
    }

    /// True if the owner has written data that are held in the inode of a file.
    pub fn has_data(&self, ino: Ino) -> bool {
        self.inline.contains_key(&ino)
    }

    /// All inodes that it speaks of, but those that it made.
    pub fn speaks_of(&self) -> Vec<Ino> {
        let names = self.names.iter().flat_map(|((dir, _), ino)| [Some(*dir), *ino]).flatten();
        let at = self.known.values().filter_map(|known| known.at.as_ref().map(|(dir, _)| *dir));
        let rest = self.known.keys().chain(self.xattrs.keys()).chain(self.inline.keys()).chain(&self.denied).copied();
        let mut all: Vec<Ino> = names.chain(at).chain(rest).filter(|ino| !self.fresh.contains_key(ino)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// An inode that it made, as it was before anything was put into it.
    pub(crate) fn blank(inode: &Inode) -> Inode {
        let mut blank = inode.clone();
        (blank.parent, blank.accounted, blank.has_xattrs) = (Ino(0), loligo_types::RStat::default(), false);
        if blank.kind == Kind::Dir {
            (blank.size, blank.nlink, blank.frag_bits) = (0, 2, 0);
            if blank.extra.is_some() {
                blank.extra_mut().rstat = loligo_types::RStat::default();
            }
        } else {
            blank.nlink = 0;
        }
        blank
    }
}
