//! View of a cluster for those who test the machine from outside: whether anything is under way between ranks, and what a
//! rank has in memory. Changes nothing.

use loligo_types::Ino;

use crate::machine::Mds;

impl Mds {
    /// The work under way between this rank and others, in words: transactions, loans, migrations, letters that were
    /// not applied. Empty: nothing is.
    pub fn under_way(&self) -> Vec<String> {
        let cluster = &self.cluster;
        let mut all: Vec<String> = Vec::new();
        for (rank, link) in &cluster.peers.links {
            if !link.outbox.is_empty() || !link.inbox.is_empty() {
                all.push(format!("letters to rank {rank}: {}, from it: {}", link.outbox.len(), link.inbox.len()));
            }
        }
        all.extend(cluster.borrowing.txs.keys().map(|tx| format!("transaction {} of rank {}", tx.number, tx.rank)));
        all.extend(self.cluster.borrowing.turns().map(|dir| format!("somebody has the turn with directory {dir}")));
        let locked = cluster.loans.locked_inos();
        all.extend(locked.into_iter().map(|ino| format!("inode {ino} is lent: {:?}", cluster.loans.locked(ino))));
        if !cluster.exports.is_idle() {
            let states =
                self.cluster.exports.migrations(&self.core).into_iter().map(|migration| format!("{migration:?}"));
            all.extend(states);
        }
        if !self.core.mail.is_empty() {
            all.push(format!("{} messages wait for the journal", self.core.mail.len()));
        }
        all
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
}
