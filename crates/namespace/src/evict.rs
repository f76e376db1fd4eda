//! Lets go of clean records that were not used lately (a clock with one bit). Never of dirty ones.

use loligo_types::Ino;

use crate::tree::{Tree, flag};

/// Where the two clock hands stand: a place among the inodes, and a directory's place with a hash in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hand {
    inode: usize,
    dir: usize,
    hash: u64,
}

/// Entries looked at in one step; what is forgotten is forgotten as one range of hashes.
const STEP: usize = 64;

impl Tree {
    /// Drops clean records until at most `target_bytes` are in use, or nothing more can go in two rounds of the hands.
    /// Inodes that `pinned` names stay.
    pub fn evict(&mut self, target_bytes: usize, pinned: &dyn Fn(Ino) -> bool) {
        self.evict_some(target_bytes, usize::MAX, pinned);
    }

    /// The same in at most so many steps of about 64 inodes and 64 entries each; the hands go on from where they stand.
    pub fn evict_some(&mut self, target_bytes: usize, steps_max: usize, pinned: &dyn Fn(Ino) -> bool) {
        let mut steps = 2 * (self.inodes.places() / STEP + 1) + 2 * self.dirs.places();
        steps = (steps + 2 * self.entries_cached() / STEP).min(steps_max);
        while self.memory_bytes() > target_bytes && steps > 0 {
            self.step_inodes(pinned);
            self.step_entries();
            steps -= 1;
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

    /// Whether dirty xattrs or inline data keep the inode in memory.
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
        if self.hand.dir >= self.dirs.places() {
            (self.hand.dir, self.hand.hash) = (0, 0);
        }
        let place = self.hand.dir;
        let Some(slot) = self.dirs.at(place) else {
            (self.hand.dir, self.hand.hash) = (place + 1, 0);
            return;
        };
        let (dir, from) = (slot.ino, self.hand.hash);
        let (mut unused, mut last) = (Vec::new(), None);
        for (hash, group) in slot.entries.range(from..).take(STEP) {
            last = Some(*hash);
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
        if last.is_none() && from == 0 {
            // Nothing but that it is empty is known; its inode says that too.
            return self.drop_dir(dir);
        }
        self.drop_entries(dir, &unused);
    }

    /// Forgets entries; of the range between the first and the last, only the single entries left are known then.
    fn drop_entries(&mut self, dir: Ino, hashes: &[u64]) {
        let (Some(first), Some(last)) = (hashes.first(), hashes.last()) else { return };
        self.edit_ranges(dir, |ranges| ranges.remove(*first, *last));
        let slot = self.dirs.get_mut(dir.0).expect("its entries were just looked at");
        let freed: usize = hashes.iter().map(|hash| slot.drop_where(*hash, |_| true)).sum();
        self.heap_bytes -= freed;
        if self.dirs.get(dir.0).is_some_and(|slot| slot.entries.is_empty()) {
            self.drop_dir(dir);
        }
    }

    /// Forgets all entries of a directory.
    pub(crate) fn drop_dir(&mut self, dir: Ino) {
        if let Some(slot) = self.dirs.remove(dir.0) {
            self.heap_bytes -= slot.complete.heap_bytes();
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
