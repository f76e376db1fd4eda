//! Leases that are welcome with an answer. Those that go with it are decided when it leaves, so that a recall always comes after
//! (`stages/answer.rs`).

use loligo_namespace::Tree;
use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Lease, NamesLease};

use crate::cluster::principal;
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
        let props = job.op.props();
        if job.want.has(Lease::ATTR) {
            asks.entries = props.lists_attrs;
            asks.list[0] = asks_attr(tree, job, props.attr_lease, result);
        }
        if job.want.has(Lease::NAMES) {
            asks.list[1] = asks_names(tree, job, props.names_lease, result);
        }
        asks
    }
}

fn asks_attr(tree: &Tree, job: &Job, of_subject: bool, result: &FsResult<Answer>) -> Option<Ask> {
    let ask = |ino, change| Some(Ask { ino, bits: Lease::ATTR, change });
    match result {
        Ok(Answer::Entry(attr) | Answer::Opened { attr, .. }) => ask(attr.ino, attr.change),
        Ok(_) | Err(FsError::NoData) if of_subject => {
            let ino = principal(&job.op)?;
            ask(ino, tree.inode(ino)?.change)
        }
        _ => None,
    }
}

fn asks_names(tree: &Tree, job: &Job, names: NamesLease, result: &FsResult<Answer>) -> Option<Ask> {
    let [first, second] = job.op.subjects();
    let dir = match (names, result) {
        (NamesLease::First | NamesLease::FirstLooked, Ok(_)) | (NamesLease::FirstLooked, Err(FsError::NotFound)) => {
            first.ino()?
        }
        // The new name may be another rank's to lend.
        (NamesLease::Second, Ok(_)) => {
            let (dir, name) = second.name()?;
            tree.own_until(dir, tree.hash(name))?;
            dir
        }
        (NamesLease::Nothing, _) | (_, Err(_)) => return None,
    };
    // `NotFound` may also mean that the directory itself is gone.
    let inode = tree.inode(dir).filter(|inode| inode.kind == Kind::Dir)?;
    Some(Ask { ino: dir, bits: Lease::NAMES, change: inode.change })
}
