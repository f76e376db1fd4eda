//! The owner's side: listens, lets those in that have a ticket, and gives each connection a thread. What is done there is
//! `execute.rs`'s.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use loligo_store::{Backend, IDENTITY_LEN, StoreError};

use crate::answer::Answer;
use crate::bytes::{begin, receive, send};
use crate::execute::{Execution, out_of_turn};
use crate::request::{PROTOCOL_VERSION, REQUEST_MAX, Request};

/// Pause after a connection that the system did not give.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// Time limit for a connection to name its role.
const ATTACH_TIME: Duration = Duration::from_secs(5);

/// A store that is served. Dropping it ends all connections.
pub struct Service {
    shared: Arc<Shared>,
    path: PathBuf,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    /// None: the service has ended, and has given its store back.
    backend: Option<Arc<dyn Backend>>,
    next_ticket: u64,
    next_connection: u64,
    admitted: BTreeMap<u64, Admitted>,
}

/// A process that may come.
struct Admitted {
    ranks: Vec<u32>,
    /// Its connections, to be ended.
    connections: BTreeMap<u64, UnixStream>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Serves a store at this path of a Unix socket. What a killed process left there is removed.
    pub fn start(backend: Arc<dyn Backend>, path: &Path) -> io::Result<Service> {
        if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
            && UnixStream::connect(path).is_err()
        {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let state = State { backend: Some(backend), next_ticket: 1, next_connection: 1, admitted: BTreeMap::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new() });
        let own = shared.clone();
        let acceptor =
            std::thread::Builder::new().name("loligo-store".into()).spawn(move || accept(&own, &listener))?;
        Ok(Service { shared, path: path.to_path_buf(), acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets a process come that runs these ranks, whose journals it gets. The ticket is what it shows.
    pub fn admit(&self, ranks: Vec<u32>) -> u64 {
        let mut state = self.shared.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.admitted.insert(ticket, Admitted { ranks, connections: BTreeMap::new() });
        ticket
    }

    /// Ends all connections with this ticket, which is void from now on. When this returns, nothing is done for them any
    /// more: another process may have the journals.
    pub fn revoke(&self, ticket: u64) {
        let mut state = self.shared.lock();
        loop {
            let Some(admitted) = state.admitted.get_mut(&ticket) else { return };
            if admitted.connections.is_empty() {
                state.admitted.remove(&ticket);
                return;
            }
            shut(admitted.connections.values());
            // Again with each that comes between.
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn shut<'a>(connections: impl Iterator<Item = &'a UnixStream>) {
    for connection in connections {
        // One that has ended by itself cannot be ended.
        let _ = connection.shutdown(Shutdown::Both);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let tickets: Vec<u64> = {
            let mut state = self.shared.lock();
            state.backend = None;
            state.admitted.keys().copied().collect()
        };
        tickets.into_iter().for_each(|ticket| self.revoke(ticket));
        // Wakes the acceptor.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = fs::remove_file(&self.path);
        if let (true, Some(acceptor)) = (woken, self.acceptor.take()) {
            let _ = acceptor.join();
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    loop {
        let accepted = listener.accept();
        if shared.lock().backend.is_none() {
            return;
        }
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("a connection to the store could not be taken: {error}");
                // Too many files are open, say: that does not pass in no time.
                std::thread::sleep(REFUSED_PAUSE);
                continue;
            }
        };
        let shared = shared.clone();
        let spawned = std::thread::Builder::new().name("loligo-store".into()).spawn(move || serve(&shared, stream));
        if let Err(error) = spawned {
            tracing::warn!("a connection to the store got no thread: {error}");
        }
    }
}

/// One connection, from its first request to its end.
fn serve(shared: &Shared, mut stream: UnixStream) {
    match attach(shared, &mut stream) {
        Ok((ticket, connection, execution)) => {
            // Ends the connection in the list however the thread ends.
            let _end = End { shared, ticket, connection };
            if let Err(error) = requests(&mut stream, execution) {
                tracing::debug!("a connection to the store has ended: {error}");
            }
        }
        Err(error) => tracing::warn!("a connection to the store is refused: {error}"),
    }
}

struct End<'a> {
    shared: &'a Shared,
    ticket: u64,
    connection: u64,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(admitted) = state.admitted.get_mut(&self.ticket) {
            admitted.connections.remove(&self.connection);
        }
        self.shared.ended.notify_all();
    }
}

fn attach(shared: &Shared, stream: &mut UnixStream) -> io::Result<(u64, u64, Execution)> {
    let uid = rustix::net::sockopt::socket_peercred(&*stream)?.uid;
    if uid != rustix::process::geteuid() && !uid.is_root() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is of user {}", uid.as_raw())));
    }
    stream.set_read_timeout(Some(ATTACH_TIME))?;
    let mut bytes = Vec::new();
    if !receive(stream, 1 << 10, &mut bytes)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let refuse = |stream: &mut UnixStream, cause: String| {
        let what = "the store of the server".to_owned();
        let _ = tell(stream, &mut Vec::new(), &Answer::Failed(StoreError::Lost { what, cause: cause.clone() }));
        Err(io::Error::new(io::ErrorKind::InvalidData, cause))
    };
    let (version, ticket) = match Request::decode(&bytes) {
        Ok(Request::Attach { version, ticket }) => (version, ticket),
        Ok(_) => return refuse(stream, "the first request is none that can be first".into()),
        Err(error) => return refuse(stream, error.to_string()),
    };
    if version != PROTOCOL_VERSION {
        let cause =
            format!("it speaks version {PROTOCOL_VERSION}, this process {version}: use programs of one release");
        return refuse(stream, cause);
    }
    stream.set_read_timeout(None)?;
    let copy = stream.try_clone()?;
    let entered = {
        let mut state = shared.lock();
        let connection = state.next_connection;
        state.next_connection += 1;
        let backend = state.backend.clone();
        backend.zip(state.admitted.get_mut(&ticket)).map(|(backend, admitted)| {
            admitted.connections.insert(connection, copy);
            (connection, backend, admitted.ranks.clone())
        })
    };
    let Some((connection, backend, ranks)) = entered else {
        return refuse(stream, format!("ticket {ticket} is not valid (any more)"));
    };
    let end = End { shared, ticket, connection };
    // Given back before that end is told.
    let backend = backend;
    let identity: [u8; IDENTITY_LEN] = backend.identity().encode();
    tell(stream, &mut Vec::new(), &Answer::Identity(&identity))?;
    std::mem::forget(end);
    Ok((ticket, connection, Execution::new(backend, ranks)))
}

fn requests(stream: &mut UnixStream, mut execution: Execution) -> io::Result<()> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    while receive(stream, REQUEST_MAX, &mut bytes)? {
        match Request::decode(&bytes) {
            Ok(Request::Attach { .. }) => tell(stream, &mut out, &Answer::Failed(out_of_turn()))?,
            Ok(request) => execution.run(&request, &mut |answer| tell(stream, &mut out, answer))?,
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        bytes.shrink_to(KEEP_MAX);
        out.shrink_to(KEEP_MAX);
    }
    Ok(())
}

/// Room of a buffer that is kept from request to request, bytes.
const KEEP_MAX: usize = 8 << 20;

fn tell(stream: &mut UnixStream, out: &mut Vec<u8>, answer: &Answer<'_>) -> io::Result<()> {
    begin(out);
    answer.encode(out);
    send(out, stream)
}
