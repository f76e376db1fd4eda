//! The thread that makes connections, receives, keeps time, and writes what did not fit into the socket at once.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use loligo_client::Input;
use loligo_types::msg::ToClient;
use loligo_wire::{Decoder, FromServer};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::core::Shared;
use crate::Address;
use crate::sock::Sock;

/// How often the machine is told the time.
const TICK: Duration = Duration::from_millis(50);
/// Longest pause between two attempts to connect.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Messages taken in one go, so that their callbacks do not wait for the whole stream.
const MESSAGES_MAX: usize = 256;

/// Starts it.
pub fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name("lol-client".into()).spawn(move || {
        let mut receiver = Receiver::new(shared);
        receiver.run();
        receiver.shared.abandon();
    })?;
    Ok(())
}

struct Receiver {
    shared: Arc<Shared>,
    connection: Option<(Arc<Sock>, Decoder<FromServer>)>,
    /// Attempts to connect since the last message came.
    attempts: u32,
    ever: bool,
    ticked: Instant,
}

impl Receiver {
    fn new(shared: Arc<Shared>) -> Receiver {
        Receiver { shared, connection: None, attempts: 0, ever: false, ticked: Instant::now() }
    }

    fn run(&mut self) {
        loop {
            if self.follow() {
                return;
            }
            if self.connection.is_none() {
                self.connect();
            } else {
                self.receive();
            }
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                self.shared.feed(Input::Tick);
            }
        }
    }

    /// Sees what others decided. Whether it is over.
    fn follow(&mut self) -> bool {
        let mut core = self.shared.lock();
        if core.stopped {
            core.flush();
            return true;
        }
        if core.want_connect {
            core.want_connect = false;
            self.connection = None;
        }
        false
    }

    fn connect(&mut self) {
        if self.attempts > 0 {
            let pause = Duration::from_millis(10 << self.attempts.min(10)).min(PAUSE_MAX);
            self.pause(pause);
            if self.shared.lock().stopped {
                return;
            }
        }
        self.attempts = self.attempts.saturating_add(1);
        let connected = match &self.shared.address {
            Address::Pair(_) if self.ever => Err(io::Error::other("the server in this process is gone")),
            address => Sock::connect(address),
        };
        match connected {
            Ok(sock) => {
                self.ever = true;
                let sock = Arc::new(sock);
                self.connection = Some((Arc::clone(&sock), Decoder::new()));
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
                self.lost();
            }
        }
    }

    fn lost(&mut self) {
        self.connection = None;
        self.shared.lock().sock = None;
        self.shared.feed(Input::Disconnected);
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

    /// Waits for the socket, at most until the next tick, and takes what came.
    fn receive(&mut self) {
        let Some((sock, _)) = &self.connection else { return };
        let sock = Arc::clone(sock);
        let writing = !self.shared.lock().outbox.is_empty();
        let interest = if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let waker = self.shared.waker.clone();
        let mut fds = [PollFd::new(&*sock, interest), PollFd::from_borrowed_fd(waker.as_fd(), PollFlags::IN)];
        let left = TICK.saturating_sub(self.ticked.elapsed());
        if rustix::event::poll(&mut fds, Some(&timespec(left))).is_err() {
            return;
        }
        let (socket, wake) = (fds[0].revents(), fds[1].revents());
        if !wake.is_empty() {
            waker.clear();
        }
        if socket.contains(PollFlags::OUT) {
            self.shared.lock().flush();
        }
        if socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !self.read(&sock) {
            self.lost();
        }
    }

    /// Reads what is there and gives it to the machine. Whether the connection lives.
    fn read(&mut self, sock: &Sock) -> bool {
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
            self.shared.feed_all(inputs);
        }
        alive
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
