//! The machine behind its lock, and what is done with its outputs. No thread of its own: submitters and the receiver
//! both come here.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loligo_client::{CallId, Client as Machine, Input, Now, Output, Runs, Unmerged};
use loligo_types::msg::{Refusal, Welcome};
use loligo_types::{Cred, FsError, Ino, Rank, Time};

use super::calls::{self, Callback};
use super::direct::Direct;
use super::invalidator::Invalidator;
use super::keeping::Keeping;
use super::link::Link;
use super::receiver::{self, Aside, Incoming};
use super::{Call, CallResult, ConnectError, Options, subtree};
use crate::Address;
use crate::sock::{Sock, Waker};
use crate::tls::Identity;

/// Time for a server to say welcome.
const WELCOME_LIMIT: Duration = Duration::from_secs(30);

/// Progress of the connection.
#[derive(Default)]
pub enum Progress {
    /// No welcome yet.
    #[default]
    Connecting,
    /// Welcome.
    Ready,
    /// The first connection failed.
    Failed(std::io::Error),
    /// The server refused.
    Refused(Refusal, String),
}

/// The state that the lock guards.
pub struct Core {
    machine: Machine,
    calls: HashMap<CallId, Callback>,
    /// One for each rank, by the machine's numbers for them.
    pub links: BTreeMap<Rank, Link>,
    /// Connections that were made beside the receiver, or could not be.
    pub made: Vec<(Rank, std::io::Result<Sock>)>,
    pub progress: Progress,
    pub stopped: bool,
    welcome: Option<Welcome>,
    /// Unix socket of the first connection, if it is one with a name.
    socket: Option<PathBuf>,
    /// It reaches ranks by their Unix sockets, where they have some.
    over_unix: bool,
    /// The number of the first connection.
    first: Rank,
    invalidator: Option<Invalidator>,
    keeping: Option<Keeping>,
    /// Roots of subtrees that programs have decoupled by themselves, and where each is told that it may have been taken from it.
    subtrees: Vec<(Ino, Weak<AtomicBool>)>,
    /// The way to the store beside the servers, if there may be one.
    direct: Option<Arc<Direct>>,
}

/// The client's one state, shared by submitters, the receiver and the invalidation threads.
pub struct Shared {
    pub address: Address,
    /// With which it comes in over TCP.
    pub identity: Option<Identity>,
    /// Where journals of subtrees are kept on this machine's disk.
    pub keep: Option<PathBuf>,
    pub waker: Waker,
    /// The number of the first connection.
    pub first: Rank,
    /// With which of several addresses the next attempt to connect begins.
    pub turn: AtomicUsize,
    /// Number of the next call.
    next_call: AtomicU64,
    /// The receiving side of the connection: of the receiver, or of a thread that waits for its own call.
    pub incoming: Mutex<Incoming>,
    pub aside: Aside,
    core: Mutex<Core>,
    changed: Condvar,
    started: Instant,
    /// When the machine was told the time last, milliseconds since the start.
    ticked: AtomicU64,
}

impl Shared {
    /// Makes the machine and starts its threads.
    pub fn start(address: Address, options: Options) -> Result<Arc<Shared>, ConnectError> {
        let failed = |source| ConnectError::Io { address: address.clone(), source };
        let waker = Waker::new().map_err(failed)?;
        let config = super::prepare(&options);
        let first = config.rank;
        let core = Core {
            machine: Machine::new(config),
            calls: HashMap::new(),
            links: BTreeMap::from([(first, Link::first())]),
            made: Vec::new(),
            progress: Progress::default(),
            stopped: false,
            welcome: None,
            socket: match &address {
                Address::Unix(path) => Some(path.clone()),
                Address::Tcp(_) | Address::Any(_) | Address::Pair(_) => None,
            },
            over_unix: !(options.identity.is_some() || matches!(&address, Address::Tcp(_))),
            first,
            invalidator: None,
            keeping: None,
            subtrees: Vec::new(),
            direct: options.direct.as_ref().map(|_| Direct::new()),
        };
        let shared = Arc::new(Shared {
            address: address.clone(),
            identity: options.identity.clone(),
            keep: options.keep.clone(),
            waker,
            first,
            turn: AtomicUsize::new(0),
            next_call: AtomicU64::new(1),
            incoming: Mutex::default(),
            aside: Aside::default(),
            core: Mutex::new(core),
            changed: Condvar::new(),
            started: Instant::now(),
            ticked: AtomicU64::new(0),
        });
        if let Some(target) = &options.invalidate {
            let weak = Arc::downgrade(&shared);
            let told = move |token| weak.upgrade().map(|shared| shared.feed(Input::Invalidated { token })).is_some();
            let invalidator = Invalidator::start(target, told).map_err(failed)?;
            shared.lock().invalidator = Some(invalidator);
        }
        if let Some(dir) = &options.keep {
            let weak = Arc::downgrade(&shared);
            let kept = move |token, result| {
                weak.upgrade().map(|shared| shared.feed(Input::KeepDone { token, result })).is_some()
            };
            let keeping = Keeping::start(dir.clone(), kept).map_err(failed)?;
            shared.lock().keeping = Some(keeping);
        }
        let direct = shared.lock().direct.clone();
        if let (Some(direct), Some(ways)) = (direct, &options.direct) {
            direct.start(Arc::clone(ways), Arc::downgrade(&shared)).map_err(failed)?;
        }
        receiver::start(&shared).map_err(failed)?;
        Ok(shared)
    }

    /// A panic inside the machine leaves it unusable in unknown ways; calls go on to fail or be answered as it can.
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time for the machine.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall: Time::new(i64::try_from(wall.as_secs()).unwrap_or(i64::MAX), wall.subsec_nanos()),
        }
    }

    /// In how long the machine is to be told the time.
    pub fn next_tick(&self) -> Duration {
        let due = Duration::from_millis(self.ticked.load(Ordering::Relaxed)) + receiver::TICK;
        due.saturating_sub(self.started.elapsed())
    }

    /// Tells the machine the time if that is due. For whoever receives.
    pub fn keep_time(&self) {
        if self.next_tick().is_zero() {
            self.ticked.store(self.now().ms, Ordering::Relaxed);
            self.feed(Input::Tick);
        }
    }

    /// A number for a call, of no other.
    pub fn number(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }

    /// Submits one call.
    pub fn submit(self: &Arc<Self>, cred: &Arc<Cred>, call: Call, done: Callback) {
        self.submit_as(self.number(), cred, call, done);
    }

    /// Submits one call with its number.
    pub fn submit_as(self: &Arc<Self>, id: CallId, cred: &Arc<Cred>, call: Call, done: Callback) {
        let now = self.now();
        let mut core = self.lock();
        if let Some(done) = core.begin(now, id, Arc::clone(cred), call, done) {
            drop(core);
            calls::run(vec![(done, Err(FsError::Unavailable.into()))]);
            return;
        }
        self.settle(core);
        self.aside.call_back();
    }

    /// Makes a call and waits for it. If nobody receives at the moment, this thread does: a reply then wakes the one who
    /// waits for it, and no other thread first.
    pub fn call(self: &Arc<Self>, cred: &Arc<Cred>, call: Call) -> CallResult {
        let slot = calls::Slot::default();
        let Some(mut lead) = self.lead() else {
            self.aside.count();
            self.submit(cred, call, slot.callback());
            return slot.wait();
        };
        self.submit(cred, call, slot.callback());
        lead.look(&slot);
        while !slot.is_done() && lead.receive() {}
        drop(lead);
        slot.wait()
    }

    /// Receives in the receiver's stead until it is dropped, if nobody else does.
    pub fn lead(&self) -> Option<Lead<'_>> {
        let incoming = self.incoming.try_lock().ok()?;
        self.aside.lead(true);
        Some(Lead { shared: self, incoming: Some(incoming) })
    }

    /// Submits many calls with one write.
    pub fn submit_all(self: &Arc<Self>, batch: Vec<(Arc<Cred>, Call, Callback)>) {
        let now = self.now();
        let mut refused = Vec::new();
        let mut core = self.lock();
        for (cred, call, done) in batch {
            if let Some(done) = core.begin(now, self.number(), cred, call, done) {
                refused.push((done, Err(FsError::Unavailable.into())));
            }
        }
        self.settle(core);
        self.aside.call_back();
        calls::run(refused);
    }

    /// Tells the machine something, and does what it says.
    pub fn feed(&self, input: Input) {
        self.feed_all([input]);
    }

    /// Tells the machine several things, and does what it says.
    pub fn feed_all(&self, inputs: impl IntoIterator<Item = Input>) {
        calls::run(self.take_in(inputs));
    }

    /// The same, but gives the callbacks that are to be run.
    #[must_use = "callbacks are to be run"]
    pub fn take_in(&self, inputs: impl IntoIterator<Item = Input>) -> Vec<(Callback, CallResult)> {
        let now = self.now();
        let mut core = self.lock();
        for input in inputs {
            core.machine.handle(now, input);
        }
        self.carry_out(core)
    }

    /// Carries out what the machine said; callbacks run after the lock was given back.
    fn settle(&self, core: MutexGuard<'_, Core>) {
        calls::run(self.carry_out(core));
    }

    fn carry_out(&self, mut core: MutexGuard<'_, Core>) -> Vec<(Callback, CallResult)> {
        let mut ready = Vec::new();
        let events = core.drain(&mut ready);
        if core.flush() || events.wake {
            self.waker.wake();
            self.aside.call_back();
        }
        drop(core);
        if events.changed {
            self.changed.notify_all();
        }
        ready
    }

    /// Waits until the first handshake ended.
    pub fn wait_ready(&self) -> Result<(), ConnectError> {
        let address = self.address.clone();
        let until = Instant::now() + WELCOME_LIMIT;
        let mut core = self.lock();
        loop {
            match std::mem::take(&mut core.progress) {
                Progress::Connecting => {}
                Progress::Ready => {
                    core.progress = Progress::Ready;
                    return Ok(());
                }
                // Of TLS.
                Progress::Failed(source) if source.kind() == std::io::ErrorKind::InvalidData => {
                    return Err(ConnectError::Tls { address, source });
                }
                Progress::Failed(source) => return Err(ConnectError::Io { address, source }),
                Progress::Refused(why, text) => return Err(ConnectError::Refused { address, why, text }),
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return Err(ConnectError::Timeout { address });
            };
            core = self.changed.wait_timeout(core, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes that the very first connection could not be made.
    pub fn first_connect_failed(&self, error: std::io::Error) {
        let mut core = self.lock();
        if matches!(core.progress, Progress::Connecting) {
            core.progress = Progress::Failed(error);
        }
        drop(core);
        self.changed.notify_all();
    }

    /// The welcome of the server to this client.
    pub fn welcome(&self) -> Welcome {
        self.lock().welcome.clone().expect("a client is given out after it was welcomed")
    }

    /// Stops, and waits for it.
    pub fn stop(&self, limit: Duration) -> Result<(), FsError> {
        let ended = self.wait_for_end(limit);
        let keeping = self.lock().keeping.take();
        keeping.into_iter().for_each(Keeping::finish);
        ended
    }

    /// Changes of decoupled directories that were not merged.
    pub fn unmerged(&self) -> Vec<Unmerged> {
        self.lock().machine.unmerged()
    }

    fn wait_for_end(&self, limit: Duration) -> Result<(), FsError> {
        self.feed(Input::Stop);
        let until = Instant::now() + limit;
        let mut core = self.lock();
        while !core.stopped {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                core.stopped = true;
                drop(core);
                self.waker.wake();
                return Err(FsError::Unavailable);
            };
            core = self.changed.wait_timeout(core, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// The receiver ends: nobody will answer any more.
    pub fn abandon(&self) {
        let mut core = self.lock();
        core.stopped = true;
        core.links.clear();
        core.invalidator = None;
        core.direct.iter().for_each(|direct| direct.close());
        let mut left: Vec<_> = std::mem::take(&mut core.calls).into_iter().collect();
        drop(core);
        self.changed.notify_all();
        left.sort_by_key(|(id, _)| *id);
        calls::run(left.into_iter().map(|(_, done)| (done, Err(FsError::Unavailable.into()))).collect());
    }
}

/// A thread that waits for its own calls receives.
pub struct Lead<'a> {
    shared: &'a Shared,
    incoming: Option<MutexGuard<'a, Incoming>>,
}

impl Lead<'_> {
    /// Looks for the answer for a moment without sleeping, where that has helped lately.
    fn look(&mut self, slot: &calls::Slot) {
        let Some(incoming) = &mut self.incoming else { return };
        // A call that is answered here, again and again, keeps nobody from receiving what others send.
        if slot.is_done() || !incoming.worth_a_look() {
            return;
        }
        self.shared.aside.count();
        let until = Instant::now() + receiver::LOOK;
        while !slot.is_done() && Instant::now() < until {
            let mut ready = Vec::new();
            let goes_on = incoming.glance(self.shared, &mut ready);
            calls::run(ready);
            if !goes_on {
                return;
            }
            // Whoever is to answer may need this very core.
            std::thread::yield_now();
        }
        incoming.looked(slot.is_done());
    }

    /// Waits for messages, for a moment, and takes them. Whether there is a use in doing it again.
    pub fn receive(&mut self) -> bool {
        let Some(incoming) = &mut self.incoming else { return false };
        self.shared.aside.count();
        let mut ready = Vec::new();
        let again = incoming.receive(self.shared, self.shared.next_tick(), &mut ready);
        calls::run(ready);
        self.shared.keep_time();
        again
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.shared.aside.lead(false);
        self.incoming = None;
        if !self.shared.lock().is_quiet() {
            self.shared.aside.call_back();
        }
    }
}

/// The program is to ask whether it has a subtree still.
fn doubted(doubt: Arc<AtomicBool>) {
    doubt.store(true, Ordering::Release);
}

/// Effects on others of outputs that were carried out.
#[derive(Default)]
struct Events {
    /// Somebody may wait for the progress.
    changed: bool,
    /// The receiver must look.
    wake: bool,
}

impl Core {
    /// A program has decoupled a subtree by itself: it is told here that it may have been taken from it.
    pub fn watch_subtree(&mut self, root: Ino, doubt: &Arc<AtomicBool>) {
        self.subtrees.retain(|(_, doubt)| doubt.strong_count() > 0);
        self.subtrees.push((root, Arc::downgrade(doubt)));
    }

    /// True if the receiver has nothing to do but to take messages that come unasked.
    pub fn is_quiet(&self) -> bool {
        let now = Instant::now();
        let links = || self.links.values().all(|link| link.is_quiet(now));
        self.calls.is_empty() && !self.stopped && self.made.is_empty() && links()
    }

    /// True if some message could not be sent at once.
    pub fn is_writing(&self) -> bool {
        self.links.values().any(Link::is_writing)
    }

    /// In how long the receiver is to make a connection, or to take one over; none: there is nothing to be made.
    pub fn next_due(&self) -> Option<Duration> {
        let now = Instant::now();
        let made = (!self.made.is_empty()).then_some(Duration::ZERO);
        self.links.values().filter_map(|link| link.due(now)).chain(made).min()
    }

    /// True if a connection is to be made, or to be taken over, now.
    pub fn must_connect(&self) -> bool {
        self.next_due().is_some_and(|due| due.is_zero())
    }

    /// Number of calls that are not answered.
    pub fn unanswered(&self) -> usize {
        self.calls.len()
    }

    /// Gives a call to the machine; gives the callback back if there is no use.
    fn begin(&mut self, now: Now, id: CallId, cred: Arc<Cred>, call: Call, done: Callback) -> Option<Callback> {
        if self.stopped {
            return Some(done);
        }
        self.calls.insert(id, done);
        self.machine.handle(now, Input::Call { id, cred, call });
        None
    }

    fn drain(&mut self, ready: &mut Vec<(Callback, CallResult)>) -> Events {
        let mut events = Events::default();
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Send { rank, message } => {
                    if let Some(link) = self.links.get_mut(&rank).filter(|link| link.sock.is_some()) {
                        link.outbox.push(&message);
                    }
                }
                Output::Direct { request, pieces } => {
                    if let Some(direct) = &self.direct {
                        direct.push(request, pieces);
                    }
                }
                Output::Complete { id, result } => {
                    if let Some(done) = self.calls.remove(&id) {
                        ready.push((done, result));
                    }
                }
                Output::Invalidate { token, what } => match &self.invalidator {
                    Some(invalidator) => invalidator.push(token, what),
                    // Without caches above, they have dropped it already.
                    None => self.machine.handle(Now::default(), Input::Invalidated { token }),
                },
                Output::Keep { token, fs, record, groups } => match &self.keeping {
                    Some(keeping) => keeping.keep(token, fs, record, groups),
                    None => {
                        let result = Err(FsError::NotSupported);
                        self.machine.handle(Now::default(), Input::KeepDone { token, result });
                    }
                },
                Output::KeptMerged { epoch, all } => {
                    self.keeping.iter().for_each(|keeping| keeping.merged(epoch, all));
                }
                Output::KeptLost { epoch } => self.keeping.iter().for_each(|keeping| keeping.lost(epoch)),
                Output::StageFailed { dir, stage, error } => subtree::log_failed(dir, stage, error),
                Output::Doubt { dir } => {
                    self.subtrees.retain(|(_, doubt)| doubt.strong_count() > 0);
                    let of_it = self.subtrees.iter().filter(|(root, _)| *root == dir);
                    of_it.filter_map(|(_, doubt)| doubt.upgrade()).for_each(doubted);
                }
                Output::Connect { rank, address } => {
                    let at = address.as_deref().unwrap_or("the address that was given");
                    tracing::debug!(core = ?std::ptr::from_ref(self), %rank, at, "connects");
                    self.links.entry(rank).or_default().reconnect(address);
                    events.wake = true;
                }
                Output::Disconnect { rank } => {
                    // What can be sent still is: it may be a farewell.
                    self.links.remove(&rank).iter_mut().for_each(|link| _ = link.flush());
                    events.wake = true;
                }
                Output::Ready { rank, welcome } => {
                    if !(welcome.resumed && welcome.kept) {
                        self.subtrees.iter().filter_map(|(_, doubt)| doubt.upgrade()).for_each(doubted);
                    }
                    let (speaks, session, resumed) = (welcome.rank, welcome.session, welcome.resumed);
                    tracing::debug!(core = ?std::ptr::from_ref(self), %rank, %speaks, %session, resumed, "is welcome");
                    if let Some(link) = self.links.get_mut(&rank) {
                        link.welcomed(welcome.session, self.socket.as_ref(), self.over_unix);
                    }
                    if let Some(direct) = self.direct.as_ref().filter(|_| !welcome.direct.is_empty()) {
                        direct.found(&welcome.direct);
                    }
                    if rank == self.first {
                        self.welcome = Some(welcome);
                        self.progress = Progress::Ready;
                        events.changed = true;
                    }
                }
                Output::Refused { why, text } => {
                    tracing::error!(?why, text, "the server refuses this client");
                    self.progress = Progress::Refused(why, text);
                    events.changed = true;
                }
                Output::ClockRuns { rank, runs } => {
                    let runs = match runs {
                        Runs::Faster => {
                            "faster: paths are asked for each time, without lookup leases; names and data that are cached may be taken for given back too early"
                        }
                        Runs::Slower => "slower: changes wait longer than they have to for what clients were promised",
                    };
                    tracing::warn!(%rank, "the clock of a rank runs more than a tenth {runs}. Look at the clocks of both machines (suspended, or a clock source that is none?)");
                }
                Output::Stopped => {
                    self.stopped = true;
                    self.links.values_mut().for_each(Link::stopped);
                    (events.changed, events.wake) = (true, true);
                }
            }
        }
        events
    }

    /// Writes what can be written. Whether the receiver must go on with it.
    pub fn flush(&mut self) -> bool {
        self.links.values_mut().fold(false, |more, link| link.flush() | more)
    }
}
