//! The work between ranks that comes with time: what ticks do, and what is put down or asked for again then. Not what messages do (`links.rs`).

use std::collections::BTreeSet;

use loligo_namespace::Need;
use loligo_types::{Event, Ino};

use crate::cluster::giveaway::Ground;
use crate::decouple::POLICY_TICKETS;
use crate::io::Page;
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::relaxed::TICKETS as RELAXED_TICKETS;

impl Mds {
    /// Goes on with giving everything away.
    fn step_drain(&mut self) {
        if self.core.stopping || self.grace.is_some() || !self.cluster.peers.ready {
            return;
        }
        let Some(mut drain) = self.cluster.drain.take() else { return };
        for _ in 0..4 {
            let before = drain.stage;
            if self.core.now.mono_ms >= drain.not_before_ms {
                let settled = drain.settling().is_some_and(|upto| self.settle_upto(upto));
                let waiting = self.gate.len();
                let mut ground = Ground {
                    core: &mut self.core,
                    cluster: &mut self.cluster,
                    decoupled: &self.decoupled,
                    heat: &self.heat,
                    discards: &self.discards,
                    tidy: &self.tidy,
                    sessions: &self.sessions,
                    waiting,
                };
                if drain.step(&mut ground, settled) {
                    self.drop_own_lines();
                    drain.part(&mut self.core, &mut self.cluster.peers);
                }
            }
            if drain.stage == before {
                break;
            }
        }
        self.cluster.drain = Some(drain);
    }

    /// Some of it has been looked through.
    pub(crate) fn scanned(&mut self, ticket: u64, page: Option<Page>) {
        if ticket >= POLICY_TICKETS {
            return self.decoupled.policies_scanned(&mut self.core, ticket, page);
        }
        if ticket > RELAXED_TICKETS {
            return self.relaxed.relaxed_scanned(&mut self.core, &mut self.cluster, ticket, page);
        }
        let Some(mut drain) = self.cluster.drain.take() else { return };
        drain.scanned(&mut self.core, &self.cluster.atlas, ticket, page);
        self.cluster.drain = Some(drain);
        self.step_drain();
    }

    /// Looks at all that this rank has parts of: in how many fragments it is cut, and with how many lines.
    fn recut_spread(&mut self) {
        if !self.cluster.peers.ready || self.grace.is_some() || self.core.stopping {
            return;
        }
        for dir in self.cluster.placement.parted_dirs(&self.core) {
            let busy = self.cluster.loans.locked(dir).is_some() || self.cluster.exports.is_of(dir);
            if busy {
                continue;
            }
            if let Some(cut) = self.cluster.placement.recut_one(&mut self.core, &mut self.cluster.atlas, dir) {
                self.commit(None, &[cut]);
            }
            while let Some(line) = self.cluster.atlas.join_lines(&self.core, dir) {
                self.commit(None, &[line]);
            }
        }
    }

    /// Writes what other ranks can only learn from the table.
    fn write_for_others(&mut self) {
        if std::mem::take(&mut self.cluster.atlas.told_by_table) {
            let upto = self.core.log.last;
            self.checkpoint_upto(upto);
        }
    }

    /// Puts down how far letters have come, now and then.
    fn note_acks(&mut self) {
        if self.core.stopping || self.core.log.last > self.core.log.durable {
            return;
        }
        let events = self.cluster.peers.acks_to_note(&self.core);
        if !events.is_empty() {
            self.commit(None, &events);
        }
    }

    /// Tells others that what they sent is in the table.
    pub(crate) fn send_landed(&mut self) {
        if let Some(newest) = self.cluster.peers.newest_landing() {
            self.settle_upto(newest);
        }
        self.cluster.peers.send_landed(&mut self.core, self.cluster.atlas.settled);
    }

    /// Does the cluster's work of a tick.
    pub(crate) fn cluster_tick(&mut self) {
        self.cluster.atlas.foreign_inodes.expire(self.core.now.mono_ms);
        self.cluster.atlas.births.expire(self.core.now.mono_ms);
        self.ask_ways_again();
        self.cluster.atlas.forget_absent(&mut self.core);
        self.cluster.atlas.step_riddles(&mut self.core);
        self.write_for_others();
        self.cluster.peers.end_doubts(&mut self.core, &mut self.cluster.atlas);
        self.forget_nowhere();
        self.expire_loans();
        self.expire_lent();
        self.cluster.replicas.held.keep_held(&mut self.core, &mut self.shortcuts);
        self.step_export();
        self.note_acks();
        self.send_landed();
        self.cluster.follow_pins(&mut self.core, &self.grace, &self.decoupled);
        self.recut_spread();
        self.cluster.spread_growing(&mut self.core, &self.grace, &self.decoupled);
        self.step_drain();
        self.cluster.give_home(&mut self.core, &self.grace);
        self.cluster.say_farewells(&mut self.core);
        if std::mem::take(&mut self.cluster.peers.again) {
            self.core.parked.wake(&WaitReason::Peers);
        }
    }

    /// This rank has nothing any more: lines by which something is still its own are of directories that are gone, and the next rank with its number
    /// would take them for true.
    fn drop_own_lines(&mut self) {
        let own = self
            .cluster
            .atlas
            .routes
            .all()
            .into_iter()
            .filter(|line| line.rank == self.core.me() && self.core.tree.has_lines(line.dir));
        let dirs: BTreeSet<Ino> = own.map(|line| line.dir).collect();
        let events: Vec<Event> = dirs.into_iter().map(Event::RouteGone).collect();
        if !events.is_empty() {
            self.commit(None, &events);
        }
    }

    /// Forgets lines that lead nowhere of directories that are gone. Also when a rank of that number has come again: it is another one.
    fn forget_nowhere(&mut self) {
        if self.cluster.atlas.nowhere.is_empty() || !self.cluster.peers.ready {
            return;
        }
        let (mut wants, mut forgotten) = (Vec::new(), false);
        for (key, (line, mut read_before)) in std::mem::take(&mut self.cluster.atlas.nowhere) {
            let dir = line.dir;
            if !self.cluster.atlas.routes.has(&line) {
                continue;
            }
            match self.cluster.atlas.exists(&self.core, dir) {
                // A later line comes.
                Some(true) => read_before = false,
                None => wants.push(Need::Inode(dir)),
                Some(false) if read_before => {
                    self.cluster.atlas.routes.forget(dir);
                    if self.core.tree.has_lines(dir) && self.core.tree.part(dir).is_none() {
                        self.commit(None, &[Event::RouteGone(dir)]);
                    }
                    forgotten = true;
                    continue;
                }
                Some(false) => {
                    // The read may have begun before the rank was gone: once more.
                    self.cluster.atlas.foreign_inodes.forget(dir);
                    read_before = true;
                }
            }
            self.cluster.atlas.nowhere.insert(key, (line, read_before));
        }
        if !wants.is_empty() {
            self.cluster.load(&mut self.core, wants, Waiter::Nobody);
        }
        if forgotten {
            self.core.parked.wake(&WaitReason::Peers);
        }
    }

    /// Replicas of ranks that were not heard for long do not count any more.
    fn expire_lent(&mut self) {
        for rank in self.cluster.replicas.lent.late(self.core.now.mono_ms) {
            self.cluster.replicas.lent.forget(rank);
            self.replicas_came_back();
        }
    }
}
