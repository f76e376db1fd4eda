//! Leases that are welcome with an answer. Those that go with it are decided when it leaves, so that a recall always comes after
//! (`stages/answer.rs`).

use loligo_namespace::Tree;
use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Lease, Op};

use crate::job::Job;

/// A lease that would be welcome: bits on an inode, and the inode's change counter when the answer was made.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) ino: Ino,
    pub(crate) bits: Lease,
    pub(crate) change: u64,
}

/// The leases that would be welcome with an answer.
#[derive(Default)]
pub(crate) struct Asks {
    pub(crate) list: [Option<Ask>; 2],
    /// ATTR on each entry of a readdir answer.
    pub(crate) entries: bool,
}

impl Asks {
    /// Leases that an operation may bring, as far as the client wants them.
    pub(crate) fn of(tree: &Tree, job: &Job, result: &FsResult<Answer>) -> Asks {
        let mut asks = Asks::default();
        if job.want.is_none() {
            return asks;
        }
        if job.want.has(Lease::ATTR) {
            asks.entries = matches!(job.op, Op::Readdir { plus: true, .. });
            asks.list[0] = asks_attr(tree, job, result);
        }
        if job.want.has(Lease::NAMES) {
            asks.list[1] = asks_names(tree, job, result);
        }
        asks
    }
}

fn asks_attr(tree: &Tree, job: &Job, result: &FsResult<Answer>) -> Option<Ask> {
    let ask = |ino, change| Some(Ask { ino, bits: Lease::ATTR, change });
    match (&job.op, result) {
        (_, Ok(Answer::Entry(attr) | Answer::Opened { attr, .. })) => ask(attr.ino, attr.change),
        (Op::GetXattr { ino, .. }, Ok(_) | Err(FsError::NoData))
        | (Op::ListXattr { ino } | Op::Readlink { ino } | Op::Access { ino, .. }, Ok(_)) => {
            ask(*ino, tree.inode(*ino)?.change)
        }
        _ => None,
    }
}

fn asks_names(tree: &Tree, job: &Job, result: &FsResult<Answer>) -> Option<Ask> {
    let dir = match (&job.op, result) {
        (Op::Lookup { dir, .. }, Ok(_) | Err(FsError::NotFound)) => dir,
        (
            Op::Create { dir, .. }
            | Op::Mknod { dir, .. }
            | Op::Mkdir { dir, .. }
            | Op::Symlink { dir, .. }
            | Op::Link { dir, .. }
            | Op::Unlink { dir, .. }
            | Op::Rmdir { dir, .. }
            | Op::Readdir { dir, .. },
            Ok(_),
        ) => dir,
        // What caches above the client know of the old name becomes true of the new one, which may be another rank's to lend.
        (Op::Rename { new_dir, new_name, .. }, Ok(_)) => {
            tree.own_until(*new_dir, tree.hash(new_name))?;
            new_dir
        }
        _ => return None,
    };
    // `NotFound` may also mean that the directory itself is gone.
    let inode = tree.inode(*dir).filter(|inode| inode.kind == Kind::Dir)?;
    Some(Ask { ino: *dir, bits: Lease::NAMES, change: inode.change })
}
