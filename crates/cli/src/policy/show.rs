//! `loligo policy show`: the policy that counts at a path, and what it promises. Not here: setting one.

use loligo_subtree_policy::{SubtreePolicy, SyncInterval};
use serde_json::json;

use super::chain::{self, Chain, InForce};
use super::placing::{self, Placed};
use super::promise;
use crate::args::Directory;
use crate::output::{Outcome, put};

/// Prints it.
pub fn run(path: &Directory, json: bool) -> Outcome {
    let chain = chain::of_any(path)?;
    let now = chain.in_force()?;
    if json {
        return put(format_args!("{:#}", document(path, &chain, &now)));
    }
    let placed = placing::of(chain.links());
    let policy = &now.policy;
    put(format_args!("at {}: {}", path.path.display(), now.whose()))?;
    for (key, value) in lines(policy, &placed) {
        put(format_args!("{key:<17} {value}"))?;
    }
    put(format_args!("\n{}", promise::of(policy).join(" ")))?;
    if let Some(today) = promise::today(policy) {
        let posix = if policy.is_relaxed() { Vec::new() } else { promise::of_posix() };
        put(format_args!("{today} {}", posix.join(" ")).to_string().trim_end())?;
    }
    for warning in policy.pipeline().warnings() {
        put(format_args!("warning: {warning}"))?;
    }
    chain.unseen().map_or(Ok(()), |unseen| put(format_args!("warning: {unseen}")))
}

fn lines(policy: &SubtreePolicy, placed: &Placed) -> Vec<(&'static str, String)> {
    let time = |time: Option<SyncInterval>| time.map_or("-".to_string(), |time| time.to_string());
    vec![
        ("cell", policy.cell().to_string()),
        ("pipeline", policy.pipeline().to_string()),
        ("allocated_inodes", policy.allocated_inodes().to_string()),
        ("interfere", policy.interfere().to_string()),
        ("sync_interval", time(policy.sync_interval())),
        ("lag", time(policy.lag())),
        ("blind", policy.blind().to_string()),
        ("placement", format!("{} ({})", placed.placement.name(), placed.why)),
        ("floor", policy.floor().to_string()),
        ("ceiling", policy.ceiling().to_string()),
    ]
}

fn document(path: &Directory, chain: &Chain, now: &InForce) -> serde_json::Value {
    let (policy, floor) = (&now.policy, now.policy.floor());
    let cell = policy.cell();
    let (today, posix) = (promise::today(policy), promise::of_posix());
    let at_now = promise::cell_now(policy);
    let promises_now = if policy.is_relaxed() { promise::of(policy) } else { posix };
    let placed = placing::of(chain.links());
    json!({
        "path": path.path.display().to_string(),
        "from": now.from,
        "to_root": chain.to_root,
        "cell": cell.to_string(),
        "consistency": cell.consistency.name(),
        "durability": cell.durability.name(),
        "pipeline": policy.pipeline().to_string(),
        "allocated_inodes": policy.allocated_inodes(),
        "interfere": policy.interfere().name(),
        "sync_interval_ms": policy.sync_interval().map(|interval| interval.duration().as_millis() as u64),
        "blind": policy.blind(),
        "placement": placed.placement.name(),
        "placement_from": placed.from,
        "placement_why": placed.why,
        "floor": {
            "consistency": floor.consistency.map(|level| level.name()),
            "durability": floor.durability.map(|level| level.name()),
        },
        "ceiling": {
            "decouple": !policy.ceiling().forbids,
            "allocated_inodes": policy.ceiling().allocated_inodes,
            "lease_ms": policy.ceiling().lease.map(|most| most.millis()),
        },
        "lag_ms": policy.lag().map(|lag| lag.millis()),
        "promises": promise::of(policy),
        "now": { "cell": at_now.to_string(), "why": today, "promises": promises_now },
        "warnings": policy.pipeline().warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
