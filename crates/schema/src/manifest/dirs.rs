//! Blocks of directories: for each, its number, and how many entries and directories it has. Not here: the entries.

use super::bytes::{Cursor, put_u64};
use super::{Fault, PAYLOAD_MAX, Section};

/// Counts of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dir {
    /// Its number.
    pub index: u64,
    /// The number of its first entry, if it has one.
    pub first: u64,
    /// Entries.
    pub entries: u64,
    /// Directories among them.
    pub dirs: u64,
}

/// A block that is being written.
#[derive(Debug)]
pub(super) struct Builder {
    count: u64,
    head: (u64, u64),
    last: u64,
    bytes: Vec<u8>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { count: 0, head: (0, 0), last: 0, bytes: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a row. False: it has no room, and nothing was done.
    pub fn add(&mut self, dir: &Dir) -> bool {
        if self.count == 0 {
            (self.head, self.last) = ((dir.index, dir.first), dir.index);
        }
        // Type and three numbers before it, three numbers of it.
        if self.bytes.len() + 61 > PAYLOAD_MAX {
            return false;
        }
        put_u64(&mut self.bytes, dir.index - self.last);
        put_u64(&mut self.bytes, dir.entries);
        put_u64(&mut self.bytes, dir.dirs);
        self.last = dir.index;
        self.count += 1;
        true
    }

    /// Ends the block: its bytes, and the first directory.
    pub fn close(&mut self) -> (Vec<u8>, u64) {
        let mut payload = vec![Section::Dirs as u8];
        put_u64(&mut payload, self.head.0);
        put_u64(&mut payload, self.head.1);
        put_u64(&mut payload, self.count);
        payload.append(&mut self.bytes);
        let first = self.head.0;
        *self = Builder::new();
        (payload, first)
    }
}

/// Reads a block: its rows, ascending.
pub(super) fn read(payload: &[u8], offset: u64) -> Result<Vec<Dir>, Fault> {
    let mut cursor = Cursor::new(payload, offset);
    if cursor.u8()? != Section::Dirs as u8 {
        return Err(cursor.invalid("it is no block of directories"));
    }
    let (mut index, mut first) = (cursor.u64()?, cursor.u64()?);
    let count = cursor.count(3)?;
    let mut rows = Vec::with_capacity(count as usize);
    for row in 0..count {
        let (distance, entries, dirs) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        if (row == 0) != (distance == 0) || dirs > entries {
            return Err(cursor.invalid("directories that are not sorted, or with more directories than entries"));
        }
        index = index.checked_add(distance).ok_or_else(|| cursor.invalid("a number beyond the largest"))?;
        rows.push(Dir { index, first, entries, dirs });
        let most = crate::limits::ENTRIES_MAX + 1;
        let next = first.checked_add(entries).filter(|next| *next <= most && index < most);
        first = next.ok_or_else(|| cursor.invalid("a number beyond the largest"))?;
    }
    if !cursor.is_empty() {
        return Err(cursor.invalid("bytes behind its last row"));
    }
    Ok(rows)
}
