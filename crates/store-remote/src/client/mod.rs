//! The side of those that use another process's store: [`RemoteStore`], whose calls are requests and answers.

mod blobs;
mod log;
mod table;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use loligo_store::{Backend, Blobs, Identity, LogDir, Result, StatFs, StoreError, Table};

use crate::answer::Answer;
use crate::bytes::{begin, receive, send};
use crate::execute::{PART_MAX, READ_MAX};
use crate::request::{PROTOCOL_VERSION, REQUEST_MAX, Request};

/// Longest answer, bytes: a part with one more row, or a read.
const ANSWER_MAX: usize = REQUEST_MAX + PART_MAX;
/// Room of a buffer that is kept from call to call, bytes.
const KEEP_MAX: usize = 8 << 20;

/// The store of another process. Cheap to hand on; all parts of it are lost together.
pub struct RemoteStore {
    shared: Arc<Shared>,
    /// True if the owner's disk was full when it was asked last.
    full: Arc<AtomicBool>,
}

struct Shared {
    path: PathBuf,
    ticket: u64,
    identity: Identity,
    /// Connections that nobody uses now.
    idle: Mutex<Vec<Connection>>,
    /// The sign of its loss.
    lost: OnceLock<String>,
    on_lost: OnceLock<Tell>,
}

/// Function that is called when it is lost.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// One connection, for one call at a time.
struct Connection {
    stream: UnixStream,
    out: Vec<u8>,
    bytes: Vec<u8>,
}

impl RemoteStore {
    /// Connects to a store, with the ticket that its owner gave.
    pub fn connect(path: &Path, ticket: u64) -> Result<RemoteStore> {
        let (connection, identity) = Connection::open(path, ticket).map_err(|error| match error {
            Refused::By(error) => error,
            Refused::Io(error) => StoreError::Lost { what: name(path), cause: error.to_string() },
        })?;
        let idle = Mutex::new(vec![connection]);
        let path = path.to_path_buf();
        let shared = Shared { path, ticket, identity, idle, lost: OnceLock::new(), on_lost: OnceLock::new() };
        Ok(RemoteStore { shared: Arc::new(shared), full: Arc::default() })
    }

    /// Calls this, once, when the store is lost, on the thread that found it. Can be said once.
    pub fn on_lost(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        if self.shared.on_lost.set(Box::new(tell)).is_err() {
            tracing::error!("somebody else is told already when the store is lost; this is a bug");
        }
    }
}

/// Why a connection could not be made.
enum Refused {
    By(StoreError),
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

fn name(path: &Path) -> String {
    format!("the store served at {}", path.display())
}

fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Connection {
    fn open(path: &Path, ticket: u64) -> std::result::Result<(Connection, Identity), Refused> {
        let stream = UnixStream::connect(path)?;
        let mut connection = Connection { stream, out: Vec::new(), bytes: Vec::new() };
        connection.ask(&Request::Attach { version: PROTOCOL_VERSION, ticket })?;
        match connection.hear()? {
            Answer::Identity(bytes) => match Identity::decode(&name(path), bytes) {
                Ok(identity) => Ok((connection, identity)),
                Err(error) => Err(Refused::By(error)),
            },
            Answer::Failed(error) => Err(Refused::By(error)),
            _ => Err(Refused::Io(wrong_answer())),
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> io::Result<()> {
        begin(&mut self.out);
        request.encode(&mut self.out);
        send(&mut self.out, &mut self.stream)?;
        self.out.shrink_to(KEEP_MAX);
        Ok(())
    }

    fn hear(&mut self) -> io::Result<Answer<'_>> {
        self.bytes.shrink_to(KEEP_MAX);
        if !receive(&mut self.stream, ANSWER_MAX, &mut self.bytes)? {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server of the data directory is gone"));
        }
        Answer::decode(&self.bytes).map_err(malformed)
    }
}

fn wrong_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer to another question; use programs of the same release")
}

/// Converts an answer; `None`: it is none to this question.
type Meaning<'a, T> = &'a mut dyn FnMut(Answer<'_>) -> Option<T>;

impl Shared {
    fn error(&self, cause: &str) -> StoreError {
        StoreError::Lost { what: name(&self.path), cause: cause.to_owned() }
    }

    /// From now on nothing can be had any more.
    fn lose(&self, error: &io::Error) -> StoreError {
        let mut is_first = false;
        let cause = self.lost.get_or_init(|| {
            is_first = true;
            error.to_string()
        });
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let (true, Some(tell)) = (is_first, self.on_lost.get()) {
            tell(cause);
        }
        self.error(cause)
    }

    /// A connection for a call.
    fn take(&self) -> Result<Connection> {
        if let Some(cause) = self.lost.get() {
            return Err(self.error(cause));
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.another(), Ok)
    }

    fn another(&self) -> Result<Connection> {
        match Connection::open(&self.path, self.ticket) {
            Ok((connection, _)) => Ok(connection),
            Err(Refused::Io(error)) => Err(self.lose(&error)),
            Err(Refused::By(error)) => Err(self.lose(&io::Error::other(error.to_string()))),
        }
    }

    /// Asks over a connection, and makes the answer into what was asked for.
    fn ask_over<T>(&self, connection: &mut Connection, request: &Request<'_>, meaning: Meaning<'_, T>) -> Result<T> {
        if let Some(cause) = self.lost.get() {
            return Err(self.error(cause));
        }
        let heard = connection.ask(request).and_then(|()| match connection.hear()? {
            Answer::Failed(error) => Ok(Err(error)),
            answer => meaning(answer).map(Ok).ok_or_else(wrong_answer),
        });
        heard.unwrap_or_else(|error| Err(self.lose(&error)))
    }

    /// Asks over any connection.
    fn ask<T>(&self, request: &Request<'_>, meaning: Meaning<'_, T>) -> Result<T> {
        let mut connection = self.take()?;
        let result = self.ask_over(&mut connection, request, meaning);
        self.give_back(connection);
        result
    }

    fn ask_done(&self, request: &Request<'_>) -> Result<()> {
        self.ask(request, &mut done)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lost.get().is_none() {
            idle.push(connection);
        }
    }
}

fn done(answer: Answer<'_>) -> Option<()> {
    matches!(answer, Answer::Done).then_some(())
}

impl Backend for RemoteStore {
    fn identity(&self) -> Identity {
        self.shared.identity
    }

    fn table(&self) -> Arc<dyn Table> {
        Arc::new(table::RemoteTable(self.shared.clone()))
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(blobs::RemoteBlobs(self.shared.clone()))
    }

    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        self.shared.ask_done(&Request::LogDir { rank })?;
        Ok(Arc::new(log::RemoteLogDir { shared: self.shared.clone(), rank }))
    }

    fn ranks(&self) -> Result<Vec<u32>> {
        self.shared.ask(&Request::Ranks, &mut |answer| match answer {
            Answer::Numbers(numbers) => numbers.into_iter().map(|n| u32::try_from(n).ok()).collect(),
            _ => None,
        })
    }

    fn statfs(&self) -> Result<StatFs> {
        let space = self.shared.ask(&Request::StatFs, &mut |answer| match answer {
            Answer::StatFs(space) => Some(space),
            _ => None,
        })?;
        // The owner says so when its disk is full.
        let full = space.free_bytes == 0 || (space.total_inodes > 0 && space.free_inodes == 0);
        self.full.store(full, Ordering::Release);
        Ok(space)
    }

    fn full(&self) -> Option<Arc<AtomicBool>> {
        Some(self.full.clone())
    }

    /// Makes everything durable. The store stays its owner's, who closes it.
    fn close(&self) -> Result<()> {
        self.shared.ask_done(&Request::Flush)?;
        self.shared.ask_done(&Request::SyncAll)
    }
}
