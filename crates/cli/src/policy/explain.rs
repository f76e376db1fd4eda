//! `loligo policy explain`: what is promised at a path now, what of it is outstanding, and what would be lost if this client, its machine, the
//! rank or the store died at this moment. Not here: what a policy promises once it is carried out (`show`).

use std::path::{Path, PathBuf};

use loligo_types::Ino;
use rustix::io::Errno;
use serde_json::json;

use super::chain;
use super::live::{Live, Others, Outstanding};
use crate::args::{Directory, Target};
use crate::look::{ask, decoupled};
use crate::output::{Context, Failure, Outcome, counted, human_bytes, human_count, human_time, put, quoted};
use crate::ranks::place::{self, Asker};
use crate::service::admin::decoupled::DecoupledDoc;
use crate::service::admin::doc::StatusDoc;
use crate::service::waiting;
use crate::settings::Given;
use crate::target::{self, Found};

/// The owner of the path, if it is decoupled.
enum Has {
    /// Nobody; but these are below.
    Nobody(Vec<DecoupledDoc>),
    /// Nobody, and the only rank of the file system answers before its journal is durable, if the policy says so: how far that is behind.
    Relaxed(Behind),
    /// The mount that it is in.
    ThisMount(Outstanding),
    /// Another client.
    Another(DecoupledDoc),
    /// Not this mount; which others do is not told to this user. `below`: one of them has it, or what is above it.
    Untold { below: bool },
}

/// Answer where the server tells this user nothing.
const UNTOLD: &str = "not told to this user: root, and the user of the data directory, see it on the server's machine";

/// The changes below relaxed directories that are not durable yet.
#[derive(Clone, Copy)]
struct Behind {
    inodes: u64,
    oldest_ms: u64,
}

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
        let owner = match &has {
            Has::Nobody(_) | Has::Relaxed(_) | Has::Untold { below: false } => json!(null),
            Has::Untold { below: true } => json!({ "this_mount": false }),
            Has::ThisMount(_) => json!({ "this_mount": true }),
            Has::Another(doc) => json!({ "this_mount": false, "name": doc.name, "uid": doc.uid, "here": doc.here }),
        };
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
                "decoupled": owner,
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
    put(format_args!("{:<13} {}", "now", now(&has, &seen)))?;
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

/// The server, as a command takes it that no path inside a mount is given to.
fn of_server(server: Option<&str>) -> String {
    let address = server.unwrap_or("ADDR");
    match Path::new(address.strip_prefix("unix:").unwrap_or(address)) {
        data if data.is_dir() => format!("--data {}", quoted(data)),
        socket if socket.ends_with("loligo.sock") => {
            format!("--data {}", quoted(socket.parent().unwrap_or(Path::new("."))))
        }
        _ => format!("--server {}", quoted(Path::new(address))),
    }
}

/// The path, or what is above it if somebody else has it for itself; whether the latter.
fn reachable(path: &Path) -> Result<(PathBuf, bool), Failure> {
    let mut below = false;
    for at in path.ancestors() {
        match rustix::fs::stat(at) {
            Ok(_) => return Ok((at.canonicalize().context(|| at.display().to_string())?, below)),
            Err(Errno::BUSY) => below = true,
            Err(error) => return Err(Failure::new(format!("{}: {error}", at.display()))),
        }
    }
    Err(Failure::new(format!("{}: nothing of it can be reached", path.display())))
}

/// The name that is printed of a directory that is decoupled below another one.
fn named(one: &DecoupledDoc) -> String {
    one.path.as_deref().map_or_else(|| format!("inode {}", one.dir), plain)
}

fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn below_as_json(has: &Has) -> serde_json::Value {
    let Has::Nobody(below) = has else { return json!([]) };
    let one = |doc: &DecoupledDoc| json!({ "inode": doc.dir, "path": doc.path, "name": doc.name, "uid": doc.uid, "here": doc.here });
    below.iter().map(one).collect()
}

/// The decoupled directories below one, by their paths in the file system.
fn below_of(found: &Found, inode: Ino, mut all: Vec<DecoupledDoc>) -> Vec<DecoupledDoc> {
    if all.is_empty() {
        return all;
    }
    let top = Asker::new(found).ok().and_then(|asker| asker.path_of(inode));
    let Some(top) = top else { return Vec::new() };
    decoupled::paths(found, all.iter_mut().map(|one| (one.dir, &mut one.path)));
    all.retain(|one| one.path.as_ref().is_some_and(|path| Path::new(path).starts_with(&top)));
    all
}

/// Which decoupled directory that others read is above one, by their paths in the file system.
fn above_of(found: &Found, inode: Ino, all: &mut [DecoupledDoc]) -> Option<usize> {
    let path = Asker::new(found).ok().and_then(|asker| asker.path_of(inode))?;
    decoupled::paths(found, all.iter_mut().map(|one| (one.dir, &mut one.path)));
    let is_above = |one: &DecoupledDoc| one.path.as_ref().is_some_and(|root| Path::new(&path).starts_with(root));
    all.iter().position(|one| one.read && is_above(one))
}

fn who_has(seen: &Path, below: bool, relaxed: bool, given: &Given) -> Result<Has, Failure> {
    if let Some(out) = Live::at(seen).outstanding()? {
        return Ok(Has::ThisMount(out));
    }
    let inode = rustix::fs::stat(seen).context(|| seen.display().to_string())?.st_ino;
    let found = target::find(&Target { path: Some(seen.to_path_buf()), ..Target::default() })?;
    at_server(&found, Ino(inode), seen, below, relaxed, given)
}

/// As the server tells it, where this mount does not have the path.
fn at_server(
    found: &Found,
    inode: Ino,
    seen: &Path,
    below: bool,
    relaxed: bool,
    given: &Given,
) -> Result<Has, Failure> {
    // The server names decoupled directories of others to root and its own user only, and not over the network.
    if found.is_closed() || found.admin.is_none() {
        return Ok(Has::Untold { below });
    }
    let status: StatusDoc = ask::json(found, "/api/v1/status")?;
    let behind = (relaxed && status.unreached.is_empty()).then(|| Behind {
        inodes: status.ranks.iter().map(|rank| rank.relaxed_behind).sum(),
        oldest_ms: status.ranks.iter().map(|rank| rank.relaxed_lag_ms).max().unwrap_or(0),
    });
    let mut all: Vec<DecoupledDoc> = status.ranks.into_iter().flat_map(|rank| rank.decoupled).collect();
    match all.iter().position(|doc| Ino(doc.dir) == inode) {
        Some(at) => {
            let mut doc = all.swap_remove(at);
            waiting::name_files(&status.fs_id, given, found.data.as_deref(), [&mut doc]);
            Ok(Has::Another(doc))
        }
        None if all.iter().any(|doc| doc.read || doc.shared)
            && let Some(at) = above_of(found, inode, &mut all) =>
        {
            Ok(Has::Another(all.swap_remove(at)))
        }
        None if below => {
            Err(Failure::new(format!("{}: somebody had it for itself a moment ago", seen.display()))
                .remedy("ask again"))
        }
        None => {
            let below = below_of(found, inode, all);
            Ok(behind.filter(|_| below.is_empty()).map_or(Has::Nobody(below), Has::Relaxed))
        }
    }
}

fn now(has: &Has, seen: &Path) -> String {
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
            "decoupled by {} (user {}): others {}{}; who has it: loligo status {}",
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
            },
            quoted(seen)
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
            format!("{} on this machine, of an owner that is gone: loligo merge {} {}", plain(file), quoted(Path::new(file)), of_server(server))
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
                how.push(format!("loligo merge {file} {}", of_server(server)));
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
            let machine = format!(
                "{}, if it comes back with its disk; otherwise {}",
                count(volatile),
                count(out.changes - store)
            );
            let machine = if out.changes == store { "nothing".to_string() } else { machine };
            let lost = "what was merged or is in the store, with the disk of the data directory; on a Ceph cluster only with all copies";
            vec![
                loss("this client", volatile, format!("{}{rest}", count(volatile))),
                loss("this machine", volatile, machine),
                loss("the rank", 0, "nothing: what is merged is durable, and the rest is here".into()),
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
