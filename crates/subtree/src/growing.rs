//! The journal of a decoupled subtree in the form in which it is persisted, as it grows: a journal file, so `loligo journal inspect`
//! reads it. Its first record says whose it is, and so does one at the end of each group of records that is merged at once. Not here: where
//! the bytes go, nor reading them.

use std::io;

use loligo_journal::file::FileWriter;
use loligo_journal::{FsId, Owner, encode_record};
use loligo_types::{DecoupledRecord, Event, Lsn};

use crate::Group;

/// Bytes are given on when there are so many of them.
const PIECE: usize = loligo_types::limits::DATA_OP_MAX;

/// A journal, as it grows. Its clone is the state to go back to when what it gave did not become durable.
#[derive(Clone, Debug)]
pub struct Growing {
    writer: FileWriter,
    next: Lsn,
    /// Groups of which all is in it, and records of the one after them that are.
    groups: usize,
    parts: usize,
    /// Groups that were merged before their end was put down.
    owed: u64,
}

/// Takes the bytes, in order.
pub trait Sink {
    /// Why it does not.
    type Error: From<io::Error>;

    /// These follow those of before.
    fn take(&mut self, bytes: Vec<u8>) -> Result<(), Self::Error>;
}

/// Pieces on their way to a sink.
struct Pieces<'a, S> {
    out: Vec<u8>,
    sink: &'a mut S,
}

impl<S: Sink> Pieces<'_, S> {
    fn full(&mut self) -> Result<(), S::Error> {
        // One record is much smaller than a piece.
        if self.out.len() < PIECE {
            return Ok(());
        }
        let rest = self.out.split_off(PIECE);
        self.sink.take(std::mem::replace(&mut self.out, rest))
    }

    fn rest(self) -> Result<(), S::Error> {
        if self.out.is_empty() { Ok(()) } else { self.sink.take(self.out) }
    }
}

impl Growing {
    /// An empty one, and how it begins.
    pub fn begin(fs: FsId, record: &DecoupledRecord) -> io::Result<(Growing, Vec<u8>)> {
        let writer = FileWriter::new(fs, Owner::Client(record.session.0), false);
        let mut out = writer.header().to_vec();
        let mut growing = Growing { writer, next: Lsn(1), groups: 0, parts: 0, owed: 0 };
        growing.add_record(&mut out, record)?;
        Ok((growing, out))
    }

    fn add(&mut self, out: &mut Vec<u8>, body: &[u8]) -> io::Result<()> {
        self.writer.append(out, self.next, body).map_err(io::Error::other)?;
        self.next = self.next.next();
        Ok(())
    }

    fn add_record(&mut self, out: &mut Vec<u8>, record: &DecoupledRecord) -> io::Result<()> {
        let mut body = Vec::new();
        encode_record(&mut body, None, &[Event::Decoupled(Box::new(record.clone()))]);
        self.add(out, &body)
    }

    /// Gives what is not in it yet, nothing if there is none.
    pub fn add_new<S: Sink>(
        &mut self,
        record: &DecoupledRecord,
        groups: &[Group],
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut pieces = Pieces { out: Vec::new(), sink };
        if !groups.is_empty() {
            // Else what is added would be of a group that is merged.
            for left in (0..std::mem::take(&mut self.owed)).rev() {
                let end = DecoupledRecord { merges: record.merges.saturating_sub(left), ..record.clone() };
                self.add_record(&mut pieces.out, &end)?;
            }
        }
        for (number, group) in groups.iter().enumerate().skip(self.groups) {
            for body in group.parts.iter().skip(self.parts) {
                self.add(&mut pieces.out, body)?;
                pieces.full()?;
            }
            self.parts = group.parts.len();
            if number + 1 < groups.len() {
                let merges = record.merges + number as u64 + 1;
                let end = DecoupledRecord { used: group.used, merges, ..record.clone() };
                self.add_record(&mut pieces.out, &end)?;
                (self.groups, self.parts) = (number + 1, 0);
            }
        }
        pieces.rest()
    }

    /// All that it has given is durable: what comes says so, and proves it.
    pub fn synced(&mut self) {
        self.writer.synced(Lsn(self.next.0 - 1));
    }

    /// All that it has given is durable, and these bytes behind it prove it ([`FileWriter::seal`]): what comes follows them.
    pub fn seal(&mut self) -> Vec<u8> {
        self.writer.seal()
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// The oldest group is merged, and not counted any more. What is said of it is passed over: its number says that it is.
    pub fn one_is_merged(&mut self) {
        match self.groups.checked_sub(1) {
            Some(left) => self.groups = left,
            None => (self.parts, self.owed) = (0, self.owed + 1),
        }
    }
}
