//! `loligo journal diff`: what two journals do not share. What counts as a difference is decided in `loligo_journal::diff`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use loligo_journal::Filter;
use loligo_journal::diff::{Difference, Side, compare, side};
use loligo_journal::inspect::{Entry, event_text};
use serde_json::{Value, json};

use super::filters::Filters;
use super::source::{Journal, Read, Records};
use crate::at::Store;
use crate::output::{Failure, Outcome, human_count, note, written};

/// `loligo journal diff`.
#[derive(Args)]
pub struct DiffArgs {
    /// A journal file, or a data directory: DIR, or DIR:RANK.
    pub a: PathBuf,
    /// Journal to compare with; likewise.
    pub b: PathBuf,
    #[command(flatten)]
    pub filters: Filters,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Counts of compared records.
#[derive(Default)]
pub struct Counts {
    /// Records that both have, and that are the same.
    pub same: u64,
    /// Records that only the first has.
    pub only_a: u64,
    /// Records that only the second has.
    pub only_b: u64,
    /// Records that are not the same.
    pub differ: u64,
}

impl Counts {
    /// True if all records are the same.
    pub fn is_same(&self) -> bool {
        self.only_a + self.only_b + self.differ == 0
    }
}

/// Prints what differs.
pub fn run(args: &DiffArgs) -> Outcome {
    let filter = args.filters.filter()?;
    let (a, b) = (named(&args.a, args.filters.rank)?, named(&args.b, args.filters.rank)?);
    if a.fs != b.fs {
        note("loligo: these are journals of two file systems");
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let failed = |e: std::io::Error| written("standard output", &e);
    let mut counts = Counts::default();
    let broken = walk(&a, &b, &filter, &mut |found| {
        counts.add(&found);
        let text = if args.json { json_of(&found).map(|line| line.to_string()) } else { text_of(&found) };
        text.map_or(Ok(()), |text| writeln!(out, "{text}").map_err(failed))
    })?;
    let Counts { same, only_a, only_b, differ } = &counts;
    let line = match args.json {
        true => json!({
            "same": same, "only_a": only_a, "only_b": only_b, "differ": differ, "error": broken,
        })
        .to_string(),
        false => format!(
            "{} records are the same, {} differ, {} are only in A ({}), {} only in B ({})",
            human_count(*same),
            human_count(*differ),
            human_count(*only_a),
            args.a.display(),
            human_count(*only_b),
            args.b.display(),
        ),
    };
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(failed)?;
    match broken {
        Some(text) => Err(Failure::found(format!("{text}; what comes behind was not compared"))),
        None if counts.is_same() => Ok(()),
        None => Err(Failure::found(format!("{} and {} differ", args.a.display(), args.b.display()))),
    }
}

/// The journal that a word of the command line names.
fn named(word: &Path, rank: Option<u32>) -> Result<Journal, Failure> {
    if word.is_dir() {
        return Journal::one_of_store(&Store::of_path(word)?, rank);
    }
    let text = word.to_str().filter(|_| !word.exists());
    if let Some((dir, rank)) = text.and_then(|text| text.rsplit_once(':'))
        && let Ok(rank) = rank.parse()
    {
        return Journal::one_of_store(&Store::of_path(Path::new(dir))?, Some(rank));
    }
    super::inspect::of_rank(Journal::file(word)?, rank)
}

/// The records with one number in two journals.
pub struct Found {
    a: Option<Read>,
    b: Option<Read>,
}

/// Shows all records of two journals side by side, those that the filter takes on one side at least. Says which of them is broken.
pub fn walk(
    a: &Journal,
    b: &Journal,
    filter: &Filter,
    show: &mut dyn FnMut(Found) -> Outcome,
) -> Result<Option<String>, Failure> {
    let (mut of_a, mut of_b) = (a.records(), b.records());
    let (mut next_a, mut next_b) = (of_a.next(), of_b.next());
    while let Some(side) = side(next_a.as_ref().map(|read| read.lsn), next_b.as_ref().map(|read| read.lsn)) {
        let mut found = Found { a: None, b: None };
        if side != Side::Second {
            found.a = std::mem::replace(&mut next_a, of_a.next());
        }
        if side != Side::First {
            found.b = std::mem::replace(&mut next_b, of_b.next());
        }
        if [&found.a, &found.b].into_iter().flatten().any(|read| read.is_taken(filter)) {
            show(found)?;
        }
    }
    let broken = |journal: &Journal, records: Records<'_>| {
        records.end().broken.map(|text| format!("{} is broken: {text}", journal.name()))
    };
    Ok(broken(a, of_a).or(broken(b, of_b)))
}

impl Counts {
    /// Counts what stands at one number.
    pub fn add(&mut self, found: &Found) {
        match (&found.a, &found.b) {
            (Some(a), Some(b)) if is_same(a, b) => self.same += 1,
            (Some(_), Some(_)) => self.differ += 1,
            (Some(_), None) => self.only_a += 1,
            (None, Some(_)) => self.only_b += 1,
            (None, None) => {}
        }
    }
}

fn is_same(a: &Read, b: &Read) -> bool {
    a.body == b.body || matches!((a.entry(), b.entry()), (Ok(a), Ok(b)) if compare(&a, &b).is_none())
}

/// A record by itself, for people: its first line says where it lies, which does not matter here.
fn record_text(read: &Read) -> String {
    match read.entry() {
        Ok(entry) => events_text(&entry),
        Err(text) => format!("\n  not understood: {text}"),
    }
}

fn events_text(entry: &Entry) -> String {
    let by =
        entry.origin.as_ref().map_or(String::new(), |origin| format!(" session {} seq {}", origin.session, origin.seq));
    let events: String = entry.events.iter().map(|event| format!("\n  {}", event_text(event))).collect();
    by + &events
}

fn text_of(found: &Found) -> Option<String> {
    match (&found.a, &found.b) {
        (Some(a), None) => Some(format!("only in A: lsn {}{}", a.lsn, record_text(a))),
        (None, Some(b)) => Some(format!("only in B: lsn {}{}", b.lsn, record_text(b))),
        (Some(a), Some(b)) if !is_same(a, b) => Some(match (a.entry(), b.entry()) {
            (Ok(one), Ok(other)) => format!("differs: lsn {}{}", a.lsn, difference_text(&one, &other)),
            _ => {
                format!("differs: lsn {}\n- {}\n+ {}", a.lsn, record_text(a).trim_start(), record_text(b).trim_start())
            }
        }),
        _ => None,
    }
}

fn difference_text(a: &Entry, b: &Entry) -> String {
    let Difference { origin, order, only_first, only_second } = compare(a, b).unwrap_or_default();
    let by = |entry: &Entry| {
        entry.origin.as_ref().map_or("the server's own".to_string(), |o| format!("session {} seq {}", o.session, o.seq))
    };
    let mut out = String::new();
    if origin {
        out += &format!("\n- {}\n+ {}", by(a), by(b));
    }
    if order {
        out += "\n  the same events, in another order";
    }
    only_first.iter().for_each(|event| out += &format!("\n- {}", event_text(event)));
    only_second.iter().for_each(|event| out += &format!("\n+ {}", event_text(event)));
    out
}

fn json_of(found: &Found) -> Option<Value> {
    let record = |read: &Option<Read>| match read.as_ref().map(Read::entry) {
        None => Value::Null,
        Some(Ok(entry)) => json!(entry),
        Some(Err(text)) => json!({ "error": text }),
    };
    let lsn = found.a.as_ref().or(found.b.as_ref())?.lsn.0;
    let only_in = match (&found.a, &found.b) {
        (Some(a), Some(b)) if is_same(a, b) => return None,
        (Some(_), Some(_)) => Value::Null,
        (Some(_), None) => "A".into(),
        _ => "B".into(),
    };
    Some(json!({ "lsn": lsn, "only_in": only_in, "a": record(&found.a), "b": record(&found.b) }))
}
