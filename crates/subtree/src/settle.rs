//! Accounting of new inodes in their directories, by the owner before the merge. So a rank has none of them left to count, one by one and
//! each with a record of its journal. Only inodes that no merge has made before: of others the rank may be counting just now.

use std::collections::BTreeSet;

use loligo_namespace::{apply_decided, settle};
use loligo_types::{Event, Ino, Inode};

use crate::Subtree;

/// Inodes of which something was not counted when it was last looked.
#[derive(Default)]
pub(crate) struct Unsettled(Vec<Ino>);

impl Unsettled {
    /// An inode became this.
    #[inline]
    pub(crate) fn note(&mut self, inode: &Inode) {
        if inode.own() != inode.accounted && self.0.last() != Some(&inode.ino) {
            self.0.push(inode.ino);
        }
    }
}

impl Subtree {
    /// Counts what is new, before a record ends.
    pub(crate) fn settle_new(&mut self) {
        let noted: BTreeSet<Ino> = std::mem::take(&mut self.unsettled.0).into_iter().collect();
        if noted.is_empty() || self.may_change_meanwhile() {
            return;
        }
        let (record, fresh_from, orphans) = (&self.record, self.fresh_from, &self.orphans);
        let is_new = |ino: Ino| ino >= fresh_from && record.is_granted(ino) && !orphans.contains_key(&ino);
        for event in settle(&self.tree, noted, &is_new) {
            if let Event::Inode(inode) = &event {
                self.tell_base(inode.ino);
            }
            apply_decided(&mut self.tree, &event, self.last, Ino(0));
            self.batch.add(event);
        }
    }
}
