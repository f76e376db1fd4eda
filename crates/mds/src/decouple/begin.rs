//! Life of a decoupled subtree: its begin, its renewal and its end.
//!
//! Decoupling is recorded first, so that from then on nobody gets anything of the subtree. Then all that others hold on it is asked back.
//! Only then its owner is answered. Where others may work meanwhile nothing is asked back (`allow.rs`).
//!
//! An owner who is not heard for as long as its lease says loses the subtree: the rank takes it back, and changes that were not merged are
//! known to nobody but the owner. A subtree with a journal in the store waits instead for somebody who merges that (`away.rs`).

use loligo_subtree_policy::{Cell, Wanted};
use loligo_types::limits::{SUBTREE_GRANTS_MAX, SUBTREE_INOS_MAX, SUBTREE_JOURNALS, SUBTREE_LEASE_MS_MAX};
use loligo_types::{
    Answer, DecoupledRecord, Event, FsError, FsResult, Ino, Interfere, Kind, Lease, Promise, StoredJournal,
};

use super::Owned;
use super::nested::Offer;
use super::objects::DataRights;
use super::shut::Above;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::execute::{Step, origin_of};
use crate::io::{DataAccess, Output};
use crate::lease::Leases;
use crate::machine::Mds;
use crate::open::Opens;
use crate::park::{Job, WaitReason};
use crate::recall::Recalls;
use crate::session::{Sessions, Slot};

/// Time for clients to close files that they do not use: longer than they keep them open, milliseconds.
const CLOSE_MS: u64 = 1500;

/// Time without replicas after they were asked back, milliseconds: longer than until the next look whether they came back.
const ASKS_MS: u64 = 500;

impl Mds {
    pub(super) fn decouple(
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
    pub(super) fn speak_for(&mut self, job: &mut Job, dir: Ino, owner: Option<u64>) -> Step {
        let by = Some((job.slot, job.session));
        let owned = self.decoupled.by_dir.entry(dir).or_default();
        if owned.by != by {
            // Of what another session of the owner sent, this one knows nothing.
            let before = std::mem::replace(&mut owned.by, by);
            (owned.path_bound, owned.answers, owned.has_left) = (job.path_bound, false, false);
            (owned.intake, owned.part_waits) = (None, None);
            let rights = std::mem::take(&mut owned.data);
            if let Some((_, session)) = before {
                self.opens.end_data_rights(&mut self.core, &mut self.sessions, session, rights);
            }
            self.decoupled.end_still(&mut self.core, &mut self.sessions, &mut self.opens, dir);
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

    pub(super) fn grant_more(&mut self, job: &mut Job, dir: Ino, epoch: u64, inos: u64) -> Step {
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
            if self.cluster.replicas.take_all_replicas_back(&mut self.core) {
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
    pub(super) fn keep_journal(&mut self, job: &mut Job, dir: Ino, epoch: u64, journal: StoredJournal) -> Step {
        Step::Answer(self.decoupled.owned(&self.core, job, dir, epoch).and_then(|mut record| {
            if !record.journal_inos().contains(&journal.ino) {
                return Err(FsError::Invalid);
            }
            record.journal = (journal.bytes > 0).then_some(journal);
            self.commit(Some(origin_of(job, dir, epoch)), &[Event::Decoupled(Box::new(record.clone()))]);
            self.core.tell_decoupled(record)
        }))
    }

    pub(super) fn recouple(&mut self, job: &mut Job, dir: Ino, epoch: u64) -> Step {
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
        self.decoupled.thaw_at_end(&mut self.core, &mut self.sessions, &self.opens, &record, at);
        self.decoupled.let_go(&mut self.opens, dir);
        if let Some(owned) = self.decoupled.by_dir.remove(&dir) {
            self.opens.end_data_rights(&mut self.core, &mut self.sessions, job.session, owned.data);
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
            self.decoupled.thaw_at_end(&mut self.core, &mut self.sessions, &self.opens, &record, at);
            self.decoupled.let_go(&mut self.opens, dir);
            self.decoupled.by_dir.remove(&dir);
            self.core.counters.decouplings_lost += 1;
        }
    }
}

impl Leases {
    /// The session of an owner which answers below the root by itself from now on gives back what it has there as one of those that work there.
    pub(super) fn leave_own(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        recalls: &mut Recalls,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
    ) -> Option<Step> {
        let mut open = Vec::new();
        for ino in opens.inos() {
            if opens.access(ino, job.slot) == DataAccess::None {
                continue;
            }
            match cluster.is_below(core, ino, dir) {
                Ok(below) => open.extend(below.then_some(ino)),
                Err(needs) => return Some(cluster.wait_to_know(core, job, needs)),
            }
        }
        if let Some(step) = recalls.wait_for_closes_by(core, sessions, opens, job, &open, Some(job.slot)) {
            return Some(step);
        }
        match self.held_below(core, cluster, dir, Some(job.slot)) {
            Ok(due) if due.is_empty() => None,
            Ok(due) => Some(recalls.recall_held(core, sessions, job, due)),
            Err(needs) => Some(cluster.wait_to_know(core, job, needs)),
        }
    }
}

impl Decoupled {
    /// True if another session speaks for the owner of a decoupled subtree, and is connected. That session has it, also where others know
    /// the owner's number.
    pub(super) fn owner_is_here(&self, sessions: &Sessions, job: &Job, dir: Ino) -> bool {
        let by = self.by_dir.get(&dir).and_then(|owned| owned.by);
        by.filter(|(_, session)| *session != job.session)
            .and_then(|(slot, id)| sessions.get(slot).filter(|session| session.id == id))
            .is_some_and(|session| session.conn.is_some())
    }

    /// A session has ended: nobody speaks for what it had decoupled, until somebody who may does.
    pub(crate) fn lose_decoupled(&mut self, core: &mut Core, sessions: &mut Sessions, opens: &mut Opens, slot: Slot) {
        let now = core.now.mono_ms;
        self.hidden.retain(|(_, of)| *of != slot);
        let mut lost = Vec::new();
        for (dir, owned) in &mut self.by_dir {
            if owned.by.is_some_and(|(of, _)| of == slot) {
                lost.push(*dir);
                (owned.by, owned.lost_ms, owned.intake) = (None, now, None);
                owned.part_waits = None;
                // The object server has fenced the session.
                owned.data = DataRights::default();
            }
        }
        lost.into_iter().for_each(|dir| self.end_still(core, sessions, opens, dir));
    }

    /// After a restart those whose sessions are still there speak for them.
    pub(crate) fn recover_decoupled(&mut self, core: &mut Core, sessions: &mut Sessions) {
        let lost_ms = core.now.mono_ms;
        let owned = |record: &DecoupledRecord| {
            let by = sessions.find(record.session).map(|slot| (slot, record.session));
            (record.dir, Owned { by, lost_ms, ..Owned::default() })
        };
        self.by_dir = core.tree.all_decoupled().map(owned).collect();
        let overwritten: Vec<DecoupledRecord> =
            core.tree.all_decoupled().filter(|record| !record.overwritten.is_empty()).cloned().collect();
        overwritten.iter().for_each(|record| self.freeze_all(core, record, record.session));
        self.hold_orphans(core);
    }
}

impl Sessions {
    /// The name of the client that asks.
    fn owner_name(&mut self, job: &Job) -> Box<[u8]> {
        self.same(job.slot, job.session).map(|session| session.name.clone()).unwrap_or_default()
    }
}

impl Recalls {
    /// The same of these.
    pub(super) fn wait_for_closes_of(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        job: &mut Job,
        open: &[Ino],
    ) -> Option<Step> {
        self.wait_for_closes_by(core, sessions, opens, job, open, None)
    }

    /// `by`: whose rights are asked for; nobody: everybody's.
    fn wait_for_closes_by(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        job: &mut Job,
        open: &[Ino],
        by: Option<Slot>,
    ) -> Option<Step> {
        if open.is_empty() {
            return None;
        }
        let since_ms = *job.closing_ms.get_or_insert(core.now.mono_ms);
        if core.now.mono_ms >= since_ms + CLOSE_MS {
            return Some(Step::Answer(Err(FsError::Busy)));
        }
        let rights = open.iter().flat_map(|ino| opens.all_rights(*ino).map(|(slot, held)| (*ino, slot, held)));
        let is_asked = |(_, slot, held): &(Ino, Slot, Lease)| !held.is_none() && by.is_none_or(|by| by == *slot);
        let held: Vec<(Ino, Slot, Lease)> = rights.filter(is_asked).collect();
        if held.is_empty() {
            return Some(Step::Wait(WaitReason::Close));
        }
        Some(self.recall_held(core, sessions, job, held))
    }

    fn recall_held(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        job: &mut Job,
        held: Vec<(Ino, Slot, Lease)>,
    ) -> Step {
        let (id, count) = (core.parked.number(job), held.len());
        held.into_iter().for_each(|(ino, slot, bits)| self.recall(core, sessions, ino, slot, bits, id));
        Step::Wait(WaitReason::Recall(count))
    }
}

impl Leases {
    /// Leases on what is below, and on the names of the root. `by`: whose; nobody: everybody's.
    fn held_below(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        dir: Ino,
        by: Option<Slot>,
    ) -> Result<Vec<(Ino, Slot, Lease)>, Vec<loligo_types::Need>> {
        let mut due: Vec<(Ino, Slot, Lease)> = Vec::new();
        let places = self.places();
        for (ino, slot, held) in (0..places).filter_map(|place| self.at(place)).collect::<Vec<_>>() {
            let bits = if ino == dir { held & Lease::NAMES } else { held };
            if bits.is_none() || by.is_some_and(|by| by != slot) {
                continue;
            }
            if ino == dir || cluster.is_below(core, ino, dir)? {
                due.push((ino, slot, bits));
            }
        }
        Ok(due)
    }
}

impl Core {
    /// The first of so many numbers that nobody has.
    pub(super) fn next_numbers(&self, inos: u64) -> FsResult<Ino> {
        if inos == 0 || inos > SUBTREE_INOS_MAX {
            return Err(FsError::Invalid);
        }
        let first = self.tree.next_ino();
        if Ino(first.0 + inos).birth_rank() == self.me() { Ok(first) } else { Err(FsError::NoSpace) }
    }
}
