//! The hot fragments of directories: a bounded map of decaying counters. When it is full, the coldest eighth goes at once.

use loligo_types::{Frag, FragHeat, Hit, Ino, LoadVec};

use super::vec::{DecayVec, DirChanges};
use loligo_types::hash::IntMap;

/// The unit that can move: a fragment of a directory.
pub(crate) type Spot = (Ino, Frag);

/// The map.
#[derive(Debug)]
pub(crate) struct HeatTable {
    spots: IntMap<Spot, DecayVec>,
    max: usize,
    half_life_ms: u64,
}

impl HeatTable {
    /// Of at most so many fragments.
    pub(crate) fn new(max: usize, half_life_ms: u64) -> HeatTable {
        HeatTable { spots: IntMap::default(), max: max.max(1), half_life_ms }
    }

    /// Counts.
    pub(crate) fn hit(&mut self, spot: Spot, hit: Hit, n: f64, now_ms: u64) {
        if let Some(load) = self.spots.get_mut(&spot) {
            return load.hit(hit, n, now_ms, self.half_life_ms);
        }
        if self.spots.len() >= self.max {
            self.drop_coldest(now_ms);
        }
        self.spots.entry(spot).or_default().hit(hit, n, now_ms, self.half_life_ms);
    }

    /// Counts changes of directories in a fragment that was just counted.
    pub(crate) fn hit_dirs(&mut self, spot: Spot, more: DirChanges, now_ms: u64) {
        if let Some(load) = self.spots.get_mut(&spot) {
            load.hit_dirs(more, now_ms, self.half_life_ms);
        }
    }

    /// Counted changes of directories. They do not go along when fragments move or are cut otherwise, but are counted anew.
    pub(crate) fn dirs(&self, spot: Spot, now_ms: u64) -> DirChanges {
        self.spots.get(&spot).map(|load| load.dirs(now_ms, self.half_life_ms)).unwrap_or_default()
    }

    /// Number of fragments that it knows, and the memory for them, bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.spots.len(), self.spots.capacity() * (size_of::<(Spot, DecayVec)>() + 1))
    }

    /// Number of fragments that it knows.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.spots.len()
    }

    /// All, in no order.
    pub(crate) fn iter(&self, now_ms: u64) -> impl Iterator<Item = (Spot, LoadVec)> + '_ {
        self.spots.iter().map(move |(spot, load)| (*spot, load.get(now_ms, self.half_life_ms)))
    }

    /// The sum of all.
    pub(crate) fn sum(&self, now_ms: u64) -> LoadVec {
        // In no order, so the last bits may differ between two maps; nothing is decided by them.
        let mut sum = LoadVec::default();
        self.iter(now_ms).for_each(|(_, load)| sum.add(&load));
        sum
    }

    /// The hottest, hottest first; of equals the one with the lower number.
    pub(crate) fn hottest(&self, count: usize, now_ms: u64) -> Vec<(Spot, LoadVec)> {
        let mut all: Vec<(Spot, LoadVec)> = self.iter(now_ms).collect();
        let order = |a: &(Spot, LoadVec), b: &(Spot, LoadVec)| {
            b.1.metaload().total_cmp(&a.1.metaload()).then_with(|| a.0.cmp(&b.0))
        };
        if count > 0 && count < all.len() {
            all.select_nth_unstable_by(count - 1, order);
        }
        all.truncate(count);
        all.sort_by(order);
        all
    }

    /// Takes fragments out, which are this rank's no more; in no order.
    pub(crate) fn take(&mut self, is_gone: impl Fn(&Spot) -> bool, now_ms: u64) -> Vec<FragHeat> {
        let gone = self.spots.extract_if(|spot, _| is_gone(spot));
        gone.map(|((dir, frag), load)| FragHeat { dir, frag, load: load.get(now_ms, self.half_life_ms) }).collect()
    }

    /// A directory is cut otherwise: what was counted of its fragments counts for those that take their place, in equal
    /// parts. `cut`: how many bits count at least where this fragment is, because parts of the directory are others'.
    pub(crate) fn recut(&mut self, dir: Ino, bits: u8, cut: impl Fn(Frag) -> u8, now_ms: u64) {
        let of_it: Vec<Spot> = self.spots.keys().filter(|(of, _)| *of == dir).copied().collect();
        for spot in of_it {
            let (frag, to) = (spot.1, bits.max(cut(spot.1)));
            if to == frag.bits {
                continue;
            }
            let Some(load) = self.spots.remove(&spot).map(|load| load.get(now_ms, self.half_life_ms)) else { continue };
            if to < frag.bits {
                self.add((dir, Frag::of(frag.first(), to)), &load, now_ms);
            } else if 1 << (to - frag.bits) <= self.max / 8 {
                let part = load.times(0.5f64.powi(i32::from(to - frag.bits)));
                frag.split(to - frag.bits).into_iter().for_each(|frag| self.add((dir, frag), &part, now_ms));
            }
            // Else it is into more than can be remembered: they are counted anew.
        }
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, spot: Spot, load: &LoadVec, now_ms: u64) {
        if self.spots.len() >= self.max && !self.spots.contains_key(&spot) {
            self.drop_coldest(now_ms);
        }
        self.spots.entry(spot).or_default().add(load, now_ms, self.half_life_ms);
    }

    fn drop_coldest(&mut self, now_ms: u64) {
        let mut all: Vec<(f64, Spot)> = self.iter(now_ms).map(|(spot, load)| (load.metaload(), spot)).collect();
        let count = (self.max / 8).clamp(1, all.len());
        all.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        for (_, spot) in &all[..count] {
            self.spots.remove(spot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(n: u64) -> Spot {
        (Ino(n), Frag::WHOLE)
    }

    #[test]
    fn a_full_table_drops_the_coldest() {
        let mut table = HeatTable::new(16, 5000);
        // 16 fragments with 1 to 16 reads; then as old as the first is in half-lives.
        for n in 1..=16 {
            table.hit(spot(n), Hit::Ird, n as f64, 0);
        }
        // The first is hot again, the last was hot by changes.
        table.hit(spot(1), Hit::Ird, 50.0, 5000);
        assert_eq!(table.len(), 16);
        table.hit(spot(100), Hit::Iwr, 1.0, 5000);
        assert_eq!(table.len(), 15, "an eighth went, one came");
        let known: Vec<u64> = table.hottest(20, 5000).iter().map(|((ino, _), _)| ino.0).collect();
        assert_eq!(known, [1, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 100], "2 and 3 were the coldest");
        for n in 200..100_000 {
            table.hit(spot(n), Hit::Ird, 0.001, 5000);
            assert!(table.len() <= 16);
        }
        assert_eq!(table.hottest(1, 5000)[0].0, spot(1), "the hottest stays whatever comes");
    }

    #[test]
    fn what_was_counted_is_parted_and_joined_with_the_fragments() {
        let mut table = HeatTable::new(64, 5000);
        table.hit((Ino(7), Frag::WHOLE), Hit::Iwr, 8.0, 0);
        table.hit(spot(8), Hit::Iwr, 1.0, 0);
        let no_routes = |_| 0;
        table.recut(Ino(7), 3, no_routes, 0);
        assert_eq!((table.len(), table.sum(0).iwr), (9, 9.0));
        assert!(table.iter(0).all(|(_, load)| load.iwr == 1.0));
        table.hit((Ino(7), Frag::of(0, 3)), Hit::Ird, 4.0, 5000);
        // The upper half is a line of its own in the subtree map.
        table.recut(Ino(7), 0, |frag| u8::from(Frag::WHOLE.split(1)[1].covers(frag)), 5000);
        let mut all: Vec<(Spot, f64, f64)> = table.iter(5000).map(|(spot, load)| (spot, load.iwr, load.ird)).collect();
        all.sort_by_key(|(spot, ..)| *spot);
        let upper = (Ino(7), Frag::WHOLE.split(1)[1]);
        assert_eq!(all, [((Ino(7), Frag::WHOLE), 2.0, 4.0), (upper, 2.0, 0.0), (spot(8), 0.5, 0.0)]);
        table.recut(Ino(7), Frag::BITS_MAX, no_routes, 5000);
        assert_eq!(table.len(), 1, "sixteen million counters are not made");
    }

    #[test]
    fn a_directory_cut_finer_than_is_remembered_keeps_to_the_limit() {
        let mut table = HeatTable::new(64, 5000);
        for dir in 0..16 {
            table.hit(spot(dir), Hit::Ird, 8.0, 0);
        }
        for dir in 0..16 {
            table.recut(Ino(dir), 3, |_| 0, 0);
            assert!(table.len() <= 64);
        }
    }

    #[test]
    fn fragments_of_a_directory_are_counted_apart_and_forgotten_together() {
        let mut table = HeatTable::new(16, 5000);
        for (frag, n) in Frag::WHOLE.split(1).into_iter().zip([1.0, 3.0]) {
            table.hit((Ino(7), frag), Hit::Readdir, n, 0);
        }
        table.hit(spot(8), Hit::Fetch, 1.0, 0);
        assert_eq!(table.sum(0), LoadVec { readdir: 4.0, fetch: 1.0, ..LoadVec::default() });
        assert_eq!(table.hottest(1, 0)[0].0, (Ino(7), Frag::WHOLE.split(1)[1]));
        let mut taken = table.take(|(dir, _)| *dir == Ino(7), 5000);
        assert_eq!((table.len(), table.sum(0).metaload()), (1, 2.0));
        taken.sort_by_key(|heat| heat.frag);
        let loads: Vec<f64> = taken.iter().map(|heat| heat.load.readdir).collect();
        assert_eq!(loads, [0.5, 1.5], "as they are by then");
    }
}
