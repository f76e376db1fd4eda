//! A piece of a segment in memory: grows to the largest record, not to the segment.

use super::Source;

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// Consecutive bytes of one segment.
#[derive(Debug, Default)]
pub(crate) struct Window {
    segment: u64,
    /// Offset of `bytes[0]` in the segment.
    start: u64,
    bytes: Vec<u8>,
    /// Nothing follows `bytes`.
    end: bool,
}

impl Window {
    /// Forgets what it holds and turns to a segment.
    pub(crate) fn turn_to(&mut self, segment: u64) {
        *self = Window { segment, start: 0, bytes: std::mem::take(&mut self.bytes), end: false };
        self.bytes.clear();
    }

    /// `len` bytes at `offset`, fewer only at the end of the segment. Offsets must not go back.
    pub(crate) fn peek<S: Source>(&mut self, source: &mut S, offset: u64, len: usize) -> Result<&[u8], S::Error> {
        debug_assert!(offset >= self.start);
        if offset > self.start && self.held(offset) < len {
            let gone = ((offset - self.start) as usize).min(self.bytes.len());
            self.bytes.drain(..gone);
            self.start += gone as u64;
        }
        while !self.end && self.held(offset) < len {
            let old = self.bytes.len();
            self.bytes.resize(old + CHUNK.max(len - self.held(offset)), 0);
            let read = source.read_at(self.segment, self.start + old as u64, &mut self.bytes[old..]);
            let count = *read.as_ref().unwrap_or(&0);
            self.end = old + count < self.bytes.len();
            self.bytes.truncate(old + count);
            read?;
        }
        Ok(self.get(offset, len))
    }

    /// The bytes that it holds of the `len` bytes at `offset`.
    pub(crate) fn get(&self, offset: u64, len: usize) -> &[u8] {
        let from = ((offset - self.start) as usize).min(self.bytes.len());
        let to = from.saturating_add(len).min(self.bytes.len());
        &self.bytes[from..to]
    }

    fn held(&self, offset: u64) -> usize {
        self.bytes.len().saturating_sub((offset - self.start) as usize)
    }
}
