//! `loligo journal export`: a journal, or some of its records, as a journal file (docs/formats/journal-file.md). Backups of journals are made
//! in the same way, and files of which records were erased.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use loligo_journal::{FileWriter, Filter};
use loligo_types::Lsn;
use serde_json::json;

use super::filters::Filters;
use super::inspect::{end_text, put_owner, torn_json};
use super::source::{End, Journal};
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, human_bytes, human_count, put, written};
use crate::progress::{Bar, Unit};

/// Bytes written at once.
const CHUNK: usize = 1 << 20;

/// `loligo journal export`.
#[derive(Args)]
pub struct ExportArgs {
    /// Data directory.
    #[arg(long, value_name = "DIR", required_unless_present = "from")]
    pub data: Option<PathBuf>,
    /// A journal file in place of a data directory, such as a client's; of one that is broken, what comes before.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "rank"])]
    pub from: Option<PathBuf>,
    /// File to make; it must not be there.
    pub out: PathBuf,
    #[command(flatten)]
    pub filters: Filters,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Makes the file, and says what is in it.
pub fn run(args: &ExportArgs) -> Outcome {
    let filter = args.filters.filter()?;
    let journal = match (&args.from, &args.data) {
        (Some(file), _) => Journal::file(file)?,
        (None, data) => {
            Journal::one_of_store(&Store::of_path(data.as_deref().unwrap_or(Path::new(".")))?, args.filters.rank)?
        }
    };
    let made = write(&journal, Pick::Taken(&filter), &args.out)?;
    if args.json {
        let mut line = json!({
            "file": args.out.display().to_string(), "records": made.records, "bytes": made.bytes,
            "first": made.first.map(|lsn| lsn.0), "last": made.last.map(|lsn| lsn.0), "left_out": made.left_out,
            "torn": torn_json(made.end.torn), "error": made.end.broken,
        });
        put_owner(&mut line, journal.owner);
        put(format_args!("{line:#}"))?;
    } else {
        put(made.line(&args.out))?;
        put(end_text(journal.owner, &made.end, made.end.broken.as_deref()))?;
    }
    match made.end.broken {
        None => Ok(()),
        Some(text) => Err(Failure::found(format!("{text}; the file has what comes before")).remedy(match args.from {
            Some(_) => "keep the broken file until the other one is merged or imported",
            None => "copy the data directory before anything else is done with it",
        })),
    }
}

/// Which records a file is made of.
#[derive(Clone, Copy)]
pub enum Pick<'a> {
    /// Records that a filter takes.
    Taken(&'a Filter),
    /// All, without what a filter takes: of a client's records, which are many changes each, the events; of a rank's, all that they say.
    Without(&'a Filter),
}

/// Content of a file that was made.
pub struct Made {
    /// Records in it.
    pub records: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The first record.
    pub first: Option<Lsn>,
    /// The last one.
    pub last: Option<Lsn>,
    /// Records that the filter did not take.
    pub left_out: u64,
    /// End of the journal.
    pub end: End,
}

impl Made {
    /// For people.
    pub fn line(&self, out: &Path) -> String {
        let range = match (self.first, self.last) {
            (Some(first), Some(last)) => format!("records {first} to {last}"),
            _ => "no records".to_string(),
        };
        let left_out = match self.left_out {
            0 => String::new(),
            some => format!("; {} were left out", human_count(some)),
        };
        let (records, bytes) = (human_count(self.records), human_bytes(self.bytes));
        format!("{}: {range} ({records} records, {bytes}){left_out}", out.display())
    }
}

/// Makes a file. If that fails there is none.
pub fn write(journal: &Journal, pick: Pick<'_>, out: &Path) -> Result<Made, Failure> {
    let file =
        File::options().write(true).create_new(true).mode(0o600).open(out).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::new(format!("{} exists, and is not overwritten", out.display())).remedy("name another file")
            }
            _ => Failure::new(format!("{} cannot be made: {error}", out.display()))
                .remedy("name a file in a directory that is there, and that this user may write to"),
        })?;
    let made = fill(journal, pick, &file, out);
    if made.is_err() {
        let _ = std::fs::remove_file(out);
    }
    made
}

fn fill(journal: &Journal, pick: Pick<'_>, file: &File, out: &Path) -> Result<Made, Failure> {
    let place = out.display().to_string();
    let failed = |e: std::io::Error| written(&place, &e);
    let mut to = BufWriter::with_capacity(CHUNK, file);
    let selection = matches!(pick, Pick::Taken(filter) if !filter.is_all());
    let mut writer = FileWriter::new(journal.fs, journal.owner, selection);
    to.write_all(&writer.header()).map_err(failed)?;
    let mut bar = Bar::start("exporting", journal.bytes()?, Unit::Bytes);
    let (mut first, mut last, mut left_out, mut bytes, mut rest) = (None, None, 0, Vec::new(), Vec::new());
    let mut records = journal.records();
    while let Some(read) = records.next() {
        bar.add((loligo_journal::frame::FRAME_LEN + read.body.len()) as u64);
        let body = match pick {
            Pick::Taken(filter) if !filter.is_all() && !read.is_taken(filter) => {
                left_out += 1;
                continue;
            }
            Pick::Without(filter) if read.is_taken(filter) => {
                rest.clear();
                read.encode_without(filter, journal.owner, &mut rest);
                &rest
            }
            _ => &read.body,
        };
        bytes.clear();
        writer.append(&mut bytes, read.lsn, body).context(|| place.clone())?;
        to.write_all(&bytes).map_err(failed)?;
        first.get_or_insert(read.lsn);
        last = Some(read.lsn);
    }
    to.flush().and_then(|()| file.sync_all()).map_err(failed)?;
    drop(to);
    let (records_in, bytes_in) = (writer.records(), writer.bytes());
    // Only now that all is there for good does it say so.
    let mut file = file;
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.write_all(&writer.finish()))
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    sync_dir_of(out).map_err(failed)?;
    Ok(Made { records: records_in, bytes: bytes_in, first, last, left_out, end: records.end() })
}

/// Makes it durable that the file is there.
pub fn sync_dir_of(out: &Path) -> std::io::Result<()> {
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}
