//! A persisted journal of a decoupled subtree, read: from a file of this machine, or from the store. Not how it is written (`form.rs`), nor
//! merged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use loligo_journal::{FileError, FileReader, FsId, Owner, Source, Torn, decode_record};
use loligo_subtree::Group;
use loligo_types::{DecoupledRecord, Event, Ino};
use rustix::fs::FlockOperation;

use super::form::{KeptError, Place};

/// A journal that was persisted.
#[derive(Debug)]
pub struct Kept {
    place: Place,
    fs: FsId,
    record: DecoupledRecord,
    groups: Vec<Group>,
    torn: Option<Torn>,
    /// With the lock on it.
    _claimed: Option<File>,
}

/// Which subtree a journal is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// The file system.
    pub fs: FsId,
    /// The root.
    pub dir: Ino,
    /// Which decoupling of all times it is.
    pub epoch: u64,
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
    /// Reads one of this machine. A torn end, of what was never said to be kept, is left out.
    pub fn read(path: impl AsRef<Path>) -> Result<Kept, KeptError> {
        let place = Place::File(path.as_ref().to_path_buf());
        match File::open(path.as_ref()) {
            Ok(file) => Kept::from_source(Whole(file), place),
            Err(error) => Err(KeptError::File { place, error: FileError::Source(error) }),
        }
    }

    /// Reads one of this machine to go on with it. `InUse` if a process that keeps it is at work, or another one goes on with it; nobody else does
    /// from now on, until this is dropped.
    pub fn claim(path: impl AsRef<Path>) -> Result<Kept, KeptError> {
        let place = Place::File(path.as_ref().to_path_buf());
        let file = |error| KeptError::File { place: place.clone(), error: FileError::Source(error) };
        let lock = File::open(path.as_ref()).map_err(file)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => return Err(KeptError::InUse(place)),
            // A file system without locks.
            _ => {}
        }
        let source = Whole(lock.try_clone().map_err(file)?);
        Ok(Kept { _claimed: Some(lock), ..Kept::from_source(source, place)? })
    }

    /// Which subtree a journal of this machine is of, if it holds changes and no process is at work on it: nobody merges them by itself.
    /// Reads the first records only.
    pub fn waiting(path: impl AsRef<Path>) -> Option<Waiting> {
        let file = File::open(path.as_ref()).ok()?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
            return None;
        }
        let mut reader = FileReader::open(Whole(file)).ok()?;
        let fs = reader.header().fs;
        let is_ours = matches!(reader.header().owner, Owner::Client(_));
        // The first record says what is decoupled.
        let first: Arc<[u8]> = reader.next_record().ok()??.body.into();
        let has_changes = reader.next_record().ok()?.is_some();
        let events = decode_record(&first).ok()?.events;
        let [Event::Decoupled(record)] = &events[..] else { return None };
        (is_ours && has_changes).then_some(Waiting { fs, dir: record.dir, epoch: record.epoch })
    }

    /// Reads one.
    pub(super) fn from_source(source: impl Source<Error = io::Error>, place: Place) -> Result<Kept, KeptError> {
        let file = |error| KeptError::File { place: place.clone(), error };
        let mut reader = FileReader::open(source).map_err(file)?;
        let fs = reader.header().fs;
        if !matches!(reader.header().owner, Owner::Client(_)) {
            return Err(KeptError::NotOfSubtree(place));
        }
        let mut record: Option<DecoupledRecord> = None;
        let (mut groups, mut now) = (Vec::new(), Group::default());
        while let Some(raw) = reader.next_record().map_err(file)? {
            let (lsn, body): (u64, Arc<[u8]>) = (raw.lsn.0, raw.body.into());
            let events = decode_record(&body)
                .map_err(|cause| KeptError::Record { place: place.clone(), lsn, cause: cause.to_string() })?
                .events;
            match (&events[..], &record) {
                ([Event::Decoupled(first)], None) => {
                    now.used = first.used;
                    record = Some((**first).clone());
                }
                (_, None) => return Err(KeptError::NotOfSubtree(place)),
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
        let Some(record) = record else { return Err(KeptError::NotOfSubtree(place)) };
        if !now.parts.is_empty() {
            groups.push(now);
        }
        Ok(Kept { place, fs, record, groups, torn, _claimed: None })
    }

    /// Where it lies.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The subtree's record as it was when it was first persisted.
    pub fn record(&self) -> &DecoupledRecord {
        &self.record
    }

    /// The file system that it is of.
    pub fn fs_id(&self) -> FsId {
        self.fs
    }

    /// The changes, in the groups that are merged at once.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The torn tail that was cut off.
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// Its end, counted over all that its owner has made: number of merges, and number of records of the next one. A journal goes further
    /// than another if this is greater.
    pub fn reach(&self) -> (u64, usize) {
        let merges = self.record.merges + (self.groups.len() as u64).saturating_sub(1);
        (merges, self.groups.last().map_or(0, |group| group.parts.len()))
    }

    /// Removes the file, when all of it is merged. One in the store goes with the merge.
    pub fn remove(self) -> io::Result<()> {
        match &self.place {
            Place::File(path) => std::fs::remove_file(path),
            Place::Store { .. } => Ok(()),
        }
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
