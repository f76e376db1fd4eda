//! `loligo journal apply`: what journals say is brought into the table, as a server does when it recovers and checkpoints. Not here: how;
//! that is `loligo_driver::Offline`'s, as for fsck and dump.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use loligo_driver::Offline;
use loligo_driver::offline::Pending;
use loligo_store::Backend;
use loligo_types::Rank;
use serde_json::json;

use super::super::offline;
use super::fits::{self, Fits, Told};
use super::replace::{New, replace};
use super::source::Journal;
use super::{NOTHING_CHANGED, backup};
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, human_count, note, put, quoted};

/// `loligo journal apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// A journal file, which takes the place of its rank's journal first, as with import.
    pub file: Option<PathBuf>,
    /// Data directory; it must not be served.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Only show what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Where the journals are kept as they were (of several ranks: FILE.N); without it, beside the data directory.
    #[arg(long, value_name = "FILE")]
    pub backup: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Records of one rank that the table may lack.
struct Lacking {
    rank: Rank,
    first: u64,
    next: u64,
}

/// Says what it would do, or does it.
pub fn run(args: &ApplyArgs) -> Outcome {
    let at = Store::of_path(&args.data)?;
    let store = offline::open(&at, !args.dry_run)?;
    let fits = match &args.file {
        Some(file) => Some(fits::check(file, &*store, &args.data, None)?),
        None => None,
    };
    if let Some(fits) = &fits {
        drops_nothing(&at, fits)?;
    }
    let opened = open(&store, fits.as_ref(), &args.data)?;
    if let [first, ..] = opened.damage() {
        return Err(Failure::found(format!("{}: {first}; nothing was changed", args.data.display()))
            .remedy(format!("loligo fsck --data {} says all, and mends it with --repair", quoted(&args.data))));
    }
    let pending = opened.pending().context(|| "reading the table".to_string())?;
    let lacking = lacking(&opened, &*store)?;
    let todo = !pending.is_empty() || !lacking.is_empty() || fits.is_some();
    let mut kept = Vec::new();
    if !args.dry_run && todo {
        kept = keep(args, &at, &lacking, fits.as_ref())?;
        let mut opened = opened;
        if let Some(fits) = &fits {
            replace(&*store, &New { file: &fits.file, first: fits.first, next: fits.next, blank: None })?;
            // As it lies in its place now.
            opened = open(&store, None, &args.data)?;
        }
        opened.close().context(|| format!("writing into {}", args.data.display()))?;
    }
    let done = !args.dry_run && todo;
    if args.json {
        return put(format_args!("{:#}", document(done, &pending, &lacking, &kept)));
    }
    tell(args, done, todo, &pending, &lacking)
}

/// Refuses a file that ends before the journal in whose place it would come: what comes behind would be lost.
fn drops_nothing(at: &Store, fits: &Fits) -> Outcome {
    let Some(there) = Journal::of_store(at, None)?.into_iter().find(|journal| journal.owner == fits.file.owner) else {
        return Ok(());
    };
    let mut records = there.records();
    let mut last = None;
    while let Some(read) = records.next() {
        last = Some(read.lsn);
    }
    match last.filter(|last| *last >= fits.next) {
        None => Ok(()),
        Some(last) => Err(Failure::new(format!(
            "{} ends with record {}, and the journal of {} goes on to record {last}: that would be lost",
            fits.file.name(),
            fits.next.0 - 1,
            there.owner
        ))
        .remedy("apply the journal that is there, without a file; loligo journal import puts the file in its place all the same")),
    }
}

/// All journals, with a file in the place of one if it is to be there.
fn open(store: &Arc<dyn Backend>, fits: Option<&Fits>, data: &Path) -> Result<Offline, Failure> {
    match fits.map(|fits| (fits.rank, fits.file.path())) {
        Some((rank, Some(path))) => {
            let mut segments = Journal::file_segments(path)?;
            offline::records_with(store.clone(), (rank, &mut segments), data)
        }
        _ => offline::records(store.clone(), data),
    }
}

fn lacking(opened: &Offline, store: &dyn Backend) -> Result<Vec<Lacking>, Failure> {
    let mut all = Vec::new();
    for (rank, tail) in opened.tails() {
        let (first, next) = (Told::of(store, *rank)?.from.0, tail.next_lsn.0);
        if first < next {
            all.push(Lacking { rank: *rank, first, next });
        }
    }
    Ok(all)
}

/// Backups of the journals that are brought in, and of that which is replaced.
fn keep(args: &ApplyArgs, at: &Store, lacking: &[Lacking], fits: Option<&Fits>) -> Result<Vec<PathBuf>, Failure> {
    let is_meant = |journal: &Journal| {
        fits.is_some_and(|fits| fits.file.owner == journal.owner)
            || lacking.iter().any(|one| u32::from(one.rank.0) == journal.owner.rank())
    };
    let journals: Vec<Journal> = Journal::of_store(at, None)?.into_iter().filter(is_meant).collect();
    let mut kept = Vec::new();
    for journal in &journals {
        let several = journals.len() > 1;
        let to = args.backup.as_ref().map(|path| match several {
            true => backup::with_suffix(path, &format!(".{}", journal.owner.rank())),
            false => path.clone(),
        });
        kept.extend(backup::make(journal, to.as_deref(), at.data())?.map(|backup| backup.path));
    }
    Ok(kept)
}

fn document(
    done: bool,
    pending: &BTreeMap<&'static str, Pending>,
    lacking: &[Lacking],
    kept: &[PathBuf],
) -> serde_json::Value {
    let rows: BTreeMap<_, _> = pending
        .iter()
        .map(|(kind, Pending { put, removed })| (kind, json!({ "put": put, "removed": removed })))
        .collect();
    let ranks: Vec<_> =
        lacking.iter().map(|one| json!({ "rank": one.rank.0, "first": one.first, "next_lsn": one.next })).collect();
    let kept: Vec<_> = kept.iter().map(|path| path.display().to_string()).collect();
    json!({ "done": done, "rows": rows, "ranks": ranks, "backups": kept })
}

fn tell(
    args: &ApplyArgs,
    done: bool,
    todo: bool,
    pending: &BTreeMap<&'static str, Pending>,
    lacking: &[Lacking],
) -> Outcome {
    if !todo {
        return put(format_args!(
            "the table of {} has all that the journals say; nothing was changed",
            args.data.display()
        ));
    }
    for Lacking { rank, first, next } in lacking {
        put(format_args!(
            "rank {rank}: the table {} records {first} to {}",
            if done { "lacked" } else { "may lack" },
            next - 1
        ))?;
    }
    let would = if done { "were" } else { "would be" };
    for (kind, Pending { put: new, removed }) in pending {
        put(format_args!("{kind}: {} rows {would} written, {} removed", human_count(*new), human_count(*removed)))?;
    }
    if pending.is_empty() {
        put(format_args!("no row {}", if done { "changed" } else { "would change" }))?;
    }
    match done {
        true => note(format_args!("applied; check it: loligo fsck --data {}", quoted(&args.data))),
        false => note(NOTHING_CHANGED),
    }
    Ok(())
}
