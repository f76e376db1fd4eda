//! Answers of the store, as data and as bytes.

use loligo_store::{Extent, ObjectId, Segment, StatFs, StoreError, TableSize};

use crate::bytes::{Malformed, Result, Take, put_bytes, put_list, put_option, put_u32, put_u64};

/// A key and its value, where they lie.
pub type Row<'a> = (&'a [u8], &'a [u8]);

/// An answer. The codes are on the wire: keep stable, never reuse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// It is done.
    Done,
    /// It could not be done.
    Failed(StoreError),
    /// The values of keys, in their order.
    Values(Vec<Option<&'a [u8]>>),
    /// Rows of a scan. `more`: another answer with more of them follows.
    Rows { rows: Vec<Row<'a>>, more: bool },
    /// Bytes that were read.
    Bytes(&'a [u8]),
    /// A length, if there is the thing.
    Len(Option<u64>),
    /// Segments of a journal.
    Segments(Vec<Segment>),
    /// Parts of an object that hold data.
    Extents(Vec<Extent>),
    /// Indexes of objects, or numbers of ranks.
    Numbers(Vec<u64>),
    /// Objects and their lengths. `more`: another answer with more of them follows.
    Objects { objects: Vec<(ObjectId, u64)>, more: bool },
    /// The size of the table.
    TableSize(TableSize),
    /// Space of the device.
    StatFs(StatFs),
    /// Identity of the file system, in bytes.
    Identity(&'a [u8]),
}

mod code {
    pub const DONE: u8 = 1;
    pub const FAILED: u8 = 2;
    pub const VALUES: u8 = 3;
    pub const ROWS: u8 = 4;
    pub const BYTES: u8 = 5;
    pub const LEN: u8 = 6;
    pub const SEGMENTS: u8 = 7;
    pub const EXTENTS: u8 = 8;
    pub const NUMBERS: u8 = 9;
    pub const OBJECTS: u8 = 10;
    pub const TABLE_SIZE: u8 = 11;
    pub const STATFS: u8 = 12;
    pub const IDENTITY: u8 = 13;
}

impl<'a> Answer<'a> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Done => out.push(code::DONE),
            Answer::Failed(error) => {
                out.push(code::FAILED);
                put_error(out, error);
            }
            Answer::Values(values) => {
                out.push(code::VALUES);
                put_list(out, values, |out, value| put_option(out, *value, put_bytes));
            }
            Answer::Rows { rows, more } => {
                out.extend_from_slice(&[code::ROWS, u8::from(*more)]);
                put_list(out, rows, |out, (key, value)| {
                    put_bytes(out, key);
                    put_bytes(out, value);
                });
            }
            Answer::Bytes(bytes) => {
                out.push(code::BYTES);
                put_bytes(out, bytes);
            }
            Answer::Len(len) => {
                out.push(code::LEN);
                put_option(out, len.as_ref(), |out, len| put_u64(out, *len));
            }
            Answer::Segments(segments) => {
                out.push(code::SEGMENTS);
                put_pairs(out, segments, |segment| (segment.id, segment.len));
            }
            Answer::Extents(extents) => {
                out.push(code::EXTENTS);
                put_pairs(out, extents, |extent| (extent.offset, extent.len));
            }
            Answer::Numbers(numbers) => {
                out.push(code::NUMBERS);
                put_list(out, numbers, |out, number| put_u64(out, *number));
            }
            Answer::Objects { objects, more } => {
                out.extend_from_slice(&[code::OBJECTS, u8::from(*more)]);
                put_list(out, objects, |out, (id, len)| {
                    [id.ino, id.index, *len].iter().for_each(|n| put_u64(out, *n));
                });
            }
            Answer::TableSize(size) => {
                out.push(code::TABLE_SIZE);
                put_u64(out, size.keys);
                put_u64(out, size.bytes);
            }
            Answer::StatFs(space) => {
                out.push(code::STATFS);
                let StatFs { total_bytes, free_bytes, total_inodes, free_inodes } = *space;
                [total_bytes, free_bytes, total_inodes, free_inodes].iter().for_each(|n| put_u64(out, *n));
            }
            Answer::Identity(bytes) => {
                out.push(code::IDENTITY);
                put_bytes(out, bytes);
            }
        }
    }

    /// Reads an answer; all of `bytes` must belong to it.
    pub fn decode(bytes: &'a [u8]) -> Result<Answer<'a>> {
        let mut from = Take(bytes);
        let answer = match from.u8("answer")? {
            code::DONE => Answer::Done,
            code::FAILED => Answer::Failed(take_error(&mut from)?),
            code::VALUES => {
                Answer::Values(from.list(1, "values", |from| from.option("value", |from| from.bytes("value")))?)
            }
            code::ROWS => Answer::Rows {
                more: from.bool("more")?,
                rows: from.list(8, "rows", |from| Ok((from.bytes("key")?, from.bytes("value")?)))?,
            },
            code::BYTES => Answer::Bytes(from.bytes("bytes")?),
            code::LEN => Answer::Len(from.option("length", |from| from.u64("length"))?),
            code::SEGMENTS => Answer::Segments(take_pairs(&mut from, |id, len| Segment { id, len })?),
            code::EXTENTS => Answer::Extents(take_pairs(&mut from, |offset, len| Extent { offset, len })?),
            code::NUMBERS => Answer::Numbers(from.list(8, "numbers", |from| from.u64("number"))?),
            code::OBJECTS => Answer::Objects {
                more: from.bool("more")?,
                objects: from.list(24, "objects", |from| {
                    Ok((ObjectId::new(from.u64("object")?, from.u64("object")?), from.u64("length")?))
                })?,
            },
            code::TABLE_SIZE => Answer::TableSize(TableSize { keys: from.u64("keys")?, bytes: from.u64("bytes")? }),
            code::STATFS => Answer::StatFs(StatFs {
                total_bytes: from.u64("space")?,
                free_bytes: from.u64("space")?,
                total_inodes: from.u64("space")?,
                free_inodes: from.u64("space")?,
            }),
            code::IDENTITY => Answer::Identity(from.bytes("identity")?),
            _ => return Err(Malformed { what: "answer" }),
        };
        from.finish()?;
        Ok(answer)
    }
}

fn put_pairs<T>(out: &mut Vec<u8>, list: &[T], pair: impl Fn(&T) -> (u64, u64)) {
    put_list(out, list, |out, one| {
        let (a, b) = pair(one);
        put_u64(out, a);
        put_u64(out, b);
    });
}

fn take_pairs<T>(from: &mut Take<'_>, make: impl Fn(u64, u64) -> T) -> Result<Vec<T>> {
    from.list(16, "list", |from| Ok(make(from.u64("number")?, from.u64("number")?)))
}

/// Kinds of errors. On the wire: keep stable, never reuse.
mod kind {
    pub const FULL: u8 = 1;
    pub const READ_ONLY: u8 = 2;
    pub const FOREIGN: u8 = 3;
    pub const ALREADY_FORMATTED: u8 = 4;
    pub const NEWER_VERSION: u8 = 5;
    pub const IN_USE: u8 = 6;
    pub const CORRUPT: u8 = 7;
    pub const NOT_FOUND: u8 = 8;
    pub const IO: u8 = 9;
    pub const LOST: u8 = 10;
    pub const FENCED: u8 = 11;
    pub const NO_DESCRIPTOR: u8 = 12;
}

/// A kind, two texts, two numbers.
fn put_error(out: &mut Vec<u8>, error: &StoreError) {
    let (kind, a, b, numbers) = match error {
        StoreError::Full { what } => (kind::FULL, what.as_str(), "", (0, 0)),
        StoreError::NoDescriptor { what } => (kind::NO_DESCRIPTOR, what.as_str(), "", (0, 0)),
        StoreError::ReadOnly { what, cause } => (kind::READ_ONLY, what.as_str(), cause.as_str(), (0, 0)),
        StoreError::Foreign { dir, found } => (kind::FOREIGN, dir.as_str(), found.as_str(), (0, 0)),
        StoreError::AlreadyFormatted { dir, fs_id } => (kind::ALREADY_FORMATTED, dir.as_str(), fs_id.as_str(), (0, 0)),
        StoreError::NewerVersion { what, found, known } => (kind::NEWER_VERSION, what.as_str(), "", (*found, *known)),
        StoreError::InUse { dir, owner } => (kind::IN_USE, dir.as_str(), owner.as_str(), (0, 0)),
        StoreError::Corrupt { place, detail } => (kind::CORRUPT, place.as_str(), detail.as_str(), (0, 0)),
        StoreError::NotFound { what } => (kind::NOT_FOUND, what.as_str(), "", (0, 0)),
        StoreError::Io { what, cause } | StoreError::Denied { what, cause } | StoreError::NotNow { what, cause } => {
            (kind::IO, what.as_str(), cause.as_str(), (0, 0))
        }
        StoreError::Lost { what, cause } => (kind::LOST, what.as_str(), cause.as_str(), (0, 0)),
        StoreError::Fenced { what, cause } => (kind::FENCED, what.as_str(), cause.as_str(), (0, 0)),
    };
    out.push(kind);
    put_bytes(out, a.as_bytes());
    put_bytes(out, b.as_bytes());
    put_u32(out, numbers.0);
    put_u32(out, numbers.1);
}

fn take_error(from: &mut Take<'_>) -> Result<StoreError> {
    let kind = from.u8("kind of error")?;
    let (a, b) = (from.text("text")?, from.text("text")?);
    let (found, known) = (from.u32("version")?, from.u32("version")?);
    let has_one_text = matches!(kind, kind::FULL | kind::NEWER_VERSION | kind::NOT_FOUND | kind::NO_DESCRIPTOR);
    if (has_one_text && !b.is_empty()) || (kind != kind::NEWER_VERSION && (found, known) != (0, 0)) {
        return Err(Malformed { what: "error" });
    }
    Ok(match kind {
        kind::FULL => StoreError::Full { what: a },
        kind::READ_ONLY => StoreError::ReadOnly { what: a, cause: b },
        kind::FOREIGN => StoreError::Foreign { dir: a, found: b },
        kind::ALREADY_FORMATTED => StoreError::AlreadyFormatted { dir: a, fs_id: b },
        kind::NEWER_VERSION => StoreError::NewerVersion { what: a, found, known },
        kind::IN_USE => StoreError::InUse { dir: a, owner: b },
        kind::CORRUPT => StoreError::Corrupt { place: a, detail: b },
        kind::NOT_FOUND => StoreError::NotFound { what: a },
        kind::IO => StoreError::Io { what: a, cause: b },
        kind::LOST => StoreError::Lost { what: a, cause: b },
        kind::FENCED => StoreError::Fenced { what: a, cause: b },
        kind::NO_DESCRIPTOR => StoreError::NoDescriptor { what: a },
        _ => return Err(Malformed { what: "kind of error" }),
    })
}
