//! A check of a data directory itself: whether its parts are what `docs/formats/objects.md` promises. It owns nothing and writes nothing,
//! so a server goes on meanwhile; a second look ([`loligo_store::look`]) tells what is being changed from what is wrong.
//!
//! Here: whose the directory is, the table, and the journals' files. Objects are in `objects/check.rs`; what rows and records say is the
//! namespace's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use loligo_store::{CheckProgress, Checked, Finding, Result, Segment, Segments, StoreError, look};
use rocksdb::{DB, Direction, IteratorMode, ReadOptions};

use crate::files::named;
use crate::layout::Layout;
use crate::store::OpenOptions;
use crate::{journal, marks, objects, table};

/// Remedy of damage that no program can repair.
const FROM_A_COPY: &str =
    "nothing mends this: copy the directory as it is, and go back to a copy (loligo copy) or a dump (loligo load)";
/// The same of rows.
const WHAT_CAN_BE_READ: &str = "go back to a copy (loligo copy); or stop the server, copy the directory as it is, and save the rows that can be read: loligo fsck --repair";
/// The same of a table that lacks its end.
const LOST_END: &str = "copy the directory as it is, and go back to a copy (loligo copy); or go on with what is there: loligo fsck --repair";
/// Remedy of a mark that cannot be read.
const NO_MARK: &str =
    "whether the table has its end cannot be told; the next change of it that is synced makes the mark anew";
/// Rows between two words of how far it is.
const TELL_EVERY: u64 = 4096;
/// Bytes that the table's files are read ahead by.
const READ_AHEAD: usize = 2 << 20;

/// A data directory, looked at.
pub struct LocalCheck {
    layout: Layout,
}

impl LocalCheck {
    /// [`StoreError::NotFound`] and [`StoreError::Foreign`] if there is none.
    pub fn of(dir: &Path) -> Result<LocalCheck> {
        let layout = Layout::new(dir);
        match layout.identify() {
            Err(error @ (StoreError::NotFound { .. } | StoreError::Foreign { .. })) if !layout.table().is_dir() => {
                Err(error)
            }
            _ => Ok(LocalCheck { layout }),
        }
    }

    /// Checks all of it but the records of journals, which [`LocalCheck::segments`] gives.
    pub fn run(&self, tell: &mut dyn FnMut(CheckProgress)) -> Result<Checked> {
        let mut checked = Checked { server: self.owner(), ..Checked::default() };
        if let Err(error) = self.layout.identify() {
            checked.findings.push(Finding::wrong(cause(&error), FROM_A_COPY));
        }
        if self.layout.refuse_lost_table().is_ok()
            && let Err(error) = self.layout.refuse_lost_parts()
        {
            checked.findings.push(Finding::wrong(cause(&error), FROM_A_COPY));
        }
        checked.findings.extend(self.layout.missing(&self.layout.marks(), marks::MISSING));
        let mut rows = 0;
        let found = look(|| {
            rows = 0;
            self.table(&mut rows, tell)
        });
        checked.findings.extend(found?);
        checked.count("rows", rows);
        for rank in self.ranks() {
            checked.count("journals", 1);
            for segment in self.segments(rank).list()? {
                checked.count("segments", 1);
                checked.count("segment_bytes", segment.len);
            }
        }
        objects::check(&self.layout, &mut checked, tell)?;
        // One that has just begun explains as much as one that was there all the time.
        checked.server = checked.server.or_else(|| self.owner());
        Ok(checked)
    }

    /// The ranks that have a journal, or had one by the marks.
    pub fn ranks(&self) -> Vec<u32> {
        let names = fs::read_dir(self.layout.journal()).into_iter().flatten().flatten();
        let mut ranks: Vec<u32> = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        ranks.extend(self.fs_id().map(|fs| marks::ranks(&self.layout.marks(), &fs)).unwrap_or_default());
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The journal of a rank.
    pub fn segments(&self, rank: u32) -> Box<dyn Segments> {
        Box::new(Files { dir: self.layout.journal().join(rank.to_string()), open: BTreeMap::new() })
    }

    /// The durable end of a rank's journal, as far as it is known.
    pub fn synced(&self, rank: u32) -> Result<Option<Segment>> {
        // Without an identity there is nothing to compare with, which is said already.
        self.fs_id().map_or(Ok(None), |fs| marks::look(&self.layout.marks(), &fs, rank))
    }

    /// Identity of the file system, if it can be read.
    pub fn fs_id(&self) -> Option<[u8; 16]> {
        self.layout.identify().ok().map(|identity| identity.fs_id)
    }

    /// A row of the table, if it can be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let path = self.layout.table();
        self.open()?.map_or(Ok(None), |db| db.get(key).map_err(|error| table::kind_of(&path, &error)))
    }

    /// The process that has the directory, for people: the kernel tells who has locked its file.
    fn owner(&self) -> Option<String> {
        let lock = fs::metadata(self.layout.lock()).ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let said = fs::read_to_string(self.layout.lock()).unwrap_or_default();
        Some(format!("process {}", holder(&locks, (lock.dev(), lock.ino()), said.trim())?))
    }

    /// `None`: there never was a table.
    fn open(&self) -> Result<Option<DB>> {
        let path = self.layout.table();
        if !path.join("CURRENT").exists() {
            return self.layout.refuse_lost_table().map(|()| None);
        }
        let mut options = table::options(&OpenOptions::default());
        options.create_if_missing(false);
        // Each is opened at once, so that one that is removed meanwhile can be read to its end.
        options.set_max_open_files(-1);
        DB::open_for_read_only(&options, &path, false).map(Some).map_err(|error| table::kind_of(&path, &error))
    }

    /// Reads all rows: RocksDB compares each block of rows and of indexes with its checksum.
    fn table(&self, rows: &mut u64, tell: &mut dyn FnMut(CheckProgress)) -> Result<Vec<Finding>> {
        let path = self.layout.table();
        let wrong = |text: String| Finding::wrong(text, WHAT_CAN_BE_READ);
        // Before the table: what was durable by now is there when it is opened.
        let mark = self.fs_id().map_or(Ok(None), |fs| marks::look_at_table(&self.layout.marks(), &fs));
        let db = match self.open() {
            Ok(Some(db)) => db,
            Ok(None) => return Ok(Vec::new()),
            Err(error @ StoreError::ReadOnly { .. }) => return Err(error),
            Err(error) => return Ok(vec![wrong(format!("the table cannot be opened: {}", cause(&error)))]),
        };
        let failed = |error: &rocksdb::Error| cause(&table::kind_of(&path, error));
        let total = db.property_int_value("rocksdb.estimate-num-keys").ok().flatten().unwrap_or_default();
        let mut findings = Vec::new();
        match mark {
            Ok(mark) => {
                let lost = table::lost_end(db.latest_sequence_number(), mark);
                findings
                    .extend(lost.map(|lost| Finding::wrong(format!("the table {}: {lost}", path.display()), LOST_END)));
            }
            Err(error) => findings.push(Finding::wrong(cause(&error), NO_MARK)),
        }
        let whole = findings.len();
        for pair in db.iterator_opt(IteratorMode::Start, reading()) {
            if let Err(error) = pair {
                findings.push(wrong(failed(&error)));
                break;
            }
            *rows += 1;
            if rows.is_multiple_of(TELL_EVERY) {
                tell(CheckProgress { stage: "checking the table", bytes: false, done: *rows, total });
            }
        }
        if findings.len() == whole {
            return Ok(findings);
        }
        // What else is damaged: file by file, as nothing is read beyond the first damage.
        let files = db.live_files().map_err(|error| table::kind_of(&path, &error))?;
        for file in files {
            let (Some(start), Some(end)) = (file.start_key, file.end_key) else { continue };
            let mut read = reading();
            read.set_iterate_upper_bound([end.as_slice(), &[0]].concat());
            let pairs = db.iterator_opt(IteratorMode::From(&start, Direction::Forward), read);
            let found = pairs.filter_map(std::result::Result::err).next().map(|error| wrong(failed(&error)));
            findings.extend(found.filter(|found| !findings.contains(found)));
        }
        Ok(findings)
    }
}

/// Which process holds the flock of a file, by the kernel's list. Inode numbers repeat between file systems, so the device counts, too; where the
/// kernel calls that by another name (btrfs, overlays), the process must be the one that the file itself names (`said`).
fn holder<'a>(locks: &'a str, (dev, ino): (u64, u64), said: &str) -> Option<&'a str> {
    let device = format!("{:02x}:{:02x}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let inode = ino.to_string();
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (kind, pid, place) = (fields.get(1)?, fields.get(4)?, fields.get(5)?);
        let (on, number) = place.rsplit_once(':')?;
        (*kind == "FLOCK" && number == inode && (on == device || *pid == said)).then_some(*pid)
    })
}

fn reading() -> ReadOptions {
    let mut read = ReadOptions::default();
    read.set_verify_checksums(true);
    read.fill_cache(false);
    read.set_readahead_size(READ_AHEAD);
    read
}

/// The thing and the cause alone: the check has remedies of its own.
pub(crate) fn cause(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt { place, detail } => format!("{place}: {detail}"),
        StoreError::Io { what, cause } => format!("{what}: {cause}"),
        error => error.to_string(),
    }
}

/// Segments as files, which stay open: one that is trimmed meanwhile is read to its end.
struct Files {
    dir: PathBuf,
    open: BTreeMap<u64, (File, u64)>,
}

impl Segments for Files {
    fn list(&mut self) -> Result<Vec<Segment>> {
        self.open.clear();
        let mut ids = Vec::new();
        let entries = match fs::read_dir(&self.dir) {
            // The mark tells whether something was there.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| named(&self.dir, &e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| named(&self.dir, &e))?;
            ids.extend(entry.file_name().to_str().and_then(journal::id_of));
        }
        // The newest one first: so of those before it at least what was there when it was begun is seen.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        for id in ids {
            let path = self.dir.join(format!("{id:016x}.seg"));
            match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
                Ok((len, file)) => _ = self.open.insert(id, (file, len)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&path, &error)),
            }
        }
        Ok(self.open.iter().map(|(id, (_, len))| Segment { id: *id, len: *len }).collect())
    }

    fn read_at(&mut self, id: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let Some((file, len)) = self.open.get(&id) else { return Ok(0) };
        let want = buf.len().min(len.saturating_sub(offset) as usize);
        let mut read = 0;
        while read < want {
            match file.read_at(&mut buf[read..want], offset + read as u64) {
                Ok(0) => break,
                Ok(some) => read += some,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(named(&self.dir.join(format!("{id:016x}.seg")), &error)),
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_the_same_inode_number_on_another_device_is_not_that_of_this_directory() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:1b:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 14 fe:00:78 0 EOF\n3: FLOCK  ADVISORY  WRITE 13 fe:00:79 0 EOF\n";
        let on = |major, minor| rustix::fs::makedev(major, minor);
        assert_eq!(holder(locks, (on(0xfe, 0), 77), ""), None);
        assert_eq!(holder(locks, (on(0, 0x1b), 77), ""), Some("12"));
        assert_eq!(holder(locks, (on(0xfe, 0), 79), "9"), Some("13"));
        // btrfs gives files another device number than its locks.
        assert_eq!(holder(locks, (on(0, 0x30), 77), "12"), Some("12"));
        assert_eq!(holder(locks, (on(0xfe, 0), 78), ""), None, "one that waits holds nothing");
    }
}
