//! `loligo journal import`: a journal file in the place of a rank's journal that is damaged or lost.

use std::path::PathBuf;

use clap::Args;
use loligo_journal::Filter;
use serde_json::json;

use super::super::offline;
use super::diff::{self, Counts};
use super::fits::{self, Fits};
use super::inspect::kinds_text;
use super::replace::{New, replace};
use super::source::Journal;
use super::{NOTHING_CHANGED, backup};
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, human_count, note, put, quoted};

/// `loligo journal import`.
#[derive(Args)]
pub struct ImportArgs {
    /// The journal file.
    pub file: PathBuf,
    /// Data directory; it must not be served.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The rank whose journal it is.
    #[arg(long, value_name = "N")]
    pub rank: u32,
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Where what was there is kept; without it, beside the data directory.
    #[arg(long, value_name = "FILE")]
    pub backup: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Says what it would do, or does it.
pub fn run(args: &ImportArgs) -> Outcome {
    let at = Store::of_path(&args.data)?;
    let store = offline::open(&at, !args.dry_run)?;
    let fits = fits::check(&args.file, &*store, &args.data, Some(args.rank))?;
    let there = Journal::of_store(&at, None)?.into_iter().find(|journal| journal.owner == fits.file.owner);
    let (counts, broken) = match &there {
        Some(there) => compare(there, &fits.file)?,
        None => (Counts::default(), None),
    };
    let kept = match (&there, !args.dry_run) {
        (Some(there), true) => backup::make(there, args.backup.as_deref(), at.data())?,
        _ => None,
    };
    if !args.dry_run {
        replace(&*store, &New { file: &fits.file, first: fits.first, next: fits.next, blank: None })?;
        store.close().context(|| args.data.display().to_string())?;
    }
    if args.json {
        return put(format_args!(
            "{:#}",
            json!({
                "done": !args.dry_run, "rank": args.rank, "first": fits.first.0, "next_lsn": fits.next.0,
                "replay_from": fits.from.0, "kinds": fits.kinds, "same": counts.same, "differ": counts.differ,
                "dropped": counts.only_a, "added": counts.only_b, "error_before": broken,
                "backup": kept.map(|kept| kept.path.display().to_string()),
            })
        ));
    }
    tell(args, &fits, &counts, broken.as_deref())
}

/// Compares the rank's journal with the file.
fn compare(there: &Journal, file: &Journal) -> Result<(Counts, Option<String>), Failure> {
    let mut counts = Counts::default();
    let broken = diff::walk(there, file, &Filter::default(), &mut |found| {
        counts.add(&found);
        Ok(())
    })?;
    Ok((counts, broken))
}

fn tell(args: &ImportArgs, fits: &Fits, counts: &Counts, broken: Option<&str>) -> Outcome {
    let (rank, last) = (args.rank, fits.next.0 - 1);
    put(format_args!(
        "{}: records {} to {last}; {}; the table of {} lacks what begins with record {}",
        fits.file.name(),
        fits.first,
        kinds_text(&fits.kinds),
        args.data.display(),
        fits.from
    ))?;
    let would = if !args.dry_run { "was" } else { "would be" };
    if let Some(text) = broken {
        put(format_args!("the journal of rank {rank} {would} replaced; {text}"))?;
    }
    put(format_args!(
        "{} records {would} as before, {} {would} others, {} {would} added, {} {would} dropped",
        human_count(counts.same),
        human_count(counts.differ),
        human_count(counts.only_b),
        human_count(counts.only_a)
    ))?;
    match !args.dry_run {
        true => note(format_args!(
            "imported; the next server recovers from it. Check it first: loligo fsck --data {}",
            quoted(&args.data)
        )),
        false => note(NOTHING_CHANGED),
    }
    Ok(())
}
