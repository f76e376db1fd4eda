//! Work under way between a rank and others, for those who test it from outside. Changes nothing.

use crate::cluster::state::Cluster;
use crate::core::Core;

impl Cluster {
    /// The work under way between this rank and others, in words: transactions, loans, migrations, letters that were
    /// not applied. Empty: nothing is.
    pub(crate) fn under_way(&self, core: &Core) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (rank, link) in &self.peers.links {
            if !link.outbox.is_empty() || !link.inbox.is_empty() {
                all.push(format!("letters to rank {rank}: {}, from it: {}", link.outbox.len(), link.inbox.len()));
            }
        }
        all.extend(self.borrowing.txs.keys().map(|tx| format!("transaction {} of rank {}", tx.number, tx.rank)));
        all.extend(self.borrowing.turns().map(|dir| format!("somebody has the turn with directory {dir}")));
        let locked = self.loans.locked_inos();
        all.extend(locked.into_iter().map(|ino| format!("inode {ino} is lent: {:?}", self.loans.locked(ino))));
        if !self.exports.is_idle() {
            let states = self.exports.migrations(core).into_iter().map(|migration| format!("{migration:?}"));
            all.extend(states);
        }
        if !core.mail.is_empty() {
            all.push(format!("{} messages wait for the journal", core.mail.len()));
        }
        all
    }
}
