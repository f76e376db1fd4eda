//! Counts requests, reads of the table and checkpoints for directories.
//!
//! Anything done with an inode counts for the fragment that holds its primary name, because it moves with that. All records
//! read from the table or written into it in one go count once for each directory, however many there are.

use loligo_namespace::{Loaded, Lookup, Record, Recut, Tree};
use loligo_types::{DirEffect, Event, Frag, FragHeat, Hit, Ino, Inode, Kind, Op, Subject};

use crate::balance::Balance;
use crate::cluster::Atlas;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::heat::Heat;
use crate::heat::table::Spot;
use crate::heat::vec::DirChanges;

/// Fragments whose heat goes along when they move; colder ones are counted anew.
const MOVED_MAX: usize = 4096;

impl Heat {
    /// Counts a request that was chosen for it.
    #[cold]
    pub(crate) fn heat_op(&mut self, core: &Core, atlas: &Atlas, op: &Op) {
        let Some(hit) = op.props().hit else { return };
        let weight = self.sampler.weight();
        let spot = atlas.spot_of(core, op);
        self.hit(core, atlas, spot, hit, weight);
        if let (Some(spot), Some(more)) = (spot, dir_changes(&core.tree, op, weight).filter(|_| hit == Hit::Iwr)) {
            self.table.hit_dirs(spot, more, core.now.mono_ms);
        }
        if let [Subject::Name(dir, _), Subject::Name(other, name)] = op.subjects()
            && dir != other
        {
            let frag = atlas.frag_of(core, other, || core.tree.hash(name));
            self.hit(core, atlas, Some((other, frag)), hit, weight);
        }
    }

    /// Counts a request that another rank is to answer.
    pub(crate) fn heat_redirect(&mut self, core: &Core, atlas: &Atlas) {
        if self.sampler.choose() {
            self.hit(core, atlas, None, Hit::Ird, self.sampler.weight());
        }
    }

    /// Counts that read.
    pub(crate) fn heat_fetch(&mut self, core: &Core, atlas: &Atlas, spots: Vec<Spot>) {
        self.hit_once(core, atlas, spots, Hit::Fetch);
    }

    /// Counts what goes into the table.
    pub(crate) fn heat_store(&mut self, core: &Core, cluster: &mut Cluster, records: &[Record]) {
        let mut spots: Vec<Spot> = Vec::new();
        for record in records {
            cluster.placement.note_growing(core, &cluster.atlas, &record.event);
            let spot = match &record.event {
                Event::Inode(inode) => cluster.atlas.home_of(core, inode),
                Event::Entry { dir, .. } | Event::EntryGone { dir, .. } => {
                    (*dir, cluster.atlas.frag_of(core, *dir, || record.hash))
                }
                _ => continue,
            };
            // Neighbours are mostly of one directory.
            if spots.last() != Some(&spot) {
                spots.push(spot);
            }
        }
        self.hit_once(core, &cluster.atlas, spots, Hit::Store);
    }

    /// Takes out what was counted of fragments that are another rank's from now on: the hottest of it, hottest first. Of
    /// `dir` some may stay.
    pub(crate) fn heat_moved(
        &mut self,
        core: &Core,
        atlas: &Atlas,
        dir: Ino,
        is_gone: impl Fn(&Spot) -> bool,
    ) -> Vec<FragHeat> {
        let (now, routes) = (core.now.mono_ms, &atlas.routes);
        let bits = core.tree.peek(dir).map_or(0, |inode| inode.frag_bits);
        // What was counted for more than what moves is parted first.
        self.table.recut(dir, bits, |frag| routes.frag(dir, || frag.first()).bits, now);
        let mut moved = self.table.take(is_gone, now);
        let heat = |one: &FragHeat| one.load.metaload();
        moved.sort_by(|a, b| heat(b).total_cmp(&heat(a)).then_with(|| (a.dir, a.frag).cmp(&(b.dir, b.frag))));
        moved.truncate(MOVED_MAX);
        moved
    }

    /// Takes the counters of fragments that another rank gave away to this one.
    pub(crate) fn heat_came(&mut self, core: &Core, atlas: &Atlas, heat: &[FragHeat]) {
        let (now, me) = (core.now.mono_ms, core.me());
        for FragHeat { dir, frag, load } in heat.iter().take(MOVED_MAX) {
            let is_own = atlas.routes.of(*dir, frag.first()).is_none_or(|rank| rank == me);
            if is_own && load.is_sound() {
                self.table.add((*dir, *frag), load, now);
            }
        }
    }

    fn hit_once(&mut self, core: &Core, atlas: &Atlas, mut spots: Vec<Spot>, hit: Hit) {
        spots.sort_unstable();
        spots.dedup();
        spots.into_iter().for_each(|spot| self.hit(core, atlas, Some(spot), hit, 1.0));
    }

    /// Counts for a fragment, or for what is done besides.
    fn hit(&mut self, core: &Core, atlas: &Atlas, spot: Option<Spot>, hit: Hit, weight: f64) {
        let (now, half_life) = (core.now.mono_ms, core.config.heat_half_life_ms);
        *self.totals.of(hit) += weight;
        self.counted_here.hit(hit, weight, now, half_life);
        // Of a directory that is this rank's, the inode is in memory while something is done in it.
        match spot.filter(|(dir, _)| atlas.is_alone() || core.tree.peek(*dir).is_some()) {
            Some(spot) => self.table.hit(spot, hit, weight, now),
            None => self.besides.hit(hit, weight, now, half_life),
        }
    }

    /// Follows up a change: directories were split or merged. Their counters are, too.
    #[cold]
    pub(crate) fn recut(&mut self, core: &mut Core, cluster: &mut Cluster, recuts: Vec<Recut>) {
        for Recut { dir, from, to } in recuts {
            core.counters.splits += u64::from(to > from);
            core.counters.merges += u64::from(to < from);
            let routes = &cluster.atlas.routes;
            self.table.recut(dir, to, |frag| routes.frag(dir, || frag.first()).bits, core.now.mono_ms);
            if to > from {
                cluster.placement.has_grown(core, &cluster.atlas, dir);
            }
        }
    }
}

/// Changes of directory lookup state by a request, once executed.
fn dir_changes(tree: &Tree, op: &Op, weight: f64) -> Option<DirChanges> {
    let is_dir = |ino: Ino| tree.peek(ino).is_some_and(|inode| inode.kind == Kind::Dir);
    let [subject, second] = op.subjects();
    let others = DirChanges { others: weight, ..DirChanges::default() };
    match op.props().dirs {
        DirEffect::Nothing => None,
        DirEffect::Makes => Some(DirChanges { made: weight, ..DirChanges::default() }),
        DirEffect::Ends => Some(others),
        DirEffect::Moves => {
            let (dir, name) = second.name()?;
            let Lookup::Present(moved) = tree.entry(dir, name) else { return None };
            (moved.kind == Kind::Dir).then_some(others)
        }
        DirEffect::Restricts => {
            is_dir(subject.ino()?).then_some(DirChanges { restricted: weight, ..DirChanges::default() })
        }
    }
}

impl Balance {
    /// The fragments that a read of the table is to count for, once it is known to whom they belong.
    pub(crate) fn spots_of(&self, core: &Core, atlas: &Atlas, items: &[Loaded]) -> Vec<Spot> {
        let spot = |item: &Loaded| match item {
            Loaded::Inode(_, None) => None,
            // Read by the balancer for what is below; it would be a load of its own making.
            Loaded::Inode(ino, _) if self.is_distant(*ino) => None,
            Loaded::Inode(_, Some(inode)) => Some(atlas.home_of(core, inode)),
            Loaded::Entry { dir, name, .. } => Some((*dir, atlas.frag_of(core, *dir, || core.tree.hash(name)))),
            Loaded::Range { dir, from_hash, .. } => Some((*dir, atlas.frag_of(core, *dir, || *from_hash))),
            Loaded::Xattrs(ino, _) | Loaded::Inline(ino, _) => {
                core.tree.peek(*ino).map(|inode| atlas.home_of(core, inode))
            }
            _ => None,
        };
        items.iter().filter_map(spot).collect()
    }
}

impl Atlas {
    /// The fragment that an operation is about; none if it is not known (any more).
    fn spot_of(&self, core: &Core, op: &Op) -> Option<Spot> {
        let props = op.props();
        match op.subjects()[0] {
            Subject::Name(dir, name) => Some((dir, self.frag_of(core, dir, || core.tree.hash(name)))),
            Subject::Names(dir) => Some((dir, self.frag_of(core, dir, || props.lists_from.unwrap_or_default()))),
            Subject::Inode(dir) if props.counts_in_itself => Some((dir, self.frag_of(core, dir, || 0))),
            Subject::Inode(ino) => Some(self.home_of(core, core.tree.inode(ino)?)),
            Subject::Nothing => None,
        }
    }

    /// The fragment of a directory that holds a name with this hash: as it is cut itself, or finer where the subtree map says
    /// so.
    fn frag_of(&self, core: &Core, dir: Ino, hash: impl Fn() -> u64) -> Frag {
        let line = self.routes.frag(dir, &hash);
        match core.tree.peek(dir).map_or(0, |inode| inode.frag_bits) {
            bits if bits > line.bits => Frag::of(hash(), bits),
            _ => line,
        }
    }

    /// Where an inode lives; one without a name stands for itself, and a directory with a line of the subtree map lives
    /// with its first fragment.
    fn home_of(&self, core: &Core, inode: &Inode) -> Spot {
        if inode.kind == Kind::Dir && self.routes.home(inode.ino).is_some() {
            return (inode.ino, self.frag_of(core, inode.ino, || 0));
        }
        match inode.place.hash() {
            Some(hash) if inode.parent.0 != 0 && inode.ino != Ino::ROOT => {
                (inode.parent, self.frag_of(core, inode.parent, || hash))
            }
            _ => (inode.ino, Frag::WHOLE),
        }
    }
}
