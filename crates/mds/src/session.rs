//! Sessions and connections: who is there. Their handshake stands in `handshake.rs`, what they hold with the holdings.

use std::collections::BTreeMap;

use loligo_types::limits::DATA_ADDRESSES_MAX;
use loligo_types::{InoGrants, Lsn, MovedClient, Origin, SessionId, SessionRecord};

use crate::io::{ConnId, IdentityKey, Peer};
use crate::window::Window;
use loligo_types::hash::IntMap;

/// Place of a session in memory; used again only when everything the session held is freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(pub(crate) u16);

/// Progress of a session's return after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// All the way, or it was never away.
    Here,
    /// Not yet.
    Lost,
    /// It has a connection and may still tell what it held.
    Back,
    /// It has told, and that is being looked up.
    Reclaiming,
}

/// Remaining steps of a session that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ending {
    /// The object server still executes something of it.
    pub(crate) executes: bool,
    /// The store still takes something of its client.
    pub(crate) reaches: bool,
}

/// A session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: Box<[u8]>,
    pub(crate) local: bool,
    pub(crate) uid: u32,
    /// Of the identity that speaks in it, or did last; after a restart that is not known until its client is back.
    pub(crate) identity: Option<IdentityKey>,
    /// The client's number at every rank; 0: it keeps to this one.
    pub(crate) client: u64,
    /// It came with what moved here.
    pub(crate) moved: bool,
    /// Its client has spoken in it since it began here, or since the restart: until then the client may not know of it.
    pub(crate) met: bool,
    pub(crate) conn: Option<ConnId>,
    /// When a message last came.
    pub(crate) heard_ms: u64,
    /// When it was last told that it was heard: it relies on nothing that was lent to it when `session_ms` have gone by since.
    pub(crate) assured_ms: u64,
    /// Pings of this connection that are not answered, because it does not obey a recall.
    pub(crate) pongs_owed: u32,
    pub(crate) window: Window,
    /// Inode numbers that it was given.
    pub(crate) grants: InoGrants,
    /// The first change of the session in the journal that its record there does not tell of.
    pub(crate) unsaved: Option<Lsn>,
    pub(crate) standing: Standing,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// By which the store knows its client ([`SessionRecord::addresses`]).
    pub(crate) addresses: Vec<Box<[u8]>>,
    /// It ends, and what must be so before what it holds is another's.
    pub(crate) ending: Option<Ending>,
    /// Oldest leases asked back because it held too many, and not given back yet.
    pub(crate) shedding: usize,
}

impl Session {
    pub(crate) fn new(id: SessionId, name: Box<[u8]>, client: u64, peer: &Peer, now_ms: u64) -> Session {
        Session {
            id,
            name,
            local: peer.local,
            uid: peer.uid.unwrap_or(u32::MAX),
            identity: peer.identity.as_ref().map(|identity| identity.key),
            client,
            moved: false,
            met: false,
            conn: None,
            heard_ms: now_ms,
            assured_ms: now_ms,
            pongs_owed: 0,
            window: Window::default(),
            grants: InoGrants::default(),
            unsaved: None,
            standing: Standing::Here,
            requests: 0,
            errors: 0,
            addresses: Vec::new(),
            ending: None,
            shedding: 0,
        }
    }

    /// Of a client that has not connected here, but holds something that moved here.
    pub(crate) fn moved(id: SessionId, client: &MovedClient, now_ms: u64) -> Session {
        let peer = Peer { uid: Some(client.uid), groups: Vec::new(), trusted: false, local: false, identity: None };
        let session = Session::new(id, client.name.clone(), client.client, &peer, now_ms);
        Session { moved: true, addresses: client.addresses.clone(), ..session }
    }

    /// As a restart finds it.
    pub(crate) fn restore(record: &SessionRecord, now_ms: u64) -> Session {
        Session {
            id: record.id,
            name: record.name.clone(),
            local: record.local,
            uid: record.uid,
            identity: None,
            client: record.client,
            moved: false,
            met: false,
            conn: None,
            heard_ms: now_ms,
            assured_ms: now_ms,
            pongs_owed: 0,
            window: Window::restore(record.answered, &record.done),
            grants: record.grants.clone(),
            unsaved: None,
            standing: Standing::Lost,
            requests: 0,
            errors: 0,
            addresses: record.addresses.clone(),
            ending: None,
            shedding: 0,
        }
    }

    /// The store knows the client by this, too. It may have come late: none that is known is let go for it.
    pub(crate) fn add_address(&mut self, address: &[u8]) {
        if !self.addresses.iter().any(|known| **known == *address) {
            self.addresses.push(address.into());
            let surplus = self.addresses.len().saturating_sub(DATA_ADDRESSES_MAX);
            self.addresses.drain(..surplus);
        }
    }

    /// Its client is reached over the network, as the kernel does not tell who that is.
    pub(crate) fn is_remote(&self) -> bool {
        self.uid == u32::MAX
    }

    /// True if this peer may go on with the session, if it knows its secret.
    pub(crate) fn is_of(&self, peer: &Peer) -> bool {
        match &peer.identity {
            // Of one that came with what moved here, or was found after a restart, no more is known than how it came.
            Some(identity) => self.is_remote() && self.identity.is_none_or(|own| own == identity.key),
            None => peer.trusted || peer.uid == Some(self.uid),
        }
    }

    /// The session's record for the journal and the table.
    pub(crate) fn record(&self) -> SessionRecord {
        SessionRecord {
            id: self.id,
            name: self.name.clone(),
            local: self.local,
            uid: self.uid,
            client: self.client,
            answered: self.window.answered(),
            done: self.window.done(),
            grants: self.grants.clone(),
            addresses: self.addresses.clone(),
        }
    }
}

/// A connection.
pub(crate) struct Conn {
    pub(crate) peer: Peer,
    pub(crate) slot: Option<Slot>,
}

/// All sessions and connections.
#[derive(Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Session>>,
    free: Vec<Slot>,
    by_id: BTreeMap<SessionId, Slot>,
    pub(crate) conns: IntMap<ConnId, Conn>,
}

impl Sessions {
    /// A session by its place.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&Session> {
        self.slots.get(usize::from(slot.0))?.as_ref()
    }

    /// A session by its place.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Session> {
        self.slots.get_mut(usize::from(slot.0))?.as_mut()
    }

    /// The session that has this place, if it still is that one.
    #[inline]
    pub(crate) fn same(&mut self, slot: Slot, id: SessionId) -> Option<&mut Session> {
        self.get_mut(slot).filter(|session| session.id == id)
    }

    /// Place of a session.
    pub(crate) fn find(&self, id: SessionId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// All sessions by ascending number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Session)> + '_ {
        self.by_id.values().filter_map(|slot| Some((*slot, self.get(*slot)?)))
    }

    /// All have that much more time before they count as silent, milliseconds; at most until now.
    pub(crate) fn wait_longer(&mut self, ms: u64, now_ms: u64) {
        let slots: Vec<Slot> = self.by_id.values().copied().collect();
        for slot in slots {
            if let Some(session) = self.get_mut(slot) {
                session.heard_ms = (session.heard_ms + ms).min(now_ms);
                session.assured_ms = (session.assured_ms + ms).min(now_ms);
            }
        }
    }

    /// The session of a client that it speaks through, or would. It may have begun another one whose welcome it never got:
    /// that lives on for a while, but nobody hears what it is told. Or it took this rank for another one, and has this one's
    /// besides.
    pub(crate) fn of_client(&self, client: u64) -> Option<Slot> {
        let all = self.iter().filter(|(_, session)| session.client == client && session.ending.is_none());
        let speaks = |session: &Session| match session.conn {
            Some(_) => 2,
            None => u8::from(session.met || session.window.is_used()),
        };
        all.max_by_key(|(_, session)| (speaks(session), session.id)).map(|(slot, _)| slot)
    }

    /// Number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Number of sessions for which this is true.
    pub(crate) fn count(&self, is_so: impl Fn(&Session) -> bool) -> usize {
        self.iter().filter(|(_, session)| is_so(session)).count()
    }

    /// Adds one. The caller has checked that there is room.
    pub(crate) fn insert(&mut self, session: Session) -> Slot {
        let slot = self.free.pop().unwrap_or(Slot(self.slots.len() as u16));
        self.by_id.insert(session.id, slot);
        if usize::from(slot.0) == self.slots.len() {
            self.slots.push(Some(session));
        } else {
            self.slots[usize::from(slot.0)] = Some(session);
        }
        slot
    }

    /// Removes one; its place is free after [`Sessions::free_slot`].
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Session> {
        let session = self.slots.get_mut(usize::from(slot.0))?.take()?;
        self.by_id.remove(&session.id);
        if let Some(conn) = session.conn.and_then(|conn| self.conns.get_mut(&conn)) {
            conn.slot = None;
        }
        Some(session)
    }

    /// A session ends: nobody speaks for it any more, while it keeps what it holds.
    pub(crate) fn silence(&mut self, slot: Slot, ending: Ending) {
        let Some(session) = self.get_mut(slot) else { return };
        session.ending = Some(ending);
        if let Some(conn) = session.conn.take().and_then(|conn| self.conns.get_mut(&conn)) {
            conn.slot = None;
        }
    }

    /// True if some sessions are ending.
    pub(crate) fn any_ends(&self) -> bool {
        self.iter().any(|(_, session)| session.ending.is_some())
    }

    /// The place of a removed session may be used again.
    pub(crate) fn free_slot(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Makes a connection the session's; the one it had before, if there was another.
    pub(crate) fn bind(&mut self, slot: Slot, conn: ConnId) -> Option<ConnId> {
        let before = self.get_mut(slot).and_then(|session| session.conn.replace(conn));
        if let Some(entry) = self.conns.get_mut(&conn) {
            entry.slot = Some(slot);
        }
        if let Some(session) = self.get_mut(slot) {
            session.pongs_owed = 0;
        }
        let before = before.filter(|before| *before != conn)?;
        if let Some(entry) = self.conns.get_mut(&before) {
            entry.slot = None;
        }
        Some(before)
    }

    /// The session's window knows the change from now on.
    pub(crate) fn remember(&mut self, mut origin: Origin, lsn: Lsn) -> Origin {
        let slot = self.find(origin.session);
        if let Some(session) = slot.and_then(|slot| self.get_mut(slot)) {
            session.window.applied(origin.seq, origin.ino, origin.value);
            session.unsaved.get_or_insert(lsn);
            origin.answered = session.window.answered();
        }
        origin
    }
}
