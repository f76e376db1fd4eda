//! Search for the records that a transaction of another rank wants, and for the locks that it needs on them. Nothing is locked here.

use loligo_namespace::{Found, Loaded, Lookup, Need, Tree};
use loligo_types::{Ino, Lease, Rank};

use crate::cluster::locks::{Claim, How, claim};
use crate::cluster::{Atlas, Exports, Where};
use crate::core::Core;
use crate::peer::{Lent, PeerMsg, Want};
use crate::recall::SHARED;

/// Results of the search for wanted records.
#[derive(Default)]
pub(super) struct Search {
    /// To be read first.
    pub(super) needs: Vec<Need>,
    pub(super) claims: Vec<Claim>,
    pub(super) lent: Lent,
}

impl Search {
    /// One record, and the inode that an entry points to.
    pub(super) fn look_for(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        from: Rank,
        want: &Want,
    ) {
        if let Need::Parts(dir) = want.need {
            let part = atlas.lend_part(core, from, dir);
            if let Loaded::Part { part: Some(_), .. } = part {
                claim(&mut self.claims, dir, Lease::NONE, if want.shown { How::Shown } else { How::Whole });
            }
            return self.lent.items.push(part);
        }
        debug_assert!(
            !matches!(want.need, Need::Range { .. } | Need::Hashes { .. }),
            "names are lent one by one: who wants all of them would ask for ever, as for {:?}",
            want.need
        );
        let (ino, name, how) = match &want.need {
            Need::Inode(ino) => (*ino, None, How::Inode),
            Need::Xattrs(ino) | Need::Inline(ino) | Need::Parts(ino) => (*ino, None, How::Whole),
            Need::Entry { dir, name } => (*dir, Some(name), How::Names(vec![core.tree.hash(name)])),
            Need::Range { dir, .. } | Need::Hashes { dir, .. } => (*dir, None, How::Whole),
        };
        match name.and_then(|name| atlas.rank_of_name(core, ino, name)) {
            Some(rank) if rank != core.me() => {
                // It knows who has it when it has heard of the lines.
                let lines = atlas.routes.lines(ino);
                return core.tell_durably(from, PeerMsg::Routes(lines));
            }
            // What the decision counts of it the borrower counts in its own part, or at the home.
            Some(_) if core.tree.part(ino).is_some() => claim(&mut self.claims, ino, want.recall, how),
            _ if !self.look_for_inode(core, exports, atlas, ino, want.recall, how) => return,
            _ => {}
        }
        let Some(name) = name else { return };
        match core.tree.entry(ino, name) {
            Lookup::Unknown => self.needs.push(Need::Entry { dir: ino, name: name.clone() }),
            Lookup::Absent => self.lent.items.push(Loaded::Entry { dir: ino, name: name.clone(), found: None }),
            Lookup::Present(target) => {
                self.lent.items.push(Loaded::Entry { dir: ino, name: name.clone(), found: Some(target) });
                let all = SHARED | Lease::CACHE | Lease::BUFFER;
                self.look_for_inode(core, exports, atlas, target.ino, all, How::Whole);
            }
        }
    }

    /// True if the inode is here and can be lent.
    fn look_for_inode(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        ino: Ino,
        recall: Lease,
        how: How,
    ) -> bool {
        let Search { needs, claims, lent } = self;
        match atlas.locate(core, exports, ino, needs) {
            Where::Unknown => return false,
            Where::Elsewhere(rank) => {
                if !lent.elsewhere.iter().any(|(other, _)| *other == ino) {
                    lent.elsewhere.push((ino, rank));
                }
                return false;
            }
            Where::Here => {}
        }
        claim(claims, ino, recall, how);
        let is_it = |item: &Loaded| matches!(item, Loaded::Inode(other, _) if *other == ino);
        if !lent.items.iter().any(is_it) {
            lent.items.push(match core.tree.find(ino) {
                Found::Here(inode) => Loaded::Inode(ino, Some(Box::new(inode.clone()))),
                _ => Loaded::Inode(ino, None),
            });
        }
        true
    }
}

/// The name that is wanted.
pub(super) fn name_of(tree: &Tree, want: &Want) -> Option<(Ino, u64)> {
    match &want.need {
        Need::Entry { dir, name } => Some((*dir, tree.hash(name))),
        _ => None,
    }
}
