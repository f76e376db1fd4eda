//! Bytes of the requests that wait, of each session and of all: a client may have thousands of them wait for another one that does not
//! obey, each with data. Refusals for it are decided in `admit.rs`; requests that do not wait are not counted.

use std::collections::BTreeMap;

use loligo_types::{Control, Op, SubtreeOp, limits};

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

/// Bytes of a request. They do not change while it waits.
fn weight(job: &Job) -> u64 {
    let groups = job.cred.groups.len() * size_of::<u32>();
    let walk = if job.walk.is_some() { WALK } else { 0 };
    EACH + walk + (groups + said(&job.op)) as u64
}

/// Bytes that an operation says in fields of any length; names and numbers are in [`EACH`].
fn said(op: &Op) -> usize {
    match op {
        Op::Via { names, what, .. } => said(what) + names.iter().map(|name| name.as_bytes().len()).sum::<usize>(),
        Op::Symlink { target, .. } => target.len(),
        Op::SetXattr { name, value, .. } => name.len() + value.len(),
        Op::GetXattr { name, .. } | Op::RemoveXattr { name, .. } => name.len(),
        Op::WriteInline { data, .. } => data.len(),
        Op::SetData { patches: Some(patches), .. } => patches.len() + size_of_val(patches.places()),
        Op::Control(Control::Close { handles, .. }) => handles.len() * size_of::<u64>(),
        Op::Control(Control::Subtree { what, .. }) => match &**what {
            SubtreeOp::Part { body, .. } => body.len(),
            SubtreeOp::Fetch { needs, .. } => size_of_val(&needs[..]),
            SubtreeOp::Data { inos, .. } | SubtreeOp::Overwrite { inos, .. } | SubtreeOp::HoldOpen { inos, .. } => {
                size_of_val(&inos[..])
            }
            _ => 0,
        },
        _ => 0,
    }
}
