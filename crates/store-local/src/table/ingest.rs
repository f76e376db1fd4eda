//! Very many rows at once: they are sorted into files that RocksDB takes as they are, past its log and its memory. Not for few.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use loligo_store::{Batch, Result};
use rocksdb::{DB, IngestExternalFileOptions, Options, SstFileWriter};

use super::{LocalTable, family, kind_of};

/// Fewer rows than these are written as others are.
const ROWS_MIN: usize = 10_000;
/// Prefix of files that are being made. RocksDB knows no such names.
const NAME: &str = "ingest-";

/// Files are made by one at a time: the ranks of a server share a table. How often that was done, so that no file is called as one before.
#[derive(Default)]
pub(super) struct Ingesting(Mutex<u64>);

/// A key with its new value, or none: it is to be removed.
type Row = (Vec<u8>, Option<Vec<u8>>);

/// Files that are gone when this is.
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        // RocksDB has moved those that it took; what cannot be removed goes when the table is opened the next time.
        self.0.iter().for_each(|path| _ = std::fs::remove_file(path));
    }
}

/// Removes what a crash has left. Only before the table is used.
pub(super) fn sweep(table: &Path) {
    let Ok(files) = std::fs::read_dir(table) else { return };
    for file in files.flatten() {
        if file.file_name().to_string_lossy().starts_with(NAME) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

impl LocalTable {
    /// Ingests the batch, or gives it back, to be written otherwise.
    pub(super) fn ingest_files(&self, batch: Batch) -> Result<Option<Batch>> {
        if batch.puts.len() + batch.deletes.len() < ROWS_MIN {
            return Ok(Some(batch));
        }
        let mut number = self.ingesting.0.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let Batch { puts, deletes } = batch;
        let puts = puts.into_iter().map(|(key, value)| (key, Some(value)));
        let mut rows: Vec<Row> = puts.chain(deletes.into_iter().map(|key| (key, None))).collect();
        rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        // A file for each kind of row: so it covers few others, and what RocksDB has of those in memory need not be written first.
        let mut files = Files(Vec::new());
        for (at, rows) in rows.chunk_by(|a, b| a.0.first() == b.0.first()).enumerate() {
            let path = self.path.join(format!("{NAME}{number}-{at}.sst"));
            files.0.push(path.clone());
            write(&self.options, &path, rows).map_err(|error| kind_of(&path, &error))?;
        }
        let _pass = self.gate.pass();
        let taken = self.write_with(|db: &DB| {
            let mut options = IngestExternalFileOptions::default();
            options.set_move_files(true);
            let ingest = || db.ingest_external_file_cf_opts(family(db), &options, files.0.clone());
            self.reached.write(db, (0, false), ingest)
        });
        taken.map(|()| None)
    }
}

fn write(options: &Options, path: &Path, rows: &[Row]) -> std::result::Result<(), rocksdb::Error> {
    let mut writer = SstFileWriter::create(options);
    writer.open(path)?;
    for (key, value) in rows {
        match value {
            Some(value) => writer.put(key, value)?,
            None => writer.delete(key)?,
        }
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loligo_store::{Backend, Table};

    use super::*;
    use crate::{FormatOptions, LocalStore, OpenOptions};

    fn many(from: u32) -> Batch {
        let mut batch = Batch::new();
        for n in from..from + ROWS_MIN as u32 {
            batch.put(n.to_be_bytes(), n.to_le_bytes());
        }
        batch
    }

    #[test]
    fn many_rows_survive_the_end_of_the_process_and_leave_no_file_behind_and_what_a_crash_left_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        LocalStore::format(&data, &FormatOptions::default()).expect("it is empty");
        let left = |path: &Path| {
            let names =
                std::fs::read_dir(path).expect("the table's").map(|file| file.expect("it can be read").file_name());
            names.filter(|name| name.to_string_lossy().starts_with(NAME)).count()
        };
        let path = {
            let store = LocalStore::open(&data, &OpenOptions::default()).expect("it is there");
            let table: Arc<dyn Table> = store.table();
            table.ingest(many(0)).expect("there is room");
            table.ingest(many(7)).expect("over what is there");
            let path = find(&data);
            assert_eq!(left(&path), 0);
            path
        };
        std::fs::write(path.join(format!("{NAME}0.sst")), b"half a file").expect("there is room");
        let store = LocalStore::open(&data, &OpenOptions::default()).expect("it is there");
        assert_eq!(left(&path), 0);
        let rows = store.table().scan(b"", b"", usize::MAX).expect("it can be read");
        let own =
            rows.iter().filter(|(key, value)| key.len() == 4 && value.len() == 4 && key.iter().rev().eq(value.iter()));
        assert_eq!(own.count(), ROWS_MIN + 7);
    }

    #[test]
    fn the_ranks_of_a_server_put_many_rows_into_their_table_at_the_same_time_and_none_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        LocalStore::format(&data, &FormatOptions::default()).expect("it is empty");
        let store = LocalStore::open(&data, &OpenOptions::default()).expect("it is there");
        let table: Arc<dyn Table> = store.table();
        std::thread::scope(|scope| {
            for rank in 0..4u32 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..3 {
                        table.ingest(many((rank * 3 + round) * ROWS_MIN as u32)).expect("there is room");
                    }
                });
            }
        });
        let rows = table.scan(b"\x00", b"\x01", usize::MAX).expect("it can be read");
        let own = rows.iter().filter(|(key, value)| key.len() == 4 && key.iter().rev().eq(value.iter()));
        assert_eq!(own.count(), 12 * ROWS_MIN);
    }

    /// The table's directory.
    fn find(data: &Path) -> PathBuf {
        let dirs = std::fs::read_dir(data).expect("it is there").map(|file| file.expect("it can be read").path());
        dirs.into_iter().find(|path| path.join("CURRENT").is_file()).expect("a table of RocksDB")
    }
}
