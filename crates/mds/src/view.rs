//! The machine as those see it who show it or test it from outside: load, paths, and whether anything is under way. Changes nothing, but for
//! records that it remembers to be gone. Not the status that a server reports (`status.rs`).

use std::collections::BTreeMap;

use loligo_types::{Ino, LoadVec, Rank};

use crate::heat::{HeatAccount, Load, path_of};
use crate::machine::Mds;

impl Mds {
    /// The load of this rank at this moment. Walks over the hot fragments: not for every request.
    pub fn load_now(&self) -> Load {
        self.heat.load_now(&self.core, self.gate.len())
    }

    /// Both sides of the account at this time, for a check that heat is conserved. Walks over the hot fragments.
    pub fn heat_account(&self, now: u64) -> HeatAccount {
        self.heat.account(&self.core, now)
    }

    /// The last known load of another rank, and its age, milliseconds.
    pub fn load_of(&self, rank: Rank) -> Option<(Load, u64)> {
        self.heat.load_of(&self.core, rank)
    }

    /// The load of each hot directory with all that is below it, as far as the way up is in memory. For whoever looks for
    /// something to move; walks over all hot fragments and their ancestors.
    pub fn subtree_loads(&self) -> BTreeMap<Ino, LoadVec> {
        self.heat.subtree_loads(&self.core)
    }

    /// The path of a directory, if it can be told without reading.
    pub fn path_of(&self, dir: Ino) -> Option<String> {
        path_of(&self.core.tree, dir)
    }
}
