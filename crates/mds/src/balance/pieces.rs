//! What could move: the hot directories of this rank and their fragments, each with what was counted of it and its place in
//! the one above. A hot directory that is one fragment is shown in eighths, as if it were cut: it may have to be. Above
//! fragments stand those that they are halves of, as far as all of it is this rank's: half of a directory is one move, not four.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{Frag, Ino, Inode, LoadVec, Piece, PieceHeat, Rank};

use crate::hash::IntMap;
use crate::machine::Mds;

use super::stands::{Look, Stand};

/// A fragment with at least this part of the rank's load is shown in parts.
const SHOW_PARTS: f64 = 1.0 / 16.0;
/// In how many: two to the power of this, as a directory's first split makes them.
const PART_BITS: u8 = 3;
/// Nothing with fewer entries is cut for its heat.
const PART_INODES: u64 = 64;
/// Directories above one another that are looked at.
const DEPTH_MAX: usize = loligo_types::limits::DEPTH_MAX;

/// In place of a policy while the pieces are put together: hands off.
const NOBODY: u32 = u32::MAX;

/// A directory on the way, before all is put in order.
struct Node {
    dir: Ino,
    /// What was counted of each of its fragments, ascending; one fragment: it is not cut.
    frags: Vec<(Frag, LoadVec)>,
    /// What is above: a directory that is this rank's too, and the hash of the name in it.
    above: Option<(Ino, u64)>,
    home: Option<Rank>,
    inodes: u64,
    is_part: bool,
}

impl Mds {
    /// All, those above first; and the names of the policies under which some of them stand.
    pub(super) fn pieces(&mut self, look: &mut Look) -> (Vec<PieceHeat>, Vec<Arc<str>>) {
        let spots = self.spots();
        let total: f64 = spots.iter().map(|(_, load)| load.metaload()).sum();
        let mut nodes: Vec<Node> = Vec::new();
        let mut places: IntMap<Ino, usize> = IntMap::default();
        for ((dir, frag), load) in spots {
            let Some(at) = self.node_of(dir, &mut nodes, &mut places) else { continue };
            nodes[at].frags.push((frag, load));
        }
        let order = from_above(&nodes, &places);
        let mut pieces: Vec<PieceHeat> = Vec::with_capacity(nodes.len() * 2);
        // Where a directory's fragments (or itself) have come to lie.
        let mut shown: IntMap<Ino, (u32, BTreeMap<Frag, u32>)> = IntMap::default();
        let mut names: Vec<Arc<str>> = Vec::new();
        for at in order {
            let node = &nodes[at];
            // What is not known is not moved now.
            let (hands_off, under) = match self.stand(node.dir, look) {
                Some(Stand::Common) => (false, None),
                Some(Stand::Named(name)) => (false, Some(place_in(&mut names, name))),
                Some(Stand::Nobody) | None => (true, Some(NOBODY)),
            };
            let above = node.above.and_then(|(dir, hash)| {
                let (itself, frags) = shown.get(&dir)?;
                Some(place_of(frags, hash, Frag::BITS_MAX).unwrap_or(*itself))
            });
            let parts = self.parts_of(node, total * SHOW_PARTS);
            let itself = pieces.len() as u32;
            let own = if parts.is_empty() { sum(&node.frags) } else { LoadVec::default() };
            pieces.push(PieceHeat {
                piece: Piece { dir: node.dir, frag: None },
                above,
                load: own,
                inodes: node.inodes,
                fixed: hands_off || node.dir == Ino::ROOT,
                under,
                home: node.home,
            });
            let mut frags: BTreeMap<Frag, u32> = BTreeMap::new();
            for (frag, load) in self.with_coarser(node, &parts) {
                let inside = frag.parent().and_then(|coarser| place_of(&frags, coarser.first(), coarser.bits));
                frags.insert(frag, pieces.len() as u32);
                pieces.push(PieceHeat {
                    piece: Piece { dir: node.dir, frag: Some(frag) },
                    above: inside.or(Some(itself)),
                    load,
                    inodes: node.inodes >> frag.bits.min(63),
                    // The directory's own inode lives with its first names.
                    fixed: hands_off || (frag.first() == 0 && !node.is_part),
                    under,
                    home: None,
                });
            }
            shown.insert(node.dir, (itself, frags));
        }
        keep_together(&mut pieces);
        (pieces, names)
    }

    /// What is hot, in order: so that the same is decided wherever it is decided.
    fn spots(&self) -> Vec<((Ino, Frag), LoadVec)> {
        let mut spots: Vec<_> = self.heat.table.iter(self.now.mono_ms).collect();
        spots.sort_unstable_by_key(|(spot, _)| *spot);
        spots
    }

    /// The place of a directory among the nodes, put there with all that are above it; none if it is not in memory, or not
    /// a directory of this rank.
    fn node_of(&self, dir: Ino, nodes: &mut Vec<Node>, places: &mut IntMap<Ino, usize>) -> Option<usize> {
        if let Some(at) = places.get(&dir) {
            return Some(*at);
        }
        let mut at = dir;
        for _ in 0..DEPTH_MAX {
            let node = self.node(at)?;
            let above = node.above;
            places.insert(at, nodes.len());
            nodes.push(node);
            match above {
                Some((parent, _)) if !places.contains_key(&parent) => at = parent,
                _ => break,
            }
        }
        places.get(&dir).copied()
    }

    fn node(&self, dir: Ino) -> Option<Node> {
        let (inode, is_part) = match self.tree.part(dir) {
            Some(part) => (part, true),
            None => (self.tree.peek(dir).filter(|inode| inode.kind == loligo_types::Kind::Dir)?, false),
        };
        let (above, home) = if is_part { (None, self.cluster.routes.home(dir)) } else { self.above_of(inode) };
        Some(Node {
            dir,
            frags: Vec::new(),
            above,
            home: home.filter(|home| *home != self.me()),
            inodes: match is_part {
                // Only what has changed is counted here.
                true => PART_INODES,
                false => u64::try_from(inode.rstat().entries).unwrap_or(0) + 1,
            },
            is_part,
        })
    }

    /// What a directory is in, if that is this rank's too; else who has that.
    fn above_of(&self, inode: &Inode) -> (Option<(Ino, u64)>, Option<Rank>) {
        let (parent, Some(hash)) = (inode.parent, inode.place.hash()) else { return (None, None) };
        if inode.ino == Ino::ROOT || parent.0 == 0 {
            return (None, None);
        }
        match self.cluster.routes.of(parent, hash) {
            Some(rank) if rank != self.me() => return (None, Some(rank)),
            _ if self.tree.peek(parent).is_some() => return (Some((parent, hash)), None),
            _ => {}
        }
        // Not in memory here, so another one's: that of the nearest line above.
        let mut at = parent;
        for _ in 0..DEPTH_MAX {
            if let Some(rank) = self.cluster.routes.home(at).or((at == Ino::ROOT).then_some(Rank::ZERO)) {
                return (None, Some(rank));
            }
            match self.cluster.strangers.parent(at) {
                Some(next) if next.0 != 0 && next != at => at = next,
                _ => break,
            }
        }
        (None, None)
    }

    /// The fragments in which a directory is shown; none: as a whole. The root stays together: every walk of a path looks into it,
    /// and a directory of several ranks is looked at by asking all of them.
    fn parts_of(&self, node: &Node, hot: f64) -> Vec<(Frag, LoadVec)> {
        if node.dir == Ino::ROOT {
            return Vec::new();
        }
        let is_cut = node.frags.iter().any(|(frag, _)| frag.bits > 0);
        let mut parts = Vec::new();
        for (frag, load) in &node.frags {
            let fine = frag.bits + PART_BITS <= Frag::BITS_MAX;
            if load.metaload() >= hot && load.metaload() > 0.0 && node.inodes >= PART_INODES && fine {
                let part = load.times(0.5f64.powi(i32::from(PART_BITS)));
                parts.extend(frag.split(PART_BITS).into_iter().map(|frag| (frag, part)));
            } else if is_cut {
                parts.push((*frag, *load));
            }
        }
        // A directory that is not cut, and not hot enough to be.
        if parts.iter().all(|(frag, _)| frag.bits == 0) { Vec::new() } else { parts }
    }

    /// The same with all that they are halves of, the coarsest first; of those nothing was counted.
    fn with_coarser(&self, node: &Node, parts: &[(Frag, LoadVec)]) -> Vec<(Frag, LoadVec)> {
        let own = self.tree.own_frags(node.dir);
        let is_own = |frag: Frag| own.as_ref().is_none_or(|own| own.iter().any(|line| line.covers(frag)));
        let mut all: BTreeMap<Frag, LoadVec> = parts.iter().copied().collect();
        for (frag, _) in parts {
            let mut at = *frag;
            while let Some(coarser) = at.parent().filter(|coarser| coarser.bits > 0 && is_own(*coarser)) {
                all.entry(coarser).or_default();
                at = coarser;
            }
        }
        // By bits first, then by value.
        all.into_iter().collect()
    }
}

/// The place of a name, which is added if it is new.
fn place_in(names: &mut Vec<Arc<str>>, name: Arc<str>) -> u32 {
    let at = names.iter().position(|other| *other == name).unwrap_or(names.len());
    if at == names.len() {
        names.push(name);
    }
    at as u32
}

/// Fixes what has something in it that stands under another policy, or none: it would move along.
fn keep_together(pieces: &mut [PieceHeat]) {
    let mut is_mixed = vec![false; pieces.len()];
    for at in (0..pieces.len()).rev() {
        pieces[at].fixed |= is_mixed[at];
        if let Some(above) = pieces[at].above.map(|above| above as usize) {
            is_mixed[above] |= is_mixed[at] || pieces[at].under != pieces[above].under;
        }
    }
    for piece in pieces.iter_mut().filter(|piece| piece.under == Some(NOBODY)) {
        piece.under = None;
    }
}

/// The place of the finest fragment, of at most so many bits, that has the names with this hash.
fn place_of(frags: &BTreeMap<Frag, u32>, hash: u64, bits: u8) -> Option<u32> {
    let finest = frags.last_key_value()?.0.bits.min(bits);
    (0..=finest).rev().find_map(|bits| frags.get(&Frag::of(hash, bits))).copied()
}

fn sum(frags: &[(Frag, LoadVec)]) -> LoadVec {
    let mut sum = LoadVec::default();
    frags.iter().for_each(|(_, load)| sum.add(load));
    sum
}

/// The places of all, each after that of what it is in.
fn from_above(nodes: &[Node], places: &IntMap<Ino, usize>) -> Vec<usize> {
    let mut order = Vec::with_capacity(nodes.len());
    let mut done = vec![false; nodes.len()];
    let mut way = Vec::new();
    for first in 0..nodes.len() {
        let mut at = first;
        while !done[at] {
            done[at] = true;
            way.push(at);
            match nodes[at].above.and_then(|(parent, _)| places.get(&parent)) {
                Some(parent) => at = *parent,
                None => break,
            }
        }
        order.extend(way.drain(..).rev());
    }
    order
}
