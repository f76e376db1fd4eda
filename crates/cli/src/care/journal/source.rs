//! A journal to be read: a rank's as its store has it, also while a server writes it, or a journal file. Not here: what is done with the
//! records.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use loligo_journal::file::FileSegments;
use loligo_journal::inspect::{Entry, InspectError};
use loligo_journal::{
    FileError, FileHeader, FileReader, Filter, FsId, Owner, RawRecord, ReadConfig, Reader, Source, Torn, encode_record,
};
use loligo_store::{Segments, StoreError};
use loligo_types::Lsn;

use super::super::looked::Looked;
use crate::at::Store;
use crate::output::{Context, Failure, Outcome, quoted, written};
use crate::service::format;

/// Before each further look at a rank's journal that seems broken: a server may just be changing it.
const PAUSES: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(250), Duration::from_millis(500)];

/// One journal.
pub struct Journal {
    /// Owner of the journal.
    pub owner: Owner,
    /// The file system it belongs to.
    pub fs: FsId,
    place: Place,
}

enum Place {
    Rank(Rc<Looked>),
    File { path: PathBuf, header: FileHeader },
}

impl Journal {
    /// Those of all ranks of a store, or of one.
    pub fn of_store(at: &Store, rank: Option<u32>) -> Result<Vec<Journal>, Failure> {
        format::require(at)?;
        let looked = Looked::of(at).context(|| at.name())?;
        format::refuse_half_copy(at, |key| looked.get(key))?;
        let fs = looked
            .fs_id()
            .ok_or_else(|| Failure::new(format!("{}: who the file system is cannot be read", at.name())))?;
        let (there, looked) = (looked.ranks(), Rc::new(looked));
        if let Some(rank) = rank.filter(|rank| !there.contains(rank)) {
            let list: Vec<String> = there.iter().map(u32::to_string).collect();
            let list = if list.is_empty() { "none".to_string() } else { list.join(", ") };
            return Err(Failure::new(format!(
                "{} has no journal of rank {rank}; the ranks that have one: {list}",
                at.name()
            )));
        }
        let wanted = there.into_iter().filter(|one| rank.is_none_or(|rank| rank == *one));
        Ok(wanted.map(|rank| Journal { owner: Owner::Rank(rank), fs, place: Place::Rank(looked.clone()) }).collect())
    }

    /// That of a store's only rank, or of the one that is named.
    pub fn one_of_store(at: &Store, rank: Option<u32>) -> Result<Journal, Failure> {
        let mut all = Journal::of_store(at, rank)?;
        match (all.pop(), all.len()) {
            (Some(one), 0) => Ok(one),
            (None, _) => {
                Err(Failure::new(format!("{} has no journal yet: no server ever changed anything", at.name())))
            }
            (Some(last), more) => Err(Failure::usage(format!("{} has journals of {} ranks", at.name(), more + 1))
                .remedy(format!("name one: --rank 0 to --rank {}", last.owner.rank()))),
        }
    }

    /// A journal file.
    pub fn file(path: &Path) -> Result<Journal, Failure> {
        let reader = FileReader::open(FileSource::open(path)?).map_err(|error| {
            let text = format!("{}: {error}", path.display());
            match error {
                FileError::BadHeader => Failure::found(text),
                _ => Failure::new(text),
            }
        })?;
        let header = *reader.header();
        Ok(Journal { owner: header.owner, fs: header.fs, place: Place::File { path: path.to_path_buf(), header } })
    }

    /// Header of the journal's file, if it is one.
    pub fn header(&self) -> Option<&FileHeader> {
        match &self.place {
            Place::Rank(_) => None,
            Place::File { header, .. } => Some(header),
        }
    }

    /// Its file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Rank(_) => None,
            Place::File { path, .. } => Some(path),
        }
    }

    /// For people.
    pub fn name(&self) -> String {
        match &self.place {
            Place::Rank(_) => self.owner.to_string(),
            Place::File { path, .. } => format!("{} ({})", path.display(), self.owner),
        }
    }

    /// Number and length of each segment; of a file, those that are known once it was read.
    pub fn segments(&self) -> Result<Vec<(u64, u64)>, Failure> {
        match &self.place {
            Place::Rank(looked) => {
                let mut source = SegmentSource(looked.segments(self.owner.rank()));
                source.list().context(|| format!("journal of {}", self.owner))
            }
            Place::File { .. } => Ok(Vec::new()),
        }
    }

    /// Bytes of it, for who waits.
    pub fn bytes(&self) -> Result<u64, Failure> {
        match &self.place {
            Place::Rank(_) => Ok(self.segments()?.iter().map(|(_, len)| len).sum()),
            Place::File { path, .. } => Ok(FileSource::open(path)?.len),
        }
    }

    /// The segments of a file as those of a journal, for recovery.
    pub fn file_segments(path: &Path) -> Result<FileSegments<FileSource>, Failure> {
        let failed = |error: FileError<StoreError>| Failure::found(format!("{}: {error}", path.display()));
        let mut reader = FileReader::open(FileSource::open(path)?).map_err(failed)?;
        while reader.next_record().map_err(failed)?.is_some() {}
        let tail = reader.tail().expect("a reader that gave its last record knows the end");
        Ok(FileSegments::new(reader.into_source(), &tail))
    }

    /// Copies the segments of a rank's journal as they are into a new directory, one file each.
    pub fn copy_segments(&self, dir: &Path) -> Outcome {
        let Place::Rank(looked) = &self.place else { return Ok(()) };
        let mut segments = looked.segments(self.owner.rank());
        std::fs::create_dir(dir).context(|| format!("directory {}", dir.display()))?;
        for segment in segments.list().context(|| format!("journal of {}", self.owner))? {
            let path = dir.join(format!("{:016x}.seg", segment.id));
            let failed = |e: std::io::Error| written(&path.display().to_string(), &e);
            let (mut file, mut at, mut buf) = (File::create_new(&path).map_err(failed)?, 0, vec![0; 1 << 20]);
            loop {
                let read = segments.read_at(segment.id, at, &mut buf).context(|| format!("segment {}", segment.id))?;
                if read == 0 {
                    break;
                }
                file.write_all(&buf[..read]).map_err(failed)?;
                at += read as u64;
            }
            file.sync_all().map_err(failed)?;
        }
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| written(&dir.display().to_string(), &e))
    }

    /// Its records, from the first to the last.
    pub fn records(&self) -> Records<'_> {
        Records { journal: self, reading: None, last: None, looks: 0, end: None }
    }

    fn open(&self) -> Result<Reading, String> {
        match &self.place {
            Place::Rank(looked) => {
                let rank = self.owner.rank();
                let config = ReadConfig { fs: Some(self.fs), rank: Some(rank), from: Lsn(0), synced: None };
                let reader = Reader::open(SegmentSource(looked.segments(rank)), config).map_err(|e| e.to_string())?;
                Ok(Reading::Rank(Box::new(reader)))
            }
            Place::File { path, .. } => {
                let source = FileSource::open(path).map_err(|e| e.to_string())?;
                let reader = FileReader::open(source).map_err(|e| e.to_string())?;
                Ok(Reading::File(Box::new(reader)))
            }
        }
    }
}

/// A record, read.
pub struct Read {
    segment: u64,
    offset: u64,
    /// Its number.
    pub lsn: Lsn,
    /// Its body.
    pub body: Vec<u8>,
}

impl Read {
    /// Decodes the record. The error says why that is not possible.
    pub fn entry(&self) -> Result<Entry, String> {
        let Read { segment, offset, lsn, body } = self;
        let raw = RawRecord { segment: *segment, offset: *offset, lsn: *lsn, body };
        Entry::new(&raw).map_err(|error: InspectError<StoreError>| error.to_string())
    }

    /// True if a filter takes the record. A record that cannot be decoded is taken only if the filter asks for numbers alone.
    pub fn is_taken(&self, filter: &Filter) -> bool {
        match self.entry() {
            Ok(entry) => filter.takes(entry.lsn, entry.origin.as_ref(), &entry.events),
            Err(_) => filter.is_of_lsns() && filter.lsns.has(self.lsn),
        }
    }
}

impl Read {
    /// Encodes the record without the events that a filter takes: of a client's record, which is many changes, the other events stay; of a
    /// rank's record none.
    pub fn encode_without(&self, filter: &Filter, owner: Owner, out: &mut Vec<u8>) {
        let rest = match (owner, self.entry()) {
            (Owner::Client(_), Ok(entry)) => {
                entry.events.into_iter().filter(|event| !filter.takes_event(event)).collect()
            }
            _ => Vec::new(),
        };
        encode_record(out, None, &rest);
    }
}

/// End of a journal, as a reader found it.
#[derive(Default)]
pub struct End {
    /// Torn write at the end: never acknowledged, or still being written.
    pub torn: Option<Torn>,
    /// Records that a file once had.
    pub missing: u64,
    /// The number behind the last record; `None`: not read to its end.
    pub next_lsn: Option<Lsn>,
    /// Description of the damage, if the journal is broken.
    pub broken: Option<String>,
    /// Number and length of each segment, if it was read to its end.
    pub segments: Vec<(u64, u64)>,
}

/// The records of a journal one after the other. A rank's journal that seems broken is read anew, for a server may be changing it, and goes
/// on behind the last record that was read.
pub struct Records<'a> {
    journal: &'a Journal,
    reading: Option<Reading>,
    last: Option<Lsn>,
    looks: usize,
    end: Option<End>,
}

enum Reading {
    Rank(Box<Reader<SegmentSource>>),
    File(Box<FileReader<FileSource>>),
}

impl Reading {
    fn next(&mut self) -> Result<Option<Read>, String> {
        let raw = match self {
            Reading::Rank(reader) => reader.next_record().map_err(|e| e.to_string())?,
            Reading::File(reader) => reader.next_record().map_err(|e| e.to_string())?,
        };
        Ok(raw.map(|RawRecord { segment, offset, lsn, body }| Read { segment, offset, lsn, body: body.to_vec() }))
    }

    fn end(&self) -> End {
        let end = match self {
            Reading::Rank(reader) => reader.tail().map(|tail| End {
                torn: tail.torn,
                next_lsn: Some(tail.next_lsn),
                segments: tail.segments.iter().map(|segment| (segment.id, segment.bytes)).collect(),
                ..End::default()
            }),
            Reading::File(reader) => reader.tail().map(|tail| End {
                torn: tail.torn,
                missing: tail.missing,
                next_lsn: Some(tail.next_lsn),
                segments: tail.segments.iter().map(|segment| (segment.id, segment.bytes)).collect(),
                broken: None,
            }),
        };
        end.unwrap_or_default()
    }
}

impl Records<'_> {
    /// The next one; `None` at the end, of which [`Records::end`] tells.
    pub fn next(&mut self) -> Option<Read> {
        while self.end.is_none() {
            match self.step() {
                Ok(Some(read)) if self.last.is_some_and(|last| read.lsn <= last) => {}
                Ok(Some(read)) => {
                    let hole = self.last.map(Lsn::next).filter(|next| self.looks > 0 && *next < read.lsn);
                    if let Some(next) = hole {
                        let broken = format!(
                            "records {next} to {} were taken into the table and removed while the journal was read; \
                             read it again",
                            read.lsn.0 - 1
                        );
                        self.end = Some(End { broken: Some(broken), ..End::default() });
                        return None;
                    }
                    self.last = Some(read.lsn);
                    return Some(read);
                }
                Ok(None) => self.end = Some(self.reading.as_ref().map(Reading::end).unwrap_or_default()),
                Err(broken) => self.look_again(broken),
            }
        }
        None
    }

    /// End of the journal, once there are no more records.
    pub fn end(self) -> End {
        self.end.unwrap_or_default()
    }

    fn step(&mut self) -> Result<Option<Read>, String> {
        if self.reading.is_none() {
            self.reading = Some(self.journal.open()?);
        }
        self.reading.as_mut().map_or(Ok(None), Reading::next)
    }

    fn look_again(&mut self, broken: String) {
        self.reading = None;
        match PAUSES.get(self.looks) {
            Some(pause) if self.journal.path().is_none() => std::thread::sleep(*pause),
            _ => self.end = Some(End { broken: Some(broken), ..End::default() }),
        }
        self.looks += 1;
    }
}

/// Segments as the reader wants them.
struct SegmentSource(Box<dyn Segments>);

impl Source for SegmentSource {
    type Error = StoreError;

    fn list(&mut self) -> Result<Vec<(u64, u64)>, StoreError> {
        Ok(self.0.list()?.into_iter().map(|segment| (segment.id, segment.len)).collect())
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        self.0.read_at(segment, offset, buf)
    }
}

/// A file, for [`FileReader`].
pub struct FileSource {
    file: File,
    path: PathBuf,
    len: u64,
}

impl FileSource {
    /// Opens a file as it is now: what is added later is not seen.
    pub fn open(path: &Path) -> Result<FileSource, Failure> {
        let place = || format!("journal file {}", path.display());
        let file = File::open(path).context(place)?;
        let about = file.metadata().context(place)?;
        if !about.is_file() {
            let what = if about.is_dir() { "a directory" } else { "no regular file" };
            return Err(Failure::usage(format!("{} is {what}, and no journal file", path.display()))
                .remedy(format!("for a data directory: --data {}", quoted(path))));
        }
        Ok(FileSource { file, path: path.to_path_buf(), len: about.len() })
    }
}

impl Source for FileSource {
    type Error = StoreError;

    fn list(&mut self) -> Result<Vec<(u64, u64)>, StoreError> {
        Ok(vec![(0, self.len)])
    }

    fn read_at(&mut self, _segment: u64, offset: u64, buf: &mut [u8]) -> Result<usize, StoreError> {
        let want = buf.len().min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut read = 0;
        while read < want {
            match self.file.read_at(&mut buf[read..want], offset + read as u64) {
                Ok(0) => break,
                Ok(some) => read += some,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::from_io(self.path.display().to_string(), &error)),
            }
        }
        Ok(read)
    }
}
