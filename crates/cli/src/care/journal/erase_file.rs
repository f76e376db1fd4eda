//! `loligo journal erase FILE`: records of a journal file that say nothing any more, or of a client's, which are many changes each, events that
//! are not in them any more. It is for what a client has kept and no server takes: what is left can be merged. Not here: which those are
//! (`erase.rs`).

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use loligo_journal::{Filter, Owner};
use loligo_types::Lsn;
use serde_json::json;

use super::erase::{EraseArgs, Found, look, nothing_builds_on_it};
use super::export::{self, Pick};
use super::inspect::kinds_text;
use super::source::Journal;
use super::{NOTHING_CHANGED, backup};
use crate::output::{Context, Failure, Outcome, human_count, note, put, quoted};

/// Says what it would do, or does it: the new file takes the place of the old one at once, with its owner and mode.
pub(super) fn run(args: &EraseArgs, file: &Path, filter: &Filter) -> Outcome {
    // Until the new file is in its place.
    let _claimed = if !args.dry_run { Some(claim(file)?) } else { None };
    let journal = Journal::file(file)?;
    if journal.header().is_some_and(|header| header.selection) {
        return Err(Failure::new(format!("{} is a selection of records, and nothing takes it", file.display()))
            .remedy("erase in the journal that it was made of"));
    }
    let found = look(&journal, filter, None, !args.json)?;
    let is_clients = matches!(journal.owner, Owner::Client(_));
    if !is_clients {
        nothing_builds_on_it(&journal, filter, Lsn(0))?;
    }
    if is_clients && found.bounds > 0 {
        return Err(Failure::new(format!(
            "{} of these records say which directory it is, and what is merged at once: nothing was changed",
            human_count(found.bounds)
        ))
        .remedy("leave those of the kind decoupled out, by --lsn, --kind, --ino or --name; loligo journal inspect shows them"));
    }
    let mut kept = None;
    if !args.dry_run && found.records > 0 {
        kept = Some(backup::copy(file, args.backup.as_deref())?);
        replace(&journal, filter, file)?;
    }
    if args.json {
        return put(format_args!(
            "{:#}",
            json!({
                "done": kept.is_some(), "file": file.display().to_string(), "records": found.records, "events": found.events,
                "first": found.first.map(|lsn| lsn.0), "kinds": found.kinds, "not_understood": found.not_understood,
                "backup": kept.map(|kept| kept.display().to_string()),
            })
        ));
    }
    tell(file, is_clients, &found, kept.is_some())
}

/// Keeps others from writing or merging it. Whoever has it open for that holds the lock of the file.
fn claim(file: &Path) -> Result<File, Failure> {
    let open = File::open(file).context(|| format!("journal file {}", file.display()))?;
    match rustix::fs::flock(&open, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::new(format!(
            "{} is in use: the program or mount whose journal it is still adds to it, or another command merges it; nothing was changed",
            file.display()
        ))
        .remedy("merge or abandon the directory there (loligo merge DIRECTORY, loligo abandon DIRECTORY), or end that program first")),
        // A file system without locks.
        _ => Ok(open),
    }
}

fn replace(journal: &Journal, filter: &Filter, file: &Path) -> Outcome {
    let new = backup::with_suffix(file, ".new");
    let made = export::write(journal, Pick::Without(filter), &new)?;
    let put_in_place = || {
        let was = fs::metadata(file)?;
        let to = File::open(&new)?;
        to.set_permissions(was.permissions())?;
        let is = to.metadata()?;
        if (was.uid(), was.gid()) != (is.uid(), is.gid()) {
            fchown(&to, Some(was.uid()), Some(was.gid()))?;
        }
        to.sync_all()?;
        fs::rename(&new, file)?;
        export::sync_dir_of(file)
    };
    let placed = match made.end.broken {
        // It was read to its end a moment ago.
        Some(text) => Err(Failure::found(format!("{}: {text}; nothing was changed", file.display()))),
        None => put_in_place().context(|| file.display().to_string()),
    };
    if placed.is_err() {
        let _ = fs::remove_file(&new);
    }
    placed
}

fn tell(file: &Path, is_clients: bool, found: &Found, done: bool) -> Outcome {
    let would = if done { "were" } else { "would be" };
    let (records, file_name, kinds) = (human_count(found.records), file.display(), kinds_text(&found.kinds));
    match is_clients {
        true => put(format_args!(
            "{} events in {records} records of {file_name} {would} erased; {kinds}",
            human_count(found.events)
        ))?,
        false => put(format_args!("{records} records of {file_name} {would} erased; {kinds}"))?,
    }
    match done {
        true if is_clients => note(format_args!(
            "ERASED. What is left is merged with   loligo merge {}\nCounts of directories that lost something are wrong then, until loligo fsck --repair",
            quoted(file)
        )),
        true => note("ERASED."),
        false if found.records == 0 => note("there is nothing to erase; nothing was changed"),
        false => note(format_args!("what is erased is lost\n{NOTHING_CHANGED}")),
    }
    Ok(())
}
