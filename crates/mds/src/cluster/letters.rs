//! Letters: promises to other ranks, in the record that makes them true here; delivered in order, applied once.

use std::sync::Arc;

use loligo_namespace::Need;
use loligo_types::{Event, Ino, Letter, Lsn, PeerRecord, Rank};

use super::Where;
use super::import::Moved;
use crate::checkpoint::Checkpointer;
use crate::cluster::Atlas;
use crate::cluster::Cluster;
use crate::cluster::Exports;
use crate::cluster::Peers;
use crate::core::Core;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::park::WaitReason;
use crate::peer::{PeerMsg, TxId};
use crate::session::Sessions;

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

    /// Puts down how far letters have come, now and then.
    pub(crate) fn note_acks(&mut self) {
        if self.core.stopping || self.core.log.last > self.core.log.durable {
            return;
        }
        let mut events = Vec::new();
        for (rank, link) in &self.cluster.peers.links {
            let known = self.core.tree.peer(*rank);
            if link.received > known.acked && link.outbox.is_empty() {
                events.push(Event::Peer(PeerRecord { acked: link.received, ..known }));
            }
        }
        if !events.is_empty() {
            self.commit(None, &events);
        }
    }

    /// Tells others that what they sent is in the table.
    pub(crate) fn send_landed(&mut self) {
        let oldest =
            self.cluster.peers.links.values().filter_map(|link| link.landing.back().map(|(_, lsn)| *lsn)).max();
        if let Some(oldest) = oldest {
            self.settle_upto(oldest);
        }
        let settled = self.cluster.atlas.settled;
        let mut landed = Vec::new();
        for (rank, link) in &mut self.cluster.peers.links {
            let before = link.landing.len();
            while link.landing.front().is_some_and(|(_, lsn)| *lsn < settled) {
                link.landing.pop_front();
            }
            if link.greeted && link.landing.len() < before {
                landed.push(*rank);
            }
        }
        landed.into_iter().for_each(|rank| self.cluster.peers.repeat_acks(&mut self.core, rank));
    }
}

impl Core {
    /// The events that promise something to another rank. They must get into a record at once, each before the next call.
    pub(crate) fn write_letter(&self, to: Rank, letter: Letter) -> [Event; 2] {
        let peer = self.tree.peer(to);
        let seq = peer.sent + 1;
        [Event::Letter { to, seq, letter: Arc::new(letter) }, Event::Peer(PeerRecord { sent: seq, ..peer })]
    }
}

impl Peers {
    /// A record with a letter was made (or replayed).
    pub(crate) fn letter_written(&mut self, to: Rank, seq: u64, letter: &Arc<Letter>, lsn: Lsn) {
        let link = self.links.entry(to).or_default();
        link.outbox.push_back((seq, lsn, Arc::clone(letter)));
    }

    /// Sends what is durable and was not sent.
    pub(crate) fn send_letters(&mut self, core: &mut Core) {
        let durable = core.log.durable;
        for (rank, link) in &mut self.links {
            if !link.greeted {
                continue;
            }
            for (seq, lsn, letter) in &link.outbox {
                if *lsn > durable {
                    break;
                }
                if *seq > link.sent {
                    link.sent = *seq;
                    let msg = PeerMsg::Letter { seq: *seq, letter: Arc::clone(letter) };
                    core.out.push_back(crate::io::Output::Peer { to: *rank, msg });
                }
            }
        }
    }

    /// True if something is on its way to become a rank's. Until it is, no client is sent there: one that arrives before its
    /// holdings, and has no session there, would be told that it holds nothing.
    pub(crate) fn gives_to(&self, rank: Rank) -> bool {
        let link = self.links.get(&rank);
        link.is_some_and(|link| link.outbox.iter().any(|(.., letter)| letter.gives().is_some()))
    }

    /// Says up to which letter another rank may forget what it knew.
    pub(crate) fn repeat_acks(&self, core: &mut Core, rank: Rank) {
        let received = core.tree.peer(rank).received;
        let Some(link) = self.links.get(&rank) else { return };
        let upto = link.landing.front().map_or(received, |(seq, _)| seq - 1);
        core.tell_durably(rank, PeerMsg::Acked { upto });
    }
}

impl Atlas {
    /// The oldest record that is still needed for what other ranks do not have.
    pub(crate) fn oldest_promise(&self, peers: &Peers) -> Option<Lsn> {
        let letters = peers.links.values().filter_map(|link| link.outbox.front().map(|(_, lsn, _)| *lsn));
        letters.chain(self.departed.values().map(|(_, lsn)| *lsn)).min()
    }

    /// Splits the needs of sums: records of this rank to read, and directories of other ranks to which sums go up.
    pub(crate) fn sum_needs(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        needs: Vec<Need>,
    ) -> (Vec<Need>, Vec<Ino>) {
        let (mut here, mut abroad) = (Vec::new(), Vec::new());
        for need in needs {
            let Need::Inode(ino) = need else { continue };
            if let Where::Elsewhere(_) = self.locate(core, exports, ino, &mut here) {
                abroad.push(ino);
            }
        }
        (here, abroad)
    }
}

impl Cluster {
    /// Another rank has letters up to here.
    pub(crate) fn letters_received(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        checkpointer: &mut Checkpointer,
        from: Rank,
        upto: u64,
    ) {
        let Some(link) = self.peers.links.get_mut(&from) else { return };
        link.received = link.received.max(upto);
        let (mut fewer, mut given) = (false, false);
        while let Some((_, _, letter)) = link.outbox.front().filter(|(seq, ..)| *seq <= upto) {
            (fewer, given) = (true, given || letter.gives().is_some());
            link.outbox.pop_front();
        }
        self.exports.export_received(core, sessions, from, upto);
        let lines = self.atlas.routes.received(from, upto);
        if !lines.is_empty() {
            self.peers.spread_routes(core, &lines);
        }
        if given {
            // Those who wait to be sent there.
            core.parked.wake(&WaitReason::Moving);
        }
        if fewer {
            checkpointer.trim(core, sessions, self);
        }
    }

    /// Another rank has in the table what letters up to here brought.
    pub(crate) fn letters_acked(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        checkpointer: &mut Checkpointer,
        from: Rank,
        upto: u64,
    ) {
        let Some(link) = self.peers.links.get_mut(&from) else { return };
        if upto <= link.acked {
            return;
        }
        link.acked = upto;
        self.exports.export_landed(core, &mut self.atlas, from, upto);
        // Requests may wait for room in the journal while there is nothing to checkpoint.
        checkpointer.trim(core, sessions, self);
    }
}
