//! Context and result of a decision: the server's statements about the caller, and the change. No decisions here.

use loligo_types::{Answer, Cred, Event, Ino, Stamp};

/// Context of a decision beside the tree and the operation.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    /// The caller's credentials.
    pub cred: &'a Cred,
    /// The caller's client may write data of what it opens and never say so: then setuid, setgid and capabilities end when a file is opened for writing.
    pub distrusted: bool,
    /// The time, and the number for a new inode.
    pub stamp: Stamp,
    /// The handle in the operation is one of the caller's on this inode, open for reading.
    pub handle_read: bool,
    /// The handle in the operation is one of the caller's on this inode, open for writing.
    pub handle_write: bool,
    /// Number of opens of an inode anywhere: decides whether the loss of its last name makes it an orphan.
    pub open_count: &'a dyn Fn(Ino) -> u32,
    /// The version of the route of a whole directory, if there ever was one.
    pub route_version: &'a dyn Fn(Ino) -> Option<u64>,
}

/// A decision: what to apply and journal as one record, and what to answer then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// In order; empty if nothing changes.
    pub events: Vec<Event>,
    /// The answer. Leases and rights in it are none; the server adds them.
    pub answer: Answer,
    /// For [`loligo_types::Origin::ino`]: the inode that the answer speaks of, or 0.
    pub origin_ino: Ino,
    /// For [`loligo_types::Origin::value`]: 1 if `Opened` made the file; the offset for `Extend`; else 0.
    pub origin_value: u64,
}

impl Change {
    /// An answer that changes nothing.
    pub fn only(answer: Answer) -> Change {
        let origin_ino = answer.attr().map_or(Ino(0), |attr| attr.ino);
        Change { events: Vec::new(), answer, origin_ino, origin_value: 0 }
    }
}
