//! The file that is indexed: bytes anywhere, its length, and its number as a source. Reads are buffered: an archive of small members is read
//! in large pieces.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};

use loligo_schema::manifest::ReadAt;

use crate::fault::Cause;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;
/// Members further apart than this are read by themselves.
const NEAR: u64 = 64 << 10;

/// A file that is indexed.
pub struct Input<'a> {
    file: &'a dyn ReadAt,
    len: u64,
    source: u64,
    buffer: RefCell<Buffer>,
    progress: RefCell<&'a mut dyn FnMut(u64)>,
}

#[derive(Default)]
struct Buffer {
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Input<'a> {
    /// A file of `len` bytes, which is source `source` of the manifest. `progress` is told how many bytes are done.
    pub fn new(file: &'a dyn ReadAt, len: u64, source: u64, progress: &'a mut dyn FnMut(u64)) -> Input<'a> {
        let buffer = RefCell::new(Buffer::default());
        Input { file, len, source, buffer, progress: RefCell::new(progress) }
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its number as a source.
    pub fn source(&self) -> u64 {
        self.source
    }

    pub(crate) fn at(&self, offset: u64) {
        (self.progress.borrow_mut())(offset.min(self.len));
    }

    /// Fills `into` from `offset` on.
    pub(crate) fn read(&self, what: &'static str, offset: u64, into: &mut [u8]) -> Result<(), Cause> {
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= self.len);
        let Some(end) = end else {
            return Err(Cause::Truncated { what, end: offset.saturating_add(into.len() as u64), len: self.len });
        };
        let fault = |error: std::io::Error| Cause::Io { offset, cause: error.to_string() };
        if into.len() > BUFFER / 2 {
            return self.file.read_at(offset, into).map_err(fault);
        }
        let buffer = &mut *self.buffer.borrow_mut();
        let old_end = buffer.start + buffer.bytes.len() as u64;
        if offset < buffer.start || end > old_end {
            // Forward in small steps it goes on so; elsewhere nobody knows.
            let is_near = offset >= buffer.start && offset <= old_end.saturating_add(NEAR);
            let wanted = if is_near || buffer.bytes.is_empty() { BUFFER } else { into.len().max(4096) };
            let len = (wanted as u64).min(self.len - offset) as usize;
            buffer.bytes.resize(len, 0);
            buffer.start = offset;
            if let Err(error) = self.file.read_at(offset, &mut buffer.bytes) {
                buffer.bytes.clear();
                return Err(fault(error));
            }
        }
        let at = (offset - buffer.start) as usize;
        into.copy_from_slice(&buffer.bytes[at..at + into.len()]);
        Ok(())
    }

    /// Its bytes from the beginning on.
    pub fn stream(&self) -> Stream<'_, 'a> {
        Stream { input: self, at: 0 }
    }
}

/// The bytes of an input as a stream.
pub struct Stream<'i, 'a> {
    input: &'i Input<'a>,
    at: u64,
}

impl Read for Stream<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = (into.len() as u64).min(self.input.len.saturating_sub(self.at)) as usize;
        let read = self.input.read("the content", self.at, &mut into[..len]);
        read.map_err(|cause| std::io::Error::other(cause.to_string()))?;
        self.at += len as u64;
        self.input.at(self.at);
        Ok(len)
    }
}

impl Seek for Stream<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.input.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
