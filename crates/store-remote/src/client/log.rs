//! Journals in another process. A segment that is open has a connection of its own until it is closed.

use std::sync::{Arc, Mutex, PoisonError};

use loligo_store::{LogDir, LogFile, LogReader, Result, Segment, StoreError};

use super::{Connection, Meaning, READ_MAX, Shared, done};
use crate::answer::Answer;
use crate::request::{REQUEST_MAX, Request};

pub(super) struct RemoteLogDir {
    pub(super) shared: Arc<Shared>,
    pub(super) rank: u32,
}

fn some_len(answer: Answer<'_>) -> Option<u64> {
    match answer {
        Answer::Len(len) => len,
        _ => None,
    }
}

/// A segment that is open at the owner, and the connection that it belongs to.
struct Open {
    shared: Arc<Shared>,
    connection: Option<Connection>,
}

impl Open {
    fn ask<T>(&mut self, request: &Request<'_>, meaning: Meaning<'_, T>) -> Result<T> {
        let connection = self.connection.as_mut().expect("it has one until it is dropped");
        self.shared.ask_over(connection, request, meaning)
    }
}

impl Drop for Open {
    /// Waits until it is closed: what comes next may cut the segment.
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if self.shared.ask_over(&mut connection, &Request::CloseFile, &mut done).is_ok() {
            self.shared.give_back(connection);
        }
    }
}

impl RemoteLogDir {
    fn open_file(&self, request: &Request<'_>) -> Result<(Open, u64)> {
        let mut open = Open { shared: self.shared.clone(), connection: Some(self.shared.take()?) };
        let len = open.ask(request, &mut some_len)?;
        Ok((open, len))
    }

    fn append_to(&self, request: &Request<'_>) -> Result<Box<dyn LogFile>> {
        let (open, len) = self.open_file(request)?;
        Ok(Box::new(RemoteFile { open, len }))
    }
}

impl LogDir for RemoteLogDir {
    fn list(&self) -> Result<Vec<Segment>> {
        self.shared.ask(&Request::LogList { rank: self.rank }, &mut |answer| match answer {
            Answer::Segments(segments) => Some(segments),
            _ => None,
        })
    }

    fn create(&self, id: u64) -> Result<Box<dyn LogFile>> {
        self.append_to(&Request::LogCreate { rank: self.rank, id })
    }

    fn open(&self, id: u64) -> Result<Box<dyn LogReader>> {
        let (open, _) = self.open_file(&Request::LogOpen { rank: self.rank, id })?;
        Ok(Box::new(RemoteReader(Mutex::new(open))))
    }

    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>> {
        self.append_to(&Request::LogOpenAppend { rank: self.rank, id })
    }

    fn truncate(&self, id: u64, len: u64) -> Result<()> {
        self.shared.ask_done(&Request::LogTruncate { rank: self.rank, id, len })
    }

    fn delete(&self, id: u64) -> Result<()> {
        self.shared.ask_done(&Request::LogDelete { rank: self.rank, id })
    }

    fn sync_dir(&self) -> Result<()> {
        self.shared.ask_done(&Request::LogSyncDir { rank: self.rank })
    }

    fn synced(&self) -> Result<Option<Segment>> {
        self.shared.ask(&Request::LogSynced { rank: self.rank }, &mut |answer| match answer {
            Answer::Segments(segments) => Some(segments.first().copied()),
            _ => None,
        })
    }
}

struct RemoteFile {
    open: Open,
    len: u64,
}

impl LogFile for RemoteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() > REQUEST_MAX - 16 {
            let cause = format!("{} bytes at once, {REQUEST_MAX} go over a connection; this is a bug", bytes.len());
            return Err(StoreError::Io { what: "a journal segment of the server".into(), cause });
        }
        self.open.ask(&Request::Append { bytes }, &mut done)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.append(&parts.concat())
    }

    fn sync(&mut self) -> Result<()> {
        self.open.ask(&Request::SyncFile, &mut done)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct RemoteReader(Mutex<Open>);

impl LogReader for RemoteReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        read_parts(offset, buf, |offset, part| {
            let request = Request::ReadFile { offset, len: part.len() as u32 };
            open.ask(&request, &mut |answer| copy(answer, part))
        })
    }

    fn len(&self) -> Result<u64> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.ask(&Request::FileLen, &mut some_len)
    }
}

/// Puts bytes that were read where they belong.
pub(super) fn copy(answer: Answer<'_>, into: &mut [u8]) -> Option<usize> {
    let Answer::Bytes(bytes) = answer else { return None };
    into.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}

/// Reads as much at a time as one answer may have, up to the end.
pub(super) fn read_parts(
    offset: u64,
    buf: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let mut filled = 0;
    for part in buf.chunks_mut(READ_MAX) {
        let n = read(offset + filled as u64, part)?;
        filled += n;
        if n < part.len() {
            break;
        }
    }
    Ok(filled)
}
