//! Migration of files that live by themselves, at the rank that gives them away: several at once, in place of a directory
//! and what is below it. Only a rank that is drained does it. The rest of the way is `export.rs`'s.

use std::collections::BTreeSet;

use loligo_types::{Event, Ino, Place, Rank};

use super::Where;
use crate::load::Waiter;
use crate::machine::Mds;

impl Mds {
    /// Wants files to be moved that live by themselves here.
    pub(super) fn want_export_of_files(&mut self, files: Vec<Ino>, to: Rank) {
        if let Some(first) = files.first().copied() {
            let id = self.cluster.exports.wait(first, None, to);
            self.cluster.exports.files.insert(id, files);
        }
    }

    /// Whether all of them are in memory, and still what they were. Those that have left it are read.
    pub(super) fn has_files(&mut self, files: &[Ino]) -> bool {
        let mut wants = Vec::new();
        let mut all = true;
        for ino in files {
            all &= self.locate(*ino, &mut wants) == Where::Here;
        }
        if !wants.is_empty() {
            self.load(wants, Waiter::Nobody);
        }
        all
    }

    /// Whether one of them was removed, or lost its name.
    pub(super) fn files_have_changed(&self, files: &[Ino]) -> bool {
        let known = |ino: &Ino| !matches!(self.tree.find(*ino), loligo_namespace::Found::Unknown);
        files.iter().any(|ino| known(ino) && !self.floats_here(*ino))
    }

    /// What is to be said of them: they live at the other rank.
    pub(super) fn moved_files(&self, files: &[Ino], to: Rank) -> Vec<Event> {
        let there = |ino: &Ino| {
            let mut inode = self.tree.inode(*ino)?.clone();
            inode.place = Place::floating(to);
            Some(Event::Inode(Box::new(inode)))
        };
        files.iter().filter_map(there).collect()
    }

    /// Nothing is known any more of what was given to a rank that is not there: it has handed it on.
    pub(super) fn forget_given_to(&mut self, rank: Rank) {
        self.cluster.departed.retain(|_, (to, _)| *to != rank);
        self.cluster.exports.forget_landing(rank);
    }

    /// The files as a set to begin the list of what departs with.
    pub(super) fn departing(dir: Ino, files: &[Ino]) -> BTreeSet<Ino> {
        if files.is_empty() { BTreeSet::from([dir]) } else { files.iter().copied().collect() }
    }
}
