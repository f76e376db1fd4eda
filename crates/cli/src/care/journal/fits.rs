//! Check that a journal file may take the place of a rank's journal: it is of this file system and of the rank, whole in itself, and has
//! every record that the table lacks.

use std::collections::BTreeMap;
use std::path::Path;

use loligo_driver::RowsError;
use loligo_journal::Owner;
use loligo_journal::table::{Meta, decode_meta, key_meta};
use loligo_store::Backend;
use loligo_types::{Lsn, Rank};

use super::builds;
use super::inspect::count_kinds;
use super::source::{End, Journal};
use crate::output::{Context, Failure, note};

/// A file that fits.
pub struct Fits {
    /// The file.
    pub file: Journal,
    /// The rank.
    pub rank: Rank,
    /// Its first record.
    pub first: Lsn,
    /// The number behind its last one.
    pub next: Lsn,
    /// Where the table says that replay begins: what is below is in the table.
    pub from: Lsn,
    /// Number of events of each kind in it.
    pub kinds: BTreeMap<&'static str, u64>,
}

/// A rank's replay marks in the table.
pub struct Told {
    /// Where replay begins.
    pub from: Lsn,
    /// Changes of inodes in records below this number are in the table.
    pub upto: Lsn,
}

impl Told {
    /// Reads it.
    pub fn of(store: &dyn Backend, rank: Rank) -> Result<Told, Failure> {
        Ok(Told {
            from: Lsn(value(store, Meta::ReplayFrom, rank)?.unwrap_or(1).max(1)),
            upto: Lsn(value(store, Meta::TableUpto, rank)?.unwrap_or(0)),
        })
    }
}

fn value(store: &dyn Backend, meta: Meta, rank: Rank) -> Result<Option<u64>, Failure> {
    let place = || "the table".to_string();
    let value = store.table().get(&key_meta(meta, rank)).context(place)?;
    value.map(|value| decode_meta(&value)).transpose().context(place)
}

/// Checks a file, of the rank that was asked for if one was.
pub fn check(path: &Path, store: &dyn Backend, data: &Path, asked: Option<u32>) -> Result<Fits, Failure> {
    if value(store, Meta::Format, Rank::ZERO)?.is_none() {
        return Err(Failure::new(format!("{}: {}", data.display(), RowsError::NotFormatted)));
    }
    let file = Journal::file(path)?;
    let rank = rank_of(&file, store, data, asked)?;
    let (fs, name) = (store.identity().fs_id, file.name());
    if file.fs != fs {
        return Err(Failure::new(format!("{name} is of another file system than {}", data.display()))
            .remedy("export the journal of this one, or of a copy of it (loligo copy)"));
    }
    let Content { first, kinds, end } = read(&file)?;
    if let Some(text) = &end.broken {
        return Err(Failure::found(format!("{name}: {text}")));
    }
    let (Some(first), Some(next)) = (first, end.next_lsn) else {
        return Err(Failure::new(format!("{name} has no records")).remedy("name a file that has some"));
    };
    cut_off(&name, &end);
    let Told { from, upto } = Told::of(store, rank)?;
    if first > from {
        let (table, last) = (from, first.0 - 1);
        return Err(Failure::new(format!(
            "there is a gap between the table and {name}: the table lacks what begins with record {table}, the file begins with {first}, so \
             records {table} to {last} are in neither"
        ))
        .remedy("name a file that begins earlier"));
    }
    if next < from.max(upto) {
        return Err(Failure::new(format!(
            "{name} ends before record {next}, and the table has come to record {}: it is older than the table",
            from.max(upto)
        ))
        .remedy("name a file that was made later"));
    }
    if let Some((lsn, cause)) = builds::first_without_base(&file, from, None) {
        return Err(Failure::found(format!("{name}: record {lsn} cannot be replayed: {cause}"))
            .remedy("records were erased from it, or are damaged: name a file that has them"));
    }
    Ok(Fits { file, rank, first, next, from, kinds })
}

fn rank_of(file: &Journal, store: &dyn Backend, data: &Path, asked: Option<u32>) -> Result<Rank, Failure> {
    let rank = match file.owner {
        Owner::Rank(rank) => rank,
        Owner::Client(client) => {
            return Err(Failure::new(format!("{} is the journal of client {client}, and of no rank", file.name()))
                .remedy("loligo merge FILE makes it everybody's, loligo abandon FILE gives it up; name one that loligo journal export made"));
        }
    };
    if asked.is_some_and(|asked| asked != rank) {
        return Err(Failure::usage(format!("{} is not of rank {}", file.name(), asked.unwrap_or_default())));
    }
    let ranks = value(store, Meta::Ranks, Rank::ZERO)?.unwrap_or(1).max(1);
    let number = u16::try_from(rank).ok().filter(|rank| u64::from(*rank) < ranks);
    number.map(Rank).ok_or_else(|| Failure::new(format!("{} has no rank {rank}: there are {ranks}", data.display())))
}

/// Content of a journal file.
struct Content {
    first: Option<Lsn>,
    kinds: BTreeMap<&'static str, u64>,
    end: End,
}

/// Reads all of it: everything must be understood, and follow.
fn read(file: &Journal) -> Result<Content, Failure> {
    let (mut first, mut next, mut kinds) = (None, None, BTreeMap::new());
    let mut records = file.records();
    while let Some(read) = records.next() {
        if let Some(next) = next.filter(|next| *next != read.lsn) {
            return Err(Failure::new(format!("{} is a selection: record {next} was left out of it", file.name()))
                .remedy("export the journal without filters, or with --lsn alone"));
        }
        let entry = read.entry().map_err(|text| Failure::found(format!("{}: {text}", file.name())))?;
        count_kinds(&mut kinds, &entry);
        first.get_or_insert(read.lsn);
        next = Some(read.lsn.next());
    }
    Ok(Content { first, kinds, end: records.end() })
}

/// Says it if a file is not all that it was or was to be: what is there counts.
fn cut_off(name: &str, end: &End) {
    let next = end.next_lsn.map_or(0, |next| next.0);
    if end.missing > 0 {
        note(format_args!("loligo: {name} was cut off: {} of its records, from {next} on, are missing", end.missing));
    } else if let Some(torn) = end.torn {
        let bytes = torn.bytes;
        note(format_args!("loligo: {name} ends with {bytes} bytes that are no whole record; what comes before counts"));
    }
}
