//! Counters of a rank, as its status shows them. They only grow.

use std::collections::BTreeMap;

use loligo_types::Op;

use crate::tally::{OPS, Tally};

/// Counters of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpCount {
    /// Executed, well or not.
    pub count: u64,
    /// Of those, answered with an error.
    pub errors: u64,
}

/// The place of an operation among the counters.
fn place(op: &Op) -> usize {
    match op {
        Op::Lookup { .. } => 0,
        Op::LookupParent { .. } => 1,
        Op::GetAttr { .. } => 2,
        Op::SetAttr { .. } => 3,
        Op::Open { .. } => 4,
        Op::Create { .. } => 5,
        Op::Tmpfile { .. } => 6,
        Op::Close { .. } => 7,
        Op::Mknod { .. } => 8,
        Op::Mkdir { .. } => 9,
        Op::Symlink { .. } => 10,
        Op::Link { .. } => 11,
        Op::Unlink { .. } => 12,
        Op::Rmdir { .. } => 13,
        Op::Rename { .. } => 14,
        Op::Readlink { .. } => 15,
        Op::Readdir { .. } => 16,
        Op::GetXattr { .. } => 17,
        Op::ListXattr { .. } => 18,
        Op::SetXattr { .. } => 19,
        Op::RemoveXattr { .. } => 20,
        Op::Access { .. } => 21,
        Op::StatFs => 22,
        Op::ReadInline { .. } => 23,
        Op::WriteInline { .. } => 24,
        Op::SetData { .. } => 25,
        Op::Extend { .. } => 26,
        Op::SetLock { .. } => 27,
        Op::Unlock { .. } => 28,
        Op::GetLock { .. } => 29,
        Op::CancelLock { .. } => 30,
        Op::Sync => 31,
        Op::GrantInos { .. } => 32,
        Op::DataAddress { .. } => 33,
        Op::Subtree { .. } => 34,
        Op::Walk { .. } => 35,
        Op::Persist => 36,
        Op::Via { what, .. } => place(what),
    }
}

/// Of each operation; an array of its own, because the standard library has no default for one so long.
struct OpCounts([(&'static str, OpCount); OPS]);

impl Default for OpCounts {
    fn default() -> OpCounts {
        OpCounts([("", OpCount { count: 0, errors: 0 }); OPS])
    }
}

/// Counters.
#[derive(Default)]
pub(crate) struct Counters {
    ops: OpCounts,
    pub(crate) recalls: u64,
    pub(crate) evicted: u64,
    pub(crate) checkpoints_failed: u64,
    pub(crate) subtree_merges: u64,
    pub(crate) subtree_conflicts: u64,
    pub(crate) decouplings_lost: u64,
    pub(crate) redirects: u64,
    pub(crate) splits: u64,
    pub(crate) merges: u64,
    pub(crate) scattered: u64,
    pub(crate) spreads: u64,
    pub(crate) tally: Tally,
}

impl Counters {
    /// The name of an operation that was asked for, by its number.
    pub(crate) fn op_name(&self, op: usize) -> &'static str {
        self.ops.0[op].0
    }

    /// Number of requests of each operation that was asked for.
    pub(crate) fn all_ops(&self) -> BTreeMap<&'static str, OpCount> {
        self.ops.0.iter().filter(|(_, count)| count.count > 0).copied().collect()
    }

    /// Requests answered or redirected so far.
    pub(crate) fn requests(&self) -> u64 {
        self.redirects + self.ops.0.iter().map(|(_, count)| count.count).sum::<u64>()
    }

    /// One operation more; its place.
    #[inline]
    pub(crate) fn count(&mut self, op: &Op, ok: bool) -> usize {
        let at = place(op);
        let (name, count) = &mut self.ops.0[at];
        *name = op.name();
        count.count += 1;
        count.errors += u64::from(!ok);
        at
    }
}
