//! Sessions from the handshake to their end, and what they say beside requests. A session that is dead ends in steps (`ending.rs`).

use std::collections::BTreeSet;

use loligo_types::msg::{Hello, Refusal, ToClient, ToServer};
use loligo_types::{Answer, Event, FsError, FsResult, Ino, SessionId};

use crate::handshake::Begun;
use crate::hash::session_secret;
use crate::io::{ConnId, IdentityKey, Output, Peer};
use crate::job::Job;
use crate::machine::Mds;
use crate::recall::SHARED;
use crate::session::{Conn, Ending, Session, Slot, Standing};
use crate::step::origin_of;

impl Mds {
    pub(crate) fn message(&mut self, conn: ConnId, msg: ToServer) {
        let Some(entry) = self.sessions.conns.get(&conn) else { return };
        let Some(slot) = entry.slot else {
            match msg {
                ToServer::Hello(hello) => self.hello(conn, hello),
                // Nothing else makes sense on a connection without a session.
                _ => self.sessions.close_conn(&mut self.core, conn),
            }
            return;
        };
        if let Some(session) = self.sessions.get_mut(slot) {
            session.heard_ms = self.core.now.mono_ms;
            session.met = true;
            if session.standing == Standing::Back && !matches!(msg, ToServer::Reclaim(_) | ToServer::Ping) {
                self.reclaimed(slot);
            }
        }
        match msg {
            ToServer::Request(request) => {
                self.pace.request();
                self.request(conn, slot, request);
            }
            ToServer::RecallDone { ino, id } => self.recall_done(slot, ino, id),
            ToServer::Release(leases) => {
                for (ino, bits) in leases {
                    self.leases.take(ino, slot, bits & SHARED);
                    self.opens.take(ino, slot, bits.without(SHARED));
                }
            }
            ToServer::Ping => self.recalls.ping(&mut self.core, &mut self.sessions, &self.opens, &self.tidy, slot),
            ToServer::Goodbye { gone } => {
                self.goodbye(slot, gone);
                self.sessions.close_conn(&mut self.core, conn);
            }
            ToServer::Reclaim(held) => self.reclaim(slot, held),
            ToServer::Hello(hello) => self.hello(conn, hello),
            // The driver's to give to the object server.
            ToServer::Data(_) => {}
        }
    }

    /// A connection is gone. Its session lives on for a while, unless it lived in this process.
    pub(crate) fn disconnected(&mut self, conn: ConnId) {
        let Some(entry) = self.sessions.conns.remove(&conn) else { return };
        let Some(slot) = entry.slot else { return };
        let Some(session) = self.sessions.get_mut(slot) else { return };
        session.conn = None;
        session.heard_ms = self.core.now.mono_ms;
        if session.local {
            self.end_session(slot);
        }
    }

    /// The first message of a connection.
    pub(crate) fn hello(&mut self, conn: ConnId, hello: Hello) {
        let Some(entry) = self.sessions.conns.get(&conn) else { return };
        let peer = entry.peer.clone();
        if entry.slot.is_some() {
            return self.sessions.refuse(
                &mut self.core,
                conn,
                Refusal::Malformed,
                "this connection has said hello before",
            );
        }
        if let Err((why, text)) = self.core.check_hello(&hello, &peer) {
            return self.sessions.refuse(&mut self.core, conn, why, &text);
        }
        let Some((id, secret)) = hello.resume else { return self.begin_session(conn, &peer, &hello) };
        if id.rank() != self.core.me() && !self.cluster.atlas.map.ranks.is_empty() {
            // It seeks another rank where clients begin: it is told who is there, and leaves nothing behind.
            self.core.out.push_back(Output::Send { conn, msg: ToClient::Map(self.cluster.atlas.map.clone()) });
            return self.sessions.close_conn(&mut self.core, conn);
        }
        if secret != session_secret(self.core.config.hash_key, id.0, hello.client) {
            return self.sessions.refuse(
                &mut self.core,
                conn,
                Refusal::NotAuthorized,
                "the secret does not belong to the session",
            );
        }
        match self.sessions.find(id) {
            Some(slot) if self.sessions.get(slot).is_some_and(|session| session.client != hello.client) => {
                self.sessions.refuse(
                    &mut self.core,
                    conn,
                    Refusal::NotAuthorized,
                    "the session belongs to another client",
                );
            }
            Some(slot) if self.sessions.get(slot).is_some_and(|session| session.ending.is_none()) => {
                self.resume_session(conn, &peer, slot, true, true);
            }
            // Or it is ending, and what it held may be anybody's at any moment.
            _ => self.begin_session(conn, &peer, &hello),
        }
    }

    /// A new session. Its number is that of the journal record that tells of it, so no number is ever used twice; the
    /// client learns it when the record is durable.
    fn begin_session(&mut self, conn: ConnId, peer: &Peer, hello: &Hello) {
        if let Some((slot, id)) = self.sessions.unmet_session(hello.client, peer) {
            if id > SessionId::new(self.core.me(), self.core.log.durable) {
                // A crash may still take it back, and give its number to another one.
                return self.gate.gate_hello(&self.core, conn, hello.clone());
            }
            let Some(session) = self.sessions.get_mut(slot) else { return };
            (session.local, session.uid) = (peer.local, peer.uid.unwrap_or(u32::MAX));
            session.identity = peer.identity.as_ref().map(|identity| identity.key);
            // One that began with a hello whose welcome was lost begins once more.
            let knows = session.moved || session.standing != Standing::Here;
            // If it had another one here, that is gone, with what it knew of the client's requests.
            return self.resume_session(conn, peer, slot, knows && hello.resume.is_none(), knows);
        }
        if let Err(text) = self.sessions.room_for(&self.core, peer) {
            return self.sessions.refuse(&mut self.core, conn, Refusal::TooMany, &text);
        }
        let id = SessionId::new(self.core.me(), self.core.log.last.next());
        let session = Session::new(id, hello.name.as_bytes().into(), hello.client, peer, self.core.now.mono_ms);
        let record = session.record();
        let slot = self.sessions.insert(session);
        self.sessions.bind(slot, conn);
        self.commit(None, &[Event::Session(record)]);
        self.gate.gate_welcome(&mut self.core, &mut self.sessions, &self.cluster, conn, slot, id);
    }

    /// A session goes on. `resumed`: the client is told that it had it; `knows`: and that this rank knows, as long as it has not
    /// restarted, what the client holds here.
    fn resume_session(&mut self, conn: ConnId, peer: &Peer, slot: Slot, resumed: bool, knows: bool) {
        let Some(session) = self.sessions.get_mut(slot) else { return };
        if !session.is_of(peer) {
            return self.sessions.refuse(
                &mut self.core,
                conn,
                Refusal::NotAuthorized,
                "the session belongs to another user, or another identity",
            );
        }
        session.identity = peer.identity.as_ref().map(|identity| identity.key);
        if self.recalls.is_overdue(&self.core, &self.opens, &self.tidy, slot, self.core.config.session_ms) {
            // To answer would let it rely on what it was lent once more.
            return self.sessions.close_conn(&mut self.core, conn);
        }
        let Some(session) = self.sessions.get_mut(slot) else { return };
        let kept = knows && session.standing == Standing::Here;
        if session.standing != Standing::Here {
            session.standing = Standing::Back;
        }
        session.heard_ms = self.core.now.mono_ms;
        session.window.reconnected();
        let id = session.id;
        if let Some(old) = self.sessions.bind(slot, conn) {
            self.sessions.close_conn(&mut self.core, old);
        }
        self.sessions.welcome(&mut self.core, &self.cluster, conn, slot, id, Begun { resumed, kept });
        self.recalls.repeat_recalls(&mut self.core, &self.sessions, slot);
    }

    /// Ends a session that broke its promises, and tells it if it can be told.
    pub(crate) fn evict_session(&mut self, slot: Slot) {
        if self.sessions.get(slot).is_none_or(|session| session.ending.is_some()) {
            return;
        }
        self.core.counters.evicted += 1;
        let conn = self.sessions.get(slot).and_then(|session| session.conn);
        self.end_session(slot);
        if let Some(conn) = conn {
            // Nothing that comes from it counts any more.
            self.sessions.conns.remove(&conn);
            self.gate.gate_evicted(&mut self.core, &mut self.sessions, conn);
        }
    }

    /// Identities were revoked: who has come with one that is not left goes.
    pub(crate) fn identities_left(&mut self, left: &BTreeSet<IdentityKey>) {
        let is_revoked = |key: Option<IdentityKey>| key.is_some_and(|key| !left.contains(&key));
        let slots: Vec<Slot> = self.sessions.iter().filter(|(_, s)| is_revoked(s.identity)).map(|(at, _)| at).collect();
        slots.into_iter().for_each(|slot| self.evict_session(slot));
        let came = |conn: &Conn| conn.peer.identity.as_ref().map(|identity| identity.key);
        let conns = self.sessions.conns.iter().filter(|(_, conn)| is_revoked(came(conn)));
        let mut conns: Vec<ConnId> = conns.map(|(conn, _)| *conn).collect();
        conns.sort();
        conns.into_iter().for_each(|conn| self.sessions.close_conn(&mut self.core, conn));
    }

    /// Ends a session that has written back all it had. `gone`: the client itself ends.
    pub(crate) fn goodbye(&mut self, slot: Slot, gone: bool) {
        let client = self.sessions.get(slot).map(|session| session.client);
        if let Some(client) = client.filter(|_| gone) {
            self.cluster.peers.say_client_gone(&mut self.core, &self.cluster.atlas, client);
        }
        self.opens.end(slot).into_iter().for_each(|(ino, _)| self.opens.closed(&self.core, &mut self.tidy, ino));
        // Whoever says so has nothing under way, neither here nor in the store.
        if let Some(session) = self.sessions.get(slot) {
            self.core.out.push_back(Output::Fence { session: session.id });
        }
        self.free_session(slot);
    }

    /// Ends a session that is dead, or counts as such: all it held is free, as soon as nothing can come of it any more.
    pub(crate) fn end_session(&mut self, slot: Slot) {
        let Some(session) = self.sessions.get(slot).filter(|session| session.ending.is_none()) else { return };
        let (id, addresses) = (session.id, session.addresses.clone());
        // First of all its data requests must stop: others may write as soon as its rights are gone.
        self.core.out.push_back(Output::Fence { session: id });
        if !self.sessions.ends_in_steps(&self.core, slot) {
            return self.free_session(slot);
        }
        self.sessions.silence(slot, Ending { executes: true, reaches: !addresses.is_empty() });
        self.cluster.drop_jobs(&mut self.core, slot);
        if !addresses.is_empty() {
            self.core.out.push_back(Output::ShutOut { session: id, addresses });
        }
    }

    /// The object server executes nothing of the session, and never will.
    pub(crate) fn fenced(&mut self, id: SessionId) {
        self.ended_further(id, |ending| ending.executes = false);
    }

    /// The store takes nothing of its client.
    pub(crate) fn shut_out(&mut self, id: SessionId) {
        self.ended_further(id, |ending| ending.reaches = false);
    }

    fn ended_further(&mut self, id: SessionId, step: impl FnOnce(&mut Ending)) {
        let Some(slot) = self.sessions.find(id) else { return };
        let Some(ending) = self.sessions.get_mut(slot).and_then(|session| session.ending.as_mut()) else { return };
        step(ending);
        if !ending.executes && !ending.reaches {
            self.free_session(slot);
        }
    }

    /// All that a session held is free: nothing of it can take effect any more.
    fn free_session(&mut self, slot: Slot) {
        let Some(session) = self.sessions.remove(slot) else { return };
        self.commit(None, &[Event::SessionGone(session.id)]);
        self.cluster.drop_jobs(&mut self.core, slot);
        self.cluster.exports.forget_moved_handles(slot);
        self.decoupled.lose_decoupled(&mut self.core, &self.sessions, &mut self.opens, slot);
        let unlocked = self.locks.end(slot);
        self.grant_locks(unlocked);
        let opened = self.opens.end(slot);
        for (ino, wrote) in &opened {
            if *wrote {
                self.tidy.forget(*ino);
                self.tidy.leave(*ino);
            }
            self.opens.closed(&self.core, &mut self.tidy, *ino);
        }
        // Now, not with the next tick: who waits for the file is one who writes it by then.
        opened.into_iter().filter(|(_, wrote)| *wrote).for_each(|(ino, _)| self.tidy_one(ino));
        self.leases.end(slot);
        self.end_recalls_of(slot);
        self.background.freed_slots.push(slot);
        self.check_grace();
    }

    /// A client tells by what the store knows it. Who may change nothing has a key that cannot either, and would name others; who is
    /// known by his user alone might, too.
    pub(crate) fn take_address(&mut self, job: &Job, address: &[u8]) -> FsResult<Answer> {
        if self.core.config.direct.is_none() || address.is_empty() {
            return Err(FsError::NotSupported);
        }
        let Some(session) = self.sessions.same(job.slot, job.session) else { return Err(FsError::Stale) };
        if session.client == 0 {
            return Err(FsError::NotSupported);
        }
        let Some(conn) = session.conn else { return Err(FsError::Stale) };
        let Some(peer) = self.sessions.conns.get(&conn).map(|conn| &conn.peer) else { return Err(FsError::Stale) };
        if peer.limited().is_some() {
            // The store asks nothing about paths, and whose address it says, its own or a server's, nobody knows.
            return Err(FsError::NotSupported);
        }
        if peer.is_read_only() {
            return Ok(Answer::Done);
        }
        if !peer.trusted && peer.identity.is_none() {
            return Err(FsError::NotAuthorized);
        }
        let Some(session) = self.sessions.get_mut(job.slot) else { return Err(FsError::Stale) };
        session.add_address(address);
        let record = session.record();
        self.commit(Some(origin_of(job, loligo_types::Ino(0), 0)), &[Event::Session(record)]);
        Ok(Answer::Done)
    }

    /// The session obeyed. Unknown recalls (of an earlier life of the server) are ignored.
    fn recall_done(&mut self, slot: Slot, ino: Ino, id: u64) {
        if !self.recalls.is_asked(slot, ino, id) {
            return;
        }
        self.end_recall(id);
        self.recalls.pay_pongs(&mut self.core, &mut self.sessions, &self.opens, &self.tidy, slot);
    }

    /// The session is gone, and so is all it held.
    fn end_recalls_of(&mut self, slot: Slot) {
        self.recalls.ids_of(slot).into_iter().for_each(|id| self.end_recall(id));
    }

    fn end_recall(&mut self, id: u64) {
        if self.recalls.end(&mut self.core, &mut self.sessions, &mut self.leases, &mut self.opens, id) {
            self.next_loans();
        }
    }
}
