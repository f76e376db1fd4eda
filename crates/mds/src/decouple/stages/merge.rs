//! Merges of decoupled subtrees: parts are kept, all of them become one record, and it gets into memory and the table in steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_namespace::{Change, Fork, Plan, Terms, resolve};
use loligo_types::limits::MERGE_PART_MAX;
use loligo_types::{Answer, DecoupledRecord, Event, FsError, Ino, Interfere, MergeInto};

use crate::decouple::allow;
use crate::decouple::allow::RECORD_MAX;
use crate::decouple::intake::Intake;
use crate::decouple::look::Bar;
use crate::decouple::merge::{BYTES_MAX, PARTS_MAX, REQUESTS_PER_PART, finals, fits_record};
use crate::decouple::read::copies_gone;
use crate::decouple::state::{Held, IntoTable, LastConflicts};
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::step::{Step, origin_of};

impl Mds {
    pub(in crate::decouple) fn merge_part(
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
            self.decoupled.end_still(&mut self.core, &self.sessions, &mut self.opens, dir);
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

    pub(in crate::decouple) fn merge_parts(
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

    /// The plan of a merge, or what it waits for.
    fn plan(
        &mut self,
        job: &mut Job,
        record: &DecoupledRecord,
        (merge, forks): (u64, &BTreeMap<Ino, Fork>),
        intake: &Intake,
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

    /// Merges where others may have worked meanwhile.
    fn merge_allowed(
        &mut self,
        job: &mut Job,
        record: &DecoupledRecord,
        (merge, used): (u64, Ino),
        intake: Intake,
    ) -> Step {
        let (dir, parts) = (record.dir, intake.parts);
        let planned = self.settle_forks(job, record, &intake);
        let step = match planned.and_then(|forks| self.plan(job, record, (merge, &forks), &intake)) {
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
            self.decoupled.end_still(&mut self.core, &self.sessions, &mut self.opens, dir);
        }
        self.decoupled.keep_intake(dir, parts, intake);
        step
    }

    fn merge_at_once(
        &mut self,
        job: &Job,
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
        self.decoupled.forks_merged(&mut self.core, &self.sessions, &mut self.opens, &after, met, &events);
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
        self.decoupled.let_go_closed(&self.core, &mut self.opens, record);
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            owned.last = last;
        }
        Step::Answer(self.decoupled.tell_merged(dir, merge))
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

    /// A merge that was brought into memory in steps has ended.
    fn end_merge(&mut self, dir: Ino) {
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            owned.merging = false;
        }
        self.core.parked.wake(&WaitReason::Merge(dir));
        self.merge_is_over();
    }

    /// Something of a merge was brought into memory, the last of it: what waited for that goes on.
    fn merge_is_over(&mut self) {
        if self.cluster.is_alone() {
            return;
        }
        // What it says of directories that had lines others learn from the table alone.
        self.cluster.atlas.told_by_table = true;
        // Somebody may have asked for what it made before it was there.
        self.cluster.atlas.foreign_inodes.clear();
        self.cluster.atlas.forget_absent(&mut self.core);
        if self.decoupled.is_merging() {
            return;
        }
        let others: Vec<loligo_types::Rank> = self.cluster.peers.links.keys().copied().collect();
        others.into_iter().for_each(|rank| self.open_letters(rank));
        self.core.parked.wake(&WaitReason::Locked);
        self.next_loans();
    }
}
