//! Merge of a decoupled subtree's journal into the namespace ("volatile apply", Cudele §6.2, but durable and all at once).
//!
//! The owner's journal comes in parts, each the body of one record. Each part is checked as it comes and written to the rank's own journal,
//! where it has no effect yet. One record then commits all parts. It also holds the final state of inodes that existed before, since those
//! may have been counted meanwhile. From there on the merge is done, whoever dies: memory follows part by part, with other requests between
//! them, and so does replay. No half of it can be seen, since nobody but the owner may look below the root.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_journal::encode_record;
use loligo_namespace::{Change, Draft, Found, Tree, is_within_bounds, merged, uncount};
use loligo_types::limits::MERGE_PART_MAX;
use loligo_types::{Answer, DecoupledRecord, Event, FsError, Ino, Inode, Interfere, MergeInto, Need};

use super::allow;
use super::into_table::IntoTable;
use super::look::Bar;
use super::read::copies_gone;
use super::shape::Shape;
use super::whole::HaveXattrs;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::execute::{Step, origin_of};
use crate::machine::Mds;
use crate::park::{Job, WaitReason};

/// Most bytes of parts where the driver has not said how long the journal may be.
const BYTES_MAX: u64 = 64 << 20;
/// A part more for so many requests that were done since the last go; one in any case.
const REQUESTS_PER_PART: usize = 16;
/// Parts behind one that waits for records wait for it so long, milliseconds.
const PART_WAIT_MS: u64 = 10_000;
/// Parts in a go at most.
const PARTS_MAX: usize = 4;

/// The parts of a merge that have come.
#[derive(Default)]
pub(super) struct Intake {
    merge: u64,
    pub(super) parts: u32,
    /// Where others may work meanwhile: what the parts say, and their bytes. They are put down nowhere else.
    pub(super) draft: Draft,
    pub(super) bytes: u64,
    /// Inodes that were there before: as the owner fetched them, and as they are to be; `None`: gone.
    pub(super) known: BTreeMap<Ino, (Box<Inode>, Option<Box<Inode>>)>,
    /// Inodes that were there before and were found to be below the root.
    pub(super) below: BTreeSet<Ino>,
    /// The new inodes, and the place of each directory.
    pub(super) shape: Shape,
    /// Files that were there before, are spoken of, and may have names outside.
    pub(super) linked: BTreeSet<Ino>,
    /// Files whose bytes go, which the owner may do only if it ends them.
    pub(super) ends: BTreeSet<Ino>,
    /// Xattrs that are set, with the bytes of their values, or taken away, by inode.
    pub(super) xattrs: BTreeMap<Ino, BTreeMap<Arc<[u8]>, Option<usize>>>,
    /// Bytes of objects to be dropped.
    discards: Vec<Event>,
}

impl Intake {
    /// Notes an event about something that was there before, or that is looked at once more in the end. Whether it can be said after those before it.
    pub(super) fn note(&mut self, event: Event) -> bool {
        match event {
            Event::Inode(inode) => match self.known.get_mut(&inode.ino) {
                // The first time the owner says how it found it.
                None => _ = self.known.insert(inode.ino, (inode.clone(), Some(inode))),
                Some((_, Some(made))) => *made = inode,
                Some((_, None)) => return false,
            },
            Event::InodeGone(ino) => match self.known.get_mut(&ino) {
                Some((_, made)) => *made = None,
                None => return false,
            },
            Event::Xattr { ino, name, value } => {
                let bytes = Some(value.len());
                self.xattrs.entry(ino).or_default().insert(name, bytes);
            }
            Event::XattrGone { ino, name } => _ = self.xattrs.entry(ino).or_default().insert(name, None),
            Event::Discard { .. } => self.discards.push(event),
            _ => {}
        }
        true
    }

    /// True if an inode that was there before is gone with the merge.
    pub(super) fn ends(&self, ino: Ino) -> bool {
        self.known.get(&ino).is_some_and(|(_, made)| made.is_none())
    }
}

/// True if events fit one record of the journal: what decides a merge is one record, and its length is its owner's doing.
pub(super) fn fits_record(events: &[Event]) -> bool {
    let mut body = Vec::new();
    encode_record(&mut body, None, events);
    body.len() <= allow::RECORD_MAX
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
        let record = match self.decoupled.owned(&self.core, job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        if blind && record.interfere == Interfere::Allow {
            // What does not go together is found by looking.
            return Step::Answer(Err(FsError::NotSupported));
        }
        // Root's word is taken for what is others'. That of a client which is limited to paths is nobody's but its own.
        if blind && (!job.cred.is_root() || job.path_bound) {
            return Step::Answer(Err(FsError::Perm));
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { return Step::Answer(Err(FsError::Stale)) };
        if merge != record.merges + 1 || body.len() > MERGE_PART_MAX {
            return Step::Answer(Err(FsError::Invalid));
        }
        if owned.part_waits.is_some_and(|(of, before, _)| of == merge && part > before) {
            return Step::Wait(WaitReason::Part(dir));
        }
        if part == 0 {
            // Versions that were prepared for a merge which was given up may have changed since.
            self.decoupled.end_still(&mut self.core, &mut self.sessions, &mut self.opens, dir);
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { return Step::Answer(Err(FsError::Stale)) };
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
        self.core.parked.wake(&WaitReason::Part(dir));
        let allowed = record.interfere == Interfere::Allow;
        let bytes = match part {
            0 => 0,
            _ if allowed => intake.bytes,
            _ => self.core.tree.merge_parts(dir).1,
        };
        let most = if allowed { allow::BYTES_MAX } else { BYTES_MAX };
        let most = if self.core.log.limit == 0 { most } else { most.min(self.core.log.limit / 2) };
        let error = if bytes + body.len() as u64 > most || intake.shape.bytes() > most {
            Some(FsError::Quota)
        } else {
            let verdict = if allowed {
                self.decoupled.look_through_allowed(
                    &mut self.core,
                    &mut self.cluster,
                    &record,
                    &job.cred,
                    body,
                    &mut intake,
                )
            } else {
                self.decoupled.look_through(&mut self.core, &mut self.cluster, &record, &job.cred, body, &mut intake)
            };
            match verdict {
                Ok(()) => None,
                Err(Bar::Wrong) => Some(FsError::Invalid),
                Err(Bar::Denied) => Some(FsError::Access),
                Err(Bar::Load(needs)) => {
                    // What was noted of this part is noted again.
                    self.decoupled.keep_intake(dir, part, intake);
                    let step = self.cluster.wait_to_know(&mut self.core, job, needs);
                    if matches!(step, Step::Wait(_)) {
                        let since = self.core.now.mono_ms;
                        self.decoupled.by_dir.entry(dir).or_default().part_waits = Some((merge, part, since));
                    }
                    return step;
                }
            }
        };
        if let Some(error) = error {
            // Some of a part that was refused may be noted: what comes next begins anew.
            self.decoupled.keep_intake(dir, if error == FsError::Quota { part } else { 0 }, intake);
            return Step::Answer(Err(error));
        }
        intake.parts = part + 1;
        if !allowed {
            let event = Event::MergePart { dir, part, body: body.clone() };
            self.commit(Some(origin_of(job, Ino(0), 0)), &[event]);
        }
        self.decoupled.keep_intake(dir, part + 1, intake);
        Step::Answer(Ok(Answer::Done))
    }

    pub(super) fn merge_parts(
        &mut self,
        job: &mut Job,
        dir: Ino,
        epoch: u64,
        (merge, parts): (u64, u32),
        (used, into): (Ino, MergeInto),
    ) -> Step {
        let record = match self.decoupled.owned(&self.core, job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        if merge == record.merges {
            return Step::Answer(self.decoupled.tell_merged(dir, merge));
        }
        let intake = self.decoupled.by_dir.get_mut(&dir).and_then(|owned| owned.intake.take());
        let Some(intake) = intake.filter(|intake| intake.merge == merge && intake.parts == parts) else {
            return Step::Answer(Err(FsError::WouldBlock));
        };
        let in_range = used >= record.used && (record.is_granted(used) || record.is_granted(Ino(used.0 - 1)));
        if !in_range {
            return Step::Answer(Err(FsError::Invalid));
        }
        if let Some(step) = self.cluster.may_still_merge(&mut self.core, job, dir) {
            self.decoupled.keep_intake(dir, parts, intake);
            return step;
        }
        if record.interfere == Interfere::Allow {
            return self.merge_allowed(job, &record, (merge, used), intake);
        }
        if let Err(step) = self.decoupled.bounds_of_merge(&mut self.core, &mut self.cluster, job, &record, &intake) {
            self.decoupled.keep_intake(dir, parts, intake);
            return step;
        }
        let finals =
            match self.core.is_whole(&record, &intake, used).and_then(|have| finals(&self.core.tree, &intake, &have)) {
                Ok(mut finals) => {
                    finals.extend(
                        self.cluster.lines_gone(
                            intake.known.iter().filter(|(_, known)| known.1.is_none()).map(|(ino, _)| *ino),
                        ),
                    );
                    finals
                }
                Err(Bar::Load(needs)) => {
                    self.decoupled.keep_intake(dir, parts, intake);
                    return self.cluster.wait_to_know(&mut self.core, job, needs);
                }
                Err(Bar::Wrong | Bar::Denied) => return Step::Answer(Err(FsError::Invalid)),
            };
        // Of the root others may know attributes.
        let change = Change { events: finals, answer: Answer::Done, origin_ino: dir, origin_value: 0 };
        if let Some(why) = self.settle_conflicts(job, &change) {
            self.decoupled.keep_intake(dir, parts, intake);
            return Step::Wait(why);
        }
        // How it was, for replay: the table may have what it becomes, and not yet what is merged.
        let mut events = vec![Event::Decoupled(Box::new(record.clone())), Event::Merge { dir }];
        events.extend(change.events);
        events.extend(intake.discards);
        let before = record.clone();
        let mut record = DecoupledRecord { used, merges: merge, ..record };
        events.extend(copies_gone(&mut record));
        events.push(Event::Decoupled(Box::new(record)));
        if !fits_record(&events) {
            return Step::Answer(Err(FsError::Quota));
        }
        let touched = intake.known.keys().copied().chain([dir]).collect();
        let at = self.commit(Some(origin_of(job, Ino(0), merge)), &events);
        self.decoupled.show_merged(&mut self.core, &self.sessions, &self.opens, &before, intake.known.keys().copied());
        self.core.counters.subtree_merges += 1;
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            owned.merging = true;
            owned.into_table = (into == MergeInto::Table).then_some(IntoTable::Waits(at, touched));
        }
        self.core.out.push_back(crate::io::Output::Again);
        // It is answered when what it has made can be seen.
        Step::Wait(WaitReason::Merge(dir))
    }

    /// Brings some of what is merged into memory.
    pub(crate) fn step_merges(&mut self) {
        let merging = self.decoupled.by_dir.iter().find(|(_, owned)| owned.merging && !owned.waits_for_table());
        let Some((dir, follows)) = merging.map(|(dir, owned)| (*dir, owned.into_table.is_some())) else { return };
        if self.core.is_overfull(0) {
            // What is in memory of it goes into the table first; the tick looks again.
            return self.checkpoint();
        }
        self.pace.begin(&self.core.config);
        let parts = (self.pace.left() / (80 * REQUESTS_PER_PART)).clamp(1, PARTS_MAX);
        let lsn = self.core.log.last;
        let is_over = match follows {
            true => self.decoupled.follow_table(&mut self.core, &mut self.pace, dir),
            false => (0..parts).any(|_| self.core.tree.merge_some(dir, lsn)),
        };
        if is_over {
            self.end_merge(dir);
        }
        if self.decoupled.by_dir.values().any(|owned| owned.merging && !owned.waits_for_table()) {
            self.core.out.push_back(crate::io::Output::Again);
        }
    }
}

impl Decoupled {
    /// A part may have failed while it waited: those behind it wait no longer for ever.
    pub(super) fn end_part_waits(&mut self, core: &mut Core) {
        let now = core.now.mono_ms;
        let mut over = Vec::new();
        for (dir, owned) in &mut self.by_dir {
            if owned.part_waits.take_if(|(_, _, since)| now > *since + PART_WAIT_MS).is_some() {
                over.push(*dir);
            }
        }
        over.into_iter().for_each(|dir| core.parked.wake(&WaitReason::Part(dir)));
    }

    pub(super) fn keep_intake(&mut self, dir: Ino, parts: u32, intake: Intake) {
        if let Some(owned) = self.by_dir.get_mut(&dir) {
            owned.intake = (parts > 0).then_some(intake);
        }
    }
}

impl Cluster {
    /// Checks that the owner may still change the root: it may have been given to somebody else, or be gone.
    fn may_still_merge(&mut self, core: &mut Core, job: &mut Job, dir: Ino) -> Option<Step> {
        match core.tree.find(dir) {
            Found::Unknown => Some(self.wait_to_know(core, job, vec![Need::Inode(dir)])),
            Found::Gone => Some(Step::Answer(Err(FsError::NotFound))),
            Found::Here(root) => {
                let may = job.cred.is_root() || root.uid == job.cred.uid;
                (!may).then_some(Step::Answer(Err(FsError::Access)))
            }
        }
    }
}

/// Events with the final state of inodes that were there before and are not gone.
fn finals(tree: &Tree, intake: &Intake, have_xattrs: &HaveXattrs) -> Result<Vec<Event>, Bar> {
    let mut needs = Vec::new();
    let mut finals: BTreeMap<Ino, Box<Inode>> = BTreeMap::new();
    let mut left: Vec<(Ino, &Inode, &Inode)> = Vec::new();
    for (ino, (base, made)) in &intake.known {
        let now = match tree.find(*ino) {
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
            let mut all = merged(now, base, made);
            all.has_xattrs = have_xattrs.get(ino).copied().unwrap_or(all.has_xattrs);
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
