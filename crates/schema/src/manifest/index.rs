//! Blocks of the index: which block has which entries, directories or sources. The root lists the blocks of the index of each kind. Not
//! here: the blocks themselves.

use super::bytes::{Cursor, put_bytes, put_u64};
use super::{Fault, PAYLOAD_MAX, Section};

/// A block and its first row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Place of the block.
    pub offset: u64,
    /// Its bytes without the checksum.
    pub len: u32,
    /// The number of its first entry, directory or source.
    pub first: u64,
    /// Of a block of entries: a directory and a name that are not after its first entry, and after the last one of the block before.
    pub parent: u64,
    /// See there.
    pub key: Box<[u8]>,
}

fn put_row(out: &mut Vec<u8>, row: &Row) {
    [row.offset, u64::from(row.len), row.first, row.parent].into_iter().for_each(|number| put_u64(out, number));
    put_bytes(out, &row.key);
}

fn take_rows(cursor: &mut Cursor<'_>, count: u64) -> Result<Vec<Row>, Fault> {
    let mut rows: Vec<Row> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (offset, len, first, parent) = (cursor.u64()?, cursor.u32()?, cursor.u64()?, cursor.u64()?);
        let key = cursor.bytes(loligo_types::limits::NAME_MAX)?.into();
        let row = Row { offset, len, first, parent, key };
        if len == 0 || len as usize > PAYLOAD_MAX {
            return Err(cursor.invalid("a block that is too long"));
        }
        let is_behind = |last: &Row| row.first > last.first && (row.parent, &row.key) >= (last.parent, &last.key);
        if rows.last().is_some_and(|last| !is_behind(last)) {
            return Err(cursor.invalid("blocks that are not sorted"));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A block of the index that is being written.
#[derive(Debug, Default)]
pub(super) struct Builder {
    first: Option<Row>,
    count: u64,
    bytes: Vec<u8>,
}

impl Builder {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a row. False: it has no room, and nothing was done.
    pub fn add(&mut self, row: &Row) -> bool {
        if self.bytes.len() + row.key.len() + 62 > PAYLOAD_MAX {
            return false;
        }
        put_row(&mut self.bytes, row);
        self.first.get_or_insert_with(|| row.clone());
        self.count += 1;
        true
    }

    /// Ends the block: its bytes, and its first row.
    pub fn close(&mut self, section: Section) -> (Vec<u8>, Row) {
        let mut payload = vec![Section::Index as u8, section as u8];
        put_u64(&mut payload, self.count);
        payload.append(&mut self.bytes);
        let first = self.first.take().expect("a block is closed when it has rows");
        self.count = 0;
        (payload, first)
    }
}

/// Reads a block of the index of one section.
pub(super) fn read(payload: &[u8], offset: u64, section: Section) -> Result<Vec<Row>, Fault> {
    let mut cursor = Cursor::new(payload, offset);
    if cursor.u8()? != Section::Index as u8 || cursor.u8()? != section as u8 {
        return Err(cursor.invalid("it is no block of this index"));
    }
    let count = cursor.count(5)?;
    let rows = take_rows(&mut cursor, count)?;
    if !cursor.is_empty() {
        return Err(cursor.invalid("bytes behind its last row"));
    }
    Ok(rows)
}

/// The blocks of the index of each section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Root {
    pub entries: Vec<Row>,
    pub dirs: Vec<Row>,
    pub sources: Vec<Row>,
}

impl Root {
    /// Its bytes. None: they are more than a block holds.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut payload = vec![Section::Root as u8];
        for rows in [&self.entries, &self.dirs, &self.sources] {
            put_u64(&mut payload, rows.len() as u64);
            rows.iter().for_each(|row| put_row(&mut payload, row));
        }
        (payload.len() <= PAYLOAD_MAX).then_some(payload)
    }

    pub fn read(payload: &[u8], offset: u64) -> Result<Root, Fault> {
        let mut cursor = Cursor::new(payload, offset);
        if cursor.u8()? != Section::Root as u8 {
            return Err(cursor.invalid("it is no root"));
        }
        let mut sections = [Vec::new(), Vec::new(), Vec::new()];
        for rows in &mut sections {
            let count = cursor.u64()?;
            if count > (cursor.left() / 5) as u64 {
                return Err(cursor.invalid("a number of rows that it cannot have"));
            }
            *rows = take_rows(&mut cursor, count)?;
        }
        if !cursor.is_empty() {
            return Err(cursor.invalid("bytes behind its last row"));
        }
        let [entries, dirs, sources] = sections;
        Ok(Root { entries, dirs, sources })
    }
}
