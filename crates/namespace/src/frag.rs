//! In how many fragments a directory is cut, and when that changes. A fragment is a range of the hashes of names
//! ([`loligo_types::Frag`]); entries are found by their hash however it is cut, so a cut moves nothing: it says in which
//! units a directory is counted, listed and moved to other ranks. Which of them a name is in, see [`loligo_types::Frag::of`].
//!
//! A directory is cut in the change that makes it too large or small, by its number of entries alone: hashes are uniform, so
//! equal ranges stay equally full.

use loligo_types::{Frag, Ino, Inode, Kind, Spread};

/// When directories are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragConfig {
    /// With more entries than this in a fragment a directory is split.
    pub split_entries: u64,
    /// With fewer entries than this in a fragment it is merged.
    pub merge_entries: u64,
    /// A split makes 2^this fragments of one; a merge undoes a split.
    pub split_bits: u8,
}

impl Default for FragConfig {
    /// Measured: docs/performance.md, "Fragments".
    fn default() -> FragConfig {
        FragConfig { split_entries: 10_000, merge_entries: 50, split_bits: 3 }
    }
}

/// A directory is now cut otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recut {
    /// Which.
    pub dir: Ino,
    /// It was cut into 2^this.
    pub from: u8,
    /// It is cut into 2^this.
    pub to: u8,
}

impl FragConfig {
    /// Largest numbers that are taken.
    const ENTRIES_MAX: u64 = 1 << 32;
    const SPLIT_BITS_MAX: u8 = 8;

    /// Checks that the settings do not contradict each other; the error says what to do.
    pub fn check(&self) -> Result<(), String> {
        let FragConfig { split_entries, merge_entries, split_bits } = *self;
        if !(1..=FragConfig::ENTRIES_MAX).contains(&split_entries) {
            return Err(format!("frag_split_entries = {split_entries}: this must be from 1 to {}", 1u64 << 32));
        }
        if !(1..=FragConfig::SPLIT_BITS_MAX).contains(&split_bits) {
            return Err(format!("frag_split_bits = {split_bits}: this must be from 1 to 8"));
        }
        let most = (split_entries >> split_bits) / 2;
        if merge_entries > most {
            return Err(format!(
                "frag_merge_entries = {merge_entries}: a directory that was just split would be merged again; with \
                 frag_split_entries = {split_entries} and frag_split_bits = {split_bits} this must be at most {most}, half \
                 of what a split leaves in a fragment"
            ));
        }
        Ok(())
    }

    /// The coarsest cut that so many entries allow.
    pub fn bits_for(&self, entries: u64) -> u8 {
        (0..Frag::BITS_MAX).find(|bits| !self.is_full(entries, *bits)).unwrap_or(Frag::BITS_MAX)
    }

    fn is_full(&self, entries: u64, bits: u8) -> bool {
        entries > self.split_entries.saturating_mul(1 << bits)
    }

    fn is_sparse(&self, entries: u64, bits: u8) -> bool {
        entries < self.merge_entries.saturating_mul(1 << bits)
    }

    /// After the number of entries has changed. What a directory is expected to have counts as being there already.
    #[inline]
    pub(crate) fn adapt(&self, dir: &mut Inode) {
        if dir.is_spread() {
            // What it has here is not all that it has: see `Tree::estimate`.
            return;
        }
        if self.is_full(dir.size, dir.frag_bits) {
            self.split(dir);
        } else if dir.frag_bits > 0 && self.is_sparse(dir.size, dir.frag_bits) {
            self.merge(dir);
        }
    }

    #[cold]
    fn split(&self, dir: &mut Inode) {
        while dir.frag_bits < Frag::BITS_MAX && self.is_full(dir.size, dir.frag_bits) {
            dir.frag_bits = (dir.frag_bits + self.split_bits).min(Frag::BITS_MAX);
        }
    }

    fn merge(&self, dir: &mut Inode) {
        let least = match dir.expected_entries() {
            0 => 0,
            expected => self.bits_for(expected),
        };
        while dir.frag_bits > least && self.is_sparse(dir.size, dir.frag_bits) {
            dir.frag_bits = dir.frag_bits.saturating_sub(self.split_bits).max(least);
        }
    }

    /// In how many fragments, as bits, a directory should be cut that several ranks have and that has about so many entries.
    pub fn adapted(&self, dir: &Inode, entries: u64) -> u8 {
        let mut copy = dir.clone();
        copy.size = entries;
        if let Some(extra) = copy.extra.as_deref_mut() {
            extra.spread = Spread::No;
        }
        self.adapt(&mut copy);
        copy.frag_bits
    }

    /// After the policy has changed: as coarse as it and the entries allow, of which there are so many.
    pub(crate) fn cut_anew(&self, dir: &mut Inode, entries: u64) {
        debug_assert!(dir.kind == Kind::Dir, "only directories have fragments");
        dir.frag_bits = self.bits_for(dir.expected_entries().max(entries));
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::Time;

    use super::*;

    const SMALL: FragConfig = FragConfig { split_entries: 16, merge_entries: 2, split_bits: 2 };

    fn dir() -> Inode {
        Inode::new(Ino(7), Kind::Dir, 0o755, 0, 0, Ino::ROOT, Time(0))
    }

    /// The sizes at which the cut changes on the way to `last`, with the cut.
    fn walk(dir: &mut Inode, sizes: impl Iterator<Item = u64>) -> Vec<(u64, u8)> {
        let mut changes = Vec::new();
        for size in sizes {
            let before = dir.frag_bits;
            dir.size = size;
            SMALL.adapt(dir);
            if dir.frag_bits != before {
                changes.push((size, dir.frag_bits));
            }
        }
        changes
    }

    #[test]
    fn a_directory_splits_as_it_grows_and_merges_as_it_shrinks() {
        let mut dir = dir();
        assert_eq!(walk(&mut dir, 0..2000), [(17, 2), (65, 4), (257, 6), (1025, 8)]);
        assert_eq!(walk(&mut dir, (0..2000).rev()), [(511, 6), (127, 4), (31, 2), (7, 0)]);
    }

    #[test]
    fn no_size_is_both_too_large_and_too_small() {
        for config in [SMALL, FragConfig::default(), FragConfig { split_entries: 4, merge_entries: 1, split_bits: 1 }] {
            config.check().expect("consistent");
            for size in (0..100).chain((0..30).map(|shift| (1 << shift) + 3)) {
                for bits in 0..=Frag::BITS_MAX {
                    let mut dir = Inode { size, frag_bits: bits, ..dir() };
                    config.adapt(&mut dir);
                    let once = dir.frag_bits;
                    config.adapt(&mut dir);
                    assert_eq!(dir.frag_bits, once, "{config:?} {size} entries from {bits} bits");
                    dir.size += 1;
                    config.adapt(&mut dir);
                    dir.size -= 1;
                    config.adapt(&mut dir);
                    let again = dir.frag_bits;
                    dir.size += 1;
                    config.adapt(&mut dir);
                    assert_eq!(dir.frag_bits, again, "{config:?} flaps between {size} and {}", size + 1);
                }
            }
        }
    }

    #[test]
    fn what_is_expected_cuts_at_once_and_keeps_from_merging() {
        let mut dir = dir();
        dir.extra_mut().expected_entries = 100;
        SMALL.cut_anew(&mut dir, 0);
        assert_eq!(dir.frag_bits, 3, "16 << 3 is the first that takes 100");
        assert_eq!(walk(&mut dir, (0..300).chain((0..300).rev())), [(129, 5), (63, 3)]);
        dir.extra_mut().expected_entries = 0;
        SMALL.cut_anew(&mut dir, 0);
        assert_eq!(dir.frag_bits, 0);
        SMALL.cut_anew(&mut dir, 40);
        assert_eq!(dir.frag_bits, 2, "as coarse as its entries allow");
    }

    #[test]
    fn the_largest_directory_has_the_finest_fragments() {
        let mut dir = Inode { size: u64::MAX, ..dir() };
        SMALL.adapt(&mut dir);
        assert_eq!(dir.frag_bits, Frag::BITS_MAX);
        assert_eq!(SMALL.bits_for(u64::MAX), Frag::BITS_MAX);
    }

    #[test]
    fn settings_that_contradict_are_refused_by_name() {
        let refused = |split_entries, merge_entries, split_bits| {
            FragConfig { split_entries, merge_entries, split_bits }.check().expect_err("refused")
        };
        assert!(refused(0, 0, 3).contains("frag_split_entries"));
        assert!(refused(1000, 10, 0).contains("frag_split_bits"));
        assert!(refused(1000, 10, 9).contains("frag_split_bits"));
        let text = refused(800, 51, 3);
        assert!(text.contains("frag_merge_entries = 51") && text.contains("at most 50"), "{text}");
        FragConfig { split_entries: 800, merge_entries: 50, split_bits: 3 }.check().expect("half of 100");
    }
}
