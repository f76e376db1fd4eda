//! The table on RocksDB: one column family, write-ahead log always on, `Sync` syncs that log. Not a
//! cache: the metadata server holds what it uses.

mod ingest;
mod log;
mod options;
mod reached;
mod reclaim;
mod stall;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use loligo_store::{Batch, Durability, KeyValue, Result, StoreError, Table, TableSize};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, Direction, IteratorMode, ReadOptions, WriteBatch};

use crate::files;
use crate::marks::Marks;
use crate::room::{For, Room};
use crate::snapshot::Gate;
use crate::spare;
use crate::store::{OpenOptions, Owner, read_only};
use options::DEFAULT_FAMILY;
pub(crate) use options::database as options;
pub(crate) use reached::lost_end;

/// Steps of the reserve that are given up before a table that ran out of space is opened again.
const STEPS_TO_REOPEN: usize = 4;
/// Free bytes below which a table that ran out of space is not opened again: opening itself writes.
const SPACE_TO_REOPEN: u64 = 4 << 20;

pub(crate) struct LocalTable {
    path: PathBuf,
    options: rocksdb::Options,
    /// The most room that a compaction may need, bytes.
    compaction: u64,
    /// Bytes of rows that are written at a time where that may be.
    chunk: usize,
    /// `None` only after an opening again failed; the next call tries it again.
    db: RwLock<Option<DB>>,
    /// Set when a write met a full disk or found no descriptor: RocksDB then refuses writes until it is opened again.
    stuck: AtomicBool,
    /// True if RocksDB compacts by itself. Not where there is no room for that: it would take, for a while, space that other writes need.
    compacts: AtomicBool,
    ingesting: ingest::Ingesting,
    reclaim: reclaim::Reclaim,
    reached: reached::Reached,
    room: Arc<Room>,
    gate: Arc<Gate>,
    owner: Arc<Owner>,
}

impl LocalTable {
    /// Bytes that opening the table in `path` may write: what its log has goes into files.
    pub(crate) fn to_write(path: &Path) -> u64 {
        bytes_of(path, ".log")
    }

    pub(crate) fn open(
        path: &Path,
        options: &OpenOptions,
        room: Arc<Room>,
        (gate, marks): (Arc<Gate>, Arc<Marks>),
        owner: Arc<Owner>,
    ) -> Result<Self> {
        let compaction = options::compaction_bytes(options);
        let chunk = options.write_buffer_bytes / 4;
        let options = options::database(options);
        let compacts = files::statfs(path)?.free_bytes >= bytes_of(path, ".sst").min(compaction);
        let db = if owner.only_reads() {
            open_to_read(path, &options)?
        } else {
            ingest::sweep(path);
            room.find(For::Opening, || open(path, &options, compacts))?
        };
        let reached = reached::Reached::of(marks);
        reached.opened(path, &db)?;
        Ok(Self {
            path: path.to_path_buf(),
            options,
            compaction,
            chunk,
            db: RwLock::new(Some(db)),
            stuck: AtomicBool::new(false),
            compacts: AtomicBool::new(compacts),
            ingesting: ingest::Ingesting::default(),
            reclaim: reclaim::Reclaim::default(),
            reached,
            room,
            gate,
            owner,
        })
    }

    /// Refuses a table that ends before its mark, while nothing is changed: an opening to write would drop what the log has behind damage.
    pub(crate) fn refuse_lost_end(path: &Path, options: &OpenOptions, marks: &Marks) -> Result<()> {
        let Some(mark) = marks.table().filter(|mark| LocalTable::is_at(path) && !log::reaches(path, *mark)) else {
            return Ok(());
        };
        let mut options = options::database(options);
        options.create_if_missing(false);
        options.set_skip_stats_update_on_db_open(true);
        // One that cannot be opened is refused where it is to be used.
        open_to_read(path, &options).map_or(Ok(()), |db| reached::refuse_lost_end(path, &db, Some(mark)))
    }

    /// True if there is a table.
    pub(crate) fn is_at(path: &Path) -> bool {
        path.join("CURRENT").exists()
    }

    /// Puts the table as it is now into a directory that is not there yet: hard links, and copies of what its log has.
    pub(crate) fn checkpoint(&self, to: &Path) -> Result<()> {
        // Nothing is written out of memory first: that would take long, and all of it is in the log, too.
        let made = self.with_now(&|db| Checkpoint::new(db)?.create_checkpoint_with_log_size(to, u64::MAX));
        made.map_err(|error| match error {
            StoreError::Io { cause, .. } => StoreError::Io { what: to.display().to_string(), cause },
            error => error,
        })
    }

    /// Bytes of the table, and how many of the disk have to be free so that it can compact.
    pub(crate) fn room(&self) -> (u64, u64) {
        let bytes = self.approximate_size().map_or(0, |size| size.bytes);
        (bytes, bytes.min(self.compaction))
    }

    /// A clean stop: nothing is left in the write-ahead log for the next opening to replay.
    pub(crate) fn close(&self) -> Result<()> {
        if self.owner.only_reads() { Ok(()) } else { self.write_with(DB::flush) }
    }

    fn named(&self, error: &rocksdb::Error) -> StoreError {
        kind_of(&self.path, error)
    }

    /// Refuses a change of what is only read.
    fn may_change(&self) -> Result<()> {
        if self.owner.only_reads() { Err(read_only(&self.path)) } else { Ok(()) }
    }

    /// Runs `f` on the open database; again if there is no descriptor for a file of the table.
    fn with<R>(&self, f: impl Fn(&DB) -> std::result::Result<R, rocksdb::Error>) -> Result<R> {
        let is_short = |error: &StoreError| matches!(error, StoreError::NoDescriptor { .. });
        spare::opened_within(spare::PATIENCE, || self.with_now(&f), is_short)
    }

    fn with_now<R>(&self, f: &impl Fn(&DB) -> std::result::Result<R, rocksdb::Error>) -> Result<R> {
        let guard = self.read();
        if let Some(db) = guard.as_ref() {
            return f(db).map_err(|e| self.named(&e));
        }
        drop(guard);
        self.reopen()?;
        match self.read().as_ref() {
            Some(db) => f(db).map_err(|e| self.named(&e)),
            None => Err(StoreError::Full { what: self.path.display().to_string() }),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<DB>> {
        self.db.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes and opens the database, which is how it comes back from a full disk, or from having found no descriptor. Loses nothing:
    /// batches that were accepted are in the write-ahead log.
    fn reopen(&self) -> Result<()> {
        // What the device keeps back for root counts, too, or the reserve would be used up in place of it.
        let space = || files::free_for_us(&self.path);
        while space()? < SPACE_TO_REOPEN && self.room.give(For::Table) {}
        if space()? < SPACE_TO_REOPEN {
            return Err(StoreError::Full { what: self.path.display().to_string() });
        }
        let mut slot = self.db.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() && !self.stuck.load(Ordering::Acquire) {
            return Ok(());
        }
        tracing::info!(table = %self.path.display(), "opening the table again, which could not be written");
        // The old one has to let go of the directory's lock first.
        drop(slot.take());
        self.compacts.store(false, Ordering::Release);
        match open(&self.path, &self.options, false) {
            Ok(db) => {
                self.reached.opened(&self.path, &db)?;
                *slot = Some(db);
            }
            Err(error) => {
                // What was accepted can be read all the same; the next write tries again.
                *slot = DB::open_for_read_only(&self.options, &self.path, false).ok();
                return Err(error);
            }
        }
        self.stuck.store(false, Ordering::Release);
        Ok(())
    }

    /// From time to time: opens the database again if a write met a full disk, and lets it compact if there is room for that.
    pub(crate) fn tend(&self) {
        let (_, need) = self.room();
        let free = files::statfs(&self.path).map_or(0, |space| space.free_bytes);
        if self.stuck.load(Ordering::Acquire)
            && let Err(error) = self.reopen()
        {
            return tracing::debug!("the table is not written now: {error}");
        }
        if self.room.is_full() {
            self.reclaim();
        }
        // Twice as much before it begins again, so that it does not change all the time.
        let may = if self.compacts.load(Ordering::Acquire) { free >= need } else { free >= 2 * need };
        if may == self.compacts.load(Ordering::Acquire) {
            return;
        }
        let disable = if may { "false" } else { "true" };
        match self.with(|db| db.set_options(&[("disable_auto_compactions", disable)])) {
            Ok(()) => self.compacts.store(may, Ordering::Release),
            Err(error) => tracing::debug!("whether the table compacts cannot be changed now: {error}"),
        }
    }

    /// Runs a write; after one that met a full disk the database is opened again, with more and more of the reserve.
    fn write_with(&self, f: impl Fn(&DB) -> std::result::Result<(), rocksdb::Error>) -> Result<()> {
        loop {
            let opened = if self.stuck.load(Ordering::Acquire) { self.reopen() } else { Ok(()) };
            match opened.and_then(|()| self.with(&f)) {
                Err(error @ StoreError::Full { .. }) => {
                    self.stuck.store(true, Ordering::Release);
                    // Each opening costs, so it is tried with more than a step.
                    if (0..STEPS_TO_REOPEN).filter(|_| self.room.give(For::Table)).count() == 0 {
                        return Err(error);
                    }
                }
                done => {
                    if matches!(&done, Err(error) if error.may_pass()) {
                        self.stuck.store(true, Ordering::Release);
                    }
                    return done;
                }
            }
        }
    }
}

/// Bytes of the files whose names end so.
fn bytes_of(path: &Path, end: &str) -> u64 {
    let files = std::fs::read_dir(path).into_iter().flatten().flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().ends_with(end));
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

fn open(path: &Path, options: &rocksdb::Options, compacts: bool) -> Result<DB> {
    let mut options = options.clone();
    options.set_disable_auto_compactions(!compacts);
    let options = &options;
    // Named with its options: a family that is only named, even the default one, is opened with RocksDB's defaults.
    DB::open_cf_with_opts(options, path, [(DEFAULT_FAMILY, options.clone())]).map_err(|e| kind_of(path, &e))
}

/// Opens a table that is written by nobody.
fn open_to_read(path: &Path, options: &rocksdb::Options) -> Result<DB> {
    let family = ColumnFamilyDescriptor::new(DEFAULT_FAMILY, options.clone());
    DB::open_cf_descriptors_read_only(options, path, [family], false).map_err(|e| kind_of(path, &e))
}

pub(crate) fn kind_of(path: &Path, error: &rocksdb::Error) -> StoreError {
    let (what, cause) = (path.display().to_string(), error.to_string());
    let lower = cause.to_ascii_lowercase();
    if lower.contains("no space left") || lower.contains("disk quota exceeded") || lower.contains("max allowed space") {
        return StoreError::Full { what };
    }
    if lower.contains("too many open files") {
        return StoreError::NoDescriptor { what };
    }
    if lower.contains("read-only file system") || lower.contains("permission denied") {
        return StoreError::ReadOnly { what, cause };
    }
    match error.kind() {
        // Writes are stopped because what is in memory cannot be written.
        rocksdb::ErrorKind::Incomplete => StoreError::Full { what },
        rocksdb::ErrorKind::Corruption => StoreError::Corrupt { place: format!("the table {what}"), detail: cause },
        _ => StoreError::Io { what, cause },
    }
}

fn family(db: &DB) -> &ColumnFamily {
    db.cf_handle(DEFAULT_FAMILY).expect("it was opened with this family")
}

fn to_rocksdb(deletes: &[Vec<u8>], puts: &[KeyValue]) -> WriteBatch {
    let mut out = WriteBatch::default();
    for key in deletes {
        out.delete(key);
    }
    for (key, value) in puts {
        out.put(key, value);
    }
    out
}

impl Table for LocalTable {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.with(|db| db.get(key))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.with(|db| {
            let values = db.batched_multi_get_cf(family(db), keys.iter().copied(), false);
            values.into_iter().map(|value| Ok(value?.map(|value| value.to_vec()))).collect()
        })
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>> {
        if limit == 0 || (!end.is_empty() && start >= end) {
            return Ok(Vec::new());
        }
        self.with(|db| {
            let mut read = ReadOptions::default();
            if !end.is_empty() {
                read.set_iterate_upper_bound(end);
            }
            let from = IteratorMode::From(start, Direction::Forward);
            let pairs = db.iterator_opt(from, read).take(limit);
            pairs.map(|pair| pair.map(|(k, v)| (k.into_vec(), v.into_vec()))).collect()
        })
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        if batch.is_empty() {
            return if durability == Durability::Sync { self.flush() } else { Ok(()) };
        }
        self.may_change()?;
        self.reclaim.removed(batch.deletes.len());
        let _pass = self.gate.pass();
        let sync = durability == Durability::Sync;
        let changes = batch.deletes.len() + batch.puts.len();
        self.write_with(|db| {
            let write = || stall::write(db, || to_rocksdb(&batch.deletes, &batch.puts), sync);
            self.reached.write(db, (changes, sync), write)
        })
    }

    /// In parts: RocksDB makes a file of all that is written at once, however much, and has to have room for such files when it compacts.
    fn write_rows(&self, batch: &Batch) -> Result<()> {
        self.may_change()?;
        self.reclaim.removed(batch.deletes.len());
        let (mut deletes, mut puts) = (&batch.deletes[..], &batch.puts[..]);
        while !(deletes.is_empty() && puts.is_empty()) {
            let mut bytes = 0;
            let fits = |(key, value): &&KeyValue| {
                bytes += key.len() + value.len();
                bytes <= self.chunk
            };
            let count = puts.iter().take_while(fits).count().max(1).min(puts.len());
            let (part, rest) = puts.split_at(count);
            let _pass = self.gate.pass();
            let changes = deletes.len() + part.len();
            self.write_with(|db| {
                self.reached.write(db, (changes, false), || stall::write(db, || to_rocksdb(deletes, part), false))
            })?;
            (deletes, puts) = (&[], rest);
        }
        Ok(())
    }

    fn ingest(&self, batch: Batch) -> Result<()> {
        self.may_change()?;
        match self.ingest_files(batch)? {
            Some(few) => self.write_rows(&few),
            None => Ok(()),
        }
    }

    fn flush(&self) -> Result<()> {
        if self.owner.only_reads() { Ok(()) } else { self.write_with(|db| self.reached.flush(db)) }
    }

    fn approximate_size(&self) -> Result<TableSize> {
        self.with(|db| {
            let number = |name: &str| db.property_int_value(name).map(Option::unwrap_or_default);
            let bytes = number("rocksdb.total-sst-files-size")? + number("rocksdb.cur-size-all-mem-tables")?;
            Ok(TableSize { keys: number("rocksdb.estimate-num-keys")?, bytes })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FormatOptions, LocalStore};

    /// Options of the open RocksDB, as it reports them itself.
    fn options_in_use(table: &Path) -> String {
        let files =
            std::fs::read_dir(table).expect("the table is a directory").map(|file| file.expect("it can be read"));
        let newest = files.filter(|file| file.file_name().to_string_lossy().starts_with("OPTIONS-"));
        let newest = newest.max_by_key(|file| file.file_name()).expect("RocksDB writes its options down");
        std::fs::read_to_string(newest.path()).expect("it is text")
    }

    #[test]
    fn the_table_is_opened_with_the_options_that_were_chosen() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        LocalStore::format(&data, &FormatOptions::default()).expect("it is empty");
        let options = OpenOptions { write_buffer_bytes: 3 << 20, ..OpenOptions::default() };
        let store = LocalStore::open(&data, &options).expect("it was formatted");
        let used = options_in_use(&data.join("table"));
        let wanted = [
            "  max_open_files=256",
            "  write_buffer_size=3145728",
            "  memtable_whole_key_filtering=true",
            "  block_size=8192",
            "  cache_index_and_filter_blocks=true",
            "  partition_filters=true",
            "  filter_policy=bloomfilter",
        ];
        let missing: Vec<_> = wanted.iter().filter(|line| !used.contains(**line)).collect();
        assert!(missing.is_empty(), "{missing:?} not in\n{used}");
        drop(store);
    }

    #[test]
    fn a_table_that_lacks_one_of_its_logs_is_not_opened_and_its_other_rows_can_be_saved() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        LocalStore::format(&data, &FormatOptions::default()).expect("it is empty");
        drop(LocalStore::open(&data, &OpenOptions::default()).expect("it was formatted"));
        let path = data.join("table");
        // Its memory is not written before there are many logs.
        let mut options = options(&OpenOptions { write_buffer_bytes: 64 << 10, ..OpenOptions::default() });
        options.set_max_write_buffer_number(10);
        options.set_min_write_buffer_number_to_merge(8);
        let db = open(&path, &options, false).expect("it is there");
        let mut sync = rocksdb::WriteOptions::default();
        sync.set_sync(true);
        (0..200_u32).for_each(|n| db.put_opt(n.to_be_bytes(), [1; 1000], &sync).expect("there is room"));
        drop(db);
        let files = std::fs::read_dir(&path).expect("the table is a directory").flatten().map(|file| file.path());
        let mut logs: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "log")).collect();
        logs.sort();
        assert!(logs.len() > 2, "{logs:?}");
        let whole = std::fs::read(&logs[1]).expect("a log");
        let refused = || LocalStore::open(&data, &OpenOptions { looks: true, ..OpenOptions::default() }).err();
        std::fs::write(&logs[1], &whole[..whole.len() / 2]).expect("it can be written");
        assert!(matches!(refused(), Some(StoreError::Corrupt { .. })), "{:?}", refused());
        std::fs::remove_file(&logs[1]).expect("it is there");
        assert!(matches!(refused(), Some(StoreError::Corrupt { .. })), "{:?}", refused());
        let salvaged = LocalStore::salvage(&data, &OpenOptions::default()).expect("the others can be read");
        let Some(crate::Salvaged::Replaced { rows, .. }) = salvaged else { panic!("{salvaged:?}") };
        assert!(rows > 100 && rows < 200, "{rows}");
        drop(LocalStore::open(&data, &OpenOptions::default()).expect("it is a table again"));
    }
}
