//! Stray objects: objects of file data that no inode tells of. A client writes the first object of a file before it tells the rank that the
//! file is not inline any more; if client and server are killed between the two, nobody has the file open after the restart, and nobody
//! knows of the object. The store lists the inodes that got an object since the opening that was killed, and the rank drops the objects of
//! those that are inline or gone. Not bytes beyond the end of a file that has objects: those go with the file (`eof_cleanup.rs` has those of
//! sessions that die while the rank runs).

use std::collections::BTreeSet;

use loligo_types::{Ino, Lsn};

/// Inodes looked at in one tick.
pub(crate) const STRAYS_PER_TICK: usize = 1024;

/// The search for stray objects after an unclean stop.
#[derive(Default)]
pub(crate) struct StrayObjects {
    /// Numbers of inodes from this on were given in this life: the rank knows who has them open.
    first_new: Ino,
    /// Inodes of the present list that are still to be looked at; none: no list is present.
    left: Option<BTreeSet<Ino>>,
    /// The last record that drops objects of the present list.
    dropped: Lsn,
    /// Of some of the present list it was left open whether they are stray.
    in_doubt: bool,
}

impl StrayObjects {
    /// Begins a life of the rank.
    pub(crate) fn begin(&mut self, first_new: Ino) {
        self.first_new = first_new;
    }

    /// Takes a list of inodes that may have stray objects. There is one list at a time.
    pub(crate) fn take_list(&mut self, inos: &[Ino]) {
        let old = inos.iter().copied().filter(|ino| *ino < self.first_new);
        self.left.get_or_insert_default().extend(old);
    }

    /// Some of the inodes to look at, ascending.
    pub(crate) fn some(&self, max: usize) -> Vec<Ino> {
        self.left.iter().flatten().take(max).copied().collect()
    }

    /// True if the inode is to be looked at.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.left.as_ref().is_some_and(|left| left.contains(&ino))
    }

    /// The inode was looked at. `dropped`: the record that drops its objects.
    pub(crate) fn is_looked_at(&mut self, ino: Ino, dropped: Option<Lsn>) {
        self.left.iter_mut().for_each(|left| _ = left.remove(&ino));
        self.dropped = self.dropped.max(dropped.unwrap_or_default());
    }

    /// Leaves it open for now if the objects of an inode are stray.
    pub(crate) fn leave_open(&mut self, ino: Ino) {
        self.in_doubt |= self.has(ino);
        self.is_looked_at(ino, None);
    }

    /// Ends the present list if all of it was looked at, and all that drops objects is durable. True if nothing was left open.
    pub(crate) fn end_list(&mut self, durable: Lsn) -> Option<bool> {
        let is_done = self.left.as_ref().is_some_and(BTreeSet::is_empty) && self.dropped <= durable;
        if is_done {
            self.left = None;
        }
        is_done.then(|| !std::mem::take(&mut self.in_doubt))
    }
}
