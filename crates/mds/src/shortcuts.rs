//! Shortcuts: the directories of a path that this rank has found once, as one step from the first name to the last. A path table as Giraffa's, whose
//! row of a file is found by the hash of its path (Xiao et al., SoCC 2015, digest §2.4), but in memory and beside the tree: what is not here is found
//! name by name, and renaming a directory changes no row. Not here: the walk itself (`walk.rs`), and what other ranks' directories are (`replicas`).
//!
//! A shortcut is put down only if at one moment this rank knows each directory on it, as its own or by a replica, and each says that it is in the one
//! before by this name. From then on it is true until one of them changes in a way that matters to paths. Of its own directories this rank decides
//! that itself, or lends them for it; of others' it has a replica, which is asked back before. With either goes every shortcut through the directory.
//! Who may search the directories is in it only where all may; of the others it is looked at each time.

use std::collections::BTreeSet;

use loligo_namespace::Tree;
use loligo_types::{Event, Ino, Inode, Name, Rank};

use crate::config::Config;
use loligo_types::hash::IntMap;

/// Most of them; beyond, all are dropped: who comes next goes name by name.
const MOST: usize = 1 << 16;

/// One.
pub(crate) struct Shortcut {
    /// Where the first name is looked for, and all directories from there on, one in the other.
    dirs: Box<[Ino]>,
    /// The names of all but the first of them, each with `/` behind it.
    path: Box<[u8]>,
    /// Those of the directories that not everybody may search, but for the last.
    pub(crate) guarded: Box<[Ino]>,
    /// Ranks whose replicas it goes by.
    pub(crate) lenders: Box<[Rank]>,
}

impl Shortcut {
    /// `dirs`: one more than there are names.
    pub(crate) fn new(dirs: &[Ino], names: &[Name], guarded: Vec<Ino>, lenders: &BTreeSet<Rank>) -> Shortcut {
        let mut path = Vec::with_capacity(names.iter().map(|name| name.as_bytes().len() + 1).sum());
        for name in names {
            path.extend_from_slice(name.as_bytes());
            path.push(b'/');
        }
        let lenders = lenders.iter().copied().collect();
        Shortcut { dirs: dirs.into(), path: path.into(), guarded: guarded.into(), lenders }
    }

    /// The directory in which it begins, and those that it leads through, and to.
    pub(crate) fn dirs(&self) -> &[Ino] {
        &self.dirs
    }

    /// The directories that it leads through, and to.
    pub(crate) fn found(&self) -> &[Ino] {
        &self.dirs[1..]
    }

    fn is_for(&self, dir: Ino, names: &[Name]) -> bool {
        let mut left = &*self.path;
        let follows = |name: &Name| match left.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"/")) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        self.dirs[0] == dir && names.iter().all(follows) && left.is_empty()
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Shortcuts {
    by_key: IntMap<u64, u32>,
    /// Places are used once, until all are dropped.
    places: Vec<Option<(u64, Shortcut)>>,
    /// Which lead through a directory, or to it; also such as are gone.
    through: IntMap<Ino, Vec<u32>>,
    /// Number of shortcuts that were taken away.
    pub(crate) taken: u64,
}

impl Shortcuts {
    /// Number of shortcuts.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if there is no shortcut.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// That for these names, the first of them in `dir`; `key` is made of them.
    pub(crate) fn get(&self, key: u64, dir: Ino, names: &[Name]) -> Option<&Shortcut> {
        let place = *self.by_key.get(&key)?;
        let (_, shortcut) = self.places.get(place as usize)?.as_ref()?;
        shortcut.is_for(dir, names).then_some(shortcut)
    }

    /// One more, in the place of what has the same key.
    pub(crate) fn put(&mut self, key: u64, shortcut: Shortcut, most: usize) {
        if self.places.len() >= most {
            self.clear();
        }
        let place = self.places.len() as u32;
        shortcut.dirs.iter().for_each(|dir| self.through.entry(*dir).or_default().push(place));
        if let Some(before) = self.by_key.insert(key, place) {
            self.places[before as usize] = None;
        }
        self.places.push(Some((key, shortcut)));
    }

    /// A directory is, or will be, another thing to paths than it was.
    pub(crate) fn drop_through(&mut self, dir: Ino) {
        for place in self.through.remove(&dir).unwrap_or_default() {
            if let Some((key, _)) = self.places[place as usize].take() {
                self.by_key.remove(&key);
            }
        }
    }

    /// None is left.
    pub(crate) fn clear(&mut self) {
        self.by_key.clear();
        self.places.clear();
        self.through.clear();
    }

    fn has_through(&self, dir: Ino) -> bool {
        self.through.contains_key(&dir)
    }

    /// Removes the shortcuts that an event, which is about to be applied, makes untrue.
    #[inline]
    pub(crate) fn note(&mut self, tree: &Tree, event: &Event) {
        if self.is_empty() {
            return;
        }
        match event {
            Event::Inode(inode) if self.has_through(inode.ino) => {
                let same = |before: &Inode| is_same_way(before, inode);
                if !tree.inode(inode.ino).is_some_and(same) {
                    self.drop_through(inode.ino);
                }
            }
            Event::InodeGone(ino) => self.drop_through(*ino),
            // It is not said which directories are changed.
            Event::Merge { .. } => self.clear(),
            _ => {}
        }
    }
}

/// The number of the shortcut over these names.
pub(crate) fn shortcut_key(tree: &Tree, dir: Ino, names: &[Name]) -> u64 {
    names.iter().fold(dir.0, |key, name| loligo_types::hash::mix(key ^ tree.hash(name)))
}

/// The most that are kept.
pub(crate) fn shortcuts_most(config: &Config) -> usize {
    config.some(MOST)
}

/// True if two records of a directory are the same to paths that lead through it. Under placement `table` the right to search it does not
/// matter to them.
pub(crate) fn is_same_way(a: &Inode, b: &Inode) -> bool {
    let way = |inode: &Inode| (inode.parent, inode.place, inode.nlink == 0);
    let search = |inode: &Inode| (inode.mode, inode.uid, inode.gid);
    way(a) == way(b)
        && a.lookup_lease() == b.lookup_lease()
        && (a.ino.is_table() || search(a) == search(b) && a.acl() == b.acl())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<Name> {
        path.split('/').map(|part| Name::new(part.as_bytes()).expect("a name")).collect()
    }

    fn shortcut(dirs: &[u64], path: &str) -> Shortcut {
        let dirs: Vec<Ino> = dirs.iter().copied().map(Ino).collect();
        Shortcut::new(&dirs, &names(path), Vec::new(), &BTreeSet::new())
    }

    #[test]
    fn it_is_found_by_exactly_its_names_and_not_by_another_ones_key() {
        let mut all = Shortcuts::default();
        all.put(7, shortcut(&[1, 2, 3], "a/bc"), 10);
        assert_eq!(all.get(7, Ino(1), &names("a/bc")).map(|found| found.found().to_vec()), Some(vec![Ino(2), Ino(3)]));
        for (dir, path) in [(1, "ab/c"), (1, "a/b"), (1, "a/bcd"), (1, "a/bc/d"), (1, "a"), (2, "a/bc")] {
            assert!(all.get(7, Ino(dir), &names(path)).is_none(), "{dir} {path}");
        }
        all.put(7, shortcut(&[1, 4, 5], "x/y"), 10);
        assert!(all.get(7, Ino(1), &names("a/bc")).is_none() && all.get(7, Ino(1), &names("x/y")).is_some());
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn with_a_directory_go_those_through_it_and_no_others() {
        let mut all = Shortcuts::default();
        all.put(1, shortcut(&[1, 2, 3], "a/b"), 10);
        all.put(2, shortcut(&[1, 2, 4], "a/c"), 10);
        all.put(3, shortcut(&[1, 5], "d"), 10);
        all.drop_through(Ino(3));
        let here =
            |all: &Shortcuts| [(1, "a/b"), (2, "a/c"), (3, "d")].map(|(k, p)| all.get(k, Ino(1), &names(p)).is_some());
        assert_eq!(here(&all), [false, true, true]);
        // What has come in the place of one that is gone stays.
        all.put(1, shortcut(&[1, 6, 7], "a/b"), 10);
        all.drop_through(Ino(2));
        assert_eq!(here(&all), [true, false, true]);
        all.drop_through(Ino(1));
        assert_eq!((here(&all), all.len()), ([false; 3], 0));
    }

    #[test]
    fn beyond_what_there_is_room_for_all_are_dropped() {
        let mut all = Shortcuts::default();
        for n in 0..1000 {
            all.put(n, shortcut(&[1, n], "a"), 64);
            assert!(all.len() <= 64 && all.through.len() <= 65 && all.get(n, Ino(1), &names("a")).is_some());
        }
    }
}
