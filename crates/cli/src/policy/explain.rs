//! `loligo policy explain`: what is promised at a path now, what of it is outstanding, and what would be lost if this client, its machine, the
//! rank or the store died at this moment. Not here: what a policy promises once it is carried out (`show`).

use std::path::Path;

use serde_json::json;

use super::chain;
use super::has::{Behind, Has, at_server, plain, reachable, who_has};
use super::journaled;
use super::live::{Others, Outstanding};
use crate::args::Directory;
use crate::output::{Context, Outcome, counted, human_bytes, human_count, human_time, put, quoted};
use crate::ranks::place::{self, Asker};
use crate::service::admin::decoupled::DecoupledDoc;
use crate::settings::Given;
use crate::target;

/// Answer where the server tells this user nothing.
const UNTOLD: &str = "not told to this user: root, and the user of the data directory, see it on the server's machine";

/// The store is lost with its disk.
const STORE: &str = "all of it, with the disk of the data directory; on a Ceph cluster only with all copies";

/// One answer to "what if".
struct Loss {
    who: &'static str,
    changes: u64,
    text: String,
}

/// Prints it.
pub fn run(dir: &Directory, as_json: bool, given: &Given) -> Outcome {
    let by_server = place::server(dir)?;
    let absolute = std::path::absolute(&dir.path).context(|| dir.path.display().to_string())?;
    let (seen, below) = if by_server.is_some() { (absolute.clone(), false) } else { reachable(&absolute)? };
    if by_server.is_none() {
        place::in_a_mount(&seen)?;
    }
    let place = match &by_server {
        Some(_) => dir.clone(),
        None => Directory { data: None, server: None, path: seen.clone() },
    };
    let chain = chain::of_any(&place)?;
    let policy = chain.in_force()?;
    let has = match &by_server {
        Some(found) => {
            let inode = Asker::new(found)?.stat(&seen).context(|| seen.display().to_string())?.ino;
            at_server(found, inode, &seen, below, policy.policy.is_relaxed(), given)?
        }
        None => who_has(&seen, below, policy.policy.is_relaxed(), given)?,
    };
    // One that is decoupled has the policy that it was decoupled with.
    let other = match &has {
        Has::ThisMount(out) if out.policy.pipeline() != policy.policy.pipeline() => Some(out.policy.cell()),
        _ => None,
    };
    let cell = other.unwrap_or_else(|| policy.policy.cell());
    let server = match by_server {
        Some(found) => found.data.map(|data| data.display().to_string()).or_else(|| dir.server.clone()),
        None => target::served_by(&seen)?,
    };
    let losses = losses(&has, server.as_deref());
    let out = match &has {
        Has::ThisMount(out) => out.clone(),
        _ => Outstanding::default(),
    };
    if as_json {
        let losses: serde_json::Map<String, serde_json::Value> = losses
            .iter()
            .map(|loss| (loss.who.replace(' ', "_"), json!({ "changes": loss.changes, "why": loss.text })))
            .collect();
        return put(format_args!(
            "{:#}",
            json!({
                "path": absolute.display().to_string(),
                "cell": cell.to_string(),
                "from": if other.is_some() { None } else { policy.from },
                "journal": journaled::as_json(&policy.policy),
                "decoupled": has.owner(),
                "decoupled_below": below_as_json(&has),
                "outstanding": {
                    "changes": out.changes, "events": out.events, "bytes": out.bytes,
                    "age_ms": out.age_ms, "on_disk": out.persisted, "in_store": out.stored,
                },
                "failed_stage": out.failed.as_ref().map(|(stage, error)| json!({ "stage": stage, "error": error })),
                "lost_if": losses,
            })
        ));
    }
    let whose = match other {
        Some(_) => format!(
            "the policy that it is decoupled with; {} is {}, and counts again when it is given back",
            policy.whose(),
            policy.policy.cell()
        ),
        None => policy.whose(),
    };
    put(format_args!("at {}: {cell}, by {whose}", absolute.display()))?;
    put(format_args!("{:<13} {}", "now", now(&has)))?;
    put(format_args!(
        "{:<13} {}: after a crash of the server {}",
        "data journal",
        journaled::mode(&policy.policy),
        journaled::crash(&policy.policy)
    ))?;
    put(format_args!("{:<13} {}", "outstanding", outstanding(&has, server.as_deref())))?;
    if let Some((stage, error)) = &out.failed {
        put(format_args!(
            "{:<13} the stage {stage} of the pipeline ({error}); it is begun again with the next sync, merge or recouple, or by itself after the \
             sync_interval",
            "failed"
        ))?;
    }
    if let Has::Nobody(below) = &has {
        below.iter().try_for_each(|one| {
            put(format_args!("{:<13}   {} by {} (user {})", "", named(one), plain(&one.name), one.uid))
        })?;
    }
    put("would be lost now if this died:")?;
    losses.iter().try_for_each(|loss| put(format_args!("  {:<13} {}", loss.who, loss.text)))
}

/// The name that is printed of a directory that is decoupled below another one.
fn named(one: &DecoupledDoc) -> String {
    one.path.as_deref().map_or_else(|| format!("inode {}", one.dir), plain)
}

fn below_as_json(has: &Has) -> serde_json::Value {
    let Has::Nobody(below) = has else { return json!([]) };
    let one = |doc: &DecoupledDoc| json!({ "inode": doc.dir, "path": doc.path, "name": doc.name, "uid": doc.uid, "here": doc.here });
    below.iter().map(one).collect()
}

fn now(has: &Has) -> String {
    match has {
        Has::Nobody(_) => "strong/global: every change is seen by all, and durable, when the call that made it returns".into(),
        Has::Untold { below: true } => "decoupled by another client: others are refused below".into(),
        Has::Untold { below: false } => "not decoupled by this mount: each change is seen by all, and durable as the policy says".into(),
        Has::Relaxed(_) => "every change is seen by all when the call that made it returns, and durable at the next fsync, or a moment later".into(),
        Has::ThisMount(out) if out.others == Others::Work => {
            "this mount works on the state of the last merge, and so do others; at a merge this mount's changes count where both changed the same, and \
             .conflicts keeps what others did"
                .into()
        }
        Has::ThisMount(out) if out.others == Others::Read => {
            "this mount's alone: its programs see all that they do; others read the state of the last merge, and change nothing below".into()
        }
        Has::ThisMount(_) => {
            "this mount's alone: its programs see all that they do; others are refused below, and see it when it was merged and given back".into()
        }
        Has::Another(doc) => format!(
            "decoupled by {} (user {}): others {}{}",
            doc.name,
            doc.uid,
            match (doc.shared, doc.read) {
                (true, _) => {
                    "work on the state of the last merge, too; at a merge the owner's changes count where both changed the same, and .conflicts keeps \
                     what others did"
                }
                (_, true) => "read the state of the last merge, and change nothing below",
                _ => "are refused below",
            },
            match (doc.here, doc.taken_back_in_ms) {
                (false, Some(ms)) => format!(", and for {} more, because it is not heard", human_time(ms as f64 / 1000.0)),
                _ => String::new(),
            }
        ),
    }
}

fn outstanding(has: &Has, server: Option<&str>) -> String {
    match has {
        Has::Nobody(below) if !below.is_empty() => {
            "not known here of these directories below, which are decoupled (loligo policy explain of each, in the mount that has it); else nothing".into()
        }
        Has::Untold { .. } => UNTOLD.into(),
        Has::Relaxed(Behind { inodes: 0, .. }) => "nothing; bytes that programs wrote and did not sync are their mounts' to write".into(),
        Has::Relaxed(behind) => format!(
            "changes of {} files and directories below relaxed directories, the oldest {} old",
            human_count(behind.inodes),
            human_time(behind.oldest_ms as f64 / 1000.0)
        ),
        Has::Nobody(_) => "nothing; bytes that programs wrote and did not sync are their mounts' to write".into(),
        Has::Another(DecoupledDoc { kept_file: Some(file), .. }) => {
            format!("{} on this machine, of an owner that is gone: loligo merge {} {}", plain(file), quoted(Path::new(file)), target::option_of(server))
        }
        Has::Another(doc) => format!("known to its owner alone; {} so far", counted(doc.merges, "merge")),
        Has::ThisMount(out) if out.changes == 0 => "nothing".into(),
        Has::ThisMount(out) => format!(
            "{}, in {} of journal, the oldest {} old; {} of them on this machine's disk, {} in the store",
            changes(out.changes),
            human_bytes(out.bytes),
            human_time(out.age_ms as f64 / 1000.0),
            human_count(out.persisted),
            human_count(out.stored)
        ),
    }
}

/// A number of changes, each of which is an operation such as a create or a rename.
fn changes(count: u64) -> String {
    match count {
        0 => "nothing".to_string(),
        1 => "1 change".to_string(),
        n => format!("{} changes", human_count(n)),
    }
}

fn losses(has: &Has, server: Option<&str>) -> Vec<Loss> {
    let nothing = |who| Loss { who, changes: 0, text: "nothing".into() };
    let loss = |who, changes: u64, text: String| Loss { who, changes, text };
    match has {
        Has::Nobody(below) if !below.is_empty() => vec![
            nothing("the rank"),
            loss(
                "an owner",
                0,
                "of the directories below that are decoupled what it has not merged and not kept on a disk".into(),
            ),
            loss("the store", 0, STORE.into()),
        ],
        Has::Untold { .. } => vec![loss("an owner", 0, UNTOLD.into()), loss("the store", 0, STORE.into())],
        Has::Relaxed(behind) => vec![
            nothing("this client"),
            nothing("this machine"),
            match behind.inodes {
                0 => nothing("the rank"),
                _ => loss(
                    "the rank",
                    behind.inodes,
                    "what is outstanding; programs hear of it at their next fsync".into(),
                ),
            },
            loss("the store", 0, STORE.into()),
        ],
        Has::Nobody(_) => vec![
            nothing("this client"),
            nothing("this machine"),
            nothing("the rank"),
            loss("the store", 0, STORE.into()),
        ],
        Has::ThisMount(out) => {
            let count = changes;
            let (disk, store) = (out.persisted, out.stored);
            let volatile = out.changes - disk.max(store);
            let mut how = Vec::new();
            if disk > store {
                let file = quoted(Path::new(out.kept.as_deref().unwrap_or("FILE"))).to_string();
                how.push(format!("loligo merge {file} {}", target::option_of(server)));
            }
            if store > 0 {
                how.push("loligo merge --stored with the directory, once the mount's lease is over".into());
            }
            let rest = match how.is_empty() {
                true => String::new(),
                false => {
                    format!(", if what is kept is merged ({}): {}", changes(disk.max(store)), how.join(", or by "))
                }
            };
            // Without its disk.
            let gone = out.changes - store;
            let machine = match gone == volatile {
                true => count(gone),
                false => format!("{}, if it comes back with its disk; otherwise {}", count(volatile), count(gone)),
            };
            let lost = "what was merged or is in the store, with the disk of the data directory; on a Ceph cluster only with all copies";
            vec![
                loss("this client", volatile, format!("{}{rest}", count(volatile))),
                loss("this machine", volatile, machine),
                loss("the rank", 0, "nothing: merged changes are durable; the others are at this client".into()),
                loss("the store", 0, lost.into()),
            ]
        }
        Has::Another(_) => vec![
            nothing("this client"),
            loss("its owner", 0, "what it has not merged and not kept on a disk".into()),
            nothing("the rank"),
        ],
    }
}
