//! Pieces that could move: the hot directories of this rank and their fragments, each with its counters and its place in the one
//! above. A hot directory that is one fragment is shown in eighths, as if it were cut: it may have to be. Above fragments stand
//! those that they are halves of, as far as all of it is this rank's: half of a directory is one move, not four.
//!
//! This is done on the rank's thread, for all that is hot: so each directory is looked up once, and what most of them do not have
//! (fragments, lines of the subtree map, policies) costs nothing (`cargo run --release -p loligo-mds --example snapshot_cost`).

use std::sync::Arc;

use loligo_namespace::{Found, Tree};
use loligo_types::{Frag, Ino, Inode, Kind, LoadVec, Piece, PieceHeat, Rank};

use crate::balance::rules::{Look, Rules, Stand};
use crate::cluster::Atlas;
use crate::core::Core;
use crate::heat::Heat;
use loligo_types::hash::IntMap;

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

/// The pieces that could move.
pub(super) struct Pieces {
    /// All, those above first.
    pub(super) all: Vec<PieceHeat>,
    /// Names of the policies under which some of them stand.
    pub(super) names: Vec<Arc<str>>,
    /// Sum of all counters.
    pub(super) sum: LoadVec,
}

/// Memory that is kept from one time to the next: as much as is needed for all that is hot, new each time, costs more in page faults
/// than what is done with it.
#[derive(Default)]
pub(super) struct Scratch {
    spots: Spots,
    nodes: Nodes,
}

impl Scratch {
    /// The directories that are laid out, those above first.
    pub(super) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes.list
    }

    /// All that could move of what is laid out. Not inlined, so that profilers can tell it apart.
    #[inline(never)]
    pub(super) fn pieces(&mut self, core: &Core, look: &Look) -> Pieces {
        let Scratch { spots, nodes } = self;
        let (mut sum, mut total) = (LoadVec::default(), 0.0);
        for load in spots.order.iter().map(|key| spots.load(*key)) {
            sum.add(load);
            total += load.metaload();
        }
        mark_decoupled(&core.tree, nodes);
        let mut all = Vec::with_capacity(nodes.list.len() * 2);
        for at in 0..nodes.list.len() {
            show(core, at, &mut nodes.list, spots, total * SHOW_PARTS, &mut all);
        }
        if nodes.list.iter().any(|node| node.rules != Some(Rules::default())) {
            keep_together(&mut all);
        }
        Pieces { names: names_of(&mut all, &look.names), all, sum }
    }
}

/// Counters of hot fragments, in order: so that the same is decided wherever it is decided.
#[derive(Default)]
struct Spots {
    /// In no order.
    loads: Vec<LoadVec>,
    /// Directory, fragment and place in `loads`, from the highest bit down: numbers are sorted faster than what they stand for.
    order: Vec<u128>,
}

impl Spots {
    fn fill(&mut self, counted: impl Iterator<Item = ((Ino, Frag), LoadVec)>) {
        self.loads.clear();
        self.order.clear();
        for ((dir, frag), load) in counted {
            let frag = u128::from(frag.bits) << 56 | u128::from(frag.value) << 32;
            self.order.push(u128::from(dir.0) << 64 | frag | self.loads.len() as u128);
            self.loads.push(load);
        }
        self.order.sort_unstable();
    }

    fn load(&self, key: u128) -> &LoadVec {
        &self.loads[key as u32 as usize]
    }

    /// Each directory, and where it stands in order.
    fn dirs(&self) -> impl Iterator<Item = (Ino, (u32, u32))> + '_ {
        let mut at = 0;
        self.order.chunk_by(|a, b| a >> 64 == b >> 64).map(move |of_it| {
            let from = at;
            at += of_it.len() as u32;
            (Ino((of_it[0] >> 64) as u64), (from, at))
        })
    }

    /// The counters of each fragment of a directory, ascending; one fragment: it is not cut.
    fn of(&self, (from, to): (u32, u32)) -> impl Iterator<Item = (Frag, &LoadVec)> + '_ {
        self.order[from as usize..to as usize].iter().map(|key| {
            let frag = Frag { bits: (key >> 56) as u8, value: (key >> 32) as u32 & 0xff_ffff };
            (frag, self.load(*key))
        })
    }
}

/// A directory on the way.
pub(super) struct Node {
    pub(super) dir: Ino,
    /// Range of the directory's counters among the spots, in order.
    spots: (u32, u32),
    /// The place of the directory above, if that is this rank's too, and the hash of the name in it.
    pub(super) above: Option<u32>,
    hash: u64,
    home: Option<Rank>,
    inodes: u64,
    /// The rules of the directory itself, and then combined with those above; `None`: something must be read to know
    /// them.
    pub(super) rules: Option<Rules>,
    is_part: bool,
    /// It is decoupled, or in a directory that is.
    is_decoupled: bool,
    /// Hashes of names below which something is decoupled.
    decoupled: Vec<u64>,
    /// There are lines of the subtree map for names in it; `None`: nobody has asked yet.
    has_lines: Option<bool>,
    /// Where it has come to lie among the pieces, and how many of its fragments behind it.
    shown: (u32, u32),
}

impl Node {
    /// True if a fragment of the directory stays because something in it is decoupled, or the directory is in such a
    /// one.
    fn keeps(&self, frag: Frag) -> bool {
        self.is_decoupled || self.decoupled.iter().any(|hash| frag.contains(*hash))
    }
}

/// All of them, those above first.
#[derive(Default)]
struct Nodes {
    list: Vec<Node>,
    places: IntMap<Ino, u32>,
}

/// A directory that is found, its inode, and what it is in with the hash of its name there.
type Way<'a> = (Node, &'a Inode, Option<(Ino, u64)>);

impl Atlas {
    /// Puts all that is hot in order, with what it is in.
    pub(super) fn lay_out(&self, core: &Core, heat: &Heat, scratch: &mut Scratch, look: &mut Look) {
        let Scratch { spots, nodes } = scratch;
        spots.fill(heat.table.iter(core.now.mono_ms));
        nodes.list.clear();
        nodes.places.clear();
        nodes.places.reserve(spots.order.len());
        // What lies behind pointers is looked up with nothing else between: so much of it comes from memory side by side.
        let found: Vec<Found<'_>> = spots.dirs().map(|(dir, _)| core.tree.find(dir)).collect();
        let (mut inodes, mut way) = (Vec::with_capacity(found.len() * 9 / 8), Vec::new());
        for ((dir, range), found) in spots.dirs().zip(found) {
            let Some(at) = self.node_of(core, dir, found, (nodes, look), &mut inodes, &mut way) else { continue };
            nodes.list[at].spots = range;
        }
        for (node, inode) in nodes.list.iter_mut().zip(inodes).filter(|(node, _)| !node.is_part) {
            node.inodes = u64::try_from(inode.rstat().entries).unwrap_or(0) + 1;
        }
    }

    /// The place of a directory among the nodes, put there behind all that are above it; none if it is not in memory, or not
    /// a directory of this rank.
    fn node_of<'a>(
        &self,
        core: &'a Core,
        dir: Ino,
        found: Found<'a>,
        (nodes, look): (&mut Nodes, &mut Look),
        inodes: &mut Vec<&'a Inode>,
        way: &mut Vec<Way<'a>>,
    ) -> Option<usize> {
        if let Some(at) = nodes.places.get(&dir) {
            return Some(*at as usize);
        }
        let (base, mut at, mut found) = (nodes.list.len() as u32, dir, found);
        for _ in 0..DEPTH_MAX {
            let Some(node) = self.node(core, at, found, nodes, look) else { break };
            let above = node.2;
            nodes.places.insert(at, base + way.len() as u32);
            way.push(node);
            match above {
                Some((parent, _)) if !nodes.places.contains_key(&parent) => {
                    (at, found) = (parent, core.tree.find(parent))
                }
                _ => break,
            }
        }
        let count = way.len();
        if count > 1 {
            // They were found from below.
            let places = way.iter().rev().zip(base..);
            places.for_each(|((node, ..), place)| _ = nodes.places.insert(node.dir, place));
        }
        while let Some((mut node, inode, above)) = way.pop() {
            if let Some((parent, hash)) = above {
                // What is in a circle has nothing above it at one point.
                let place = nodes.places.get(&parent).copied();
                (node.above, node.hash) = (place.filter(|place| (*place as usize) < nodes.list.len()), hash);
            }
            nodes.list.push(node);
            inodes.push(inode);
        }
        (count > 0).then(|| nodes.list.len() - 1)
    }

    /// A directory of this rank, and what it is in if that is this rank's too.
    fn node<'a>(
        &self,
        core: &'a Core,
        dir: Ino,
        found: Found<'a>,
        nodes: &mut Nodes,
        look: &mut Look,
    ) -> Option<Way<'a>> {
        let (inode, is_part, rules) = match core.tree.part(dir) {
            // Its rules stand with its inode, which is elsewhere.
            Some(part) => (part, true, None),
            None => match found {
                Found::Here(inode) => (inode, false, look.own_rules(core, inode)),
                Found::Gone => (core.tree.peek(dir)?, false, Some(Rules::STAYS)),
                Found::Unknown => return None,
            },
        };
        if inode.kind != Kind::Dir {
            return None;
        }
        let (above, home) = if is_part { (None, self.routes.home(dir)) } else { self.above_of(core, inode, nodes) };
        let node = Node {
            dir,
            spots: (0, 0),
            above: None,
            hash: 0,
            home: home.filter(|home| *home != core.me()),
            // As if it were a part, of which only what has changed is counted here; others have theirs filled in later.
            inodes: PART_INODES,
            rules,
            is_part,
            is_decoupled: false,
            decoupled: Vec::new(),
            has_lines: None,
            shown: (0, 0),
        };
        Some((node, inode, above))
    }

    /// The parent of a directory, if that is this rank's too; else the rank that has it.
    fn above_of(&self, core: &Core, inode: &Inode, nodes: &mut Nodes) -> (Option<(Ino, u64)>, Option<Rank>) {
        let (parent, Some(hash)) = (inode.parent, inode.place.hash()) else { return (None, None) };
        if inode.ino == Ino::ROOT || parent.0 == 0 {
            return (None, None);
        }
        if let Some(at) = nodes.places.get(&parent)
            && let Some(up) = nodes.list.get_mut(*at as usize)
            && !*up.has_lines.get_or_insert_with(|| self.routes.version(parent).is_some())
        {
            // As most are: asked once, not for each that is in it.
            return (Some((parent, hash)), None);
        }
        match self.routes.of(parent, hash) {
            Some(rank) if rank != core.me() => return (None, Some(rank)),
            _ if core.tree.peek(parent).is_some() => return (Some((parent, hash)), None),
            _ => {}
        }
        // Not in memory here, so another one's: that of the nearest line above.
        let mut at = parent;
        for _ in 0..DEPTH_MAX {
            if let Some(rank) = self.routes.home(at).or((at == Ino::ROOT).then_some(Rank::ZERO)) {
                return (None, Some(rank));
            }
            match self.foreign_inodes.parent(at) {
                Some(next) if next.0 != 0 && next != at => at = next,
                _ => break,
            }
        }
        (None, None)
    }
}

/// Notes which of them stay here because of decoupled subtrees.
fn mark_decoupled(tree: &Tree, nodes: &mut Nodes) {
    if !tree.has_decoupled() {
        return;
    }
    for record in tree.all_decoupled() {
        let (mut at, mut below) = (record.dir, None);
        for _ in 0..DEPTH_MAX {
            if let Some(node) = nodes.places.get(&at).and_then(|place| nodes.list.get_mut(*place as usize)) {
                match below {
                    None => node.is_decoupled = true,
                    Some(hash) => node.decoupled.push(hash),
                }
            }
            let Some(inode) = tree.peek(at).filter(|inode| inode.ino != Ino::ROOT) else { break };
            (at, below) = (inode.parent, Some(inode.place.hash().unwrap_or_default()));
        }
    }
    for at in 0..nodes.list.len() {
        let above = nodes.list[at].above.and_then(|above| nodes.list.get(above as usize));
        nodes.list[at].is_decoupled |= above.is_some_and(|above| above.is_decoupled);
    }
}

/// The fragments in which a directory is shown; none: as a whole. The root stays together: every walk of a path looks into it,
/// and a directory of several ranks is looked at by asking all of them.
fn parts_of(node: &Node, spots: &Spots, hot: f64) -> Vec<(Frag, LoadVec)> {
    if node.dir == Ino::ROOT {
        return Vec::new();
    }
    let frags = || spots.of(node.spots);
    let is_cut = frags().any(|(frag, _)| frag.bits > 0);
    let mut parts = Vec::new();
    for (frag, load) in frags() {
        let fine = frag.bits + PART_BITS <= Frag::BITS_MAX;
        if load.metaload() >= hot && load.metaload() > 0.0 && node.inodes >= PART_INODES && fine {
            let part = load.times(0.5f64.powi(i32::from(PART_BITS)));
            parts.extend(frag.split(PART_BITS).into_iter().map(|frag| (frag, part)));
        } else if is_cut {
            parts.push((frag, *load));
        }
    }
    // A directory that is not cut, and not hot enough to be.
    if parts.iter().all(|(frag, _)| frag.bits == 0) { Vec::new() } else { parts }
}

/// The same with all that they are halves of, the coarsest first; of those nothing was counted.
fn with_coarser(tree: &Tree, dir: Ino, mut parts: Vec<(Frag, LoadVec)>) -> Vec<(Frag, LoadVec)> {
    let own = tree.own_frags(dir);
    let is_own = |frag: Frag| own.as_ref().is_none_or(|own| own.iter().any(|line| line.covers(frag)));
    let mut at = 0;
    while let Some((frag, _)) = parts.get(at) {
        let coarser = frag.parent().filter(|coarser| coarser.bits > 0 && is_own(*coarser));
        // Halves mostly stand together, so most are added once.
        if let Some(coarser) = coarser.filter(|coarser| parts.last().is_none_or(|(last, _)| last != coarser)) {
            parts.push((coarser, LoadVec::default()));
        }
        at += 1;
    }
    // By bits first, then by value; what was counted stays before what was added.
    parts.sort_by_key(|(frag, _)| *frag);
    parts.dedup_by_key(|(frag, _)| *frag);
    parts
}

/// Of these names those under which some pieces stand, in the order in which pieces meet them; the pieces say their places.
fn names_of(pieces: &mut [PieceHeat], met: &[Arc<str>]) -> Vec<Arc<str>> {
    let (mut places, mut names) = (vec![None; met.len()], Vec::new());
    if met.is_empty() {
        return names;
    }
    for under in pieces.iter_mut().filter_map(|piece| piece.under.as_mut()) {
        let place = *places[*under as usize].get_or_insert(names.len() as u32);
        if place as usize == names.len() {
            names.push(met[*under as usize].clone());
        }
        *under = place;
    }
    names
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

/// The place of the finest fragment, of at most so many bits, that has the names with this hash, of those behind a directory:
/// the coarsest are first.
fn place_of(pieces: &[PieceHeat], shown: (u32, u32), hash: u64, bits: u8) -> Option<u32> {
    let from = shown.0 as usize + 1;
    let frags = &pieces[from..from + shown.1 as usize];
    let finest = frags.last()?.piece.frag?.bits.min(bits);
    let at = |bits: u8| frags.binary_search_by_key(&Some(Frag::of(hash, bits)), |heat| heat.piece.frag).ok();
    (0..=finest).rev().find_map(at).map(|at| (from + at) as u32)
}

/// Puts a directory and its fragments behind the pieces that are there.
fn show(core: &Core, at: usize, nodes: &mut [Node], spots: &Spots, hot: f64, pieces: &mut Vec<PieceHeat>) {
    let (before, rest) = nodes.split_at_mut(at);
    let node = &mut rest[0];
    let mut above = None;
    if let Some(up) = node.above {
        let up = &before[up as usize];
        let (itself, frags) = up.shown;
        above = Some(match frags {
            0 => itself,
            _ => place_of(pieces, up.shown, node.hash, Frag::BITS_MAX).unwrap_or(itself),
        });
    }
    // What is not known is not moved now.
    let (hands_off, under) = match node.rules.map(Rules::stand) {
        Some(Stand::Common) => (false, None),
        Some(Stand::Named(name)) => (false, Some(name)),
        Some(Stand::Nobody) | None => (true, Some(NOBODY)),
    };
    let parts = parts_of(node, spots, hot);
    let itself = pieces.len() as u32;
    let mut own = LoadVec::default();
    if parts.is_empty() {
        spots.of(node.spots).for_each(|(_, load)| own.add(load));
    }
    pieces.push(PieceHeat {
        piece: Piece { dir: node.dir, frag: None },
        above,
        load: own,
        inodes: node.inodes,
        fixed: hands_off || node.dir == Ino::ROOT || node.is_decoupled || !node.decoupled.is_empty(),
        under,
        home: node.home,
    });
    node.shown = (itself, 0);
    if parts.is_empty() {
        return;
    }
    for (frag, load) in with_coarser(&core.tree, node.dir, parts) {
        let inside = frag.parent().and_then(|coarser| place_of(pieces, node.shown, coarser.first(), coarser.bits));
        pieces.push(PieceHeat {
            piece: Piece { dir: node.dir, frag: Some(frag) },
            above: inside.or(Some(itself)),
            load,
            inodes: node.inodes >> frag.bits.min(63),
            // The directory's own inode lives with its first names.
            fixed: hands_off || (frag.first() == 0 && !node.is_part) || node.keeps(frag),
            under,
            home: None,
        });
        node.shown.1 += 1;
    }
}
