//! The rows of the table. Not here: what they mean.

use std::vec;

use loligo_journal::table::{Meta, key_meta};
use loligo_store::{Backend, Batch, KeyValue, StoreError, Table};
use loligo_types::Rank;

use super::{CopyError, CopyProgress, CopyResult, CopyStage, Told, of_source, of_target};

/// Rows read, or written, at a time.
const ROWS: usize = 1024;

/// All rows but those that say whether there is a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

impl Rows {
    fn add(&mut self, (key, value): &KeyValue) {
        self.rows += 1;
        for part in [key, value] {
            self.bytes += part.len() as u64;
            // Rows are far smaller than that, and where they are not the bytes themselves tell.
            let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
            self.crc = crc32c::crc32c_append(self.crc, &len.to_le_bytes());
            self.crc = crc32c::crc32c_append(self.crc, part);
        }
    }
}

/// The rows of a table in order, in bounded memory, but those that say whether there is a file system.
struct All<'a> {
    table: &'a dyn Table,
    page: vec::IntoIter<KeyValue>,
    /// Where the next page begins; `None`: there is none.
    next: Option<Vec<u8>>,
}

impl<'a> All<'a> {
    fn of(table: &'a dyn Table) -> All<'a> {
        All { table, page: Vec::new().into_iter(), next: Some(Vec::new()) }
    }

    fn read(&mut self) -> Result<Option<KeyValue>, StoreError> {
        loop {
            if let Some(row) = self.page.next() {
                if says_what_there_is(&row.0) {
                    continue;
                }
                return Ok(Some(row));
            }
            let Some(start) = self.next.take() else { return Ok(None) };
            let page = self.table.scan(&start, &[], ROWS)?;
            if page.len() == ROWS {
                self.next = page.last().map(|(key, _)| [key.as_slice(), &[0]].concat());
            }
            self.page = page.into_iter();
        }
    }
}

impl Iterator for All<'_> {
    type Item = Result<KeyValue, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn says_what_there_is(key: &[u8]) -> bool {
    [Meta::Format, Meta::Copying].into_iter().any(|meta| key == key_meta(meta, Rank::ZERO))
}

/// Removes what there is.
pub(super) fn clear(target: &dyn Backend, told: Told<'_>) -> CopyResult<()> {
    let table = target.table();
    let mut done = 0;
    loop {
        let mut batch = Batch::new();
        for row in All::of(&*table).take(ROWS) {
            batch.delete(row.map_err(of_target)?.0);
        }
        if batch.is_empty() {
            return Ok(());
        }
        done += batch.deletes.len() as u64;
        table.write_rows(&batch).map_err(of_target)?;
        told(CopyProgress { stage: CopyStage::Clearing, done, total: 0 });
    }
}

/// Copies all of them, durably.
pub(super) fn copy(source: &dyn Backend, target: &dyn Backend, total: u64, told: Told<'_>) -> CopyResult<Rows> {
    let (from, to) = (source.table(), target.table());
    let mut rows = Rows::default();
    let mut batch = Batch::new();
    let mut all = All::of(&*from);
    loop {
        let row = all.next().transpose().map_err(of_source)?;
        let is_last = row.is_none();
        if let Some(row) = row {
            rows.add(&row);
            batch.puts.push(row);
        }
        if is_last || batch.puts.len() == ROWS {
            to.write_rows(&std::mem::take(&mut batch)).map_err(of_target)?;
            told(CopyProgress { stage: CopyStage::Rows, done: rows.rows, total });
        }
        if is_last {
            to.flush().map_err(of_target)?;
            return Ok(rows);
        }
    }
}

/// Reads them back.
pub(super) fn compare(source: &dyn Backend, target: &dyn Backend, copied: &Rows, told: Told<'_>) -> CopyResult<()> {
    let table = target.table();
    let mut rows = Rows::default();
    for row in All::of(&*table) {
        rows.add(&row.map_err(of_target)?);
        if rows.rows.is_multiple_of(ROWS as u64) {
            told(CopyProgress { stage: CopyStage::RowsBack, done: rows.rows, total: copied.rows });
        }
    }
    if rows == *copied {
        return Ok(());
    }
    let what = match first_difference(&*source.table(), &*table)? {
        Some(key) => format!("the row {}", key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        // It was different a moment ago.
        None => "the table".to_string(),
    };
    let detail = format!(
        "{} rows with the CRC-32C {:08x} instead of {} with {:08x}",
        rows.rows, rows.crc, copied.rows, copied.crc
    );
    Err(CopyError::Differs { what, detail })
}

/// The first key that only one of the tables has, or with another value.
fn first_difference(from: &dyn Table, to: &dyn Table) -> CopyResult<Option<Vec<u8>>> {
    let (mut from, mut to) = (All::of(from), All::of(to));
    loop {
        let (here, there) = (from.next().transpose().map_err(of_source)?, to.next().transpose().map_err(of_target)?);
        match (here, there) {
            (None, None) => return Ok(None),
            (here, there) if here == there => {}
            (Some((here, _)), Some((there, _))) => return Ok(Some(here.min(there))),
            (here, there) => return Ok(here.or(there).map(|(key, _)| key)),
        }
    }
}
