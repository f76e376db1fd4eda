//! The document of a decoupled subtree, part of `/api/v1/status`: who has it, and what has come of it. Not what is in it: that its owner
//! alone knows.

use loligo_mds::DecoupledStatus;
use serde::{Deserialize, Serialize};

/// A decoupled subtree.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DecoupledDoc {
    /// Inode number of its root.
    pub dir: u64,
    /// Which decoupling of all times this is; 0: an older server does not say.
    #[serde(default)]
    pub epoch: u64,
    /// A file of this machine that has changes of it, whose program is gone; said by the command that looks for it, not by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_file: Option<String>,
    /// Of the root, if it is known without reading.
    pub path: Option<String>,
    /// The owner's name for itself.
    pub name: String,
    pub uid: u32,
    /// Others may work in it meanwhile (`interfere = "allow"`).
    #[serde(default)]
    pub shared: bool,
    /// Others read the state of the last merge (`interfere = "read"`).
    #[serde(default)]
    pub read: bool,
    /// A session speaks for it.
    pub here: bool,
    /// For how long none has; none: one does.
    pub away_ms: Option<u64>,
    /// It is taken back after so long, if its owner does not come back; none: it is here, or has kept its journal in the store.
    pub taken_back_in_ms: Option<u64>,
    /// Bytes of its owner's journal that are in the store; none: no journal is.
    #[serde(default)]
    pub stored_bytes: Option<u64>,
    /// With a journal in the store: others may merge that after so long, 0: now; none: its owner is here.
    #[serde(default)]
    pub waits_in_ms: Option<u64>,
    /// Inode numbers that it was given, and how many of these are left.
    pub numbers: u64,
    pub numbers_left: u64,
    /// Merges done.
    pub merges: u64,
    /// Of a merge that has come so far and is not decided upon.
    pub parts: u64,
    pub part_bytes: u64,
    /// A merge is decided, and what it says is on its way into memory.
    pub merging: bool,
}

impl DecoupledDoc {
    /// Of the machine's.
    pub fn new(one: &DecoupledStatus) -> DecoupledDoc {
        DecoupledDoc {
            dir: one.dir.0,
            epoch: one.epoch,
            kept_file: None,
            path: one.path.clone(),
            name: one.name.clone(),
            uid: one.uid,
            shared: one.shared,
            read: one.read,
            here: one.away.is_none(),
            away_ms: one.away.map(|away| away.for_ms),
            taken_back_in_ms: one.away.filter(|_| one.stored.is_none()).map(|away| away.left_ms),
            stored_bytes: one.stored,
            waits_in_ms: one.away.filter(|_| one.stored.is_some()).map(|away| away.left_ms),
            numbers: one.granted,
            numbers_left: one.left,
            merges: one.merges,
            parts: one.parts as u64,
            part_bytes: one.part_bytes,
            merging: one.merging,
        }
    }
}
