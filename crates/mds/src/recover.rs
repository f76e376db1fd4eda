//! Start: a new file system, or what the table and the journal tell of an old one.

use loligo_journal::Record;
use loligo_namespace::{Loaded, Tree, apply};
use loligo_types::{Event, Ino, Lsn, PeerRecord, Rank, SessionRecord, TableMeta};

use crate::cluster::Cluster;
use crate::config::{Config, Now};
use crate::core::Core;
use crate::grace::Grace;
use crate::machine::Mds;
use crate::session::{Session, Sessions, Slot};

impl Mds {
    /// A machine for a new file system: its first record makes the root.
    pub fn new(config: Config, now: Now) -> Mds {
        let mut mds = Mds::recover(config, TableMeta::default(), now);
        mds.recovered(now, Lsn(0));
        mds
    }

    /// Begins a start: then [`Mds::replay`] each record of the journal in order, then [`Mds::recovered`].
    pub fn recover(config: Config, meta: TableMeta, now: Now) -> Mds {
        let mut mds = Mds::empty(config, now);
        if meta.next_ino.0 != 0 {
            mds.core.tree.load(Loaded::NextIno(meta.next_ino));
        }
        mds.cluster.atlas.settled = meta.table_upto;
        for record in meta.sessions {
            mds.sessions.insert(Session::restore(&record, now.mono_ms));
            mds.core.tree.load(Loaded::Session(record));
        }
        for route in meta.routes {
            mds.cluster.atlas.routes.learn(route);
            mds.core.tree.load(Loaded::Route(route));
        }
        // As if they had been told: what another rank has given to this one is this one's with the letter, not before.
        mds.cluster.peers.learn_routes(
            &mut mds.core,
            &mut mds.cluster.atlas,
            &mut mds.balance,
            None,
            meta.other_routes,
        );
        for part in meta.parts {
            mds.core.tree.load(Loaded::Inode(part.ino, Some(Box::new(part))));
        }
        meta.peers.into_iter().for_each(|peer| mds.core.tree.load(Loaded::Peer(peer)));
        meta.decoupled.into_iter().for_each(|record| mds.core.tree.load(Loaded::Decoupled(Box::new(record))));
        meta.orphans.into_iter().for_each(|ino| mds.core.tree.load(Loaded::Orphan(ino)));
        for (ino, from, object_size) in meta.discards {
            mds.core.tree.load(Loaded::Discard { ino, from, object_size });
        }
        mds
    }

    /// A record of the journal.
    pub fn replay(&mut self, lsn: Lsn, record: &Record) {
        self.core.log.last = self.core.log.last.max(lsn);
        for event in &record.events {
            if lsn < self.cluster.atlas.settled && event.is_of_inode() {
                // It may be another rank's by now.
                continue;
            }
            if let Event::Peer(peer) = event {
                self.cluster.replay_received(&self.core, peer, lsn);
            }
            apply(&mut self.core.tree, event, lsn);
            match event {
                Event::Session(session) => self.sessions.replay_session(&self.core, session),
                Event::SessionGone(id) => {
                    if let Some(slot) = self.sessions.find(*id) {
                        self.sessions.remove(slot);
                        self.sessions.free_slot(slot);
                    }
                }
                Event::Letter { to, seq, letter } => self.cluster.peers.letter_written(*to, *seq, letter, lsn),
                Event::Route(route) => {
                    self.cluster.atlas.routes.learn(*route);
                    if route.rank == self.core.config.rank {
                        self.cluster.atlas.imported = lsn;
                    }
                }
                Event::RouteGone(dir) => self.cluster.atlas.routes.forget(*dir),
                Event::Xattr { .. } | Event::XattrGone { .. } => {
                    self.cluster.placement.note_pin(event);
                    self.decoupled.note_promise(event);
                    self.relaxed.note_policy(event, lsn);
                }
                _ => {}
            }
        }
        self.cluster.replay_departures(lsn, record);
        let Some(origin) = &record.origin else { return };
        let slot = self.sessions.find(origin.session);
        if let Some(session) = slot.and_then(|slot| self.sessions.get_mut(slot)) {
            session.window.forget_below(origin.answered);
            session.window.replay(origin.seq, origin.ino, origin.value);
            session.unsaved.get_or_insert(lsn);
            if !session.grants.is_empty() {
                crate::numbers::made_by(&record.events, |ino| _ = session.grants.use_up(ino));
            }
        }
    }

    /// Links to all others, without connections yet.
    fn begin_life(&mut self) {
        self.cluster.peers.life = u64::try_from(self.core.now.wall.0).unwrap_or(0).max(1);
        let others =
            self.cluster.atlas.map.ranks.iter().map(|info| info.rank).filter(|rank| *rank != self.core.config.rank);
        for rank in others.collect::<Vec<_>>() {
            let acked = self.core.tree.peer(rank).acked;
            let link = self.cluster.peers.links.entry(rank).or_default();
            link.outbox.retain(|(seq, ..)| *seq > acked);
            link.received = acked;
            for (seq, _, letter) in &link.outbox {
                if let Some(routes) = letter.gives() {
                    self.cluster.atlas.routes.is_under_way(routes, (rank, *seq));
                }
            }
        }
        self.forget_removed();
        self.cluster.begin_or_end_drain(&self.core);
        self.cluster.peers.check_ready(&mut self.core, &self.cluster.atlas);
    }

    /// All of the journal was replayed; `last` is its last record (also if that was trimmed). The grace time begins if
    /// there are sessions to wait for.
    pub fn recovered(&mut self, now: Now, last: Lsn) {
        self.core.now = now;
        self.recalls.begin(u64::try_from(now.wall.0).unwrap_or(0));
        self.core.log.last = self.core.log.last.max(last);
        self.core.log.durable = self.core.log.last;
        self.core.log.recovered = self.core.log.last;
        self.core.tree.free_some(usize::MAX);
        // Who sent them begins anew.
        self.core.tree.drop_merges();
        self.decoupled.recover_decoupled(&mut self.core, &mut self.sessions);
        // Counted in the life that they were made in.
        self.core.tree.take_recuts();
        self.begin_life();
        if self.core.config.rank == Rank::ZERO
            && self.core.log.last == Lsn(0)
            && self.core.tree.next_ino() <= Ino::FIRST
        {
            let (mode, uid, gid) = self.core.config.root;
            self.commit(None, &Tree::format(now.wall, mode, uid, gid));
        }
        let discards: Vec<(Ino, u64, u32)> = self.core.tree.discards().collect();
        for (ino, from, object_size) in discards {
            self.discards.add(ino, from, object_size, self.core.log.durable);
        }
        self.discards.emit_discards(&mut self.core);
        let (grace_ms, session_ms) = (u64::from(self.core.config.grace_ms), u64::from(self.core.config.session_ms));
        self.grace = Some(Grace::until(now.mono_ms + grace_ms, now.mono_ms + grace_ms.max(session_ms)));
        let local: Vec<Slot> = self.sessions.iter().filter(|(_, s)| s.local).map(|(slot, _)| slot).collect();
        local.into_iter().for_each(|slot| self.end_session(slot));
        self.check_grace();
        if self.grace.is_some() {
            // What it promised before to sessions that are still there.
            self.promises.raise_floor(now.mono_ms);
        }
    }
}

impl Cluster {
    /// A record that was made when a letter came: the other rank is not told that what it brought is in the table before it is.
    fn replay_received(&mut self, core: &Core, peer: &PeerRecord, lsn: Lsn) {
        if lsn >= self.atlas.settled && peer.received > core.tree.peer(peer.rank).received {
            self.peers.links.entry(peer.rank).or_default().landing.push_back((peer.received, lsn));
        }
    }

    /// Replays the departures of a record: inodes that it gave to another rank, which may not have them in the table
    /// yet; and those that it took.
    fn replay_departures(&mut self, lsn: Lsn, record: &Record) {
        let mut gone: &[Ino] = &[];
        for event in &record.events {
            match event {
                Event::Departed(inos) => gone = inos,
                Event::Letter { to, seq, letter } if letter.gives().is_some() => {
                    self.exports.replay_departure(&mut self.atlas, *to, *seq, gone, lsn);
                }
                // Back again.
                Event::Inode(inode) if inode.part_of().is_none() => drop(self.atlas.departed.remove(&inode.ino)),
                _ => {}
            }
        }
    }
}

impl Sessions {
    fn replay_session(&mut self, core: &Core, record: &SessionRecord) {
        let session = Session::restore(record, core.now.mono_ms);
        match self.find(record.id).and_then(|slot| self.get_mut(slot)) {
            Some(known) => *known = session,
            None => drop(self.insert(session)),
        }
    }
}
