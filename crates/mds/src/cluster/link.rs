//! Connections to other ranks: their state, hello, and when a rank that has started may serve. Lines of the subtree map are told with
//! hello, and doubted where they cannot be so. Where each message goes is in `stages/links.rs`.

use loligo_namespace::Need;
use loligo_types::{Frag, Ino, Rank, Route};

use crate::balance::Balance;
use crate::cluster::peers::Link;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Peers};
use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::open::Opens;
use crate::peer::PeerMsg;
use crate::shortcuts::Shortcuts;

impl Peers {
    /// An error text if a rank does not know of letters that it once had or sent for good. The letters that it had are not here
    /// any more, and new ones under old numbers would be taken for those: the rank must not go on.
    pub(super) fn has_forgotten(&self, core: &Core, from: Rank, received: u64, sent: u64) -> Option<String> {
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
        self.replicas.held.forget_replicas_of(core, shortcuts, rank);
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
