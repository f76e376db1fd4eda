//! Location of inodes: the rank that has one. Inodes in memory are this rank's own; for the rest the table, the subtree
//! map and the number tell the rank.
//!
//! The table may be behind: whoever has an inode may have changed it and not written it there yet. So it is believed to be
//! this rank's only where this rank's own records say the same (see docs/cluster.md, "Authority").

use loligo_namespace::{Found, Loaded, Need};
use loligo_types::{Ino, Inode, Place, Rank, limits};

use crate::balance::Balance;
use crate::cluster::atlas::Where;
use crate::cluster::{Atlas, Exports};
use crate::core::Core;

/// Most of them.
const KEEP_MAX: usize = 100_000;

/// One step of finding out.
enum Look {
    Found(Where),
    /// The location is that of this directory above.
    Parent(Ino),
}

impl Atlas {
    /// True if an inode, or a part of it, exists, be it in memory or in the table; `None`: that must be read first.
    pub(super) fn exists(&self, core: &Core, ino: Ino) -> Option<bool> {
        match core.tree.find(ino) {
            Found::Here(_) => return Some(true),
            Found::Gone => return Some(false),
            Found::Unknown => {}
        }
        self.foreign_inodes.by_ino.get(&ino).map(|(known, _)| known.is_some())
    }

    /// A record of the table came. `stale`: it was asked for before something became this rank's.
    pub(crate) fn take_item(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        balance: &mut Balance,
        item: Loaded,
        stale: bool,
    ) {
        if stale {
            return;
        }
        let of = match &item {
            Loaded::Inode(ino, _) | Loaded::Xattrs(ino, _) | Loaded::Inline(ino, _) => Some(*ino),
            Loaded::Entry { dir, .. } | Loaded::Range { dir, .. } | Loaded::Hashes { dir, .. } => Some(*dir),
            _ => None,
        };
        let unknown = |ino: &Ino| matches!(core.tree.find(*ino), Found::Unknown);
        let of_inode = matches!(item, Loaded::Inode(..) | Loaded::Xattrs(..));
        let only_part = |ino: &Ino| of_inode && has_only_part(core, *ino);
        if let Some(ino) = of.filter(|ino| unknown(ino) || only_part(ino)) {
            let Loaded::Inode(_, inode) = &item else {
                if let Loaded::Xattrs(_, xattrs) = &item {
                    balance.note_distant_rules(core, ino, xattrs);
                }
                return;
            };
            if inode.is_none() && self.is_unborn(core, ino) {
                return;
            }
            if self.has_ended(core, ino, inode.as_deref()) {
                core.tree.load(Loaded::Inode(ino, None));
                self.absent.push(ino);
                return;
            }
            if !self.is_mine(core, exports, ino, inode.as_deref()) {
                balance.note_distant(ino, inode.as_deref());
                let most = core.config.some(KEEP_MAX);
                return self.foreign_inodes.put(ino, inode.as_deref(), core.now.mono_ms, most);
            }
            self.departed.remove(&ino);
        }
        if let Loaded::Inode(ino, _) = &item {
            // No stranger any more: what was known of it is behind as soon as it changes here.
            self.foreign_inodes.forget(*ino);
            self.solved(*ino);
        }
        if let Some(item) = core.clip(item) {
            core.tree.load(item);
        }
    }

    /// True if the table row of a scattered directory whose number names this rank is stale: the directory has been another rank's, and
    /// since no line says where it is, it was removed there.
    fn has_ended(&self, core: &Core, ino: Ino, inode: Option<&Inode>) -> bool {
        let here = ino.zeroth_rank() == Some(core.me()) && self.routes.version(ino).is_none();
        here && inode.is_some_and(Inode::has_moved) && self.given_to(ino).is_none()
    }

    /// True if a record that the table has is this rank's.
    fn is_mine(&mut self, core: &mut Core, exports: &mut Exports, ino: Ino, inode: Option<&Inode>) -> bool {
        if inode.is_some_and(|inode| inode.place.rank() == Some(core.me())) {
            // Whatever a line says: a directory that is removed and open floats, and others may not have heard that yet.
            return self.given_to(ino).is_none();
        }
        if self.given_to(ino).is_some() && !self.may_be_back(ino) {
            return false;
        }
        if let Some(rank) = self.routes.home(ino).or((ino == Ino::ROOT).then_some(Rank::ZERO)) {
            return rank == core.me();
        }
        let Some(inode) = inode else { return false };
        match inode.place.hash() {
            None => inode.place.rank() == Some(core.me()),
            Some(hash) => {
                self.routes.of(inode.parent, hash).is_none_or(|rank| rank == core.me())
                    && core.tree.inode(inode.parent).is_some()
                    && core.tree.primary_name(inode).is_some()
                    && matches!(exports.name_has_moved(core, self, inode.parent, hash), Ok(None))
            }
        }
    }

    /// Locates an inode; records to read first are added to `wants`.
    pub(crate) fn locate(&mut self, core: &mut Core, exports: &mut Exports, ino: Ino, wants: &mut Vec<Need>) -> Where {
        let mut at = ino;
        for _ in 0..limits::DEPTH_MAX {
            match self.look(core, exports, at, wants) {
                Look::Parent(parent) => at = parent,
                // A directory above is known now (or known to be gone): look again.
                Look::Found(Where::Here) if at != ino => at = ino,
                // It did not come back with that one: who got it knows better than the table what it is in.
                Look::Found(Where::Elsewhere(rank)) if at != ino => {
                    return Where::Elsewhere(self.given_to(ino).unwrap_or(rank));
                }
                Look::Found(verdict) => return verdict,
            }
        }
        self.not_in_table(core, ino)
    }

    fn look(&mut self, core: &mut Core, exports: &mut Exports, ino: Ino, wants: &mut Vec<Need>) -> Look {
        if let Some(home) = self.home_of_part(core, ino).filter(|_| core.tree.owner(ino) == core.me()) {
            return Look::Found(Where::Elsewhere(home));
        }
        if !matches!(core.tree.find(ino), Found::Unknown) && !has_only_part(core, ino) {
            return Look::Found(Where::Here);
        }
        let Some(rank) = self.given_to(ino) else { return self.look_in_table(core, exports, ino, wants) };
        if !self.may_be_back(ino) {
            return Look::Found(Where::Elsewhere(rank));
        }
        match self.look_in_table(core, exports, ino, wants) {
            // The table may be behind.
            Look::Found(Where::Elsewhere(_)) => Look::Found(Where::Elsewhere(rank)),
            look => look,
        }
    }

    /// Locates an inode that is not in memory by the subtree map and the table.
    fn look_in_table(&mut self, core: &mut Core, exports: &mut Exports, ino: Ino, wants: &mut Vec<Need>) -> Look {
        let route = self.routes.home(ino).or((ino == Ino::ROOT).then_some(Rank::ZERO));
        if let Some(rank) = route {
            return Look::Found(mine_or(core, rank, ino, wants));
        }
        let Some((known, _)) = self.foreign_inodes.by_ino.get(&ino).copied() else {
            wants.push(Need::Inode(ino));
            return Look::Found(Where::Unknown);
        };
        let Some((parent, place)) = known else { return Look::Found(self.not_in_table(core, ino)) };
        let Some(hash) = place.hash() else {
            if self.given_to(ino).is_some() {
                return Look::Found(self.not_in_table(core, ino));
            }
            self.solved(ino);
            return Look::Found(mine_or(core, place.rank().unwrap_or(ino.birth_rank()), ino, wants));
        };
        match self.routes.of(parent, hash) {
            Some(rank) if rank != core.me() => return Look::Found(Where::Elsewhere(rank)),
            Some(_) if core.tree.part(parent).is_some() => {
                return Look::Found(self.embedded_here(core, ino, parent, place, wants));
            }
            _ => {}
        }
        if parent.0 == 0 || parent == ino {
            return Look::Found(self.of_the_past(core, ino, wants));
        }
        // What is dropped first must not be read again because its directory is still in memory.
        match exports.name_has_moved(core, self, parent, hash) {
            Ok(None) => {}
            Ok(Some(rank)) => return Look::Found(Where::Elsewhere(rank)),
            Err(needs) => {
                wants.extend(needs);
                return Look::Found(Where::Unknown);
            }
        }
        if matches!(core.tree.find(parent), Found::Unknown) {
            // Whose it is depends on whose that one is, which is found out first.
            return Look::Parent(parent);
        }
        Look::Found(match core.tree.owner(parent) {
            rank if rank != core.me() => Where::Elsewhere(rank),
            _ => self.embedded_here(core, ino, parent, place, wants),
        })
    }

    /// The table says that it is embedded in a directory that is this rank's: so it is, if the entry says so, too.
    fn embedded_here(&mut self, core: &mut Core, ino: Ino, parent: Ino, place: Place, wants: &mut Vec<Need>) -> Where {
        let inode = Inode { place, parent, ..nobody(ino) };
        if core.tree.inode(parent).is_none() {
            return self.of_the_past(core, ino, wants);
        }
        if core.tree.primary_name(&inode).is_some() {
            wants.push(Need::Inode(ino));
        } else if core.tree.primary_known(&inode) {
            return self.of_the_past(core, ino, wants);
        } else {
            wants.push(Need::Range { dir: parent, from_hash: place.hash().unwrap_or(0) });
        }
        Where::Unknown
    }

    /// Locates an inode whose table row is stale. The rank that made it may know more; if that is this rank, the table
    /// will.
    fn of_the_past(&mut self, core: &mut Core, ino: Ino, wants: &mut Vec<Need>) -> Where {
        let given = self.given_to(ino).is_some();
        if !given && !self.is_made_elsewhere(core, ino) && self.is_riddle(core, ino) {
            wants.push(Need::Inode(ino));
            return Where::Unknown;
        }
        self.not_in_table(core, ino)
    }

    pub(super) fn is_made_elsewhere(&self, core: &Core, ino: Ino) -> bool {
        let birth = ino.birth_rank();
        birth != core.me() && self.is_a_rank(core, birth)
    }

    /// The table does not know it: who got it, or made it, may know more.
    fn not_in_table(&mut self, core: &mut Core, ino: Ino) -> Where {
        if let Some(rank) = self.given_to(ino) {
            return Where::Elsewhere(rank);
        }
        if self.is_made_elsewhere(core, ino) {
            return Where::Elsewhere(ino.birth_rank());
        }
        core.tree.load(Loaded::Inode(ino, None));
        self.absent.push(ino);
        Where::Here
    }
}

fn nobody(ino: Ino) -> Inode {
    Inode::new(ino, loligo_types::Kind::File, 0, 0, 0, Ino(0), loligo_types::Time(0))
}

fn mine_or(core: &Core, rank: Rank, ino: Ino, wants: &mut Vec<Need>) -> Where {
    if rank != core.me() {
        return Where::Elsewhere(rank);
    }
    wants.push(Need::Inode(ino));
    Where::Unknown
}

/// True if all that is in memory of a directory is this rank's part of it.
fn has_only_part(core: &Core, ino: Ino) -> bool {
    core.tree.part(ino).is_some() && core.tree.inode(ino).is_some_and(|inode| inode.part_of().is_some())
}
