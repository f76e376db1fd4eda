//! How what the owner of a decoupled subtree has made becomes true ("volatile apply", Cudele §6.2, but durable and all at once).
//!
//! Its journal comes in parts, each the body of one record. A part is looked through as it comes and put down in the rank's own journal,
//! where it means nothing. One record then makes all parts true, and says what becomes of inodes that were there before: those may have
//! been counted meanwhile. From there on the merge is done, whoever dies: memory follows part by part, with other requests between
//! them, and so does replay. Nothing of it can be seen halfway, since nobody but the owner may look below the root.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use loligo_journal::view_record;
use loligo_namespace::{Change, Draft, Found, access, is_within_bounds, merged, uncount};
use loligo_types::limits::{INLINE_MAX, MERGE_PART_MAX, XATTR_VALUE_MAX};
use loligo_types::{
    Answer, Cred, DecoupledRecord, Event, EventView, FsError, Ino, Inode, Interfere, Kind, MergeInto, Need,
};

use super::allow;
use super::into_table::IntoTable;
use crate::execute::{Step, origin_of};
use crate::machine::Mds;
use crate::park::{Job, Why};

/// Most bytes of parts where the driver has not said how long the journal may be.
const BYTES_MAX: u64 = 64 << 20;
/// A part more for so many requests that were done since the last go; one in any case.
const REQUESTS_PER_PART: usize = 16;
/// Parts behind one that waits for records wait for it so long, milliseconds.
const PART_WAIT_MS: u64 = 10_000;
/// Parts in a go at most.
const PARTS_MAX: usize = 4;

/// What has come of a merge.
#[derive(Default)]
pub(super) struct Intake {
    merge: u64,
    pub(super) parts: u32,
    /// Where others may work meanwhile: what the parts say, and their bytes. They are put down nowhere else.
    pub(super) draft: Draft,
    pub(super) bytes: u64,
    /// Inodes that were there before: as the owner fetched them, and as they are to be; `None`: gone.
    known: BTreeMap<Ino, (Box<Inode>, Option<Box<Inode>>)>,
    /// What was there before and was found to be below the root.
    below: BTreeSet<Ino>,
    /// Bytes of objects to be dropped.
    discards: Vec<Event>,
}

/// What stands in the way of a part.
pub(super) enum Bar {
    /// Nobody may say it of it.
    Wrong,
    /// Its owner may not, as it is by now.
    Denied,
    Load(Vec<Need>),
}

impl Mds {
    pub(super) fn merge_part(
        &mut self,
        job: &mut Job,
        dir: Ino,
        epoch: u64,
        (merge, part): (u64, u32),
        (blind, body): (bool, &Arc<[u8]>),
    ) -> Step {
        let record = match self.owned(job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        if blind && record.interfere == Interfere::Allow {
            // What does not go together is found by looking.
            return Step::Answer(Err(FsError::NotSupported));
        }
        if blind && !job.cred.is_root() {
            return Step::Answer(Err(FsError::Perm));
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { return Step::Answer(Err(FsError::Stale)) };
        if merge != record.merges + 1 || body.len() > MERGE_PART_MAX {
            return Step::Answer(Err(FsError::Invalid));
        }
        if owned.part_waits.is_some_and(|(of, before, _)| of == merge && part > before) {
            return Step::Wait(Why::Part(dir));
        }
        let mut intake = match part {
            0 => Intake { merge, ..Intake::default() },
            _ => match owned.intake.take() {
                Some(intake) if intake.merge == merge && intake.parts == part => intake,
                // Of what came before, this life of the rank knows nothing: it is to be sent from the first part on.
                other => {
                    owned.intake = other;
                    return Step::Answer(Err(FsError::WouldBlock));
                }
            },
        };
        owned.part_waits = None;
        self.parked.wake(&Why::Part(dir));
        let allowed = record.interfere == Interfere::Allow;
        let bytes = match part {
            0 => 0,
            _ if allowed => intake.bytes,
            _ => self.tree.merge_parts(dir).1,
        };
        let most = if allowed { allow::BYTES_MAX } else { BYTES_MAX };
        let most = if self.log.limit == 0 { most } else { most.min(self.log.limit / 2) };
        let error = if bytes + body.len() as u64 > most {
            Some(FsError::Quota)
        } else {
            let verdict = if allowed {
                self.look_through_allowed(&record, &job.cred, body, &mut intake)
            } else {
                self.look_through(&record, (!blind).then_some(&job.cred), body, &mut intake)
            };
            match verdict {
                Ok(()) => None,
                Err(Bar::Wrong) => Some(FsError::Invalid),
                Err(Bar::Denied) => Some(FsError::Access),
                Err(Bar::Load(needs)) => {
                    // What was noted of this part is noted again.
                    self.keep_intake(dir, part, intake);
                    let step = self.wait_to_know(job, needs);
                    if matches!(step, Step::Wait(_)) {
                        let since = self.now.mono_ms;
                        self.decoupled.by_dir.entry(dir).or_default().part_waits = Some((merge, part, since));
                    }
                    return step;
                }
            }
        };
        if let Some(error) = error {
            self.keep_intake(dir, part, intake);
            return Step::Answer(Err(error));
        }
        intake.parts = part + 1;
        if !allowed {
            let event = Event::MergePart { dir, part, body: body.clone() };
            self.commit(Some(origin_of(job, Ino(0), 0)), &[event]);
        }
        self.keep_intake(dir, part + 1, intake);
        Step::Answer(Ok(Answer::Done))
    }

    /// A part may have failed while it waited: those behind it wait no longer for ever.
    pub(super) fn end_part_waits(&mut self) {
        let now = self.now.mono_ms;
        let mut over = Vec::new();
        for (dir, owned) in &mut self.decoupled.by_dir {
            if owned.part_waits.take_if(|(_, _, since)| now > *since + PART_WAIT_MS).is_some() {
                over.push(*dir);
            }
        }
        over.into_iter().for_each(|dir| self.parked.wake(&Why::Part(dir)));
    }

    pub(super) fn keep_intake(&mut self, dir: Ino, parts: u32, intake: Intake) {
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            owned.intake = (parts > 0).then_some(intake);
        }
    }

    /// Whether all that a part says is its owner's to say; notes what it says of what was there before. `cred`: nobody's if its word is
    /// taken for it, as long as it speaks of what there is in a subtree.
    fn look_through(
        &mut self,
        record: &DecoupledRecord,
        cred: Option<&Cred>,
        body: &[u8],
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        let (mut needs, mut noted, mut verdict) = (Vec::new(), Vec::new(), Ok(()));
        let read = view_record(body, |event| {
            let looked = match cred {
                Some(cred) => self.look_at(record, cred, event, intake),
                None if is_of_a_subtree(event) => Ok(()),
                None => Err(Bar::Wrong),
            };
            match looked {
                Ok(()) => noted.extend(to_be_noted(record, event)),
                Err(Bar::Load(more)) => needs.extend(more),
                Err(bar) => {
                    verdict = Err(bar);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        verdict?;
        if read.is_err() {
            return Err(Bar::Wrong);
        }
        if !needs.is_empty() {
            needs.sort_unstable();
            needs.dedup();
            return Err(Bar::Load(needs));
        }
        noted.into_iter().for_each(|event| note(event, intake));
        Ok(())
    }

    pub(super) fn look_at(
        &mut self,
        record: &DecoupledRecord,
        cred: &Cred,
        event: EventView<'_>,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        let right = |is: bool| if is { Ok(()) } else { Err(Bar::Wrong) };
        let event = match event {
            EventView::Inode(inode) if !is_within_bounds(inode) => return Err(Bar::Wrong),
            // What lives by itself lives here.
            EventView::Inode(inode) if inode.place.rank().is_some_and(|rank| rank != self.me()) => {
                return Err(Bar::Wrong);
            }
            EventView::Inode(inode) if record.is_new(inode.ino) => {
                right(inode.nlink > 0 && !inode.is_spread() && is_his_to_make(inode, cred))?;
                return self.is_there(record, inode.parent, intake);
            }
            EventView::Inode(inode) => {
                self.is_there(record, inode.ino, intake)?;
                let now = match self.tree.find(inode.ino) {
                    Found::Here(now) => now,
                    Found::Gone => return Err(Bar::Wrong),
                    Found::Unknown => return Err(Bar::Load(vec![Need::Inode(inode.ino)])),
                };
                // What is another's stays as that one has made it.
                let keeps = (now.uid, now.gid, now.mode, now.acl(), now.default_acl())
                    == (inode.uid, inode.gid, inode.mode, inode.acl(), inode.default_acl());
                let is_his = cred.is_root() || now.uid == cred.uid && is_his_to_make(inode, cred);
                let content = |inode: &Inode| (inode.size, inode.mtime, inode.cuts, inode.inline, inode.has_xattrs);
                let (written, renamed) = (content(now) != content(inode), names_of(now) != names_of(inode));
                right(now.kind == inode.kind && !inode.is_spread() && (keeps || is_his))?;
                if is_his {
                    return Ok(());
                }
                if written {
                    self.may_write(record, cred, inode.ino, intake)?;
                }
                return if renamed { self.may_rename(record, cred, inode.ino, intake) } else { Ok(()) };
            }
            EventView::Entry { dir, ino, kind, remote, .. } => {
                // A file with several names lives with one of them; a directory lives where its name is.
                // Or it has a line of the subtree map, because it was another rank's once.
                let lives_there = kind != Kind::Dir || self.cluster.routes.home(ino) == Some(self.me());
                right((!remote || lives_there) && ino != record.dir)?;
                self.may_write(record, cred, dir, intake)?;
                return self.is_there(record, ino, intake);
            }
            EventView::Other(event) => event,
        };
        match event {
            Event::InodeGone(ino) => {
                right(*ino != record.dir)?;
                self.may_rename(record, cred, *ino, intake)
            }
            Event::EntryGone { dir, .. } => self.may_write(record, cred, *dir, intake),
            Event::Xattr { ino, name, value } => {
                right(value.len() <= XATTR_VALUE_MAX && may_name(cred, name))?;
                self.may_write(record, cred, *ino, intake)
            }
            Event::XattrGone { ino, name } => {
                right(may_name(cred, name))?;
                self.may_write(record, cred, *ino, intake)
            }
            Event::Inline { ino, data } => {
                right(data.len() <= INLINE_MAX)?;
                self.may_write(record, cred, *ino, intake)
            }
            Event::InlineGone(ino) => self.may_write(record, cred, *ino, intake),
            Event::Discard { ino, .. } => {
                // Of a file that is cut, or of one that goes.
                match self.may_write(record, cred, *ino, intake) {
                    Err(Bar::Denied) => self.may_rename(record, cred, *ino, intake),
                    verdict => verdict,
                }
            }
            _ => Err(Bar::Wrong),
        }
    }

    /// Whether something is in the subtree and its owner may write to it, as it is by now.
    pub(super) fn may_write(
        &mut self,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        self.is_there(record, ino, intake)?;
        if record.is_new(ino) || cred.is_root() {
            return Ok(());
        }
        match self.tree.find(ino) {
            Found::Here(inode) if inode.uid == cred.uid => Ok(()),
            Found::Here(inode) => access::check(inode, cred, access::W).map_err(|_| Bar::Denied),
            // Others have removed it; it counts for nothing.
            Found::Gone if record.interfere == Interfere::Allow => Ok(()),
            Found::Gone => Err(Bar::Wrong),
            Found::Unknown => Err(Bar::Load(vec![Need::Inode(ino)])),
        }
    }

    /// Whether its owner may give something that is in the subtree another name, or take its name away: whoever may write to the directory
    /// that it is in. A directory knows its names by their number.
    pub(super) fn may_rename(
        &mut self,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
        intake: &mut Intake,
    ) -> Result<(), Bar> {
        self.is_there(record, ino, intake)?;
        if record.is_new(ino) || cred.is_root() {
            return Ok(());
        }
        match self.tree.find(ino) {
            Found::Here(inode) if self.is_held_for(record, inode) => Ok(()),
            Found::Here(inode) => {
                let parent = inode.parent;
                self.may_write(record, cred, parent, intake)
            }
            Found::Gone if record.interfere == Interfere::Allow => Ok(()),
            Found::Gone => Err(Bar::Wrong),
            Found::Unknown => Err(Bar::Load(vec![Need::Inode(ino)])),
        }
    }

    /// Whether something is in the subtree: made there, or found there.
    pub(super) fn is_there(&mut self, record: &DecoupledRecord, ino: Ino, intake: &mut Intake) -> Result<(), Bar> {
        if record.is_granted(ino) || ino == record.dir || intake.below.contains(&ino) {
            return Ok(());
        }
        if self.is_elsewhere(ino) {
            return Err(Bar::Wrong);
        }
        match self.tree.find(ino) {
            Found::Unknown => return Err(Bar::Load(vec![Need::Inode(ino)])),
            // What others have removed of it is not below anything any more.
            Found::Gone if record.interfere == Interfere::Allow => return Ok(()),
            Found::Here(inode) if self.is_held_for(record, inode) => return Ok(()),
            _ => {}
        }
        match self.may_be_below(ino, record.dir) {
            Ok(true) => {
                self.note_lent(ino, record.dir);
                intake.below.insert(ino);
                Ok(())
            }
            Ok(false) => Err(Bar::Wrong),
            Err(needs) => Err(Bar::Load(needs)),
        }
    }

    pub(super) fn merge_parts(
        &mut self,
        job: &mut Job,
        dir: Ino,
        epoch: u64,
        (merge, parts): (u64, u32),
        (used, into): (Ino, MergeInto),
    ) -> Step {
        let record = match self.owned(job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        if merge == record.merges {
            return Step::Answer(self.tell_merged(dir, merge));
        }
        let intake = self.decoupled.by_dir.get_mut(&dir).and_then(|owned| owned.intake.take());
        let Some(intake) = intake.filter(|intake| intake.merge == merge && intake.parts == parts) else {
            return Step::Answer(Err(FsError::WouldBlock));
        };
        let in_range = used >= record.used && (record.is_granted(used) || record.is_granted(Ino(used.0 - 1)));
        if !in_range {
            return Step::Answer(Err(FsError::Invalid));
        }
        if let Some(step) = self.may_still_merge(job, dir) {
            self.keep_intake(dir, parts, intake);
            return step;
        }
        if record.interfere == Interfere::Allow {
            return self.merge_allowed(job, &record, (merge, used), intake);
        }
        let finals = match self.finals(&intake) {
            Ok(mut finals) => {
                finals.extend(
                    self.lines_gone(intake.known.iter().filter(|(_, known)| known.1.is_none()).map(|(ino, _)| *ino)),
                );
                finals
            }
            Err(Bar::Load(needs)) => {
                self.keep_intake(dir, parts, intake);
                return self.wait_to_know(job, needs);
            }
            Err(Bar::Wrong | Bar::Denied) => return Step::Answer(Err(FsError::Invalid)),
        };
        // Of the root others may know attributes.
        let change = Change { events: finals, answer: Answer::Done, origin_ino: dir, origin_value: 0 };
        if let Some(why) = self.settle_conflicts(job, &change) {
            self.keep_intake(dir, parts, intake);
            return Step::Wait(why);
        }
        // How it was, for replay: the table may have what it becomes, and not yet what is merged.
        let mut events = vec![Event::Decoupled(Box::new(record.clone())), Event::Merge { dir }];
        events.extend(change.events);
        events.extend(intake.discards);
        let record = DecoupledRecord { used, merges: merge, ..record };
        events.push(Event::Decoupled(Box::new(record)));
        let touched = intake.known.keys().copied().chain([dir]).collect();
        let at = self.commit(Some(origin_of(job, Ino(0), merge)), &events);
        self.counters.subtree_merges += 1;
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            owned.merging = true;
            owned.into_table = (into == MergeInto::Table).then_some(IntoTable::Waits(at, touched));
        }
        self.out.push_back(crate::io::Output::Again);
        // It is answered when what it has made can be seen.
        Step::Wait(Why::Merge(dir))
    }

    /// Whether its owner may change the root as it is by now: it may have been given to somebody else, or be gone.
    fn may_still_merge(&mut self, job: &mut Job, dir: Ino) -> Option<Step> {
        match self.tree.find(dir) {
            Found::Unknown => Some(self.wait_to_know(job, vec![Need::Inode(dir)])),
            Found::Gone => Some(Step::Answer(Err(FsError::NotFound))),
            Found::Here(root) => {
                let may = job.cred.is_root() || root.uid == job.cred.uid;
                (!may).then_some(Step::Answer(Err(FsError::Access)))
            }
        }
    }

    /// What becomes of the inodes that were there before and are not gone.
    fn finals(&self, intake: &Intake) -> Result<Vec<Event>, Bar> {
        let mut needs = Vec::new();
        let mut finals: BTreeMap<Ino, Box<Inode>> = BTreeMap::new();
        let mut left: Vec<(Ino, &Inode, &Inode)> = Vec::new();
        for (ino, (base, made)) in &intake.known {
            let now = match self.tree.find(*ino) {
                Found::Here(now) => now,
                Found::Unknown => {
                    needs.push(Need::Inode(*ino));
                    continue;
                }
                Found::Gone => continue,
            };
            if made.as_ref().is_none_or(|made| made.parent != base.parent) {
                left.push((base.parent, now, base));
            }
            if let Some(made) = made {
                let all = merged(now, base, made);
                if !is_within_bounds(&all) {
                    return Err(Bar::Wrong);
                }
                finals.insert(*ino, Box::new(all));
            }
        }
        if !needs.is_empty() {
            return Err(Bar::Load(needs));
        }
        for (counter, now, base) in left {
            if let Some(counter) = finals.get_mut(&counter) {
                uncount(counter, now, base);
            }
        }
        Ok(finals.into_values().map(Event::Inode).collect())
    }

    /// Brings some of what is merged into memory.
    pub(crate) fn step_merges(&mut self) {
        let merging = self.decoupled.by_dir.iter().find(|(_, owned)| owned.merging && !owned.waits_for_table());
        let Some((dir, follows)) = merging.map(|(dir, owned)| (*dir, owned.into_table.is_some())) else { return };
        if self.is_overfull(0) {
            // What is in memory of it goes into the table first; the tick looks again.
            return self.checkpoint();
        }
        self.pace.begin(&self.config);
        let parts = (self.pace.left() / (80 * REQUESTS_PER_PART)).clamp(1, PARTS_MAX);
        let lsn = self.log.last;
        let is_over = match follows {
            true => self.follow_table(dir),
            false => (0..parts).any(|_| self.tree.merge_some(dir, lsn)),
        };
        if is_over {
            self.end_merge(dir);
        }
        if self.decoupled.by_dir.values().any(|owned| owned.merging && !owned.waits_for_table()) {
            self.out.push_back(crate::io::Output::Again);
        }
    }
}

/// What of an inode changes with its names; of a directory the number of links does with those in it.
pub(super) fn names_of(inode: &Inode) -> (Ino, loligo_types::Place, u32) {
    (inode.parent, inode.place, if inode.kind == Kind::Dir { 0 } else { inode.nlink })
}

/// Whether a user may set xattrs of this name. Policies are a rank's to hear of at once.
fn may_name(cred: &Cred, name: &[u8]) -> bool {
    name.starts_with(b"user.") || cred.is_root() && !name.starts_with(b"loligo.")
}

/// Whether a user may have made an inode with this owner, group and mode.
pub(super) fn is_his_to_make(inode: &Inode, cred: &Cred) -> bool {
    let group = inode.kind == Kind::Dir || inode.mode & access::S_ISGID == 0 || cred.in_group(inode.gid);
    let device = matches!(inode.kind, Kind::Char | Kind::Block);
    cred.is_root() || inode.uid == cred.uid && group && !device
}

/// Whether an event is about what a subtree consists of.
fn is_of_a_subtree(event: EventView<'_>) -> bool {
    match event {
        EventView::Inode(inode) => !inode.is_spread(),
        EventView::Entry { .. } => true,
        EventView::Other(event) => matches!(
            event,
            Event::InodeGone(_)
                | Event::EntryGone { .. }
                | Event::Xattr { .. }
                | Event::XattrGone { .. }
                | Event::Inline { .. }
                | Event::InlineGone(_)
                | Event::Discard { .. }
        ),
    }
}

/// An event, if it says something of what was there before.
fn to_be_noted(record: &DecoupledRecord, event: EventView<'_>) -> Option<Event> {
    match event {
        EventView::Inode(inode) if !record.is_new(inode.ino) => Some(Event::Inode(Box::new(inode.clone()))),
        EventView::Other(event @ (Event::InodeGone(_) | Event::Discard { .. })) => Some(event.clone()),
        _ => None,
    }
}

/// Notes it.
fn note(event: Event, intake: &mut Intake) {
    match event {
        Event::Inode(inode) => match intake.known.get_mut(&inode.ino) {
            // The first time the owner says how it found it.
            None => _ = intake.known.insert(inode.ino, (inode.clone(), Some(inode))),
            Some((_, made)) => *made = Some(inode),
        },
        Event::InodeGone(ino) => {
            if let Some((_, made)) = intake.known.get_mut(&ino) {
                *made = None;
            }
        }
        Event::Discard { .. } => intake.discards.push(event),
        _ => {}
    }
}
