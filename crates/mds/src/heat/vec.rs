//! The five things that are counted of a fragment of a directory, and what they weigh together.

use super::decay::fading;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit {
    /// An inode or a name was read.
    Ird,
    /// An inode or a name was changed.
    Iwr,
    /// Entries were listed.
    Readdir,
    /// Records were read from the table.
    Fetch,
    /// Records were written into the table.
    Store,
}

/// So much of each; counts, mostly decayed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LoadVec {
    /// Reads of inodes and names.
    pub ird: f64,
    /// Changes of inodes and names.
    pub iwr: f64,
    /// Listings.
    pub readdir: f64,
    /// Reads of the table: one for each directory and read.
    pub fetch: f64,
    /// Writes into the table: one for each directory and checkpoint.
    pub store: f64,
}

impl LoadVec {
    /// The metadata load: `IRD + 2 IWR + READDIR + 2 FETCH + 4 STORE`.
    pub fn metaload(&self) -> f64 {
        self.ird + 2.0 * self.iwr + self.readdir + 2.0 * self.fetch + 4.0 * self.store
    }

    /// One kind.
    pub fn of(&mut self, hit: Hit) -> &mut f64 {
        match hit {
            Hit::Ird => &mut self.ird,
            Hit::Iwr => &mut self.iwr,
            Hit::Readdir => &mut self.readdir,
            Hit::Fetch => &mut self.fetch,
            Hit::Store => &mut self.store,
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: &LoadVec) {
        self.ird += other.ird;
        self.iwr += other.iwr;
        self.readdir += other.readdir;
        self.fetch += other.fetch;
        self.store += other.store;
    }

    /// This many times as much of each.
    #[must_use]
    pub fn times(&self, factor: f64) -> LoadVec {
        LoadVec {
            ird: self.ird * factor,
            iwr: self.iwr * factor,
            readdir: self.readdir * factor,
            fetch: self.fetch * factor,
            store: self.store * factor,
        }
    }
}

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
