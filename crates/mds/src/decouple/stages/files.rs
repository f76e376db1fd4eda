//! Files of decoupled subtrees that have two versions, or a right at the object server, or are written where they are.

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::{Fork, Found, is_written};
use loligo_types::limits::{OVERWRITTEN_FILES_MAX, OVERWRITTEN_ROWS_MAX};
use loligo_types::{
    Answer, DataError, DecoupledRecord, Event, FsError, Ino, Inode, Interfere, Place, RStat, SubtreeAnswer,
};

use crate::decouple::fork::{Drafted, MADE_BYTES_MAX, MADE_MAX, change_of, touched};
use crate::decouple::intake::Intake;
use crate::decouple::objects::{Verdict, note_objects};
use crate::decouple::state::{Kept, State};
use crate::io::{DataAccess, Output};
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::step::{Step, origin_of};

impl Mds {
    /// Tells the object server that these files have two versions from now on, and lets the owner change its own.
    fn fork_files(&mut self, job: &mut Job, record: DecoupledRecord, files: &BTreeSet<Ino>) -> Step {
        let dir = record.dir;
        let Some(owned) = self.decoupled.by_dir.get(&dir) else { return Step::Answer(Err(FsError::Stale)) };
        if owned.forks.noted.is_some_and(|lsn| lsn > self.core.log.durable) {
            return Step::Wait(WaitReason::Merge(dir));
        }
        let new: Vec<Ino> = files.difference(&owned.forks.frozen).copied().collect();
        for ino in new.iter().copied() {
            if self.discards.data_is_busy(&self.decoupled, ino) {
                return Step::Wait(WaitReason::Data(ino));
            }
            if let Some(why) = self.opens.wait_for_rooms(&mut self.tidy, ino) {
                return Step::Wait(why);
            }
        }
        let there: Vec<Inode> = new.iter().filter_map(|ino| self.core.tree.inode(*ino)).cloned().collect();
        let events: Vec<Event> = there.iter().map(touched).collect();
        if let Some(why) = self.settle_conflicts(job, &change_of(dir, events)) {
            return Step::Wait(why);
        }
        let cut = |inode: &&Inode| self.opens.any_writer(inode.ino);
        let cuts: Vec<Event> = there
            .iter()
            .filter(cut)
            .map(|inode| Event::Inode(Box::new(Inode { cuts: inode.cuts.wrapping_add(1), ..inode.clone() })))
            .collect();
        if !cuts.is_empty() {
            self.commit(None, &cuts);
        }
        for inode in there {
            let Some(now) = self.core.tree.inode(inode.ino).cloned() else { continue };
            let (ino, size) = (now.ino, if now.inline { 0 } else { now.size });
            let Some(copy) = record.copy_of(ino) else { continue };
            self.core.out.push_back(Output::Freeze { ino, copy, size, owner: job.session, shared: true });
            if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
                owned.forks.frozen.insert(ino);
                owned.forks.seen.insert(ino, (Box::new(now), false));
            }
        }
        let mut begin = Vec::new();
        for ino in files.iter().copied() {
            self.core.out.push_back(Output::Access { session: job.session, ino, access: DataAccess::Write });
            let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { continue };
            owned.data.add_file(ino);
            // A request that comes again is of an owner that has not heard of the beginning.
            begin.extend(owned.forks.seen.get(&ino).map(|(inode, _)| Inode::clone(inode)));
        }
        Step::Answer(Ok(Answer::Subtree(Box::new(SubtreeAnswer::Forked { record, files: begin }))))
    }

    /// Makes all ready that a merge needs of the forked files which it speaks of; what it waits for, if it is not.
    pub(in crate::decouple) fn settle_forks(
        &mut self,
        job: &mut Job,
        record: &DecoupledRecord,
        intake: &Intake,
    ) -> Result<BTreeMap<Ino, Fork>, Step> {
        let dir = record.dir;
        let of_draft = intake.draft.known().filter_map(|(ino, base, made)| {
            let Some(copy) = record.copy_of(ino) else {
                let is_both = |now: &Inode| is_written(base, now) && now.size > 0;
                let both =
                    intake.draft.has_data(ino) && made.is_some() && self.core.tree.inode(ino).is_none_or(is_both);
                return both.then_some((ino, ino, None));
            };
            let speaks = made.is_none() || intake.draft.writes(ino);
            speaks.then_some((ino, copy, made.is_none().then_some(base.change)))
        });
        let mut files: Vec<Drafted> = of_draft.collect();
        let mut needs = Vec::new();
        for (ino, copy, _) in &files {
            match self.core.tree.find(*ino) {
                Found::Here(now) if copy == ino && now.inline && self.core.tree.inline(now).is_none() => {
                    needs.push(loligo_types::Need::Inline(*ino));
                }
                Found::Unknown => needs.push(loligo_types::Need::Inode(*ino)),
                Found::Here(_) if self.discards.drops_or_spills(*ino) => {
                    return Err(Step::Wait(WaitReason::Data(*ino)));
                }
                Found::Here(_) if !self.decoupled.is_still(*ino) => {
                    if let Some(why) = self.opens.wait_for_rooms(&mut self.tidy, *ino) {
                        return Err(Step::Wait(why));
                    }
                }
                Found::Here(_) | Found::Gone => {}
            }
        }
        if !needs.is_empty() {
            return Err(self.cluster.wait_to_know(&mut self.core, job, needs));
        }
        files.retain(|(ino, ..)| self.core.tree.inode(*ino).is_some());
        let moving: Vec<Ino> =
            files.iter().map(|(ino, ..)| *ino).filter(|ino| !self.decoupled.is_still(*ino)).collect();
        let events = moving.iter().filter_map(|ino| self.core.tree.inode(*ino)).map(touched).collect();
        if let Some(why) = self.settle_conflicts(job, &change_of(dir, events)) {
            return Err(Step::Wait(why));
        }
        self.decoupled.hold_still(&mut self.core, &self.sessions, &self.opens, dir, &moving);
        // Others may have written a file after its owner had fetched it and before it was forked. The fork itself counts as a cut.
        let is_older = |(ino, ..): &&Drafted| match (intake.draft.base(*ino), self.core.tree.inode(*ino)) {
            (Some(base), Some(now)) => is_written(&Inode { cuts: now.cuts, ..base.clone() }, now),
            _ => false,
        };
        let written: BTreeSet<Ino> = files.iter().filter(is_older).map(|(ino, ..)| *ino).collect();
        self.keep_versions(dir, &files, &written)
    }

    /// The forked files, each with whether others have changed it, and an orphan that has their version. What is not known, or not
    /// there yet, begins.
    /// `written`: those that others have written since their owner fetched them.
    fn keep_versions(
        &mut self,
        dir: Ino,
        files: &[Drafted],
        written: &BTreeSet<Ino>,
    ) -> Result<BTreeMap<Ino, Fork>, Step> {
        let Some(owned) = self.decoupled.by_dir.get_mut(&dir) else { return Err(Step::Answer(Err(FsError::Stale))) };
        let (mut forks, mut waits, mut to_make) = (BTreeMap::new(), false, Vec::new());
        for (ino, copy, gone) in files.iter().copied() {
            let Some(now) = self.core.tree.inode(ino) else { continue };
            let others = match owned.forks.seen.get(&ino) {
                _ if copy == ino => true,
                Some((was, changed)) => *changed || is_written(was, now) || written.contains(&ino),
                None => {
                    waits = true;
                    if owned.forks.asked.insert(ino, Box::new(now.clone())).is_none() {
                        self.core.out.push_back(Output::LookAtFork { ino, copy });
                    }
                    continue;
                }
            };
            let mut kept = None;
            let survives = gone.is_some_and(|base| now.nlink > 0 && now.change != base);
            let is_kept = others && (!now.inline || copy == ino) && now.size > 0;
            if survives || gone.is_none() && is_kept {
                match owned.forks.kept.get(&ino) {
                    // It is held until the merge: should it be gone all the same, the merge begins anew.
                    Some(Kept { to: Some(to), is: State::Done, .. })
                        if matches!(self.core.tree.find(*to), Found::Gone) =>
                    {
                        return Err(Step::Answer(Err(FsError::WouldBlock)));
                    }
                    Some(Kept { to, is: State::Done, .. }) => kept = *to,
                    Some(Kept { is: State::Failed(error), .. }) => {
                        let error = if *error == DataError::NoSpace { FsError::NoSpace } else { FsError::Io };
                        return Err(Step::Answer(Err(error)));
                    }
                    Some(_) => waits = true,
                    None if survives => {
                        // It stays, and it is the others' version that does.
                        waits = true;
                        let (len, object_size) = (now.size, now.layout().object_size);
                        owned.forks.kept.insert(ino, Kept { to: None, len, object_size, is: State::Copied });
                        self.core.out.push_back(Output::Restore { ino, copy });
                    }
                    None => to_make.push(now.clone()),
                }
            }
            forks.insert(ino, Fork { others, kept });
        }
        let is_at_once = !to_make.is_empty() && to_make.iter().all(|inode| inode.inline);
        waits |= !to_make.is_empty() && !is_at_once;
        while !to_make.is_empty() {
            let mut bytes = 0;
            let count = to_make.iter().take(MADE_MAX).take_while(|inode| {
                bytes += if inode.inline { inode.size } else { 0 };
                bytes <= MADE_BYTES_MAX
            });
            let rest = to_make.split_off(count.count().max(1));
            if let Err(error) = self.make_keepers(dir, &std::mem::replace(&mut to_make, rest)) {
                return Err(Step::Answer(Err(error)));
            }
        }
        if is_at_once && !waits {
            return self.keep_versions(dir, files, written);
        }
        if waits { Err(Step::Wait(WaitReason::Merge(dir))) } else { Ok(forks) }
    }

    /// Makes orphans for the others' versions of files.
    fn make_keepers(&mut self, dir: Ino, files: &[Inode]) -> Result<(), FsError> {
        let first = self.core.next_numbers(files.len() as u64)?;
        let mut events = vec![Event::NextIno(Ino(first.0 + files.len() as u64))];
        for (at, inode) in files.iter().enumerate() {
            let ino = Ino(first.0 + at as u64);
            let mut made =
                Inode { ino, nlink: 0, parent: Ino(0), place: Place::floating(self.core.me()), ..inode.clone() };
            (made.accounted, made.has_xattrs) = (RStat::default(), false);
            events.extend([Event::Orphan(ino), Event::Inode(Box::new(made))]);
            events
                .extend(self.core.tree.inline(inode).filter(|_| inode.inline).map(|data| Event::Inline { ino, data }));
        }
        let at = self.commit(None, &events);
        if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
            for (number, inode) in files.iter().enumerate() {
                let (len, object_size) = (inode.size, inode.layout().object_size);
                let to = Some(Ino(first.0 + number as u64));
                let is = if inode.inline { State::Done } else { State::Noted(at) };
                let kept = Kept { to, len, object_size, is };
                owned.forks.kept.insert(inode.ino, kept);
            }
        }
        self.decoupled.emit_forks(&mut self.core);
        Ok(())
    }

    /// Lets the owner change objects of files that others know.
    pub(in crate::decouple) fn overwrite(&mut self, job: &mut Job, dir: Ino, epoch: u64, inos: &[Ino]) -> Step {
        let mut record = match self.decoupled.owned(&self.core, job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        if record.interfere == Interfere::Block {
            return self.subtree_data(job, dir, epoch, inos);
        }
        let mut files: BTreeSet<Ino> = inos.iter().copied().collect();
        let (mut missing, mut gone) = (Vec::new(), BTreeSet::new());
        for ino in &files {
            match self.decoupled.may_overwrite(&mut self.core, &mut self.cluster, &record, &job.cred, *ino) {
                Ok(needs) => missing.extend(needs),
                // Removed by a merge, and open at its owner still: nobody else reads it, so nothing is copied.
                Err(FsError::NotFound)
                    if (record.is_granted(*ino) || self.decoupled.has_data_right(dir, *ino))
                        && matches!(self.core.tree.find(*ino), Found::Gone) =>
                {
                    gone.insert(*ino);
                }
                Err(error) => return Step::Answer(Err(error)),
            }
        }
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            return self.cluster.wait_to_know(&mut self.core, job, missing);
        }
        files.retain(|ino| !gone.contains(ino));
        for ino in gone {
            self.core.out.push_back(Output::Access { session: job.session, ino, access: DataAccess::Write });
            if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
                owned.data.add_file(ino);
            }
        }
        let new = files.iter().filter(|ino| record.copy_of(**ino).is_none()).count() as u64;
        if new > 0 {
            let all: u64 = record.overwritten.iter().map(|files| files.count).sum();
            let first = match self.core.next_numbers(new) {
                Ok(first) if all + new <= OVERWRITTEN_FILES_MAX => first,
                Ok(_) => return Step::Answer(Err(FsError::Quota)),
                Err(error) => return Step::Answer(Err(error)),
            };
            record.note_overwritten(files.iter().copied(), first);
            if record.overwritten.len() > OVERWRITTEN_ROWS_MAX {
                return Step::Answer(Err(FsError::Quota));
            }
            let events = [Event::NextIno(Ino(first.0 + new)), Event::Decoupled(Box::new(record.clone()))];
            let at = self.commit(Some(origin_of(job, dir, epoch)), &events);
            self.decoupled.note_forks(dir, at);
        }
        if record.interfere == Interfere::Allow {
            return self.fork_files(job, record, &files);
        }
        for ino in files {
            let size = self.core.tree.inode(ino).map_or(u64::MAX, |inode| if inode.inline { 0 } else { inode.size });
            if let Some(copy) = record.copy_of(ino) {
                self.core.out.push_back(Output::Freeze { ino, copy, size, owner: job.session, shared: false });
                self.core.out.push_back(Output::Access { session: job.session, ino, access: DataAccess::Write });
                if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
                    owned.data.add_file(ino);
                }
            }
        }
        Step::Answer(self.core.tell_decoupled(record))
    }

    /// True if a subtree that ends has to wait until the files that its owner has overwritten, and not merged, are as they were.
    pub(in crate::decouple) fn puts_back(&mut self, record: &DecoupledRecord) -> bool {
        if record.overwritten.is_empty() {
            return false;
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&record.dir) else { return false };
        if let Some(left) = &owned.putting_back {
            return !left.is_empty();
        }
        if self.decoupled.stills_for_end(&mut self.core, &self.sessions, &mut self.opens, &self.discards, record) {
            return true;
        }
        let Some(owned) = self.decoupled.by_dir.get_mut(&record.dir) else { return false };
        let pairs: Vec<(Ino, Ino)> = record.overwritten.iter().flat_map(|files| files.pairs()).collect();
        owned.putting_back = Some(pairs.iter().map(|(ino, _)| *ino).collect());
        let rights = std::mem::take(&mut owned.data);
        if let Some((_, session)) = owned.by {
            self.opens.end_data_rights(&mut self.core, &self.sessions, session, rights);
        }
        // Nobody goes on with it, also not after a crash in the middle: half of the files would be as they were, and its owner would not know.
        let ending = DecoupledRecord { owner: 0, ..record.clone() };
        let lsn = self.commit(None, &[Event::Decoupled(Box::new(ending))]);
        if let Some(owned) = self.decoupled.by_dir.get_mut(&record.dir) {
            owned.restores = Some((lsn, pairs));
        }
        self.decoupled.emit_restores(&mut self.core);
        true
    }

    pub(in crate::decouple) fn subtree_data(&mut self, job: &mut Job, dir: Ino, epoch: u64, inos: &[Ino]) -> Step {
        let mut record = match self.decoupled.owned(&self.core, job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        let (mut files, mut missing, mut noted) = (Vec::new(), Vec::new(), false);
        for ino in inos {
            match self.decoupled.data_right(&mut self.core, &mut self.cluster, &record, &job.cred, *ino) {
                Ok(Verdict::Granted) => noted |= note_objects(&mut record, *ino),
                // To change it is asked for apart.
                Ok(Verdict::May(_)) if record.interfere != Interfere::Block => {
                    if record.copy_of(*ino).is_none() || !self.decoupled.has_data_right(dir, *ino) {
                        files.push((*ino, DataAccess::Read));
                    }
                }
                Ok(Verdict::May(access)) => files.push((*ino, access)),
                Ok(Verdict::Load(needs)) => missing.extend(needs),
                Err(error) => return Step::Answer(Err(error)),
            }
        }
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            return self.cluster.wait_to_know(&mut self.core, job, missing);
        }
        if noted {
            self.commit(Some(origin_of(job, dir, epoch)), &[Event::Decoupled(Box::new(record.clone()))]);
        }
        self.decoupled.give_data_rights(&mut self.core, dir, job.session, &record, &files);
        Step::Answer(self.core.tell_decoupled(record))
    }
}
