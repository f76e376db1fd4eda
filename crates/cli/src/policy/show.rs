//! `loligo policy show`: the policy that counts at a path, and what it promises. Not here: setting one.

use std::path::Path;

use loligo_subtree_policy::{Cell, SubtreePolicy, SyncInterval};
use serde_json::json;

use super::chain::{self, Chain, InForce};
use super::has::{self, Has, plain};
use super::journaled;
use super::placing::{self, Placed};
use super::promise;
use crate::args::Directory;
use crate::output::{Outcome, put, quoted};
use crate::settings::Given;

/// Prints it.
pub fn run(path: &Directory, json: bool, given: &Given) -> Outcome {
    let chain = chain::of_any(path)?;
    let now = chain.in_force()?;
    let has = has::of(path, given);
    if json {
        return put(format_args!("{:#}", document(path, &chain, &now, has.as_ref())));
    }
    let placed = placing::of(chain.links());
    let policy = &now.policy;
    if let Some(owner) = has.as_ref().and_then(|has| owner(has, path)) {
        put(owner)?;
    }
    put(format_args!("at {}: {}", path.path.display(), now.whose()))?;
    for (key, value) in lines(policy, &placed) {
        put(format_args!("{key:<17} {value}"))?;
    }
    put(format_args!("\n{}{}", when(policy, has.as_ref()), promise::of(policy).join(" ")))?;
    if let (true, Some(today)) = (policy.is_relaxed(), promise::today(policy)) {
        put(today)?;
    }
    for warning in policy.pipeline().warnings() {
        put(format_args!("warning: {warning}"))?;
    }
    chain.unseen().map_or(Ok(()), |unseen| put(format_args!("warning: {unseen}")))
}

/// The owner of a directory that is decoupled now.
fn owner(has: &Has, path: &Directory) -> Option<String> {
    let (by, with) = match has {
        Has::ThisMount(out) => ("this mount".to_string(), format!(" with {}", out.policy.cell())),
        Has::Another(doc) => (format!("{} (user {})", plain(&doc.name), doc.uid), String::new()),
        Has::Untold { below: true } => ("another client".into(), String::new()),
        Has::Nobody(_) | Has::Relaxed(_) | Has::Untold { below: false } => return None,
    };
    let server = match (&path.data, &path.server) {
        (Some(data), _) => format!(" --data {}", quoted(data)),
        (None, Some(server)) => format!(" --server {}", quoted(Path::new(server))),
        (None, None) => String::new(),
    };
    Some(format!("Now decoupled by {by}{with}; see `loligo policy explain {}{server}`.", quoted(&path.path)))
}

/// Since when, or until when, the promises of the policy hold, as the beginning of a sentence.
fn when(policy: &SubtreePolicy, has: Option<&Has>) -> &'static str {
    let has_journal = policy.pipeline().has_client_journal();
    match has {
        Some(Has::ThisMount(out)) if out.policy.pipeline() == policy.pipeline() => "",
        Some(Has::ThisMount(_) | Has::Another(_) | Has::Untold { below: true }) if !has_journal => {
            "When it is given back: "
        }
        Some(Has::ThisMount(_) | Has::Another(_) | Has::Untold { below: true }) => {
            "When it is given back: behaves as posix. When it is decoupled with this policy: "
        }
        _ if !has_journal => "",
        Some(Has::Untold { below: false }) => "Not decoupled by this mount now: behaves as posix. When decoupled: ",
        _ => "Not decoupled now: behaves as posix. When decoupled: ",
    }
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
        ("journal", journaled::mode(policy)),
        ("placement", format!("{} ({})", placed.placement.name(), placed.why)),
        ("floor", policy.floor().to_string()),
        ("ceiling", policy.ceiling().to_string()),
    ]
}

fn document(path: &Directory, chain: &Chain, now: &InForce, has: Option<&Has>) -> serde_json::Value {
    let (policy, floor) = (&now.policy, now.policy.floor());
    let cell = policy.cell();
    let (today, at_now, promises_now) = match has {
        Some(Has::ThisMount(out)) => (Some("decoupled by this mount"), out.policy.cell(), promise::of(&out.policy)),
        _ if policy.is_relaxed() => (promise::today(policy), cell, promise::of(policy)),
        _ => (promise::today(policy), Cell::POSIX, promise::of_posix()),
    };
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
        "journal": journaled::as_json(policy),
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
        "decoupled": has.map_or(json!(null), Has::owner),
        "now": { "cell": at_now.to_string(), "why": today, "promises": promises_now },
        "warnings": policy.pipeline().warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
