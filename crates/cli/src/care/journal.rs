//! `loligo journal inspect`: segments and records for a person or a program. Not here: what they mean.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use loligo_driver::server::LogSource;
use loligo_journal::inspect::{Entry, InspectError, Inspector};
use loligo_journal::{ReadConfig, Tail};
use loligo_store::{LogDir, StoreError};
use loligo_types::Lsn;
use serde_json::json;

use super::offline;
use crate::output::{Context, Failure, Outcome, human_bytes, human_count, written};

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

/// Prints the journals of all ranks.
pub fn run(data: &Path, summary: bool, json: bool) -> Outcome {
    let store = offline::store(data)?;
    let ranks = store.ranks().context(|| format!("journals of {}", data.display()))?;
    let mut broken = None;
    for rank in ranks {
        let log = store.log_dir(rank).context(|| format!("journal of rank {rank}"))?;
        broken = inspect(rank, log, summary, json)?.or(broken);
    }
    match broken {
        None => Ok(()),
        Some(text) => Err(Failure::found(text).remedy("copy the data directory, then: loligo fsck")),
    }
}

/// Prints one journal; the text says what is broken in it.
fn inspect(rank: u32, log: Arc<dyn LogDir>, summary: bool, json: bool) -> Result<Option<String>, Failure> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut segments: BTreeMap<u64, Segment> = BTreeMap::new();
    for segment in log.list().context(|| format!("journal of rank {rank}"))? {
        segments.entry(segment.id).or_default().file_bytes = segment.len;
    }
    let config = ReadConfig { rank: Some(rank), ..ReadConfig::default() };
    let mut broken = None;
    let mut tail = None;
    match Inspector::open(LogSource::new(log), config) {
        Err(error) => broken = Some(error.to_string()),
        Ok(mut inspector) => {
            for entry in &mut inspector {
                match entry {
                    Ok(entry) => {
                        segments.entry(entry.segment).or_default().count(&entry);
                        if !summary {
                            let line = if json { entry.to_json() } else { entry.to_string() };
                            writeln!(out, "{line}").map_err(|e| written("standard output", &e))?;
                        }
                    }
                    Err(error) => {
                        let known: &InspectError<StoreError> = &error;
                        broken = Some(known.to_string());
                    }
                }
            }
            tail = inspector.tail();
        }
    }
    for (id, segment) in &segments {
        writeln!(out, "{}", segment.line(rank, *id, json)).map_err(|e| written("standard output", &e))?;
    }
    writeln!(out, "{}", end_line(rank, tail, broken.as_deref(), json)).map_err(|e| written("standard output", &e))?;
    out.flush().map_err(|e| written("standard output", &e))?;
    Ok(broken)
}

impl Segment {
    fn count(&mut self, entry: &Entry) {
        self.records += 1;
        self.events += entry.events.len() as u64;
        self.bytes += entry.size;
        self.first.get_or_insert(entry.lsn);
        self.last = Some(entry.lsn);
    }

    fn line(&self, rank: u32, id: u64, json: bool) -> String {
        let Segment { file_bytes, records, events, bytes, .. } = self;
        let (first, last) = (self.first.map(|lsn| lsn.0), self.last.map(|lsn| lsn.0));
        if json {
            return json!({
                "rank": rank, "segment": id, "file_bytes": file_bytes, "records": records, "events": events,
                "bytes": bytes, "first": first, "last": last,
            })
            .to_string();
        }
        let range = match (first, last) {
            (Some(first), Some(last)) => format!("lsn {first} to {last}"),
            _ => "no records".to_string(),
        };
        format!(
            "rank {rank} segment {id}: {range}; {} records, {} events, {} of {}",
            human_count(*records),
            human_count(*events),
            human_bytes(*bytes),
            human_bytes(*file_bytes)
        )
    }
}

fn end_line(rank: u32, tail: Option<Tail>, broken: Option<&str>, json: bool) -> String {
    let torn = tail.as_ref().and_then(|tail| tail.torn);
    if json {
        let torn =
            torn.map(|t| json!({ "segment": t.segment, "offset": t.offset, "bytes": t.bytes, "records": t.records }));
        return json!({ "rank": rank, "next_lsn": tail.map(|tail| tail.next_lsn.0), "torn": torn, "error": broken })
            .to_string();
    }
    match (broken, torn, tail) {
        (Some(text), ..) => format!("rank {rank}: broken: {text}"),
        (None, Some(t), _) => format!(
            "rank {rank}: ends with a torn write in segment {} at offset {} ({} bytes), which was never acknowledged",
            t.segment, t.offset, t.bytes
        ),
        (None, None, Some(tail)) => format!("rank {rank}: whole; the next record is {}", tail.next_lsn),
        (None, None, None) => format!("rank {rank}: not read to its end"),
    }
}
