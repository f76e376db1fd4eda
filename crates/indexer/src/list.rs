//! Lists of entries, in CSV with a heading or as JSON objects in lines. Columns: `path`; for content one of `source` (with `offset` and `length`),
//! `size` (zeros), `contents` and `target` (a symbolic link); `mode` (octal), `uid`, `gid` and `mtime` (seconds). A path that ends in `/` is a directory.

use std::collections::BTreeMap;
use std::io::BufRead;

use loligo_schema::{Attributes, Body};
use loligo_types::Time;
use serde_json::Value;

use crate::fault::{About, Cause, Fault};
use crate::name::path_of;
use crate::{Input, Options, Sink, Sources, sources};

/// All columns.
const COLUMNS: [&str; 11] =
    ["path", "source", "offset", "length", "size", "contents", "target", "mode", "uid", "gid", "mtime"];
/// Longest line, bytes.
const LINE_MAX: u64 = 1 << 20;

/// Values of a line by column.
type Row = BTreeMap<&'static str, String>;

/// Indexes a CSV file with a heading.
///
/// # Errors
///
/// The first line that is refused, with the cause.
pub fn csv(input: &Input<'_>, options: &Options, sources: &mut dyn Sources, sink: &mut dyn Sink) -> Result<(), Fault> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(input.stream());
    let line_fault = |error: csv::Error| Fault::new(b"", Cause::Line(error.to_string()));
    let mut columns: Vec<&'static str> = Vec::new();
    for name in reader.byte_headers().map_err(line_fault)? {
        let shown = || String::from_utf8_lossy(name).chars().take(60).collect::<String>();
        let known = COLUMNS.into_iter().find(|column| column.as_bytes() == name.trim_ascii());
        let known = known.ok_or_else(|| Cause::Column(shown(), "is not known")).about(b"the heading")?;
        if columns.contains(&known) {
            return Err(Fault::new(b"the heading", Cause::Column(shown(), "stands twice")));
        }
        columns.push(known);
    }
    if !columns.contains(&"path") {
        return Err(Fault::new(b"the heading", Cause::Column("path".into(), "is missing")));
    }
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(line_fault)? {
        let place = format!("line {}", record.position().map_or(0, csv::Position::line));
        if record.as_slice().len() as u64 > LINE_MAX {
            let cause = Cause::TooLong { what: "the line", found: record.as_slice().len() as u64, max: LINE_MAX };
            return Err(Fault::new(place.as_bytes(), cause));
        }
        let mut row = Row::new();
        for (column, value) in columns.iter().zip(&record).filter(|(_, value)| !value.is_empty()) {
            let text = std::str::from_utf8(value).map_err(|_| Cause::NotUtf8).about(place.as_bytes())?;
            row.insert(column, text.to_string());
        }
        entry(&row, options, sources, sink).about(place.as_bytes())?;
    }
    Ok(())
}

/// Indexes a file of JSON objects, one a line.
///
/// # Errors
///
/// The first line that is refused, with the cause.
pub fn ndjson(
    input: &Input<'_>,
    options: &Options,
    sources: &mut dyn Sources,
    sink: &mut dyn Sink,
) -> Result<(), Fault> {
    let mut stream = std::io::BufReader::with_capacity(64 << 10, input.stream());
    let mut line = Vec::new();
    for number in 1.. {
        let place = format!("line {number}");
        line.clear();
        let mut limited = std::io::Read::take(&mut stream, LINE_MAX + 1);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|error| Cause::Io { offset: 0, cause: error.to_string() }).about(place.as_bytes())?;
        if line.is_empty() {
            break;
        }
        if line.len() as u64 > LINE_MAX {
            let cause = Cause::TooLong { what: "the line", found: line.len() as u64, max: LINE_MAX };
            return Err(Fault::new(place.as_bytes(), cause));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = object(&line).about(place.as_bytes())?;
        entry(&row, options, sources, sink).about(place.as_bytes())?;
    }
    Ok(())
}

fn object(line: &[u8]) -> Result<Row, Cause> {
    let object: BTreeMap<String, Value> =
        serde_json::from_slice(line).map_err(|error| Cause::Json(error.to_string()))?;
    let mut row = Row::new();
    for (name, value) in object {
        let shown = || name.chars().take(60).collect::<String>();
        let column = COLUMNS.into_iter().find(|column| *column == name);
        let column = column.ok_or_else(|| Cause::Column(shown(), "is not known"))?;
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => return Err(Cause::Column(shown(), "is neither a text nor a number")),
        };
        row.insert(column, text);
    }
    Ok(row)
}

fn entry(row: &Row, options: &Options, sources: &mut dyn Sources, sink: &mut dyn Sink) -> Result<(), Cause> {
    let path = row.get("path").ok_or(Cause::Column("path".into(), "is empty"))?;
    let (path, is_dir) = path_of(path.as_bytes())?.ok_or(Cause::NoPath)?;
    let number = |column: &'static str| {
        let parse = |text: &String| text.parse::<u64>().map_err(|_| Cause::Number(column));
        row.get(column).map(parse).transpose()
    };
    let contents: Vec<&str> =
        ["source", "size", "contents", "target"].into_iter().filter(|column| row.contains_key(column)).collect();
    if let [_, second, ..] = contents[..] {
        return Err(Cause::Column(second.into(), "excludes another one of the content"));
    }
    if let Some(column) = ["offset", "length"].into_iter().find(|column| row.contains_key(column))
        && contents != ["source"]
    {
        return Err(Cause::Column(column.into(), "is for a source"));
    }
    if let (true, Some(column)) = (is_dir, contents.first()) {
        return Err(Cause::Column((*column).into(), "is for files, and the path ends in `/`"));
    }
    let body = match contents.first().copied() {
        _ if is_dir => None,
        Some("source") => {
            let source = row["source"].as_bytes();
            let slice = sources::slice(sources, source, number("offset")?.unwrap_or(0), number("length")?)?;
            Some(Body::Slices(if slice.len == 0 { [].into() } else { [slice].into() }))
        }
        Some("contents") => Some(Body::Bytes(row["contents"].as_bytes().into())),
        Some("target") => Some(Body::Link(row["target"].as_bytes().into())),
        _ => Some(Body::Zeros(number("size")?.unwrap_or(0))),
    };
    Ok(sink.add(path, attributes(row, options, is_dir)?, body)?)
}

fn attributes(row: &Row, options: &Options, is_dir: bool) -> Result<Attributes, Cause> {
    let default = if is_dir { options.dir } else { options.file };
    let mode = match row.get("mode") {
        Some(text) => u32::from_str_radix(text.trim_start_matches("0o"), 8).map_err(|_| Cause::Number("mode"))?,
        None => u32::from(default.mode),
    };
    if mode > 0o7777 {
        return Err(Cause::Number("mode"));
    }
    let id = |column: &'static str| {
        let parse = |text: &String| text.parse::<u32>().ok().filter(|id| *id != u32::MAX).ok_or(Cause::Number(column));
        row.get(column).map(parse).transpose()
    };
    let (uid, gid) = (id("uid")?, id("gid")?);
    if uid.or(gid).is_some() && !options.is_root {
        return Err(Cause::Column("uid".into(), "and `gid` count for root only; leave them out"));
    }
    let seconds = |text: &String| {
        let seconds: f64 = text.parse().ok().filter(|seconds: &f64| seconds.abs() <= 9.2e9)?;
        Some(Time::new(seconds.floor() as i64, ((seconds - seconds.floor()) * 1e9) as u32))
    };
    let mtime = match row.get("mtime") {
        Some(text) => Some(seconds(text).ok_or(Cause::Number("mtime"))?),
        None => default.mtime,
    };
    let attributes = options.attributes(mode, 0, 0, mtime)?;
    Ok(Attributes { uid: uid.or(default.uid), gid: gid.or(default.gid), ..attributes })
}
