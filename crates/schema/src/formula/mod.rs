//! Formulas: paths with arguments, from which a tree of any size is computed (Tintenfisch, thesis chapter 7: the formula generator).
//!
//! The paths are merged to a small tree of patterns (`build.rs`), whose size is that of the document. The entries are numbered in preorder:
//! a directory, then all below it; siblings come in the order of the paths, then in that of their values. Numbers are sums in closed form
//! (`weigh.rs`), so that everything is done in time of the depth (times the logarithm of a range that is dealt out), for any number of entries:
//! [`Formula::locate`] finds the entry of a number, [`Formula::child`] that of a name, [`Formula::nth`] that of a place in a listing.
//! Not here: the text of the document, attributes.

mod argument;
mod build;
mod collide;
mod pattern;
mod select;
#[cfg(test)]
mod tests;
mod walk;
mod weigh;

pub use argument::{Argument, Base, Deal, List, Range, Split, Values, WIDTH_MAX};
pub use build::{PathText, Subject};
pub use select::{Bound, Selection};
pub use walk::Place;

use pattern::Pattern;
use weigh::Linear;

/// A tree that is computed from a few paths and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    args: Vec<Argument>,
    /// Node 0 is the root.
    nodes: Vec<Node>,
}

/// A pattern of names at one place of the tree of patterns, and what is below.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    pattern: Pattern,
    /// The path that has it as its last component.
    path: Option<usize>,
    /// The first path that goes through it, for errors.
    through: usize,
    is_dir: bool,
    children: Vec<usize>,
    /// One for each argument that it sets; one without an argument if it sets none.
    levels: Vec<Level>,
    /// Of all its names in one directory: the sums over its first level.
    all: Sums,
}

/// The values of one argument of a pattern, with those of the arguments before it given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    argument: Option<usize>,
    /// Sums over all names that have one value of the argument.
    each: Sums,
}

/// Sums over entries.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Sums {
    /// Entries and all below them.
    inodes: Linear,
    /// Entries themselves.
    entries: Linear,
    /// Files among both.
    files: Linear,
    /// Sizes of those files.
    bytes: Linear,
}

/// Totals of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Files and directories below the root, and so the largest number of an entry.
    pub entries: u64,
    /// Files among them.
    pub files: u64,
    /// Sizes of the files together.
    pub bytes: u64,
}

impl Totals {
    /// Directories below the root.
    pub fn dirs(&self) -> u64 {
        self.entries - self.files
    }
}

impl Formula {
    /// The arguments, in the order of the document.
    pub fn args(&self) -> &[Argument] {
        &self.args
    }

    /// Totals of the whole tree.
    pub fn totals(&self) -> Totals {
        self.below(&self.root())
    }

    /// Totals of all below a directory; zero for a file.
    pub fn below(&self, place: &Place) -> Totals {
        let mut totals = Totals::default();
        for child in self.nodes[place.node].children.iter().map(|child| &self.nodes[*child]) {
            totals.entries += child.all.inodes.value(&self.args, &place.env);
            totals.files += child.all.files.value(&self.args, &place.env);
            totals.bytes += child.all.bytes.value(&self.args, &place.env);
        }
        totals
    }

    /// Number of entries of a directory; 0 for a file.
    pub fn len(&self, place: &Place) -> u64 {
        let children = self.nodes[place.node].children.iter();
        children.map(|child| self.nodes[*child].all.entries.value(&self.args, &place.env)).sum()
    }

    /// True if a directory has no entries.
    pub fn is_empty(&self, place: &Place) -> bool {
        self.len(place) == 0
    }

    /// Number of directories among the entries of a directory: with 2 its link count.
    pub fn dirs_in(&self, place: &Place) -> u64 {
        let children = self.nodes[place.node].children.iter().map(|child| &self.nodes[*child]);
        children.filter(|child| child.is_dir).map(|child| child.all.entries.value(&self.args, &place.env)).sum()
    }
}
