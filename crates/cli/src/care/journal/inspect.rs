//! `loligo journal inspect`: segments and records for a person or a program. Not here: what they mean.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use loligo_journal::inspect::Entry;
use loligo_journal::{Filter, Owner, Torn};
use loligo_types::Lsn;
use serde_json::{Value, json};

use super::filters::Filters;
use super::source::{End, Journal};
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, human_bytes, human_count, written};
use crate::target;

/// `loligo journal inspect`.
#[derive(Args)]
pub struct InspectArgs {
    /// Data directory, whose ranks' journals are read.
    #[arg(long, value_name = "DIR", required_unless_present = "file", conflicts_with = "file")]
    pub data: Option<PathBuf>,
    /// A journal file, or without --data the same directory.
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub filters: Filters,
    /// Only the summary of each segment, and how many events there are of each kind.
    #[arg(long)]
    pub summary: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// One segment.
#[derive(Default)]
struct Segment {
    file_bytes: u64,
    records: u64,
    events: u64,
    bytes: u64,
    first: Option<Lsn>,
    last: Option<Lsn>,
}

/// Prints the journals.
pub fn run(args: &InspectArgs) -> Outcome {
    let filter = args.filters.filter()?;
    let journals = match (&args.data, &args.file) {
        (Some(data), _) => Journal::of_store(&Store::of_path(data)?, args.filters.rank)?,
        (None, Some(dir)) if dir.is_dir() && is_store(dir)? => {
            Journal::of_store(&Store::of_path(dir)?, args.filters.rank)?
        }
        (None, Some(file)) => vec![of_rank(Journal::file(file)?, args.filters.rank)?],
        (None, None) => Vec::new(),
    };
    let mut broken = None;
    for journal in &journals {
        broken = inspect(journal, &filter, args)?.or(broken);
    }
    match broken {
        None => Ok(()),
        Some(text) if args.file.as_ref().is_some_and(|file| !file.is_dir()) => Err(Failure::found(text)),
        Some(text) => Err(Failure::found(text).remedy("copy the data directory, then: loligo fsck")),
    }
}

/// True if a directory in place of a file is a data directory, or in a mount of its server.
fn is_store(dir: &Path) -> Result<bool, Failure> {
    Ok(target::served_by(dir)?.is_some() || Store::of(dir)?.identify().is_ok())
}

/// Refuses a file that is not of the rank that was asked for.
pub fn of_rank(journal: Journal, rank: Option<u32>) -> Result<Journal, Failure> {
    match rank {
        Some(rank) if journal.owner != Owner::Rank(rank) => {
            Err(Failure::usage(format!("{} is not of rank {rank}", journal.name())))
        }
        _ => Ok(journal),
    }
}

/// Prints one journal; the text says what is broken in it.
fn inspect(journal: &Journal, filter: &Filter, args: &InspectArgs) -> Result<Option<String>, Failure> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let failed = |e: std::io::Error| written("standard output", &e);
    let mut segments: BTreeMap<u64, Segment> = BTreeMap::new();
    let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut not_understood = None;
    let mut records = journal.records();
    while let Some(read) = records.next() {
        match read.entry() {
            Ok(entry) if filter.takes(entry.lsn, entry.origin.as_ref(), &entry.events) => {
                segments.entry(entry.segment).or_default().count(&entry);
                count_kinds(&mut kinds, &entry);
                if !args.summary {
                    let line = match args.json {
                        true => serde_json::to_string(&entry).context(|| "a record as JSON".into())?,
                        false => entry.to_string(),
                    };
                    writeln!(out, "{line}").map_err(failed)?;
                }
            }
            Ok(_) => {}
            Err(text) => not_understood = Some(text),
        }
    }
    let end = records.end();
    let listed = if end.segments.is_empty() { journal.segments()? } else { end.segments.clone() };
    for (id, len) in listed {
        segments.entry(id).or_default().file_bytes = len;
    }
    let broken = end.broken.clone().or(not_understood);
    for (id, segment) in &segments {
        writeln!(out, "{}", segment.line(journal.owner, *id, args.json)).map_err(failed)?;
    }
    if args.summary && !args.json {
        writeln!(out, "{}: {}", journal.owner, kinds_text(&kinds)).map_err(failed)?;
    }
    let line = match args.json {
        true => end_json(journal, &end, broken.as_deref(), args.summary.then_some(&kinds)).to_string(),
        false => end_text(journal.owner, &end, broken.as_deref()),
    };
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(failed)?;
    Ok(broken.or_else(|| (end.missing > 0).then(|| format!("{}: {}", journal.name(), missing_text(end.missing)))))
}

/// Counts the events of a record by their kinds.
pub fn count_kinds(kinds: &mut BTreeMap<&'static str, u64>, entry: &Entry) {
    for event in &entry.events {
        *kinds.entry(loligo_journal::codec::event_name(event)).or_default() += 1;
    }
}

/// Number of events of each kind, in words.
pub fn kinds_text(kinds: &BTreeMap<&'static str, u64>) -> String {
    if kinds.is_empty() {
        return "no events".to_string();
    }
    let each = kinds.iter().map(|(name, count)| format!("{} {name}", human_count(*count)));
    format!("events: {}", each.collect::<Vec<_>>().join(", "))
}

fn missing_text(missing: u64) -> String {
    format!("it was cut off after it was written, and {} of its records are missing", human_count(missing))
}

impl Segment {
    fn count(&mut self, entry: &Entry) {
        self.records += 1;
        self.events += entry.events.len() as u64;
        self.bytes += entry.size;
        self.first.get_or_insert(entry.lsn);
        self.last = Some(entry.lsn);
    }

    fn line(&self, owner: Owner, id: u64, json: bool) -> String {
        let Segment { file_bytes, records, events, bytes, .. } = self;
        let (first, last) = (self.first.map(|lsn| lsn.0), self.last.map(|lsn| lsn.0));
        if json {
            let mut line = json!({
                "segment": id, "file_bytes": file_bytes, "records": records, "events": events, "bytes": bytes,
                "first": first, "last": last,
            });
            put_owner(&mut line, owner);
            return line.to_string();
        }
        let range = match (first, last) {
            (Some(first), Some(last)) => format!("lsn {first} to {last}"),
            _ => "no records".to_string(),
        };
        format!(
            "{owner} segment {id}: {range}; {} records, {} events, {} of {}",
            human_count(*records),
            human_count(*events),
            human_bytes(*bytes),
            human_bytes(*file_bytes)
        )
    }
}

/// Says in a document whose journal it is about.
pub fn put_owner(line: &mut Value, owner: Owner) {
    match owner {
        Owner::Rank(rank) => line["rank"] = rank.into(),
        Owner::Client(client) => line["client"] = client.into(),
    }
}

/// A torn end as JSON.
pub fn torn_json(torn: Option<Torn>) -> Value {
    torn.map_or(
        Value::Null,
        |t| json!({ "segment": t.segment, "offset": t.offset, "bytes": t.bytes, "records": t.records }),
    )
}

fn end_json(journal: &Journal, end: &End, broken: Option<&str>, kinds: Option<&BTreeMap<&'static str, u64>>) -> Value {
    let mut line = json!({ "next_lsn": end.next_lsn.map(|lsn| lsn.0), "torn": torn_json(end.torn), "error": broken });
    put_owner(&mut line, journal.owner);
    if let Some(header) = journal.header() {
        line["finished"] = header.totals.is_some().into();
        line["selection"] = header.selection.into();
        line["missing"] = end.missing.into();
    }
    if let Some(kinds) = kinds {
        line["kinds"] = json!(kinds);
    }
    line
}

/// End of a journal, in words.
pub fn end_text(owner: Owner, end: &End, broken: Option<&str>) -> String {
    match (broken, end.torn, end.next_lsn) {
        (Some(text), ..) => format!("{owner}: broken: {text}"),
        (None, _, _) if end.missing > 0 => format!("{owner}: {}", missing_text(end.missing)),
        (None, Some(t), _) => format!(
            "{owner}: ends with a torn write in segment {} at offset {} ({} bytes), which was never acknowledged",
            t.segment, t.offset, t.bytes
        ),
        (None, None, Some(next)) => format!("{owner}: whole; the next record is {next}"),
        (None, None, None) => format!("{owner}: not read to its end"),
    }
}
