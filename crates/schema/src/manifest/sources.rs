//! Blocks of sources: the files of which entries are slices, each pinned by its change counter. Not here: opening one.

use super::bytes::{Cursor, put_bytes, put_u64};
use super::{Fault, PAYLOAD_MAX, SOURCE_NAME_MAX, Section};

/// A file of which entries are slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its inode number.
    pub ino: u64,
    /// Its change counter when it was indexed: another one means other bytes.
    pub change: u64,
    /// Its size then, bytes.
    pub size: u64,
    /// Its path then, for messages.
    pub name: Box<[u8]>,
}

/// A block that is being written.
#[derive(Debug)]
pub(super) struct Builder {
    first: u64,
    count: u64,
    bytes: Vec<u8>,
}

impl Builder {
    pub fn new(first: u64) -> Builder {
        Builder { first, count: 0, bytes: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a row. False: it has no room, and nothing was done.
    pub fn add(&mut self, source: &Source) -> bool {
        if self.bytes.len() + source.name.len() + 61 > PAYLOAD_MAX {
            return false;
        }
        [source.ino, source.change, source.size].into_iter().for_each(|number| put_u64(&mut self.bytes, number));
        put_bytes(&mut self.bytes, &source.name);
        self.count += 1;
        true
    }

    /// Ends the block: its bytes, and its first source.
    pub fn close(&mut self) -> (Vec<u8>, u64) {
        let mut payload = vec![Section::Sources as u8];
        put_u64(&mut payload, self.first);
        put_u64(&mut payload, self.count);
        payload.append(&mut self.bytes);
        let first = self.first;
        *self = Builder::new(self.first + self.count);
        (payload, first)
    }
}

/// Reads a block: the number of its first source, and its rows.
pub(super) fn read(payload: &[u8], offset: u64) -> Result<(u64, Vec<Source>), Fault> {
    let mut cursor = Cursor::new(payload, offset);
    if cursor.u8()? != Section::Sources as u8 {
        return Err(cursor.invalid("it is no block of sources"));
    }
    let first = cursor.u64()?;
    let count = cursor.count(4)?;
    let mut rows = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (ino, change, size) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        if ino == 0 || size > loligo_types::limits::FILE_SIZE_MAX {
            return Err(cursor.invalid("a source without a number, or larger than a file may be"));
        }
        rows.push(Source { ino, change, size, name: cursor.bytes(SOURCE_NAME_MAX)?.into() });
    }
    if !cursor.is_empty() {
        return Err(cursor.invalid("bytes behind its last row"));
    }
    Ok((first, rows))
}
