//! Sorting entries that come in any order into that of a manifest, with a bounded amount of memory: full runs are sorted and handed out, and all
//! are merged at the end. Directories that nobody named are added. Not here: where runs are kept ([`Runs`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{Read, Write};

use loligo_types::Name;

use super::bytes::{Cursor, put_bytes, put_u64};
use super::{Fault, INLINE_MAX, SLICES_MAX, Trailer, Writer, shown};
use crate::entry::{Attributes, Body, Slice};

/// Most components of a path.
const DEPTH_MAX: usize = 256;

/// Handling of a path that comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twice {
    /// It is refused.
    Refuse,
    /// The later one counts, as in a tar archive that was appended to.
    Last,
}

/// Storage of sorted runs.
pub trait Runs {
    /// A run that is read from its beginning.
    type Run: Read;

    /// Keeps a run.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    fn put(&mut self, run: &[u8]) -> std::io::Result<()>;

    /// All runs that were kept, in any order.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    fn take(&mut self) -> std::io::Result<Vec<Self::Run>>;
}

/// Runs in memory.
#[derive(Debug, Default)]
pub struct MemoryRuns(Vec<Vec<u8>>);

impl Runs for MemoryRuns {
    type Run = std::io::Cursor<Vec<u8>>;

    fn put(&mut self, run: &[u8]) -> std::io::Result<()> {
        self.0.push(run.to_vec());
        Ok(())
    }

    fn take(&mut self) -> std::io::Result<Vec<Self::Run>> {
        Ok(std::mem::take(&mut self.0).into_iter().map(std::io::Cursor::new).collect())
    }
}

/// A path below the root as a key: its depth, then its names with NULs between them, so that keys are in the order of a manifest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path(Vec<u8>);

impl Path {
    /// A path of names.
    ///
    /// # Errors
    ///
    /// [`Fault::Name`] for what is no name, [`Fault::TooMany`] for a path that is too deep, [`Fault::Entry`] for none at all.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Result<Path, Fault> {
        let mut key = vec![0, 0];
        let mut depth = 0usize;
        for name in names {
            if Name::check(name).is_err() {
                let cause = "a name has 1 to 255 bytes, no `/` and no NUL, and is neither `.` nor `..`";
                return Err(Fault::Name { name: shown(name), cause });
            }
            if depth > 0 {
                key.push(0);
            }
            key.extend_from_slice(name);
            depth += 1;
        }
        if depth == 0 {
            return Err(Fault::Entry {
                name: String::new(),
                cause: "a path without names is the root, which is no entry",
            });
        }
        if depth > DEPTH_MAX {
            let (found, max, remedy) = (depth as u64, DEPTH_MAX as u64, "use fewer directories");
            return Err(Fault::TooMany { what: "names of a path", found, max, remedy });
        }
        key[..2].copy_from_slice(&(depth as u16).to_be_bytes());
        Ok(Path(key))
    }

    /// Its names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0[2..].split(|byte| *byte == 0)
    }

    /// The path with slashes, for messages.
    pub fn shown(&self) -> String {
        shown(&self.0[2..].iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect::<Vec<u8>>())
    }

    /// The path of its directory; none: the root.
    fn parent(&self) -> Option<Path> {
        let cut = self.0[2..].iter().rposition(|byte| *byte == 0)? + 2;
        let mut key = self.0[..cut].to_vec();
        let depth = u16::from_be_bytes([key[0], key[1]]) - 1;
        key[..2].copy_from_slice(&depth.to_be_bytes());
        Some(Path(key))
    }

    fn name(&self) -> &[u8] {
        let start = self.0[2..].iter().rposition(|byte| *byte == 0).map_or(2, |at| at + 3);
        &self.0[start..]
    }
}

/// An entry on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    path: Path,
    /// Order of coming; 0: nobody named it.
    order: u64,
    attributes: Attributes,
    body: Option<Body>,
}

/// Entries that are being sorted.
#[derive(Debug)]
pub struct Sorter<S> {
    runs: S,
    twice: Twice,
    /// Attributes of directories that nobody named.
    implied: Attributes,
    /// Bytes after which a run is handed out.
    run_bytes: usize,
    bytes: usize,
    count: u64,
    records: Vec<Record>,
    /// The directory of the last entry: those above it are known to come.
    last_dir: Option<Path>,
}

impl<S: Runs> Sorter<S> {
    /// Begins. `implied`: attributes of directories that nobody names. `run_bytes`: memory of one run, about.
    pub fn new(runs: S, run_bytes: usize, twice: Twice, implied: Attributes) -> Sorter<S> {
        Sorter { runs, twice, implied, run_bytes, bytes: 0, count: 0, records: Vec::new(), last_dir: None }
    }

    /// Entries that were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// Those of the storage of runs, and an entry that a manifest cannot hold.
    pub fn add(&mut self, path: Path, attributes: Attributes, body: Option<Body>) -> Result<(), Fault> {
        super::entries::check_item(path.name(), &attributes, body.as_ref())?;
        let dir = path.parent();
        if dir != self.last_dir {
            let mut above = dir.clone();
            while let Some(path) = above {
                above = path.parent();
                self.push(Record { path, order: 0, attributes: self.implied, body: None })?;
            }
            self.last_dir = dir;
        }
        self.count += 1;
        self.push(Record { path, order: self.count, attributes, body })
    }

    fn push(&mut self, record: Record) -> Result<(), Fault> {
        let body = match &record.body {
            Some(Body::Bytes(bytes) | Body::Link(bytes)) => bytes.len(),
            Some(Body::Slices(slices)) => size_of_val(&**slices),
            _ => 0,
        };
        self.bytes += size_of::<Record>() + record.path.0.len() + body;
        self.records.push(record);
        if self.bytes >= self.run_bytes { self.spill() } else { Ok(()) }
    }

    /// Hands the run in memory out.
    fn spill(&mut self) -> Result<(), Fault> {
        self.sort();
        let mut run = Vec::new();
        self.records.iter().for_each(|record| put_record(&mut run, record));
        self.records.clear();
        self.bytes = 0;
        self.runs.put(&run).map_err(|error| io_fault("written", &error))
    }

    /// Sorts, and drops what others stand for.
    fn sort(&mut self) {
        self.records.sort_by(|a, b| (&a.path, a.order).cmp(&(&b.path, b.order)));
        // Of directories that nobody named one is enough.
        self.records.dedup_by(|later, first| later.path == first.path && later.order == 0 && first.order == 0);
    }

    /// Writes all entries. Their sources have been added to `writer` before.
    ///
    /// # Errors
    ///
    /// Those of the storage and of the writer; one path as a file and as a directory; with [`Twice::Refuse`] one that came twice.
    pub fn finish<W: Write>(mut self, mut writer: Writer<W>) -> Result<(Trailer, W), Fault> {
        self.sort();
        let mut sources: Vec<Source<S::Run>> = vec![Source::Memory(std::mem::take(&mut self.records).into_iter())];
        let runs = self.runs.take().map_err(|error| io_fault("read", &error))?;
        sources.extend(runs.into_iter().map(|run| Source::Run(std::io::BufReader::new(run))));
        let mut heap = BinaryHeap::new();
        for (at, source) in sources.iter_mut().enumerate() {
            heap.extend(source.next()?.map(|record| Reverse(Head(record, at))));
        }
        let mut out = Out { writer: &mut writer, twice: self.twice, held: None, dirs: VecDeque::from([(None, 0)]) };
        while let Some(Reverse(Head(record, at))) = heap.pop() {
            heap.extend(sources[at].next()?.map(|record| Reverse(Head(record, at))));
            out.take(record)?;
        }
        out.flush()?;
        writer.finish()
    }
}

/// A record of a run, ordered by path and order of coming.
struct Head(Record, usize);

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        (&self.0.path, self.0.order).cmp(&(&other.0.path, other.0.order))
    }
}

enum Source<R> {
    Memory(std::vec::IntoIter<Record>),
    Run(std::io::BufReader<R>),
}

impl<R: Read> Source<R> {
    fn next(&mut self) -> Result<Option<Record>, Fault> {
        match self {
            Source::Memory(records) => Ok(records.next()),
            Source::Run(run) => take_record(run),
        }
    }
}

/// The end of the merge: joins records of one path, and numbers directories.
struct Out<'a, W> {
    writer: &'a mut Writer<W>,
    twice: Twice,
    held: Option<Record>,
    /// Directories whose entries have not all come, with their numbers, in order.
    dirs: VecDeque<(Option<Path>, u64)>,
}

impl<W: Write> Out<'_, W> {
    fn take(&mut self, record: Record) -> Result<(), Fault> {
        let same = self.held.as_ref().is_some_and(|held| held.path == record.path);
        let Some(held) = self.held.as_mut().filter(|_| same) else {
            self.flush()?;
            self.held = Some(record);
            return Ok(());
        };
        // The one that nobody named comes first, and stands only for a directory.
        if held.body.is_none() != record.body.is_none() {
            return Err(Fault::FileAndDir { path: record.path.shown() });
        }
        if held.order != 0 && self.twice == Twice::Refuse {
            return Err(Fault::Duplicate { path: record.path.shown() });
        }
        *held = record;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        let Some(record) = self.held.take() else { return Ok(()) };
        let dir = record.path.parent();
        while self.dirs.front().is_some_and(|(path, _)| *path != dir) {
            self.dirs.pop_front();
        }
        // Each directory on the way was added.
        let Some((_, parent)) = self.dirs.front() else {
            return Err(Fault::FileAndDir { path: dir.map_or_else(String::new, |dir| dir.shown()) });
        };
        let is_dir = record.body.is_none();
        let index = self.writer.add(*parent, record.path.name(), record.attributes, record.body)?;
        if is_dir {
            self.dirs.push_back((Some(record.path), index));
        }
        Ok(())
    }
}

fn io_fault(verb: &'static str, error: &std::io::Error) -> Fault {
    Fault::Io { verb, offset: 0, cause: format!("a sorted run: {error}") }
}

fn put_record(out: &mut Vec<u8>, record: &Record) {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, &record.path.0);
    put_u64(&mut bytes, record.order);
    let own = &record.attributes;
    put_u64(&mut bytes, u64::from(own.mode));
    put_u64(&mut bytes, own.uid.map_or(0, |uid| u64::from(uid) + 1));
    put_u64(&mut bytes, own.gid.map_or(0, |gid| u64::from(gid) + 1));
    bytes.push(u8::from(own.mtime.is_some()));
    bytes.extend_from_slice(&own.mtime.unwrap_or_default().0.to_le_bytes());
    match &record.body {
        None | Some(Body::Dir { .. }) => bytes.push(0),
        Some(Body::Zeros(size)) => {
            bytes.push(1);
            put_u64(&mut bytes, *size);
        }
        Some(Body::Bytes(content)) => {
            bytes.push(2);
            put_bytes(&mut bytes, content);
        }
        Some(Body::Link(target)) => {
            bytes.push(3);
            put_bytes(&mut bytes, target);
        }
        Some(Body::Slices(slices)) => {
            bytes.push(4);
            put_u64(&mut bytes, slices.len() as u64);
            for slice in slices.iter() {
                [slice.source, slice.offset, slice.len].into_iter().for_each(|number| put_u64(&mut bytes, number));
            }
        }
    }
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// The next record of a run. A run is the program's own: what is wrong with it is a fault of the storage.
fn take_record(run: &mut impl Read) -> Result<Option<Record>, Fault> {
    let mut len = [0; 4];
    match run.read(&mut len[..1]).map_err(|error| io_fault("read", &error))? {
        0 => return Ok(None),
        _ => run.read_exact(&mut len[1..]).map_err(|error| io_fault("read", &error))?,
    }
    let mut bytes = Vec::new();
    let len = u64::from(u32::from_le_bytes(len));
    run.take(len).read_to_end(&mut bytes).map_err(|error| io_fault("read", &error))?;
    let mut cursor = Cursor::new(&bytes, 0);
    let path = Path(cursor.bytes(bytes.len())?.to_vec());
    let order = cursor.u64()?;
    let mode = cursor.u64()? as u16;
    let (uid, gid) = (cursor.u64()?.checked_sub(1), cursor.u64()?.checked_sub(1));
    let (has_time, time) = (cursor.u8()?, cursor.take(8)?);
    let time = time.first_chunk().map(|bytes| loligo_types::Time(i64::from_le_bytes(*bytes)));
    let body = match cursor.u8()? {
        0 => None,
        1 => Some(Body::Zeros(cursor.u64()?)),
        2 => Some(Body::Bytes(cursor.bytes(INLINE_MAX)?.into())),
        3 => Some(Body::Link(cursor.bytes(bytes.len())?.into())),
        _ => {
            let count = cursor.u64()?.min(SLICES_MAX as u64);
            let mut slices = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let (source, offset, len) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
                slices.push(Slice { source, offset, len });
            }
            Some(Body::Slices(slices.into()))
        }
    };
    let mtime = time.filter(|_| has_time == 1);
    let attributes = Attributes { mode, uid: uid.map(|id| id as u32), gid: gid.map(|id| id as u32), mtime };
    Ok(Some(Record { path, order, attributes, body }))
}
