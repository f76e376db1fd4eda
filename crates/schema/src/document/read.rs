//! Reading a document: the keys that all kinds have, then those of its kind. Not here: ranges, lists and paths (`formula.rs`).

use std::sync::Arc;

use loligo_types::Time;
use toml::de::{DeTable, DeValue};

use super::value::{Table, Value};
use super::{Code, Defaults, Document, Generator, Overlay, Pointer, VERSION, args, formula};
use crate::fault::{Cause, Flaw};
use crate::limits::{CONTENTS_MAX, DOCUMENT_MAX, ENTRIES_MAX};

/// Keys with the kind that has them; none: all have.
const KEYS: [(&str, Option<&str>); 9] = [
    ("version", None),
    ("kind", None),
    ("overlay", None),
    ("attributes", None),
    ("args", None),
    ("paths", Some("formula")),
    ("code", Some("code")),
    ("entries", Some("code")),
    ("manifest", Some("pointer")),
];

pub(super) fn read(text: &str) -> Result<Document, Flaw> {
    if text.len() > DOCUMENT_MAX {
        return Err(Flaw::new(Cause::TooLong { found: text.len() }, DOCUMENT_MAX));
    }
    let document = DeTable::parse(text).map_err(|error| {
        Flaw::new(Cause::Toml(error.message().to_string()), error.span().map_or(0, |span| span.start))
    })?;
    let table = Table { table: document.get_ref(), at: 0, place: "of a schema" };
    // The version first: another one has other keys.
    let version = table.needs("version", "say version = 1")?;
    if !matches!(version.get(), DeValue::Integer(_)) || version.number(VERSION, VERSION).is_err() {
        return Err(Flaw::new(Cause::Version { found: version.found() }, version.at()));
    }
    table.knows(&KEYS.map(|(key, _)| key))?;
    let kinds = [("formula", "formula"), ("code", "code"), ("pointer", "pointer")];
    let kind = table.needs("kind", "say kind = \"formula\", \"code\" or \"pointer\"")?.word(&kinds)?;
    for (key, of) in KEYS {
        if let (Some(of), Some(value)) = (of.filter(|of| *of != kind), table.value(key)) {
            return Err(Flaw::new(Cause::OtherKind { key, of }, value.at()));
        }
    }
    let overlays = [("none", Overlay::None), ("upper", Overlay::Upper)];
    let overlay = table.value("overlay").map_or(Ok(Overlay::Upper), |value| value.word(&overlays))?;
    let defaults = table.value("attributes").map_or(Ok(Defaults::default()), |value| defaults(&value))?;
    let arguments = table.value("args").map(|value| value.table("of `args`", "a table of arguments")).transpose()?;
    let generator = match kind {
        "formula" => Generator::Formula(formula::read(&table, arguments, &defaults)?),
        "code" => Generator::Code(code(&table, arguments)?),
        _ => {
            if let Some(arguments) = arguments {
                return Err(Flaw::new(Cause::OtherKind { key: "args", of: "formula" }, arguments.at));
            }
            Generator::Pointer(pointer(&table)?)
        }
    };
    Ok(Document { overlay, defaults, generator })
}

fn defaults(value: &Value<'_>) -> Result<Defaults, Flaw> {
    let table = value.table("of `attributes`", "a table of attributes")?;
    table.knows(&["file_mode", "dir_mode", "uid", "gid", "mtime"])?;
    let said = attributes(&table, &["file_mode", "dir_mode"])?;
    let default = Defaults::default();
    let [file_mode, dir_mode] = said.modes;
    Ok(Defaults {
        file_mode: file_mode.unwrap_or(default.file_mode),
        dir_mode: dir_mode.unwrap_or(default.dir_mode),
        uid: said.uid,
        gid: said.gid,
        mtime: said.mtime,
    })
}

/// Attributes in a table.
#[derive(Default)]
pub(super) struct Said {
    /// Of the keys asked for.
    pub modes: [Option<u16>; 2],
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mtime: Option<Time>,
    pub size: u64,
    pub contents: Option<Arc<[u8]>>,
    /// The place of `size` or `contents`.
    pub content_at: Option<usize>,
}

pub(super) fn attributes(table: &Table<'_>, modes: &[&str]) -> Result<Said, Flaw> {
    let mut said = Said::default();
    for (mode, key) in said.modes.iter_mut().zip(modes) {
        let value = table.value(key);
        *mode = value.map(|value| value.number(0, 0o7777).map(|mode| mode as u16)).transpose()?;
    }
    // The greatest number means "no change" to chown.
    let id = |key| table.value(key).map(|value| value.number(0, u64::from(u32::MAX - 1)).map(|id| id as u32));
    said.uid = id("uid").transpose()?;
    said.gid = id("gid").transpose()?;
    said.mtime = table.value("mtime").map(|value| time(&value)).transpose()?;
    if let Some(value) = table.value("size") {
        said.size = value.number(0, loligo_types::limits::FILE_SIZE_MAX)?;
        said.content_at = Some(value.at());
    }
    if let Some(value) = table.value("contents") {
        if said.content_at.is_some() {
            return Err(Flaw::new(Cause::Both("size", "contents"), value.at()));
        }
        let text = value.string("a text in quotes")?;
        if text.len() > CONTENTS_MAX {
            return Err(value.wrong(format!("a text of at most {CONTENTS_MAX} bytes")));
        }
        said.size = text.len() as u64;
        said.contents = Some(text.as_bytes().into());
        said.content_at = Some(value.at());
    }
    Ok(said)
}

/// Seconds since 1970, or a date with a time and an offset.
fn time(value: &Value<'_>) -> Result<Time, Flaw> {
    let expected = "seconds since 1970, or a time from 1678 to 2261 like 2026-01-31T12:00:00Z";
    let seconds = match value.get() {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|sec| (sec, 0)),
        DeValue::Datetime(date) => seconds_of(date),
        _ => None,
    };
    // Within these, nanoseconds fit.
    let fits = seconds.filter(|(sec, _)| (-9_200_000_000..=9_200_000_000).contains(sec));
    fits.map(|(sec, nsec)| Time::new(sec, nsec)).ok_or_else(|| value.wrong(expected))
}

fn seconds_of(date: &toml::value::Datetime) -> Option<(i64, u32)> {
    let (day, time, offset) = (date.date?, date.time?, date.offset?);
    let minutes = match offset {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    // TOML 1.1 takes times without seconds.
    let second = i64::from(time.second.unwrap_or_default());
    let of_day = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + second;
    let days = days_from_civil(i64::from(day.year), i64::from(day.month), i64::from(day.day));
    Some((days * 86_400 + of_day - minutes * 60, time.nanosecond.unwrap_or_default()))
}

/// Days since 1970 of a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn code(table: &Table<'_>, arguments: Option<Table<'_>>) -> Result<Code, Flaw> {
    let text = table.needs("code", "put the program between ''' and '''")?.string("a program in quotes")?;
    let entries = table.needs("entries", "say how many entries there are at most")?.number(1, ENTRIES_MAX)?;
    let args = arguments.map_or(Ok(Vec::new()), |table| args::read(&table))?;
    Ok(Code { text: text.to_string(), args, entries })
}

fn pointer(table: &Table<'_>) -> Result<Pointer, Flaw> {
    let value = table.needs("manifest", "write one with `loligo schema index`")?;
    let table = value.table("of `manifest`", "a table with ino, change, bytes and checksum")?;
    table.knows(&["ino", "change", "bytes", "checksum"])?;
    let number = |key: &'static str, least, most| {
        table.needs(key, "take it from `loligo schema index`")?.named(format!("manifest.{key}")).number(least, most)
    };
    Ok(Pointer {
        ino: number("ino", 1, i64::MAX as u64)?,
        change: number("change", 0, i64::MAX as u64)?,
        bytes: number("bytes", 1, loligo_types::limits::FILE_SIZE_MAX)?,
        checksum: number("checksum", 0, u64::from(u32::MAX))? as u32,
    })
}
