//! Lets go of clean records that were not used lately (a clock with one bit). Never of dirty ones.

use loligo_types::Ino;

use crate::tree::{Group, Pages, Tree, flag};

/// Where the two clock hands stand: a place among the inodes, and a directory's place with a hash in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hand {
    inode: usize,
    dir: usize,
    hash: u64,
}

/// Inodes, and entries or directories, looked at in one step; what is forgotten of a directory is one range of hashes.
const STEP: usize = 64;

impl Tree {
    /// Drops clean records until at most `target_bytes` are in use, or nothing more can go in two rounds of the hands.
    /// Inodes that `pinned` names stay.
    pub fn evict(&mut self, target_bytes: usize, pinned: &dyn Fn(Ino) -> bool) {
        self.evict_some(target_bytes, usize::MAX, pinned);
    }

    /// The same in at most so many steps of about 64 inodes and 64 entries each; the hands go on from where they stand.
    pub fn evict_some(&mut self, target_bytes: usize, steps_max: usize, pinned: &dyn Fn(Ino) -> bool) {
        // A directory takes two looks beside those at its entries.
        let places = self.inodes.places() + 2 * self.dirs.places() + self.entries_cached();
        let mut steps = (2 * (places / STEP + 1)).min(steps_max);
        while self.memory_bytes() > target_bytes && steps > 0 {
            steps -= 1;
            if self.free_some(STEP) == STEP {
                continue;
            }
            self.step_inodes(pinned);
            self.step_entries();
        }
    }

    fn entries_cached(&self) -> usize {
        self.heap_bytes / 72
    }

    fn step_inodes(&mut self, pinned: &dyn Fn(Ino) -> bool) {
        for _ in 0..STEP {
            if self.hand.inode >= self.inodes.places() {
                self.hand.inode = 0;
            }
            let place = self.hand.inode;
            self.hand.inode += 1;
            let Some(slot) = self.inodes.at(place) else { continue };
            let flags = slot.flags.get();
            slot.flags.set(flags & !flag::USED);
            let ino = slot.inode.ino;
            if flags & (flag::USED | flag::HELD) != 0 || ino == Ino::ROOT || pinned(ino) {
                continue;
            }
            self.drop_inode_slot(ino);
        }
    }

    /// True if dirty xattrs or inline data keep the inode in memory.
    fn holds_parts(&self, ino: Ino) -> bool {
        self.xattrs.get(&ino).is_some_and(|set| set.any(flag::HELD))
            || self.inline.get(&ino).is_some_and(|slot| slot.flags.get() & flag::HELD != 0)
    }

    /// Forgets an inode with its clean parts.
    pub(crate) fn drop_inode_slot(&mut self, ino: Ino) {
        if self.holds_parts(ino) {
            return;
        }
        if let Some(slot) = self.inodes.remove(ino.0) {
            self.heap_bytes -= crate::tree::extra_bytes(&slot.inode);
        }
        self.drop_xattrs(ino);
        self.drop_inline(ino);
    }

    fn step_entries(&mut self) {
        let mut left = STEP;
        while left > 0 {
            left -= self.step_dir(left).clamp(1, left);
        }
    }

    /// Looks at no more than `max` entries of the directory under the hand, or moves the hand to the next one; how many
    /// it has looked at.
    fn step_dir(&mut self, max: usize) -> usize {
        if self.hand.dir >= self.dirs.places() {
            (self.hand.dir, self.hand.hash) = (0, 0);
        }
        let place = self.hand.dir;
        let Some(slot) = self.dirs.at(place) else {
            (self.hand.dir, self.hand.hash) = (place + 1, 0);
            return 0;
        };
        let (dir, from) = (slot.ino, self.hand.hash);
        if from == 0 {
            self.forget_unused_hashes(dir);
        }
        let Some(slot) = self.dirs.at(place) else { return 0 };
        let empty = from == 0 && slot.hashes.is_empty();
        let (mut unused, mut last, mut seen) = (Vec::new(), None, 0);
        for (hash, group) in slot.entries.range(from..).take(max) {
            (last, seen) = (Some(*hash), seen + 1);
            let flags = group.entries().iter().fold(0, |all, entry| {
                let flags = entry.flags.get();
                entry.flags.set(flags & !flag::USED);
                all | flags
            });
            if flags & (flag::USED | flag::HELD) == 0 {
                unused.push(*hash);
            }
        }
        match last {
            Some(hash) => self.hand.hash = hash + 1,
            None => (self.hand.dir, self.hand.hash) = (place + 1, 0),
        }
        if last.is_none() && empty {
            // Nothing but that it is empty is known; its inode says that too.
            self.drop_dir(dir);
        } else {
            self.drop_entries(dir, &unused);
        }
        seen
    }

    /// Forgets what is known of a directory's hashes, if it was of no use since this was called last.
    fn forget_unused_hashes(&mut self, dir: Ino) {
        let mut unused = Pages::new();
        self.edit_known(dir, |slot| unused = slot.hashes.take_unused());
        self.bury_hashes(unused);
    }

    /// Forgets entries; of the range between the first and the last, only the single entries left are known then, and what is known of
    /// hashes.
    fn drop_entries(&mut self, dir: Ino, hashes: &[u64]) {
        let (Some(first), Some(last)) = (hashes.first(), hashes.last()) else { return };
        self.edit_known(dir, |slot| {
            slot.complete.remove(*first, *last);
            let is_there = |hash: &&u64| slot.entries.get(hash).is_some_and(Group::is_there);
            hashes.iter().filter(is_there).for_each(|hash| slot.hashes.keep(*hash));
        });
        let slot = self.dirs.get_mut(dir.0).expect("its entries were just looked at");
        let freed: usize = hashes.iter().map(|hash| slot.drop_where(*hash, |_| true)).sum();
        self.heap_bytes -= freed;
        if self.dirs.get(dir.0).is_some_and(|slot| slot.entries.is_empty() && slot.hashes.is_empty()) {
            self.drop_dir(dir);
        }
    }

    /// Forgets all entries of a directory.
    pub(crate) fn drop_dir(&mut self, dir: Ino) {
        if let Some(mut slot) = self.dirs.remove(dir.0) {
            self.forget_known(&mut slot);
        }
    }

    /// Forgets all that is known of an inode, but not its entries.
    pub(crate) fn forget_inode(&mut self, ino: Ino) {
        self.drop_xattrs(ino);
        self.drop_inline(ino);
        if let Some(slot) = self.inodes.remove(ino.0) {
            self.heap_bytes -= crate::tree::extra_bytes(&slot.inode);
        }
    }

    /// Forgets the xattrs of an inode.
    pub(crate) fn drop_xattrs(&mut self, ino: Ino) {
        if let Some(set) = self.xattrs.remove(&ino) {
            self.heap_bytes -= set.heap_bytes();
        }
    }

    /// Forgets the inline data of an inode.
    pub(crate) fn drop_inline(&mut self, ino: Ino) {
        if let Some(slot) = self.inline.remove(&ino) {
            self.heap_bytes -= crate::tree::inline_bytes(slot.data.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Inode, Kind, Name, Rank, Target, Time};

    use super::*;
    use crate::tree::{Config, Loaded, Lookup};

    const DIRS: u64 = 1000;

    fn many_small_directories() -> Tree {
        let mut tree =
            Tree::new((1, 2), Config { inline_max: 4096, rank: Rank::ZERO, frag: crate::FragConfig::default() });
        for ino in (1000..1000 + DIRS).map(Ino) {
            let mut dir = Inode::new(ino, Kind::Dir, 0o755, 0, 0, Ino(0), Time(0));
            dir.size = 3;
            tree.load(Loaded::Inode(ino, Some(Box::new(dir))));
            let name = |n: u64| {
                (
                    Name::new(format!("file {n}").as_bytes()).expect("a name"),
                    Target { ino: Ino(n), kind: Kind::File, remote: false },
                )
            };
            let entries = (0..3).map(|n| name(ino.0 * 10 + n)).collect();
            tree.load(Loaded::Range { dir: ino, from_hash: 0, upto_hash: u64::MAX, entries });
        }
        tree
    }

    #[test]
    fn small_directories_go_as_quickly_as_the_entries_of_a_large_one() {
        let mut tree = many_small_directories();
        // Two rounds, of which the first finds everything used; a directory is three entries and two looks.
        let looks = 2 * DIRS as usize * (3 + 2);
        tree.evict_some(0, looks / STEP + 2, &|_| false);
        assert_eq!((tree.dirs.len(), tree.inodes_cached(), tree.memory_bytes()), (0, 0, 0));
    }

    #[test]
    fn eviction_ends_when_nothing_can_go() {
        let mut tree = many_small_directories();
        tree.evict(0, &|_| true);
        assert_eq!((tree.dirs.len(), tree.inodes_cached()), (0, DIRS as usize));
    }

    /// A directory with the entry `old` in the table, of which only the hash was read, and `new`, in memory.
    fn known_by_hash() -> (Tree, [Name; 3]) {
        let mut tree =
            Tree::new((1, 2), Config { inline_max: 4096, rank: Rank::ZERO, frag: crate::FragConfig::default() });
        let names = ["old", "new", "none"].map(|text| Name::new(text.as_bytes()).expect("a name"));
        let mut dir = Inode::new(DIR, Kind::Dir, 0o755, 0, 0, Ino(0), Time(0));
        dir.size = 1;
        tree.load(Loaded::Inode(DIR, Some(Box::new(dir))));
        let hashes = vec![tree.hash(&names[0])];
        tree.load(Loaded::Hashes { dir: DIR, from_hash: 0, upto_hash: u64::MAX, hashes });
        let target = Target { ino: Ino(8), kind: Kind::File, remote: false };
        tree.load(Loaded::Entry { dir: DIR, name: names[1].clone(), found: Some(target) });
        (tree, names)
    }

    const DIR: Ino = Ino(7);

    fn all(tree: &Tree, names: &[Name]) -> Vec<Lookup> {
        names.iter().map(|name| tree.entry(DIR, name)).collect()
    }

    #[test]
    fn where_only_hashes_are_known_a_name_is_absent_or_unknown() {
        let (tree, names) = known_by_hash();
        let new = Target { ino: Ino(8), kind: Kind::File, remote: false };
        assert_eq!(all(&tree, &names), [Lookup::Unknown, Lookup::Present(new), Lookup::Absent]);
    }

    #[test]
    fn an_entry_that_has_left_memory_is_not_denied() {
        let (mut tree, names) = known_by_hash();
        tree.drop_entries(DIR, &[tree.hash(&names[1])]);
        assert_eq!(all(&tree, &names), [Lookup::Unknown, Lookup::Unknown, Lookup::Absent]);
    }

    #[test]
    fn a_name_that_is_gone_is_denied_when_that_has_left_memory() {
        let (mut tree, names) = known_by_hash();
        tree.load(Loaded::Entry { dir: DIR, name: names[2].clone(), found: None });
        tree.drop_entries(DIR, &[tree.hash(&names[2])]);
        assert_eq!(all(&tree, &names)[2], Lookup::Absent);
    }

    #[test]
    fn many_hashes_are_out_of_sight_at_once_and_freed_in_steps() {
        let (mut tree, names) = known_by_hash();
        tree.forget_names(DIR, 0, u64::MAX);
        for page in 0..1000 {
            let (from_hash, upto_hash) = (page << 50, ((page + 1) << 50) - 1);
            tree.load(Loaded::Hashes { dir: DIR, from_hash, upto_hash, hashes: vec![from_hash + 1; 100] });
        }
        let before = tree.memory_bytes();
        assert!(tree.hash_bytes() >= 1000 * 100 * 8 && before > tree.hash_bytes());
        tree.forget_names(DIR, 0, u64::MAX);
        assert_eq!((tree.hash_bytes(), tree.entry(DIR, &names[2])), (0, Lookup::Unknown));
        assert!(tree.memory_bytes() > before / 2, "they are not freed");
        let steps = (0..).take_while(|_| tree.free_some(100) == 100).count();
        assert_eq!(steps, 10);
        tree.evict(0, &|_| false);
        assert_eq!(tree.memory_bytes(), 0);
    }

    #[test]
    fn hashes_that_deny_nothing_leave_memory() {
        let (mut tree, names) = known_by_hash();
        let bytes = tree.memory_bytes();
        tree.forget_names(DIR, tree.hash(&names[1]), tree.hash(&names[1]));
        tree.load(Loaded::Hashes { dir: DIR, from_hash: 0, upto_hash: u64::MAX, hashes: vec![1, 2, 3] });
        assert!(tree.memory_bytes() < bytes, "an entry is more than two hashes");
        assert_eq!(tree.entry(DIR, &names[2]), Lookup::Absent);
        tree.evict(0, &|ino| ino == DIR);
        assert_eq!(tree.dirs.len(), 0);
        assert_eq!(tree.entry(DIR, &names[2]), Lookup::Unknown);
        tree.evict(0, &|_| false);
        assert_eq!(tree.memory_bytes(), 0);
    }
}
