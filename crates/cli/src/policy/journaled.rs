//! Journal mode of a policy: its name, and what a crash leaves of files with it, as text and as JSON. Not here: what a mode does (crates
//! `client` and `mds`), and the mode of a server without policies.

use loligo_subtree_policy::SubtreePolicy;
use loligo_types::{JournalMode, Journaling};
use serde_json::{Value, json};

use crate::output::human_bytes;

/// The promise of every mode.
const LEAST: &str =
    "synced writes are there; unsynced ones are there or not, block by block, and the end of a file may be zeros";

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

/// Consistency of files after a crash of the server. The policy alone does not decide: a server may take no data into its journal, and with several
/// ranks a file may be at another one than the directory with the policy. So promises beyond [`LEAST`] name their condition.
pub fn crash(policy: &SubtreePolicy) -> String {
    let mode = policy.journaling().map(|journaling| journaling.mode);
    let more = match mode {
        None if policy.is_relaxed() => return LEAST.into(),
        None => "A synced write up to journal_data is there entirely or not at all, with the default journal_mode",
        Some(JournalMode::Selective) => "A synced write up to the threshold is there entirely or not at all",
        Some(JournalMode::Wasteless | JournalMode::Data) => {
            "Of a file of one writer, each piece up to journal_data that its mount has brought to the server is there entirely or not at all, the first ones in order"
        }
        Some(JournalMode::Ordered) => "A size never covers bytes that were not written",
        Some(JournalMode::Writeback) => return LEAST.into(),
    };
    let needs = match mode {
        Some(JournalMode::Ordered) => "if the file is at the rank of the directory with the policy",
        _ => {
            "if the server takes data into its journal (journal_data above 0, no Ceph pool) and the file is at the rank of the directory with the policy"
        }
    };
    format!("{LEAST}. {more}, {needs}")
}

/// Both for programs.
pub fn as_json(policy: &SubtreePolicy) -> Value {
    json!({
        "mode": policy.journaling().map(|journaling| journaling.mode.name()),
        "threshold": policy.journal_threshold(),
        "crash": crash(policy),
    })
}
