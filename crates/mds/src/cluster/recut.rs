//! In how many fragments a rank cuts what it has of a directory whose fragments are several ranks', and how few lines of the
//! subtree map say what it has. Looked at from time to time, because nobody on the way of a create knows how many entries
//! there are: a rank counts only what has changed. How many there should be is decided in `loligo_namespace::FragConfig`.

use std::collections::BTreeSet;

use loligo_namespace::Estimate;
use loligo_types::{Event, Frag, Ino, Inode, Route};

use crate::load::Waiter;
use crate::machine::Mds;

/// Interval of the look for halves to join, milliseconds.
const EVERY_MS: u64 = 200;
/// Most times that names are read for one look. Records that were read may be gone when they are looked at, if memory
/// is short.
const READS_MAX: u32 = 64;

/// A fragment of which this rank has both halves, if there is one.
fn both_halves(own: &[Frag]) -> Option<Frag> {
    let is_pair = |pair: &&[Frag]| pair[0].bits == pair[1].bits && pair[0].parent() == pair[1].parent();
    own.windows(2).find(is_pair).and_then(|pair| pair[0].parent())
}

impl Mds {
    /// Looks at all that this rank has parts of.
    pub(crate) fn recut_spread(&mut self) {
        if self.core.now.mono_ms < self.cluster.placement.cuts_at_ms
            || !self.cluster.peers.ready
            || self.grace.is_some()
            || self.core.stopping
        {
            return;
        }
        self.cluster.placement.cuts_at_ms = self.core.now.mono_ms + EVERY_MS;
        let own = self.core.tree.routes().filter(|line| line.frag != Frag::WHOLE && line.rank == self.core.me());
        let dirs: BTreeSet<Ino> = own.map(|line| line.dir).collect();
        self.cluster.placement.cuts.retain(|dir, _| dirs.contains(dir));
        for dir in dirs {
            let busy = self.cluster.loans.locked(dir).is_some() || self.cluster.exports.is_of(dir);
            if !busy {
                self.recut_one(dir);
                self.join_lines(dir);
            }
        }
    }

    /// Cuts what this rank has of a directory as its entries want it, if they have become many more or fewer.
    fn recut_one(&mut self, dir: Ino) {
        let here = |inode: &&Inode| inode.is_spread();
        let Some(record) = self.core.tree.part(dir).or_else(|| self.core.tree.inode(dir)).filter(here) else { return };
        let much = (self.core.config.frag.split_entries / 8).max(1);
        let (size, reads) = match self.cluster.placement.cuts.get(&dir).copied() {
            Some((known, 0)) if known.abs_diff(record.size) < much => return,
            Some((known, reads)) if known.abs_diff(record.size) < much => (known, reads),
            _ => (record.size, READS_MAX),
        };
        match self.core.tree.estimate(dir) {
            None => {}
            Some(Estimate::Read(need)) => {
                self.cluster.placement.cuts.insert(dir, (size, reads - 1));
                self.cluster.load(&mut self.core, vec![need], Waiter::Nobody);
            }
            Some(Estimate::Entries(entries)) => {
                self.cluster.placement.cuts.insert(dir, (record.size, 0));
                let bits = self.core.config.frag.adapted(record, entries);
                if bits != record.frag_bits {
                    let record = Inode { frag_bits: bits, ..record.clone() };
                    self.commit(None, &[Event::Inode(Box::new(record))]);
                }
            }
        }
    }

    /// Says with one line what two lines say: this rank has both halves of a fragment.
    fn join_lines(&mut self, dir: Ino) {
        while let Some(frag) = self.core.tree.own_frags(dir).and_then(|own| both_halves(&own)) {
            if frag == Frag::WHOLE {
                // Then it is no directory of several ranks any more, which is said where its last fragment comes.
                return;
            }
            let version = self.cluster.atlas.routes.version(dir).unwrap_or(0) + 1;
            self.commit(None, &[Event::Route(Route { dir, frag, rank: self.core.me(), version })]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_of_the_same_fragment_are_one() {
        let eighths = Frag::WHOLE.split(3);
        assert_eq!(both_halves(&eighths[2..4]), Some(Frag { bits: 2, value: 1 }));
        assert_eq!(both_halves(&eighths[1..3]), None, "neighbours, but not of one");
        assert_eq!(both_halves(&[Frag { bits: 1, value: 0 }, eighths[4]]), None);
        assert_eq!(both_halves(&Frag::WHOLE.split(1)), Some(Frag::WHOLE));
        assert_eq!(both_halves(&[]), None);
    }
}
