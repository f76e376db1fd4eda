//! Bytes of the requests that wait, of each session and of all: a client may have thousands of them wait for another one that does not
//! obey, each with data. Refusals for it are decided in `admit.rs`; requests that do not wait are not counted.

use std::collections::BTreeMap;

use loligo_types::limits;

use crate::job::Job;
use crate::session::Slot;

/// Of each request, beside what it says: its place among those that wait, and the request itself.
const EACH: u64 = 512;

/// Most bytes of the names of a walk that is under way.
const WALK: u64 = (limits::WALK_MAX * limits::NAME_MAX) as u64;

/// Bytes of requests that wait.
#[derive(Default)]
pub(crate) struct Weights {
    all: u64,
    of: BTreeMap<Slot, u64>,
}

impl Weights {
    /// A request waits.
    pub(crate) fn add(&mut self, job: &Job) {
        let bytes = weight(job);
        self.all += bytes;
        *self.of.entry(job.slot).or_default() += bytes;
    }

    /// It waits no more.
    pub(crate) fn take(&mut self, job: &Job) {
        let bytes = weight(job);
        self.all -= bytes;
        if let Some(own) = self.of.get_mut(&job.slot) {
            *own -= bytes;
            if *own == 0 {
                self.of.remove(&job.slot);
            }
        }
    }

    /// True if a session may have more requests wait, if all may take so much: while it has less than is free. So one has half at
    /// most, and many leave some to others.
    pub(crate) fn may_have_more(&self, slot: Slot, most: u64) -> bool {
        self.of.get(&slot).is_none_or(|own| *own < most.saturating_sub(self.all))
    }
}

/// Bytes of a request; names and numbers are in [`EACH`]. They do not change while it waits.
fn weight(job: &Job) -> u64 {
    let groups = job.cred.groups.len() * size_of::<u32>();
    let walk = if job.walk.is_some() { WALK } else { 0 };
    EACH + walk + (groups + job.op.said()) as u64
}
