//! Subtrees in which others may work while their owner does ("interfere: allow", Cudele §6.3): what of that is not as in any directory, and
//! how the owner's word comes to count at the merge. Not what becomes of each pair of things that both did: that is the namespace's
//! (`loligo_namespace::resolve`).
//!
//! Names do not cross the root, in or out, as between two file systems: so nothing that the owner speaks of gets elsewhere. What others
//! remove is *held*: it lives on without a name until the merge, because the owner may have changed it. Parts are not put down: what
//! comes of a merge is decided when all of them are there, over what the tree is by then, and is one record of plain events. So it is
//! there whole or not at all, and its replay is nothing special.

use std::collections::{BTreeMap, BTreeSet};

use loligo_journal::decode_record;
use loligo_namespace::{Found, is_within_bounds};
use loligo_types::{Answer, Cred, DecoupledRecord, Event, FsError, Ino, Inode, Interfere, Need, SubtreeAnswer};

use super::intake::Intake;
use super::look::{Bar, is_his_to_make, names_of};
use super::state::Held;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::open::Opens;

/// Most bytes of the parts of such a merge, and of the record that comes of it: it is decided upon at once.
pub(super) const BYTES_MAX: u64 = 8 << 20;
pub(super) const RECORD_MAX: usize = 14 << 20;

impl Core {
    /// True if others may work in a subtree.
    pub(super) fn allows(&self, dir: Ino) -> bool {
        self.tree.decoupled(dir).is_some_and(|record| record.interfere == Interfere::Allow)
    }
}

impl Decoupled {
    /// Holds the inodes that a request has removed there: they live on.
    pub(crate) fn hold(&mut self, dir: Ino, events: &[Event]) {
        let Some(owned) = self.by_dir.get_mut(&dir) else { return };
        owned.held.inos.extend(events.iter().filter_map(|event| match event {
            Event::Orphan(ino) => Some(*ino),
            _ => None,
        }));
    }

    /// True if an inode that nobody has open is not to go yet: its owner may want it back, or a merge is about to name it.
    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.dropped.contains(&ino)
            || self.by_dir.values().any(|owned| owned.held.inos.contains(&ino) || owned.forks.keeps(ino))
    }

    pub(super) fn set_answers(&mut self, dir: Ino, answers: bool) {
        if let Some(owned) = self.by_dir.get_mut(&dir) {
            owned.answers = answers;
        }
    }

    /// Another one is the owner from now on, who has open what it says itself.
    pub(super) fn forget_open(&mut self, dir: Ino) {
        if let Some(owned) = self.by_dir.get_mut(&dir) {
            owned.held.open.clear();
        }
    }

    /// Lets the held inodes of a subtree go that its owner does not have open.
    pub(super) fn let_go_closed(&mut self, core: &Core, opens: &mut Opens, record: &DecoupledRecord) {
        let Some(owned) = self.by_dir.get_mut(&record.dir) else { return };
        if owned.held.open.is_empty() {
            return self.let_go(opens, record.dir);
        }
        let open: BTreeSet<Ino> = owned.held.inos.intersection(&owned.held.open).copied().collect();
        let is_its = |ino: &Ino| match core.tree.find(*ino) {
            Found::Here(inode) => self.is_held_for(record, inode),
            Found::Gone => false,
            // It is looked at when the next merge lets it go.
            Found::Unknown => true,
        };
        let kept: BTreeSet<Ino> = open.into_iter().filter(is_its).collect();
        if let Some(owned) = self.by_dir.get_mut(&record.dir) {
            owned.held.left = kept.clone();
            let all = std::mem::replace(&mut owned.held.inos, kept);
            opens.reaps.extend(all.difference(&owned.held.inos));
        }
    }

    /// Lets the held inodes of a subtree go.
    pub(super) fn let_go(&mut self, opens: &mut Opens, dir: Ino) {
        let Some(owned) = self.by_dir.get_mut(&dir) else { return };
        let held = std::mem::take(&mut owned.held);
        opens.reaps.extend(held.inos);
    }

    /// After a restart whatever has no name is held: some of it may be.
    pub(super) fn hold_orphans(&mut self, core: &Core) {
        let dirs: Vec<Ino> = self.by_dir.keys().copied().filter(|dir| core.allows(*dir)).collect();
        for dir in dirs {
            let inos = core.tree.orphans().collect();
            if let Some(owned) = self.by_dir.get_mut(&dir) {
                owned.held = Held { inos, found: true, ..Held::default() };
            }
        }
    }

    /// True if something was removed from a subtree by others, and its owner may have it back.
    pub(super) fn is_held_for(&self, record: &DecoupledRecord, inode: &Inode) -> bool {
        let Some(owned) = self.by_dir.get(&record.dir) else { return false };
        // Who may do things below paths only can say to be anybody, and has nothing that may be elsewhere.
        let is_his = !owned.path_bound && (record.uid == 0 || inode.uid == record.uid);
        owned.held.inos.contains(&inode.ino) && (is_his || !owned.held.found) && inode.nlink == 0
    }

    /// Checks that all that a part says is its owner's to say, and takes it down.
    pub(super) fn look_through_allowed(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        body: &[u8],
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        let events = decode_record(body).map_err(|_| Bar::Wrong)?.events;
        let (mut needs, mut bases, mut closed) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        // Statements that others have made impossible since, by their place; and states of which a part is so.
        let (mut denied, mut lesser) = (BTreeSet::new(), BTreeMap::new());
        let mut first = None;
        for (at, event) in events.iter().enumerate() {
            let before: Option<Ino> = first.take();
            let verdict = match event {
                Event::Inode(inode) if !is_within_bounds(inode) => Err(Bar::Wrong),
                Event::Inode(inode) if !record.is_new(inode.ino) => {
                    let base = intake.draft.base(inode.ino).or_else(|| bases.get(&inode.ino).copied()).cloned();
                    match base {
                        Some(base) => {
                            self.look_at_state(core, cluster, record, cred, (&base, inode), intake).map(|state| {
                                lesser.extend(state.map(|state| (at, state)));
                            })
                        }
                        None => {
                            first = Some(inode.ino);
                            bases.insert(inode.ino, &**inode);
                            self.is_there(core, cluster, record, inode.ino, intake)
                        }
                    }
                }
                Event::Entry { dir, ino, .. } if before == Some(*ino) => {
                    match self.may_write(core, cluster, record, cred, *dir, intake) {
                        Err(Bar::Denied) => {
                            closed.insert(*dir);
                            Ok(())
                        }
                        verdict => verdict,
                    }
                }
                event => self.look_at(core, cluster, record, cred, event.view(), intake),
            };
            match verdict {
                Ok(()) => {}
                Err(Bar::Load(more)) => needs.extend(more),
                Err(Bar::Denied) => _ = denied.insert(at),
                Err(Bar::Wrong) => return Err(Bar::Wrong),
            }
        }
        if !needs.is_empty() {
            needs.sort_unstable();
            needs.dedup();
            return Err(Bar::Load(needs));
        }
        intake.bytes += body.len() as u64;
        // Objects of what was there before go with that. A number that means nothing may be one that another is about to use.
        let drops = |event: &Event| !matches!(event, Event::Discard { ino, .. } if !record.is_granted(*ino));
        let mut said = Vec::with_capacity(events.len());
        for (at, event) in events.into_iter().enumerate() {
            let state = lesser.remove(&at);
            if denied.contains(&at) || state.is_some() {
                intake.draft.deny(&event);
            }
            if !denied.contains(&at) && drops(&event) {
                said.push(state.map_or(event, Event::Inode));
            }
        }
        let events = said;
        intake.draft.add(events, &|ino| record.is_new(ino), &|dir| !closed.contains(&dir));
        Ok(())
    }

    /// Checks that the owner may change an inode so: only what differs from how it says it found it is ever taken of it. Returns the state
    /// without the changes that others have made impossible since, if there are such: they have changed who may do what.
    ///
    /// Objects that are the owner's version already were permitted to be written when that began.
    fn look_at_state(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        (base, made): (&Inode, &Inode),
        intake: &mut Intake,
    ) -> Result<Option<Box<Inode>>, Bar> {
        self.is_there(core, cluster, record, made.ino, intake)?;
        if made.kind != base.kind || made.is_spread() {
            return Err(Bar::Wrong);
        }
        let now = match core.tree.find(made.ino) {
            Found::Here(now) => now,
            Found::Gone => return Ok(None),
            Found::Unknown => return Err(Bar::Load(vec![Need::Inode(made.ino)])),
        };
        if now.kind != made.kind {
            return Err(Bar::Wrong);
        }
        if cred.is_root() || now.uid == cred.uid && is_his_to_make(made, cred) {
            return Ok(None);
        }
        let attributes =
            |inode: &Inode| (inode.uid, inode.gid, inode.mode, inode.acl().cloned(), inode.default_acl().cloned());
        let content =
            |inode: &Inode| (inode.size, inode.mtime, inode.atime, inode.cuts, inode.inline, inode.has_xattrs);
        let mut state = made.clone();
        if attributes(base) != attributes(made) {
            (state.uid, state.gid, state.mode) = (base.uid, base.gid, base.mode);
            let extra = state.extra_mut();
            (extra.acl, extra.default_acl) = (base.acl().cloned(), base.default_acl().cloned());
        }
        let is_denied = |verdict| match verdict {
            Ok(()) => Ok(false),
            Err(Bar::Denied) => Ok(true),
            Err(bar) => Err(bar),
        };
        let was_permitted = record.copy_of(made.ino).is_some() && !made.inline;
        if content(base) != content(made)
            && !was_permitted
            && is_denied(self.may_write(core, cluster, record, cred, made.ino, intake))?
        {
            (state.size, state.mtime, state.atime) = (base.size, base.mtime, base.atime);
            (state.cuts, state.inline, state.has_xattrs) = (base.cuts, base.inline, base.has_xattrs);
        }
        if names_of(base) != names_of(made)
            && is_denied(self.may_rename(core, cluster, record, cred, made.ino, intake))?
        {
            (state.parent, state.place) = (base.parent, base.place);
            state.nlink = base.nlink;
        }
        if (attributes(&state), content(&state), names_of(&state)) == (attributes(made), content(made), names_of(made))
        {
            return Ok(None);
        }
        if (attributes(&state), content(&state)) == (attributes(base), content(base)) {
            // By the count of changes one is told that was written.
            let renamed = names_of(&state) != names_of(base);
            (state.change, state.ctime) = (base.change + u64::from(renamed), base.ctime);
        }
        Ok(Some(Box::new(state)))
    }

    /// True if something that was there before the merge is in the subtree, or was removed from it.
    pub(super) fn find_there(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        ino: Ino,
    ) -> Result<bool, Vec<Need>> {
        match core.tree.find(ino) {
            Found::Unknown => Err(vec![Need::Inode(ino)]),
            Found::Gone => Ok(false),
            Found::Here(_) if ino == record.dir => Ok(true),
            Found::Here(inode) if self.is_held_for(record, inode) => Ok(true),
            Found::Here(_) => self.may_be_below(core, cluster, ino, record.dir),
        }
    }

    /// The answer to a merge that is done.
    pub(super) fn tell_merged(&self, dir: Ino, merges: u64) -> Result<Answer, FsError> {
        let last = self.by_dir.get(&dir).map(|owned| &owned.last);
        let (conflicts, told) = last.map_or((0, Vec::new()), |last| (last.count, last.told.clone()));
        Ok(Answer::Subtree(Box::new(SubtreeAnswer::Merged { merges, conflicts, told })))
    }
}
