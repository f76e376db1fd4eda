//! Recovery: reads the records of a journal in order and says how the journal ends.
//!
//! Five outcomes are told apart. A *torn tail* is what a crash in the middle of a write leaves: it is cut off in
//! silence and counted in [`Tail::torn`]. A *gap* (records or whole segments are missing), a *bad checksum* (bytes that
//! were durable have changed), a *loss* (it ends before what the store says was durable) and an *unknown version* are errors: going on would
//! lose what was acknowledged.
//!
//! It reads through a [`Source`], one window at a time, so memory is bounded by the largest record. It changes nothing.

mod error;
pub(crate) mod scan;
mod source;
#[cfg(test)]
mod tests;
pub(crate) mod window;

pub use error::ReadError;
pub use source::{MemSource, Source};

use loligo_types::Lsn;

use crate::frame::{FRAME_LEN, Frame, Salt};
use crate::segment::{FsId, HeaderError, SEGMENT_HEADER_LEN, SegmentHeader, SegmentInfo};
use scan::{Leftover, scan};
use window::Window;

/// Expectations of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadConfig {
    /// The file system it must belong to; `None`: that which its first segment names.
    pub fs: Option<FsId>,
    /// The rank it must belong to; `None`: as above.
    pub rank: Option<u32>,
    /// The first record that is wanted: all below are in the table. The journal must come at least to the one before
    /// it. `Lsn(0)`: from the oldest there is, whatever it is (for looking, not for recovery).
    pub from: Lsn,
    /// A segment of which so many bytes were durable, as the store has put it down: a journal that ends before that has lost something.
    pub synced: Option<Synced>,
}

/// Extent up to which a journal was durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synced {
    /// A segment; none with a higher number is known to have been there.
    pub segment: u64,
    /// Its bytes that were durable: a whole number of records.
    pub bytes: u64,
}

/// A record as it lies in its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRecord<'a> {
    /// The segment.
    pub segment: u64,
    /// Where its frame begins.
    pub offset: u64,
    /// Its number.
    pub lsn: Lsn,
    /// Its body, for [`crate::decode_record`].
    pub body: &'a [u8],
}

/// Bytes that were cut off at the end: the rest of writes that were never acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The segment.
    pub segment: u64,
    /// First byte that does not count.
    pub offset: u64,
    /// Bytes from there to the last one that is not zero.
    pub bytes: u64,
    /// Whole records among them that stand behind a broken one.
    pub records: u64,
}

/// End of the journal, and what a writer needs to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Number of the next record.
    pub next_lsn: Lsn,
    /// Number of the next segment: above all that exist.
    pub next_segment: u64,
    /// The segments that exist, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// The bytes that were cut off, if any were; the newest if several crashes left some.
    pub torn: Option<Torn>,
}

impl Default for Tail {
    /// The end of a journal that has not begun.
    fn default() -> Tail {
        Tail { next_lsn: Lsn(1), next_segment: 1, segments: Vec::new(), torn: None }
    }
}

/// A segment as found.
#[derive(Clone, Copy, Debug)]
struct Found {
    id: u64,
    bytes: u64,
    /// First record, if the header is whole.
    first: Option<Lsn>,
}

/// Reads a journal once from front to back.
#[derive(Debug)]
pub struct Reader<S> {
    source: S,
    config: ReadConfig,
    fs: FsId,
    rank: u32,
    segments: Vec<Found>,
    /// Index of the segment being read.
    at: usize,
    salt: Salt,
    offset: u64,
    expected: Lsn,
    window: Window,
    torn: Option<Torn>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reading,
    Ended,
    Broken,
}

impl<S: Source> Reader<S> {
    /// Looks at all segments and reads their headers.
    pub fn open(mut source: S, config: ReadConfig) -> Result<Reader<S>, ReadError<S::Error>> {
        let mut listed = source.list().map_err(ReadError::Source)?;
        listed.sort_unstable();
        if let Some(Synced { segment, bytes }) = config.synced
            && listed.last().is_none_or(|(last, _)| *last < segment)
        {
            return Err(ReadError::Lost { segment, synced: bytes, left: None });
        }
        let mut reader = Reader {
            source,
            config,
            fs: config.fs.unwrap_or_default(),
            rank: config.rank.unwrap_or_default(),
            segments: Vec::with_capacity(listed.len()),
            at: 0,
            salt: Salt::new(&FsId::default(), 0, 0),
            offset: 0,
            expected: Lsn(config.from.0.max(1)),
            window: Window::default(),
            torn: None,
            state: State::Reading,
        };
        for (id, bytes) in listed {
            let found = reader.look(id, bytes)?;
            reader.segments.push(found);
        }
        reader.begin()?;
        Ok(reader)
    }

    /// The next record; `None` at the end (then [`Reader::tail`] tells about it) and after an error.
    pub fn next_record(&mut self) -> Result<Option<RawRecord<'_>>, ReadError<S::Error>> {
        if self.state != State::Reading {
            return Ok(None);
        }
        let place = self.advance().inspect_err(|_| self.state = State::Broken)?;
        let Some((offset, len)) = place else { return Ok(None) };
        let lsn = Lsn(self.expected.0 - 1);
        let segment = self.segments[self.at].id;
        let body = &self.window.get(offset, FRAME_LEN + len)[FRAME_LEN..];
        Ok(Some(RawRecord { segment, offset, lsn, body }))
    }

    /// The end of the journal; `None` unless all of it was read without an error.
    pub fn tail(&self) -> Option<Tail> {
        if self.state != State::Ended {
            return None;
        }
        let mut segments = Vec::with_capacity(self.segments.len());
        let mut first = self.expected;
        for found in self.segments.iter().rev() {
            // A segment without a header holds nothing: it ends where it begins.
            first = found.first.unwrap_or(first);
            segments.push(SegmentInfo { id: found.id, first, bytes: found.bytes });
        }
        segments.reverse();
        let next_segment = segments.last().map_or(1, |last| last.id + 1);
        Some(Tail { next_lsn: self.expected, next_segment, segments, torn: self.torn })
    }

    /// The file system whose journal this is.
    pub fn fs(&self) -> FsId {
        self.fs
    }

    /// The rank whose journal this is.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Reads the header of a segment and checks whose it is.
    fn look(&mut self, id: u64, bytes: u64) -> Result<Found, ReadError<S::Error>> {
        self.window.turn_to(id);
        let head = self.window.peek(&mut self.source, 0, SEGMENT_HEADER_LEN).map_err(ReadError::Source)?;
        let header = match SegmentHeader::decode(head) {
            Ok(header) => header,
            Err(HeaderError::Damaged) => return Ok(Found { id, bytes, first: None }),
            Err(HeaderError::UnknownVersion { found }) => return Err(ReadError::UnknownVersion { segment: id, found }),
        };
        if self.segments.iter().all(|found| found.first.is_none()) {
            self.fs = self.config.fs.unwrap_or(header.fs);
            self.rank = self.config.rank.unwrap_or(header.rank);
        }
        if (header.fs, header.rank, header.id) != (self.fs, self.rank, id) {
            return Err(ReadError::Foreign { segment: id, header });
        }
        Ok(Found { id, bytes, first: Some(header.first) })
    }

    /// Finds the segment to begin with: the newest that begins at or below the first wanted record.
    fn begin(&mut self) -> Result<(), ReadError<S::Error>> {
        let oldest = self.segments.iter().find_map(|found| found.first);
        let from = match (self.config.from, oldest) {
            (Lsn(0), Some(oldest)) => oldest,
            (from, _) => from,
        };
        match self.segments.iter().rposition(|found| found.first.is_some_and(|first| first <= from)) {
            Some(at) => {
                self.at = at;
                self.expected = self.segments[at].first.unwrap_or(from);
            }
            None if oldest.is_some() || from > Lsn(1) => return Err(self.without_begin(from, oldest)),
            // Nothing was ever durable here: at most the rest of a first write.
            None => {}
        }
        self.enter();
        Ok(())
    }

    /// No segment begins at or below `from`, and one must: the writer keeps the newest that has a durable record.
    fn without_begin(&self, from: Lsn, oldest: Option<Lsn>) -> ReadError<S::Error> {
        match (self.segments.first(), oldest) {
            (Some(broken), None) => ReadError::BadChecksum { segment: broken.id, offset: 0, lsn: from, proof: None },
            (first, found) => {
                let segment = first.map_or(0, |first| first.id);
                // Without any segment the last record that the table knows of is missing, not the next one.
                let expected = if found.is_some() { from } else { Lsn(from.0 - 1) };
                ReadError::Gap { segment, offset: 0, expected, found }
            }
        }
    }

    fn enter(&mut self) {
        let Some(found) = self.segments.get(self.at) else { return };
        self.window.turn_to(found.id);
        self.salt = Salt::new(&self.fs, self.rank, found.id);
        self.offset = if found.first.is_some() { SEGMENT_HEADER_LEN as u64 } else { 0 };
    }

    /// Goes to the next wanted record and says where its frame is and how long its body is.
    fn advance(&mut self) -> Result<Option<(u64, usize)>, ReadError<S::Error>> {
        while self.at < self.segments.len() {
            match self.read_one()? {
                Some(frame) => {
                    let place = (self.offset, frame.len as usize);
                    self.offset += (FRAME_LEN + frame.len as usize) as u64;
                    self.expected = frame.lsn.next();
                    if frame.lsn >= self.config.from {
                        return Ok(Some(place));
                    }
                }
                None => self.end_of_records()?,
            }
        }
        if self.expected < self.config.from {
            let segment = self.segments.last().map_or(0, |found| found.id);
            return Err(ReadError::Gap { segment, offset: self.offset, expected: self.expected, found: None });
        }
        self.state = State::Ended;
        Ok(None)
    }

    /// The record at the offset, if it is whole; the window holds all of it then.
    fn read_one(&mut self) -> Result<Option<Frame>, ReadError<S::Error>> {
        if self.segments[self.at].first.is_none() {
            return Ok(None);
        }
        let head = self.window.peek(&mut self.source, self.offset, FRAME_LEN).map_err(ReadError::Source)?;
        let Some(frame) = Frame::decode(self.salt, head) else { return Ok(None) };
        if frame.lsn != self.expected {
            let segment = self.segments[self.at].id;
            let (expected, found) = (self.expected, Some(frame.lsn));
            return Err(ReadError::Gap { segment, offset: self.offset, expected, found });
        }
        let whole = FRAME_LEN + frame.len as usize;
        let bytes = self.window.peek(&mut self.source, self.offset, whole).map_err(ReadError::Source)?;
        let good = bytes.len() == whole && frame.holds(self.salt, &bytes[FRAME_LEN..]);
        Ok(good.then_some(frame))
    }

    /// No whole record is at the offset: decides why, and goes on to the next segment or to the end.
    fn end_of_records(&mut self) -> Result<(), ReadError<S::Error>> {
        let segment = self.segments[self.at].id;
        let left = self.scan_rest(self.at, self.offset)?;
        let next = (self.at + 1..self.segments.len()).find(|at| self.segments[*at].first.is_some());
        let was_durable =
            self.config.synced.is_some_and(|synced| synced.segment == segment && self.offset < synced.bytes);
        let damage = |left: &Leftover| ReadError::BadChecksum {
            segment,
            offset: self.offset,
            lsn: self.expected,
            proof: left.proof,
        };
        if was_durable && left.bytes == 0 {
            let synced = self.config.synced.map_or(0, |synced| synced.bytes);
            return Err(ReadError::Lost { segment, synced, left: Some(self.offset) });
        }
        match next.map(|at| (at, self.segments[at].first)) {
            // The next segment was begun by someone who knew that this one ends here.
            Some((at, Some(first))) if first == self.expected && !was_durable => {
                self.note_torn(segment, self.offset, &left);
                self.at = at;
                self.enter();
                Ok(())
            }
            Some((_, Some(first))) if was_durable || (first > self.expected && left.bytes > 0) => Err(damage(&left)),
            Some((at, found)) => Err(self.missing(at, found)),
            None if left.proof.is_some() || was_durable => Err(damage(&left)),
            None => {
                self.note_torn(segment, self.offset, &left);
                self.at += 1;
                self.enter();
                Ok(())
            }
        }
    }

    /// The segment at `next` does not go on where the present one cleanly ends.
    fn missing(&self, next: usize, found: Option<Lsn>) -> ReadError<S::Error> {
        let (between, expected) = (&self.segments[self.at + 1..next], self.expected);
        match between.first() {
            // Their headers are broken, and they must have held what is missing.
            Some(broken) => ReadError::BadChecksum { segment: broken.id, offset: 0, lsn: expected, proof: found },
            None => ReadError::Gap { segment: self.segments[next].id, offset: 0, expected, found },
        }
    }

    fn note_torn(&mut self, segment: u64, offset: u64, left: &Leftover) {
        if left.bytes > 0 {
            self.torn = Some(Torn { segment, offset, bytes: left.bytes, records: left.records });
        }
    }

    fn scan_rest(&mut self, at: usize, offset: u64) -> Result<Leftover, ReadError<S::Error>> {
        let Found { id, bytes, .. } = self.segments[at];
        scan(&mut self.source, self.salt, id, offset..bytes.max(offset), self.expected).map_err(ReadError::Source)
    }
}
