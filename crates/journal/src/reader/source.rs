//! Where a reader gets its bytes: files in the driver, maps in tests.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::writer::Batch;

/// The segments of one journal.
pub trait Source {
    /// Why bytes could not be read.
    type Error: std::fmt::Display;

    /// Number and length of every segment, in any order.
    fn list(&mut self) -> Result<Vec<(u64, u64)>, Self::Error>;

    /// Reads at `offset` into `buf`; a count below `buf.len()` means the end of the segment.
    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, Self::Error>;
}

impl<S: Source + ?Sized> Source for &mut S {
    type Error = S::Error;

    fn list(&mut self) -> Result<Vec<(u64, u64)>, S::Error> {
        (**self).list()
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, S::Error> {
        (**self).read_at(segment, offset, buf)
    }
}

/// Segments in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemSource(pub BTreeMap<u64, Vec<u8>>);

impl MemSource {
    /// Writes a batch, as a driver does.
    pub fn write(&mut self, batch: &Batch) {
        let segment = self.0.entry(batch.segment).or_default();
        segment.truncate(batch.offset as usize);
        segment.resize(batch.offset as usize, 0);
        segment.extend_from_slice(&batch.bytes);
    }
}

impl Source for MemSource {
    type Error = Infallible;

    fn list(&mut self) -> Result<Vec<(u64, u64)>, Infallible> {
        Ok(self.0.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect())
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, Infallible> {
        let bytes = self.0.get(&segment).map_or(&[][..], Vec::as_slice);
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}
