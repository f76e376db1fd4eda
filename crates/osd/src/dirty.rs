//! Which objects of a file were changed and not synced. Not which bytes.

use std::collections::BTreeMap;

/// Ranges kept exactly; with more, the two at the end grow together. A sync may cover more than it
/// must, never less.
const RANGES_MAX: usize = 64;

/// Indexes of objects, as ranges with both ends included that never touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    ranges: BTreeMap<u64, u64>,
    /// True if objects were removed.
    pub(crate) removed: bool,
    /// The count of changes when this was last added to.
    pub(crate) stamp: u64,
}

impl Dirty {
    /// Adds `first..=last`.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        while let Some((start, end)) = self.touching(first, last) {
            self.ranges.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.ranges.insert(first, last);
        if self.ranges.len() > RANGES_MAX
            && let Some((start, end)) = self.ranges.pop_last()
            && let Some(mut before) = self.ranges.last_entry()
        {
            debug_assert!(*before.get() < start);
            *before.get_mut() = end;
        }
    }

    /// Adds the objects of `other`.
    pub(crate) fn merge(&mut self, other: Dirty) {
        self.removed |= other.removed;
        for (first, last) in other.ranges {
            self.add(first, last);
        }
    }

    /// A range that overlaps or touches `first..=last`.
    fn touching(&self, first: u64, last: u64) -> Option<(u64, u64)> {
        let (start, end) = self.ranges.range(..=last.saturating_add(1)).next_back()?;
        (end.saturating_add(1) >= first).then_some((*start, *end))
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, ascending.
    pub(crate) fn into_ranges(self) -> Vec<(u64, u64)> {
        self.ranges.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(added: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut dirty = Dirty::default();
        added.iter().for_each(|(first, last)| dirty.add(*first, *last));
        dirty.into_ranges()
    }

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        assert_eq!(ranges(&[(5, 5), (6, 6), (4, 4)]), [(4, 6)]);
        assert_eq!(ranges(&[(1, 2), (8, 9), (5, 5)]), [(1, 2), (5, 5), (8, 9)]);
        assert_eq!(ranges(&[(1, 2), (8, 9), (5, 5), (0, 20)]), [(0, 20)]);
        assert_eq!(ranges(&[(0, u64::MAX), (7, 7)]), [(0, u64::MAX)]);
    }

    #[test]
    fn many_scattered_ranges_are_covered_by_few() {
        let all: Vec<(u64, u64)> = (0..1000).map(|i| ((i * 37 % 1000) * 10, (i * 37 % 1000) * 10)).collect();
        let covered = ranges(&all);
        assert!(covered.len() <= RANGES_MAX);
        for (index, _) in all {
            assert!(covered.iter().any(|(first, last)| (first..=last).contains(&&index)), "{index}");
        }
    }
}
