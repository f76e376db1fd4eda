//! Merge of a decoupled subtree's journal into the namespace ("volatile apply", Cudele §6.2, but durable and all at once).
//!
//! The owner's journal comes in parts, each the body of one record. Each part is checked as it comes and written to the rank's own journal,
//! where it has no effect yet. One record then commits all parts. It also holds the final state of inodes that existed before, since those
//! may have been counted meanwhile. From there on the merge is done, whoever dies: memory follows part by part, with other requests between
//! them, and so does replay. No half of it can be seen, since nobody but the owner may look below the root.

use std::collections::BTreeMap;

use loligo_journal::encode_record;
use loligo_namespace::{Found, Tree, is_within_bounds, merged, uncount};
use loligo_types::{Event, FsError, Ino, Inode, Need};

use super::allow;
use super::intake::Intake;
use super::look::Bar;
use super::whole::HaveXattrs;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::{Job, WaitReason};
use crate::step::Step;

/// Most bytes of parts where the driver has not said how long the journal may be.
pub(super) const BYTES_MAX: u64 = 64 << 20;
/// A part more for so many requests that were done since the last go; one in any case.
pub(super) const REQUESTS_PER_PART: usize = 16;
/// Parts behind one that waits for records wait for it so long, milliseconds.
const PART_WAIT_MS: u64 = 10_000;
/// Parts in a go at most.
pub(super) const PARTS_MAX: usize = 4;

/// True if events fit one record of the journal: what decides a merge is one record, and its length is its owner's doing.
pub(super) fn fits_record(events: &[Event]) -> bool {
    let mut body = Vec::new();
    encode_record(&mut body, None, events);
    body.len() <= allow::RECORD_MAX
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
    pub(super) fn may_still_merge(&mut self, core: &mut Core, job: &mut Job, dir: Ino) -> Option<Step> {
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
pub(super) fn finals(tree: &Tree, intake: &Intake, have_xattrs: &HaveXattrs) -> Result<Vec<Event>, Bar> {
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
