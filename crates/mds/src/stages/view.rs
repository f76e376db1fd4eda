//! The machine as those see it who show it or test it from outside: load, paths, and whether anything is under way. Changes nothing, but for
//! records that it remembers to be gone. Not the status that a server reports (`status.rs`).

use std::collections::BTreeMap;

use loligo_types::{Ino, LoadVec, Rank};

use crate::admin::DrainStatus;
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

    /// The hash of a name, by which fragments have it.
    pub fn tree_hash(&self, name: &str) -> u64 {
        loligo_namespace::hash63(self.core.config.hash_key, name.as_bytes())
    }

    /// The handles that are open: the number that their client calls itself, their own, and of what they are.
    pub fn open_handles(&self) -> Vec<(u64, u64, Ino)> {
        let sessions = self.sessions.iter().map(|(slot, session)| (session.client, self.opens.handles_of(slot)));
        sessions.flat_map(|(client, all)| all.into_iter().map(move |(number, of)| (client, number, of.ino))).collect()
    }

    /// The inodes that are in memory, and so this rank's, ascending.
    pub fn inodes_held(&self) -> Vec<Ino> {
        let (inodes, _) = self.core.tree.places();
        let mut all: Vec<Ino> = (0..inodes).filter_map(|place| self.core.tree.inode_at(place)).collect();
        all.retain(|ino| self.core.tree.inode(*ino).is_some());
        all.sort();
        all
    }

    /// The work under way between this rank and others, in words: transactions, loans, migrations, letters that were
    /// not applied. Empty: nothing is.
    pub fn under_way(&self) -> Vec<String> {
        self.cluster.under_way(&self.core)
    }

    /// Files in memory that live by themselves here though the directory that counts them is another rank's, as far as that is
    /// known.
    pub fn far_from_home(&mut self) -> Vec<Ino> {
        self.cluster.far_from_home(&mut self.core)
    }

    /// Progress of the drain, for an administrator; `None`: the rank is not being drained.
    pub fn drain_status(&self) -> Option<DrainStatus> {
        self.cluster.drain_status(&self.core, &self.sessions)
    }
}
