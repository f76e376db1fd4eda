//! The receiving side of a client: the thread that makes connections, keeps time and receives, and the threads that
//! receive in its stead while they wait for their own calls.
//!
//! A program that makes one call at a time would wait for two threads to wake, the receiver and itself. So a thread that
//! waits receives itself if it can, and the receiver steps aside for as long as such calls go on: it looks every few
//! milliseconds whether they still do, and is called back at once when somebody else needs it.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loligo_client::Input;
use loligo_types::msg::ToClient;
use loligo_wire::{Decoder, FromServer};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::CallResult;
use super::calls::{self, Callback};
use super::core::Shared;
use crate::Address;
use crate::sock::Sock;

/// How often the machine is told the time.
pub const TICK: Duration = Duration::from_millis(50);
/// Longest pause between two attempts to connect.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Messages taken in one go, so that their callbacks do not wait for the whole stream.
const MESSAGES_MAX: usize = 256;
/// How long the receiver stays aside after the last call of a thread that received itself.
const ASIDE: Duration = Duration::from_millis(2);

/// How long a thread that waits for its own call looks for the answer before it sleeps: being woken takes as long as a
/// server in memory takes to answer, a sync takes much longer.
pub const LOOK: Duration = Duration::from_micros(25);
/// After so many looks in vain it is tried only now and then.
const VAIN_MAX: u32 = 4;
/// How often, then: every so many calls.
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

/// What the receiver and the threads that receive in its stead tell each other.
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
        self.count();
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
            core.unanswered() > led || core.is_writing() && led == 0 || core.want_connect || core.stopped
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

/// The connection as a receiver sees it.
#[derive(Default)]
pub struct Incoming {
    connection: Option<(Arc<Sock>, Decoder<FromServer>)>,
    /// Attempts to connect since the last message came.
    attempts: u32,
    /// Looks in vain since one helped, and calls that were not worth one.
    vain: u32,
}

impl Incoming {
    /// Waits for the socket, at most this long, and takes what came; the callbacks for it are to be run. Whether there is
    /// still a connection to wait on.
    pub fn receive(&mut self, shared: &Shared, limit: Duration, ready: &mut Ready) -> bool {
        let Some((sock, _)) = &self.connection else { return false };
        let sock = Arc::clone(sock);
        let writing = {
            let core = shared.lock();
            if core.want_connect || core.stopped {
                return false;
            }
            core.is_writing()
        };
        let interest = if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&*sock, interest), PollFd::from_borrowed_fd(shared.waker.as_fd(), PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&timespec(limit))).is_err() {
            return true;
        }
        let (socket, wake) = (fds[0].revents(), fds[1].revents());
        if !wake.is_empty() {
            shared.waker.clear();
        }
        if socket.contains(PollFlags::OUT) {
            shared.lock().flush();
        }
        if socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.read(shared, &sock, ready) {
            self.lost(shared);
            return false;
        }
        true
    }

    /// Whether a thread that waits for its own call should look for the answer before it sleeps.
    pub fn worth_a_look(&mut self) -> bool {
        self.vain < VAIN_MAX || {
            self.vain += 1;
            self.vain.is_multiple_of(TRY_AGAIN)
        }
    }

    /// How looking went.
    pub fn looked(&mut self, helped: bool) {
        self.vain = if helped { 0 } else { self.vain.saturating_add(1) };
    }

    /// Takes what came, if anything did. Whether there is still a connection to wait on, and nothing else to do for it.
    pub fn glance(&mut self, shared: &Shared, ready: &mut Ready) -> bool {
        let Some((sock, _)) = &self.connection else { return false };
        let sock = Arc::clone(sock);
        {
            let core = shared.lock();
            if core.want_connect || core.stopped || core.is_writing() {
                return false;
            }
        }
        let lives = self.read(shared, &sock, ready);
        if !lives {
            self.lost(shared);
        }
        lives
    }

    /// Reads what is there and gives it to the machine. Whether the connection lives.
    fn read(&mut self, shared: &Shared, sock: &Sock, ready: &mut Ready) -> bool {
        let Some((_, decoder)) = &mut self.connection else { return true };
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
                    alive = decode(decoder, &mut inputs);
                    if n < room {
                        break;
                    }
                }
            }
        }
        if !inputs.is_empty() {
            self.attempts = 0;
            ready.extend(shared.take_in(inputs));
        }
        alive
    }

    fn lost(&mut self, shared: &Shared) {
        self.connection = None;
        shared.lock().sock = None;
        shared.feed(Input::Disconnected);
    }
}

struct Receiver {
    shared: Arc<Shared>,
    /// There was a connection once.
    ever: bool,
    ticked: Instant,
    /// Calls of waiting threads that were seen.
    seen: u64,
}

impl Receiver {
    fn new(shared: Arc<Shared>) -> Receiver {
        Receiver { shared, ever: false, ticked: Instant::now(), seen: 0 }
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
                if incoming.connection.is_none() {
                    self.connect(incoming);
                } else {
                    let mut ready = Ready::new();
                    incoming.receive(&shared, TICK.saturating_sub(self.ticked.elapsed()), &mut ready);
                    // Before their callbacks run: the next call of a thread that is woken by one finds the way free.
                    drop(incoming);
                    calls::run(ready);
                }
            }
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                shared.feed(Input::Tick);
            }
        }
    }

    /// Does what the machine said about the connection.
    fn follow(&self, incoming: &mut Incoming) {
        let mut core = self.shared.lock();
        if std::mem::take(&mut core.want_connect) {
            incoming.connection = None;
        }
    }

    fn connect(&mut self, mut incoming: MutexGuard<'_, Incoming>) {
        if incoming.attempts > 0 {
            let pause = Duration::from_millis(10 << incoming.attempts.min(10)).min(PAUSE_MAX);
            self.pause(pause);
            if self.shared.lock().stopped {
                return;
            }
        }
        incoming.attempts = incoming.attempts.saturating_add(1);
        let connected = match &self.shared.address {
            Address::Pair(_) if self.ever => Err(io::Error::other("the server in this process is gone")),
            address => Sock::connect(address),
        };
        match connected {
            Ok(sock) => {
                self.ever = true;
                let sock = Arc::new(sock);
                incoming.connection = Some((Arc::clone(&sock), Decoder::new()));
                {
                    let mut core = self.shared.lock();
                    core.want_connect = false;
                    core.sock = Some(sock);
                    core.outbox.clear();
                }
                self.shared.feed(Input::Connected);
            }
            Err(error) => {
                if !self.ever {
                    self.shared.first_connect_failed(error);
                }
                incoming.lost(&self.shared);
            }
        }
    }

    /// Waits without a connection.
    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let mut fds = [PollFd::new(&self.shared.waker, PollFlags::IN)];
            let _ = rustix::event::poll(&mut fds, Some(&timespec(left.min(TICK))));
            self.shared.waker.clear();
            self.shared.feed(Input::Tick);
            if self.shared.lock().stopped {
                return;
            }
        }
    }
}

/// Takes the whole messages out. Whether the bytes made sense.
fn decode(decoder: &mut Decoder<FromServer>, inputs: &mut Vec<Input>) -> bool {
    loop {
        match decoder.next_message() {
            Ok(Some(msg)) => {
                if matches!(msg, ToClient::Welcome(_)) {
                    decoder.handshake_done();
                }
                inputs.push(Input::Message(msg));
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
