//! Begin and end of decoupled subtrees: how one comes about, who speaks for its owner, and what becomes of it without one.

use loligo_subtree_policy::{Cell, Wanted};
use loligo_types::limits::{SUBTREE_GRANTS_MAX, SUBTREE_INOS_MAX, SUBTREE_JOURNALS, SUBTREE_LEASE_MS_MAX};
use loligo_types::{
    Answer, DecoupledRecord, Event, FsError, Ino, Interfere, Kind, Layout, Lease, Promise, StoredJournal,
};

use crate::decouple::Owned;
use crate::decouple::begin::ASKS_MS;
use crate::decouple::nested::Offer;
use crate::decouple::objects::DROPS_MAX;
use crate::decouple::shut::Above;
use crate::io::Output;
use crate::job::{Job, WaitReason};
use crate::machine::Mds;
use crate::step::{Step, origin_of};

impl Mds {
    pub(in crate::decouple) fn decouple(
        &mut self,
        job: &mut Job,
        dir: Ino,
        (owner, resume): (u64, u64),
        inos: u64,
        (lease_ms, interfere, promise): (u32, Interfere, Promise),
    ) -> Step {
        let by = Some((job.slot, job.session));
        let mine = self.decoupled.by_dir.get(&dir).is_some_and(|owned| owned.by == by);
        let known = self.core.tree.decoupled(dir).map(|record| (record.epoch, record.owner, record.uid));
        let is_known = match known {
            Some((_, o, uid)) if o == owner && mine => Ok(uid == job.cred.uid),
            // A copy of the owner's journal has these numbers, too.
            Some((epoch, o, _))
                if resume == epoch && o == owner && self.decoupled.owner_is_here(&self.sessions, job, dir) =>
            {
                Err(FsError::Busy)
            }
            // A request that comes again finds what it has made.
            Some((epoch, o, uid)) if resume == epoch && o == owner => Ok(uid == job.cred.uid || job.cred.is_root()),
            Some(_) if resume != 0 => Err(FsError::Stale),
            Some(_) => Err(FsError::Busy),
            None if resume != 0 => Err(FsError::Stale),
            None => Ok(false),
        };
        match is_known {
            Err(error) => return Step::Answer(Err(error)),
            Ok(false) if known.is_some() => return Step::Answer(Err(FsError::Perm)),
            Ok(false) => {
                if let Some(step) = self.begin_decoupling(job, dir, owner, inos, (lease_ms, interfere, promise)) {
                    if matches!(step, Step::Answer(_)) {
                        self.decoupled.gathering.remove(&dir);
                        self.decoupled.policied.forget(dir);
                    }
                    return step;
                }
            }
            Ok(true) => {}
        }
        self.speak_for(job, dir, None)
    }

    /// From now on this session speaks for the owner of a decoupled subtree. `owner`: it is another one, of this number.
    fn speak_for(&mut self, job: &mut Job, dir: Ino, owner: Option<u64>) -> Step {
        let by = Some((job.slot, job.session));
        let owned = self.decoupled.by_dir.entry(dir).or_default();
        if owned.by != by {
            // Of what another session of the owner sent, this one knows nothing.
            let before = std::mem::replace(&mut owned.by, by);
            (owned.path_bound, owned.answers, owned.has_left) = (job.path_bound, false, false);
            (owned.intake, owned.part_waits) = (None, None);
            let rights = std::mem::take(&mut owned.data);
            if let Some((_, session)) = before {
                self.opens.end_data_rights(&mut self.core, &self.sessions, session, rights);
            }
            self.decoupled.end_still(&mut self.core, &self.sessions, &mut self.opens, dir);
        }
        let is_told = |record: &&DecoupledRecord| {
            record.session != job.session || owner.is_some_and(|owner| owner != record.owner)
        };
        if let Some(mut record) = self.core.tree.decoupled(dir).filter(is_told).cloned() {
            record.session = job.session;
            self.decoupled.freeze_all(&mut self.core, &record, job.session);
            if let Some(owner) = owner {
                self.decoupled.forget_open(dir);
                record.owner = owner;
                record.name = self.sessions.owner_name(job);
            }
            let origin = origin_of(job, dir, record.epoch);
            self.commit(Some(origin), &[Event::Decoupled(Box::new(record))]);
        }
        let owned = self.decoupled.by_dir.entry(dir).or_default();
        if !owned.alone
            && self.core.tree.decoupled(dir).is_some_and(|record| record.interfere.is_exclusive())
            && let Some(step) = self.ask_all_back(job, dir)
        {
            return step;
        }
        let Some(record) = self.core.tree.decoupled(dir).cloned() else { return Step::Answer(Err(FsError::Stale)) };
        Step::Answer(self.core.tell_decoupled(record))
    }

    /// Puts it down, if it can be; else what is to be done or said.
    fn begin_decoupling(
        &mut self,
        job: &mut Job,
        dir: Ino,
        owner: u64,
        inos: u64,
        (lease_ms, interfere, promise): (u32, Interfere, Promise),
    ) -> Option<Step> {
        if owner == 0 || dir == Ino::ROOT || lease_ms == 0 || lease_ms > SUBTREE_LEASE_MS_MAX {
            return Some(Step::Answer(Err(FsError::Invalid)));
        }
        match self.decoupled.decoupled_above(&mut self.core, &mut self.cluster, dir) {
            Above::Nothing => {}
            Above::Lost => match self.decoupled.merging_dir() {
                Some(other) => return Some(Step::Wait(WaitReason::Merge(other))),
                None => return Some(Step::Answer(Err(FsError::Stale))),
            },
            Above::Root(_) | Above::Below(_) => return Some(Step::Answer(Err(FsError::Busy))),
            Above::Load(needs) => return Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
        }
        let Some(root) = self.core.tree.inode(dir) else { return Some(Step::Answer(Err(FsError::Stale))) };
        if root.kind != Kind::Dir {
            return Some(Step::Answer(Err(FsError::NotDir)));
        }
        if !job.cred.is_root() && root.uid != job.cred.uid {
            return Some(Step::Answer(Err(FsError::Perm)));
        }
        if root.places_dirs().scatters() {
            // What is in it is all ranks', and only their numbers say where: nobody could be kept out of that.
            return Some(Step::Answer(Err(FsError::NotSupported)));
        }
        let roots: Vec<Ino> = self.core.tree.all_decoupled().map(|record| record.dir).collect();
        for used in roots {
            match self.cluster.is_below(&mut self.core, used, dir) {
                Ok(false) => {}
                Ok(true) => return Some(Step::Answer(Err(FsError::Busy))),
                Err(needs) => return Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
            }
        }
        if inos == 0 || inos > SUBTREE_INOS_MAX - SUBTREE_JOURNALS {
            return Some(Step::Answer(Err(FsError::Invalid)));
        }
        let wanted = Wanted { cell: Cell::of_promise(promise), inodes: inos, lease_ms: u64::from(lease_ms) };
        if let Some(step) = self.ways.breaks_bounds(&mut self.core, &mut self.cluster, job, dir, &wanted) {
            return Some(step);
        }
        match self.cluster.is_moving(&mut self.core, dir) {
            Ok(false) => {}
            Ok(true) => return Some(Step::Wait(WaitReason::Moving)),
            Err(needs) => return Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
        }
        if let Some(step) = self
            .decoupled
            .gather_subtree(&mut self.core, &mut self.cluster, &mut self.ways, job, dir)
            .or_else(|| self.cluster.wait_for_loans(&mut self.core, job, dir))
        {
            job.closing_ms = None;
            return Some(step);
        }
        if let Some(step) = self.decoupled.promises_more_below(
            &mut self.core,
            &mut self.cluster,
            &mut self.ways,
            job,
            dir,
            &Offer { promise, wanted: Some(&wanted) },
        ) {
            return Some(step);
        }
        if interfere.is_exclusive()
            && let Some(step) = self.wait_for_closes(job, dir, interfere)
        {
            return Some(step);
        }
        let inos = inos + SUBTREE_JOURNALS;
        let first = match self.core.next_numbers(inos) {
            Ok(first) => first,
            Err(error) => return Some(Step::Answer(Err(error))),
        };
        let mut record = DecoupledRecord {
            dir,
            epoch: first.0,
            owner,
            session: job.session,
            uid: job.cred.uid,
            name: self.sessions.owner_name(job),
            lease_ms,
            grants: Vec::new(),
            used: Ino(first.0 + SUBTREE_JOURNALS),
            merges: 0,
            interfere,
            journal: None,
            objects: Vec::new(),
            promise,
            overwritten: Vec::new(),
        };
        record.grant(first, inos);
        let events = [Event::NextIno(Ino(first.0 + inos)), Event::Decoupled(Box::new(record))];
        self.commit(Some(origin_of(job, dir, first.0)), &events);
        self.decoupled.by_dir.insert(dir, Owned::default());
        self.decoupled.gathering.remove(&dir);
        self.decoupled.policied.forget(dir);
        None
    }

    /// Waits until no file below is open. Clients keep closed files open for a while, to have them at hand: they are asked for the rights
    /// that come with these, and then close those that they do not use.
    fn wait_for_closes(&mut self, job: &mut Job, dir: Ino, interfere: Interfere) -> Option<Step> {
        let mut open = Vec::new();
        for ino in self.opens.inos() {
            if !self.opens.is_in_the_way(ino, interfere) {
                continue;
            }
            match self.cluster.is_below(&mut self.core, ino, dir) {
                Ok(false) => {}
                Ok(true) => open.push(ino),
                Err(needs) => return Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
            }
        }
        self.recalls.wait_for_closes_of(&mut self.core, &self.sessions, &self.opens, job, &open)
    }

    pub(in crate::decouple) fn grant_more(&mut self, job: &mut Job, dir: Ino, epoch: u64, inos: u64) -> Step {
        let inos = match self
            .decoupled
            .owned(&self.core, job, dir, epoch)
            .map(|record| self.ways.room_for_inodes(&mut self.core, &mut self.cluster, job, &record))
        {
            Ok(Ok(0)) => return Step::Answer(Err(FsError::Quota)),
            Ok(Ok(room)) => inos.min(room),
            Ok(Err(step)) => return step,
            Err(error) => return Step::Answer(Err(error)),
        };
        Step::Answer(self.decoupled.owned(&self.core, job, dir, epoch).and_then(|mut record| {
            let first = self.core.next_numbers(inos)?;
            if record.left() + inos > SUBTREE_INOS_MAX || record.grants.len() >= SUBTREE_GRANTS_MAX {
                return Err(FsError::Quota);
            }
            record.grant(first, inos);
            let events = [Event::NextIno(Ino(first.0 + inos)), Event::Decoupled(Box::new(record.clone()))];
            self.commit(Some(origin_of(job, dir, first.0)), &events);
            self.core.tell_decoupled(record)
        }))
    }

    /// Asks whoever holds anything on what is below for it; nothing, if there is none.
    fn ask_all_back(&mut self, job: &mut Job, dir: Ino) -> Option<Step> {
        let due = match self.leases.held_below(&mut self.core, &mut self.cluster, dir, None) {
            Ok(due) => due,
            Err(needs) => return Some(self.cluster.wait_to_know(&mut self.core, job, needs)),
        };
        if due.is_empty() {
            if self.cluster.replicas.lent.take_all_replicas_back(&mut self.core) {
                // Those who gave one back would ask for it again at once, and it would never come to an end.
                self.decoupled.asks_until_ms = self.core.now.mono_ms + ASKS_MS;
                return Some(Step::Wait(WaitReason::Replicas));
            }
            // What a merge brings is not held up by what clients were promised. Below a directory without the policy there is none, as a rule.
            let leased = self.core.tree.inode(dir).is_some_and(|inode| !inode.lookup_lease().is_none());
            if self.promises.is_any(self.core.now.mono_ms, leased) {
                self.promises.wait(false);
                return Some(Step::Wait(WaitReason::LookupLeases));
            }
            if let Some(owned) = self.decoupled.by_dir.get_mut(&dir) {
                owned.alone = true;
            }
            return None;
        }
        Some(self.recalls.recall_held(&mut self.core, &self.sessions, job, due))
    }

    /// So much of its owner's journal is in the store.
    pub(in crate::decouple) fn keep_journal(
        &mut self,
        job: &Job,
        dir: Ino,
        epoch: u64,
        journal: StoredJournal,
    ) -> Step {
        Step::Answer(self.decoupled.owned(&self.core, job, dir, epoch).and_then(|mut record| {
            if !record.journal_inos().contains(&journal.ino) {
                return Err(FsError::Invalid);
            }
            record.journal = (journal.bytes > 0).then_some(journal);
            self.commit(Some(origin_of(job, dir, epoch)), &[Event::Decoupled(Box::new(record.clone()))]);
            self.core.tell_decoupled(record)
        }))
    }

    pub(in crate::decouple) fn recouple(&mut self, job: &Job, dir: Ino, epoch: u64) -> Step {
        let record = match self.decoupled.owned(&self.core, job, dir, epoch) {
            Ok(record) => record,
            Err(error) => return Step::Answer(Err(error)),
        };
        if self.puts_back(&record) {
            return Step::Wait(WaitReason::Merge(dir));
        }
        // Before it is gone: that is begun anew after a crash.
        self.drop_unmade(&record);
        let at = self.commit(Some(origin_of(job, Ino(0), 0)), &[Event::DecoupledGone(dir)]);
        self.decoupled.thaw_at_end(&mut self.core, &self.sessions, &self.opens, &record, at);
        self.decoupled.let_go(&mut self.opens, dir);
        if let Some(owned) = self.decoupled.by_dir.remove(&dir) {
            self.opens.end_data_rights(&mut self.core, &self.sessions, job.session, owned.data);
        }
        Step::Answer(Ok(Answer::Done))
    }

    /// Takes back those whose owners were not heard for too long, and have left nothing in the store.
    pub(crate) fn end_lost_decoupled(&mut self) {
        self.core.parked.wake(&WaitReason::Close);
        self.decoupled.gather_again(&mut self.core);
        let now = self.core.now.mono_ms;
        self.decoupled.end_part_waits(&mut self.core);
        self.decoupled.wake_stills(&mut self.core);
        let mut over = Vec::new();
        for record in self.core.tree.all_decoupled() {
            let Some(owned) = self.decoupled.by_dir.get(&record.dir) else { continue };
            // With a journal in the store it waits for whoever merges that, unless it ends already.
            let waits = record.journal.is_some() && record.owner != 0;
            if !owned.merging && owned.is_left(record, now) && !waits {
                over.push(record.clone());
            }
        }
        for record in over {
            let dir = record.dir;
            if self.puts_back(&record) {
                continue;
            }
            let unmerged =
                !record.overwritten.is_empty() || record.objects.iter().any(|(first, _)| *first >= record.used);
            let name = String::from_utf8_lossy(&record.name).into_owned();
            self.core.out.push_back(Output::TakenBack { dir, path: self.path_of(dir), name, unmerged });
            self.drop_unmade(&record);
            let at = self.commit(None, &[Event::DecoupledGone(dir)]);
            self.decoupled.thaw_at_end(&mut self.core, &self.sessions, &self.opens, &record, at);
            self.decoupled.let_go(&mut self.opens, dir);
            self.decoupled.by_dir.remove(&dir);
            self.core.counters.decouplings_lost += 1;
        }
    }

    /// Another client is the owner from now on, if it may be.
    pub(in crate::decouple) fn take_over_subtree(&mut self, job: &mut Job, dir: Ino, owner: u64, now: bool) -> Step {
        if let Err(error) = self.decoupled.may_take_over(&self.core, &self.sessions, job, dir, owner, now) {
            return Step::Answer(Err(error));
        }
        let (me, by) = (job.slot, self.decoupled.by_dir.get(&dir).and_then(|owned| owned.by));
        let is_new = self.core.tree.decoupled(dir).is_some_and(|record| record.owner != owner);
        let step = self.speak_for(job, dir, Some(owner));
        if let Some((slot, _)) = by.filter(|(slot, _)| is_new && *slot != me)
            && let Some(owned) = self.decoupled.by_dir.get_mut(&dir)
        {
            owned.tells = Some(slot);
            let id = self.core.parked.number(job);
            self.recalls.recall(&mut self.core, &self.sessions, dir, slot, Lease::NAMES, id);
        }
        match step {
            Step::Answer(Ok(_)) if self.decoupled.is_telling(&self.core, &self.sessions, &self.recalls, job, dir) => {
                Step::Wait(WaitReason::Close)
            }
            step => step,
        }
    }

    /// Objects that are no file's when the subtree is not decoupled any more are dropped.
    fn drop_unmade(&mut self, record: &DecoupledRecord) {
        let object_size = Layout::default().object_size;
        let is_unmade = |ino: &Ino| *ino >= record.used || record.journal_inos().contains(ino);
        let noted = record.objects.iter().flat_map(|(first, count)| (first.0..first.0 + count).map(Ino));
        let copies = record.overwritten.iter().flat_map(|files| files.pairs()).map(|(_, copy)| copy);
        let unmade: Vec<Ino> = noted.filter(is_unmade).chain(copies).collect();
        for inos in unmade.chunks(DROPS_MAX) {
            let events: Vec<Event> =
                inos.iter().map(|ino| Event::Discard { ino: *ino, from: 0, object_size }).collect();
            self.commit(None, &events);
        }
    }
}
