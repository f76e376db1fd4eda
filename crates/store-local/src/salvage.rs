//! A table of which something cannot be read is replaced by one of the rows that can be. The damaged one is kept beside it. Of one that has
//! lost its end the mark is set back.
//!
//! Rows are lost, and of a row that was removed an older state may come back: the metadata has to be checked after it (`loligo fsck`).
//! Not here: finding out that a table is damaged while it is served (`check.rs`), and what rows say.

use std::fs;
use std::path::{Path, PathBuf};

use loligo_store::{Result, StoreError};
use rocksdb::{DB, Direction, IteratorMode, ReadOptions, WriteBatch};
use rustix::fs::{CWD, RenameFlags};

use crate::files::{self, named};
use crate::layout::Layout;
use crate::marks::Marks;
use crate::store::{LocalStore, OpenOptions};
use crate::table;

/// Bytes of rows that are written at a time.
const CHUNK: usize = 1 << 20;
/// Bytes that are read ahead.
const READ_AHEAD: usize = 2 << 20;

/// Result of salvaging a damaged table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Salvaged {
    /// Some of it could not be read: there is a new table.
    Replaced {
        /// Rows that were read and are in the table now.
        rows: u64,
        /// Stretches of the table that could not be read.
        gaps: u64,
        /// Files of the table that could not be opened at all.
        files: u64,
        /// Where the damaged table is kept.
        kept: PathBuf,
    },
    /// All that is there can be read, and its end is lost: it is the same table, which counts as whole from now on.
    Shortened {
        /// Number of its last change.
        last: u64,
        /// Number of the change up to which it was durable.
        mark: u64,
    },
}

impl LocalStore {
    /// True if all rows of a data directory that nobody has open can be read. [`StoreError::InUse`] if it is open.
    pub fn is_readable(dir: impl AsRef<Path>, options: &OpenOptions) -> Result<bool> {
        let layout = Layout::new(dir.as_ref());
        layout.identify()?;
        layout.refuse_inside()?;
        let _lock = layout.take_lock()?;
        // RocksDB would make a directory of one that is not there, if only for its log.
        if layout.refuse_lost_table().is_err() {
            return Ok(false);
        }
        let place = Place::of(&layout);
        let db = open(&place.table, &table::options(options));
        Ok(db.and_then(|db| read(&db, &place.table, |_, _| Ok(()))).is_ok_and(|gaps| gaps == 0))
    }

    /// Replaces the table of a data directory that nobody has open, if something of it cannot be read, or sets its mark back, if its end is lost.
    /// `None`: neither, and nothing was changed. Needs as much room as the table has. [`StoreError::InUse`] if it is open; [`StoreError::Corrupt`] if nothing can be read.
    pub fn salvage(dir: impl AsRef<Path>, options: &OpenOptions) -> Result<Option<Salvaged>> {
        let layout = Layout::new(dir.as_ref());
        let identity = layout.identify()?;
        layout.refuse_inside()?;
        let _lock = layout.take_lock()?;
        let place = Place::of(&layout);
        if !place.table.is_dir() {
            layout.refuse_lost_table()?;
        }
        place.sweep()?;
        let marks = Marks::open(&layout.marks(), &identity.fs_id);
        let salvaged = place.salvage(&table::options(options), &marks);
        place.sweep()?;
        salvaged
    }
}

/// The directories that take part.
struct Place {
    dir: PathBuf,
    table: PathBuf,
    /// A copy of the damaged table that RocksDB repairs, and the new table.
    repaired: PathBuf,
    fresh: PathBuf,
}

impl Place {
    fn of(layout: &Layout) -> Place {
        let table = layout.table();
        let beside = |end: &str| table.with_file_name(format!("table.{end}"));
        Place { dir: layout.dir.clone(), repaired: beside("repaired"), fresh: beside("fresh"), table }
    }

    /// Removes what is left of an attempt.
    fn sweep(&self) -> Result<()> {
        for path in [&self.repaired, &self.fresh] {
            match fs::remove_dir_all(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(named(path, &error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn salvage(&self, options: &rocksdb::Options, marks: &Marks) -> Result<Option<Salvaged>> {
        let mut files = 0;
        let source = match open(&self.table, options) {
            Ok(db) => {
                if read(&db, &self.table, |_, _| Ok(()))? == 0 {
                    let last = db.latest_sequence_number();
                    let Some(mark) = marks.table().filter(|mark| *mark > last) else { return Ok(None) };
                    marks.set_table(Some(last))?;
                    return Ok(Some(Salvaged::Shortened { last, mark }));
                }
                db
            }
            Err(StoreError::Full { .. } | StoreError::NoDescriptor { .. } | StoreError::ReadOnly { .. }) => {
                return open(&self.table, options).map(|_| None);
            }
            Err(_) => {
                files = self.repair(options)?;
                open(&self.repaired, options)?
            }
        };
        let (rows, gaps, last) = self.copy(&source, options)?;
        drop(source);
        if rows == 0 {
            let detail = "no row of it can be read".to_string();
            return Err(StoreError::Corrupt { place: format!("the table {}", self.table.display()), detail });
        }
        // The new table counts its changes anew.
        marks.set_table(None)?;
        let kept = self.exchange()?;
        marks.set_table(Some(last))?;
        Ok(Some(Salvaged::Replaced { rows, gaps, files, kept }))
    }

    /// Has RocksDB repair a copy, which leaves out the files that cannot be opened. How many these are.
    fn repair(&self, options: &rocksdb::Options) -> Result<u64> {
        fs::create_dir(&self.repaired).map_err(|e| named(&self.repaired, &e))?;
        for entry in fs::read_dir(&self.table).map_err(|e| named(&self.table, &e))? {
            let from = entry.map_err(|e| named(&self.table, &e))?.path();
            let Some(name) = from.file_name() else { continue };
            let to = self.repaired.join(name);
            // Files of rows are never written again.
            let linked = from.extension().is_some_and(|end| end == "sst") && fs::hard_link(&from, &to).is_ok();
            if !linked && from.is_file() {
                fs::copy(&from, &to).map_err(|e| named(&to, &e))?;
            }
        }
        DB::repair(options, &self.repaired).map_err(|error| table::kind_of(&self.table, &error))?;
        let lost = fs::read_dir(self.repaired.join("lost")).into_iter().flatten().flatten();
        Ok(lost.filter(|entry| entry.path().extension().is_some_and(|end| end == "sst")).count() as u64)
    }

    /// Puts all rows that can be read into a new table: how many, how often some could not be, and the number of the last change.
    fn copy(&self, source: &DB, options: &rocksdb::Options) -> Result<(u64, u64, u64)> {
        let failed = |error: rocksdb::Error| table::kind_of(&self.fresh, &error);
        let fresh = DB::open(options, &self.fresh).map_err(failed)?;
        let (mut batch, mut rows) = (WriteBatch::default(), 0);
        let gaps = read(source, &self.table, |key, value| {
            batch.put(key, value);
            rows += 1;
            if batch.size_in_bytes() >= CHUNK {
                fresh.write(std::mem::take(&mut batch)).map_err(failed)?;
            }
            Ok(())
        })?;
        fresh.write(batch).map_err(failed)?;
        fresh.flush().map_err(failed)?;
        Ok((rows, gaps, fresh.latest_sequence_number()))
    }

    /// The new table takes the place of the damaged one, in one step.
    fn exchange(&self) -> Result<PathBuf> {
        let is_free = |path: &PathBuf| !path.exists();
        let names = (1..).map(|number| self.table.with_file_name(format!("table.damaged.{number}")));
        let kept = names.into_iter().find(is_free).expect("there are names without end");
        files::sync_dir(&self.fresh)?;
        // Under a name that is never swept before the exchange: what gets that name by it is kept, wherever this is cut off.
        fs::rename(&self.fresh, &kept).map_err(|e| named(&kept, &e))?;
        rustix::fs::renameat_with(CWD, &kept, CWD, &self.table, RenameFlags::EXCHANGE)
            .map_err(|e| named(&self.table, &e.into()))?;
        files::sync_dir(&self.dir)?;
        Ok(kept)
    }
}

/// Opens a table to be read. All its files are opened: an iterator over some that cannot be opened finds nothing at all.
fn open(path: &Path, options: &rocksdb::Options) -> Result<DB> {
    let mut options = options.clone();
    options.create_if_missing(false);
    options.set_max_open_files(-1);
    DB::open_for_read_only(&options, path, false).map_err(|error| table::kind_of(path, &error))
}

fn reading() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.fill_cache(false);
    options.set_readahead_size(READ_AHEAD);
    options
}

/// Gives all rows that can be read, ascending; how often some had to be passed over.
fn read(db: &DB, path: &Path, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<u64> {
    let (mut from, mut gaps) = (Vec::new(), 0);
    loop {
        let mut ended = true;
        for pair in db.iterator_opt(IteratorMode::From(&from, Direction::Forward), reading()) {
            match pair {
                Ok((key, value)) => {
                    each(&key, &value)?;
                    from = key.into_vec();
                    // The next key that there may be.
                    from.push(0);
                }
                Err(error) => {
                    let error = table::kind_of(path, &error);
                    if !matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. }) {
                        return Err(error);
                    }
                    ended = false;
                    break;
                }
            }
        }
        if ended {
            return Ok(gaps);
        }
        gaps += 1;
        match beyond(&from, |key| is_readable(db, key)) {
            Some(key) => from = key,
            None => return Ok(gaps),
        }
    }
}

/// True if a row can be read from a key on, or there is none.
fn is_readable(db: &DB, key: &[u8]) -> bool {
    let mut rows = db.iterator_opt(IteratorMode::From(key, Direction::Forward), reading());
    rows.next().is_none_or(|pair| pair.is_ok())
}

/// The first key beyond one at which rows can be read again, as far as its first 16 bytes tell it from others. `None`: none can be up to the end.
fn beyond(key: &[u8], is_readable: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut head = [0; 16];
    let len = key.len().min(16);
    head[..len].copy_from_slice(&key[..len]);
    let begin = u128::from_be_bytes(head);
    let is_good = |at: u128| is_readable(&at.to_be_bytes());
    let mut bad = begin;
    let mut good = (0..128).find_map(|bits| {
        let at = begin.checked_add(1 << bits)?;
        if is_good(at) {
            return Some(at);
        }
        bad = at;
        None
    })?;
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if is_good(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good.to_be_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_readable_key_beyond_a_gap_is_found() {
        let at = |number: u128| number.to_be_bytes().to_vec();
        for (from, end) in [(0, 1), (5, 6), (1000, 123_456), (7, u128::MAX / 2), (1 << 100, (1 << 120) + 3)] {
            assert_eq!(beyond(&at(from), |key| key >= &at(end)[..]), Some(at(end)), "{from} to {end}");
        }
        assert_eq!(beyond(b"abc", |_| false), None);
        assert_eq!(beyond(&at(u128::MAX), |_| true), None, "nothing is behind it");
        assert_eq!(beyond(b"", |_| true), Some(at(1)));
    }
}
