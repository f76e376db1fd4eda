//! An open file of a program.

use std::sync::Arc;

use loligo_types::{Answer, Attr, FsError, FsResult, Ino, OpenFlags, SetAttr};

use super::{AsyncFs, block_on, entry};
use crate::client::{Call, Done, Fh};

/// An open file whose functions give futures. Closed when dropped; [`AsyncFile::close`] also says whether what was
/// written has arrived.
pub struct AsyncFile {
    fs: AsyncFs,
    fh: Fh,
    attr: Attr,
    append: bool,
    open: bool,
}

impl AsyncFile {
    pub(super) fn new(fs: AsyncFs, done: &Done, flags: OpenFlags) -> FsResult<AsyncFile> {
        let (Some(fh), Some(attr)) = (done.fh, done.attr()) else { return Err(FsError::Io) };
        Ok(AsyncFile { fs, fh, attr: *attr, append: flags.append, open: true })
    }

    /// Its handle, for calls of the client.
    pub fn fh(&self) -> Fh {
        self.fh
    }

    /// Its inode number.
    pub fn ino(&self) -> Ino {
        self.attr.ino
    }

    /// Its attributes now.
    pub async fn stat(&self) -> FsResult<Attr> {
        entry(self.fs.call(Call::GetAttr { ino: self.attr.ino }).await?.answer)
    }

    /// Reads; fewer bytes than asked for only at the end of the file, or beyond 4 MiB.
    pub async fn read_at(&self, offset: u64, len: u32) -> FsResult<Arc<[u8]>> {
        match self.fs.call(Call::Read { fh: self.fh, offset, len }).await?.answer {
            Answer::Bytes(bytes) => Ok(bytes),
            _ => Err(FsError::Io),
        }
    }

    /// Writes all of it; a file opened for appending, at its end.
    pub async fn write_at(&self, offset: u64, data: impl Into<Arc<[u8]>>) -> FsResult<()> {
        let (fh, data, append) = (self.fh, data.into(), self.append);
        // As a kernel says of anybody but root.
        let kill_priv = !self.fs.cred.is_root();
        self.fs.call(Call::Write { fh, offset, data, append, kill_priv }).await.map(drop)
    }

    /// Cuts or extends it.
    pub async fn set_len(&self, size: u64) -> FsResult<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.call(Call::SetAttr { ino: self.attr.ino, set, fh: Some(self.fh) }).await.map(drop)
    }

    /// Everything written to it is durable when it returns.
    pub async fn sync(&self) -> FsResult<()> {
        self.fs.call(Call::Fsync { fh: self.fh, data_only: false }).await.map(drop)
    }

    /// Closes; everything written is at the server when it returns.
    pub async fn close(mut self) -> FsResult<()> {
        self.open = false;
        let flushed = self.fs.call(Call::Flush { fh: self.fh, owner: None }).await.map(drop);
        let released = self.fs.call(Call::Release { fh: self.fh, flock_owner: None }).await.map(drop);
        flushed.and(released)
    }
}

impl Drop for AsyncFile {
    fn drop(&mut self) {
        if self.open {
            let call = Call::Release { fh: self.fh, flock_owner: None };
            self.fs.client.submit(&self.fs.cred, call, |_| ());
        }
    }
}

/// An open file whose functions wait. Closed when dropped; [`File::close`] also says whether what was written has
/// arrived.
pub struct File {
    inner: AsyncFile,
}

impl File {
    pub(super) fn new(inner: AsyncFile) -> File {
        File { inner }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(&self.inner.fs.client, future)
    }

    /// Its handle, for calls of the client.
    pub fn fh(&self) -> Fh {
        self.inner.fh()
    }

    /// Its inode number.
    pub fn ino(&self) -> Ino {
        self.inner.ino()
    }

    /// See [`AsyncFile::stat`].
    pub fn stat(&self) -> FsResult<Attr> {
        self.wait(self.inner.stat())
    }

    /// See [`AsyncFile::read_at`].
    pub fn read_at(&self, offset: u64, len: u32) -> FsResult<Arc<[u8]>> {
        self.wait(self.inner.read_at(offset, len))
    }

    /// See [`AsyncFile::write_at`].
    pub fn write_at(&self, offset: u64, data: impl Into<Arc<[u8]>>) -> FsResult<()> {
        self.wait(self.inner.write_at(offset, data))
    }

    /// See [`AsyncFile::set_len`].
    pub fn set_len(&self, size: u64) -> FsResult<()> {
        self.wait(self.inner.set_len(size))
    }

    /// See [`AsyncFile::sync`].
    pub fn sync(&self) -> FsResult<()> {
        self.wait(self.inner.sync())
    }

    /// See [`AsyncFile::close`].
    pub fn close(self) -> FsResult<()> {
        let client = self.inner.fs.client.clone();
        block_on(&client, self.inner.close())
    }
}
