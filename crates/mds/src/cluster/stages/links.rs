//! Messages of other ranks, and that these come and go: each goes to the part that it concerns. State of the links: `link.rs`;
//! membership: `members.rs`.

use loligo_types::msg::ToClient;
use loligo_types::{ClusterMap, Event, Ino, Rank, Route};

use crate::io::Output;
use crate::job::WaitReason;
use crate::machine::Mds;
use crate::peer::PeerMsg;
use crate::session::{Session, Slot};

impl Mds {
    /// Hello was said late. What the other rank has said meanwhile counts from now on: the answers come behind it.
    pub(crate) fn hello_said(&mut self, to: Rank) {
        let early = self.cluster.peers.links.get_mut(&to).and_then(|link| link.early.take());
        early.unwrap_or_default().into_iter().for_each(|msg| self.peer_message(to, msg));
    }

    /// It is gone. What this rank has lent stays locked until that rank says what has become of it.
    pub(crate) fn peer_down(&mut self, rank: Rank) {
        self.cluster.exports.offers.retain(|(from, _)| *from != rank);
        let Some(link) = self.cluster.peers.links.get_mut(&rank) else { return };
        (link.up, link.greeted, link.early) = (false, false, None);
        link.inbox.clear();
        link.cached.clear();
        self.cluster.borrowing.void_loans_of(&mut self.core, rank);
        self.cluster.replicas.held.forget_replicas_of(&mut self.core, &mut self.shortcuts, rank);
        self.export_lost(rank);
    }

    /// A message came.
    pub(crate) fn peer_message(&mut self, from: Rank, msg: PeerMsg) {
        let Some(link) = self.cluster.peers.links.get_mut(&from) else { return };
        if !link.up {
            return;
        }
        if let Some(early) = &mut link.early {
            return early.push(msg);
        }
        match msg {
            PeerMsg::Hello { life, received, sent, map, routes } => {
                self.greeted(from, life, received, sent, &map, routes)
            }
            _ if !link.greeted => {}
            PeerMsg::Letter { seq, letter } => self.letter(from, seq, letter),
            PeerMsg::Received { upto } => {
                self.cluster.letters_received(&mut self.core, &self.sessions, &mut self.checkpointer, from, upto)
            }
            PeerMsg::Acked { upto } => {
                self.cluster.letters_acked(&mut self.core, &self.sessions, &mut self.checkpointer, from, upto)
            }
            PeerMsg::Routes(routes) => self.cluster.peers.learn_routes(
                &mut self.core,
                &mut self.cluster.atlas,
                &mut self.balance,
                Some(from),
                routes,
            ),
            PeerMsg::Gone(dir) => self.peer_gone(dir),
            PeerMsg::ClientGone { client } => self.client_gone(client),
            PeerMsg::Borrow { tx, round, client, wants } => self.borrowed(from, tx, round, client, wants),
            PeerMsg::Lent { tx, round, lent } => {
                let failed = self.cluster.borrowing.lent(&mut self.core, from, tx, round, lent);
                failed.into_iter().for_each(|(job, error)| self.fail(job, error));
            }
            PeerMsg::Denied { tx, round, error } => {
                let failed = self.cluster.borrowing.denied(&mut self.core, from, tx, round, error);
                failed.into_iter().for_each(|(job, error)| self.fail(job, error));
            }
            PeerMsg::Ready { tx } => self.cluster.borrowing.try_again(&mut self.core, from, tx),
            PeerMsg::Return { tx, again } => {
                self.cluster.loans.returned(&mut self.core, &mut self.opens, &mut self.tidy, tx, again)
            }
            PeerMsg::Offer { moving, .. } => {
                self.cluster.offered(&mut self.core, &self.sessions, &self.grace, from, moving)
            }
            PeerMsg::GiveBack { dir, to } => self.cluster.give_back_fragments(&mut self.core, &self.decoupled, dir, to),
            PeerMsg::Summon { dir } => self.decoupled.summoned(&mut self.core, &mut self.cluster, from, dir),
            PeerMsg::Stays { dir } => self.decoupled.not_given(&mut self.core, from, dir),
            PeerMsg::Accept { moving, refused } => self.accepted(from, moving, refused),
            PeerMsg::Cached(items) => link.cached = items,
            PeerMsg::Heat(heat) => self.heat.heat_came(&self.core, &self.cluster.atlas, &heat),
            PeerMsg::Empty => self.cluster.peer_empty(&mut self.core, from),
            PeerMsg::Farewell => self.cluster.peers.peer_farewell(from),
            PeerMsg::Beat(beats) => self.heat.beaten(&self.core, &self.cluster.atlas, &beats),
            PeerMsg::AskWay { number, ino } => self.cluster.tell_way(&mut self.core, from, number, ino),
            // All that this rank has promised of it is said before the answer.
            PeerMsg::AskBorn { ino } => self.core.tell_durably(from, PeerMsg::Born { ino }),
            PeerMsg::Born { ino } => {
                if let Some(ticket) = self.cluster.atlas.born(&self.core, &self.cluster.peers, from, ino) {
                    self.loaded(ticket, Vec::new());
                }
            }
            PeerMsg::AskName { dir, name } => self.cluster.tell_name(&mut self.core, &self.grace, from, dir, name),
            PeerMsg::NameIs { dir, name, ino } => {
                self.cluster.replicas.held.name_told(&mut self.core, &mut self.shortcuts, dir, name, ino)
            }
            PeerMsg::AskReplica { ino, sent_ms } => {
                self.cluster.lend_replica(&mut self.core, &self.grace, &self.decoupled, from, ino, sent_ms)
            }
            PeerMsg::Replica { sent_ms, inode } => {
                self.cluster.replicas.held.replica_came(&mut self.core, &mut self.shortcuts, from, sent_ms, inode)
            }
            PeerMsg::NoReplica { ino } => self.cluster.replicas.held.replica_refused(&mut self.core, ino),
            PeerMsg::DropReplica { ino } => {
                self.cluster.replicas.held.drop_replica(&mut self.core, &mut self.shortcuts, &self.promises, from, ino)
            }
            PeerMsg::ReplicaDropped { ino, promised_ms } => self.replica_dropped(from, ino, promised_ms),
            PeerMsg::KeepReplicas { sent_ms } => {
                self.cluster.replicas.lent.keep_replicas(&mut self.core, from, sent_ms)
            }
            PeerMsg::ReplicasKept { sent_ms } => {
                self.cluster.replicas.held.replicas_kept(&self.core, &mut self.shortcuts, from, sent_ms)
            }
            PeerMsg::Way { number, ino, up, at, bounds } => self.way_told(number, ino, (up, at), bounds),
        }
    }

    fn greeted(&mut self, from: Rank, life: u64, received: u64, sent: u64, map: &ClusterMap, routes: Vec<Route>) {
        if let Some(text) = self.cluster.peers.has_forgotten(&self.core, from, received, sent) {
            return self.core.out.push_back(Output::Fatal { text });
        }
        self.cluster.borrowing.void_loans_of(&mut self.core, from);
        self.cluster.loans.age_loans(from);
        self.forget_holder(from);
        let Some(link) = self.cluster.peers.links.get_mut(&from) else { return };
        link.greeted = true;
        link.life = life;
        link.promised = sent;
        link.sent = received;
        self.map_changed(map.clone());
        self.cluster.letters_received(&mut self.core, &self.sessions, &mut self.checkpointer, from, received);
        self.cluster.peers.learn_routes(&mut self.core, &mut self.cluster.atlas, &mut self.balance, Some(from), routes);
        self.cluster.peers.send_letters(&mut self.core);
        self.cluster.peers.repeat_acks(&mut self.core, from);
        self.cluster.settle_peer(&mut self.core, &mut self.opens, &mut self.tidy, from);
        self.cluster.say_empty(&mut self.core, from);
        self.cluster.atlas.ask_births_again(&mut self.core, from);
        // Those who wait for this rank try again.
        self.core.parked.wake(&WaitReason::Peers);
    }

    /// Another rank says that a directory with lines of its own is gone. What this rank has put down of it goes, too: the
    /// next life of any rank would take it for true.
    fn peer_gone(&mut self, dir: Ino) {
        self.cluster.atlas.routes.forget(dir);
        // With a part of it they go together, when the decision comes.
        if self.core.tree.has_lines(dir) && self.core.tree.part(dir).is_none() {
            self.commit(None, &[Event::RouteGone(dir)]);
        }
    }

    /// The cluster map has changed, as its keeper says or another rank that heard it before.
    pub(crate) fn map_changed(&mut self, map: ClusterMap) {
        if map.epoch <= self.cluster.atlas.map.epoch {
            return;
        }
        let was_alone = self.cluster.is_alone();
        let before = std::mem::replace(&mut self.cluster.atlas.map, map);
        self.cluster.atlas.routes.set_ranks(&self.cluster.atlas.map, self.core.config.rank);
        if was_alone {
            self.core.end_solitude();
        }
        for info in before.ranks {
            if !self.cluster.atlas.is_a_rank(&self.core, info.rank) {
                self.forget_rank(info.rank);
                self.cluster.atlas.removed.insert(info.rank);
            }
        }
        let map = &self.cluster.atlas.map;
        self.cluster.atlas.removed.retain(|rank| map.ranks.iter().all(|info| info.rank != *rank));
        self.cluster.atlas.doubt_nowhere();
        self.cluster.peers.greet_new_ranks(&self.core, &self.cluster.atlas);
        // Where things are may have been concluded from who was there, also by reads that are under way.
        self.cluster.atlas.foreign_inodes.clear();
        self.cluster.atlas.barrier = self.core.loads.newest();
        self.cluster.begin_or_end_drain(&self.core);
        // Those who wait for a rank that is gone, or for one that has come.
        self.core.parked.wake(&WaitReason::Peers);
        let conns: Vec<_> = self.sessions.iter().filter_map(|(_, session)| session.conn).collect();
        for conn in conns {
            self.core.out.push_back(Output::Send { conn, msg: ToClient::Map(self.cluster.atlas.map.clone()) });
        }
        self.cluster.peers.check_ready(&mut self.core, &self.cluster.atlas);
    }

    /// A rank was removed: it had nothing any more, all that it was told is in the table, and so is all that it told.
    fn forget_rank(&mut self, rank: Rank) {
        self.cluster.borrowing.void_loans_of(&mut self.core, rank);
        self.forget_holder(rank);
        self.cluster.borrowing.forget_found_at(rank);
        self.export_lost(rank);
        self.cluster.peers.links.remove(&rank);
        self.core.mail.retain(|(_, to, _)| *to != rank);
        self.core.out.retain(|output| !matches!(output, Output::Peer { to, msg: PeerMsg::Routes(_) } if *to == rank));
        self.cluster.exports.forget_given_to(&mut self.cluster.atlas, rank);
        for ino in self.cluster.atlas.births_of(rank) {
            if let Some(ticket) = self.cluster.atlas.is_told(&self.core, ino) {
                self.loaded(ticket, Vec::new());
            }
        }
    }

    /// Forgets the state of ranks that have been removed: they had handed it on.
    pub(crate) fn forget_removed(&mut self) {
        let known: Vec<Rank> = self.cluster.peers.links.keys().copied().collect();
        for rank in known {
            if !self.cluster.atlas.is_a_rank(&self.core, rank) {
                self.forget_rank(rank);
            }
        }
        self.cluster.atlas.doubt_nowhere();
        let given: Vec<Rank> = self.cluster.atlas.departed.values().map(|(rank, _)| *rank).collect();
        for rank in given {
            if !self.cluster.atlas.is_a_rank(&self.core, rank) {
                self.cluster.exports.forget_given_to(&mut self.cluster.atlas, rank);
            }
        }
    }

    /// Another rank says that a client has ended.
    fn client_gone(&mut self, client: u64) {
        if client != 0 {
            self.cluster.peers.note_gone(client);
            self.end_gone(std::iter::once(client));
        }
    }

    /// Ends the sessions of those of these clients that are gone. One that still has a connection here says goodbye over that; one that
    /// ends already waits for the store to refuse its client.
    pub(crate) fn end_gone(&mut self, clients: impl Iterator<Item = u64>) {
        for client in clients.filter(|client| *client != 0) {
            if !self.cluster.peers.gone.contains(&client) {
                continue;
            }
            let is_left = |own: &Session| own.client == client && own.conn.is_none() && own.ending.is_none();
            let slots: Vec<Slot> = self.sessions.iter().filter(|(_, own)| is_left(own)).map(|(slot, _)| slot).collect();
            slots.into_iter().for_each(|slot| self.goodbye(slot, false));
        }
    }

    /// A rank has one less.
    fn replica_dropped(&mut self, from: Rank, ino: Ino, promised_ms: u32) {
        if promised_ms > 0 {
            self.promises.note(ino, u64::from(promised_ms), self.core.now.mono_ms);
        }
        self.cluster.replicas.lent.give(ino, from);
        self.replicas_came_back();
    }

    pub(in crate::cluster) fn replicas_came_back(&mut self) {
        self.core.parked.wake(&WaitReason::Replicas);
        self.next_loans();
        if self.cluster.exports.is_active() {
            self.step_export();
        }
    }

    /// A rank has said hello, or was removed: it holds nothing. What it has promised by what it held it does not say.
    fn forget_holder(&mut self, rank: Rank) {
        self.promises.raise_floor(self.core.now.mono_ms);
        if !self.cluster.replicas.lent.is_empty() {
            self.cluster.replicas.lent.forget(rank);
            self.replicas_came_back();
        }
    }
}
