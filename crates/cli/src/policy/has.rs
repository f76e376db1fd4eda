//! The client that has a directory decoupled at this moment: this mount, another client, or nobody, as the mount and the server tell it. Not here: what
//! that means for whoever works there (`explain.rs`, `show.rs`).

use std::path::{Path, PathBuf};

use loligo_types::Ino;
use rustix::io::Errno;
use serde_json::json;

use super::live::{Live, Outstanding};
use crate::args::{Directory, Target};
use crate::look::{ask, decoupled};
use crate::output::{Context, Failure};
use crate::ranks::place::{self, Asker};
use crate::service::admin::decoupled::DecoupledDoc;
use crate::service::admin::doc::StatusDoc;
use crate::service::waiting;
use crate::settings::Given;
use crate::target::{self, Found};

/// The owner of the path, if it is decoupled.
pub enum Has {
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

/// The changes below relaxed directories that are not durable yet.
#[derive(Clone, Copy)]
pub struct Behind {
    pub inodes: u64,
    pub oldest_ms: u64,
}

impl Has {
    /// The owner as JSON; null if there is none, or none is known.
    pub fn owner(&self) -> serde_json::Value {
        match self {
            Has::Nobody(_) | Has::Relaxed(_) | Has::Untold { below: false } => json!(null),
            Has::Untold { below: true } => json!({ "this_mount": false }),
            Has::ThisMount(_) => json!({ "this_mount": true }),
            Has::Another(doc) => json!({ "this_mount": false, "name": doc.name, "uid": doc.uid, "here": doc.here }),
        }
    }
}

/// The owner of the path that a command is about; nothing, if it cannot be told.
pub fn of(dir: &Directory, given: &Given) -> Option<Has> {
    match place::server(dir).ok()? {
        Some(found) => {
            let inode = Asker::new(&found).ok()?.stat(&dir.path).ok()?.ino;
            at_server(&found, inode, &dir.path, false, false, given).ok()
        }
        None => who_has(&dir.path.canonicalize().ok()?, false, false, given).ok(),
    }
}

/// The path, or what is above it if somebody else has it for itself; whether the latter.
pub fn reachable(path: &Path) -> Result<(PathBuf, bool), Failure> {
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

/// As the mount that the path is in tells it, and then the server.
pub fn who_has(seen: &Path, below: bool, relaxed: bool, given: &Given) -> Result<Has, Failure> {
    if let Some(out) = Live::at(seen).outstanding()? {
        return Ok(Has::ThisMount(out));
    }
    let inode = rustix::fs::stat(seen).context(|| seen.display().to_string())?.st_ino;
    let found = target::find(&Target { path: Some(seen.to_path_buf()), ..Target::default() })?;
    at_server(&found, Ino(inode), seen, below, relaxed, given)
}

/// As the server tells it, where this mount does not have the path.
pub fn at_server(
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

/// Names are what others gave: one line, and nothing that a terminal obeys.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}
