//! `loligo journal erase`: records of a journal that say nothing any more, for a journal with a record that does harm. Each is replaced by an
//! empty one, for the numbers of records have no holes. Here: of a rank's journal in its store. Of a file: `erase_file.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use loligo_journal::inspect::Entry;
use loligo_journal::{Filter, Owner, PatchError};
use loligo_types::{Event, Lsn, Rank};
use serde_json::json;

use super::super::offline;
use super::filters::Filters;
use super::fits::Told;
use super::inspect::{count_kinds, kinds_text};
use super::replace::{New, replace};
use super::source::Journal;
use super::{NOTHING_CHANGED, backup, builds, erase_file};
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, human_count, note, put, quoted};

/// `loligo journal erase`.
#[derive(Args)]
pub struct EraseArgs {
    /// A journal file, such as a client's, whose program has ended.
    #[arg(conflicts_with_all = ["data", "rank"])]
    pub file: Option<PathBuf>,
    /// Data directory; it must not be served.
    #[arg(long, value_name = "DIR", required_unless_present = "file")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub filters: Filters,
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Where what was there is kept; without it, beside the data directory or the file.
    #[arg(long, value_name = "FILE")]
    pub backup: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// The records that would be erased, counted.
#[derive(Default)]
pub(super) struct Found {
    pub records: u64,
    pub first: Option<Lsn>,
    /// Of those, such as the table has already.
    in_table: u64,
    pub kinds: BTreeMap<&'static str, u64>,
    /// With letters to other ranks, or what is known of such.
    letters: u64,
    pub not_understood: u64,
    pub events: u64,
    /// Of a client's, those that say where groups of records begin and end.
    pub bounds: u64,
}

/// Says what it would do, or does it.
pub fn run(args: &EraseArgs) -> Outcome {
    let filter = args.filters.filter()?;
    if filter.is_all() {
        return Err(Failure::usage("which records are to be erased is not said")
            .remedy("give at least one of --lsn, --kind, --ino, --name, --session; inspect shows what they take"));
    }
    match (&args.file, &args.data) {
        (Some(file), _) => erase_file::run(args, file, &filter),
        (None, data) => of_store(args, data.as_deref().unwrap_or(Path::new(".")), &filter),
    }
}

fn of_store(args: &EraseArgs, data: &Path, filter: &Filter) -> Outcome {
    let at = Store::of_path(data)?;
    let store = offline::open(&at, !args.dry_run)?;
    let journal = Journal::one_of_store(&at, args.filters.rank)?;
    let rank = Rank(u16::try_from(journal.owner.rank()).unwrap_or(u16::MAX));
    let told = Told::of(&*store, rank)?;
    let found = look(&journal, filter, Some(&told), !args.json)?;
    nothing_builds_on_it(&journal, filter, told.from)?;
    let kept = match !args.dry_run && found.records > 0 {
        true => backup::make(&journal, args.backup.as_deref(), at.data())?,
        false => None,
    };
    if let Some(kept) = &kept {
        let file = Journal::file(&kept.path)?;
        let first = kept.made.first.unwrap_or(Lsn(1));
        let next = kept.made.last.map_or(first, Lsn::next);
        replace(&*store, &New { file: &file, first, next, blank: Some(filter) })?;
        store.close().context(|| data.display().to_string())?;
    }
    if args.json {
        return put(format_args!(
            "{:#}",
            json!({
                "done": kept.is_some(), "rank": rank.0, "records": found.records, "first": found.first.map(|lsn| lsn.0),
                "in_table": found.in_table, "kinds": found.kinds, "with_letters": found.letters,
                "not_understood": found.not_understood, "backup": kept.map(|kept| kept.path.display().to_string()),
            })
        ));
    }
    tell(data, rank, &found, kept.is_some())
}

/// Reads the journal; `show`: prints what would be erased. `told`: what the table has of it.
pub(super) fn look(journal: &Journal, filter: &Filter, told: Option<&Told>, show: bool) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut records = journal.records();
    while let Some(read) = records.next() {
        if read.is_taken(filter) {
            let entry = read.entry().map(|mut entry| {
                if matches!(journal.owner, Owner::Client(_)) {
                    entry.events.retain(|event| filter.takes_event(event));
                }
                entry
            });
            found.count(read.lsn, entry.as_ref().ok(), told);
            match entry {
                _ if !show => {}
                Ok(entry) => put(entry)?,
                Err(text) => put(format_args!("lsn {} is not understood: {text}", read.lsn))?,
            }
        }
    }
    match records.end().broken {
        None => Ok(found),
        Some(text) => Err(Failure::found(format!("{}: {text}; nothing was changed", journal.name())).remedy(match told {
            Some(_) => "export what there is of it, and import that or another copy: loligo journal export, loligo journal import",
            None => "export what there is of it, and erase in that: loligo journal export --from FILE OUT",
        })),
    }
}

/// Refuses to erase what a record that stays builds on: nothing could replay that journal.
pub(super) fn nothing_builds_on_it(journal: &Journal, filter: &Filter, from: Lsn) -> Outcome {
    let Some((lsn, cause)) = builds::first_without_base(journal, from, Some(filter)) else { return Ok(()) };
    if builds::first_without_base(journal, from, None).is_some_and(|(before, _)| before <= lsn) {
        // It cannot be replayed as it is.
        return Ok(());
    }
    let (PatchError::NoBase { ino, .. } | PatchError::OtherBase { ino, .. }) = cause;
    Err(Failure::new(format!("record {lsn} builds on what would be erased: {cause}; nothing was changed"))
        .remedy(format!("erase all changes of that inode: --ino {ino}; or the later ones, too: --lsn")))
}

impl Found {
    fn count(&mut self, lsn: Lsn, entry: Option<&Entry>, told: Option<&Told>) {
        self.records += 1;
        self.first.get_or_insert(lsn);
        self.in_table += u64::from(told.is_some_and(|told| lsn < told.from));
        let Some(entry) = entry else {
            self.not_understood += 1;
            return;
        };
        self.events += entry.events.len() as u64;
        count_kinds(&mut self.kinds, entry);
        let has_letter = entry.events.iter().any(|event| matches!(event, Event::Letter { .. } | Event::Peer(_)));
        self.letters += u64::from(has_letter);
        self.bounds += u64::from(entry.events.iter().any(|event| matches!(event, Event::Decoupled(_))));
    }
}

fn tell(data: &Path, rank: Rank, found: &Found, done: bool) -> Outcome {
    let would = if done { "were" } else { "would be" };
    put(format_args!(
        "{} records of rank {rank} {would} erased; {}",
        human_count(found.records),
        kinds_text(&found.kinds)
    ))?;
    if found.in_table > 0 {
        put(format_args!(
            "{} of them are in the table already, which stays as it is: what they changed stays",
            human_count(found.in_table)
        ))?;
    }
    if found.letters > 0 {
        put(format_args!(
            "{} of them have letters to or from other ranks: what these promised is lost, and the other rank's journal does not know",
            human_count(found.letters)
        ))?;
    }
    match done {
        true => note(format_args!(
            "ERASED. What later records and the table build on that may be missing now: before anybody serves it,\n  \
             check it   loligo fsck --data {0}\n  mend it    loligo fsck --data {0} --repair",
            quoted(data)
        )),
        false if found.records == 0 => note("there is nothing to erase; nothing was changed"),
        false => note(format_args!(
            "erasing loses changes that were acknowledged; the file system may need loligo fsck --repair after it\n{NOTHING_CHANGED}"
        )),
    }
    Ok(())
}
