//! Checks of a tree that is in memory as a whole, for tests and tools: what must hold after every change.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Ino, Inode, Kind, RStat};

use crate::tree::{Tree, flag};

/// All that is wrong, one line each. Meaningful only if every record is in memory.
pub fn check(tree: &Tree) -> Vec<String> {
    let here = |slot: &&crate::tree::Slot| slot.flags.get() & flag::GONE == 0;
    let inodes: BTreeMap<Ino, &Inode> = tree.inodes.iter().filter(here).map(|s| (s.inode.ino, &s.inode)).collect();
    let mut check = Check { tree, inodes, links: BTreeMap::new(), faults: Vec::new() };
    check.entries();
    check.directories();
    check.files();
    check.orphans();
    check.sums();
    check.reachable();
    check.faults
}

struct Check<'a> {
    tree: &'a Tree,
    inodes: BTreeMap<Ino, &'a Inode>,
    /// Directories with an entry for the inode.
    links: BTreeMap<Ino, Vec<Ino>>,
    faults: Vec<String>,
}

impl Check<'_> {
    fn fault(&mut self, text: String) {
        self.faults.push(text);
    }

    fn entries(&mut self) {
        for slot in self.tree.dirs.iter() {
            let entries = slot.entries.values().flat_map(|group| group.entries());
            for entry in entries.filter(|entry| entry.ino.0 != 0) {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                match self.inodes.get(&entry.ino) {
                    None => {
                        self.faults.push(format!("{}/{name} points to {}, which is not there", slot.ino, entry.ino))
                    }
                    Some(inode) if inode.kind != entry.kind => {
                        self.faults.push(format!("{}/{name} has the wrong type", slot.ino));
                    }
                    Some(_) => {}
                }
                if self.inodes.get(&slot.ino).is_none_or(|dir| dir.kind != Kind::Dir) {
                    self.faults.push(format!("{}/{name} is in something that is no directory", slot.ino));
                }
                self.links.entry(entry.ino).or_default().push(slot.ino);
            }
        }
    }

    fn directories(&mut self) {
        let dirs: Vec<&Inode> = self.inodes.values().copied().filter(|inode| inode.kind == Kind::Dir).collect();
        for dir in dirs {
            let entries = self.tree.dirs.get(dir.ino.0).map(|slot| {
                let all = slot.entries.values().flat_map(|group| group.entries());
                all.filter(|entry| entry.ino.0 != 0).map(|entry| entry.kind).collect::<Vec<_>>()
            });
            let entries = entries.unwrap_or_default();
            let subdirs = entries.iter().filter(|kind| **kind == Kind::Dir).count() as u32;
            if dir.size != entries.len() as u64 {
                self.fault(format!("directory {} says {} entries, has {}", dir.ino, dir.size, entries.len()));
            }
            let links = self.links.get(&dir.ino).cloned().unwrap_or_default();
            let nlink = if dir.ino == Ino::ROOT || !links.is_empty() { 2 + subdirs } else { 0 };
            if dir.nlink != nlink {
                self.fault(format!("directory {} says {} links, has {nlink}", dir.ino, dir.nlink));
            }
            let parent = if dir.ino == Ino::ROOT { Ino::ROOT } else { links.first().copied().unwrap_or_default() };
            if dir.parent != parent || links.len() > 1 {
                self.fault(format!("directory {} says it is in {}, is in {links:?}", dir.ino, dir.parent));
            }
        }
    }

    fn files(&mut self) {
        let inodes: Vec<&Inode> = self.inodes.values().copied().collect();
        for inode in inodes {
            let ino = inode.ino;
            let links = self.links.get(&ino).map_or(0, Vec::len);
            if inode.kind != Kind::Dir && inode.nlink as usize != links {
                self.fault(format!("file {ino} says {} links, has {links}", inode.nlink));
            }
            let data = self.tree.inline.get(&ino).and_then(|slot| slot.data.as_ref());
            if data.is_some() != (inode.kind == Kind::File && inode.inline && inode.size > 0) {
                self.fault(format!("file {ino} of {} bytes and its inline record disagree", inode.size));
            }
            let max = u64::from(self.tree.config.inline_max);
            let wrong = |len: u64| len > max || len > inode.size || inode.size <= max && len != inode.size;
            if data.is_some_and(|data| wrong(data.len() as u64)) {
                self.fault(format!("file {ino} of {} bytes holds the wrong number of bytes inline", inode.size));
            }
            let xattrs = self.tree.xattrs.get(&ino);
            let any = xattrs.is_some_and(|set| set.items.values().any(|slot| slot.value.is_some()));
            if any != inode.has_xattrs {
                self.fault(format!("inode {ino} says has_xattrs {}, its records say {any}", inode.has_xattrs));
            }
            if inode.kind == Kind::Symlink && inode.symlink().map(|target| target.len() as u64) != Some(inode.size) {
                self.fault(format!("symlink {ino} and its target's length disagree"));
            }
        }
    }

    fn orphans(&mut self) {
        let orphans: BTreeSet<Ino> = self.tree.orphans().collect();
        let unlinked = self.inodes.values().filter(|inode| inode.nlink == 0).map(|inode| inode.ino);
        let unlinked: BTreeSet<Ino> = unlinked.collect();
        for ino in orphans.symmetric_difference(&unlinked) {
            self.faults.push(format!("inode {ino} has no links or is an orphan, but not both"));
        }
    }

    fn sums(&mut self) {
        let mut sums: BTreeMap<Ino, RStat> = BTreeMap::new();
        for inode in self.inodes.values().filter(|inode| inode.ino != Ino::ROOT) {
            let sum = sums.entry(inode.parent).or_default();
            *sum = crate::rstat::plus(*sum, inode.accounted);
        }
        for inode in self.inodes.values() {
            let sum = sums.get(&inode.ino).copied().unwrap_or_default();
            if inode.kind == Kind::Dir && inode.rstat() != sum {
                self.faults.push(format!("directory {} has sums {:?}, not {sum:?}", inode.ino, inode.rstat()));
            }
            let queued = self.tree.inodes.get(inode.ino.0).is_some_and(|s| s.flags.get() & flag::QUEUED != 0);
            if crate::rstat::is_unsettled(inode) && !queued {
                self.faults.push(format!("inode {} is unsettled, but not queued", inode.ino));
            }
        }
    }

    /// Walks up from every linked directory: each must end at the root.
    fn reachable(&mut self) {
        for dir in self.inodes.values().filter(|inode| inode.kind == Kind::Dir && inode.nlink > 0) {
            let (mut at, mut steps) = (dir.ino, 0);
            while at != Ino::ROOT && steps <= self.inodes.len() {
                at = self.inodes.get(&at).map_or(Ino(0), |inode| inode.parent);
                steps += 1;
            }
            if at != Ino::ROOT {
                self.faults.push(format!("directory {} is not below the root", dir.ino));
            }
        }
    }
}
