//! In how many fragments a rank cuts what it has of a directory whose fragments are several ranks', and how few lines of the
//! subtree map say what it has. Looked at from time to time, because nobody on the way of a create knows how many entries
//! there are: a rank counts only what has changed. How many there should be is decided in `loligo_namespace::FragConfig`.

use std::collections::BTreeSet;

use loligo_namespace::Estimate;
use loligo_types::{Event, Frag, Ino, Inode, Route};

use crate::cluster::{Atlas, Placement};
use crate::core::Core;
use crate::load::Waiter;

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

impl Placement {
    /// The directories of which this rank has parts, when it is time to look at them.
    pub(super) fn parted_dirs(&mut self, core: &Core) -> BTreeSet<Ino> {
        if core.now.mono_ms < self.cuts_at_ms {
            return BTreeSet::new();
        }
        self.cuts_at_ms = core.now.mono_ms + EVERY_MS;
        let own = core.tree.routes().filter(|line| line.frag != Frag::WHOLE && line.rank == core.me());
        let dirs: BTreeSet<Ino> = own.map(|line| line.dir).collect();
        self.cuts.retain(|dir, _| dirs.contains(dir));
        dirs
    }

    /// The record that cuts what this rank has of a directory as its entries want it, if they have become many more or fewer.
    pub(super) fn recut_one(&mut self, core: &mut Core, atlas: &mut Atlas, dir: Ino) -> Option<Event> {
        let here = |inode: &&Inode| inode.is_spread();
        let record = core.tree.part(dir).or_else(|| core.tree.inode(dir)).filter(here)?;
        let much = (core.config.frag.split_entries / 8).max(1);
        let (size, reads) = match self.cuts.get(&dir).copied() {
            Some((known, 0)) if known.abs_diff(record.size) < much => return None,
            Some((known, reads)) if known.abs_diff(record.size) < much => (known, reads),
            _ => (record.size, READS_MAX),
        };
        match core.tree.estimate(dir)? {
            Estimate::Read(need) => {
                self.cuts.insert(dir, (size, reads - 1));
                atlas.load(core, vec![need], Waiter::Nobody);
                None
            }
            Estimate::Entries(entries) => {
                self.cuts.insert(dir, (record.size, 0));
                let bits = core.config.frag.adapted(record, entries);
                let cut = || Event::Inode(Box::new(Inode { frag_bits: bits, ..record.clone() }));
                (bits != record.frag_bits).then(cut)
            }
        }
    }
}

impl Atlas {
    /// The record that says with one line what two lines say: this rank has both halves of a fragment.
    pub(super) fn join_lines(&self, core: &Core, dir: Ino) -> Option<Event> {
        let frag = core.tree.own_frags(dir).and_then(|own| both_halves(&own))?;
        if frag == Frag::WHOLE {
            // Then it is no directory of several ranks any more, which is said where its last fragment comes.
            return None;
        }
        let version = self.routes.version(dir).unwrap_or(0) + 1;
        Some(Event::Route(Route { dir, frag, rank: core.me(), version }))
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
