//! `loligo merge --stored` and `loligo abandon --stored`: what a program that had a directory decoupled has kept in the store becomes
//! everybody's when it is gone, or the directory is given back without it. Not here: what is kept on this machine's disk (`kept.rs`), how it
//! came to be kept (the client library), and when somebody else may have it (the rank).

use std::path::Path;
use std::sync::Arc;

use loligo_driver::client::{Client, Subtree, SubtreeOptions};
use loligo_types::FsError;
use serde_json::json;

use super::kept::{STOP_TIME, json_of, summary, tell_conflicts};
use crate::args::{Directory, Target};
use crate::output::{Failure, Outcome, human_bytes, note, put, quoted};
use crate::ranks::place;
use crate::target::Found;

/// Takes the directory over, merges, and ends the decoupling. `now`: its owner is not waited for.
pub fn merge(dir: &Path, target: &Target, now: bool, as_json: bool) -> Outcome {
    let (client, mut subtree, found) = take_over(dir, target, now)?;
    let root = subtree.record().dir;
    let stays = |error: String| {
        Failure::new(error).remedy(format!(
            "what is in the store stays; give it up and have the directory back: loligo abandon --stored {}",
            quoted(dir)
        ))
    };
    let kept = subtree.stored().map_err(|error| stays(error.to_string()))?;
    let merged = match kept {
        Some(kept) => subtree.merge_kept(&kept).map_err(|error| stays(cannot(error)))?,
        None => loligo_driver::client::subtree::Merged::default(),
    };
    subtree.recouple().map_err(|error| stays(cannot(error)))?;
    // All of it is durable.
    let _ = client.stop(STOP_TIME);
    if as_json {
        return put(json_of(&merged));
    }
    tell_conflicts(&merged, &found, root);
    put(format_args!("{}; {} is a directory like others again", summary(&merged), dir.display()))
}

/// Takes the directory over, and ends the decoupling without what is in the store. `now`: whoever has it, and whether or not something is there.
pub fn abandon(dir: &Path, target: &Target, now: bool, as_json: bool) -> Outcome {
    let (client, mut subtree, _) = take_over(dir, target, now)?;
    let bytes = subtree.record().journal.map_or(0, |journal| journal.bytes);
    subtree.abandon().map_err(|error| Failure::new(format!("{} cannot be given back: {error}", dir.display())))?;
    let _ = client.stop(STOP_TIME);
    if now {
        note(
            "programs of its owner get ESTALE from now on. What the owner had not merged stays in its client journal: a file in keep_dir of its \
             machine, if its policy is local or global, which the log of its mount names. Look into it: loligo journal inspect FILE",
        );
    }
    if as_json {
        return put(json!({ "directory": dir.display().to_string(), "stored_bytes": bytes, "decoupled": false }));
    }
    match bytes {
        0 => put(format_args!("{} is a directory like others again, without what was not merged", dir.display())),
        bytes => put(format_args!(
            "{} is a directory like others again, without the {} that were kept in the store, which are gone",
            dir.display(),
            human_bytes(bytes)
        )),
    }
}

fn take_over(dir: &Path, target: &Target, now: bool) -> Result<(Client, Subtree, Found), Failure> {
    let (data, server) = (target.data.clone(), target.server.clone().filter(|server| !server.is_empty()));
    let place = place::find(&Directory { data, server, path: dir.to_path_buf() })?;
    let client = place::connect(place.found.address()?, "loligo merge")?;
    let fs = client.fs(Arc::new(place::whoever_asks()?));
    let options = SubtreeOptions::default();
    let taken = match now {
        true => Subtree::take_now(&fs, place.ino, &options),
        false => Subtree::resume_stored_of(&fs, place.ino, &options),
    };
    match taken {
        Ok(subtree) => Ok((client, subtree, place.found)),
        Err(error) => Err(no_taking_over(&place.name, now, error)),
    }
}

fn no_taking_over(name: &str, now: bool, error: FsError) -> Failure {
    match error {
        FsError::NotFound if now => Failure::new(format!("{name} is not decoupled")),
        FsError::Perm if now => {
            Failure::new(format!("{name}: only root takes a directory from its owner before its lease is over"))
                .remedy("do it as root; when the lease is over its user may, too: loligo status says when that is")
        }
        FsError::Busy => {
            Failure::new(format!("{name} has an owner who is there, or who was not away for as long as its lease"))
                .remedy("loligo status says who that is, and how long that may take; root need not wait: --force")
        }
        FsError::NotFound => {
            Failure::new(format!("{name} is not decoupled, or nothing of what was made there is in the store"))
                .remedy("what a program has kept on its own disk: loligo merge FILE")
        }
        FsError::Perm => Failure::new(format!("{name} is another user's")).remedy("its user merges it, or root"),
        error => Failure::new(format!("{name} cannot be taken over: {error}")),
    }
}

fn cannot(error: FsError) -> String {
    match error {
        FsError::Stale => "another one has taken it over, or given it up".into(),
        FsError::Access => "the directory is another user's by now: nothing is merged into it".into(),
        FsError::Invalid => "there is something in it that its user may not make: nothing of that is merged".into(),
        error => format!("it cannot be merged: {error}"),
    }
}
