//! From a journal to a rank that serves: replay, the first record of a life, and the time in which sessions of before tell what they
//! held (`grace.rs` what is known of that).

use std::collections::BTreeSet;

use loligo_journal::Record;
use loligo_namespace::{Loaded, Tree, apply};
use loligo_types::msg::Reclaim;
use loligo_types::{Event, Ino, Kind, Lease, Lsn, OpenFlags, Rank, SessionId, TableMeta};

use crate::cluster::Where;
use crate::config::{Config, Now};
use crate::grace::{Grace, ORPHANS_KEPT_MS};
use crate::io::Peer;
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::open::{HANDLES_MAX, Handle};
use crate::paths::Policies;
use crate::recall::{DATA, SHARED};
use crate::rights::Squash;
use crate::session::{Session, Slot, Standing};

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
            self.core.data.replay(lsn, event);
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
        self.decoupled.recover_decoupled(&mut self.core, &self.sessions);
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
        self.core.data.recovered(now.mono_ms);
        self.core.emit_data();
        self.discards.emit_discards(&mut self.core);
        self.strays.begin(self.core.tree.next_ino());
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

    /// Ends the grace time if all known sessions came back or are gone, or if it is over; those that did not come back
    /// are evicted then.
    pub(crate) fn check_grace(&mut self) {
        let Some(grace) = &self.grace else { return };
        if self.core.now.mono_ms < self.sessions.grace_until(grace) {
            return;
        }
        let missing: Vec<Slot> = self.sessions.missing().map(|(slot, _)| slot).collect();
        // What they held nobody knows: until nothing of them can take effect any more nobody may act.
        let (in_steps, missing) =
            missing.into_iter().partition::<Vec<_>, _>(|slot| self.sessions.ends_in_steps(&self.core, *slot));
        in_steps.into_iter().for_each(|slot| self.evict_session(slot));
        if self.sessions.any_ends() {
            return;
        }
        self.grace = None;
        missing.into_iter().for_each(|slot| self.evict_session(slot));
        self.background.orphans_at_ms = Some(self.core.now.mono_ms + ORPHANS_KEPT_MS);
        self.core.parked.wake(&WaitReason::Grace);
    }

    /// The driver knows that the process of a session is dead.
    pub(crate) fn peer_dead(&mut self, session: SessionId) {
        if let Some(slot) = self.sessions.find(session)
            && self.sessions.get(slot).is_some_and(|session| session.conn.is_none())
        {
            self.end_session(slot);
        }
    }

    /// A session has come back all the way.
    pub(crate) fn reclaimed(&mut self, slot: Slot) {
        if let Some(session) = self.sessions.get_mut(slot) {
            session.standing = Standing::Here;
            self.check_grace();
        }
    }

    /// Takes the holdings of a session from before the restart. First the inodes that it had open are read.
    pub(crate) fn reclaim(&mut self, slot: Slot, held: Reclaim) {
        let Some(session) = self.sessions.get_mut(slot) else { return };
        if session.standing != Standing::Back || self.grace.is_none() {
            return;
        }
        session.standing = Standing::Reclaiming;
        let id = session.id;
        let peer = session.conn.and_then(|conn| self.sessions.conns.get(&conn)).map(|conn| &conn.peer);
        let (trusted, squash) = (peer.is_some_and(|peer| peer.trusted), peer.map_or(Squash::None, Peer::squash));
        let limited = peer.and_then(Peer::limited).cloned();
        let mut held = held;
        if peer.is_some_and(Peer::is_read_only) {
            // It cannot have had them: it is not believed.
            held.opens.retain(|(_, _, flags, _)| !(flags.write || flags.truncate || flags.append));
        }
        if let Some(grace) = &mut self.grace {
            grace.begin(id, held, (trusted, squash), limited);
        }
        self.reclaim_further(slot, id);
    }

    /// One of the reads for a reclaim is done.
    pub(crate) fn reclaim_loaded(&mut self, slot: Slot, id: SessionId) {
        if self.grace.as_mut().is_some_and(|grace| grace.one_is_read(id)) {
            self.reclaim_further(slot, id);
        }
    }

    /// One of them failed: it is tried again with the next tick.
    pub(crate) fn reclaim_failed(&mut self, slot: Slot, id: SessionId) {
        if let Some(grace) = &mut self.grace {
            grace.one_has_failed(id);
        }
        self.reclaim_loaded(slot, id);
    }

    /// A tick: what could not be read for a reclaim is read again.
    pub(crate) fn reclaim_again(&mut self) {
        let Some(grace) = &mut self.grace else { return };
        let sessions = grace.take_failed();
        self.reclaim_of(sessions);
    }

    /// Reads what is missing for a reclaim, or gives back what was held.
    fn reclaim_further(&mut self, slot: Slot, id: SessionId) {
        let Some((inos, rounds)) = self.grace.as_ref().and_then(|grace| grace.open_inos(id)) else { return };
        let needs = self.cluster.reclaim_needs(&mut self.core, &inos, rounds);
        let count = self.cluster.load(&mut self.core, needs, Waiter::Reclaim(slot, id));
        if self.grace.as_mut().is_none_or(|grace| grace.is_read_for(id, count)) {
            return;
        }
        let Some(refused) = self.ways.refused_by_paths(&mut self.core, &mut self.cluster, &mut self.grace, slot, id)
        else {
            return;
        };
        let Some((held, peer)) = self.grace.as_mut().and_then(|grace| grace.end(id)) else { return };
        let session = self.sessions.same(slot, id);
        if session.is_some_and(|session| session.standing == Standing::Reclaiming) {
            self.take_back(slot, id, held, peer, &refused);
            self.reclaimed(slot);
        }
    }

    /// Other ranks may have said where something is that limited sessions had open.
    fn reclaim_by_ways(&mut self) {
        let Some(grace) = &self.grace else { return };
        let sessions = grace.limited();
        self.reclaim_of(sessions);
    }

    fn reclaim_of(&mut self, sessions: Vec<SessionId>) {
        for id in sessions {
            match self.sessions.find(id) {
                Some(slot) => self.reclaim_further(slot, id),
                None => drop(self.grace.as_mut().and_then(|grace| grace.end(id))),
            }
        }
    }

    /// Gives a session back what it held. What conflicts with what others said before is asked back at once.
    fn take_back(
        &mut self,
        slot: Slot,
        id: SessionId,
        held: Reclaim,
        (trusted, squash): (bool, Squash),
        refused: &BTreeSet<(Ino, bool)>,
    ) {
        let believed = trusted && squash == Squash::None;
        for (number, ino, flags, rights) in &held.opens {
            if !refused.contains(&(*ino, flags.write))
                && (believed || self.sessions.may_take_back(&self.core, slot, squash, *ino, *flags))
            {
                self.take_back_open(slot, id, *number, *ino, *flags, *rights);
            } else if flags.write && self.sessions.get(slot).is_some_and(|session| !session.addresses.is_empty()) {
                // It may be writing that file in the store at this moment.
                return self.evict_session(slot);
            }
        }
        held.opens
            .iter()
            .for_each(|(_, ino, ..)| self.recalls.settle_reclaimed(&mut self.core, &self.sessions, &self.opens, *ino));
        for (ino, handle, lock) in held.locks {
            let known = self.opens.handle(slot, handle).is_some_and(|open| open.ino == ino);
            if known && !self.locks.is_full(ino) && self.locks.conflict(ino, slot, &lock).is_none() {
                self.locks.set(ino, slot, handle, lock);
            }
        }
        // All of them, however many: what is left out here would stay in the client's cache for ever.
        for (ino, bits) in held.leases {
            if bits.any(SHARED) {
                self.leases.grant(ino, slot, bits & SHARED);
            }
        }
        self.recalls.shed_leases(&mut self.core, &mut self.sessions, &mut self.leases, slot);
    }

    fn take_back_open(&mut self, slot: Slot, id: SessionId, number: u64, ino: Ino, flags: OpenFlags, rights: Lease) {
        let taken = self.opens.handles(slot) >= HANDLES_MAX || self.opens.handle(slot, number).is_some();
        // A directory of which this rank has only a part is open where its home is.
        let is_here = self.cluster.atlas.home_of_part(&self.core, ino).is_none();
        let kind = self.core.tree.inode(ino).filter(|_| is_here).map(|inode| inode.kind);
        if taken || !matches!(kind, Some(Kind::File | Kind::Dir)) {
            if let Where::Elsewhere(rank) = self.cluster.locate(&mut self.core, ino, &mut Vec::new()) {
                // What was open of it has gone there before the restart, if it was here. The client may close it before it hears of that.
                self.cluster.exports.note_moved_handles(&self.core, &[(slot, number)], rank);
            }
            return;
        }
        let is_file = kind == Some(Kind::File);
        let change = self.opens.open(slot, number, Handle::new(ino, flags));
        if is_file {
            self.relaxed.tell_access(&mut self.core, &self.decoupled, id, change);
            self.opens.give(ino, slot, rights & DATA);
        }
    }

    /// A tick: who waits asks again. The rank may not have been there, or something else may have it by now.
    pub(crate) fn ask_ways_again(&mut self) {
        if self.ways.forget_old(&mut self.core) {
            self.reclaim_by_ways();
        }
    }

    /// Another rank has said what is above an inode. One that does not have the inode is asked again with the next tick, or another
    /// one.
    pub(crate) fn way_told(&mut self, number: u64, ino: Ino, way: (Vec<u64>, Ino), bounds: Policies) {
        if self.ways.hear(&mut self.core, number, ino, way, bounds) {
            self.reclaim_by_ways();
        }
    }
}
