//! `loligo merge` and `loligo abandon`: what a program that had a directory decoupled has kept on this machine's disk becomes everybody's, or
//! the directory is given back without it. Not here: what is kept in the store (`stored.rs`), how it came to be kept (the client library),
//! nor the looking into it (`loligo journal`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loligo_driver::client::subtree::{Kept, KeptError, Merged};
use loligo_driver::client::{Client, Subtree, SubtreeOptions};
use loligo_types::{Cred, FsError, FsResult, Ino};
use serde_json::json;

use super::below::Paths;
use super::conflicts;
use crate::args::{Order, Target};
use crate::output::{Failure, Outcome, UNCHANGED, counted, human_bytes, note, put, quoted};
use crate::ranks::place::{self, Asker};
use crate::target::{self, Found};

/// Time limit for the client to stop at the end.
pub(super) const STOP_TIME: Duration = Duration::from_secs(10);

/// Merges it, ends the decoupling, and removes the file if all of it was merged. `now`: also if its owner is at work.
pub fn merge(file: &Path, target: &Target, now: bool, order: Order) -> Outcome {
    if order.dry_run {
        return foretell(file, order, "merged, and the directory given back");
    }
    let Reached { kept, client, subtree, found } = reach(file, target)?;
    let dir = kept.record().dir;
    let subtree = match subtree {
        // The rank has said that it is this decoupling.
        Err(FsError::Busy) if now => {
            let root = client.fs(Arc::new(place::whoever_asks()?));
            Subtree::take_now(&root, kept.record().dir, &SubtreeOptions::default())
        }
        subtree => subtree,
    };
    let mut subtree = subtree.map_err(|error| cannot(file, error))?;
    let name = file.display();
    if let Some(torn) = kept.torn() {
        note(format_args!(
            "{name}: {} at its end are of a record that was being written when the program died: they are left out",
            human_bytes(torn.bytes)
        ));
    }
    let merged = subtree.merge_kept(&kept).map_err(|error| cannot(file, error))?;
    subtree.recouple().map_err(|error| cannot(file, error))?;
    // Whether its end was torn off or damaged, nobody can tell: who wants to look into it has it.
    let stays = kept.torn().is_some();
    if !stays {
        kept.remove().map_err(|error| Failure::new(format!("{name} is merged, and cannot be removed: {error}")))?;
    }
    // All of it is durable.
    let _ = client.stop(STOP_TIME);
    if order.json {
        let mut json = json_of(&merged);
        json["file"] = name.to_string().into();
        return put(json);
    }
    tell_conflicts(&merged, &found, dir);
    put(format_args!(
        "{name}: {}; the directory is one like others again, and the file {}",
        summary(&merged),
        if stays { "stays, because of its end" } else { "was removed" }
    ))
}

/// Prints the contents of a file, and their fate. The server is not asked.
fn foretell(file: &Path, order: Order, then: &str) -> Outcome {
    let kept = Kept::read(file).map_err(|error| unusable(file, &error))?;
    let records: usize = kept.groups().iter().map(|group| group.parts.len()).sum();
    if order.json {
        return put(json!({
            "file": file.display().to_string(),
            "changed": false,
            "inode": kept.record().dir.0,
            "records": records,
            "torn_bytes": kept.torn().map_or(0, |torn| torn.bytes),
        }));
    }
    let records = counted(records as u64, "record");
    put(format_args!("{}: {records} of directory {} to be {then}\n{UNCHANGED}", file.display(), kept.record().dir))
}

/// Summary of a merge, for people.
pub(super) fn summary(merged: &Merged) -> String {
    let were = if merged.records == 1 { "was" } else { "were" };
    format!("{} of the journal ({}) {were} merged", counted(merged.records, "record"), human_bytes(merged.bytes))
}

/// Prints the conflicts of a merge, by paths in the file system.
pub(super) fn tell_conflicts(merged: &Merged, found: &Found, dir: Ino) {
    if merged.conflicts == 0 {
        return;
    }
    let asker = Asker::new(found).ok();
    let path_of = |ino: u64| asker.as_ref()?.path_of(Ino(ino));
    let numbers = conflicts::inodes(&merged.told).into_iter();
    let by_number = numbers.filter_map(|ino| Some((ino, path_of(ino)?))).collect();
    let top = path_of(dir.0).unwrap_or_else(|| "DIRECTORY".into());
    conflicts::tell(merged.conflicts, &merged.told, &Paths { by_number, ..Paths::default() }, &top);
}

/// Result of a merge as JSON.
pub(super) fn json_of(merged: &Merged) -> serde_json::Value {
    json!({
        "records": merged.records,
        "bytes": merged.bytes,
        "steps": merged.steps,
        "conflicts": merged.conflicts,
        "told": conflicts::json_of(&merged.told),
    })
}

/// Ends the decoupling without it. The file stays, or is removed, also if the directory was given back long ago.
pub fn abandon(file: &Path, target: &Target, remove: bool, order: Order) -> Outcome {
    if order.dry_run {
        return foretell(
            file,
            order,
            if remove {
                "removed, and the directory given back"
            } else {
                "left as it is, and the directory given back"
            },
        );
    }
    let Reached { kept, client, subtree, .. } = reach(file, target)?;
    let ended = match subtree.and_then(|mut subtree| subtree.abandon()) {
        Ok(()) => true,
        Err(FsError::Stale | FsError::NotFound) if remove => false,
        Err(error) => return Err(cannot(file, error)),
    };
    let _ = client.stop(STOP_TIME);
    let name = file.display();
    let told = |removed: bool| json!({ "file": name.to_string(), "was_decoupled": ended, "removed": removed });
    if !remove && order.json {
        return put(told(false));
    }
    if !remove {
        return put(format_args!(
            "the directory is one like others again, without what is in {name}, which stays: loligo journal inspect {0}; to remove it: loligo abandon \
             --remove {0}",
            quoted(file)
        ));
    }
    kept.remove().map_err(|error| Failure::new(format!("{name} cannot be removed: {error}")))?;
    if order.json {
        return put(told(true));
    }
    put(match ended {
        true => format!("the directory is one like others again, without what was in {name}, which was removed"),
        false => format!("{name} was removed; the directory was not decoupled for it any more"),
    })
}

/// A journal and its server.
struct Reached {
    kept: Kept,
    client: Client,
    /// If it is decoupled for it still.
    subtree: FsResult<Subtree>,
    found: Found,
}

fn reach(file: &Path, target: &Target) -> Result<Reached, Failure> {
    let kept = Kept::claim(file).map_err(|error| unusable(file, &error))?;
    let found = target::find(target)?;
    let client = place::connect(found.address()?, "loligo merge")?;
    if client.welcome().fs_id != kept.fs_id() {
        return Err(Failure::new(format!("{} is of another file system than the server's", file.display()))
            .remedy("name the server of its own: --data DIR or --server ADDR"));
    }
    let fs = client.fs(Arc::new(Cred { uid: kept.record().uid, ..Cred::root() }));
    let subtree = Subtree::resume(&fs, &kept, &SubtreeOptions::default());
    Ok(Reached { kept, client, subtree, found })
}

/// A journal that cannot be gone on with.
fn unusable(file: &Path, error: &KeptError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        KeptError::InUse(_) => failure.remedy(
            "merge by the mount that has the directory: loligo merge DIRECTORY; once its process is gone, this file is merged by the same command",
        ),
        KeptError::Cut { .. } | KeptError::Record { .. } => {
            failure.remedy(format!("what comes before the damage: loligo journal export --from {} OUT", quoted(file)))
        }
        _ => failure,
    }
}

fn cannot(file: &Path, error: FsError) -> Failure {
    let name = file.display();
    let look = format!("{name} stays as it is; look into it: loligo journal inspect {}", quoted(file));
    match error {
        FsError::Stale => Failure::new(format!(
            "{name}: the directory is not decoupled for it any more: its lease was over, or it was ended"
        ))
        .remedy(format!("{look}; remove it: loligo abandon --remove {}", quoted(file))),
        FsError::Busy => Failure::new(format!(
            "{name}: the owner of the directory is connected to the server: this is a copy of its journal, or the server has not heard yet that it is gone"
        ))
        .remedy(format!(
            "merge by the mount that has the directory: loligo merge DIRECTORY; if that is gone, try again when its session is over (session_ms); \
             or take it from its owner, as root: loligo merge --force {}",
            quoted(file)
        )),
        FsError::Perm => Failure::new(format!("{name}: the directory was decoupled by another user"))
            .remedy("merge it as that user, or as root on the server's machine; over an identity root counts as nobody unless that was made with --squash none"),
        FsError::Access => {
            Failure::new(format!("{name}: the directory is another user's by now: nothing is merged into it"))
                .remedy(look)
        }
        FsError::NotFound => Failure::new(format!("{name}: the directory is gone: there is nothing to merge into"))
            .remedy(format!("{look}; remove it: loligo abandon --remove {}", quoted(file))),
        FsError::NotEmpty => Failure::new(format!("the store has more of what was made there than {name}"))
            .remedy("merge that: loligo merge --stored DIRECTORY"),
        FsError::Invalid => Failure::new(format!(
            "{name}: there is something in it that its user may not make: nothing of that is merged"
        ))
        .remedy(format!("{look}; erase what does harm, and merge what is left: loligo journal erase {}", quoted(file))),
        error => Failure::new(format!("{name} cannot be merged: {error}")).remedy(look),
    }
}
