//! Paths for programs: files by name, with symbolic links followed, without FUSE.
//!
//! [`AsyncFs`] is the one implementation; [`Fs`] is the same, waiting. Paths begin at the root of the file system, with or
//! without a leading `/`; there is no current directory.

mod file;
mod walk;

use std::future::Future;
use std::hash::RandomState;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake};

use loligo_client::Hints;
use loligo_types::{Answer, Attr, Cred, DirEntry, FsError, FsResult, Kind, Op, OpenFlags, RenameMode, SetAttr, StatFs};

use super::{Call, Client, Done};

pub use self::file::{AsyncFile, File};
pub(super) use self::walk::bytes as bytes_of;

/// Entries asked for at a time, by the library.
pub(super) const READDIR_BATCH: u32 = 1024;

/// Options of opening a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenHow {
    /// Access, truncation, appending.
    pub flags: OpenFlags,
    /// Make it if it is not there, with these permission bits.
    pub create: Option<u16>,
    /// Fail if it is there (needs `create`).
    pub exclusive: bool,
}

impl OpenHow {
    /// For reading.
    pub fn read() -> OpenHow {
        OpenHow { flags: OpenFlags { read: true, ..OpenFlags::default() }, ..OpenHow::default() }
    }

    /// For reading and writing.
    pub fn read_write() -> OpenHow {
        OpenHow { flags: OpenFlags { read: true, write: true, ..OpenFlags::default() }, ..OpenHow::default() }
    }

    /// For reading and writing, made with mode 0666 if it is not there, cut to nothing if it is.
    pub fn create() -> OpenHow {
        let flags = OpenFlags { read: true, write: true, truncate: true, ..OpenFlags::default() };
        OpenHow { flags, create: Some(0o666), exclusive: false }
    }

    /// For appending, made if it is not there.
    pub fn append() -> OpenHow {
        let flags = OpenFlags { write: true, append: true, ..OpenFlags::default() };
        OpenHow { flags, create: Some(0o666), exclusive: false }
    }
}

/// Paths, in the name of one user; every function gives a future.
#[derive(Clone)]
pub struct AsyncFs {
    client: Client,
    cred: Arc<Cred>,
    umask: u16,
    hints: Arc<Mutex<Hints<RandomState>>>,
}

impl AsyncFs {
    /// In the name of `cred`, with umask 022.
    pub fn new(client: Client, cred: Arc<Cred>) -> AsyncFs {
        AsyncFs { client, cred, umask: 0o022, hints: Arc::default() }
    }

    /// Never held while something is waited for.
    fn hints(&self) -> MutexGuard<'_, Hints<RandomState>> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With another umask.
    #[must_use]
    pub fn with_umask(self, umask: u16) -> AsyncFs {
        AsyncFs { umask, ..self }
    }

    /// The client behind it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// In whose name.
    pub fn cred(&self) -> &Arc<Cred> {
        &self.cred
    }

    /// By depth below the root (the last number is of all that are deeper), how many directories of paths were found without asking, because ranks had promised
    /// where they are; and how many such lookup leases came, first or anew.
    pub fn lookup_leases(&self) -> [(u64, u64); loligo_client::DEPTHS] {
        let hints = self.hints();
        std::array::from_fn(|depth| (hints.ways.hits[depth], hints.ways.leased[depth]))
    }

    async fn call(&self, call: Call) -> FsResult<Done> {
        self.client.call_async(&self.cred, call).await.map_err(|failed| failed.error)
    }

    async fn op(&self, op: Op) -> FsResult<Answer> {
        Ok(self.call(Call::Op(op)).await?.answer)
    }

    /// Attributes; of what a symbolic link leads to.
    pub async fn stat(&self, path: impl AsRef<Path>) -> FsResult<Attr> {
        self.walk(path.as_ref(), true).await
    }

    /// Attributes; of a symbolic link itself.
    pub async fn lstat(&self, path: impl AsRef<Path>) -> FsResult<Attr> {
        self.walk(path.as_ref(), false).await
    }

    /// Opens a file.
    pub async fn open(&self, path: impl AsRef<Path>, how: OpenHow) -> FsResult<AsyncFile> {
        let (flags, umask, exclusive, handle) = (how.flags, self.umask, how.exclusive, 0);
        let Some(mode) = how.create else {
            let done = self.act_on(path.as_ref(), true, |ino| Op::Open { ino, flags, handle }).await?;
            return AsyncFile::new(self.clone(), &done, flags);
        };
        let create = |dir, name| Op::Create { dir, name, mode, umask, flags, exclusive, handle };
        let done = match self.act(path.as_ref(), create).await {
            // The name is a symbolic link.
            Err(FsError::Loop) if !exclusive => {
                let (dir, name) = self.place(path.as_ref(), true).await?;
                self.call(Call::Create { dir, name, mode, umask, flags, exclusive }).await?
            }
            other => other?,
        };
        AsyncFile::new(self.clone(), &done, flags)
    }

    /// The whole content of a file.
    pub async fn read(&self, path: impl AsRef<Path>) -> FsResult<Vec<u8>> {
        let file = self.open(path, OpenHow::read()).await?;
        let mut content = Vec::new();
        loop {
            let part = file.read_at(content.len() as u64, 1 << 20).await?;
            if part.is_empty() {
                file.close().await?;
                return Ok(content);
            }
            content.extend_from_slice(&part);
        }
    }

    /// Makes a file's content this, making the file if need be. At the server when it returns; not synced.
    pub async fn write(&self, path: impl AsRef<Path>, content: impl Into<Arc<[u8]>>) -> FsResult<()> {
        let file = self.open(path, OpenHow::create()).await?;
        file.write_at(0, content).await?;
        file.close().await
    }

    /// Makes a directory.
    pub async fn mkdir(&self, path: impl AsRef<Path>, mode: u16) -> FsResult<Attr> {
        let umask = self.umask;
        let made = self.act(path.as_ref(), |dir, name| Op::Mkdir { dir, name, mode, umask }).await;
        entry(made.map_err(|error| no_name(error, FsError::Exists))?.answer)
    }

    /// Makes an empty regular file, or a node of another kind that is neither a directory nor a symbolic link, and leaves it closed.
    pub async fn mknod(&self, path: impl AsRef<Path>, kind: Kind, mode: u16) -> FsResult<Attr> {
        let umask = self.umask;
        let made = self.act(path.as_ref(), |dir, name| Op::Mknod { dir, name, kind, mode, umask, rdev: 0 }).await;
        entry(made.map_err(|error| no_name(error, FsError::Exists))?.answer)
    }

    /// Makes a symbolic link.
    pub async fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> FsResult<Attr> {
        let target: Arc<[u8]> = Arc::from(walk::bytes(target.as_ref()));
        let made = self.act(path.as_ref(), |dir, name| Op::Symlink { dir, name, target: Arc::clone(&target) }).await;
        entry(made.map_err(|error| no_name(error, FsError::Exists))?.answer)
    }

    /// Target of a symbolic link.
    pub async fn readlink(&self, path: impl AsRef<Path>) -> FsResult<Arc<[u8]>> {
        bytes(self.act_on(path.as_ref(), false, |ino| Op::Readlink { ino }).await?.answer)
    }

    /// Gives a file one more name.
    pub async fn link(&self, path: impl AsRef<Path>, new: impl AsRef<Path>) -> FsResult<Attr> {
        let (ino, _) = self.find(path.as_ref(), false).await?;
        let place = self.place(new.as_ref(), false).await;
        let (dir, name) = place.map_err(|error| no_name(error, FsError::Exists))?;
        entry(self.op(Op::Link { ino, dir, name }).await?)
    }

    /// Takes a name of anything but a directory away.
    pub async fn unlink(&self, path: impl AsRef<Path>) -> FsResult<()> {
        self.act(path.as_ref(), |dir, name| Op::Unlink { dir, name }).await.map(drop)
    }

    /// Takes an empty directory away.
    pub async fn rmdir(&self, path: impl AsRef<Path>) -> FsResult<()> {
        let gone = self.act(path.as_ref(), |dir, name| Op::Rmdir { dir, name }).await;
        gone.map(drop).map_err(|error| no_name(error, FsError::Invalid))
    }

    /// Renames, replacing what has the new name.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> FsResult<()> {
        let busy = |error| no_name(error, FsError::Busy);
        let (dir, name) = self.place(from.as_ref(), false).await.map_err(busy)?;
        let (new_dir, new_name) = self.place(to.as_ref(), false).await.map_err(busy)?;
        self.op(Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace }).await.map(drop)
    }

    /// Changes attributes; of what a symbolic link leads to.
    pub async fn set_attr(&self, path: impl AsRef<Path>, set: SetAttr) -> FsResult<Attr> {
        let change = |ino| Op::SetAttr { ino, set: set.clone(), handle: None };
        entry(self.act_on(path.as_ref(), true, change).await?.answer)
    }

    /// All entries of a directory, in no order that means anything, without `.` and `..`.
    pub async fn readdir(&self, path: impl AsRef<Path>) -> FsResult<Vec<DirEntry>> {
        let mut all = Vec::new();
        self.readdir_with(path, false, |entry| all.push(entry)).await?;
        Ok(all)
    }

    /// Gives the entries of a directory one by one, in bounded memory; `plus`: with attributes.
    pub async fn readdir_with(
        &self,
        path: impl AsRef<Path>,
        plus: bool,
        mut each: impl FnMut(DirEntry),
    ) -> FsResult<()> {
        let (ino, first) = self.list(path.as_ref(), READDIR_BATCH, plus).await?;
        let Answer::Entries { entries, next, end } = first else { return Err(FsError::Io) };
        entries.into_iter().for_each(&mut each);
        if end {
            return Ok(());
        }
        // From now on it is this directory, whatever becomes of its name and of who may read it.
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let done = self.call(Call::Open { ino, flags }).await?;
        let dir = AsyncFile::new(self.clone(), &done, flags)?;
        let mut cookie = next;
        loop {
            let call = Call::Readdir { fh: dir.fh(), cookie, limit: READDIR_BATCH, plus };
            let Answer::Entries { entries, next, end } = self.call(call).await?.answer else { return Err(FsError::Io) };
            entries.into_iter().for_each(&mut each);
            if end || next <= cookie {
                return dir.close().await;
            }
            cookie = next;
        }
    }

    /// Totals of the file system.
    pub async fn statfs(&self) -> FsResult<StatFs> {
        match self.op(Op::StatFs).await? {
            Answer::StatFs(totals) => Ok(totals),
            _ => Err(FsError::Io),
        }
    }

    /// Everything written through this client is durable when it returns.
    pub async fn sync_all(&self) -> FsResult<()> {
        self.call(Call::SyncAll).await.map(drop)
    }
}

fn entry(answer: Answer) -> FsResult<Attr> {
    answer.attr().copied().ok_or(FsError::Io)
}

fn bytes(answer: Answer) -> FsResult<Arc<[u8]>> {
    match answer {
        Answer::Bytes(bytes) => Ok(bytes),
        _ => Err(FsError::Io),
    }
}

/// Error of an operation on a path that ends without a name, for which [`AsyncFs::place`] returns `IsDir`; as on Linux.
fn no_name(error: FsError, then: FsError) -> FsError {
    if error == FsError::IsDir { then } else { error }
}

/// Paths, in the name of one user; every function waits.
///
/// ```no_run
/// use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
/// use loligo_driver::client::{Client, Options, path::OpenHow};
/// use loligo_types::Cred;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let address = "unix:/srv/loligo/socket".parse()?;
/// let client = Client::connect(&address, Options { name: "example".into(), ..Options::default() })?;
/// let fs = client.fs(Arc::new(Cred::user(1000, 1000)));
/// fs.mkdir("/notes", 0o755)?;
/// fs.write("/notes/today", b"buy ink\n".to_vec())?;
/// let file = fs.open("/notes/today", OpenHow::read_write())?;
/// file.write_at(8, b"and pens\n".to_vec())?;
/// file.sync()?;
/// assert_eq!(fs.read("/notes/today")?, b"buy ink\nand pens\n");
/// for entry in fs.readdir("/notes")? {
///     println!("{}", entry.name);
/// }
/// client.stop(std::time::Duration::from_secs(10))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fs {
    inner: AsyncFs,
}

macro_rules! waiting {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Fs {
            $($(#[$doc])* pub fn $name(&self, $($arg: $type),*) -> FsResult<$result> {
                block_on(&self.inner.client, self.inner.$name($($arg),*))
            })*
        }
    };
}

waiting! {
    /// See [`AsyncFs::stat`].
    stat(path: impl AsRef<Path>) -> Attr;
    /// See [`AsyncFs::lstat`].
    lstat(path: impl AsRef<Path>) -> Attr;
    /// See [`AsyncFs::read`].
    read(path: impl AsRef<Path>) -> Vec<u8>;
    /// See [`AsyncFs::write`].
    write(path: impl AsRef<Path>, content: impl Into<Arc<[u8]>>) -> ();
    /// See [`AsyncFs::mkdir`].
    mkdir(path: impl AsRef<Path>, mode: u16) -> Attr;
    /// See [`AsyncFs::mknod`].
    mknod(path: impl AsRef<Path>, kind: Kind, mode: u16) -> Attr;
    /// See [`AsyncFs::symlink`].
    symlink(target: impl AsRef<Path>, path: impl AsRef<Path>) -> Attr;
    /// See [`AsyncFs::readlink`].
    readlink(path: impl AsRef<Path>) -> Arc<[u8]>;
    /// See [`AsyncFs::link`].
    link(path: impl AsRef<Path>, new: impl AsRef<Path>) -> Attr;
    /// See [`AsyncFs::unlink`].
    unlink(path: impl AsRef<Path>) -> ();
    /// See [`AsyncFs::rmdir`].
    rmdir(path: impl AsRef<Path>) -> ();
    /// See [`AsyncFs::rename`].
    rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> ();
    /// See [`AsyncFs::set_attr`].
    set_attr(path: impl AsRef<Path>, set: SetAttr) -> Attr;
    /// See [`AsyncFs::readdir`].
    readdir(path: impl AsRef<Path>) -> Vec<DirEntry>;
    /// See [`AsyncFs::readdir_with`].
    readdir_with(path: impl AsRef<Path>, plus: bool, each: impl FnMut(DirEntry)) -> ();
    /// See [`AsyncFs::statfs`].
    statfs() -> StatFs;
    /// See [`AsyncFs::sync_all`].
    sync_all() -> ();
}

impl Fs {
    pub(super) fn new(client: Client, cred: Arc<Cred>) -> Fs {
        Fs { inner: AsyncFs::new(client, cred) }
    }

    /// With another umask than 022.
    #[must_use]
    pub fn with_umask(self, umask: u16) -> Fs {
        Fs { inner: self.inner.with_umask(umask) }
    }

    /// The client behind it.
    pub fn client(&self) -> &Client {
        self.inner.client()
    }

    /// In whose name.
    pub fn cred(&self) -> &Arc<Cred> {
        self.inner.cred()
    }

    /// See [`AsyncFs::lookup_leases`].
    pub fn lookup_leases(&self) -> [(u64, u64); loligo_client::DEPTHS] {
        self.inner.lookup_leases()
    }

    /// The same, with futures.
    pub fn to_async(&self) -> AsyncFs {
        self.inner.clone()
    }

    /// Opens a file.
    pub fn open(&self, path: impl AsRef<Path>, how: OpenHow) -> FsResult<File> {
        block_on(&self.inner.client, self.inner.open(path, how)).map(File::new)
    }
}

/// Waits for a future on this thread.
pub(super) fn block_on<T>(client: &Client, future: impl Future<Output = T>) -> T {
    let woken = Arc::new(Woken { thread: std::thread::current(), is: AtomicBool::new(false) });
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    // The answers are received here, if nobody else is at it.
    let mut lead = client.owner.shared.lead();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        while !woken.is.swap(false, Ordering::AcqRel) {
            match &mut lead {
                Some(leading) => {
                    if !leading.receive() {
                        lead = None;
                    }
                }
                None => std::thread::park(),
            }
        }
    }
}

/// Wakes a thread that waits for a future.
struct Woken {
    thread: std::thread::Thread,
    is: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
