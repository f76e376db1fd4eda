//! The connection to one rank, as those who send see it. What comes over it is the receiver's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_types::SessionId;

use super::outbox::Outbox;
use crate::Address;
use crate::alive::Alive;
use crate::sock::Sock;

/// One connection, or the wish for one.
#[derive(Default)]
pub struct Link {
    /// While there is one.
    pub sock: Option<Arc<Sock>>,
    pub outbox: Outbox,
    /// The machine asked for a (new) connection.
    pub want_connect: bool,
    /// A thread is making it.
    pub connecting: bool,
    /// It was tried in vain: not again before.
    pub not_before: Option<Instant>,
    /// Where, as the cluster map says; `None`: at the client's own address.
    pub address: Option<String>,
    session: Option<SessionId>,
    /// Tells a server that starts again that this process lives.
    alive: Option<Alive>,
}

impl Link {
    /// One that is to be made to the client's own address.
    pub fn first() -> Link {
        Link { want_connect: true, ..Link::default() }
    }

    /// The connection is to be made anew. What can be sent over the old one still is: it may be a farewell.
    pub fn reconnect(&mut self, address: Option<String>) {
        self.flush();
        (self.sock, self.want_connect, self.address) = (None, true, address);
        self.outbox.clear();
    }

    /// A connection was made.
    pub fn connected(&mut self, sock: Arc<Sock>) {
        (self.sock, self.want_connect, self.not_before) = (Some(sock), false, None);
        self.outbox.clear();
    }

    /// In how long a connection is to be made; none: there is none to be made.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        let wanted = self.want_connect && !self.connecting;
        wanted.then(|| self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now)))
    }

    /// Nothing is to be done for it now but what may come unasked.
    pub fn is_quiet(&self, now: Instant) -> bool {
        let waits = self.connecting || self.due(now).is_some_and(|due| !due.is_zero());
        !self.is_writing() && (waits || !self.want_connect && self.sock.is_some())
    }

    /// A session was begun or resumed over it; `first`: where the client's own address leads, `over_unix`: it uses the Unix
    /// sockets of the others.
    pub fn welcomed(&mut self, session: SessionId, first: Option<&PathBuf>, over_unix: bool) {
        if self.session == Some(session) {
            return;
        }
        self.session = Some(session);
        let address: Option<Address> = self.address.as_ref().and_then(|text| text.parse().ok());
        let unix = |address: &Address| match address {
            Address::Unix(path) => Some(path.clone()),
            Address::Tcp(_) | Address::Any(_) | Address::Pair(_) => None,
        };
        let socket = match &address {
            Some(address) => address.each().iter().find_map(unix).filter(|_| over_unix),
            None => first.cloned(),
        };
        self.alive = socket.and_then(|at| Alive::hold(&at, session));
    }

    /// True if some bytes could not be sent at once.
    pub fn is_writing(&self) -> bool {
        !self.outbox.is_empty() || self.sock.as_ref().is_some_and(|sock| sock.is_writing())
    }

    /// Writes what can be written. Whether the receiver must go on with it.
    pub fn flush(&mut self) -> bool {
        if !self.is_writing() {
            return false;
        }
        let Some(sock) = &self.sock else {
            self.outbox.clear();
            return false;
        };
        match self.outbox.write(sock) {
            Ok(all) => !all,
            // The receiver sees the end of the connection when it reads.
            Err(_) => {
                self.outbox.clear();
                false
            }
        }
    }

    /// The session has ended.
    pub fn stopped(&mut self) {
        self.alive = None;
    }
}
