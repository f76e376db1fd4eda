//! Result of a merge where others could work meanwhile ("interfere: allow", Cudele §6.3): the owner's word counts, and nothing that
//! others made is gone. Here are the owner's statements, gathered from its journal; `rules.rs` resolves each pair, `graph.rs` gives and
//! takes names, `plan.rs` makes the events. Reads nothing, and changes nothing: what it lacks it says.
//!
//! The owner's journal has absolute states, decided over what it had fetched. Here only what it *meant* counts: which names it gave and
//! took, which attributes and data it set. Numbers that follow from names (sizes, links, sums, places) are counted anew over what is
//! there by now, so they are right whatever the two sides did.

mod draft;
mod graph;
mod plan;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Conflict, Event, Ino, Need, Time};

use crate::tree::Tree;

pub use draft::Draft;
pub use rules::is_written;

/// The directory in the root of a subtree that has what lost its name.
pub const CONFLICTS: &[u8] = b".conflicts";

/// A file of which the owner has one version of the objects, and others another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork {
    /// Others may have changed theirs.
    pub others: bool,
    /// An orphan that has the others' objects, if they have some: it gets a name if the owner's version counts.
    pub kept: Option<Ino>,
}

/// Terms of a merge beside the tree and the owner's statements.
pub struct Terms<'a> {
    /// Root of the subtree.
    pub root: Ino,
    /// Which merge it is.
    pub merge: u64,
    /// Owner of the directory of conflicts, if it is made.
    pub uid: u32,
    /// The time.
    pub now: Time,
    /// The first number for inodes that the merge makes by itself.
    pub next: Ino,
    /// Of what was there before: what is in the subtree, or was removed from it by others and is held.
    pub there: &'a BTreeSet<Ino>,
    /// Files with two versions of their objects.
    pub forks: &'a BTreeMap<Ino, Fork>,
    /// Inodes without a name that were there after the merge before only because the owner has them open, as it knows.
    pub open_orphans: &'a BTreeSet<Ino>,
    /// Number of opens of an inode anywhere.
    pub open_count: &'a dyn Fn(Ino) -> u32,
}

/// Result of a merge.
#[derive(Debug, Default)]
pub struct Plan {
    /// In order, for one record.
    pub events: Vec<Event>,
    /// Number of conflicts.
    pub conflicts: u64,
    /// The first of these.
    pub told: Vec<Conflict>,
    /// Bytes that the events take, about.
    pub bytes: usize,
}

/// Resolves the statements of an owner; an error: the records that must be loaded first.
pub fn resolve(tree: &Tree, draft: &Draft, terms: &Terms<'_>) -> Result<Plan, Vec<Need>> {
    let mut graph = graph::Graph::new(tree, draft, terms);
    rules::carry_out(&mut graph)?;
    plan::finish(graph)
}
