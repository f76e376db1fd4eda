//! Letters: promises to other ranks, in the record that makes them true here; delivered in order, applied once. Here how they are kept, sent
//! and confirmed; those of others are opened in `stages/letters.rs`.

use std::sync::Arc;

use loligo_namespace::Need;
use loligo_types::{Event, Ino, Letter, Lsn, PeerRecord, Rank};

use crate::checkpoint::Checkpointer;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Exports, Peers, Where};
use crate::core::Core;
use crate::job::WaitReason;
use crate::peer::PeerMsg;
use crate::session::Sessions;

impl Core {
    /// The events that promise something to another rank. They must get into a record at once, each before the next call.
    pub(crate) fn write_letter(&self, to: Rank, letter: Letter) -> [Event; 2] {
        let peer = self.tree.peer(to);
        let seq = peer.sent + 1;
        [Event::Letter { to, seq, letter: Arc::new(letter) }, Event::Peer(PeerRecord { sent: seq, ..peer })]
    }
}

impl Peers {
    /// The records that put down how far letters have come, now and then.
    pub(super) fn acks_to_note(&self, core: &Core) -> Vec<Event> {
        let mut events = Vec::new();
        for (rank, link) in &self.links {
            let known = core.tree.peer(*rank);
            if link.received > known.acked && link.outbox.is_empty() {
                events.push(Event::Peer(PeerRecord { acked: link.received, ..known }));
            }
        }
        events
    }

    /// The newest record by which letters brought something, if the table is not known to have all of it.
    pub(super) fn newest_landing(&self) -> Option<Lsn> {
        self.links.values().filter_map(|link| link.landing.back().map(|(_, lsn)| *lsn)).max()
    }

    /// All records below this are in the table: tells others what of theirs is.
    pub(super) fn send_landed(&mut self, core: &mut Core, settled: Lsn) {
        let mut landed = Vec::new();
        for (rank, link) in &mut self.links {
            let before = link.landing.len();
            while link.landing.front().is_some_and(|(_, lsn)| *lsn < settled) {
                link.landing.pop_front();
            }
            if link.greeted && link.landing.len() < before {
                landed.push(*rank);
            }
        }
        landed.into_iter().for_each(|rank| self.repeat_acks(core, rank));
    }

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
