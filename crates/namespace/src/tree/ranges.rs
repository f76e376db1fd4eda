//! Which ranges of hashes of a directory are known in full: a set of inclusive intervals. Knows no entries.

/// Disjoint, not touching, ascending intervals.
#[derive(Clone, Default, Debug)]
pub struct Ranges {
    all: bool,
    some: Vec<(u64, u64)>,
}

impl Ranges {
    /// Everything is known.
    pub fn set_all(&mut self) {
        self.all = true;
        self.some = Vec::new();
    }

    /// The last hash up to which all is known from `hash` on, if `hash` itself is known.
    pub fn known_until(&self, hash: u64) -> Option<u64> {
        if self.all {
            return Some(u64::MAX);
        }
        let at = self.some.partition_point(|(from, _)| *from <= hash);
        let (_, upto) = *self.some.get(at.checked_sub(1)?)?;
        (hash <= upto).then_some(upto)
    }

    /// The last hash before this one that is known, if this one is not.
    pub fn end_before(&self, hash: u64) -> Option<u64> {
        let at = self.some.partition_point(|(from, _)| *from <= hash);
        Some(self.some.get(at.checked_sub(1)?)?.1)
    }

    /// True if this hash is known.
    #[inline]
    pub fn covers(&self, hash: u64) -> bool {
        self.all || self.known_until(hash).is_some()
    }

    /// Adds `from..=upto`.
    pub fn add(&mut self, from: u64, upto: u64) {
        if self.all || from > upto {
            return;
        }
        let start = self.some.partition_point(|(_, end)| end.saturating_add(1) < from);
        let stop = self.some.partition_point(|(begin, _)| *begin <= upto.saturating_add(1));
        let (mut low, mut high) = (from, upto);
        if start < stop {
            low = low.min(self.some[start].0);
            high = high.max(self.some[stop - 1].1);
        }
        self.some.splice(start..stop, [(low, high)]);
        if low == 0 && high == u64::MAX {
            self.set_all();
        }
    }

    /// Takes `from..=upto` out.
    pub fn remove(&mut self, from: u64, upto: u64) {
        if self.all {
            self.all = false;
            self.some = vec![(0, u64::MAX)];
        }
        let start = self.some.partition_point(|(_, end)| *end < from);
        let stop = self.some.partition_point(|(begin, _)| *begin <= upto);
        if start >= stop {
            return;
        }
        let (low, high) = (self.some[start].0, self.some[stop - 1].1);
        let mut rest = Vec::with_capacity(2);
        if low < from {
            rest.push((low, from - 1));
        }
        if high > upto {
            rest.push((upto + 1, high));
        }
        self.some.splice(start..stop, rest);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.some.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_set_of_numbers() {
        let mut ranges = Ranges::default();
        let mut model = [false; 64];
        let mut random = loligo_types::Random::new(12345);
        for _ in 0..20_000 {
            let state = random.bits();
            let (a, b) = ((state >> 20) % 64, (state >> 40) % 64);
            let (from, upto) = (a.min(b), a.max(b));
            let add = state >> 63 == 1;
            if add {
                ranges.add(from, upto)
            } else {
                ranges.remove(from, upto)
            }
            (from..=upto).for_each(|i| model[i as usize] = add);
            for (i, known) in model.iter().enumerate() {
                assert_eq!(ranges.covers(i as u64), *known);
                let end = (i..64).take_while(|j| model[*j]).last().map(|j| j as u64);
                assert_eq!(ranges.known_until(i as u64), end);
            }
        }
    }

    #[test]
    fn two_halves_make_all_and_a_hole_splits_it() {
        let mut ranges = Ranges::default();
        ranges.add(0, 99);
        ranges.add(100, u64::MAX);
        assert_eq!(ranges.known_until(0), Some(u64::MAX));
        ranges.remove(50, 60);
        assert_eq!(ranges.known_until(0), Some(49));
        assert_eq!(ranges.known_until(55), None);
        assert_eq!(ranges.known_until(61), Some(u64::MAX));
    }
}
