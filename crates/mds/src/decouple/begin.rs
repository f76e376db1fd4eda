//! Life of a decoupled subtree: its begin, its renewal and its end. Here is what parts do for it; the order is `stages/ends.rs`.
//!
//! Decoupling is recorded first, so that from then on nobody gets anything of the subtree. Then all that others hold on it is asked back.
//! Only then its owner is answered. Where others may work meanwhile nothing is asked back (`allow.rs`).
//!
//! An owner who is not heard for as long as its lease says loses the subtree: the rank takes it back, and changes that were not merged are
//! known to nobody but the owner. A subtree with a journal in the store waits instead for somebody who merges that (`away.rs`).

use loligo_types::limits::SUBTREE_INOS_MAX;
use loligo_types::{DecoupledRecord, FsError, FsResult, Ino, Lease};

use super::Owned;
use super::state::DataRights;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::Output;
use crate::job::{Job, WaitReason};
use crate::lease::Leases;
use crate::open::Opens;
use crate::recall::Recalls;
use crate::session::{Sessions, Slot};
use crate::step::Step;

/// Time for clients to close files that they do not use: longer than they keep them open, milliseconds.
const CLOSE_MS: u64 = 1500;

/// Time without replicas after they were asked back, milliseconds: longer than until the next look whether they came back.
pub(super) const ASKS_MS: u64 = 500;

impl Leases {
    /// Leases on what is below, and on the names of the root. `by`: whose; nobody: everybody's.
    pub(super) fn held_below(
        &self,
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
    pub(crate) fn lose_decoupled(&mut self, core: &mut Core, sessions: &Sessions, opens: &mut Opens, slot: Slot) {
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
        if !lost.is_empty() {
            core.out.push_back(Output::OwnerLost);
        }
        lost.into_iter().for_each(|dir| self.end_still(core, sessions, opens, dir));
    }

    /// After a restart those whose sessions are still there speak for them.
    pub(crate) fn recover_decoupled(&mut self, core: &mut Core, sessions: &Sessions) {
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
    pub(super) fn owner_name(&mut self, job: &Job) -> Box<[u8]> {
        self.same(job.slot, job.session).map(|session| session.name.clone()).unwrap_or_default()
    }
}

impl Recalls {
    /// Waits until these files are closed by all.
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
    pub(super) fn wait_for_closes_by(
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

    pub(super) fn recall_held(
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
