//! Handshake: checks of a client that says hello, and the answer. Begin and end of the session are `stages/sessions.rs`.

use loligo_types::SessionId;
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Refusal, ToClient, Welcome};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::hash::session_secret;
use crate::io::{ConnId, Output, Peer};
use crate::session::{Conn, Session, Sessions, Slot};

/// Longest name of a session, bytes.
const NAME_MAX: usize = 255;

/// A session at the end of a handshake.
#[derive(Clone, Copy, Default)]
pub(crate) struct Begun {
    /// It is one of before.
    pub(crate) resumed: bool,
    /// Its holdings are kept.
    pub(crate) kept: bool,
}

impl Sessions {
    /// A connection was made.
    pub(crate) fn connected(&mut self, conn: ConnId, peer: Peer) {
        self.conns.insert(conn, Conn { peer, slot: None });
    }

    /// Checks that this peer may begin one more session. An identity, or a user that may act for itself alone, has at most as
    /// many as are free after it: so one has half of them at most, and several together leave some. Root and the server's own
    /// user count against the limit of all only.
    pub(crate) fn room_for(&self, core: &Core, peer: &Peer) -> Result<(), String> {
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

    pub(crate) fn refuse(&mut self, core: &mut Core, conn: ConnId, why: Refusal, text: &str) {
        let msg = ToClient::Refused { why, text: text.into() };
        core.out.push_back(Output::Send { conn, msg });
        self.close_conn(core, conn);
    }

    /// A session of this client of which it may not know: it came with what moved here, or a restart has found it, or its welcome
    /// was lost.
    pub(crate) fn unmet_session(&self, client: u64, peer: &Peer) -> Option<(Slot, SessionId)> {
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
            journal_max: core.config.journal_max,
        });
        core.out.push_back(Output::Send { conn, msg });
    }

    pub(crate) fn say_evicted(&mut self, core: &mut Core, conn: ConnId) {
        core.out.push_back(Output::Send { conn, msg: ToClient::Evicted });
        self.close_conn(core, conn);
    }

    /// Closes a connection.
    pub(crate) fn close_conn(&mut self, core: &mut Core, conn: ConnId) {
        self.conns.remove(&conn);
        core.out.push_back(Output::Close { conn });
    }
}

impl Core {
    pub(crate) fn check_hello(&self, hello: &Hello, peer: &Peer) -> Result<(), (Refusal, String)> {
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
