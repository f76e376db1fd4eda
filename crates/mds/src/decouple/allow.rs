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
use loligo_namespace::{Change, Fork, Found, Plan, Terms, is_within_bounds, resolve};
use loligo_types::limits::HELD_OPEN_MAX;
use loligo_types::{
    Answer, Conflict, Cred, DecoupledRecord, Event, FsError, Ino, Inode, Interfere, Need, SubtreeAnswer,
};

use super::look::{Bar, is_his_to_make, names_of};
use super::merge::Intake;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::execute::{Step, origin_of};
use crate::machine::Mds;
use crate::open::Opens;
use crate::park::{Job, WaitReason};

/// Most bytes of the parts of such a merge, and of the record that comes of it: it is decided upon at once.
pub(super) const BYTES_MAX: u64 = 8 << 20;
pub(super) const RECORD_MAX: usize = 14 << 20;

/// Inodes that others have removed below a root.
#[derive(Default)]
pub(super) struct Held {
    inos: BTreeSet<Ino>,
    /// It was found so after a restart, when nobody can tell where it was: only what is the owner's own comes back.
    found: bool,
    /// Inodes that its owner has open, as it says: of these nothing goes with a merge.
    open: BTreeSet<Ino>,
    /// Those that a merge of this life has left for that reason: their owner knows that they have no name.
    left: BTreeSet<Ino>,
}

/// Conflicts of the last merge, for an owner who asks again.
#[derive(Default)]
pub(super) struct LastConflicts {
    pub(super) count: u64,
    pub(super) told: Vec<Conflict>,
}

impl Mds {
    /// The owner has these open.
    pub(super) fn hold_open(&mut self, job: &mut Job, dir: Ino, epoch: u64, (first, inos): (bool, &[Ino])) -> Step {
        if let Err(error) = self.decoupled.owned(&self.core, job, dir, epoch) {
            return Step::Answer(Err(error));
        }
        if first && self.core.allows(dir) && !self.decoupled.by_dir.get(&dir).is_some_and(|owned| owned.has_left) {
            // One that says this opens there by itself. What its session has of the rank goes, and it gets no more.
            self.decoupled.set_answers(dir, true);
            if let Some(step) = self.leases.leave_own(
                &mut self.core,
                &self.sessions,
                &mut self.recalls,
                &self.opens,
                &mut self.cluster,
                job,
                dir,
            ) {
                if matches!(step, Step::Answer(_)) {
                    self.decoupled.set_answers(dir, false);
                }
                return step;
            }
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { return Step::Answer(Err(FsError::Stale)) };
        if first {
            owned.has_left = owned.answers;
            owned.held.open.clear();
        }
        if owned.held.open.len() + inos.len() > HELD_OPEN_MAX {
            return Step::Answer(Err(FsError::Quota));
        }
        owned.held.open.extend(inos);
        Step::Answer(Ok(Answer::Done))
    }

    /// Merges where others may have worked meanwhile.
    pub(super) fn merge_allowed(
        &mut self,
        job: &mut Job,
        record: &DecoupledRecord,
        (merge, used): (u64, Ino),
        mut intake: Intake,
    ) -> Step {
        let (dir, parts) = (record.dir, intake.parts);
        let planned = self.settle_forks(job, record, &intake);
        let step = match planned.and_then(|forks| self.plan(job, record, (merge, &forks), &mut intake)) {
            Ok(plan) if plan.bytes > RECORD_MAX => Step::Answer(Err(FsError::Quota)),
            Ok(plan) => {
                let change = Change { events: plan.events, answer: Answer::Done, origin_ino: dir, origin_value: 0 };
                match self.settle_conflicts(job, &change) {
                    Some(why) => Step::Wait(why),
                    None => {
                        let last = LastConflicts { count: plan.conflicts, told: plan.told };
                        return self.merge_at_once(job, record, (merge, used), &intake, change.events, last);
                    }
                }
            }
            Err(step) => step,
        };
        if matches!(step, Step::Answer(_)) {
            self.decoupled.end_still(&mut self.core, &mut self.sessions, &mut self.opens, dir);
        }
        self.decoupled.keep_intake(dir, parts, intake);
        step
    }

    /// The plan of a merge, or what it waits for.
    fn plan(
        &mut self,
        job: &mut Job,
        record: &DecoupledRecord,
        (merge, forks): (u64, &BTreeMap<Ino, Fork>),
        intake: &mut Intake,
    ) -> Result<Plan, Step> {
        let (mut there, mut needs) = (BTreeSet::new(), Vec::new());
        for ino in intake.draft.speaks_of() {
            if self.discards.drops_or_spills(ino) {
                return Err(Step::Wait(WaitReason::Data(ino)));
            }
            if let Some(why) = self.opens.wait_for_rooms(&mut self.tidy, ino) {
                return Err(Step::Wait(why));
            }
            // Looked at anew: a number that meant nothing when its part came may mean something by now.
            match self.decoupled.find_there(&mut self.core, &mut self.cluster, record, ino) {
                Ok(true) => _ = there.insert(ino),
                Ok(false) => {}
                Err(more) => needs.extend(more),
            }
        }
        if needs.is_empty() {
            let (opens, none) = (&self.opens, Held::default());
            let held = self.decoupled.by_dir.get(&record.dir).map_or(&none, |owned| &owned.held);
            let terms = Terms {
                root: record.dir,
                merge,
                uid: record.uid,
                now: self.core.now.wall,
                next: self.core.tree.next_ino(),
                there: &there,
                forks,
                open_orphans: &held.left,
                // Files that the owner has removed and has open live on, too.
                open_count: &|ino| opens.count(ino) + u32::from(held.open.contains(&ino)),
            };
            match resolve(&self.core.tree, &intake.draft, &terms) {
                Ok(plan) => return Ok(plan),
                Err(more) => needs = more,
            }
        }
        needs.sort_unstable();
        needs.dedup();
        Err(self.cluster.wait_to_know(&mut self.core, job, needs))
    }

    fn merge_at_once(
        &mut self,
        job: &mut Job,
        record: &DecoupledRecord,
        (merge, used): (u64, Ino),
        intake: &Intake,
        mut events: Vec<Event>,
        last: LastConflicts,
    ) -> Step {
        let dir = record.dir;
        let (after, met) = self.decoupled.forks_after(&self.core, record, intake, &events);
        let after = DecoupledRecord { used, merges: merge, ..after };
        events.extend(met.copies_gone());
        let gone = events.iter().filter_map(|event| match event {
            Event::InodeGone(ino) => Some(*ino),
            _ => None,
        });
        let lines = self.cluster.lines_gone(gone);
        events.extend(lines);
        events.push(Event::Decoupled(Box::new(after.clone())));
        self.commit(Some(origin_of(job, Ino(0), merge)), &events);
        self.decoupled.forks_merged(&mut self.core, &mut self.sessions, &mut self.opens, &after, met, &events);
        self.core.counters.subtree_merges += 1;
        self.core.counters.subtree_conflicts += last.count;
        // Somebody may have asked for a number before it meant anything.
        self.merge_is_over();
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            let orphans =
                events.iter().filter_map(|event| if let Event::Orphan(ino) = event { Some(*ino) } else { None });
            let open: Vec<Ino> = orphans.filter(|ino| owned.held.open.contains(ino)).collect();
            owned.held.inos.extend(open);
        }
        // The owner fetches anew after a merge, so nothing that was removed comes back. Files that its programs have open stay.
        self.decoupled.let_go_closed(&mut self.core, &mut self.opens, record);
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            owned.last = last;
        }
        Step::Answer(self.decoupled.tell_merged(dir, merge))
    }
}

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

    fn set_answers(&mut self, dir: Ino, answers: bool) {
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
    fn let_go_closed(&mut self, core: &mut Core, opens: &mut Opens, record: &DecoupledRecord) {
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
    pub(super) fn hold_orphans(&mut self, core: &mut Core) {
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
    fn find_there(
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
