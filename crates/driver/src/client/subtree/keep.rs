//! What of a decoupled subtree is kept on this machine's disk ("local persist", Cudele §6.2): a journal file of the form that all have,
//! so `loligo journal inspect` reads it. Its first record says whose it is, and so does one at the end of each group of records that is
//! merged at once. Not in it: how what it holds is merged.
//!
//! The file holds the owner's number, with which anybody may go on in its name: it is its user's alone to read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loligo_journal::file::{FileAppendError, FileWriter};
use loligo_journal::{FileError, FileReader, FsId, Owner, Source, Torn, decode_record, encode_record};
use loligo_subtree::Group;
use loligo_types::{DecoupledRecord, Event, Ino, Lsn};

use super::Subtree;

/// Why a kept journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: FileError<io::Error>,
    },
    /// It is a rank's, or does not begin as one does.
    #[error("{0} is not the journal of a decoupled subtree: a rank's is put back with loligo journal import")]
    NotOfSubtree(PathBuf),
    /// A record makes no sense.
    #[error(
        "{path}: record {lsn} cannot be read: {cause}; what is before it can be looked at with loligo journal inspect"
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// Which.
        lsn: u64,
        /// Why.
        cause: String,
    },
}

/// The file, as it grows.
pub(in crate::client) struct Keeper {
    path: PathBuf,
    file: File,
    writer: FileWriter,
    next: Lsn,
    /// Groups of which all is in the file, and records of the one after them that are.
    groups: usize,
    parts: usize,
    /// Bytes in the file for good.
    offset: u64,
}

impl Keeper {
    pub(in crate::client) fn begin(path: &Path, fs: FsId, record: &DecoupledRecord) -> io::Result<Keeper> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let writer = FileWriter::new(fs, Owner::Client(record.session.0), false);
        let header = writer.header().to_vec();
        let mut keeper = Keeper { path: path.into(), file, writer, next: Lsn(1), groups: 0, parts: 0, offset: 0 };
        keeper.file.write_all_at(&header, 0)?;
        keeper.offset = header.len() as u64;
        let mut out = Vec::new();
        keeper.add_record(&mut out, record)?;
        keeper.put(&out)?;
        // Its name must be there after a crash of the machine, too.
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()?;
        Ok(keeper)
    }

    fn add(&mut self, out: &mut Vec<u8>, body: &[u8]) -> io::Result<()> {
        self.writer.append(out, self.next, body).map_err(|error: FileAppendError| io::Error::other(error))?;
        self.next = self.next.next();
        Ok(())
    }

    fn add_record(&mut self, out: &mut Vec<u8>, record: &DecoupledRecord) -> io::Result<()> {
        let mut body = Vec::new();
        encode_record(&mut body, None, &[Event::Decoupled(Box::new(record.clone()))]);
        self.add(out, &body)
    }

    fn put(&mut self, out: &[u8]) -> io::Result<()> {
        self.file.write_all_at(out, self.offset)?;
        self.file.sync_data()?;
        self.offset += out.len() as u64;
        self.writer.synced(Lsn(self.next.0 - 1));
        Ok(())
    }

    /// Adds what is not in it yet, and makes it durable.
    pub(in crate::client) fn keep(&mut self, record: &DecoupledRecord, groups: &[Group]) -> io::Result<()> {
        let mut out = Vec::new();
        for (number, group) in groups.iter().enumerate().skip(self.groups) {
            for body in group.parts.iter().skip(self.parts) {
                self.add(&mut out, body)?;
            }
            self.parts = group.parts.len();
            if number + 1 < groups.len() {
                let merges = record.merges + number as u64 + 1;
                self.add_record(&mut out, &DecoupledRecord { used: group.used, merges, ..record.clone() })?;
                (self.groups, self.parts) = (number + 1, 0);
            }
        }
        if out.is_empty() { Ok(()) } else { self.put(&out) }
    }

    /// The oldest group is merged, and not counted any more. What the file says of it is passed over: its number says that it is.
    pub(in crate::client) fn one_is_merged(&mut self) {
        match self.groups.checked_sub(1) {
            Some(left) => self.groups = left,
            None => self.parts = 0,
        }
    }

    /// All of it is merged.
    pub(in crate::client) fn remove(self) {
        // What stays is known to be merged by its record, and does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Subtree {
    /// Keeps all that is outstanding in a file of this machine, durably: the first time it makes it, and refuses one that is there; later
    /// it adds what is new, whatever path is given. After a crash of this process: [`Kept::read`], [`Subtree::resume`],
    /// [`Subtree::merge_kept`].
    ///
    /// After an error it is not known what the file holds; nothing is lost here, and it can be merged.
    pub fn persist(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        let (record, groups) = (self.machine.record().clone(), self.machine.groups());
        let mut keeper = match self.kept.take() {
            Some(keeper) => keeper,
            None => Keeper::begin(path.as_ref(), self.client.welcome().fs_id, &record)?,
        };
        // After a failed write the file is not written to again.
        keeper.keep(&record, &groups)?;
        self.kept = Some(keeper);
        Ok(())
    }
}

/// A journal that was kept.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    fs: FsId,
    record: DecoupledRecord,
    groups: Vec<Group>,
    torn: Option<Torn>,
}

struct Whole(File);

impl Source for Whole {
    type Error = io::Error;

    fn list(&mut self) -> io::Result<Vec<(u64, u64)>> {
        Ok(vec![(0, self.0.metadata()?.len())])
    }

    fn read_at(&mut self, _: u64, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
}

impl Kept {
    /// Reads one. A torn end, of what was never said to be kept, is left out.
    pub fn read(path: impl AsRef<Path>) -> Result<Kept, KeptError> {
        let path = path.as_ref().to_path_buf();
        let file = |error| KeptError::File { path: path.clone(), error };
        let opened = File::open(&path).map_err(|error| file(FileError::Source(error)))?;
        let mut reader = FileReader::open(Whole(opened)).map_err(file)?;
        let fs = reader.header().fs;
        if !matches!(reader.header().owner, Owner::Client(_)) {
            return Err(KeptError::NotOfSubtree(path));
        }
        let mut record: Option<DecoupledRecord> = None;
        let (mut groups, mut now) = (Vec::new(), Group::default());
        while let Some(raw) = reader.next_record().map_err(file)? {
            let (lsn, body): (u64, Arc<[u8]>) = (raw.lsn.0, raw.body.into());
            let events = decode_record(&body)
                .map_err(|cause| KeptError::Record { path: path.clone(), lsn, cause: cause.to_string() })?
                .events;
            match (&events[..], &record) {
                ([Event::Decoupled(first)], None) => {
                    now.used = first.used;
                    record = Some((**first).clone());
                }
                (_, None) => return Err(KeptError::NotOfSubtree(path)),
                ([Event::Decoupled(end)], Some(_)) => {
                    groups.push(Group { used: end.used, ..std::mem::take(&mut now) });
                    now.used = end.used;
                }
                (_, Some(record)) => {
                    now.used = events.iter().filter_map(|event| made(record, event)).fold(now.used, Ord::max);
                    now.bytes += body.len() as u64;
                    now.parts.push(body);
                }
            }
        }
        let torn = reader.tail().and_then(|tail| tail.torn);
        let record = record.ok_or_else(|| KeptError::NotOfSubtree(path.clone()))?;
        if !now.parts.is_empty() {
            groups.push(now);
        }
        Ok(Kept { path, fs, record, groups, torn })
    }

    /// The subtree's record as it was when it was first persisted.
    pub fn record(&self) -> &DecoupledRecord {
        &self.record
    }

    /// The file system that it is of.
    pub fn fs_id(&self) -> FsId {
        self.fs
    }

    /// What was made, in the groups that are merged at once.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What was cut off at its end.
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// Removes the file, when all of it is merged.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

/// The number behind the one that an event makes an inode with.
fn made(record: &DecoupledRecord, event: &Event) -> Option<Ino> {
    match event {
        // A number that was granted after the file was begun is higher than all that were.
        Event::Inode(inode) if inode.ino >= record.used => Some(Ino(inode.ino.0 + 1)),
        _ => None,
    }
}
