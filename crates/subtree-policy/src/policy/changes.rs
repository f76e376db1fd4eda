//! Differences between two policies, as lines for people. Not here: applying them, and the placement of directories, which does not follow
//! from policies alone: directories hand that down as they are made.

use super::{Interfere, SubtreePolicy, SyncInterval};
use crate::floor::Floor;

/// One line for each thing that changes, guarantees first; none if they are the same.
pub fn changes(old: &SubtreePolicy, new: &SubtreePolicy) -> Vec<String> {
    let (was, is) = (old.cell(), new.cell());
    let plain = |key: &str, old: String, new: String| (old != new).then(|| format!("{key}: {old} -> {new}"));
    let lines = [
        level("consistency", was.consistency, is.consistency, is.consistency.promise()),
        level("durability", was.durability, is.durability, &durable(new)),
        plain("pipeline", old.pipeline.to_string(), new.pipeline.to_string()),
        plain("allocated_inodes", old.allocated_inodes.to_string(), new.allocated_inodes.to_string()),
        // Without a client's journal nothing is decoupled.
        plain("interfere", old.interfere.to_string(), new.interfere.to_string())
            .filter(|_| new.pipeline.has_client_journal())
            .map(|line| match new.interfere {
                Interfere::Allow => format!("{line}: others may work in a decoupled subtree; the merge wins over them"),
                Interfere::Read => format!(
                    "{line}: others read the state of the last merge in a decoupled subtree, and change nothing there"
                ),
                Interfere::Block => format!("{line}: others are refused in a decoupled subtree, as busy"),
            }),
        plain("sync_interval", interval(old.sync_interval), interval(new.sync_interval)),
        plain("lag", interval(old.lag()), interval(new.lag())),
        plain("blind", old.blind.to_string(), new.blind.to_string()).map(|line| match new.blind {
            true => format!("{line}: a merge does not look whether a change is valid"),
            false => format!("{line}: a merge looks whether each change is valid"),
        }),
        plain("journal", journal(old), journal(new)),
        level("floor of consistency", old.floor.consistency, new.floor.consistency, &least(new.floor)),
        level("floor of durability", old.floor.durability, new.floor.durability, &least(new.floor)),
        plain("ceiling", old.ceiling.to_string(), new.ceiling.to_string()),
    ];
    lines.into_iter().flatten().collect()
}

/// The policy's durability, as a sentence.
fn durable(policy: &SubtreePolicy) -> String {
    policy.lag().map_or_else(
        || policy.cell().durability.promise().to_string(),
        |lag| format!("A crash of the server takes back at most what was answered in {lag}; fsync makes it durable."),
    )
}

/// A level, and whether there is more or less of it.
trait Level: PartialOrd {
    fn shown(&self) -> String;
}

impl Level for crate::cell::Consistency {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Level for crate::cell::Durability {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl<L: Level> Level for Option<L> {
    fn shown(&self) -> String {
        self.as_ref().map_or("-".to_string(), Level::shown)
    }
}

fn level<L: Level>(key: &str, old: L, new: L, meaning: &str) -> Option<String> {
    let how = match old.partial_cmp(&new)? {
        std::cmp::Ordering::Less => "stronger",
        std::cmp::Ordering::Greater => "weaker",
        std::cmp::Ordering::Equal => return None,
    };
    Some(format!("{key}: {} -> {} ({how}): {meaning}", old.shown(), new.shown()))
}

/// Mode of the data journal, with its threshold.
fn journal(policy: &SubtreePolicy) -> String {
    let mode = policy.journaling().map_or("-", |journaling| journaling.mode.name());
    policy.journal_threshold().map_or(mode.to_string(), |most| format!("{mode} up to {}", super::journal::shown(most)))
}

fn interval(interval: Option<SyncInterval>) -> String {
    interval.map_or("-".to_string(), |interval| interval.to_string())
}

fn least(floor: Floor) -> String {
    match floor.is_none() {
        true => "policies of directories below may be anything".to_string(),
        false => format!("policies of directories below must be at least {floor}"),
    }
}
