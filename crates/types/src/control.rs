//! Control requests: of what a client can ask of a metadata server those that are no operations of the tree. They are about handles, file
//! locks, the session, what is durable, and decoupled subtrees. The operations are in `op`.

use std::sync::Arc;

use crate::op::{Again, Props, Subject, kinds};
use crate::{FileLock, Hit, Ino, LockOwner, SubtreeOp};

/// The control requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// Ends handles. `Done`. Unknown handles are ignored, so that a repeat is harmless. If some have moved to another rank that one is to
    /// be asked, and this one again if they were several. `lost`: the client lost them with a session, and does not know what became of data
    /// that it was writing through them.
    Close { handles: Vec<u64>, lost: bool },
    /// Takes or changes a lock; `wait`: the answer comes when it was got. `Done`.
    SetLock { ino: Ino, handle: u64, lock: FileLock, wait: bool },
    /// Gives a range back. `Done`.
    Unlock { ino: Ino, handle: u64, lock: FileLock },
    /// The first lock that conflicts. `Lock`.
    GetLock { ino: Ino, handle: u64, lock: FileLock },
    /// Gives up waiting for a lock; the waiting request is answered `Interrupted`. `Done`.
    CancelLock { ino: Ino, owner: LockOwner },
    /// Waits until everything this session changed before is durable, data of all files included that was answered as
    /// written. `Done`. (Answers to changes of metadata already are, under the default policy.)
    Sync,
    /// Waits until every change that this rank has answered or shown so far is durable; file data is not looked at. `Done`. Needed only where a
    /// policy lets answers come before that ([`crate::msg::Volatile`]).
    Persist,
    /// Gives the session inode numbers of the rank's range, in a row, which its requests may name for what they make (see
    /// [`crate::msg::Request::ino`]). `Inos`. They are its own until it ends. `Invalid` for none or more than
    /// [`crate::limits::INO_GRANT_MAX`], `Quota` if it would have more than those without using them.
    GrantInos { count: u32 },
    /// The client is going to read and write file data in the store by itself, and this is what the store knows it by: whoever ends the
    /// session shuts that out first. `Done` when that is durable. `NotSupported` where clients cannot.
    DataAddress { address: Arc<[u8]> },
    /// About a directory that is, or is to be, decoupled, and all below it: see [`SubtreeOp`]. `Subtree`, or `Done`.
    Subtree { dir: Ino, what: Box<SubtreeOp> },
}

impl Control {
    /// Subject of the request, which tells the rank that has authority over it.
    #[inline]
    pub fn subject(&self) -> Subject<'static> {
        match self {
            Control::SetLock { ino, .. }
            | Control::Unlock { ino, .. }
            | Control::GetLock { ino, .. }
            | Control::CancelLock { ino, .. }
            | Control::Subtree { dir: ino, .. } => Subject::Inode(*ino),
            Control::Close { .. }
            | Control::Sync
            | Control::Persist
            | Control::GrantInos { .. }
            | Control::DataAddress { .. } => Subject::Nothing,
        }
    }

    /// Properties of the request: its row of the table.
    #[inline(always)]
    pub fn props(&self) -> Props {
        match self {
            Control::SetLock { handle, lock, .. } => Props {
                // A lock that keeps others from writing would keep out everybody but the owner.
                only_reads: !lock.exclusive,
                handle: Some(*handle),
                rests_on_handle: true,
                may_lag: true,
                hit: Some(Hit::Ird),
                busy_is_own: true,
                ..Props::NONE
            },
            Control::Unlock { handle, .. } => {
                Props { only_reads: true, handle: Some(*handle), may_lag: true, hit: Some(Hit::Ird), ..Props::NONE }
            }
            Control::GetLock { handle, .. } => Props {
                only_reads: true,
                handle: Some(*handle),
                may_lag: true,
                hit: Some(Hit::Ird),
                again: Again::Repeat,
                ..Props::NONE
            },
            Control::CancelLock { .. } => Props { only_reads: true, may_lag: true, ..Props::NONE },
            Control::Close { .. } | Control::Sync | Control::Persist => Props { again: Again::Repeat, ..Props::NONE },
            Control::GrantInos { .. } => Props { changes: true, needs_write: true, ..Props::NONE },
            Control::DataAddress { .. } => Props { changes: true, ..Props::NONE },
            // A merge changes files that others may have open.
            Control::Subtree { .. } => {
                Props { changes: true, needs_write: true, data: true, busy_is_own: true, ..Props::NONE }
            }
        }
    }

    /// Bytes that the request says in fields of any length.
    pub fn said(&self) -> usize {
        match self {
            Control::Close { handles, .. } => size_of_val(&handles[..]),
            Control::Subtree { what, .. } => what.said(),
            Control::SetLock { .. }
            | Control::Unlock { .. }
            | Control::GetLock { .. }
            | Control::CancelLock { .. }
            | Control::Sync
            | Control::Persist
            | Control::GrantInos { .. }
            | Control::DataAddress { .. } => 0,
        }
    }
}

kinds!(Control {
    Close: "close",
    SetLock: "setlock",
    Unlock: "unlock",
    GetLock: "getlock",
    CancelLock: "cancel_lock",
    Sync: "sync",
    Persist: "persist",
    GrantInos: "grant_inos",
    DataAddress: "data_address",
    Subtree: "subtree",
} else {});
