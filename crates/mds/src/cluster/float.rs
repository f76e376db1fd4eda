//! Migration of files that live by themselves, at the rank that gives them away: several at once, in place of a directory
//! and what is below it. A rank that is drained gives all of them away; any other those that are counted by a directory of
//! another rank, when nothing else moves: there their names are, most likely. The rest of the way is `stages/migrate.rs`'s.

use std::collections::BTreeSet;

use loligo_types::{Event, Ino, Kind, Place, Rank};

use crate::cluster::placement::Homes;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Exports, Peers, Where};
use crate::core::Core;
use crate::grace::Grace;
use crate::load::Waiter;

/// Interval of the look for files that are to go home, milliseconds.
const HOME_MS: u64 = 1000;
/// Inodes in memory looked at then.
const LOOKED_MAX: usize = 4096;
/// Most times that these files are looked at again, at the next tick, because the ranks of their directories were not known:
/// the records read for that may be forgotten before their turn comes again.
const AGAIN_MAX: u32 = 10;
/// Files that go home at once.
const HOME_MAX: usize = 64;

impl Peers {
    fn takes_files(&self, atlas: &Atlas, rank: Rank) -> bool {
        atlas.takes_more(rank) && self.links.get(&rank).is_some_and(|link| link.greeted)
    }
}

impl Exports {
    /// Wants files to be moved that live by themselves here.
    pub(crate) fn want_export_of_files(&mut self, files: Vec<Ino>, to: Rank) -> Option<u64> {
        let first = files.first().copied()?;
        let id = self.wait(first, None, to);
        self.files.insert(id, files);
        Some(id)
    }

    /// True if all these files are in memory, and still what they were. `None`: those that have left it are read first.
    pub(super) fn has_files(&mut self, core: &mut Core, atlas: &mut Atlas, files: &[Ino]) -> Option<bool> {
        let mut wants = Vec::new();
        let mut all = !core.files_have_changed(files);
        for ino in files {
            all &= !matches!(atlas.locate(core, self, *ino, &mut wants), Where::Elsewhere(_));
        }
        let reads = all && !wants.is_empty();
        if !wants.is_empty() {
            atlas.load(core, wants, Waiter::Nobody);
        }
        (!reads).then_some(all)
    }

    /// Nothing is known any more of what was given to a rank that is not there: it has handed it on.
    pub(super) fn forget_given_to(&mut self, atlas: &mut Atlas, rank: Rank) {
        atlas.departed.retain(|_, (to, _)| *to != rank);
        self.forget_landing(rank);
    }
}

impl Cluster {
    /// Files in memory that live by themselves here though the directory that counts them is another rank's, as far as that is
    /// known: for those who test the machine from outside.
    pub(crate) fn far_from_home(&mut self, core: &mut Core) -> Vec<Ino> {
        let (inodes, _) = core.tree.places();
        let abroad: Vec<(Ino, Ino)> = (0..inodes).filter_map(|place| counted_abroad(core, place)).collect();
        let mut away = |dir: Ino| matches!(self.locate(core, dir, &mut Vec::new()), Where::Elsewhere(rank) if self.peers.takes_files(&self.atlas, rank));
        abroad.into_iter().filter(|(_, dir)| away(*dir)).map(|(ino, _)| ino).collect()
    }

    /// Gives files home that live by themselves here: to the rank that has the directory which counts them. A few at a
    /// time, and only those in memory; what is asked for comes there.
    pub(crate) fn give_home(&mut self, core: &mut Core, grace: &Option<Grace>) {
        let busy = !self.exports.is_idle() || self.drain.is_some() || !self.peers.ready;
        if busy || core.stopping || grace.is_some() || core.now.mono_ms < self.placement.homes.at_ms {
            return;
        }
        let (inodes, _) = core.tree.places();
        let from = if self.placement.homes.place < inodes { self.placement.homes.place } else { 0 };
        let upto = inodes.min(from + core.config.some(LOOKED_MAX));
        let abroad: Vec<(Ino, Ino)> = (from..upto).filter_map(|place| counted_abroad(core, place)).collect();
        let (mut files, mut home, mut reads) = (Vec::new(), None, false);
        for (ino, dir) in abroad {
            let mut wants = Vec::new();
            match self.locate(core, dir, &mut wants) {
                Where::Elsewhere(rank)
                    if home.is_none_or(|home| home == rank) && self.peers.takes_files(&self.atlas, rank) =>
                {
                    home = Some(rank);
                    files.push(ino);
                }
                Where::Unknown => {
                    self.load(core, wants, Waiter::Nobody);
                    reads = true;
                }
                _ => {}
            }
            if files.len() == core.config.some(HOME_MAX) {
                break;
            }
        }
        let homes = &mut self.placement.homes;
        match reads && home.is_none() && homes.again < AGAIN_MAX {
            true => homes.again += 1,
            false => *homes = Homes { at_ms: core.now.mono_ms + HOME_MS, place: upto, again: 0 },
        }
        if let Some(home) = home {
            self.exports.want_export_of_files(files, home);
        }
    }
}

impl Core {
    /// True if one of these files was removed, or lost its name.
    pub(super) fn files_have_changed(&self, files: &[Ino]) -> bool {
        let known = |ino: &Ino| !matches!(self.tree.find(*ino), loligo_namespace::Found::Unknown);
        files.iter().any(|ino| known(ino) && !self.floats_here(*ino))
    }

    /// The events that say that these files live at the other rank.
    pub(super) fn moved_files(&self, files: &[Ino], to: Rank) -> Vec<Event> {
        let there = |ino: &Ino| {
            let mut inode = self.tree.inode(*ino)?.clone();
            inode.place = Place::floating(to);
            Some(Event::Inode(Box::new(inode)))
        };
        files.iter().filter_map(there).collect()
    }
}

/// The files as a set to begin the list of what departs with.
pub(super) fn departing(dir: Ino, files: &[Ino]) -> BTreeSet<Ino> {
    if files.is_empty() { BTreeSet::from([dir]) } else { files.iter().copied().collect() }
}

/// The file at a place in memory that lives by itself here and has names, and the directory that counts it, if that is
/// not in memory, and so perhaps another rank's.
fn counted_abroad(core: &Core, place: usize) -> Option<(Ino, Ino)> {
    let inode = core.tree.peek(core.tree.inode_at(place)?)?;
    let floats = inode.place.rank() == Some(core.me()) && inode.nlink > 0 && inode.kind != Kind::Dir;
    let known = core.tree.peek(inode.parent).is_some_and(|dir| dir.part_of().is_none());
    let abroad = floats && inode.parent.0 != 0 && !known && !core.tree.is_orphan(inode.ino);
    // What is gone may say so still.
    (abroad && core.tree.inode(inode.ino).is_some()).then_some((inode.ino, inode.parent))
}
