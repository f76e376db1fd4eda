//! Reads a journal file from front to back, and says how it ends.

use loligo_types::Lsn;

use super::{FILE_MAGIC, FileError, FileHeader};
use crate::frame::{FRAME_LEN, Frame, Salt};
use crate::reader::scan::{Leftover, scan};
use crate::reader::window::Window;
use crate::reader::{RawRecord, Source, Torn};
use crate::segment::{FsId, HeaderError, SEGMENT_HEADER_LEN, SEGMENT_MAGIC, SegmentHeader};

/// Number that the file has as the one segment of its source.
const FILE: u64 = 0;
/// Bytes looked at in one go, behind the last whole record.
const CHUNK: usize = 256 << 10;

// A frame never begins as a segment does: its body would be too long.
const _: () = assert!(u32::from_le_bytes([b'L', b'O', b'L', b'I']) as usize > crate::frame::BODY_MAX);

/// A segment in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSegment {
    /// Its number.
    pub id: u64,
    /// LSN of its first record.
    pub first: Lsn,
    /// Where in the file it begins.
    pub at: u64,
    /// Its bytes; of the last one, all up to the end of the file.
    pub bytes: u64,
}

/// End of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileTail {
    /// Whole records in it.
    pub records: u64,
    /// The number behind its last record; 1 if it has none.
    pub next_lsn: Lsn,
    /// Its segments, in order.
    pub segments: Vec<FileSegment>,
    /// Bytes behind the last whole record that are not of a whole one.
    pub torn: Option<Torn>,
    /// Records that its header counts and that are not there: it was cut off after it was finished.
    pub missing: u64,
}

/// Reads once from front to back.
#[derive(Debug)]
pub struct FileReader<S> {
    source: S,
    header: FileHeader,
    /// Bytes that there are, as far as they count.
    end: u64,
    /// Bytes that there are.
    len: u64,
    window: Window,
    offset: u64,
    salt: Salt,
    expected: Option<Lsn>,
    records: u64,
    segments: Vec<FileSegment>,
    torn: Option<Torn>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reading,
    Ended,
    Broken,
}

impl<S: Source> FileReader<S> {
    /// Reads the header. The file is segment 0 of its source.
    pub fn open(mut source: S) -> Result<FileReader<S>, FileError<S::Error>> {
        let len =
            source.list().map_err(FileError::Source)?.iter().find(|(id, _)| *id == FILE).map_or(0, |(_, len)| *len);
        let mut window = Window::default();
        let head = window.peek(&mut source, 0, super::FILE_HEADER_LEN).map_err(FileError::Source)?;
        if !head.starts_with(&FILE_MAGIC) {
            return Err(FileError::NoJournalFile { segment: head.starts_with(&SEGMENT_MAGIC) });
        }
        let header = FileHeader::decode(head).map_err(|error| match error {
            HeaderError::Damaged => FileError::BadHeader,
            HeaderError::UnknownVersion { found } => FileError::UnknownVersion { offset: 0, found },
        })?;
        Ok(FileReader {
            source,
            header,
            end: header.totals.map_or(len, |totals| totals.bytes.min(len)),
            len,
            window,
            offset: super::FILE_HEADER_LEN as u64,
            salt: Salt::new(&FsId::default(), 0, 0),
            expected: None,
            records: 0,
            segments: Vec::new(),
            torn: None,
            state: State::Reading,
        })
    }

    /// The header of the file.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The next record; `None` at the end (then [`FileReader::tail`] tells about it) and after an error. Its offset is that in the file.
    pub fn next_record(&mut self) -> Result<Option<RawRecord<'_>>, FileError<S::Error>> {
        if self.state != State::Reading {
            return Ok(None);
        }
        let place = self.advance().inspect_err(|_| self.state = State::Broken)?;
        let (Some((offset, len)), Some(segment), Some(next)) = (place, self.segments.last(), self.expected) else {
            return Ok(None);
        };
        let body = &self.window.get(offset, FRAME_LEN + len)[FRAME_LEN..];
        Ok(Some(RawRecord { segment: segment.id, offset, lsn: Lsn(next.0 - 1), body }))
    }

    /// The end of the file; `None` unless all of it was read without an error.
    pub fn tail(&self) -> Option<FileTail> {
        (self.state == State::Ended).then(|| FileTail {
            records: self.records,
            next_lsn: self.expected.unwrap_or(Lsn(1)),
            segments: self.segments.clone(),
            torn: self.torn,
            missing: self.header.totals.map_or(0, |totals| totals.records.saturating_sub(self.records)),
        })
    }

    /// Gives the source back.
    pub fn into_source(self) -> S {
        self.source
    }

    /// Goes to the next record: where its frame is, and how long its body is.
    fn advance(&mut self) -> Result<Option<(u64, usize)>, FileError<S::Error>> {
        while self.offset < self.end {
            let head =
                self.window.peek(&mut self.source, self.offset, SEGMENT_HEADER_LEN).map_err(FileError::Source)?;
            if head.starts_with(&SEGMENT_MAGIC) {
                match SegmentHeader::decode(head) {
                    Ok(header) => {
                        self.enter(header)?;
                        continue;
                    }
                    Err(HeaderError::UnknownVersion { found }) => {
                        return Err(FileError::UnknownVersion { offset: self.offset, found });
                    }
                    Err(HeaderError::Damaged) => {}
                }
            } else if let Some(frame) = self.read_one()? {
                let offset = self.offset;
                self.offset += (FRAME_LEN + frame.len as usize) as u64;
                self.expected = Some(frame.lsn.next());
                self.records += 1;
                return Ok(Some((offset, frame.len as usize)));
            }
            self.no_whole_record()?;
            break;
        }
        self.close_segment(self.len);
        self.torn = self.torn.or_else(|| {
            let bytes = self.len.saturating_sub(self.end);
            let segment = self.segments.last().map_or(0, |segment| segment.id);
            (bytes > 0).then_some(Torn { segment, offset: self.end, bytes, records: 0 })
        });
        self.state = State::Ended;
        Ok(None)
    }

    /// A segment begins here.
    fn enter(&mut self, header: SegmentHeader) -> Result<(), FileError<S::Error>> {
        let offset = self.offset;
        let last = self.segments.last().map_or(0, |last| last.id);
        if (header.fs, header.rank) != (self.header.fs, self.header.owner.rank()) || header.id <= last {
            return Err(FileError::Foreign { offset, header });
        }
        match self.expected {
            Some(expected) if header.first < expected || (header.first > expected && !self.header.selection) => {
                return Err(FileError::Gap { offset, expected, found: header.first });
            }
            _ => self.expected = Some(header.first),
        }
        self.close_segment(offset);
        self.segments.push(FileSegment { id: header.id, first: header.first, at: offset, bytes: 0 });
        self.salt = Salt::new(&header.fs, header.rank, header.id);
        self.offset += SEGMENT_HEADER_LEN as u64;
        Ok(())
    }

    fn close_segment(&mut self, end: u64) {
        if let Some(last) = self.segments.last_mut() {
            last.bytes = end.saturating_sub(last.at);
        }
    }

    /// The record at the offset, if it is whole.
    fn read_one(&mut self) -> Result<Option<Frame>, FileError<S::Error>> {
        let Some(expected) = self.expected else { return Ok(None) };
        let head = self.window.peek(&mut self.source, self.offset, FRAME_LEN).map_err(FileError::Source)?;
        let Some(frame) = Frame::decode(self.salt, head) else { return Ok(None) };
        if frame.lsn != expected {
            return Err(FileError::Gap { offset: self.offset, expected, found: frame.lsn });
        }
        let whole = FRAME_LEN + frame.len as usize;
        if self.offset + whole as u64 > self.end {
            return Ok(None);
        }
        let bytes = self.window.peek(&mut self.source, self.offset, whole).map_err(FileError::Source)?;
        Ok((bytes.len() == whole && frame.holds(self.salt, &bytes[FRAME_LEN..])).then_some(frame))
    }

    /// Decides whether what stands here is the rest of a write that was cut off, or was once whole.
    fn no_whole_record(&mut self) -> Result<(), FileError<S::Error>> {
        let (offset, expected) = (self.offset, self.expected.unwrap_or(Lsn(0)));
        let left: Leftover =
            scan(&mut self.source, self.salt, FILE, offset..self.end, expected).map_err(FileError::Source)?;
        let proof = match left.proof {
            None => self.later_segment()?.map(|header| header.first),
            proof => proof,
        };
        let was_finished = self.header.totals.is_some_and(|totals| totals.bytes <= self.len);
        if proof.is_some() || was_finished {
            return Err(FileError::BadChecksum { offset, lsn: self.expected, proof });
        }
        if left.bytes > 0 {
            let segment = self.segments.last().map_or(0, |segment| segment.id);
            self.torn = Some(Torn { segment, offset, bytes: left.bytes, records: left.records });
        }
        Ok(())
    }

    /// A segment of this journal that begins behind the offset: whoever began it knew that all before it was there.
    fn later_segment(&mut self) -> Result<Option<SegmentHeader>, FileError<S::Error>> {
        let mut buf = vec![0; CHUNK];
        let mut base = self.offset + 1;
        while base < self.end {
            let want = buf.len().min((self.end - base) as usize);
            let count = self.source.read_at(FILE, base, &mut buf[..want]).map_err(FileError::Source)?;
            for at in 0..count.saturating_sub(SEGMENT_HEADER_LEN - 1) {
                // The first byte spares almost every look.
                if buf[at] != SEGMENT_MAGIC[0] {
                    continue;
                }
                match SegmentHeader::decode(&buf[at..count]) {
                    Ok(header) if (header.fs, header.rank) == (self.header.fs, self.header.owner.rank()) => {
                        return Ok(Some(header));
                    }
                    _ => {}
                }
            }
            if count < want || base + count as u64 >= self.end {
                break;
            }
            // A header may lie across two pieces.
            base += (count - (SEGMENT_HEADER_LEN - 1)) as u64;
        }
        Ok(None)
    }
}
