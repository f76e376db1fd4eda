//! A request on its way through the machine, and the reasons for which it waits. Plain data: who waits where is not here (`park.rs`).

use std::sync::Arc;

use loligo_types::{Cred, Ino, Lease, Op, Seq, SessionId};

use crate::io::Identity;
use crate::peer::TxId;
use crate::session::Slot;
use crate::walk::Walk;

/// A request on its way.
pub(crate) struct Job {
    /// Number among those that waited; 0: it never did. Orders them by the time of their first wait.
    pub(crate) id: u64,
    pub(crate) slot: Slot,
    pub(crate) session: SessionId,
    pub(crate) seq: Seq,
    pub(crate) want: Lease,
    pub(crate) cred: Cred,
    /// The peer may not act as root, and so is not believed what it says, or leaves out, of privileges.
    pub(crate) distrusted: bool,
    pub(crate) op: Op,
    /// The walk of which the operation is one lookup.
    pub(crate) walk: Option<Box<Walk>>,
    /// The number, of those granted to the session, for the inode that it makes.
    pub(crate) ino: Option<Ino>,
    /// The number that this rank has chosen for the directory that it makes, because it names the rank where that is to live.
    pub(crate) scattered: Option<Ino>,
    /// It was executed before: the answer is to be made again. If it asks for attributes now, those are the answer.
    pub(crate) again: Option<(Ino, u64)>,
    /// Inodes whose holder has written back since the request came.
    pub(crate) flushed: Vec<Ino>,
    /// Inodes it has marked.
    pub(crate) marks: Vec<Ino>,
    /// The transaction over ranks that it has become.
    pub(crate) tx: Option<TxId>,
    /// When it came.
    pub(crate) since_ms: u64,
    /// The reason for which it waits, as its place among [`WaitReason::NAMES`], and since when.
    pub(crate) waits: Option<(u8, u64)>,
    /// Since when all that it waits for is that others close what they have open.
    pub(crate) closing_ms: Option<u64>,
    /// Reads of the table that it has waited for.
    pub(crate) reads: usize,
    /// The decoupled subtree below whose root it is, if others may work there.
    pub(crate) within: Option<Ino>,
    /// The identity that asks, if it is to be found out yet whether it may do it there; and the last question to another rank before
    /// it came.
    pub(crate) limited: Option<(Arc<Identity>, u64)>,
    /// Its client may do things below paths only.
    pub(crate) path_bound: bool,
    /// Of a directory above those paths it is to be told only what the way there needs.
    pub(crate) way_only: bool,
    /// Depth below the root at which its walk begins, if lookup leases of the way would be welcome.
    pub(crate) lease_depth: Option<u16>,
    /// The lag of its change, if that is relaxed.
    pub(crate) lag: Option<Lag>,
    /// Set when its change is not relaxed.
    pub(crate) is_strict: bool,
}

impl Job {
    /// The inode and value from the first execution of a request of which only the answer is to be made again.
    pub(crate) fn repeats(&self) -> Option<(Ino, u64)> {
        self.again.filter(|_| !matches!(self.op, Op::GetAttr { .. }))
    }

    /// The request begins to wait.
    pub(crate) fn begins_to_wait(&mut self, why: &WaitReason, now_ms: u64) {
        self.waits = Some((why.place() as u8, now_ms));
    }
}

/// Reason for which a request waits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum WaitReason {
    /// The end of the grace time.
    Grace,
    /// Checkpoints, to make room in the journal and in memory.
    Space,
    /// So many loads.
    Load(usize),
    /// So many recalls.
    Recall(usize),
    /// Objects of the inode to be dropped, or its inline data to be moved to an object.
    Data(Ino),
    /// A file lock.
    Lock,
    /// This sync of all file data.
    Sync(u64),
    /// The next life of the server, to which the client sends it again.
    Stop,
    /// A connection to another rank.
    Peers,
    /// Records that other ranks lend.
    Borrow,
    /// The end of a transaction over ranks that has something locked.
    Locked,
    /// The end of a migration.
    Moving,
    /// Answers of other ranks about the directories above.
    Above,
    /// A merge into this directory to be in memory.
    Merge(Ino),
    /// An earlier part of what is to be merged into this directory.
    Part(Ino),
    /// Replicas from other ranks, or their answers, of directories that paths lead through.
    Replicas,
    /// The end of what clients were promised of a directory.
    LookupLeases,
    /// Files to be closed.
    Close,
    /// Parts of the subtree below a directory that other ranks have.
    Gather,
}

impl WaitReason {
    /// Their names, for `loligo status` and the metrics.
    pub(crate) const NAMES: [&'static str; 19] = [
        "grace",
        "checkpoint",
        "load",
        "recall",
        "data",
        "lock",
        "sync",
        "stop",
        "peers",
        "borrow",
        "locked",
        "moving",
        "above",
        "merge",
        "part",
        "replicas",
        "promises",
        "close",
        "gather",
    ];

    /// Its place among them.
    pub(crate) fn place(&self) -> usize {
        match self {
            WaitReason::Grace => 0,
            WaitReason::Space => 1,
            WaitReason::Load(_) => 2,
            WaitReason::Recall(_) => 3,
            WaitReason::Data(_) => 4,
            WaitReason::Lock => 5,
            WaitReason::Sync(_) => 6,
            WaitReason::Stop => 7,
            WaitReason::Peers => 8,
            WaitReason::Borrow => 9,
            WaitReason::Locked => 10,
            WaitReason::Moving => 11,
            WaitReason::Above => 12,
            WaitReason::Merge(_) => 13,
            WaitReason::Part(_) => 14,
            WaitReason::Replicas => 15,
            WaitReason::LookupLeases => 16,
            WaitReason::Close => 17,
            WaitReason::Gather => 18,
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        WaitReason::NAMES[self.place()]
    }
}

/// The policy that counts in a directory, if it is relaxed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lag {
    /// The directory whose policy it is.
    pub(crate) root: Ino,
    /// Longest time for which a change may be not durable, milliseconds.
    pub(crate) ms: u64,
}
