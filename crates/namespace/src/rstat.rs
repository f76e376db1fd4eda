//! Recursive sums: moves what a directory's children have grown by one level up, in batches. Lazy, never lost.
//!
//! An operation that holds both the child and its directory settles at once. What remains are changes of size and the
//! levels above; those wait in a queue of inodes whose worth differs from what their parent has counted.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Event, Ino, Inode, RStat};

use crate::need::Need;
use crate::tree::{Found, Tree, flag};

/// True if the parent has not counted all of an inode. The root and files without a counting parent have nobody to
/// tell.
pub fn is_unsettled(inode: &Inode) -> bool {
    inode.part_of().is_none() && inode.parent.0 != 0 && inode.ino != Ino::ROOT && inode.own() != inode.accounted
}

/// Sums wrap: sparse files may say more bytes than can be held, and differences stay right all the same.
pub fn plus(a: RStat, b: RStat) -> RStat {
    RStat { entries: a.entries.wrapping_add(b.entries), bytes: a.bytes.wrapping_add(b.bytes) }
}

/// `a` without `b`.
pub(crate) fn minus(a: RStat, b: RStat) -> RStat {
    RStat { entries: a.entries.wrapping_sub(b.entries), bytes: a.bytes.wrapping_sub(b.bytes) }
}

/// Adds `delta` to the sums below a directory.
pub fn add(dir: &mut Inode, delta: RStat) {
    if delta != RStat::default() {
        let rstat = &mut dir.extra_mut().rstat;
        *rstat = plus(*rstat, delta);
    }
}

/// Adds what another rank says has grown below a directory.
pub fn add_sum(dir: &mut Inode, entries: i64, bytes: i64) {
    add(dir, RStat { entries, bytes });
}

/// Counts `child` newly in `dir`.
pub fn enter(dir: &mut Inode, child: &mut Inode) {
    child.parent = dir.ino;
    child.accounted = child.own();
    add(dir, child.accounted);
}

/// Takes what `dir` has counted of `child` out again; nobody counts it then. Nothing if another directory counts it.
pub fn leave(dir: &mut Inode, child: &mut Inode) {
    if child.parent == dir.ino {
        let counted = std::mem::take(&mut child.accounted);
        add(dir, minus(RStat::default(), counted));
        child.parent = Ino(0);
    }
}

/// Records that must be loaded for the next batch. Empty: [`propagate`] can go on.
pub fn propagate_need(tree: &Tree, max: usize) -> Vec<Need> {
    let parents = tree.unsettled.iter().take(max).filter_map(|ino| Some(tree.inode(*ino)?.parent));
    let unknown = parents.filter(|parent| parent.0 != 0 && matches!(tree.find(*parent), Found::Unknown));
    let mut inos: Vec<Ino> = unknown.collect();
    inos.sort();
    inos.dedup();
    inos.into_iter().map(Need::Inode).collect()
}

/// One batch: the events that settle the oldest `max` unsettled inodes with their parents; `None` if there is nothing
/// to do. Neither change counters nor times move, so nobody's lease is touched.
pub fn propagate(tree: &Tree, max: usize) -> Option<Vec<Event>> {
    let (events, abroad) = propagate_abroad(tree, max, &|_| false, &|_| false);
    debug_assert!(abroad.is_empty(), "nothing is abroad");
    (!events.is_empty()).then_some(events)
}

/// The same where some directories are other ranks': also what is to be added to those. What is `locked`, or in a directory
/// that is, stays as it is for now.
pub fn propagate_abroad(
    tree: &Tree,
    max: usize,
    abroad: &dyn Fn(Ino) -> bool,
    locked: &dyn Fn(Ino) -> bool,
) -> (Vec<Event>, Vec<(Ino, RStat)>) {
    let mut sums: BTreeMap<Ino, RStat> = BTreeMap::new();
    let mut work: BTreeMap<Ino, Inode> = BTreeMap::new();
    for ino in tree.unsettled.iter().take(max) {
        let Some(mut inode) = work.get(ino).or_else(|| tree.inode(*ino)).cloned() else { continue };
        if !is_unsettled(&inode) || locked(*ino) || locked(inode.parent) {
            continue;
        }
        let own = inode.own();
        let delta = minus(own, inode.accounted);
        if abroad(inode.parent) {
            let sum = sums.entry(inode.parent).or_default();
            *sum = plus(*sum, delta);
        } else if !work.contains_key(&inode.parent) {
            match tree.find(inode.parent) {
                Found::Unknown => continue,
                Found::Gone => inode.parent = Ino(0),
                Found::Here(parent) => drop(work.insert(parent.ino, parent.clone())),
            }
        }
        if let Some(parent) = work.get_mut(&inode.parent) {
            add(parent, delta);
        }
        inode.accounted = own;
        work.insert(*ino, inode);
    }
    // All of it is one record, and an inode with long ACLs is long.
    let room = max.saturating_mul(2).saturating_add(max.div_ceil(8)).saturating_sub(work.len());
    let parts = tree.parts().filter(|part| part.own() != part.accounted && !locked(part.ino));
    for part in parts.take(room) {
        // Its home is told, with what was just added to it.
        let mut part = work.remove(&part.ino).filter(|inode| inode.part_of().is_some()).unwrap_or_else(|| part.clone());
        let sum = sums.entry(part.ino).or_default();
        *sum = plus(*sum, minus(part.own(), part.accounted));
        part.accounted = part.own();
        work.insert(part.ino, part);
    }
    let events = work.into_values().map(|inode| Event::Inode(Box::new(inode))).collect();
    (events, sums.into_iter().collect())
}

/// The events that settle these inodes with their parents, and those that they unsettle in turn, as far as `may` lets inodes be settled and
/// their parents are in memory.
pub fn settle(tree: &Tree, inos: impl IntoIterator<Item = Ino>, may: &dyn Fn(Ino) -> bool) -> Vec<Event> {
    let mut work: BTreeMap<Ino, Inode> = BTreeMap::new();
    let mut due: BTreeSet<Ino> = inos.into_iter().filter(|ino| may(*ino)).collect();
    // A parent is made before what is in it, most often: from below.
    while let Some(ino) = due.pop_last() {
        let Some(mut inode) = work.get(&ino).or_else(|| tree.inode(ino)).cloned() else { continue };
        if !is_unsettled(&inode) {
            continue;
        }
        if let Found::Here(parent) = tree.find(inode.parent) {
            let own = inode.own();
            add(work.entry(inode.parent).or_insert_with(|| parent.clone()), minus(own, inode.accounted));
            if may(inode.parent) {
                due.insert(inode.parent);
            }
            inode.accounted = own;
            work.insert(ino, inode);
        }
    }
    work.into_values().map(|inode| Event::Inode(Box::new(inode))).collect()
}

impl Tree {
    /// Number of inodes that wait for the propagation of their sums (some may turn out to be settled).
    pub fn unsettled(&self) -> usize {
        self.unsettled.len() + usize::from(self.parts_unsettled())
    }

    /// Drops settled inodes from the front of the queue.
    pub(crate) fn trim_unsettled(&mut self) {
        while let Some(ino) = self.unsettled.front().copied() {
            // Never evicted, but it may have become another rank's.
            let Some(slot) = self.inodes.get(ino.0) else {
                self.unsettled.pop_front();
                continue;
            };
            let gone = slot.flags.get() & flag::GONE != 0;
            if !gone && is_unsettled(&slot.inode) {
                return;
            }
            slot.flags.set(slot.flags.get() & !flag::QUEUED);
            self.unsettled.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Kind, Loaded, Lsn, Rank, Time};

    use super::*;

    #[test]
    fn what_many_parts_have_counted_is_told_bit_by_bit_and_once() {
        let mut tree = crate::testing::empty_tree();
        let dirs: Vec<Ino> = (100..200).map(Ino).collect();
        for dir in &dirs {
            let mut part = Inode::new(*dir, Kind::Dir, 0o755, 0, 0, Ino::ROOT, Time(1)).new_part(Rank(1));
            add_sum(&mut part, 3, 0);
            tree.load(Loaded::Inode(*dir, Some(Box::new(part))));
        }
        let mut told: Vec<Ino> = Vec::new();
        for lsn in 1.. {
            if tree.unsettled() == 0 {
                break;
            }
            let (events, sums) = propagate_abroad(&tree, 16, &|_| true, &|_| false);
            assert!((1..=34).contains(&events.len()) && sums.len() == events.len(), "{} at once", events.len());
            told.extend(sums.iter().map(|(dir, _)| *dir));
            assert!(sums.iter().all(|(_, sum)| *sum == sums[0].1 && sum.entries == 3));
            events.iter().for_each(|event| crate::apply(&mut tree, event, Lsn(lsn)));
        }
        assert_eq!(told, dirs);
    }
}
