//! Admission of the rank's connections: room by kind of peer, the peer that makes room, and the log lines. Not here: messages over a
//! connection (`sockets.rs`).

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use loligo_mds::{ConnId, Identity};
use loligo_types::SessionId;
use loligo_types::msg::{Refusal, ToClient};
use rustix::event::epoll;

use super::super::conn::{Conn, Stage};
use super::super::rarely::Rarely;
use super::super::slots::Kind;
use super::{Rank, TOKEN_DOOR, TOKEN_LISTENERS};
use crate::sock::Sock;

/// Steps of handshakes in one round of the loop.
pub(super) const GREETS_A_ROUND: usize = 4;

/// Lines of the log that peers cause, by kind.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) malformed: Rarely,
    pub(super) slow: Rarely,
    full: Rarely,
    unheard: Rarely,
    came: Rarely,
    went: Rarely,
}

impl Rank {
    /// Takes a connection over TCP, whose other end shows later who it is. If there are as many as may be, an old one makes room.
    pub(super) fn greet_later(&mut self, sock: Sock, trusted: bool) {
        let host = sock.peer_host();
        if self.half_open.len() >= self.limits.connections.room(Kind::HalfOpen) {
            self.make_room();
        }
        let Some(id) = self.take(sock, Some(Kind::HalfOpen)) else { return };
        self.half_open.insert(id);
        if let Some(conn) = self.conns.get_mut(&id) {
            (conn.stage, conn.trusted, conn.host) = (Stage::New, trusted, host);
        }
    }

    /// Closes the oldest connection that has not shown who it is, of the host that has most of them: who floods the server makes room for
    /// the others.
    fn make_room(&mut self) {
        let host = |id: &u64| self.conns.get(id).and_then(|conn| conn.host);
        let Some(oldest) = oldest_of_most(&self.half_open, host) else { return };
        if let Some(more) = self.lines.full.may_say(self.now) {
            let (count, kind) = (self.half_open.len(), Kind::HalfOpen.words());
            let host = host(&oldest).map_or("an unknown host".to_owned(), |host| host.to_string());
            tracing::warn!("there are {count} {kind}: the oldest, from {host}, makes room{more}");
        }
        self.metrics.dropped.add(1);
        self.gone(oldest);
    }

    /// A connection there is no room for. Over a Unix socket it is told so; over TCP the other end may expect TLS, and nothing else is said.
    pub(super) fn turn_away(&mut self, mut conn: Conn, kind: Kind, is_scarce: bool) {
        self.metrics.refused.add(1);
        let why = match is_scarce {
            true => "the server has as many files open as it may".to_owned(),
            false => {
                format!("the server has {} {}, which is its limit", self.limits.connections.room(kind), kind.words())
            }
        };
        if let Some(more) = self.lines.full.may_say(self.now) {
            tracing::warn!("a connection is refused: {why}{more}");
        }
        if kind == Kind::Unix {
            let text = format!("{why}; try again later");
            conn.send(&ToClient::Refused { why: Refusal::TooMany, text }, self.now);
            let _ = conn.flush(self.now);
        }
    }

    /// A connection over TCP counts among those that may come in from now on; or why not.
    pub(super) fn let_in(&mut self, id: u64, identity: Option<&Arc<Identity>>) -> Result<(), (Refusal, String)> {
        let room = self.limits.connections.room(Kind::Network);
        if let Some(identity) = identity {
            let is_same = |conn: &&Conn| conn.identity.as_ref().is_some_and(|other| other.key == identity.key);
            let count = self.conns.values().filter(is_same).count();
            if count >= room.div_ceil(2) {
                let text =
                    format!("this identity has {count} connections here, the most one may have; try again later");
                return Err((Refusal::TooMany, text));
            }
        }
        let Some(slot) = self.conns.get_mut(&id).and_then(|conn| conn.slot.as_mut()) else { return Ok(()) };
        if !slot.turn_into(Kind::Network) {
            self.metrics.refused.add(1);
            let text = format!("the server has {room} connections over TCP, which is its limit; try again later");
            return Err((Refusal::TooMany, text));
        }
        self.half_open.remove(&id);
        Ok(())
    }

    /// No connection can be taken just now, as there is no descriptor for it: the listeners are not asked again before the next tick, as they
    /// would be ready all the time.
    pub(super) fn rest(&mut self, error: &std::io::Error) {
        if let Some(more) = self.lines.unheard.may_say(self.now) {
            tracing::warn!(
                "a connection cannot be accepted now, which is tried again: {error}; if that stays so, raise the limit of open files \
                 (ulimit -n){more}"
            );
        }
        if !self.half_open.is_empty() {
            self.make_room();
        }
        self.is_resting = true;
        self.listen_for(epoll::EventFlags::empty());
    }

    /// Listens again.
    pub(super) fn wake_listeners(&mut self) {
        if std::mem::take(&mut self.is_resting) {
            self.listen_for(epoll::EventFlags::IN);
        }
    }

    fn listen_for(&self, what: epoll::EventFlags) {
        for (listeners, first) in [(&self.listeners, TOKEN_LISTENERS), (&self.door, TOKEN_DOOR)] {
            for (at, listener) in listeners.sockets.iter().enumerate() {
                // It fails for none that is watched.
                let _ = epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(first + at as u64), what);
            }
        }
    }

    /// A connection speaks for a session from now on. The log says when identities come.
    pub(super) fn bound(&mut self, id: ConnId, session: SessionId) {
        let own = self.others.own();
        let Some(conn) = self.conns.get_mut(&id.0) else { return };
        conn.session = Some(session);
        let (Some(identity), host) = (&conn.identity, conn.host) else { return };
        if let Some(more) = self.lines.came.may_say(self.now) {
            let host = host.map_or("an unknown host".to_owned(), |host| host.to_string());
            tracing::info!("identity {} came in to rank {own} from {host}: session {session}{more}", identity.name);
        }
    }

    /// And when they go.
    pub(super) fn tell_gone(&mut self, conn: &Conn) {
        let (Some(identity), Some(session)) = (&conn.identity, conn.session) else { return };
        if let Some(more) = self.lines.went.may_say(self.now) {
            let own = self.others.own();
            tracing::info!(
                "identity {} has gone from rank {own}: the connection of session {session} is closed{more}",
                identity.name
            );
        }
    }
}

/// The oldest connection of the host that has most of these. Numbers of connections grow.
fn oldest_of_most(all: &BTreeSet<u64>, host: impl Fn(&u64) -> Option<IpAddr>) -> Option<u64> {
    let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
    for id in all {
        *counts.entry(host(id)).or_default() += 1;
    }
    let most = counts.values().max()?;
    all.iter().find(|id| counts.get(&host(id)) == Some(most)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_with_most_connections_makes_room_with_its_oldest() {
        let host = |last| Some(IpAddr::from([10, 0, 0, last]));
        let of = |id: &u64| if *id < 3 { host(1) } else { host(2) };
        assert_eq!(oldest_of_most(&BTreeSet::from([1, 2, 5, 6, 7]), of), Some(5), "one came first, and is not many");
        assert_eq!(oldest_of_most(&BTreeSet::from([1, 2, 5]), of), Some(1));
        assert_eq!(oldest_of_most(&BTreeSet::new(), of), None);
    }
}
