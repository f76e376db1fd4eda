//! Directories whose fragments are several ranks': who has which names, this rank's part, and what moves between ranks.
//! How a fragment is moved is in `exports` and `import`; how parts are borrowed in `borrow` and `lend`.

use std::collections::BTreeSet;

use loligo_namespace::{Loaded, Need, Tree};
use loligo_types::{About, Event, Frag, Ino, Inode, Lease, Name, Op, Rank, Route, Spread};

use crate::admin::Told;
use crate::cluster::cuts::{covers_all, cut};
use crate::cluster::exports::Export;
use crate::cluster::routes::Routes;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Borrowing, Exports, Loans, Peers, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::{Job, WaitReason};
use crate::lease::Leases;
use crate::peer::PeerMsg;
use crate::recall::{Recalls, SHARED};
use crate::session::{Sessions, Slot};
use crate::step::Step;

/// The hash of the names that a request is about first: the one it names, or the first one that it lists.
fn hash_of(tree: &Tree, op: &Op) -> u64 {
    match op.props().lists_from {
        Some(from) => from.saturating_add(1).min(loligo_namespace::HASH_MAX),
        None => op.first_name().map_or(0, |(_, name)| tree.hash(name)),
    }
}

/// End of the part of a range of a directory's hashes that is this rank's from its begin on.
fn own_part(tree: &Tree, dir: Ino, from_hash: u64, upto_hash: u64) -> Option<u64> {
    let own = tree.own_until(dir, from_hash)?;
    let whole = own >= loligo_namespace::HASH_MAX;
    Some(if whole { upto_hash } else { upto_hash.min(own) })
}

impl Atlas {
    /// Finds the rank that executes a request on names of a directory whose fragments are several ranks': `None` if the
    /// directory is none of these, or this rank must first look for it; else whether it is this rank, or which one.
    pub(super) fn names_authority(&self, core: &Core, exports: &Exports, op: &Op) -> Option<Option<Step>> {
        let About::Names(dir) = op.about() else { return None };
        if !self.routes.is_spread(dir) {
            return None;
        }
        let hash = hash_of(&core.tree, op);
        if let Some(step) = exports.moved_name(dir, hash) {
            return Some(Some(step));
        }
        match self.routes.of(dir, hash)? {
            rank if rank != core.me() => Some(Some(Step::Redirect(rank))),
            _ if core.tree.part(dir).is_some() => Some(None),
            _ => None,
        }
    }

    /// The step of a request if another of its names than the first one moves.
    pub(super) fn second_name_moves(&self, core: &Core, exports: &Exports, op: &Op) -> Option<Step> {
        let (dir, name) = op.second_name()?;
        if !self.tree_has_names(core, dir, name) {
            return None;
        }
        let hash = core.tree.hash(name);
        match exports.moved_name(dir, hash)? {
            Step::Redirect(_) => Some(Step::Wait(WaitReason::Moving)),
            step => Some(step),
        }
    }

    /// True if a name of a directory is this rank's, as the subtree map has it.
    pub(super) fn tree_has_names(&self, core: &Core, dir: Ino, name: &Name) -> bool {
        self.routes.of(dir, core.tree.hash(name)).is_none_or(|rank| rank == core.me())
    }

    /// The rank that has a name of a directory whose fragments are several ranks'.
    pub(super) fn rank_of_name(&self, core: &Core, dir: Ino, name: &Name) -> Option<Rank> {
        if !self.routes.is_spread(dir) {
            return None;
        }
        self.routes.of(dir, core.tree.hash(name))
    }

    /// Ranks that have fragments of a directory and have not lent their part for a transaction yet; `None` if all have,
    /// and yet not all is there: something is on its way between them.
    pub(super) fn missing_parts(&self, core: &Core, dir: Ino, lent: &BTreeSet<Rank>) -> Option<Vec<Rank>> {
        let ranks = self.routes.ranks(dir).into_iter();
        let missing: Vec<Rank> = ranks.filter(|rank| *rank != core.me() && !lent.contains(rank)).collect();
        (!missing.is_empty()).then_some(missing)
    }

    /// The part of a directory that this rank lends to a transaction of another rank that wants to know the directory as
    /// a whole. The lines that say who has the rest go ahead.
    pub(super) fn lend_part(&self, core: &mut Core, to: Rank, dir: Ino) -> Loaded {
        let lines = self.routes.lines(dir);
        core.tell_durably(to, PeerMsg::Routes(lines));
        let frags = core.tree.own_frags(dir).unwrap_or_default();
        let part = core.tree.part(dir).filter(|_| !frags.is_empty()).cloned().map(Box::new);
        Loaded::Part { dir, part, frags }
    }

    /// Where a directory is to be moved from: also this rank's part of it.
    pub(super) fn locate_of(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        dir: Ino,
        wants: &mut Vec<Need>,
    ) -> Where {
        if core.tree.part(dir).is_some() { Where::Here } else { self.locate(core, exports, dir, wants) }
    }

    /// Why a fragment cannot be moved from here.
    pub(super) fn cannot_cut(&self, core: &Core, dir: Ino, frag: Frag) -> Option<Told> {
        if let Some(rank) = self.routes.of(dir, frag.first()).filter(|rank| *rank != core.me()) {
            return Some(Told::Elsewhere(rank));
        }
        let (moves, stays) = cut(&core.frags_of(dir), Some(frag));
        if frag.first() == 0 && (core.tree.part(dir).is_none() && !stays.is_empty() && !moves.is_empty()) {
            let text = format!(
                "the directory's own inode lives with fragment {frag}: move the others, or the directory as a whole"
            );
            return Some(Told::Refused(text));
        }
        None
    }

    /// All fragments of a directory are wanted at this rank.
    pub(super) fn want_gather(&self, core: &mut Core, dir: Ino) -> Told {
        match self.routes.home(dir) {
            Some(rank) if rank != core.me() => return Told::Elsewhere(rank),
            _ if !self.routes.is_spread(dir) => {
                return Told::Refused(format!("all of directory {dir} is one rank's already"));
            }
            _ => {}
        }
        let me = core.me();
        self.gather_fragments(core, dir, me);
        Told::Begun(0)
    }

    /// Asks all that have fragments of a directory to give them to one rank.
    pub(super) fn gather_fragments(&self, core: &mut Core, dir: Ino, to: Rank) {
        for rank in self.routes.ranks(dir) {
            if rank != core.me() && rank != to {
                core.tell(rank, PeerMsg::GiveBack { dir, to });
            }
        }
    }

    /// The events by which a fragment's names become this rank's: `part` is what its sender has counted. `None`: the
    /// directory must be read first. The routes are put down before.
    pub(super) fn take_fragment(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        part: &Inode,
        routes: &[Route],
        events: &mut Vec<Event>,
        needs: &mut Vec<Need>,
    ) -> Option<()> {
        let dir = part.ino;
        let home = self.routes.home(dir).or(routes.iter().find(|r| r.frag.contains(0)).map(|r| r.rank));
        let mut all = match core.tree.part(dir) {
            Some(own) => own.clone(),
            None if home == Some(core.me()) => match self.locate(core, exports, dir, needs) {
                Where::Unknown => return None,
                _ => core.tree.inode(dir)?.clone(),
            },
            None => part.new_part(core.me()),
        };
        all.add_part(part);
        self.merge(core, &mut all, routes, events);
        events.push(Event::Inode(Box::new(all)));
        Some(())
    }

    /// Takes the directory's own inode in: what this rank had counted is added to it.
    pub(super) fn take_home(&self, core: &Core, inode: &mut Inode, routes: &[Route], events: &mut Vec<Event>) {
        if inode.spread() != Spread::Home {
            return;
        }
        if let Some(part) = core.tree.part(inode.ino).cloned() {
            inode.add_part(&part);
            events.push(Event::PartGone { dir: inode.ino, rank: core.me() });
        }
        self.merge(core, inode, routes, events);
    }

    /// When all fragments are this rank's, with what these lines bring, there is one line again. Only what this rank has put
    /// down itself counts: others may tell that a fragment is its own before the letter comes that makes it so.
    fn merge(&self, core: &Core, inode: &mut Inode, routes: &[Route], events: &mut Vec<Event>) {
        let dir = inode.ino;
        let mut own: Vec<Route> = core.tree.lines(dir).chain(routes.iter().copied()).collect();
        own.sort_by_key(|route| route.version);
        let mut lines = Routes::default();
        own.into_iter().filter(|route| route.dir == dir).for_each(|route| _ = lines.learn(route));
        let told = self.routes.version(dir);
        let (ranks, version) = (lines.ranks(dir), lines.version(dir).max(told).unwrap_or(0));
        let own: Vec<Frag> = lines.lines(dir).into_iter().map(|route| route.frag).collect();
        if ranks.len() == 1 && ranks.contains(&core.me()) && covers_all(&own) && inode.spread() == Spread::Home {
            inode.end_spread();
            let route = Route { dir, frag: Frag::WHOLE, rank: core.me(), version: version + 1 };
            events.push(Event::Route(route));
        }
    }

    /// The home of a directory of which this rank has only a part.
    pub(crate) fn home_of_part(&self, core: &Core, dir: Ino) -> Option<Rank> {
        core.tree.part(dir)?;
        self.routes.home(dir).filter(|rank| *rank != core.me())
    }
}

impl Borrowing {
    /// A request that sees that a fragment is on its way between other ranks comes again with the next tick.
    pub(crate) fn come_again(&mut self, core: &mut Core, peers: &mut Peers, job: &mut Job) -> Step {
        self.give_back(core, job, true);
        peers.again = true;
        Step::Wait(WaitReason::Peers)
    }
}

impl Cluster {
    /// A directory's fragments are to be given to one rank.
    pub(crate) fn give_back_fragments(&mut self, core: &mut Core, decoupled: &Decoupled, dir: Ino, to: Rank) {
        if core.tree.part(dir).is_some() && to != core.me() {
            self.want_export(core, decoupled, dir, None, to);
        }
    }
}

impl Core {
    /// The part of a record read from the table that is this rank's; the rest is stale, and another one's.
    pub(super) fn clip(&self, item: Loaded) -> Option<Loaded> {
        match item {
            Loaded::Entry { dir, name, found } => {
                let own = self.tree.own_until(dir, self.tree.hash(&name)).is_some();
                own.then_some(Loaded::Entry { dir, name, found })
            }
            Loaded::Range { dir, from_hash, upto_hash, entries } => {
                let upto_hash = own_part(&self.tree, dir, from_hash, upto_hash)?;
                Some(Loaded::Range { dir, from_hash, upto_hash, entries })
            }
            Loaded::Hashes { dir, from_hash, upto_hash, hashes } => {
                let upto_hash = own_part(&self.tree, dir, from_hash, upto_hash)?;
                Some(Loaded::Hashes { dir, from_hash, upto_hash, hashes })
            }
            other => Some(other),
        }
    }

    /// The fragments of a directory that this rank has, if it has any.
    pub(super) fn frags_of(&self, dir: Ino) -> Vec<Frag> {
        self.tree.own_frags(dir).unwrap_or_else(|| vec![Frag::WHOLE])
    }
}

impl Recalls {
    /// True if a directory of which a fragment is to move is locked, or clients hold leases that they cannot hold any more
    /// when its fragments are several ranks': those are asked back.
    pub(super) fn is_held_as_a_whole(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        leases: &Leases,
        loans: &Loans,
        dir: Ino,
    ) -> bool {
        if loans.locked(dir).is_some() {
            return true;
        }
        let holders: Vec<(Slot, Lease)> = leases.holders(dir).collect();
        let mut held = false;
        for (slot, bits) in holders {
            if bits.any(SHARED) {
                held = true;
                self.recall(core, sessions, dir, slot, bits & SHARED, 0);
            }
        }
        held
    }
}

impl Export {
    /// True if this rank has other fragments of a directory than those that the migration began with, or another record
    /// of it.
    pub(super) fn has_other_frags(&self, core: &Core, inode: &Inode) -> bool {
        let is_part = core.tree.part(self.dir).is_some();
        core.frags_of(self.dir) != self.own || is_part != inode.part_of().is_some()
    }
}
