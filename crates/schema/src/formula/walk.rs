//! Entries by number, by name and by place in a listing. Nothing is enumerated. Not here: lists of entries within bounds (`select.rs`).

use loligo_types::Kind;

use super::pattern::{Env, UNSET};
use super::weigh::Linear;
use super::{Formula, Level, Node, Sums};

/// An entry of the tree: its number, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number in preorder: 0 is the root.
    pub index: u64,
    /// The number of its directory; the root is its own.
    pub parent: u64,
    pub(super) node: usize,
    pub(super) env: Env,
}

impl Formula {
    /// The directory that has the document.
    pub fn root(&self) -> Place {
        Place { index: 0, parent: 0, node: 0, env: vec![UNSET; self.args.len()] }
    }

    /// File or directory.
    pub fn kind(&self, place: &Place) -> Kind {
        if self.nodes[place.node].is_dir { Kind::Dir } else { Kind::File }
    }

    /// The path of the document that the entry comes from, by its place; none for directories that only stand in the middle of paths.
    pub fn path_of(&self, place: &Place) -> Option<usize> {
        self.nodes[place.node].path
    }

    /// The index of the value that an argument has in the path of an entry. None: it has none there.
    pub fn value(&self, place: &Place, argument: &str) -> Option<u64> {
        let at = self.args.iter().position(|known| known.name == argument)?;
        Some(place.env[at]).filter(|value| *value != UNSET)
    }

    /// The name of an entry in its directory; empty for the root.
    pub fn name(&self, place: &Place) -> Vec<u8> {
        let mut name = Vec::new();
        self.nodes[place.node].pattern.print(&self.args, &place.env, &mut name);
        name
    }

    /// The entry with a number. None: there is none.
    pub fn locate(&self, index: u64) -> Option<Place> {
        let mut place = self.root();
        let mut rest = index;
        while rest > 0 {
            // The first of them is the place itself.
            (place, rest) = self.descend(&place, rest - 1, |sums| &sums.inodes)?;
        }
        Some(place)
    }

    /// The entry of a directory at a place of its listing, from 0. None: there are not so many.
    pub fn nth(&self, dir: &Place, ordinal: u64) -> Option<Place> {
        self.descend(dir, ordinal, |sums| &sums.entries).map(|(place, _)| place)
    }

    /// The entry of a directory with a name. None: there is none.
    pub fn child(&self, dir: &Place, name: &[u8]) -> Option<Place> {
        self.child_with(dir, name, |sums| &sums.inodes).map(|(before, mut place)| {
            place.index = dir.index + 1 + before;
            place
        })
    }

    /// The place of an entry in the listing of its directory.
    pub fn ordinal(&self, place: &Place) -> Option<u64> {
        let dir = self.locate(place.parent)?;
        self.child_with(&dir, &self.name(place), |sums| &sums.entries).map(|(before, _)| before)
    }

    /// The entry at a path of names below the root. None: there is none.
    pub fn resolve<'a>(&self, names: impl IntoIterator<Item = &'a [u8]>) -> Option<Place> {
        names.into_iter().try_fold(self.root(), |place, name| self.child(&place, name))
    }

    /// Names of the entry and of the directories above it, from the root.
    pub fn names(&self, place: &Place) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        let mut place = place.clone();
        while place.index != 0 {
            names.push(self.name(&place));
            let Some(above) = self.locate(place.parent) else { break };
            place = above;
        }
        names.reverse();
        names
    }

    /// The entry with a name, and the sum of the siblings before it.
    fn child_with(&self, dir: &Place, name: &[u8], of: fn(&Sums) -> &Linear) -> Option<(u64, Place)> {
        let mut before = 0;
        let mut env = dir.env.clone();
        for child in &self.nodes[dir.node].children {
            let node = &self.nodes[*child];
            if node.pattern.read(&self.args, name, &mut env)
                && let Some(own) = self.before(node, &dir.env, &env, of)
            {
                return Some((before + own, Place { index: 0, parent: dir.index, node: *child, env }));
            }
            env.copy_from_slice(&dir.env);
            before += of(&node.all).value(&self.args, &dir.env);
        }
        None
    }

    /// The sum of the names of a pattern before the one with these values. None: a value is not in the share that the others give.
    pub(super) fn before(&self, node: &Node, above: &[u64], env: &[u64], of: fn(&Sums) -> &Linear) -> Option<u64> {
        let mut sum = 0;
        let mut given = above.to_vec();
        for level in &node.levels {
            let Some(argument) = level.argument else { continue };
            let local = match self.args[argument].split {
                Some(split) => self.args[argument].in_share(given[split.over], env[argument])?,
                None => env[argument],
            };
            sum += of(&level.each).before(&self.args, argument, local, &given);
            given[argument] = env[argument];
        }
        Some(sum)
    }

    /// The entry of a directory in whose sum `rest` falls, and the part of `rest` behind its beginning.
    fn descend(&self, dir: &Place, mut rest: u64, of: fn(&Sums) -> &Linear) -> Option<(Place, u64)> {
        let mut index = dir.index + 1;
        for child in &self.nodes[dir.node].children {
            let node = &self.nodes[*child];
            let all = of(&node.all).value(&self.args, &dir.env);
            if rest >= all {
                rest -= all;
                index += node.all.inodes.value(&self.args, &dir.env);
                continue;
            }
            let mut env = dir.env.clone();
            for level in &node.levels {
                let (found, before, inodes) = self.find(level, rest, &env, of);
                rest -= before;
                index += inodes;
                if let Some((argument, value)) = found {
                    env[argument] = value;
                }
            }
            return Some((Place { index, parent: dir.index, node: *child, env }, rest));
        }
        None
    }

    /// The value of a level in whose sum `rest` falls, the sum before it, and the inodes before it.
    fn find(
        &self,
        level: &Level,
        rest: u64,
        env: &[u64],
        of: fn(&Sums) -> &Linear,
    ) -> (Option<(usize, u64)>, u64, u64) {
        let Some(argument) = level.argument else { return (None, 0, 0) };
        let args = &self.args;
        let part = args[argument].split.map(|split| env[split.over]);
        let count = part.map_or_else(|| args[argument].count(), |part| args[argument].share(part));
        let local = of(&level.each).find(args, argument, count, rest, env);
        let value = part.map_or(local, |part| args[argument].of_share(part, local));
        let before = of(&level.each).before(args, argument, local, env);
        let inodes = level.each.inodes.before(args, argument, local, env);
        (Some((argument, value)), before, inodes)
    }
}
