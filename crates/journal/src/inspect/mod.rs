//! A journal for a person to look at, and a check of all of it. For `loligo journal inspect`; recovery does not use it.

mod fields;
#[cfg(test)]
mod tests;
mod text;

pub use fields::{Value, fields};
pub use text::{escape, event_text};

use loligo_types::{Event, Lsn, Origin};
use thiserror::Error;

use crate::codec::{DecodeError, Record, decode_record};
use crate::frame::FRAME_LEN;
use crate::reader::{RawRecord, ReadConfig, ReadError, Reader, Source, Tail};

/// A record with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The segment.
    pub segment: u64,
    /// Where its frame begins.
    pub offset: u64,
    /// Its number.
    pub lsn: Lsn,
    /// Bytes it takes, frame included.
    pub size: u64,
    /// The request that made it.
    pub origin: Option<Origin>,
    /// The events of the record.
    pub events: Vec<Event>,
}

/// Why looking stopped.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum InspectError<E> {
    /// The journal is broken there.
    #[error(transparent)]
    Read(ReadError<E>),
    /// A record is whole and its body is not understood.
    #[error("journal segment {segment}, offset {offset}, record {lsn}: {error}")]
    Record {
        /// The segment.
        segment: u64,
        /// Where its frame begins.
        offset: u64,
        /// Its number.
        lsn: Lsn,
        /// The error.
        error: DecodeError,
    },
}

impl Entry {
    /// Understands a record that was read.
    pub fn new<E>(raw: &RawRecord<'_>) -> Result<Entry, InspectError<E>> {
        let RawRecord { segment, offset, lsn, body } = *raw;
        let record = decode_record(body).map_err(|error| InspectError::Record { segment, offset, lsn, error })?;
        let Record { origin, events } = record;
        Ok(Entry { segment, offset, lsn, size: (FRAME_LEN + body.len()) as u64, origin, events })
    }
}

/// The records of a journal in order. After the first error that is not of a single body there are no more.
#[derive(Debug)]
pub struct Inspector<S> {
    reader: Reader<S>,
}

impl<S: Source> Inspector<S> {
    /// Opens a journal; `ReadConfig::default()` takes whatever is there, from the oldest record.
    pub fn open(source: S, config: ReadConfig) -> Result<Inspector<S>, ReadError<S::Error>> {
        Ok(Inspector { reader: Reader::open(source, config)? })
    }

    /// The end of the journal, once it was read without an error.
    pub fn tail(&self) -> Option<Tail> {
        self.reader.tail()
    }

    /// The reader that it uses.
    pub fn reader(&self) -> &Reader<S> {
        &self.reader
    }
}

impl<S: Source> Iterator for Inspector<S> {
    type Item = Result<Entry, InspectError<S::Error>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next_record() {
            Ok(None) => None,
            Ok(Some(raw)) => Some(Entry::new(&raw)),
            Err(error) => Some(Err(InspectError::Read(error))),
        }
    }
}

/// Counts of a check of a whole journal before it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report<E> {
    /// Whole records.
    pub records: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes of the records, frames included.
    pub bytes: u64,
    /// First record.
    pub first: Option<Lsn>,
    /// Last whole record.
    pub last: Option<Lsn>,
    /// Its end, or the error.
    pub end: Result<Tail, InspectError<E>>,
}

/// Reads and decodes all of a journal.
pub fn verify<S: Source>(source: S, config: ReadConfig) -> Report<S::Error> {
    let mut report = Report { records: 0, events: 0, bytes: 0, first: None, last: None, end: Ok(Tail::default()) };
    let mut inspector = match Inspector::open(source, config) {
        Ok(inspector) => inspector,
        Err(error) => return Report { end: Err(InspectError::Read(error)), ..report },
    };
    for entry in &mut inspector {
        match entry {
            Ok(entry) => {
                report.records += 1;
                report.events += entry.events.len() as u64;
                report.bytes += entry.size;
                report.first.get_or_insert(entry.lsn);
                report.last = Some(entry.lsn);
            }
            Err(error) => return Report { end: Err(error), ..report },
        }
    }
    let tail = inspector.tail().expect("an iteration without an error ends with a tail");
    Report { end: Ok(tail), ..report }
}
