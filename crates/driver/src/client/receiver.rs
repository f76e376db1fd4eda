//! The receiving side of a client: the thread that makes connections, keeps time and receives, and the threads that
//! receive in its stead while they wait for their own calls.
//!
//! A program that makes one call at a time would wait for two threads to wake, the receiver and itself. So a thread that
//! waits receives itself if it can, and the receiver steps aside for as long as such calls go on: it looks every few
//! milliseconds whether they still do, and is called back at once when somebody else needs it. Whoever receives keeps time: a call may
//! wait for what happens only because time goes on, and the receiver for that very call.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loligo_client::Input;
use loligo_types::Rank;
use loligo_types::msg::ToClient;
use loligo_wire::{Decoder, FromServer};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::CallResult;
use super::calls::{self, Callback};
use super::core::{Core, Shared};
use super::link::Link;
use crate::Address;
use crate::sock::Sock;

/// Interval at which the machine is told the time.
pub const TICK: Duration = Duration::from_millis(50);
/// Longest pause between two attempts to connect.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Messages taken in one go, so that their callbacks do not wait for the whole stream.
const MESSAGES_MAX: usize = 256;
/// Time for which the receiver stays aside after the last call of a thread that received itself.
const ASIDE: Duration = Duration::from_millis(2);

/// Time for which a thread that waits for its own call polls for the answer before it sleeps: being woken takes as long as a server in
/// memory takes to answer; a sync takes much longer.
pub const LOOK: Duration = Duration::from_micros(25);
/// After so many looks in vain it is tried only now and then.
const VAIN_MAX: u32 = 4;
/// Number of calls after which polling is tried again.
const TRY_AGAIN: u32 = 64;

/// Starts the thread.
pub fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name("lol-client".into()).spawn(move || {
        let _last = Last(Arc::clone(&shared));
        Receiver::new(shared).run();
    })?;
    Ok(())
}

/// However the thread ends, nobody waits for it any more.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// State shared by the receiver and the threads that receive in its stead.
#[derive(Default)]
pub struct Aside {
    /// The receiver is aside.
    is: AtomicBool,
    /// A thread receives in its stead.
    led: AtomicBool,
    /// Calls of threads that wait, so far.
    calls: AtomicU64,
    lock: Mutex<()>,
    back: Condvar,
}

impl Aside {
    /// A thread that waits makes a call.
    pub fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread begins or ends to receive in the receiver's stead.
    pub fn lead(&self, leads: bool) {
        self.led.store(leads, Ordering::SeqCst);
    }

    /// The receiver is needed, if nobody receives in its stead.
    pub fn call_back(&self) {
        if self.is.load(Ordering::SeqCst) && !self.led.load(Ordering::SeqCst) {
            let _order = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.back.notify_all();
        }
    }

    /// Waits aside for a moment, if threads that wait have made calls since `seen` and nobody else waits for anything.
    fn step(&self, seen: &mut u64, shared: &Shared) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls == *seen && !self.led.load(Ordering::SeqCst) {
            return false;
        }
        *seen = calls;
        let order = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is.store(true, Ordering::SeqCst);
        let others = {
            let core = shared.lock();
            let led = usize::from(self.led.load(Ordering::SeqCst));
            core.unanswered() > led || core.is_writing() && led == 0 || core.must_connect() || core.stopped
        };
        if !others {
            drop(self.back.wait_timeout(order, ASIDE));
        }
        self.is.store(false, Ordering::SeqCst);
        !others
    }
}

/// Callbacks whose results came.
type Ready = Vec<(Callback, CallResult)>;

/// A connection as a receiver sees it.
struct Connection {
    rank: Rank,
    sock: Arc<Sock>,
    decoder: Decoder<FromServer>,
}

/// When to try again after so many attempts.
fn next_attempt(attempts: u32) -> Option<Instant> {
    let pause = Duration::from_millis(10 << attempts.min(10)).min(PAUSE_MAX);
    (attempts > 0).then(|| Instant::now() + pause)
}

/// The connections as a receiver sees them.
#[derive(Default)]
pub struct Incoming {
    connections: Vec<Connection>,
    /// Attempts to connect since the last message came.
    attempts: BTreeMap<Rank, u32>,
    /// Looks in vain since one helped, and calls that were not worth one.
    vain: u32,
}

impl Incoming {
    /// Waits for the sockets, at most this long, and takes what came; the callbacks for it are to be run. Whether there
    /// is still a connection to wait on, and none to be made. Who calls it over and over keeps time, too ([`Shared::keep_time`]).
    pub fn receive(&mut self, shared: &Shared, limit: Duration, ready: &mut Ready) -> bool {
        if self.connections.is_empty() {
            return false;
        }
        let socks: Vec<_> = self.connections.iter().map(|c| (c.rank, Arc::clone(&c.sock))).collect();
        let mut fds = Vec::with_capacity(socks.len() + 1);
        {
            let core = shared.lock();
            if core.stopped || core.must_connect() || self.is_outdated(&core) {
                return false;
            }
            for (rank, sock) in &socks {
                let writing = core.links.get(rank).is_some_and(Link::is_writing);
                let interest = if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::new(&**sock, interest));
            }
        }
        fds.push(PollFd::from_borrowed_fd(shared.waker.as_fd(), PollFlags::IN));
        // What TLS has taken from a socket, that does not tell of.
        let held: Vec<bool> = socks.iter().map(|(_, sock)| sock.holds()).collect();
        let limit = if held.contains(&true) { Duration::ZERO } else { limit };
        if rustix::event::poll(&mut fds, Some(&timespec(limit))).is_err() {
            return true;
        }
        if fds.last().is_some_and(|waker| !waker.revents().is_empty()) {
            shared.waker.clear();
        }
        if fds.iter().any(|fd| fd.revents().contains(PollFlags::OUT)) {
            shared.lock().flush();
        }
        let mut lives = true;
        for (((rank, _), fd), held) in socks.iter().zip(&fds).zip(held) {
            if (held || fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
                && !self.read(shared, *rank, ready)
            {
                self.lost(shared, *rank);
                lives = false;
            }
        }
        lives
    }

    /// True if the machine has given up one of the connections.
    fn is_outdated(&self, core: &Core) -> bool {
        let gone = |rank| core.links.get(rank).is_none_or(|link| link.want_connect);
        self.connections.iter().any(|connection| gone(&connection.rank))
    }

    /// True if a thread that waits for its own call should poll for the answer before it sleeps.
    pub fn worth_a_look(&mut self) -> bool {
        self.vain < VAIN_MAX || {
            self.vain += 1;
            self.vain.is_multiple_of(TRY_AGAIN)
        }
    }

    /// Records whether polling helped.
    pub fn looked(&mut self, helped: bool) {
        self.vain = if helped { 0 } else { self.vain.saturating_add(1) };
    }

    /// Takes what came, if anything did. Whether there is still a connection to wait on, and nothing else to do for it.
    pub fn glance(&mut self, shared: &Shared, ready: &mut Ready) -> bool {
        {
            let core = shared.lock();
            let other = core.stopped || core.is_writing() || core.must_connect();
            if other || self.connections.is_empty() || self.is_outdated(&core) {
                return false;
            }
        }
        let mut lives = true;
        for at in (0..self.connections.len()).rev() {
            let rank = self.connections[at].rank;
            if !self.read(shared, rank, ready) {
                self.lost(shared, rank);
                lives = false;
            }
        }
        lives
    }

    /// Reads what is there and gives it to the machine. Whether the connection lives.
    fn read(&mut self, shared: &Shared, rank: Rank, ready: &mut Ready) -> bool {
        let Some(Connection { sock, decoder, .. }) = self.connections.iter_mut().find(|c| c.rank == rank) else {
            return true;
        };
        let mut alive = true;
        let mut inputs = Vec::new();
        while alive && inputs.len() < MESSAGES_MAX {
            let space = decoder.space();
            let room = space.len();
            match sock.read(space) {
                Ok(Some(0)) | Err(_) => alive = false,
                Ok(None) => break,
                Ok(Some(n)) => {
                    decoder.filled(n);
                    alive = decode(rank, decoder, &mut inputs);
                    if n < room && !sock.holds() {
                        break;
                    }
                }
            }
        }
        if !inputs.is_empty() {
            // Who only tells where ranks are is not the one that is sought.
            let is_it = inputs.iter().any(|input| !matches!(input, Input::Message { message: ToClient::Map(_), .. }));
            ready.extend(shared.take_in(inputs));
            if is_it && !shared.lock().links.get(&rank).is_some_and(|link| link.want_connect) {
                self.attempts.remove(&rank);
            }
        }
        alive
    }

    fn lost(&mut self, shared: &Shared, rank: Rank) {
        self.connections.retain(|connection| connection.rank != rank);
        if let Some(link) = shared.lock().links.get_mut(&rank) {
            link.sock = None;
            link.not_before = next_attempt(self.attempts.get(&rank).copied().unwrap_or(0));
        }
        shared.feed(Input::Disconnected { rank });
    }

    /// A connection was made, or could not be.
    fn made(&mut self, shared: &Shared, rank: Rank, result: io::Result<Sock>) {
        let sock = match result {
            Ok(sock) => Arc::new(sock),
            Err(error) => {
                tracing::debug!(%rank, %error, "no connection could be made");
                return self.lost(shared, rank);
            }
        };
        match shared.lock().links.get_mut(&rank) {
            Some(link) if link.want_connect => link.connected(Arc::clone(&sock)),
            // Nobody wants it any more.
            _ => return,
        }
        self.connections.push(Connection { rank, sock, decoder: Decoder::new() });
        shared.feed(Input::Connected { rank });
    }
}

struct Receiver {
    shared: Arc<Shared>,
    /// There was a connection once.
    ever: bool,
    /// Calls of waiting threads that were seen.
    seen: u64,
}

impl Receiver {
    fn new(shared: Arc<Shared>) -> Receiver {
        Receiver { shared, ever: false, seen: 0 }
    }

    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            {
                let mut core = shared.lock();
                if core.stopped {
                    core.flush();
                    return;
                }
            }
            if !shared.aside.step(&mut self.seen, &shared) {
                let mut incoming = shared.incoming.lock().unwrap_or_else(PoisonError::into_inner);
                self.follow(&mut incoming);
                self.connect(&mut incoming);
                let due = shared.lock().next_due().unwrap_or(TICK);
                let limit = shared.next_tick().min(due);
                if incoming.connections.is_empty() {
                    drop(incoming);
                    self.pause(limit);
                } else {
                    let mut ready = Ready::new();
                    incoming.receive(&shared, limit, &mut ready);
                    // Before their callbacks run: the next call of a thread that is woken by one finds the way free.
                    drop(incoming);
                    calls::run(ready);
                }
            }
            shared.keep_time();
        }
    }

    /// Does what the machine said about connections, and takes over those that were made.
    fn follow(&self, incoming: &mut Incoming) {
        let made = {
            let mut core = self.shared.lock();
            let links = &mut core.links;
            let attempts = &mut incoming.attempts;
            incoming.connections.retain(|Connection { rank, .. }| match links.get_mut(rank) {
                Some(link) if link.want_connect => {
                    link.not_before = next_attempt(attempts.get(rank).copied().unwrap_or(0));
                    false
                }
                link => link.is_some(),
            });
            attempts.retain(|rank, _| links.contains_key(rank));
            let made = std::mem::take(&mut core.made);
            for (rank, _) in &made {
                if let Some(link) = core.links.get_mut(rank) {
                    link.connecting = false;
                }
            }
            made
        };
        for (rank, result) in made {
            incoming.made(&self.shared, rank, result);
        }
    }

    /// Makes the connections whose time has come.
    fn connect(&mut self, incoming: &mut Incoming) {
        let now = Instant::now();
        let mut wanted = Vec::new();
        for (rank, link) in &self.shared.lock().links {
            if link.due(now).is_some_and(|due| due.is_zero()) {
                let attempts = incoming.attempts.entry(*rank).or_default();
                *attempts = attempts.saturating_add(1);
                wanted.push((*rank, link.address.clone()));
            }
        }
        for (rank, address) in wanted {
            let Some(address) = self.address(&address) else {
                tracing::warn!(%rank, ?address, "the address of a rank in the cluster map makes no sense; is it of a newer release?");
                incoming.lost(&self.shared, rank);
                continue;
            };
            if incoming.connections.is_empty() {
                self.connect_here(incoming, rank, &address);
            } else {
                self.connect_beside(incoming, rank, address);
            }
        }
    }

    /// Where to: as the cluster map says, or as this client was told.
    fn address(&self, address: &Option<String>) -> Option<Address> {
        let own = &self.shared.address;
        let Some(text) = address else { return Some(own.clone()) };
        Some(text.parse::<Address>().ok()?.reached_as(own, self.shared.identity.is_some()))
    }

    /// Connects: there is nobody else to listen to.
    fn connect_here(&mut self, incoming: &mut Incoming, rank: Rank, address: &Address) {
        let first = rank == self.shared.first;
        let mut connected = match address {
            Address::Pair(_) if self.ever => Err(io::Error::other("the server in this process is gone")),
            address => connect(&self.shared, address),
        };
        if first && !self.ever {
            match connected {
                Ok(_) => self.ever = true,
                Err(error) => {
                    let kind = error.kind();
                    self.shared.first_connect_failed(error);
                    connected = Err(kind.into());
                }
            }
        }
        incoming.made(&self.shared, rank, connected);
    }

    /// Connects on a thread of its own: what others send must not wait for a rank that is not there.
    fn connect_beside(&self, incoming: &mut Incoming, rank: Rank, address: Address) {
        if let Some(link) = self.shared.lock().links.get_mut(&rank) {
            link.connecting = true;
        }
        if let (Address::Pair(_), true) = (&address, self.ever) {
            return self.connected_beside(rank, Err(io::Error::other("the server in this process is gone")));
        }
        let shared = Arc::downgrade(&self.shared);
        let made = thread::Builder::new().name("lol-connect".into()).spawn(move || {
            let connected = match shared.upgrade() {
                Some(shared) => connect(&shared, &address),
                None => return,
            };
            if let Some(shared) = shared.upgrade() {
                shared.lock().made.push((rank, connected));
                shared.waker.wake();
                shared.aside.call_back();
            }
        });
        if let Err(error) = made {
            if let Some(link) = self.shared.lock().links.get_mut(&rank) {
                link.connecting = false;
            }
            incoming.made(&self.shared, rank, Err(error));
        }
    }

    fn connected_beside(&self, rank: Rank, connected: io::Result<Sock>) {
        self.shared.lock().made.push((rank, connected));
        self.shared.waker.wake();
    }

    /// Waits without a connection.
    fn pause(&self, pause: Duration) {
        let mut fds = [PollFd::new(&self.shared.waker, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Some(&timespec(pause)));
        self.shared.waker.clear();
    }
}

/// Connects; of the several addresses that this client was given to the first that takes the connection, and the next time to another one
/// first: one that takes it may still say nothing.
fn connect(shared: &Shared, address: &Address) -> io::Result<Sock> {
    let identity = shared.identity.as_ref();
    match (address, &shared.address) {
        (Address::Any(all), Address::Any(own)) if Arc::ptr_eq(all, own) => {
            let mut all: Vec<&Address> = all.iter().collect();
            let len = all.len();
            let begin = shared.turn.load(Ordering::Relaxed) % len;
            all.rotate_left(begin);
            let (at, sock) = Sock::connect_any(&all, identity)?;
            shared.turn.store((begin + at + 1) % len, Ordering::Relaxed);
            Ok(sock)
        }
        // Where a rank is, by several ways: the first is the best.
        _ => Sock::connect(address, identity),
    }
}

/// Takes the whole messages out. Whether the bytes made sense.
fn decode(rank: Rank, decoder: &mut Decoder<FromServer>, inputs: &mut Vec<Input>) -> bool {
    loop {
        match decoder.next_message() {
            Ok(Some(msg)) => {
                if matches!(msg, ToClient::Welcome(_)) {
                    decoder.handshake_done();
                }
                inputs.push(Input::Message { rank, message: msg });
            }
            Ok(None) => return true,
            Err(error) => {
                tracing::warn!(%error, "a message of the server makes no sense; the connection is made anew");
                return false;
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
