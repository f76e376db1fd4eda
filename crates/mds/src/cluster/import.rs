//! Migration, at the rank that gets a subtree: takes in what the table does not have, and what clients hold.

use loligo_types::{Event, FsError, Inode, Kind, Lease, Loaded, MovedClient, PeerRecord, Rank, Route, SessionId};

use crate::cluster::Atlas;
use crate::cluster::Cluster;
use crate::cluster::Peers;
use crate::core::Core;
use crate::grace::Grace;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::Handle;
use crate::peer::PeerMsg;
use crate::recall::{DATA, SHARED};
use crate::session::Sessions;
use crate::session::{Session, Slot};

/// Contents of a letter that moves something here.
pub(crate) struct Moved<'a> {
    pub(super) routes: &'a [Route],
    pub(super) events: &'a [Event],
    pub(super) clients: &'a [MovedClient],
}

fn route_of(event: &Event) -> Option<Route> {
    match event {
        Event::Route(route) => Some(*route),
        _ => None,
    }
}

impl Mds {
    /// It has. `part`: only fragments of a directory, with what was counted of it. False if something must be read first.
    pub(crate) fn import(&mut self, from: Rank, part: Option<&Inode>, moved: &Moved<'_>, peer: PeerRecord) -> bool {
        let Moved { routes, events, clients } = *moved;
        let mut all = events.to_vec();
        let mut merged = Vec::new();
        if let Some(part) = part {
            let mut needs = Vec::new();
            if self
                .cluster
                .atlas
                .take_fragment(&mut self.core, &mut self.cluster.exports, part, routes, &mut merged, &mut needs)
                .is_none()
                && !needs.is_empty()
            {
                self.cluster.load(&mut self.core, needs, Waiter::Letter(from));
                return false;
            }
        } else {
            for event in &mut all {
                if let Event::Inode(inode) = event {
                    self.cluster.atlas.take_home(&self.core, inode, routes, &mut merged);
                }
            }
        }
        // Before the record: what is here for good is held by somebody who is known for good.
        let slots: Vec<Slot> = clients.iter().map(|client| self.session_of(client)).collect();
        // Reads under way may bring what the other rank has changed since.
        self.cluster.atlas.barrier = self.core.loads.newest();
        self.cluster.atlas.foreign_inodes.clear();
        self.cluster.atlas.forget_absent(&mut self.core);
        for event in events {
            if let Event::Inode(inode) = event {
                self.cluster.atlas.departed.remove(&inode.ino);
            }
        }
        let mut record: Vec<Event> = routes.iter().map(|route| Event::Route(*route)).collect();
        record.extend(all);
        record.extend(merged);
        record.push(Event::Peer(peer));
        // Known before they are put down, so that others are told of all lines together.
        let told: Vec<Route> = record.iter().filter_map(route_of).collect();
        told.iter().for_each(|route| _ = self.cluster.atlas.routes.write(*route, self.core.log.last.next()));
        // What the other rank has promised of it this one does not know.
        self.promises.raise_floor(self.core.now.mono_ms);
        let lsn = self.commit(None, &record);
        self.cluster.atlas.imported = lsn;
        self.cluster.peers.spread_routes(&mut self.core, &told);
        self.cluster.peers.take_cached(&mut self.core, &mut self.cluster.atlas, from);
        for (slot, client) in slots.into_iter().zip(clients) {
            self.take_over(slot, client);
        }
        self.end_gone(clients.iter().map(|client| client.client));
        if let Some(link) = self.cluster.peers.links.get_mut(&from) {
            link.landing.push_back((peer.received, lsn));
        }
        self.settle_upto(lsn);
        true
    }

    /// The session of a client here; made if there is none. It has no connection until the client makes one.
    fn session_of(&mut self, client: &MovedClient) -> Slot {
        if let Some(slot) = self.sessions.of_client(client.client) {
            let Some(session) = self.sessions.get_mut(slot) else { return slot };
            let known = session.addresses.len();
            client.addresses.iter().for_each(|address| session.add_address(address));
            if session.addresses.len() > known {
                let record = session.record();
                self.commit(None, &[Event::Session(record)]);
            }
            return slot;
        }
        let id = SessionId::new(self.core.me(), self.core.log.last.next());
        let session = Session::moved(id, client, self.core.now.mono_ms);
        let record = session.record();
        let slot = self.sessions.insert(session);
        self.commit(None, &[Event::Session(record)]);
        slot
    }

    /// Gives the session here the holdings that the client had at the other rank.
    fn take_over(&mut self, slot: Slot, client: &MovedClient) {
        let Some(id) = self.sessions.get(slot).map(|session| session.id) else { return };
        for (number, ino, flags, rights) in &client.held.opens {
            let Some(kind) = self.core.tree.inode(*ino).map(|inode| inode.kind) else { continue };
            // It may have been here before.
            self.cluster.exports.moved_handles.remove(&(slot, *number));
            if self.opens.handle(slot, *number).is_some() {
                continue;
            }
            let change = self.opens.open(slot, *number, Handle::new(*ino, *flags));
            if kind == Kind::File {
                self.relaxed.tell_access(&mut self.core, &self.decoupled, id, change);
                self.opens.give(*ino, slot, *rights & DATA);
            }
        }
        for (ino, handle, lock) in &client.held.locks {
            let known = self.opens.handle(slot, *handle).is_some_and(|open| open.ino == *ino);
            if known && self.locks.conflict(*ino, slot, lock).is_none() {
                self.locks.set(*ino, slot, *handle, *lock);
            }
        }
        for (ino, bits) in &client.held.leases {
            if *bits & SHARED != Lease::NONE {
                self.leases.grant(*ino, slot, *bits & SHARED);
            }
        }
    }
}

impl Peers {
    /// Takes in what the other rank had in memory of it: nobody can have changed it since, and what was just put down counts.
    fn take_cached(&mut self, core: &mut Core, atlas: &mut Atlas, from: Rank) {
        let items = self.links.get_mut(&from).map(|link| std::mem::take(&mut link.cached));
        for item in items.unwrap_or_default() {
            if let Loaded::Inode(ino, Some(_)) = &item {
                atlas.departed.remove(ino);
            }
            if matches!(item, Loaded::Inode(_, Some(_)) | Loaded::Entry { found: Some(_), .. }) {
                core.tree.load(item);
            }
        }
    }
}

impl Cluster {
    /// Another rank would like to give a subtree. It may be what is just being dropped here, because it had moved there: that
    /// must be over before it comes back.
    pub(crate) fn offered(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        grace: &Option<Grace>,
        from: Rank,
        moving: u64,
    ) {
        if self.exports.drops() {
            return self.exports.offers.push((from, moving));
        }
        let able = self.peers.ready && grace.is_none() && !core.stopping && !core.is_short_of_space(sessions, self);
        let refused = (!able || !self.atlas.takes_more(core.me())).then_some(FsError::Busy);
        core.tell(from, PeerMsg::Accept { moving, refused });
    }
}
