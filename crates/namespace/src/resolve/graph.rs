//! Names and inodes as they become with a merge, over the tree as it is: each name that is given or taken moves the counts that hang on
//! it. Decides nothing.
//!
//! What gets another directory is counted there later, as everything that grows is; only what was counted is taken out at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::limits::CONFLICTS_TOLD_MAX;
use loligo_types::{Conflict, ConflictKind, Ino, Inode, Kind, Name, Need, Place, RStat, Target};

use super::{Draft, Terms};
use crate::rstat;
use crate::tree::{Found, Lookup, Tree};
use crate::work::subdirs;

/// The xattr that has a file's capabilities.
pub(super) const CAPABILITY: &[u8] = b"security.capability";

pub(super) struct Graph<'a> {
    pub tree: &'a Tree,
    pub draft: &'a Draft,
    pub terms: &'a Terms<'a>,
    /// Inodes that change, and those that are made.
    pub inodes: BTreeMap<Ino, Inode>,
    /// Names that change.
    pub names: BTreeMap<(Ino, Name), Option<Target>>,
    /// Inodes that have no name at the moment.
    pub nameless: BTreeSet<Ino>,
    /// Where a directory was put.
    at: BTreeMap<Ino, (Ino, Name)>,
    /// The last name of what lost one.
    pub was: BTreeMap<Ino, (Ino, Name)>,
    /// Inodes whose names, or the names in which, have changed.
    pub touched: BTreeSet<Ino>,
    /// Directories with routes of their own, which their entries say.
    routed: BTreeSet<Ino>,
    /// Inodes that are gone with the merge.
    pub gone: BTreeSet<Ino>,
    /// Orphans that are named again.
    pub back: BTreeSet<Ino>,
    /// Inline data that is not as the owner says: of copies, and `None` where the others' counts.
    pub data: BTreeMap<Ino, Option<Arc<[u8]>>>,
    /// Copies of what the owner may not say any more.
    pub refused: BTreeSet<Ino>,
    /// Files that lose their capabilities.
    pub unprivileged: BTreeSet<Ino>,
    /// Files that have what others wrote into objects.
    pub kept: BTreeSet<Ino>,
    pub conflicts: u64,
    pub told: Vec<Conflict>,
    pub needs: BTreeSet<Need>,
    /// The next number for an inode that the merge makes.
    next: Ino,
    /// Names of things that are kept, each with the number of the last one.
    numbers: BTreeMap<Vec<u8>, u32>,
}

impl<'a> Graph<'a> {
    pub fn new(tree: &'a Tree, draft: &'a Draft, terms: &'a Terms<'a>) -> Graph<'a> {
        let inodes = draft.fresh.iter().map(|(ino, inode)| (*ino, Draft::blank(inode))).collect();
        Graph {
            tree,
            draft,
            terms,
            inodes,
            names: BTreeMap::new(),
            nameless: draft.fresh.keys().copied().collect(),
            at: BTreeMap::new(),
            was: BTreeMap::new(),
            touched: BTreeSet::new(),
            routed: BTreeSet::new(),
            gone: BTreeSet::new(),
            back: BTreeSet::new(),
            data: BTreeMap::new(),
            refused: BTreeSet::new(),
            unprivileged: BTreeSet::new(),
            kept: BTreeSet::new(),
            conflicts: 0,
            told: Vec::new(),
            needs: BTreeSet::new(),
            next: terms.next,
            numbers: BTreeMap::new(),
        }
    }

    /// An error with the missing records so far, if there are any.
    pub fn check(&self) -> Result<(), Vec<Need>> {
        if self.needs.is_empty() { Ok(()) } else { Err(self.needs.iter().cloned().collect()) }
    }

    /// True if the owner may speak of an inode.
    pub fn is_there(&self, ino: Ino) -> bool {
        self.draft.fresh.contains_key(&ino) || self.terms.there.contains(&ino)
    }

    /// True if an inode comes with the merge.
    pub fn is_new(&self, ino: Ino) -> bool {
        self.draft.fresh.contains_key(&ino) || self.is_made(ino)
    }

    /// An inode as it is before the merge; `None`: there is none, or it must be loaded.
    pub fn before(&mut self, ino: Ino) -> Option<&'a Inode> {
        match self.tree.find(ino) {
            Found::Here(inode) => Some(inode),
            Found::Gone => None,
            Found::Unknown => {
                if ino.0 != 0 {
                    self.needs.insert(Need::Inode(ino));
                }
                None
            }
        }
    }

    /// An inode as it becomes.
    pub fn find(&mut self, ino: Ino) -> Option<&Inode> {
        if self.inodes.contains_key(&ino) {
            return self.inodes.get(&ino);
        }
        self.before(ino)
    }

    /// The same to be changed.
    pub fn edit(&mut self, ino: Ino) -> Option<&mut Inode> {
        if !self.inodes.contains_key(&ino) {
            let inode = self.before(ino)?.clone();
            self.inodes.insert(ino, inode);
        }
        self.inodes.get_mut(&ino)
    }

    /// True if an inode has a name, and so the names in it are reached.
    pub fn is_named(&mut self, ino: Ino) -> bool {
        let gone = self.nameless.contains(&ino) || self.gone.contains(&ino);
        !gone && self.find(ino).is_some_and(|inode| inode.nlink > 0)
    }

    /// The target of a name.
    pub fn entry(&mut self, dir: Ino, name: &Name) -> Option<Target> {
        if let Some(target) = self.names.get(&(dir, name.clone())) {
            return *target;
        }
        if self.draft.fresh.contains_key(&dir) || self.is_made(dir) {
            return None;
        }
        self.before(dir)?;
        match self.tree.entry(dir, name) {
            Lookup::Present(target) => Some(target),
            Lookup::Absent => None,
            Lookup::Unknown => {
                self.needs.insert(Need::Entry { dir, name: name.clone() });
                None
            }
        }
    }

    /// The one name of a directory, or the primary one of a file, if it is known which it is.
    pub fn name_of(&mut self, ino: Ino) -> Option<(Ino, Name)> {
        let found = match self.at.get(&ino) {
            Some(at) => at.clone(),
            None => {
                let inode = self.before(ino)?;
                if !self.tree.primary_known(inode)
                    && self.tree.placed_name(inode).is_none()
                    && let Some(from_hash) = inode.place.hash()
                    && self.before(inode.parent).is_some()
                {
                    self.needs.insert(Need::Range { dir: inode.parent, from_hash });
                    return None;
                }
                (inode.parent, self.tree.placed_name(inode)?)
            }
        };
        let still = self.entry(found.0, &found.1).is_some_and(|target| target.ino == ino);
        still.then_some(found)
    }

    /// The name by which the owner found a file, if the file still has it, or has none; else another one that it has.
    pub fn called(&mut self, ino: Ino, known: &super::draft::Known) -> Option<(Ino, Name)> {
        let at = known.at.clone();
        if let Some((dir, name)) = &at
            && self.entry(*dir, name).is_some_and(|target| target.ino == ino)
        {
            return at;
        }
        self.name_of(ino).or(at)
    }

    /// Takes a name away.
    pub fn take_name(&mut self, dir: Ino, name: &Name) -> Option<Target> {
        let target = self.entry(dir, name)?;
        self.names.insert((dir, name.clone()), None);
        self.touched.extend([dir, target.ino]);
        self.was.entry(target.ino).or_insert_with(|| (dir, name.clone()));
        if let Some(parent) = self.edit(dir) {
            parent.size = parent.size.saturating_sub(1);
            if target.kind == Kind::Dir {
                subdirs(parent, -1);
            }
        }
        let floating = Place::floating(self.tree.owner(target.ino));
        let inode = self.edit(target.ino)?;
        let mut last = true;
        if target.kind != Kind::Dir {
            inode.nlink = inode.nlink.saturating_sub(1);
            last = inode.nlink == 0;
        }
        if last || !target.remote {
            inode.place = floating;
        }
        if last {
            self.uncount(target.ino);
            self.nameless.insert(target.ino);
        }
        if target.kind == Kind::Dir {
            self.at.remove(&target.ino);
            if target.remote {
                self.routed.insert(target.ino);
            }
        }
        Some(target)
    }

    /// Gives a name that nothing has.
    pub fn give_name(&mut self, dir: Ino, name: &Name, ino: Ino) {
        let Some(kind) = self.find(ino).map(|inode| inode.kind) else { return };
        let was_orphan = self.tree.is_orphan(ino);
        let hash = self.tree.hash(name);
        let mut remote = self.routed.contains(&ino);
        let Some(parent) = self.edit(dir) else { return };
        let removed = parent.nlink == 0;
        if removed {
            // Others have removed it; it needs a name itself now.
            parent.nlink = 2;
        }
        parent.size += 1;
        if kind == Kind::Dir {
            subdirs(parent, 1);
        }
        let Some(inode) = self.edit(ino) else { return };
        if kind == Kind::Dir || inode.nlink == 0 {
            // What it is worth is counted when it is looked at next.
            (inode.parent, inode.accounted) = (dir, RStat::default());
            inode.place = Place::embedded(hash);
            inode.nlink = inode.nlink.max(if kind == Kind::Dir { 2 } else { 1 });
        } else {
            inode.nlink = inode.nlink.saturating_add(1);
            remote = true;
        }
        self.nameless.remove(&ino);
        if was_orphan {
            self.back.insert(ino);
        }
        if kind == Kind::Dir {
            self.at.insert(ino, (dir, name.clone()));
        }
        self.touched.extend([dir, ino]);
        self.names.insert((dir, name.clone()), Some(Target { ino, kind, remote }));
        if removed {
            self.nameless.insert(dir);
        }
    }

    /// Takes it out of the sums of the directory that counts it.
    fn uncount(&mut self, ino: Ino) {
        let Some(inode) = self.edit(ino) else { return };
        let counted = std::mem::take(&mut inode.accounted);
        let counter = std::mem::replace(&mut inode.parent, Ino(0));
        if counter.0 != 0
            && let Some(counter) = self.edit(counter)
        {
            rstat::add(counter, rstat::minus(RStat::default(), counted));
        }
    }

    /// A new inode of the merge's own, without a name.
    pub fn make(&mut self, like: Inode) -> Ino {
        let ino = self.next;
        self.next = Ino(ino.0 + 1);
        let mut inode = Draft::blank(&like);
        inode.ino = ino;
        self.inodes.insert(ino, inode);
        self.nameless.insert(ino);
        ino
    }

    /// A number that no thing of this name was kept under before.
    pub fn next_number(&mut self, label: &[u8]) -> u32 {
        let number = self.numbers.entry(label.to_vec()).or_default();
        *number += 1;
        *number
    }

    /// True if the merge itself makes an inode.
    pub fn is_made(&self, ino: Ino) -> bool {
        ino >= self.terms.next && ino < self.next
    }

    /// Notes that something did not go together.
    pub fn report(&mut self, kind: ConflictKind, ino: Ino, kept: Option<&Name>) {
        self.conflicts += 1;
        if self.told.len() >= CONFLICTS_TOLD_MAX {
            return;
        }
        let known = self.draft.known.get(&ino).and_then(|known| known.at.as_ref());
        let name = self.was.get(&ino).or(known).map(|(_, name)| name.as_bytes().into());
        let kept = kept.map(|name| name.as_bytes().into()).unwrap_or_default();
        self.told.push(Conflict { kind, ino, name: name.unwrap_or_default(), kept });
    }
}
