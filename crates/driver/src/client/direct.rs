//! The threads that do data operations in the store, beside the servers ([`loligo_client::Output::Direct`]). What may be done there, and in
//! which order, the machine has decided.
//!
//! One connection at a time. When the store refuses it ([`StoreError::Fenced`]), the machine is told, everything that is under way over it
//! is waited for, and another one is made. What cannot be reached at all is tried once: then everything goes through the servers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use loligo_client::{DirectError, Input};
use loligo_osd::Effect;
use loligo_store::{PathCache, StoreError, Way};
use loligo_types::msg::DataRequest;
use loligo_types::{DataError, DataOp};

use super::core::Shared;

/// Operations under way at a time: as many of them as a run of writing back has.
const THREADS: usize = 16;
/// Files of which it is remembered since when nobody else has removed objects.
const FILES_MAX: usize = 1 << 16;
/// Pause before it connects again after a refusal.
const PAUSE: Duration = Duration::from_millis(500);

/// Effects on file data that this client carries out in the store, and their connection to it.
pub struct Direct {
    state: Mutex<State>,
    /// There is something to do.
    ready: Condvar,
    /// There is something to do for the thread that connects.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Where file data is, once a server has said so.
    place: Option<String>,
    way: Option<Arc<dyn Way>>,
    /// The connection is refused.
    refused: bool,
    /// This user may not do what is to be done there: no other connection helps.
    denied: bool,
    queue: VecDeque<(DataRequest, u64)>,
    /// Operations that threads do now.
    running: usize,
    /// By inode, since when nobody else has removed objects.
    pieces: HashMap<u64, u64>,
    closed: bool,
}

impl Direct {
    pub fn new() -> Arc<Direct> {
        Arc::new(Direct { state: Mutex::default(), ready: Condvar::new(), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that connects, and that starts those which do the rest.
    pub fn start(self: &Arc<Self>, ways: Arc<dyn PathCache>, shared: Weak<Shared>) -> std::io::Result<()> {
        let direct = Arc::clone(self);
        thread::Builder::new().name("lol-store".into()).spawn(move || direct.keep(&*ways, &shared))?;
        Ok(())
    }

    /// A server has said where file data is.
    pub fn found(&self, place: &str) {
        let mut state = self.lock();
        if state.place.is_none() {
            state.place = Some(place.to_owned());
            self.changed.notify_one();
        }
    }

    /// Has an operation done.
    pub fn push(&self, request: DataRequest, pieces: u64) {
        self.lock().queue.push_back((request, pieces));
        self.ready.notify_one();
    }

    /// Ends the threads.
    pub fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
        self.changed.notify_all();
    }

    /// Connects, and again when that connection is refused and done with.
    fn keep(self: &Arc<Self>, ways: &dyn PathCache, shared: &Weak<Shared>) {
        let mut has_threads = false;
        loop {
            let mut state = self.lock();
            while !state.closed && (state.place.is_none() || state.way.is_some() && !state.is_done_with()) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed || state.denied {
                return;
            }
            let place = state.place.clone().unwrap_or_default();
            let again = state.way.take().is_some();
            drop(state);
            if again {
                thread::sleep(PAUSE);
            }
            let way = match ways.open(&place) {
                Ok(way) => way,
                Err(error) => {
                    tracing::warn!(
                        "file data goes through the servers, as {place} cannot be reached from here: {error}"
                    );
                    return;
                }
            };
            let address = way.address().to_owned();
            if !std::mem::replace(&mut has_threads, true) && !self.start_threads(shared) {
                return;
            }
            let mut state = self.lock();
            (state.way, state.refused) = (Some(way), false);
            state.pieces.clear();
            drop(state);
            tracing::info!("file data is read and written straight in {place}, as {address}");
            let Some(shared) = shared.upgrade() else { return };
            shared.feed(Input::Direct { address: Some(address.into_bytes().into()) });
        }
    }

    fn start_threads(self: &Arc<Self>, shared: &Weak<Shared>) -> bool {
        (0..THREADS).all(|at| {
            let (direct, shared) = (Arc::clone(self), shared.clone());
            let body = move || direct.work(&shared);
            thread::Builder::new().name(format!("lol-data-{at}")).spawn(body).is_ok()
        })
    }

    fn work(&self, shared: &Weak<Shared>) {
        let mut state = self.lock();
        loop {
            if state.closed {
                return;
            }
            let Some((request, pieces)) = state.queue.pop_front() else {
                state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(way) = state.way.clone().filter(|_| !state.refused) else {
                drop(state);
                answer(shared, request.id, Err(DirectError::Refused), false);
                state = self.lock();
                continue;
            };
            state.running += 1;
            let ino = request.ino.0;
            if state.pieces.len() >= FILES_MAX {
                state.pieces.clear();
            }
            let is_new = state.pieces.insert(ino, pieces) != Some(pieces);
            drop(state);
            if is_new {
                way.blobs().forget(ino);
            }
            let id = request.id;
            let done = execute(&*way, request);
            state = self.lock();
            state.running -= 1;
            let result = done.map_err(|error| why(&error, &mut state.denied));
            let refused = result == Err(DirectError::Refused);
            if state.pieces.get(&ino) != Some(&pieces) {
                // What this one has learned may be older than what removed objects meanwhile.
                way.blobs().forget(ino);
            }
            let first = refused && !std::mem::replace(&mut state.refused, true);
            if state.refused {
                self.changed.notify_one();
            }
            drop(state);
            drop(way);
            answer(shared, id, result, first);
            state = self.lock();
        }
    }
}

impl State {
    /// It is refused, and nothing is under way over it.
    fn is_done_with(&self) -> bool {
        self.refused && self.running == 0
    }
}

/// Tells the machine, and first, if so, that there is no connection any more.
fn answer(shared: &Weak<Shared>, id: u64, result: Result<loligo_types::DataAnswer, DirectError>, refused: bool) {
    let Some(shared) = shared.upgrade() else { return };
    let done = Input::DirectDone { id, result };
    if refused {
        tracing::warn!("file data goes through the servers until there is another connection to the store");
        shared.feed_all([Input::Direct { address: None }, done]);
    } else {
        shared.feed(done);
    }
    // Whoever waits for its own call listens to the servers.
    shared.waker.wake();
}

fn execute(way: &dyn Way, request: DataRequest) -> Result<loligo_types::DataAnswer, StoreError> {
    let (ino, object_size) = (request.ino, u64::from(request.object_size));
    let effect = match request.op {
        DataOp::Read { offset, len } => Effect::Read { ino, object_size, offset, len },
        DataOp::Write { offset, data } => Effect::Write { ino, object_size, offset, data },
        DataOp::Sync => Effect::Sync { ino, ranges: Vec::new(), removed: false, copy: None },
        DataOp::Punch { .. } | DataOp::Discard { .. } | DataOp::Seek { .. } => {
            return Err(StoreError::Io {
                what: format!("{ino:?}"),
                cause: "a rank is to do this; this is a bug".into(),
            });
        }
    };
    loligo_osd::execute(way.blobs(), &effect)
}

fn why(error: &StoreError, denied: &mut bool) -> DirectError {
    match error {
        StoreError::Fenced { .. } => DirectError::Refused,
        StoreError::Denied { .. } => {
            *denied = true;
            tracing::warn!("file data goes through the servers from now on: {error}");
            DirectError::Refused
        }
        StoreError::Full { .. } => DirectError::Failed(DataError::NoSpace),
        StoreError::Corrupt { .. } => DirectError::Failed(DataError::Corrupt),
        error => {
            tracing::warn!("a data operation failed: {error}");
            DirectError::Failed(DataError::Io)
        }
    }
}
