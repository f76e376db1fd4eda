//! The sockets of the rank thread: connections from accept to close, what they send and what is sent to them.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use loligo_mds::{ConnId, Input, Peer};
use loligo_types::SessionId;
use loligo_types::msg::{Refusal, ToClient, ToServer};
use loligo_wire::DecodeError;
use rustix::event::epoll;

use super::super::conn::{Asked, Conn, Stage, Verdict, answered, ask};
use super::super::listen::Listeners;
use super::super::metrics::OP_DATA;
use super::super::queue::Inbox;
use super::super::slots::{self, Kind};
use super::{Done, Rank, TOKEN_ABROAD, TOKEN_DOOR, TOKEN_GUEST, TOKEN_LISTENERS};
use crate::sock::Sock;
use crate::tls::HANDSHAKE;

/// The refusal of a client whose certificate is good and not on the list.
const REVOKED: &str = "this identity is not on the file system's list, so it was revoked: ask for another one (loligo auth \
                       add, on the server's machine)";
/// Bytes read from one connection before the others have their turn.
const READ_AT_ONCE: usize = 1 << 20;
/// Connections accepted at a time.
const ACCEPT_AT_ONCE: usize = 16;
/// Time for connections to take their last answers when the server stops.
const LINGER: Duration = Duration::from_millis(500);

/// The session of a sender, and its unanswered requests.
struct Asker<'a> {
    session: Option<SessionId>,
    asked: &'a mut VecDeque<Asked>,
    data_asked: &'a mut VecDeque<Asked>,
    now: Instant,
}

impl Rank {
    pub(super) fn socket_event(&mut self, token: u64, ready: epoll::EventFlags) {
        if token == TOKEN_GUEST {
            self.guest_turn();
            return;
        }
        if let Some(rank) = token.checked_sub(TOKEN_ABROAD) {
            return self.abroad_event(loligo_types::Rank(rank as u16), ready);
        }
        if token >= TOKEN_LISTENERS {
            return self.accept(token);
        }
        if ready.intersects(epoll::EventFlags::OUT) {
            self.queue_flush(token);
        }
        let hung_up = ready.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        if hung_up && self.conns.get(&token).is_some_and(Conn::is_paused) {
            return self.gone(token);
        }
        if hung_up || ready.intersects(epoll::EventFlags::IN) {
            self.read(token);
        }
    }

    /// Clients are to begin elsewhere. Those that are here stay.
    pub(super) fn give_door(&mut self, to: &Inbox<Done>) {
        let door = std::mem::take(&mut self.door);
        for listener in &door.sockets {
            let _ = epoll::delete(&self.epoll, listener);
        }
        to.push(Done::TakeDoor(Box::new(door)));
    }

    /// Clients begin here from now on.
    pub(super) fn take_door(&mut self, door: Listeners) {
        for (at, listener) in door.sockets.iter().enumerate() {
            let token = epoll::EventData::new_u64(TOKEN_DOOR + at as u64);
            if let Err(error) = epoll::add(&self.epoll, listener, token, epoll::EventFlags::IN) {
                tracing::error!("clients cannot begin at rank {}: {error}; start again", self.others.own());
            }
        }
        self.door = door;
    }

    fn accept(&mut self, token: u64) {
        for _ in 0..ACCEPT_AT_ONCE {
            let (listeners, at) = match token.checked_sub(TOKEN_DOOR) {
                Some(at) => (&self.door, at),
                None => (&self.listeners, token - TOKEN_LISTENERS),
            };
            let Some(listener) = listeners.sockets.get(at as usize) else { return };
            match listener.accept() {
                Ok(Some(sock)) => {
                    if !listener.knows_peers() {
                        // Whoever can come from elsewhere must be an identity.
                        let trusted = self.limits.trust_tcp && !listener.is_open();
                        self.greet_later(sock, trusted);
                        continue;
                    }
                    let uid = sock.peer_uid().ok();
                    let trusted = uid.is_some_and(|uid| uid == 0 || uid == self.own_uid);
                    let groups = sock.peer_groups();
                    self.adopt(sock, Peer { uid, groups, trusted, local: false, identity: None });
                }
                Ok(None) => return,
                Err(error) => return self.rest(&error),
            }
        }
    }

    /// Takes a connection whose other end is known.
    pub(super) fn adopt(&mut self, sock: Sock, peer: Peer) {
        let kind = (!peer.local).then_some(Kind::Unix);
        if let Some(id) = self.take(sock, kind) {
            self.feed(Input::Connected { conn: ConnId(id), peer });
        }
    }

    /// Takes a connection; its number, if there is room for it. The client of this process has none to ask for: `kind` is `None`.
    pub(super) fn take(&mut self, sock: Sock, kind: Option<Kind>) -> Option<u64> {
        self.metrics.accepted.add(1);
        let is_scarce = kind.is_some() && slots::is_last(&sock);
        let mut conn = Conn::new(sock, self.now);
        if let Some(kind) = kind {
            conn.slot = if is_scarce { None } else { self.limits.connections.take(kind) };
            if conn.slot.is_none() {
                self.turn_away(conn, kind, is_scarce);
                return None;
            }
        }
        let id = self.next_conn;
        self.next_conn += 1;
        if let Err(error) = epoll::add(&self.epoll, &conn.sock, epoll::EventData::new_u64(id), epoll::EventFlags::IN) {
            tracing::warn!("a connection could not be watched: {error}");
            return None;
        }
        self.conns.insert(id, conn);
        self.metrics.connections.set(self.conns.len() as u64);
        Some(id)
    }

    /// Goes on with finding out who is at the other end of a connection over TCP. Whether that is known.
    fn greet(&mut self, id: u64) -> std::io::Result<bool> {
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(false) };
        if conn.stage == Stage::New {
            let Some(first) = conn.sock.peek()? else { return Ok(false) };
            match self.limits.auth.tls() {
                Some(tls) if first == HANDSHAKE => {
                    conn.sock.secure(tls)?;
                    conn.stage = Stage::Greets;
                }
                _ => {
                    conn.stage = Stage::Open;
                    let trusted = conn.trusted;
                    let peer = Peer { uid: None, groups: Vec::new(), trusted, local: false, identity: None };
                    self.feed(Input::Connected { conn: ConnId(id), peer });
                    return Ok(true);
                }
            }
        }
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(false) };
        if conn.stage == Stage::Greets {
            let done = conn.sock.handshake();
            self.watch(id);
            let Some(key) = done? else { return Ok(false) };
            let identity = self.limits.auth.identity(&key);
            // A refusal is said in answer to its hello: a connection that is closed with something unread may lose what it was told.
            let refusal = match &identity {
                None => Some((Refusal::NotAuthorized, REVOKED.to_owned())),
                Some(identity) => self.let_in(id, Some(identity)).err(),
            };
            let Some(conn) = self.conns.get_mut(&id) else { return Ok(false) };
            conn.stage = Stage::Open;
            let Some(identity) = identity.filter(|_| refusal.is_none()) else {
                conn.refusal = refusal;
                return Ok(true);
            };
            conn.identity = Some(identity.clone());
            let peer = Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: Some(identity) };
            self.feed(Input::Connected { conn: ConnId(id), peer });
        }
        Ok(true)
    }

    /// Reads and handles what a connection sent, but no more than its share.
    pub(super) fn read(&mut self, id: u64) {
        if self.conns.get(&id).is_some_and(|conn| conn.stage != Stage::Open) {
            // Handshakes cost much, and anybody may ask for one: epoll tells of the others in the next round.
            let Some(left) = self.greets_left.checked_sub(1) else { return };
            self.greets_left = left;
            match self.greet(id) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!("connection {id} is closed in the TLS handshake: {error}");
                    self.metrics.dropped.add(1);
                    return self.gone(id);
                }
            }
        }
        let mut total = 0;
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if conn.is_paused() {
                return self.watch(id);
            }
            match conn.read(self.now) {
                // TLS may have had something to answer by itself.
                Ok(None) => return self.watch(id),
                Ok(Some((0, _))) => return self.gone(id),
                Ok(Some((n, more))) => {
                    total += n;
                    self.metrics.bytes_in.add(n as u64);
                    self.decode(id);
                    // What TLS has taken from the socket, that does not tell of again.
                    let holds = |conn: &Conn| conn.sock.holds();
                    if !more || total >= READ_AT_ONCE && !self.conns.get(&id).is_some_and(holds) {
                        return;
                    }
                }
                Err(_) => return self.gone(id),
            }
        }
    }

    /// Handles the whole messages that a connection has, as long as it is not paused.
    pub(super) fn decode(&mut self, id: u64) {
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if conn.is_paused() {
                return self.watch(id);
            }
            match conn.decoder.next_message() {
                Ok(None) => return,
                Ok(Some(msg)) => self.message(id, msg),
                Err(error) => return self.malformed(id, &error),
            }
        }
    }

    pub(super) fn message(&mut self, id: u64, msg: ToServer) {
        let Some(asker) = self.asker(id) else { return };
        let session = asker.session;
        match &msg {
            ToServer::Data(request) => asker.data_asked.push_back((request.id, OP_DATA, asker.now)),
            ToServer::Request(request) => ask(asker.asked, (request.seq.0, request.op.kind().number(), asker.now)),
            _ => {}
        }
        self.requests += 1;
        if self.conns.get(&id).is_some_and(|conn| conn.trusted && conn.is_half_open())
            && let Err(refusal) = self.let_in(id, None)
            && let Some(conn) = self.conns.get_mut(&id)
        {
            conn.refusal = Some(refusal);
        }
        if let Some(conn) = self.conns.get_mut(&id)
            && let Some((why, text)) = conn.refusal.take()
        {
            conn.send(&ToClient::Refused { why, text }, self.now);
            conn.closing = true;
            return self.queue_flush(id);
        }
        let read_only = self.conns.get(&id).is_some_and(Conn::is_read_only);
        match msg {
            ToServer::Data(request) => {
                match session.filter(|_| !(read_only && request.op.is_change())) {
                    Some(session) => self.data.request(id, session, request),
                    None => self.data.refuse(id, request.id),
                }
                self.data_outputs();
            }
            msg => {
                if matches!(msg, ToServer::Hello(_))
                    && let Some(conn) = self.conns.get_mut(&id)
                {
                    conn.greeted = true;
                    conn.decoder.handshake_done();
                }
                self.feed(Input::Message { conn: ConnId(id), msg });
            }
        }
    }

    /// The sender at a connection: a socket's peer, or the resident client.
    fn asker(&mut self, id: u64) -> Option<Asker<'_>> {
        let now = self.now;
        if let Some(r) = self.resident.as_mut().filter(|r| r.connected && r.conn == id) {
            return Some(Asker { session: r.session, asked: &mut r.asked, data_asked: &mut r.data_asked, now });
        }
        let conn = self.conns.get_mut(&id)?;
        Some(Asker { session: conn.session, asked: &mut conn.asked, data_asked: &mut conn.data_asked, now })
    }

    pub(super) fn malformed(&mut self, id: u64, error: &DecodeError) {
        if let Some(more) = self.lines.malformed.may_say(self.now) {
            tracing::warn!("connection {id} is closed: {error}{more}");
        }
        self.metrics.dropped.add(1);
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.send(&ToClient::Refused { why: Refusal::Malformed, text: error.to_string() }, self.now);
            let _ = conn.flush(self.now);
        }
        self.gone(id);
    }

    /// Closes connections that break the rules.
    pub(super) fn judge(&mut self) {
        let mut bad = Vec::new();
        for (id, conn) in &self.conns {
            if let Verdict::Drop(why) = conn.verdict(self.now) {
                bad.push((*id, why));
            }
        }
        for (id, why) in bad {
            if let Some(more) = self.lines.slow.may_say(self.now) {
                tracing::warn!("connection {id} is closed: {why}{more}");
            }
            self.metrics.dropped.add(1);
            self.gone(id);
        }
    }

    pub(super) fn send(&mut self, id: u64, msg: ToClient) {
        let Some(msg) = self.resident_takes(id, msg) else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (asked, failed) = match &msg {
            ToClient::Reply { seq, result, .. } => (answered(&mut conn.asked, seq.0), result.is_err()),
            ToClient::Data { id, result } => (answered(&mut conn.data_asked, *id), result.is_err()),
            _ => (None, false),
        };
        conn.send(&msg, self.now);
        if let Some((_, op, since)) = asked {
            self.count(op, failed, since);
        }
        self.queue_flush(id);
    }

    pub(super) fn queue_flush(&mut self, id: u64) {
        if let Some(conn) = self.conns.get_mut(&id)
            && !conn.queued
        {
            conn.queued = true;
            self.to_flush.push(id);
        }
    }

    pub(super) fn flush(&mut self, id: u64) {
        // Asked anew: answers of others may have been decided since the one before was sent.
        let may_answer = self.may_answer();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if !may_answer {
            // Another one may have changed what it says: it goes when that is known not to be so.
            conn.queued = true;
            self.to_flush.push(id);
            return;
        }
        conn.queued = false;
        let was_paused = !conn.interest.0;
        match conn.flush(self.now) {
            Ok(n) => self.metrics.bytes_out.add(n as u64),
            Err(_) => return self.gone(id),
        }
        if conn.closing && !conn.has_unsent() {
            return self.gone(id);
        }
        self.watch(id);
        // Requests that came while it was paused are in the decoder, where epoll does not see them.
        if was_paused {
            self.decode(id);
            if self.conns.get(&id).is_some_and(|conn| conn.sock.holds()) {
                self.read(id);
            }
        }
    }

    /// Tells epoll what the connection waits for now.
    pub(super) fn watch(&mut self, id: u64) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let interest = (!conn.is_paused(), conn.has_unsent());
        if interest == conn.interest {
            return;
        }
        conn.interest = interest;
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.0);
        flags.set(epoll::EventFlags::OUT, interest.1);
        if let Err(error) = epoll::modify(&self.epoll, conn.sock.as_fd(), epoll::EventData::new_u64(id), flags) {
            tracing::warn!("connection {id} could not be watched: {error}");
            self.gone(id);
        }
    }

    pub(super) fn gone(&mut self, id: u64) {
        let Some(conn) = self.conns.remove(&id) else { return };
        self.half_open.remove(&id);
        self.tell_gone(&conn);
        let _ = epoll::delete(&self.epoll, conn.sock.as_fd());
        self.lost.extend(conn.session);
        drop(conn);
        self.metrics.connections.set(self.conns.len() as u64);
        self.data.disconnected(id);
        self.feed(Input::Disconnected { conn: ConnId(id) });
    }

    /// Lets connections take their last answers, for a short time. What was held back because another one may have taken over is never
    /// said: that one may have answered it, and differently.
    pub(super) fn linger(&mut self) {
        let until = Instant::now() + LINGER;
        while Instant::now() < until && self.may_answer() {
            self.now = Instant::now();
            let now = self.now;
            self.conns.retain(|_, conn| conn.has_unsent() && conn.flush(now).is_ok() && conn.has_unsent());
            if self.conns.is_empty() {
                return;
            }
            let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            let mut buffer =
                [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 8];
            let _ = epoll::wait(&self.epoll, &mut buffer[..], Some(&pause));
        }
    }
}
