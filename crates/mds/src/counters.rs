//! Counters of a rank, as its status shows them. They only grow.

use std::collections::BTreeMap;

use loligo_namespace::Tree;
use loligo_types::{About, Answer, Control, FsResult, Ino, Kind, Op};

use crate::job::Job;
use crate::tally::{OPS, Tally, bucket, row};

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
        Op::Control(Control::Close { .. }) => 7,
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
        Op::Control(Control::SetLock { .. }) => 27,
        Op::Control(Control::Unlock { .. }) => 28,
        Op::Control(Control::GetLock { .. }) => 29,
        Op::Control(Control::CancelLock { .. }) => 30,
        Op::Control(Control::Sync) => 31,
        Op::Control(Control::GrantInos { .. }) => 32,
        Op::Control(Control::DataAddress { .. }) => 33,
        Op::Control(Control::Subtree { .. }) => 34,
        Op::Walk { .. } => 35,
        Op::Control(Control::Persist) => 36,
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

    /// A request is answered; `op` is the place of its operation. A path is in the directory to which its names have led.
    #[inline]
    pub(crate) fn tally_answer(&mut self, tree: &Tree, job: &Job, op: usize, result: &FsResult<Answer>) {
        if let Some(dir) = dir_of(tree, &job.op) {
            self.tally.placed[row(dir)][op] += 1;
        }
        if let Some(walk) = &job.walk {
            let walks = &mut self.tally.walks[bucket(walk.names())];
            walks.all += 1;
            let parted = |done: u32, last: &Answer| {
                matches!(last, Answer::Remote { .. }) && (walk.acts_at_end() || (done as usize) < walk.names())
            };
            walks.parted += u64::from(matches!(result, Ok(Answer::Walked { done, last, .. }) if parted(*done, last)));
        }
    }

    /// A request is sent on to another rank.
    pub(crate) fn tally_redirect(&mut self, tree: &Tree, job: &Job) {
        self.redirects += 1;
        if let Some(dir) = dir_of(tree, &job.op) {
            self.tally.redirected[row(dir)] += 1;
        }
    }

    /// A request goes on, or is answered.
    #[inline]
    pub(crate) fn tally_waited(&mut self, job: &mut Job, now_ms: u64) {
        let Some((why, since_ms)) = job.waits.take() else { return };
        let waited = &mut self.tally.waits[usize::from(why)];
        waited.count += 1;
        waited.ms += now_ms.saturating_sub(since_ms);
    }
}

/// The directory that an operation is in: that of the names it is about; of an inode the one that it lives with, a directory itself.
#[inline]
fn dir_of(tree: &Tree, op: &Op) -> Option<Ino> {
    match op.about() {
        About::Names(dir) => Some(dir),
        About::Inode(ino) => Some(match tree.peek(ino) {
            Some(inode) if inode.kind != Kind::Dir && inode.parent.0 != 0 => inode.parent,
            _ => ino,
        }),
        About::Nothing => None,
    }
}
