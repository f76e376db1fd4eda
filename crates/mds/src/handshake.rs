//! Begin of sessions, their continuation over a new connection, and their end.

use std::collections::BTreeSet;

use loligo_types::msg::{Hello, PROTOCOL_VERSION, Refusal, ToClient, Welcome};
use loligo_types::{Event, SessionId};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::hash::session_secret;
use crate::io::{ConnId, IdentityKey, Output, Peer};
use crate::machine::Mds;
use crate::session::{Conn, Session, Sessions, Slot, Standing};

/// Longest name of a session, bytes.
const NAME_MAX: usize = 255;

/// A session at the end of a handshake.
#[derive(Clone, Copy, Default)]
pub(crate) struct Begun {
    /// It is one of before.
    pub(crate) resumed: bool,
    /// What it held is kept.
    pub(crate) kept: bool,
}

impl Mds {
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
}

impl Sessions {
    /// A connection was made.
    pub(crate) fn connected(&mut self, conn: ConnId, peer: Peer) {
        self.conns.insert(conn, Conn { peer, slot: None });
    }

    /// Checks that this peer may begin one more session. An identity, or a user that may act for itself alone, has at most as
    /// many as are free after it: so one has half of them at most, and several together leave some. Root and the server's own
    /// user count against the limit of all only.
    fn room_for(&self, core: &Core, peer: &Peer) -> Result<(), String> {
        let (most, all) = (core.config.sessions_max, self.len());
        let free = most.saturating_sub(all);
        let ends =
            format!("a session ends {} s after its client was heard last", core.config.session_ms.div_ceil(1000));
        if free == 0 {
            return Err(format!("the server has {most} sessions, which is its limit: try again later; {ends}"));
        }
        let (who, own) = match (&peer.identity, peer.uid) {
            (Some(identity), _) => ("this identity", self.count(|session| session.identity == Some(identity.key))),
            (None, Some(uid)) if !peer.trusted => ("this user", self.count(|session| session.uid == uid)),
            _ => return Ok(()),
        };
        if own < free {
            return Ok(());
        }
        Err(format!(
            "{who} has {own} sessions, and {free} of {most} are free: nobody may have more than are left to others; end some of \
             its clients, or try again later: {ends}"
        ))
    }

    fn refuse(&mut self, core: &mut Core, conn: ConnId, why: Refusal, text: &str) {
        let msg = ToClient::Refused { why, text: text.into() };
        core.out.push_back(Output::Send { conn, msg });
        self.close_conn(core, conn);
    }

    /// A session of this client of which it may not know: it came with what moved here, or a restart has found it, or its welcome
    /// was lost.
    fn unmet_session(&self, client: u64, peer: &Peer) -> Option<(Slot, SessionId)> {
        let of_it = |(_, session): &(Slot, &Session)| {
            client != 0 && session.client == client && !session.met && session.ending.is_none()
        };
        let found = self.iter().find(of_it);
        let may = |(_, session): &(Slot, &Session)| session.is_of(peer);
        found.filter(may).map(|(slot, session)| (slot, session.id))
    }

    /// Sends the end of the handshake, if the session still speaks through this connection.
    pub(crate) fn welcome(
        &mut self,
        core: &mut Core,
        cluster: &Cluster,
        conn: ConnId,
        slot: Slot,
        session: SessionId,
        Begun { resumed, kept }: Begun,
    ) {
        let now_ms = core.now.mono_ms;
        let Some(own) = self.same(slot, session).filter(|own| own.conn == Some(conn)) else { return };
        own.assured_ms = now_ms;
        let client = own.client;
        let limited = self.conns.get(&conn).is_some_and(|conn| conn.peer.limited().is_some());
        // Who is limited to paths reaches file data by its servers alone.
        let direct = core.config.direct.as_deref().filter(|_| !limited).unwrap_or_default().to_owned();
        core.out.push_back(Output::Bound { conn, session });
        let msg = ToClient::Welcome(Welcome {
            version: PROTOCOL_VERSION,
            session,
            secret: session_secret(core.config.hash_key, session.0, client),
            resumed,
            kept,
            fs_id: core.config.fs_id,
            inline_max: core.config.inline_max,
            session_ms: core.config.session_ms,
            data_epoch: core.config.data_epoch,
            rank: core.me(),
            hash_key: core.config.hash_key,
            map: cluster.atlas.map.clone(),
            routes: cluster.atlas.routes_about(core, None),
            direct,
            recovered: if core.config.after_crash { core.log.recovered } else { loligo_types::Lsn(0) },
        });
        core.out.push_back(Output::Send { conn, msg });
    }

    pub(crate) fn say_evicted(&mut self, core: &mut Core, conn: ConnId) {
        core.out.push_back(Output::Send { conn, msg: ToClient::Evicted });
        self.close_conn(core, conn);
    }
}

impl Core {
    fn check_hello(&self, hello: &Hello, peer: &Peer) -> Result<(), (Refusal, String)> {
        let (low, high) = hello.versions;
        if low > PROTOCOL_VERSION || high < PROTOCOL_VERSION {
            let text = format!("this server speaks version {PROTOCOL_VERSION}, the client {low} to {high}: update one");
            return Err((Refusal::Version, text));
        }
        if hello.fs_id.is_some_and(|id| id != self.config.fs_id) {
            let text = "this server serves another file system: unmount and mount again to use this one".into();
            return Err((Refusal::OtherFileSystem, text));
        }
        if !peer.trusted && peer.uid.is_none() {
            let text = "the server cannot tell who connects over TCP without an identity: name one (--identity FILE; loligo \
                        auth add makes it on the server's machine), or use its Unix socket";
            return Err((Refusal::NotAuthorized, text.into()));
        }
        if peer.identity.is_some() && hello.client == 0 {
            let text = "the client has no number: its sessions would be open to other identities";
            return Err((Refusal::NotAuthorized, text.into()));
        }
        if hello.name.len() > NAME_MAX {
            return Err((Refusal::Malformed, format!("the client's name is over {NAME_MAX} bytes")));
        }
        if self.stopping {
            return Err((Refusal::Stopping, "the server is stopping: connect again when it is back".into()));
        }
        Ok(())
    }
}

impl Sessions {
    /// Closes a connection.
    pub(crate) fn close_conn(&mut self, core: &mut Core, conn: ConnId) {
        self.conns.remove(&conn);
        core.out.push_back(Output::Close { conn });
    }
}
