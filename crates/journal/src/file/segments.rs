//! The segments in a journal file as those of a journal, so that all that reads journals reads files, too: recovery above all. Where a
//! record is missing between them that is a gap.

use super::{FileSegment, FileTail};
use crate::reader::Source;

/// A [`Source`] of the segments in a file, over a source of the file.
#[derive(Debug)]
pub struct FileSegments<S> {
    file: S,
    segments: Vec<FileSegment>,
}

impl<S: Source> FileSegments<S> {
    /// `tail`: as the file was found when it was read to its end.
    pub fn new(file: S, tail: &FileTail) -> FileSegments<S> {
        FileSegments { file, segments: tail.segments.clone() }
    }
}

impl<S: Source> Source for FileSegments<S> {
    type Error = S::Error;

    fn list(&mut self) -> Result<Vec<(u64, u64)>, S::Error> {
        Ok(self.segments.iter().map(|segment| (segment.id, segment.bytes)).collect())
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, S::Error> {
        let Some(found) = self.segments.iter().find(|found| found.id == segment) else { return Ok(0) };
        let want = buf.len().min(usize::try_from(found.bytes.saturating_sub(offset)).unwrap_or(usize::MAX));
        self.file.read_at(0, found.at + offset, &mut buf[..want])
    }
}
