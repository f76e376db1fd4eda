//! Deferred free of cached entries that are another rank's by now, or were of no use. Many of them are out of sight at once, and
//! freed in steps: a million entries take longer to free than a request may wait. Which entries are evicted because memory is short
//! is in `evict`.

use std::collections::BTreeMap;

use loligo_types::Ino;

use super::dir::{DirSlot, ENTRY_BYTES, Entry, Group};
use super::hashes::{Page, Pages};
use super::load::ends;
use super::ranges::Ranges;
use super::{Tree, flag};

/// More entries than these are freed in steps.
const AT_ONCE: usize = 64;

/// Entries of one directory by hash.
type Entries = BTreeMap<u64, Group>;

/// Entries or hashes to be freed in steps.
pub(crate) enum DeferredFree {
    Entries(Entries),
    Hashes(Pages),
}

impl DeferredFree {
    /// Frees the first one; what it took.
    fn free_one(&mut self) -> Option<usize> {
        match self {
            DeferredFree::Entries(entries) => entries.pop_first().map(|(_, group)| cost(&group)),
            DeferredFree::Hashes(pages) => pages.pop_first().map(|(_, page)| page.bytes()),
        }
    }
}

/// Memory of these entries, bytes.
fn cost(group: &Group) -> usize {
    group.entries().iter().map(|entry| ENTRY_BYTES + entry.name.heap_bytes()).sum()
}

/// Takes those between two hashes out.
pub(super) fn cut_out<V>(entries: &mut BTreeMap<u64, V>, first: u64, upto: u64) -> BTreeMap<u64, V> {
    let mut out = entries.split_off(&first);
    if let Some(after) = upto.checked_add(1).filter(|after| out.last_key_value().is_some_and(|(last, _)| last >= after))
    {
        // Those of the two that are fewer are put in, one by one.
        let mut rest = out.split_off(&after);
        if rest.len() > entries.len() {
            std::mem::swap(&mut rest, entries);
        }
        entries.extend(rest);
    }
    out
}

impl Tree {
    /// Forgets all that is known of an inode and of its entries, changes included: it is another rank's. How many entries
    /// were freed at once; the rest by [`Tree::free_some`].
    pub fn forget(&mut self, ino: Ino) -> usize {
        self.forget_inode(ino);
        let Some(mut slot) = self.dirs.remove(ino.0) else { return 0 };
        self.forget_known(&mut slot);
        self.bury(slot.entries)
    }

    /// Forgets all names of a directory with a hash in a range, changes included: they are another rank's.
    pub(crate) fn forget_names(&mut self, dir: Ino, first: u64, last: u64) {
        let (first, upto) = ends(first, last);
        let mut pages = Pages::new();
        self.edit_known(dir, |slot| {
            slot.complete.remove(first, upto);
            pages = slot.hashes.cut(first, upto);
        });
        self.bury_hashes(pages);
        let Some(slot) = self.dirs.get_mut(dir.0) else { return };
        if first == upto {
            self.heap_bytes -= slot.drop_where(first, |_| true);
            return;
        }
        let out = cut_out(&mut slot.entries, first, upto);
        self.bury(out);
    }

    /// Forgets the entries of a directory that the table has as they are here. Changed ones stay until they are there: of a
    /// directory that was removed, the rank of a part has the last word on that part's names.
    pub(crate) fn forget_known_names(&mut self, dir: Ino) {
        let mut pages = Pages::new();
        self.edit_known(dir, |slot| {
            slot.complete = Ranges::default();
            pages = slot.hashes.take();
        });
        self.bury_hashes(pages);
        let Some(slot) = self.dirs.get_mut(dir.0) else { return };
        let hashes: Vec<u64> = slot.entries.keys().copied().collect();
        let known = |entry: &Entry| entry.flags.get() & flag::HELD == 0;
        self.heap_bytes -= hashes.into_iter().map(|hash| slot.drop_where(hash, known)).sum::<usize>();
        if self.dirs.get(dir.0).is_some_and(|slot| slot.entries.is_empty()) {
            self.drop_dir(dir);
        }
    }

    /// Forgets what is known in ranges of a directory that goes itself.
    pub(crate) fn forget_known(&mut self, slot: &mut DirSlot) {
        self.heap_bytes -= slot.known_bytes();
        self.hash_bytes -= slot.hashes.heap_bytes();
        let pages = slot.hashes.take();
        self.bury_hashes(pages);
    }

    /// Frees hashes that are out of sight, and not counted any more.
    pub(crate) fn bury_hashes(&mut self, pages: Pages) {
        if pages.len() > AT_ONCE {
            self.heap_bytes += pages.values().map(Page::bytes).sum::<usize>();
            self.buried.push(DeferredFree::Hashes(pages));
        }
    }

    fn bury(&mut self, entries: Entries) -> usize {
        if entries.len() > AT_ONCE {
            self.buried.push(DeferredFree::Entries(entries));
            return 0;
        }
        self.heap_bytes -= entries.values().map(cost).sum::<usize>();
        entries.len()
    }

    /// Frees so many entries of what was forgotten, but those with one hash together, or as many pages of hashes: how many. Fewer than
    /// that: it was all.
    pub fn free_some(&mut self, max: usize) -> usize {
        let mut freed = 0;
        while let Some(last) = self.buried.last_mut() {
            if freed == max {
                break;
            }
            match last.free_one() {
                Some(bytes) => {
                    self.heap_bytes -= bytes;
                    freed += 1;
                }
                None => _ = self.buried.pop(),
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Inode, Kind, Name, Rank, Target, Time};

    use super::*;
    use crate::tree::{Config, HASH_MAX, Loaded, Lookup};

    const DIR: Ino = Ino(7);

    fn name(n: u64) -> Name {
        Name::new(format!("file {n}").as_bytes()).expect("a name")
    }

    fn a_directory(entries: u64) -> Tree {
        let mut tree =
            Tree::new((1, 2), Config { inline_max: 4096, rank: Rank::ZERO, frag: crate::FragConfig::default() });
        let mut dir = Inode::new(DIR, Kind::Dir, 0o755, 0, 0, Ino(0), Time(0));
        dir.size = entries;
        tree.load(Loaded::Inode(DIR, Some(Box::new(dir))));
        let entry = |n: u64| (name(n), Target { ino: Ino(100 + n), kind: Kind::File, remote: false });
        tree.load(Loaded::Range {
            dir: DIR,
            from_hash: 0,
            upto_hash: u64::MAX,
            entries: (0..entries).map(entry).collect(),
        });
        tree
    }

    #[test]
    fn a_large_directory_is_out_of_sight_at_once_and_freed_in_steps() {
        let mut tree = a_directory(1000);
        assert_eq!(tree.forget(DIR), 0);
        assert!(tree.dirs.get(DIR.0).is_none() && matches!(tree.entry(DIR, &name(1)), Lookup::Unknown));
        let full = tree.memory_bytes();
        let steps = (0..).take_while(|_| tree.free_some(100) == 100).count();
        assert_eq!((steps, tree.memory_bytes()), (10, 0));
        assert!(full > 0 && tree.free_some(1) == 0);
    }

    #[test]
    fn the_names_of_a_fragment_are_forgotten_and_no_others() {
        let quarter = (HASH_MAX + 1) / 4;
        for (first, upto) in [
            (0, quarter - 1),
            (quarter, 2 * quarter - 1),
            (2 * quarter, 3 * quarter - 1),
            (3 * quarter, HASH_MAX),
            (0, HASH_MAX),
        ] {
            let mut tree = a_directory(1000);
            tree.forget_names(DIR, first, upto);
            while tree.free_some(100) == 100 {}
            for n in 0..1000 {
                let moved = (first..=upto).contains(&tree.hash(&name(n)));
                assert_eq!(matches!(tree.entry(DIR, &name(n)), Lookup::Unknown), moved, "{n} of {first}..={upto}");
            }
            let left = (0..1000).filter(|n| !(first..=upto).contains(&tree.hash(&name(*n)))).count();
            assert_eq!(tree.dirs.get(DIR.0).map_or(0, |slot| slot.entries.len()), left);
        }
    }
}
