//! `loligo store check`: whether the store itself is what its formats promise, below the namespace, which `loligo fsck` checks. The checks
//! of their parts are the stores'; the records of journals are read here.

use clap::{Args, Subcommand};
use loligo_journal::inspect::{InspectError, verify};
use loligo_journal::{ReadConfig, ReadError, Source, Synced, Tail};
use loligo_store::{CheckProgress, Checked, Finding, Segment, Segments, StoreError, look};
use loligo_types::Lsn;
use serde_json::json;

use super::looked::Looked;
use crate::args::StoreArgs;
use crate::at::Store;
use crate::output::{Failure, Outcome, counted, human_bytes, note, put};
use crate::progress::{self, Bar, Unit};
use crate::service::{data_dir, format};
use crate::target;

/// A journal that is trimmed while it is read is read anew; after so many times it is taken for broken.
const TRIMS_MAX: usize = 20;
/// Remedy of a journal that lacks records.
const LOST: &str = "what the table does not have of its records is lost: leave the store as it is, and go back to a copy (loligo copy)";

/// Remedy of marks that cannot be read.
const MARKS: &str = "whether the newest segment is whole cannot be told; the next start makes the marks anew";

/// `loligo store`.
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Check that tables, journals and objects are what their formats promise. Writes nothing; servers go on meanwhile.
    Check(CheckArgs),
}

/// `loligo store check`.
#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Does what is asked of a store.
pub fn run(command: &StoreCommand) -> Outcome {
    let StoreCommand::Check(args) = command;
    if args.json {
        progress::none();
    }
    let store = match &args.store.store {
        Some(text) => Store::at(text, &args.store.conf, &args.store.ceph_user)?,
        None => match &args.store.data {
            Some(data) => Store::of(&data_dir(&target::data_of(data)?)?)?,
            None => Store::named(&args.store)?,
        },
    };
    let checked = check(&store)?;
    let wrong = checked.findings.iter().filter(|finding| finding.is_wrong).count();
    if args.json {
        put(format_args!("{:#}", document(&store, &checked)))?;
    } else {
        for Finding { is_wrong, text, remedy } in &checked.findings {
            put(format_args!("{}: {text}", if *is_wrong { "wrong" } else { "note " }))?;
            if !remedy.is_empty() {
                put(format_args!("       {remedy}"))?;
            }
        }
        put(line(&store, &checked))?;
    }
    if wrong == 0 {
        note(format_args!("{} is sound", store.name()));
        return Ok(());
    }
    let server = match &checked.server {
        Some(owner) => format!(" A server runs ({owner}): check again when it is stopped, to be sure."),
        None => String::new(),
    };
    Err(Failure::found(format!("{}: {wrong} problems found; nothing was changed", store.name()))
        .remedy(format!("what stands beside each of them.{server}")))
}

fn check(store: &Store) -> Result<Checked, Failure> {
    let failed = |error: StoreError| match error {
        StoreError::NotFound { .. } | StoreError::Foreign { .. } => {
            format::require(store).err().unwrap_or_else(|| Failure::new(error.to_string()))
        }
        error => Failure::new(format!("{}: {error}", store.name())),
    };
    let looked = Looked::of(store).map_err(failed)?;
    let mut bar: Option<(&str, Bar)> = None;
    let mut tell = |now: CheckProgress| {
        if bar.as_ref().is_none_or(|(stage, _)| *stage != now.stage) {
            // The one before goes first.
            bar = None;
            bar =
                Some((now.stage, Bar::start(now.stage, now.total, if now.bytes { Unit::Bytes } else { Unit::Count })));
        }
        if let Some((_, bar)) = &mut bar {
            bar.set(now.done);
        }
    };
    let mut checked = looked.run(&mut tell).map_err(failed)?;
    checked.findings.extend(unfinished(store, &looked, &checked));
    let bytes = checked.counts.get("segment_bytes").copied().unwrap_or_default();
    let mut bar = Bar::start("reading journals", bytes, Unit::Bytes);
    for rank in looked.ranks() {
        let mut records = 0;
        let has_server = checked.server.is_some();
        checked.findings.extend(look(|| journal(&looked, rank, has_server, &mut records, &mut bar)).map_err(failed)?);
        checked.count("records", records);
    }
    Ok(checked)
}

/// Says of a store that it holds no whole file system, however sound its parts are.
fn unfinished(store: &Store, looked: &Looked, checked: &Checked) -> Option<Finding> {
    if let Err(failure) = format::refuse_half_copy(store, |key| looked.get(key)) {
        let (what, how) = failure.parts();
        return Some(Finding::wrong(what, how.unwrap_or_default()));
    }
    let has_rows = checked.counts.get("rows").is_some_and(|rows| *rows > 0);
    (has_rows && looked.is_formatted() == Some(false)).then(|| {
        let text = "the table has rows, and not the one that says that a file system was made there: a load was cut off, or rows are lost";
        Finding::wrong(text, "after a load: remove the directory and load again; otherwise go back to a copy (loligo copy)")
    })
}

/// Reads a journal from its oldest record to its end.
fn journal(
    looked: &Looked,
    rank: u32,
    has_server: bool,
    records: &mut u64,
    bar: &mut Bar,
) -> Result<Vec<Finding>, StoreError> {
    let wrong =
        |text: String, remedy: &str| Ok(vec![Finding::wrong(format!("journal of rank {rank}: {text}"), remedy)]);
    // Before the journal: what was durable by now is there when it is read, or newer segments are.
    let synced = match looked.synced(rank) {
        Ok(synced) => synced.map(|Segment { id, len }| Synced { segment: id, bytes: len }),
        Err(error) => return wrong(error.to_string(), MARKS),
    };
    let config = ReadConfig { fs: looked.fs_id(), rank: Some(rank), from: Lsn(0), synced };
    // Before the journal: what the table says by now the journal has by then.
    let before = looked.replay_from(rank);
    let mut trims = 0;
    let report = loop {
        let report = verify(Bytes { segments: looked.segments(rank), bar }, config);
        match report.end {
            Err(InspectError::Read(ReadError::Source(StoreError::NotFound { .. }))) if trims < TRIMS_MAX => trims += 1,
            _ => break report,
        }
    };
    *records = report.records;
    let Tail { next_lsn, segments, torn, .. } = match report.end {
        Ok(tail) => tail,
        Err(InspectError::Read(ReadError::Source(error))) => return Err(error),
        Err(error) => {
            let text = error.to_string();
            return wrong(text.split(';').next().unwrap_or(&text).to_string(), LOST);
        }
    };
    if let Some(from) = before.filter(|from| *from > next_lsn) {
        return wrong(
            format!(
                "it ends before record {next_lsn}, and the table says that it has come to {from}: it was exchanged for an older one, or cut"
            ),
            LOST,
        );
    }
    // Behind the journal: what the table says now is at least as far as when the journal was trimmed.
    let after = looked.replay_from(rank).map_or(1, |from| from.0.max(1));
    if let Some(oldest) = segments.first().filter(|oldest| oldest.first.0 > after) {
        return wrong(
            format!("it begins with record {}, and what the table lacks begins with {after}", oldest.first),
            LOST,
        );
    }
    Ok(match torn {
        Some(torn) if !has_server => vec![Finding::note(
            format!(
                "journal of rank {rank}: it ends with a torn write in segment {} at offset {} ({} bytes), which was never acknowledged",
                torn.segment, torn.offset, torn.bytes
            ),
            "",
        )],
        _ => Vec::new(),
    })
}

/// Segments as the reader wants them.
struct Bytes<'a> {
    segments: Box<dyn Segments>,
    bar: &'a mut Bar,
}

impl Source for Bytes<'_> {
    type Error = StoreError;

    fn list(&mut self) -> Result<Vec<(u64, u64)>, StoreError> {
        Ok(self.segments.list()?.into_iter().map(|segment| (segment.id, segment.len)).collect())
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let read = self.segments.read_at(segment, offset, buf)?;
        self.bar.add(read as u64);
        Ok(read)
    }
}

fn line(store: &Store, checked: &Checked) -> String {
    let of = |what: &str| checked.counts.get(what).copied().unwrap_or_default();
    let count = |what: &str, thing: &str| counted(of(what), thing);
    let ranges = if of("ranges") > 0 { format!(" in {}", count("ranges", "range")) } else { String::new() };
    let mut line = format!(
        "{}: {}{ranges}, {} ({}, {}, {}), {} ({})",
        store.name(),
        count("rows", "row"),
        count("journals", "journal"),
        count("segments", "segment"),
        human_bytes(of("segment_bytes")),
        count("records", "record"),
        count("objects", "object"),
        human_bytes(of("object_bytes")),
    );
    if of("objects_not_comparable") > 0 {
        let open = count("objects_not_comparable", "object");
        line += &format!("; {open} were being changed when the machine failed: nothing to compare them with");
    }
    if let Some(owner) = &checked.server {
        line += &format!("; a server runs: {owner}");
    }
    line
}

fn document(store: &Store, checked: &Checked) -> serde_json::Value {
    let found = |f: &Finding| json!({ "wrong": f.is_wrong, "text": f.text, "remedy": f.remedy });
    json!({
        "store": store.name(),
        "sound": !checked.findings.iter().any(|finding| finding.is_wrong),
        "findings": checked.findings.iter().map(found).collect::<Vec<_>>(),
        "counts": checked.counts,
        "server": checked.server,
    })
}
