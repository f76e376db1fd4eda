//! Changes of decoupled subtrees that were not merged, as the driver asks for them when the client has stopped: only this client and what it has kept
//! know them. Not here: the merge (`own/task.rs`), and the status that programs read while the client runs (`own/command.rs`).

use loligo_types::{FsError, Ino};

use crate::own::Own;

/// Changes of a subtree that is decoupled for this client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unmerged {
    /// The root.
    pub dir: Ino,
    /// Which decoupling of all times it is.
    pub epoch: u64,
    /// Number of changes that were not merged.
    pub changes: u64,
    /// The journal on this machine's disk, and the number of changes in it.
    pub kept: Option<(Box<str>, u64)>,
    /// Number of changes in the journal in the store.
    pub stored: u64,
    /// Longest silence of the owner before the subtree is taken from it, milliseconds.
    pub lease_ms: u32,
    /// The stage of its pipeline that failed last and has not succeeded since, and why.
    pub failed: Option<(&'static str, FsError)>,
}

impl Own {
    /// The subtrees with changes that were not merged.
    pub fn unmerged(&self) -> Vec<Unmerged> {
        let with_changes = self.trees.values().filter(|owned| owned.machine.outstanding().changes > 0);
        let of = with_changes.map(|owned| {
            let (record, changes) = (owned.machine.record(), owned.machine.outstanding().changes);
            let persisted = owned.persisted.min(changes);
            Unmerged {
                dir: record.dir,
                epoch: record.epoch,
                changes,
                kept: owned.kept.clone().filter(|_| persisted > 0).map(|file| (file, persisted)),
                stored: owned.stored_changes.min(changes),
                lease_ms: record.lease_ms,
                failed: owned.failed.map(|(stage, error)| (stage.name(), error)),
            }
        });
        of.collect()
    }
}
