//! Five counters of a fragment that decay together. What they are and weigh: `loligo_types::heat`.

use loligo_types::heat::{Hit, LoadVec};

use super::decay::fading;

/// Five decaying counters that are brought up to date together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DecayVec {
    values: LoadVec,
    at_ms: u64,
}

impl DecayVec {
    /// Counts `n` of one kind at this time.
    pub fn hit(&mut self, hit: Hit, n: f64, now_ms: u64, half_life_ms: u64) {
        if now_ms > self.at_ms {
            self.values = self.get(now_ms, half_life_ms);
            self.at_ms = now_ms;
        }
        *self.values.of(hit) += n;
    }

    /// Counts all that others counted.
    pub fn add(&mut self, load: &LoadVec, now_ms: u64, half_life_ms: u64) {
        self.hit(Hit::Ird, 0.0, now_ms, half_life_ms);
        self.values.add(load);
    }

    /// What they are worth at this time.
    pub fn get(&self, now_ms: u64, half_life_ms: u64) -> LoadVec {
        self.values.times(fading(now_ms.saturating_sub(self.at_ms), half_life_ms))
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
    fn all_five_are_halved_together() {
        let mut load = DecayVec::default();
        for (hit, n) in [(Hit::Ird, 2.0), (Hit::Iwr, 4.0), (Hit::Readdir, 6.0), (Hit::Fetch, 8.0), (Hit::Store, 10.0)] {
            load.hit(hit, n, 0, 5000);
        }
        let half = LoadVec { ird: 1.0, iwr: 2.0, readdir: 3.0, fetch: 4.0, store: 5.0 };
        assert_eq!(load.get(5000, 5000), half);
        load.hit(Hit::Ird, 1.0, 5000, 5000);
        assert_eq!(load.get(10_000, 5000), LoadVec { ird: 1.0, ..half.times(0.5) });
    }
}
