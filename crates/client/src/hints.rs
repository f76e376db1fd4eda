//! Which rank to ask for a path: where the last name of another one in the same directory was found, or which one its path gives. Guesses: whoever is
//! asked finds the way by itself, and says who has the name if it is another one. Nothing here says that something is there, or that somebody may
//! have it. Programs that ask by path keep one beside the machine; it is not used by the machine, and has no lock and no randomness of its own.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use loligo_types::{Ino, Name, Rank};

use crate::WalkAt;
use crate::path_cache::PathCache;

/// Most directories of which it is known; beyond, all are forgotten.
const MOST: usize = 65_536;
/// Most directories below which ranks are given by paths.
const TOPS_MOST: usize = 4096;

/// Hints about the rank of a path. `S` hashes paths: two with the same hash are taken for one, which costs a request.
#[derive(Default)]
pub struct Hints<S> {
    hasher: S,
    /// Path components that are known.
    pub ways: PathCache<S>,
    /// By directory, who has its names, and its number.
    by_dir: HashMap<u64, (Rank, Ino)>,
    /// Directories in which the first such are that have their ranks by their paths.
    tops: HashSet<u64>,
}

/// The rank to ask for a path.
#[derive(Debug)]
pub struct Asked {
    /// As the machine is to be told.
    pub at: WalkAt,
    /// The directory whose rank that is.
    key: Option<u64>,
}

impl<S: BuildHasher> Hints<S> {
    /// Finds the rank to ask for these names, the first of them in `dir`. `to_dir`: the target is a directory, and its own rank is to be
    /// asked.
    pub fn find(&self, dir: Ino, names: &[Name], to_dir: bool) -> Asked {
        let dirs = if to_dir { names } else { names.split_last().map_or(names, |(_, above)| above) };
        if dirs.is_empty() {
            // The machine knows whose that one is.
            return Asked { at: WalkAt::First, key: None };
        }
        let key = self.key(dir, dirs);
        let at = match self.by_dir.get(&key) {
            Some((rank, ino)) => WalkAt::Rank(*rank, *ino),
            None if self.tops.is_empty() => WalkAt::First,
            None => {
                let top = (0..dirs.len()).rev().find(|len| self.tops.contains(&self.key(dir, &dirs[..*len])));
                top.map_or(WalkAt::First, |len| WalkAt::ByPath(len as u32))
            }
        };
        Asked { at, key: Some(key) }
    }

    /// Another rank was to be asked, for what is in the directory with this number.
    pub fn put(&mut self, asked: &Asked, rank: Rank, ino: Ino) {
        let Some(key) = asked.key else { return };
        if self.by_dir.len() >= MOST {
            self.by_dir.clear();
        }
        self.by_dir.insert(key, (rank, ino));
    }

    /// These directories were found, one in the other, the first of them in `dir`; the last ones, so many, have their ranks by their paths.
    pub fn learn(&mut self, dir: Ino, dirs: &[Name], by_path: usize) {
        // Where `dir` is such a one itself it is not known where they begin.
        let Some(top) = dirs.len().checked_sub(by_path).filter(|_| by_path > 0 && !dir.is_by_path()) else { return };
        let key = self.key(dir, &dirs[..top]);
        if self.tops.len() >= TOPS_MOST {
            self.tops.clear();
        }
        self.tops.insert(key);
    }

    fn key(&self, dir: Ino, dirs: &[Name]) -> u64 {
        self.hasher.hash_one((dir, dirs))
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    fn names(path: &str) -> Vec<Name> {
        path.split('/').map(|part| Name::new(part.as_bytes()).expect("a name")).collect()
    }

    #[test]
    fn where_a_name_was_found_others_in_its_directory_are_looked_for() {
        let mut hints = Hints::<RandomState>::default();
        let first = |path: &str| hints.find(Ino::ROOT, &names(path), false);
        assert_eq!((first("a").at, first("a/b/c").at), (WalkAt::First, WalkAt::First));
        let asked = first("a/b/c");
        hints.put(&asked, Rank(3), Ino(9));
        let at = |path: &str, to_dir| hints.find(Ino::ROOT, &names(path), to_dir).at;
        assert_eq!(
            (at("a/b/d", false), at("a/c/c", false), at("a", false)),
            (WalkAt::Rank(Rank(3), Ino(9)), WalkAt::First, WalkAt::First)
        );
        // Also of what is made in it.
        assert_eq!((at("a/b", true), at("a/b", false)), (WalkAt::Rank(Rank(3), Ino(9)), WalkAt::First));
        assert_eq!(hints.find(Ino(9), &names("a/b/c"), false).at, WalkAt::First);
    }

    #[test]
    fn below_where_paths_give_ranks_nothing_must_have_been_found_before() {
        let mut hints = Hints::<RandomState>::default();
        hints.learn(Ino::ROOT, &names("proj/x/y"), 2);
        let at = |path: &str, to_dir| hints.find(Ino::ROOT, &names(path), to_dir).at;
        assert_eq!((at("proj/p/q/f", false), at("proj/p/f", false)), (WalkAt::ByPath(1), WalkAt::ByPath(1)));
        assert_eq!(
            (at("proj/f", false), at("proj/p", true), at("other/p/f", false)),
            (WalkAt::First, WalkAt::ByPath(1), WalkAt::First)
        );
        hints.learn(Ino(0x100).scattered(Rank(1)).expect("it fits").by_path(), &names("a/b"), 2);
        hints.learn(Ino::ROOT, &names("plain/a"), 0);
        assert_eq!(hints.tops.len(), 1);
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut hints = Hints::<RandomState>::default();
        for n in 0..2 * MOST as u64 {
            hints.put(&Asked { at: WalkAt::First, key: Some(n) }, Rank(1), Ino(n));
            hints.learn(Ino(n), &names("a"), 1);
        }
        assert!(hints.by_dir.len() <= MOST && hints.tops.len() <= TOPS_MOST);
    }
}
