//! Connections to other ranks: hello, and when a rank that has started may serve.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_namespace::Need;
use loligo_types::msg::ToClient;
use loligo_types::{ClusterMap, Event, Frag, Ino, Letter, Loaded, Lsn, Rank, Route};

use crate::balance::Balance;
use crate::cluster::{Atlas, Cluster, Peers};
use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::io::Output;
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::Opens;
use crate::peer::PeerMsg;
use crate::session::{Session, Slot};
use crate::shortcuts::Shortcuts;

/// State of the link to another rank.
#[derive(Default)]
pub(crate) struct Link {
    /// There is a connection.
    pub(crate) up: bool,
    /// It has said hello on this connection.
    pub(crate) greeted: bool,
    /// Messages that came over this connection while this rank could not say hello yet; none once it has.
    pub(crate) early: Option<Vec<PeerMsg>>,
    /// Its life, when it last said hello.
    pub(crate) life: u64,
    /// It has promised letters up to this one before it said hello; its requests of before are void when they are here.
    pub(crate) promised: u64,
    /// It has said hello since this rank started, and its letters of before have come.
    pub(crate) settled: bool,
    /// Letters to it that it has not said to have: number, record, letter.
    pub(crate) outbox: VecDeque<(u64, Lsn, Arc<Letter>)>,
    /// Letters up to here were sent over this connection.
    pub(crate) sent: u64,
    /// It has letters up to here.
    pub(crate) received: u64,
    /// It needs none up to here again.
    pub(crate) acked: u64,
    /// Letters from it that were not applied yet.
    pub(crate) inbox: VecDeque<(u64, Arc<Letter>)>,
    /// Imports from it that the table does not have yet: number, record.
    pub(crate) landing: VecDeque<(u64, Lsn)>,
    /// Records of what its next migration brings.
    pub(crate) cached: Vec<Loaded>,
    /// A directory is being read for the letter at the head of the inbox.
    pub(crate) reading: bool,
    /// It has said that it has nothing any more, and waits to hear that nothing will come to it.
    pub(crate) empty: bool,
    /// It has said that nothing will come from it.
    pub(crate) farewell: bool,
}

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
        self.cluster.replicas.forget_replicas_of(&mut self.core, &mut self.shortcuts, rank);
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
                self.cluster.replicas.name_told(&mut self.core, &mut self.shortcuts, dir, name, ino)
            }
            PeerMsg::AskReplica { ino, sent_ms } => {
                self.cluster.lend_replica(&mut self.core, &self.grace, &self.decoupled, from, ino, sent_ms)
            }
            PeerMsg::Replica { sent_ms, inode } => {
                self.cluster.replicas.replica_came(&mut self.core, &mut self.shortcuts, from, sent_ms, inode)
            }
            PeerMsg::NoReplica { ino } => self.cluster.replicas.replica_refused(&mut self.core, ino),
            PeerMsg::DropReplica { ino } => {
                self.cluster.replicas.drop_replica(&mut self.core, &mut self.shortcuts, &self.promises, from, ino)
            }
            PeerMsg::ReplicaDropped { ino, promised_ms } => self.replica_dropped(from, ino, promised_ms),
            PeerMsg::KeepReplicas { sent_ms } => self.cluster.replicas.keep_replicas(&mut self.core, from, sent_ms),
            PeerMsg::ReplicasKept { sent_ms } => {
                self.cluster.replicas.replicas_kept(&self.core, &mut self.shortcuts, from, sent_ms)
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

    /// Another rank says so.
    pub(crate) fn client_gone(&mut self, client: u64) {
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
    pub(crate) fn replica_dropped(&mut self, from: Rank, ino: Ino, promised_ms: u32) {
        if promised_ms > 0 {
            self.promises.note(ino, u64::from(promised_ms), self.core.now.mono_ms);
        }
        self.cluster.replicas.lent.give(ino, from);
        self.replicas_came_back();
    }

    pub(super) fn replicas_came_back(&mut self) {
        self.core.parked.wake(&WaitReason::Replicas);
        self.next_loans();
        if self.cluster.exports.is_active() {
            self.step_export();
        }
    }

    /// A rank has said hello, or was removed: it holds nothing. What it has promised by what it held it does not say.
    pub(crate) fn forget_holder(&mut self, rank: Rank) {
        self.promises.raise_floor(self.core.now.mono_ms);
        if !self.cluster.replicas.lent.is_empty() {
            self.cluster.replicas.lent.forget(rank);
            self.replicas_came_back();
        }
    }
}

impl Peers {
    /// An error text if a rank does not know of letters that it once had or sent for good. The letters that it had are not here
    /// any more, and new ones under old numbers would be taken for those: the rank must not go on.
    fn has_forgotten(&self, core: &Core, from: Rank, received: u64, sent: u64) -> Option<String> {
        let had = self.links.get(&from).map_or(0, |link| link.received);
        let known = core.tree.peer(from).received;
        if received >= had && sent >= known {
            return None;
        }
        let me = core.me();
        Some(format!(
            "rank {from} has forgotten letters: of those from rank {me} it has {received} and had {had}, of its own to rank \
             {me} it knows of {sent} and {known} have come: its journal is an older copy, or was replaced; put the journal \
             back that it had, or restore the whole data directory from one backup"
        ))
    }

    /// Serves as soon as all others have said hello and their letters of before are here.
    pub(crate) fn check_ready(&mut self, core: &mut Core, atlas: &Atlas) {
        if self.ready {
            return;
        }
        let others = atlas.map.ranks.iter().filter(|info| info.rank != core.config.rank);
        let mut settled = others.map(|info| self.links.get(&info.rank).is_some_and(|link| link.settled));
        if settled.all(|settled| settled) {
            self.ready = true;
            core.parked.wake(&WaitReason::Peers);
        }
    }

    /// Tells the others again of directories that are gone, of which they still have lines: a message was lost. Not before
    /// all is here that may bring them. What brings one may still be under way, and a line may have come faster by another rank:
    /// then the directory is in the table, where it was before it moved, or this rank has another part of it.
    pub(crate) fn end_doubts(&self, core: &mut Core, atlas: &mut Atlas) {
        let settled = |link: &Link| link.settled && link.promised == 0 && link.inbox.is_empty();
        if atlas.unconfirmed_routes.is_empty() || !self.ready || !self.links.values().all(settled) {
            return;
        }
        let mut wants = Vec::new();
        for ((dir, frag), mut read_before) in std::mem::take(&mut atlas.unconfirmed_routes) {
            if !atlas.knows_nothing_of(core, dir, frag) {
                continue;
            }
            match atlas.exists(core, dir) {
                Some(true) => {}
                None => wants.push(Need::Inode(dir)),
                Some(false) if read_before => {
                    atlas.route_gone(core, self, dir);
                    continue;
                }
                Some(false) => {
                    // The read may have begun before the line was there: once more.
                    atlas.foreign_inodes.forget(dir);
                    read_before = true;
                }
            }
            atlas.unconfirmed_routes.insert((dir, frag), read_before);
        }
        if !wants.is_empty() {
            atlas.load(core, wants, Waiter::Nobody);
        }
    }

    /// Takes lines of the subtree map in that another rank told.
    ///
    /// Where a directory is whose number names this rank others ask here who know nothing of it. So what a third one says of that is asked
    /// of who is said to have it: if it is gone from there, as that one may not have heard, requests would be sent to and fro.
    pub(crate) fn learn_routes(
        &self,
        core: &mut Core,
        atlas: &mut Atlas,
        balance: &mut Balance,
        from: Option<Rank>,
        routes: Vec<Route>,
    ) {
        let mut news = false;
        for route in routes {
            if route.rank == core.me() {
                // Who has authority knows by itself: from a letter, or that the directory is gone.
                atlas.doubt(core, route.dir, route.frag);
                continue;
            }
            if atlas.routes.learn(route) {
                atlas.doubt_if_removed(route);
                balance.came_to(core, route.rank);
                news = true;
                // A line may name a rank that was removed since: nobody is asked there, and what it had others have.
                let is_there = self.links.contains_key(&route.rank);
                if is_there && from.is_some_and(|from| from != route.rank) && route.dir.zeroth_rank() == Some(core.me())
                {
                    core.tell(route.rank, PeerMsg::Routes(vec![route]));
                }
            }
        }
        if news {
            atlas.foreign_inodes.clear();
        }
    }
}

impl Atlas {
    /// True if no line says which rank has a fragment, and it is not this rank's by the number of its directory. A fragment that was this
    /// rank's has a line as long as its directory exists.
    fn knows_nothing_of(&self, core: &Core, dir: Ino, frag: Frag) -> bool {
        let routes = &self.routes;
        routes.line_of(dir, frag.first()).is_none() && routes.of(dir, frag.first()) != Some(core.me())
    }

    /// Another rank takes a directory for this one's, which does not have it: it is found out, and others are told, whether it is gone.
    pub(super) fn doubt(&mut self, core: &Core, dir: Ino, frag: Frag) {
        if self.knows_nothing_of(core, dir, frag) {
            // What was read of it before was read too early.
            self.foreign_inodes.forget(dir);
            self.unconfirmed_routes.insert((dir, frag), false);
        }
    }
}

impl Cluster {
    /// There is a connection. Hello is said when all that it tells is durable: a letter that is said to have come is never
    /// sent again, and a line that was told is believed by all.
    pub(crate) fn peer_up(&mut self, core: &mut Core, shortcuts: &mut Shortcuts, rank: Rank) {
        // Of an earlier connection.
        core.mail.retain(|(_, to, _)| *to != rank);
        let late = core.log.last > core.log.durable;
        let link = self.peers.links.entry(rank).or_default();
        (link.up, link.greeted, link.empty, link.farewell) = (true, false, false, false);
        link.early = late.then(Vec::new);
        let peer = core.tree.peer(rank);
        let msg = PeerMsg::Hello {
            life: self.peers.life,
            received: peer.received,
            sent: peer.sent,
            map: self.atlas.map.clone(),
            routes: self.atlas.routes.without_under_way(self.atlas.routes.all()),
        };
        self.borrowing.void_loans_of(core, rank);
        self.replicas.forget_replicas_of(core, shortcuts, rank);
        core.tell_durably(rank, msg);
    }

    /// When all that another rank promised before its hello is here, what it borrowed before is void, and, at the start,
    /// one reason less is there to wait.
    pub(crate) fn settle_peer(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup, from: Rank) {
        let received = core.tree.peer(from).received;
        let Some(link) = self.peers.links.get_mut(&from) else { return };
        if !link.greeted || received < link.promised {
            return;
        }
        if !link.settled || link.promised > 0 {
            link.settled = true;
            link.promised = 0;
        }
        self.loans.end_old_loans(core, opens, tidy, from);
        self.peers.check_ready(core, &self.atlas);
    }
}
