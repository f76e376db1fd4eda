//! Parts of a merge that have come so far, and what they say together. Checks of what they say are `look.rs` and `whole.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_namespace::Draft;
use loligo_types::{Event, Ino, Inode};

use super::shape::Shape;

/// The parts of a merge that have come.
#[derive(Default)]
pub(super) struct Intake {
    pub(super) merge: u64,
    pub(super) parts: u32,
    /// Where others may work meanwhile: what the parts say, and their bytes. They are put down nowhere else.
    pub(super) draft: Draft,
    pub(super) bytes: u64,
    /// Inodes that were there before: as the owner fetched them, and as they are to be; `None`: gone.
    pub(super) known: BTreeMap<Ino, (Box<Inode>, Option<Box<Inode>>)>,
    /// Inodes that were there before and were found to be below the root.
    pub(super) below: BTreeSet<Ino>,
    /// The new inodes, and the place of each directory.
    pub(super) shape: Shape,
    /// Files that were there before, are spoken of, and may have names outside.
    pub(super) linked: BTreeSet<Ino>,
    /// Files whose bytes go, which the owner may do only if it ends them.
    pub(super) ends: BTreeSet<Ino>,
    /// Xattrs that are set, with the bytes of their values, or taken away, by inode.
    pub(super) xattrs: BTreeMap<Ino, BTreeMap<Arc<[u8]>, Option<usize>>>,
    /// Bytes of objects to be dropped.
    pub(super) discards: Vec<Event>,
}

impl Intake {
    /// Notes an event about something that was there before, or that is looked at once more in the end. Whether it can be said after those before it.
    pub(super) fn note(&mut self, event: Event) -> bool {
        match event {
            Event::Inode(inode) => match self.known.get_mut(&inode.ino) {
                // The first time the owner says how it found it.
                None => _ = self.known.insert(inode.ino, (inode.clone(), Some(inode))),
                Some((_, Some(made))) => *made = inode,
                Some((_, None)) => return false,
            },
            Event::InodeGone(ino) => match self.known.get_mut(&ino) {
                Some((_, made)) => *made = None,
                None => return false,
            },
            Event::Xattr { ino, name, value } => {
                let bytes = Some(value.len());
                self.xattrs.entry(ino).or_default().insert(name, bytes);
            }
            Event::XattrGone { ino, name } => _ = self.xattrs.entry(ino).or_default().insert(name, None),
            Event::Discard { .. } => self.discards.push(event),
            _ => {}
        }
        true
    }

    /// True if an inode that was there before is gone with the merge.
    pub(super) fn ends(&self, ino: Ino) -> bool {
        self.known.get(&ino).is_some_and(|(_, made)| made.is_none())
    }
}
