//! Counters of a rank, as its status shows them. They only grow.

use std::collections::BTreeMap;

use loligo_namespace::Tree;
use loligo_types::{About, Answer, FsResult, Ino, Kind, Op, OpKind};

use crate::job::Job;
use crate::tally::{Tally, bucket, row};

/// Counters of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpCount {
    /// Executed, well or not.
    pub count: u64,
    /// Of those, answered with an error.
    pub errors: u64,
}

/// Of each kind of operation; an array of its own, because the standard library has no default for one so long.
struct OpCounts([OpCount; OpKind::COUNT]);

impl Default for OpCounts {
    fn default() -> OpCounts {
        OpCounts([OpCount { count: 0, errors: 0 }; OpKind::COUNT])
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
    /// Number of requests of each operation that was asked for.
    pub(crate) fn all_ops(&self) -> BTreeMap<&'static str, OpCount> {
        let counts = OpKind::all().zip(self.ops.0).filter(|(_, count)| count.count > 0);
        counts.map(|(kind, count)| (kind.name(), count)).collect()
    }

    /// Requests answered or redirected so far.
    pub(crate) fn requests(&self) -> u64 {
        self.redirects + self.ops.0.iter().map(|count| count.count).sum::<u64>()
    }

    /// One operation more.
    #[inline]
    pub(crate) fn count(&mut self, kind: OpKind, ok: bool) {
        let count = &mut self.ops.0[kind.number()];
        count.count += 1;
        count.errors += u64::from(!ok);
    }

    /// A request is answered. A path is in the directory to which its names have led.
    #[inline]
    pub(crate) fn tally_answer(&mut self, tree: &Tree, job: &Job, kind: OpKind, result: &FsResult<Answer>) {
        if let Some(dir) = dir_of(tree, &job.op) {
            self.tally.placed[row(dir)][kind.number()] += 1;
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
