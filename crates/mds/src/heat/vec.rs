//! The counters of a fragment, which decay together: the five of its load, whose weights are in `loligo_types::heat`, and how often directories in
//! it came, went, or were changed so that others may pass them or not. Those say how a directory is best placed; they are no load of their own.

use loligo_types::heat::{Hit, LoadVec};

use super::decay::fading;

/// Changes of directory lookup state (names, permissions and places of directories) below a fragment: counts, mostly decayed. Digest of ShardFS, §2.1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirChanges {
    /// Directories made.
    pub made: f64,
    /// Removed or renamed.
    pub others: f64,
    /// Given away, opened or closed to others.
    pub restricted: f64,
}

impl DirChanges {
    /// This many times as many.
    #[must_use]
    pub fn times(self, factor: f64) -> DirChanges {
        DirChanges { made: self.made * factor, others: self.others * factor, restricted: self.restricted * factor }
    }
}

/// Decaying counters that are brought up to date together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DecayVec {
    values: LoadVec,
    dirs: DirChanges,
    at_ms: u64,
}

impl DecayVec {
    /// Counts `n` of one kind at this time.
    pub fn hit(&mut self, hit: Hit, n: f64, now_ms: u64, half_life_ms: u64) {
        self.catch_up(now_ms, half_life_ms);
        *self.values.of(hit) += n;
    }

    /// Counts changes of directories; each is a change ([`Hit::Iwr`]), too, and counted as that besides.
    pub fn hit_dirs(&mut self, more: DirChanges, now_ms: u64, half_life_ms: u64) {
        self.catch_up(now_ms, half_life_ms);
        self.dirs.made += more.made;
        self.dirs.others += more.others;
        self.dirs.restricted += more.restricted;
    }

    #[inline]
    fn catch_up(&mut self, now_ms: u64, half_life_ms: u64) {
        if now_ms > self.at_ms {
            (self.values, self.dirs) = (self.get(now_ms, half_life_ms), self.dirs(now_ms, half_life_ms));
            self.at_ms = now_ms;
        }
    }

    /// Counts all that others counted.
    pub fn add(&mut self, load: &LoadVec, now_ms: u64, half_life_ms: u64) {
        self.catch_up(now_ms, half_life_ms);
        self.values.add(load);
    }

    /// The values at this time.
    pub fn get(&self, now_ms: u64, half_life_ms: u64) -> LoadVec {
        self.values.times(fading(now_ms.saturating_sub(self.at_ms), half_life_ms))
    }

    /// The values of the changes of directories at this time.
    pub fn dirs(&self, now_ms: u64, half_life_ms: u64) -> DirChanges {
        self.dirs.times(fading(now_ms.saturating_sub(self.at_ms), half_life_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_counters_weigh_what_the_formula_says() {
        let load = LoadVec { ird: 1.0, iwr: 10.0, readdir: 100.0, fetch: 1000.0, store: 10_000.0 };
        assert_eq!(load.metaload(), 42_121.0);
    }

    #[test]
    fn all_are_halved_together() {
        let mut load = DecayVec::default();
        for (hit, n) in [(Hit::Ird, 2.0), (Hit::Iwr, 4.0), (Hit::Readdir, 6.0), (Hit::Fetch, 8.0), (Hit::Store, 10.0)] {
            load.hit(hit, n, 0, 5000);
        }
        load.hit_dirs(DirChanges { made: 2.0, others: 6.0, restricted: 4.0 }, 0, 5000);
        assert_eq!(load.dirs(5000, 5000), DirChanges { made: 1.0, others: 3.0, restricted: 2.0 });
        let half = LoadVec { ird: 1.0, iwr: 2.0, readdir: 3.0, fetch: 4.0, store: 5.0 };
        assert_eq!(load.get(5000, 5000), half);
        load.hit(Hit::Ird, 1.0, 5000, 5000);
        assert_eq!(load.get(10_000, 5000), LoadVec { ird: 1.0, ..half.times(0.5) });
    }
}
