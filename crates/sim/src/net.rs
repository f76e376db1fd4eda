//! Connections: each is two ordered streams that deliver late, stall, or end early and lose what was under way. Nothing is
//! doubled or reordered within one; that happens when clients come back over a new one.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::Rank;
use loligo_types::msg::{ToClient, ToServer};

use crate::rng::Rng;

/// One direction.
#[derive(Debug)]
pub struct Stream<M> {
    queue: VecDeque<(u64, M)>,
    last: u64,
    /// Nothing more is taken.
    pub closed: bool,
}

impl<M> Default for Stream<M> {
    fn default() -> Stream<M> {
        Stream { queue: VecDeque::new(), last: 0, closed: false }
    }
}

impl<M> Stream<M> {
    /// Puts a message in; when it arrives.
    pub fn push(&mut self, at: u64, msg: M) -> Option<u64> {
        if self.closed {
            return None;
        }
        self.last = self.last.max(at);
        self.queue.push_back((self.last, msg));
        Some(self.last)
    }

    /// The next message, if it is due.
    pub fn pop(&mut self, now: u64) -> Option<M> {
        let (at, _) = self.queue.front()?;
        if *at > now {
            return None;
        }
        self.queue.pop_front().map(|(_, msg)| msg)
    }

    /// Loses a random rest; when the last that is left arrives.
    pub fn cut(&mut self, rng: &mut Rng, now: u64) -> u64 {
        self.closed = true;
        let keep = rng.below(self.queue.len() as u64 + 1) as usize;
        self.queue.truncate(keep);
        self.queue.back().map_or(now, |(at, _)| (*at).max(now))
    }

    /// Messages under way.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// When the last message arrives.
    pub fn end(&mut self, now: u64) -> u64 {
        self.closed = true;
        self.last.max(now)
    }

    /// Loses everything.
    pub fn drop_all(&mut self) {
        self.closed = true;
        self.queue.clear();
    }

    /// Nothing arrives before this.
    pub fn stall(&mut self, until: u64) {
        for (at, _) in &mut self.queue {
            *at = (*at).max(until);
        }
        self.last = self.last.max(until);
    }
}

/// A connection.
#[derive(Debug, Default)]
pub struct Conn {
    pub node: usize,
    pub node_life: u64,
    /// The client's number of it.
    pub number: Rank,
    /// The rank at the other end.
    pub rank: usize,
    pub server_life: u64,
    pub up: Stream<ToServer>,
    pub down: Stream<ToClient>,
    /// The server was told that it is gone.
    pub gone_up: bool,
    /// The client was told.
    pub gone_down: bool,
    /// For [`crate::Canary::SessionForgotten`].
    pub pretends: bool,
    /// When it was made, microseconds.
    pub since: u64,
    /// The client was told that there is no session.
    pub refused: bool,
}

/// All connections that still matter.
#[derive(Debug, Default)]
pub struct Net {
    pub conns: BTreeMap<u64, Conn>,
    pub next: u64,
}

impl Net {
    /// Forgets those that both ends know to be gone.
    pub fn tidy(&mut self) {
        self.conns.retain(|_, conn| !(conn.gone_up && conn.gone_down));
    }
}
