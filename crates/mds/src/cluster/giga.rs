//! A directory under placement `giga` that has become large comes to all ranks, fragment by fragment: which fragment goes where, and when.
//! GIGA+ (Patil and Gibson, FAST'11) as IndexFS uses it: a directory begins at its zeroth server, and whenever a partition overflows half of it
//! goes to another server, until it is at all; digest §2.3. One of which its owner says that it will be large (`loligo.policy.expected_entries`) is cut at
//! once, and comes to all while it is empty (IndexFS: `Mkdir_Presplit`). When a directory is cut, and into how many fragments, is decided as for any
//! (`FragConfig`); how a fragment moves is `stages/migrate.rs`'s. Unlike GIGA+'s bitmaps the lines of the subtree map say who has which fragment: there are
//! few directories of this size.

use loligo_namespace::{EXPECTED_ENTRIES, PLACEMENT, SUBTREE};
use loligo_types::{Event, Frag, Ino, Op, Rank};

use crate::admin::Told;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Peers, Placement};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::grace::Grace;

/// Delay after which a fragment that could not be moved is tried again, milliseconds.
const RETRY_MS: u64 = 1000;

/// The rank for a fragment of a directory that begins at one of these ranks: equal shares of the hashes, ascending from its own.
fn rank_of(frag: Frag, ranks: &[Rank], home: Rank) -> Option<Rank> {
    let first = ranks.iter().position(|rank| *rank == home)?;
    let share = ((frag.value as usize) * ranks.len()) >> frag.bits;
    ranks.get((first + share) % ranks.len()).copied()
}

/// Number of bits of the hash that tell so many ranks apart.
fn bits_for(ranks: usize) -> u8 {
    (0..Frag::BITS_MAX).find(|bits| 1 << bits >= ranks).unwrap_or(Frag::BITS_MAX)
}

impl Placement {
    /// Notes an event written into the table: if it says that a directory is cut, the directory may have to be spread, also if it was cut
    /// before a restart.
    #[inline]
    pub(crate) fn note_growing(&mut self, core: &Core, atlas: &Atlas, event: &Event) {
        if let Event::Inode(inode) = event
            && inode.frag_bits > 0
        {
            self.has_grown(core, atlas, inode.ino);
        }
    }

    /// A policy of a directory was set: where its directories live, or how many entries it will have.
    pub(crate) fn note_policy(&mut self, core: &Core, atlas: &Atlas, op: &Op) {
        if let Op::SetXattr { ino, name, .. } = op
            && [PLACEMENT, SUBTREE, EXPECTED_ENTRIES].contains(&&**name)
        {
            self.has_grown(core, atlas, *ino);
        }
    }

    /// A directory has been cut.
    pub(crate) fn has_grown(&mut self, core: &Core, atlas: &Atlas, dir: Ino) {
        let is_giga = |inode: &loligo_types::Inode| inode.places_dirs().scatters();
        if !atlas.is_alone() && core.tree.peek(dir).is_some_and(is_giga) {
            self.growing.dirs.insert(dir);
        }
    }
}

impl Peers {
    /// A fragment of what this rank has of a directory that another rank is to have, and which one. Its home gives all but the fragment that
    /// the directory itself lives with. Others part with pieces of what they have, but for the first one of each: so what was moved to them
    /// by order stays there.
    fn next_fragment(&self, core: &Core, atlas: &Atlas, dir: Ino) -> Option<(Frag, Rank)> {
        let inode = core.tree.part(dir).or_else(|| core.tree.inode(dir))?;
        if !inode.places_dirs().scatters() || !atlas.takes_more(core.me()) {
            return None;
        }
        let ranks = self.ranks_up(core, atlas);
        let home = atlas.routes.home(dir).unwrap_or(core.me());
        let bits = bits_for(ranks.len()).min(inode.frag_bits);
        let is_home = home == core.me();
        let pieces = |own: Frag| match own.bits < bits {
            true => own.split(bits - own.bits),
            false => vec![own],
        };
        let pieces = core.frags_of(dir).into_iter().flat_map(|own| pieces(own).into_iter().enumerate());
        let moves = pieces.filter(|(at, frag)| if is_home { frag.first() > 0 } else { *at > 0 }).map(|(_, frag)| frag);
        moves.map(|frag| (frag, rank_of(frag, &ranks, home))).find_map(|(frag, to)| {
            let to = to.filter(|to| *to != core.me())?;
            Some((frag, to))
        })
    }
}

impl Cluster {
    /// Moves the next fragment that another rank is to have, if nothing else moves from here.
    pub(crate) fn spread_growing(&mut self, core: &mut Core, grace: &Option<Grace>, decoupled: &Decoupled) {
        let busy = !self.exports.is_idle() || !self.peers.ready || grace.is_some() || core.stopping;
        if self.placement.growing.dirs.is_empty() || busy || core.now.mono_ms < self.placement.growing.not_before_ms {
            return;
        }
        while let Some(dir) = self.placement.growing.dirs.first().copied() {
            let Some((frag, to)) = self.peers.next_fragment(core, &self.atlas, dir) else {
                // When it is cut again that is noted again.
                self.placement.growing.dirs.remove(&dir);
                continue;
            };
            match self.want_export(core, decoupled, dir, Some(frag), to) {
                Told::Begun(_) => core.counters.spreads += 1,
                _ => self.placement.growing.not_before_ms = core.now.mono_ms + RETRY_MS,
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_gets_an_equal_share_and_the_home_the_first() {
        let ranks: Vec<Rank> = [0, 1, 2, 5].map(Rank).into();
        let of = |frag| rank_of(frag, &ranks, Rank(2));
        let halves: Vec<Option<Rank>> = Frag::WHOLE.split(1).into_iter().map(of).collect();
        assert_eq!(halves, [2, 0].map(|rank| Some(Rank(rank))));
        let quarters: Vec<Option<Rank>> = Frag::WHOLE.split(2).into_iter().map(of).collect();
        assert_eq!(quarters, [2, 5, 0, 1].map(|rank| Some(Rank(rank))));
        let eighths = Frag::WHOLE.split(3).into_iter().map(|frag| rank_of(frag, &ranks[..3], Rank(0)));
        let shares = eighths.fold([0; 3], |mut shares, rank| {
            shares[usize::from(rank.expect("a rank").0)] += 1;
            shares
        });
        assert_eq!(shares, [3, 3, 2]);
        assert_eq!(rank_of(Frag::WHOLE, &ranks, Rank(3)), None, "it is being drained");
        assert_eq!([1, 2, 3, 4, 5].map(bits_for), [0, 1, 2, 2, 3]);
    }
}
