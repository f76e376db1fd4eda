//! `loligo merge` and `loligo abandon`: what a program that had a directory decoupled has kept on this machine's disk becomes everybody's, or
//! the directory is given back without it. Not here: what is kept in the store (`stored.rs`), how it came to be kept (the client library),
//! nor the looking into it (`loligo journal`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loligo_driver::client::subtree::{Kept, Merged};
use loligo_driver::client::{Client, Options, Subtree, SubtreeOptions};
use loligo_types::{Cred, FsError};
use serde_json::json;

use crate::args::Target;
use crate::output::{Failure, Outcome, human_bytes, human_count, note, put, quoted};
use crate::target;

/// How long it is waited for the server at the end.
pub(super) const STOP_TIME: Duration = Duration::from_secs(10);

/// Merges it, ends the decoupling, and removes the file.
pub fn merge(file: &Path, target: &Target, as_json: bool) -> Outcome {
    let (kept, client, mut subtree) = resume(file, target)?;
    if let Some(torn) = kept.torn() {
        note(format_args!(
            "{}: {} at its end are of a record that was being written when the program died: they are left out",
            file.display(),
            human_bytes(torn.bytes)
        ));
    }
    let merged = subtree.merge_kept(&kept).map_err(|error| cannot(file, error))?;
    subtree.recouple().map_err(|error| cannot(file, error))?;
    kept.remove()
        .map_err(|error| Failure::new(format!("{} is merged, and cannot be removed: {error}", file.display())))?;
    // All of it is durable.
    let _ = client.stop(STOP_TIME);
    if as_json {
        return put(json_of(&merged));
    }
    put(format_args!(
        "{} records ({}) were merged; the directory is one like others again, and {} was removed",
        human_count(merged.records),
        human_bytes(merged.bytes),
        file.display()
    ))
}

/// What a merge was, for programs.
pub(super) fn json_of(merged: &Merged) -> serde_json::Value {
    json!({ "records": merged.records, "bytes": merged.bytes, "steps": merged.steps })
}

/// Ends the decoupling without it; the file stays.
pub fn abandon(file: &Path, target: &Target) -> Outcome {
    let (_, client, mut subtree) = resume(file, target)?;
    subtree.abandon().map_err(|error| cannot(file, error))?;
    let _ = client.stop(STOP_TIME);
    put(format_args!(
        "the directory is one like others again, without what is in {}, which stays: loligo journal inspect {}",
        file.display(),
        quoted(file)
    ))
}

fn resume(file: &Path, target: &Target) -> Result<(Kept, Client, Subtree), Failure> {
    let kept = Kept::read(file).map_err(|error| Failure::new(error.to_string()))?;
    let found = target::find(target)?;
    let options = Options { name: "loligo merge".into(), ..Options::default() };
    let client = Client::connect(found.address()?, options).map_err(|error| Failure::new(error.to_string()))?;
    if client.welcome().fs_id != kept.fs_id() {
        return Err(Failure::new(format!("{} is of another file system than the server's", file.display()))
            .remedy("name the server of its own: --data DIR or --server ADDR"));
    }
    let fs = client.fs(Arc::new(Cred { uid: kept.record().uid, ..Cred::root() }));
    let subtree = Subtree::resume(&fs, &kept, &SubtreeOptions::default()).map_err(|error| cannot(file, error))?;
    Ok((kept, client, subtree))
}

fn cannot(file: &Path, error: FsError) -> Failure {
    let look = format!("{} stays as it is; look into it: loligo journal inspect {}", file.display(), quoted(file));
    match error {
        FsError::Stale => {
            Failure::new("the directory is not decoupled for it any more: its lease was over, or it was ended")
                .remedy(look)
        }
        FsError::Access => {
            Failure::new("the directory is another user's by now: nothing is merged into it").remedy(look)
        }
        FsError::NotFound => Failure::new("the directory is gone: there is nothing to merge into").remedy(look),
        FsError::NotEmpty => Failure::new(format!("the store has more of what was made there than {}", file.display()))
            .remedy("merge that: loligo merge --stored DIRECTORY"),
        error => Failure::new(format!("it cannot be merged: {error}")).remedy(look),
    }
}
