//! Journal mode of a policy: its name, and what a crash leaves of files with it, as text and as JSON. Not here: what a mode does (crates
//! `client` and `mds`), and the mode of a server without policies.

use loligo_subtree_policy::SubtreePolicy;
use loligo_types::{JournalMode, Journaling};
use serde_json::{Value, json};

use crate::output::human_bytes;

/// The mode and its threshold.
pub fn mode(policy: &SubtreePolicy) -> String {
    let Some(Journaling { mode, .. }) = policy.journaling() else {
        return "-".to_string();
    };
    match policy.journal_threshold() {
        Some(threshold) => format!("{} up to {}", mode.name(), human_bytes(u64::from(threshold))),
        None => mode.name().to_string(),
    }
}

/// Consistency of files after a crash of the server.
pub fn crash(policy: &SubtreePolicy) -> &'static str {
    match policy.journaling().map(|journaling| journaling.mode) {
        None if policy.is_relaxed() => {
            "synced writes are there; unsynced ones are there or not, block by block, and the end of a file may be zeros"
        }
        None => {
            "synced writes are there, and each up to `journal_data` (64 KiB; 0 on a Ceph pool) entirely or not at all before it is answered; unsynced ones are \
             there or not, block by block, and the end of a file may be zeros"
        }
        Some(JournalMode::Selective) => {
            "synced writes are there, and each up to the threshold entirely or not at all before it is answered; unsynced ones are there or not, block by block, \
             and the end of a file may be zeros"
        }
        Some(JournalMode::Wasteless | JournalMode::Data) => {
            "synced writes are there; of what a mount has brought to the server each piece up to `journal_data` is there entirely or not at all, and the pieces of a \
             file that are there are the first ones; bytes that a mount has not brought are not there. A file that several mounts write at a time is as with mode `ordered`"
        }
        Some(JournalMode::Ordered) => {
            "synced writes are there; unsynced ones are there or not, block by block, and a size never covers bytes that were not written"
        }
        Some(JournalMode::Writeback) => {
            "synced writes are there; unsynced ones are there or not, block by block, and the end of a file may be zeros"
        }
    }
}

/// Both for programs.
pub fn as_json(policy: &SubtreePolicy) -> Value {
    json!({
        "mode": policy.journaling().map(|journaling| journaling.mode.name()),
        "threshold": policy.journal_threshold(),
        "crash": crash(policy),
    })
}
