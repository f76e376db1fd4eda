//! Promises of a policy, and those of them that hold now. Not here: the words for each level (crate `semantics`).

use loligo_subtree_policy::{Consistency, Durability, SubtreePolicy};

/// Promises of a policy: who sees a change when, what survives which crash, and from when on that holds (thesis: the
/// properties of a cell hold only after all its mechanisms are done).
pub fn of(policy: &SubtreePolicy) -> Vec<String> {
    let cell = policy.cell();
    let durable = match policy.lag() {
        Some(lag) => format!(
            "A change is durable after the next fsync of it or of its directory, and else when the server's disk has taken it; if that is behind for {lag}, \
             answers wait. A crash of the server leaves the directory as it was at one moment, and takes back at most what was answered in {lag}."
        ),
        None => cell.durability.promise().to_string(),
    };
    let until = match (cell.consistency, cell.durability) {
        (Consistency::Strong, _) => None,
        // Its pipeline brings a change nowhere else.
        (Consistency::Invisible, Durability::None) => Some("A change is only in the memory of its client."),
        _ => Some("Until the pipeline is done, a change is only in the memory of its client."),
    };
    let until = until.map(String::from);
    [cell.consistency.promise().to_string(), durable].into_iter().chain(until).collect()
}

/// The promises of the default policy.
pub fn of_posix() -> Vec<String> {
    of(&SubtreePolicy::default())
}

/// The sentence on the promises in force now. Nothing, if these are the policy's own.
pub fn today(policy: &SubtreePolicy) -> Option<&'static str> {
    match policy.cell().consistency {
        Consistency::Strong if policy.is_relaxed() => Some(
            "With several ranks that holds for what lies at the rank of the directory that has the policy. Elsewhere a change is durable when it is answered, as with posix.",
        ),
        Consistency::Strong => None,
        _ => Some("While it is not decoupled, it behaves as posix, strong/global."),
    }
}
