//! Letters of other ranks are opened and applied, those that move something here among them: what clients hold comes with it.
//! How letters are kept and sent: `letters.rs`.

use std::sync::Arc;

use loligo_types::{Event, Ino, Inode, Kind, Lease, Letter, MovedClient, PeerRecord, Rank, Route, SessionId};

use crate::cluster::Where;
use crate::cluster::import::{Moved, route_of};
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::Handle;
use crate::peer::{PeerMsg, TxId};
use crate::recall::{DATA, SHARED};
use crate::session::{Session, Slot};

impl Mds {
    /// A letter came.
    pub(crate) fn letter(&mut self, from: Rank, seq: u64, letter: Arc<Letter>) {
        let received = self.core.tree.peer(from).received;
        let Some(link) = self.cluster.peers.links.get_mut(&from) else { return };
        let next = link.inbox.back().map_or(received, |(last, _)| *last) + 1;
        if seq < next {
            // Sent again over a new connection.
            return self.core.tell_durably(from, PeerMsg::Received { upto: received });
        }
        if seq == next {
            link.inbox.push_back((seq, letter));
            self.open_letters(from);
        }
    }

    /// Applies what has come, in order, as far as nothing must be read for it.
    pub(crate) fn open_letters(&mut self, from: Rank) {
        // While something is merged half of it is in memory; in replay it is there at once, and what a letter made of half of it would come
        // over it.
        while !self.decoupled.is_merging()
            && let Some(link) = self.cluster.peers.links.get_mut(&from)
            && !link.reading
            && let Some((seq, letter)) = link.inbox.pop_front()
        {
            let peer = PeerRecord { received: seq, ..self.core.tree.peer(from) };
            let done = match &*letter {
                Letter::Commit { tx, events } => self.settle_loan(TxId { number: *tx, rank: from }, events, peer),
                Letter::Import { routes, events, clients } => {
                    self.import(from, None, &Moved { routes, events, clients }, peer)
                }
                Letter::Fragment { part, routes, events, clients } => {
                    self.import(from, Some(part), &Moved { routes, events, clients }, peer)
                }
                Letter::Sum { dir, entries, bytes } => self.add_sum(from, *dir, *entries, *bytes, peer),
            };
            if !done {
                if let Some(link) = self.cluster.peers.links.get_mut(&from) {
                    link.inbox.push_front((seq, letter));
                    link.reading = true;
                }
                return;
            }
            self.core.tell_durably(from, PeerMsg::Received { upto: seq });
            self.cluster.settle_peer(&mut self.core, &mut self.opens, &mut self.tidy, from);
        }
    }

    /// Goes on after the records that the letter at the head needed were read (or could not be).
    pub(crate) fn letter_loaded(&mut self, from: Rank) {
        if let Some(link) = self.cluster.peers.links.get_mut(&from) {
            link.reading = false;
            self.open_letters(from);
        }
    }

    /// Adds to the sums of a directory; false if the directory must be read first.
    fn add_sum(&mut self, from: Rank, dir: Ino, entries: i64, bytes: i64, peer: PeerRecord) -> bool {
        let mut wants = Vec::new();
        let place = match self.cluster.exports.has_moved(&mut self.core, &mut self.cluster.atlas, dir) {
            Ok(Some(rank)) => Where::Elsewhere(rank),
            Ok(None) => self.cluster.locate(&mut self.core, dir, &mut wants),
            Err(needs) => {
                wants = needs;
                Where::Unknown
            }
        };
        match place {
            Where::Unknown => {
                self.cluster.load(&mut self.core, wants, Waiter::Letter(from));
                return false;
            }
            Where::Here => {
                let mut events = vec![Event::Peer(peer)];
                if let Some(inode) = self.core.tree.inode(dir) {
                    let mut inode = inode.clone();
                    loligo_namespace::add_sum(&mut inode, entries, bytes);
                    events.push(Event::Inode(Box::new(inode)));
                }
                self.commit(None, &events);
            }
            Where::Elsewhere(rank) if rank == from => {
                // It has moved there meanwhile. One record of that rank says both, what came and what goes.
                let [letter, _] = self.core.write_letter(rank, Letter::Sum { dir, entries, bytes });
                self.commit(None, &[letter, Event::Peer(PeerRecord { sent: peer.sent + 1, ..peer })]);
            }
            Where::Elsewhere(rank) => {
                let [letter, sent] = self.core.write_letter(rank, Letter::Sum { dir, entries, bytes });
                self.commit(None, &[Event::Peer(peer), letter, sent]);
            }
        }
        true
    }

    /// Another rank has given a subtree. `part`: only fragments of a directory, with what was counted of it. False if something must be
    /// read first.
    fn import(&mut self, from: Rank, part: Option<&Inode>, moved: &Moved<'_>, peer: PeerRecord) -> bool {
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
