//! Requests carried out at the owner: calls of its engine. One [`Execution`] belongs to one connection, with the one segment that this may
//! have open.

use std::ops::ControlFlow;
use std::sync::Arc;

use loligo_store::{Backend, Batch, LogDir, LogFile, LogReader, ObjectId, Result, StoreError};

use crate::answer::Answer;
use crate::request::Request;

/// An answer with rows, objects or bytes has about this many bytes; there are more of them then.
pub(crate) const PART_MAX: usize = 4 << 20;
/// Most bytes of one read.
pub(crate) const READ_MAX: usize = 16 << 20;

/// Where answers go; an error ends the connection.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&Answer<'_>) -> std::io::Result<()>;

/// The segment that is open.
enum File {
    None,
    Append(Box<dyn LogFile>),
    Read(Box<dyn LogReader>),
}

pub(crate) struct Execution {
    backend: Arc<dyn Backend>,
    /// The ranks whose journals it may have.
    ranks: Vec<u32>,
    file: File,
    read: Vec<u8>,
}

impl Execution {
    pub(crate) fn new(backend: Arc<dyn Backend>, ranks: Vec<u32>) -> Execution {
        Execution { backend, ranks, file: File::None, read: Vec::new() }
    }

    /// Does what is asked and tells the answer, in parts if it is long.
    pub(crate) fn run(&mut self, request: &Request<'_>, tell: Tell<'_>) -> std::io::Result<()> {
        let done = match request {
            Request::Scan { start, end, limit } => return self.scan(start, end, *limit, tell),
            Request::ListObjects => return self.list_objects(tell),
            Request::Get { .. }
            | Request::MultiGet { .. }
            | Request::Write { .. }
            | Request::Flush
            | Request::TableSize
            | Request::Ranks
            | Request::StatFs => return self.table(request, tell),
            Request::Read { id, offset, len } => {
                self.read(*len, |backend, buf| backend.blobs().read_at(*id, *offset, buf))
            }
            Request::ReadFile { offset, len } => self.read_file(*offset, *len),
            Request::Append { .. } | Request::SyncFile | Request::FileLen | Request::CloseFile => self.file(request),
            Request::LogDir { .. }
            | Request::LogList { .. }
            | Request::LogCreate { .. }
            | Request::LogOpenAppend { .. }
            | Request::LogOpen { .. }
            | Request::LogTruncate { .. }
            | Request::LogDelete { .. }
            | Request::LogSyncDir { .. }
            | Request::LogSynced { .. } => self.log(request),
            _ => self.blob(request),
        };
        match done {
            Ok(Answer::Bytes(_)) => tell(&Answer::Bytes(&self.read)),
            Ok(answer) => tell(&answer),
            Err(error) => tell(&Answer::Failed(error)),
        }
    }

    fn table(&self, request: &Request<'_>, tell: Tell<'_>) -> std::io::Result<()> {
        let table = self.backend.table();
        let values;
        let done = match request {
            Request::Get { key } => match table.get(key) {
                Ok(found) => {
                    values = [found];
                    Ok(Answer::Values(vec![values[0].as_deref()]))
                }
                Err(error) => Err(error),
            },
            Request::MultiGet { keys } => match table.multi_get(keys) {
                Ok(found) => {
                    let answer = Answer::Values(found.iter().map(Option::as_deref).collect());
                    return tell(&answer);
                }
                Err(error) => Err(error),
            },
            Request::Write { durability, puts, deletes } => {
                let batch = Batch {
                    puts: puts.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect(),
                    deletes: deletes.iter().map(|key| key.to_vec()).collect(),
                };
                table.write(&batch, *durability).map(|()| Answer::Done)
            }
            Request::Flush => table.flush().map(|()| Answer::Done),
            Request::TableSize => table.approximate_size().map(Answer::TableSize),
            Request::Ranks => {
                self.backend.ranks().map(|ranks| Answer::Numbers(ranks.into_iter().map(u64::from).collect()))
            }
            _ => self.backend.statfs().map(Answer::StatFs),
        };
        tell(&done.unwrap_or_else(Answer::Failed))
    }

    /// One scan of the engine, so that it is seen as at one moment.
    fn scan(&self, start: &[u8], end: &[u8], limit: u64, tell: Tell<'_>) -> std::io::Result<()> {
        let rows = match self.backend.table().scan(start, end, usize::try_from(limit).unwrap_or(usize::MAX)) {
            Ok(rows) => rows,
            Err(error) => return tell(&Answer::Failed(error)),
        };
        let mut part = Vec::new();
        let mut bytes = 0;
        for (key, value) in &rows {
            if bytes > PART_MAX {
                tell(&Answer::Rows { rows: std::mem::take(&mut part), more: true })?;
                bytes = 0;
            }
            bytes += key.len() + value.len() + 8;
            part.push((key.as_slice(), value.as_slice()));
        }
        tell(&Answer::Rows { rows: part, more: false })
    }

    fn list_objects(&self, tell: Tell<'_>) -> std::io::Result<()> {
        let mut part: Vec<(ObjectId, u64)> = Vec::new();
        let mut told = Ok(());
        let listed = self.backend.blobs().list(&mut |id, len| {
            part.push((id, len));
            if part.len() * 24 < PART_MAX {
                return ControlFlow::Continue(());
            }
            told = tell(&Answer::Objects { objects: std::mem::take(&mut part), more: true });
            if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        told?;
        match listed {
            Ok(()) => tell(&Answer::Objects { objects: part, more: false }),
            Err(error) => tell(&Answer::Failed(error)),
        }
    }

    /// Reads into the buffer of this connection.
    fn read(
        &mut self,
        len: u32,
        read: impl FnOnce(&dyn Backend, &mut [u8]) -> Result<usize>,
    ) -> Result<Answer<'static>> {
        self.read.resize((len as usize).min(READ_MAX), 0);
        let n = read(&*self.backend, &mut self.read)?;
        self.read.truncate(n);
        Ok(Answer::Bytes(&[]))
    }

    fn read_file(&mut self, offset: u64, len: u32) -> Result<Answer<'static>> {
        let File::Read(file) = std::mem::replace(&mut self.file, File::None) else { return Err(not_open()) };
        let answer = self.read(len, |_, buf| file.read_at(offset, buf));
        self.file = File::Read(file);
        answer
    }

    fn file(&mut self, request: &Request<'_>) -> Result<Answer<'static>> {
        match (request, &mut self.file) {
            (Request::Append { bytes }, File::Append(file)) => file.append(bytes).map(|()| Answer::Done),
            (Request::SyncFile, File::Append(file)) => file.sync().map(|()| Answer::Done),
            (Request::FileLen, File::Read(file)) => Ok(Answer::Len(Some(file.len()?))),
            (Request::CloseFile, _) => {
                self.file = File::None;
                Ok(Answer::Done)
            }
            _ => Err(not_open()),
        }
    }

    fn log(&mut self, request: &Request<'_>) -> Result<Answer<'static>> {
        match *request {
            Request::LogDir { rank } | Request::LogSyncDir { rank } => {
                let dir = self.dir(rank)?;
                if matches!(request, Request::LogSyncDir { .. }) {
                    dir.sync_dir()?;
                }
                Ok(Answer::Done)
            }
            Request::LogList { rank } => self.dir(rank)?.list().map(Answer::Segments),
            Request::LogSynced { rank } => {
                self.dir(rank)?.synced().map(|mark| Answer::Segments(mark.into_iter().collect()))
            }
            Request::LogCreate { rank, id } => self.append_to(self.dir(rank)?.create(id)?),
            Request::LogOpenAppend { rank, id } => self.append_to(self.dir(rank)?.open_append(id)?),
            Request::LogOpen { rank, id } => {
                let file = self.dir(rank)?.open(id)?;
                let len = file.len()?;
                self.file = File::Read(file);
                Ok(Answer::Len(Some(len)))
            }
            Request::LogTruncate { rank, id, len } => self.dir(rank)?.truncate(id, len).map(|()| Answer::Done),
            Request::LogDelete { rank, id } => self.dir(rank)?.delete(id).map(|()| Answer::Done),
            _ => Err(not_open()),
        }
    }

    fn append_to(&mut self, file: Box<dyn LogFile>) -> Result<Answer<'static>> {
        let len = file.len();
        self.file = File::Append(file);
        Ok(Answer::Len(Some(len)))
    }

    /// A journal has one writer: that of another process is not to be had.
    fn dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        if !self.ranks.contains(&rank) {
            return Err(StoreError::InUse {
                dir: format!("the journal of rank {rank}"),
                owner: "the process that runs this rank".into(),
            });
        }
        self.backend.log_dir(rank)
    }

    fn blob(&self, request: &Request<'_>) -> Result<Answer<'static>> {
        let blobs = self.backend.blobs();
        match request {
            Request::WriteAt { id, offset, data } => blobs.write_at(*id, *offset, data)?,
            Request::WriteLogged { id, offset, data } => blobs.write_logged(*id, *offset, data)?,
            Request::Spoil { id, offset, len } => blobs.spoil(*id, *offset, *len)?,
            Request::Truncate { id, len } => blobs.truncate(*id, *len)?,
            Request::Punch { id, offset, len } => blobs.punch(*id, *offset, *len)?,
            Request::Sync { id } => blobs.sync(*id)?,
            Request::SyncMany { ino, indexes } => blobs.sync_many(*ino, indexes)?,
            Request::SyncRemovals { ino } => blobs.sync_removals(*ino)?,
            Request::SyncAll => blobs.sync_all()?,
            Request::Delete { id } => blobs.delete(*id)?,
            Request::Len { id } => return blobs.len(*id).map(Answer::Len),
            Request::Extents { id, offset, len } => return blobs.extents(*id, *offset, *len).map(Answer::Extents),
            Request::ObjectsOf { ino } => return blobs.objects_of(*ino).map(Answer::Numbers),
            _ => return Err(out_of_turn()),
        }
        Ok(Answer::Done)
    }
}

fn not_open() -> StoreError {
    let what = "a journal segment over the store's connection".into();
    StoreError::Io { what, cause: "none is open there; this is a bug".into() }
}

pub(crate) fn out_of_turn() -> StoreError {
    let what = "a request over the store's connection".into();
    StoreError::Io { what, cause: "it came out of turn; this is a bug".into() }
}
