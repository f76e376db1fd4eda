//! The five things that are counted of a fragment of a directory, what they weigh together, and how ranks tell each other of
//! them. Not the counting.

use crate::{Frag, Ino};

/// Kind of a counted hit.
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

    /// True if every number can be a count: finite and not negative.
    pub fn is_sound(&self) -> bool {
        [self.ird, self.iwr, self.readdir, self.fetch, self.store].iter().all(|n| n.is_finite() && *n >= 0.0)
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

/// Counters of a fragment of a directory, as they go along when that moves to another rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FragHeat {
    /// The directory.
    pub dir: Ino,
    /// The fragment.
    pub frag: Frag,
    /// Counts, decayed up to when it was sent.
    pub load: LoadVec,
}
