//! Which rank to ask for a path: where the last name of another one in the same directory was found, or which one its path gives. The
//! same guesses as the driver's (`driver/src/client/path/hints.rs`), which cannot be used here as it is private there, and the driver
//! needs threads and sockets. Left out of it: locks, and the chance in its hashes, so that runs are the same each time. Not the way
//! itself: `by_path.rs`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use loligo_client::WalkAt;
use loligo_types::{Ino, Name, Rank};

/// Most directories of which it is known; beyond, all are forgotten. As in the driver.
const MOST: usize = 65_536;
/// Most directories below which ranks are given by paths. As in the driver.
const TOPS_MOST: usize = 4096;

/// What a client knows.
#[derive(Default)]
pub struct Hints {
    hasher: BuildHasherDefault<DefaultHasher>,
    /// By directory, who has its names, and its number.
    by_dir: HashMap<u64, (Rank, Ino)>,
    /// Directories in which the first such are that have their ranks by their paths.
    tops: HashSet<u64>,
}

/// Whom to ask for a path.
pub struct Asked {
    /// As the client machine is to be told.
    pub at: WalkAt,
    /// The directory whose rank that is.
    key: Option<u64>,
}

impl Hints {
    /// Whom to ask for these names, the first of them in `dir`. `to_dir`: what they lead to is a directory, and its own rank is to be asked.
    pub fn find(&self, dir: Ino, names: &[Name], to_dir: bool) -> Asked {
        let dirs = if to_dir { names } else { names.split_last().map_or(names, |(_, above)| above) };
        if dirs.is_empty() {
            // The client machine knows whose that one is.
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
    use super::*;

    fn names(path: &str) -> Vec<Name> {
        path.split('/').map(|part| Name::new(part.as_bytes()).expect("a name")).collect()
    }

    #[test]
    fn guesses_are_those_of_the_driver() {
        let mut hints = Hints::default();
        assert_eq!(hints.find(Ino::ROOT, &names("a/b/c"), false).at, WalkAt::First);
        let asked = hints.find(Ino::ROOT, &names("a/b/c"), false);
        hints.put(&asked, Rank(3), Ino(9));
        let at = |hints: &Hints, path: &str, to_dir| hints.find(Ino::ROOT, &names(path), to_dir).at;
        assert_eq!(at(&hints, "a/b/d", false), WalkAt::Rank(Rank(3), Ino(9)));
        assert_eq!(at(&hints, "a/b", true), WalkAt::Rank(Rank(3), Ino(9)));
        assert_eq!((at(&hints, "a/b", false), at(&hints, "a", false)), (WalkAt::First, WalkAt::First));
        hints.learn(Ino::ROOT, &names("proj/x/y"), 2);
        assert_eq!(at(&hints, "proj/p/q/f", false), WalkAt::ByPath(1));
        assert_eq!((at(&hints, "proj/f", false), at(&hints, "proj/p", true)), (WalkAt::First, WalkAt::ByPath(1)));
    }
}
