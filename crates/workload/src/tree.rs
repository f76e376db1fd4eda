//! A tree of directories with empty files, and the making of it by many. Not its shape: that is the generators'.
//!
//! Directories have numbers in the order of a depth-first walk, the top is 0, and files are numbered in the same order. So a part of
//! either is a range of numbers, and a tree is twelve bytes a directory, whatever is in it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use crate::call::join;
use crate::{Call, Item, Lane, Path, Workload};

/// Most directories of a tree.
pub(crate) const DIRS_MAX: u64 = 10_000_000;

/// Directories and files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tree {
    /// Of each directory the one above it, which has a lower number; of the top itself.
    parents: Vec<u32>,
    /// Of each directory the number of the first file that is not in it nor before it.
    ends: Vec<u64>,
}

impl Tree {
    /// `files`: how many are in each directory.
    pub fn new(parents: Vec<u32>, files: impl Iterator<Item = u64>) -> Tree {
        let ends: Vec<u64> = files
            .scan(0, |end, count| {
                *end += count;
                Some(*end)
            })
            .collect();
        assert_eq!(parents.len(), ends.len(), "each directory has a number of files");
        Tree { parents, ends }
    }

    pub fn dirs(&self) -> u64 {
        self.parents.len() as u64
    }

    pub fn files(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Those in a directory.
    pub fn files_of(&self, dir: u64) -> Range<u64> {
        let begin = if dir == 0 { 0 } else { self.ends[dir as usize - 1] };
        begin..self.ends[dir as usize]
    }

    /// The directory with a file; if there is no such file, the number of directories.
    pub fn dir_of(&self, file: u64) -> u64 {
        self.ends.partition_point(|end| *end <= file) as u64
    }

    /// The directories above one, the nearest first.
    pub fn above(&self, dir: u64) -> impl Iterator<Item = u64> + '_ {
        let next = |dir: &u64| (*dir > 0).then(|| u64::from(self.parents[*dir as usize]));
        std::iter::successors(next(&dir), next)
    }

    pub fn dir_path(&self, dir: u64) -> Path {
        let mut way: Vec<u64> = [dir].into_iter().chain(self.above(dir)).collect();
        way.pop();
        let mut path = "/tree".to_owned();
        for dir in way.iter().rev() {
            // Writing into a string cannot fail.
            let _ = write!(path, "/d{dir}");
        }
        path.into()
    }

    /// `variant`: see [`Crew::workload`].
    pub fn file_path(&self, file: u64, variant: u64) -> Path {
        let dir = self.dir_of(file);
        join(&self.dir_path(dir), &file_name(file - self.files_of(dir).start, variant))
    }
}

/// The name of a file by its number in the directory. Of each, variant 0 is the one without a suffix.
fn file_name(number: u64, variant: u64) -> String {
    if variant == 0 { format!("f{number}") } else { format!("f{number}.{variant}") }
}

/// Those who work on a tree: each lane of each client has a share of every phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Crew {
    pub clients: u64,
    /// Each client has so many calls under way.
    pub lanes: u64,
}

/// Calls of a lane after the tree was made, by the number of its share.
pub(crate) type Then<'a> = (&'a str, &'a dyn Fn(u64) -> Lane);

impl Crew {
    /// All lanes.
    pub fn shares(self) -> u64 {
        self.clients * self.lanes
    }

    /// The part of so many things that a share is, in their order: all parts are equally large, give or take one.
    pub fn part(self, things: u64, share: u64) -> Range<u64> {
        let until = |share: u64| (u128::from(things) * u128::from(share) / u128::from(self.shares())) as u64;
        until(share)..until(share + 1)
    }

    /// Makes a tree in two phases: all directories, then all files, both depth-first; each file in so many `variants`, which
    /// differ in a suffix; `then` come more. Lanes wait for each other between phases.
    ///
    /// In each phase a share is one range of a depth-first walk. What a lane needs of the others' is only the way down to the first
    /// directory of its range, and these few are there from the beginning. So directories are one phase, and not one for each
    /// level with a wait between them, which would be as slow as the slowest of each.
    pub fn workload(self, tree: &Arc<Tree>, variants: u64, then: &[Then<'_>]) -> Workload {
        let mut ways = BTreeSet::from([0]);
        for share in 0..self.shares() {
            let first = self.part(tree.dirs(), share).start;
            ways.extend(tree.above(first).take_while(|dir| *dir > 0));
        }
        let spread: Vec<Path> = ways.iter().map(|dir| tree.dir_path(*dir)).collect();
        let ways = Arc::new(ways);
        let lane = |share: u64| -> Lane {
            let made = self.dirs(tree, &ways, share).map(Item::Call);
            let made = made.chain([Item::Mark("populate".into())]);
            let made = made.chain(self.files(tree, variants, share).map(Item::Call));
            then.iter().fold(Box::new(made), |before: Lane, (name, then)| {
                Box::new(before.chain([Item::Mark((*name).into())]).chain(then(share)))
            })
        };
        let client = |client: u64| (client * self.lanes..(client + 1) * self.lanes).map(lane).collect();
        Workload {
            setup: spread.iter().cloned().map(Call::Mkdir).collect(),
            spread,
            clients: (0..self.clients).map(client).collect(),
            ..Workload::empty()
        }
    }

    /// Without those that are there from the beginning, on the `ways`.
    fn dirs(
        self,
        tree: &Arc<Tree>,
        ways: &Arc<BTreeSet<u64>>,
        share: u64,
    ) -> impl Iterator<Item = Call> + Send + use<> {
        let (tree, ways) = (Arc::clone(tree), Arc::clone(ways));
        let mine = self.part(tree.dirs(), share);
        mine.filter(move |dir| !ways.contains(dir)).map(move |dir| Call::Mkdir(tree.dir_path(dir)))
    }

    fn files(self, tree: &Arc<Tree>, variants: u64, share: u64) -> impl Iterator<Item = Call> + Send + use<> {
        let tree = Arc::clone(tree);
        let mine = self.part(tree.files() * variants, share);
        let named = Arc::clone(&tree);
        let dirs = (tree.dir_of(mine.start / variants)..tree.dirs()).map(move |dir| {
            let all = tree.files_of(dir);
            (dir, all.start * variants..all.end * variants)
        });
        let end = mine.end;
        let parts = dirs.take_while(move |(_, all)| all.start < end).filter(|(_, all)| !all.is_empty());
        parts.flat_map(move |(dir, all)| {
            let dir = named.dir_path(dir);
            (all.start.max(mine.start)..all.end.min(mine.end)).map(move |file| {
                let at = file - all.start;
                Call::Create(join(&dir, &file_name(at / variants, at % variants)))
            })
        })
    }
}
