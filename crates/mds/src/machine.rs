//! The machine: its parts side by side, and which stage each input goes to.

use loligo_types::{Ino, StatFs};

use crate::background::Background;
use crate::balance::Balance;
use crate::checkpoint::Checkpointer;
use crate::cluster::Cluster;
use crate::config::{Config, Now};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::gate::Gate;
use crate::grace::Grace;
use crate::heat::Heat;
use crate::io::{Input, Output};
use crate::lease::Leases;
use crate::lock::Locks;
use crate::lookup_leases::LookupLeases;
use crate::open::Opens;
use crate::pace::Pace;
use crate::paths::PathCache;
use crate::recall::Recalls;
use crate::relaxed::Relaxed;
use crate::session::Sessions;
use crate::shortcuts::Shortcuts;
use crate::stray_objects::StrayObjects;
use crate::sync::Syncs;

/// Most orphans ended after one input.
const REAPS_PER_INPUT: usize = 64;

/// A metadata server's rank. Feed it with [`Mds::handle`], then carry out what [`Mds::pop`] gives until it is empty.
pub struct Mds {
    pub(crate) core: Core,
    pub(crate) gate: Gate,
    pub(crate) sessions: Sessions,
    pub(crate) leases: Leases,
    pub(crate) recalls: Recalls,
    pub(crate) opens: Opens,
    pub(crate) locks: Locks,
    pub(crate) discards: Discards,
    pub(crate) syncs: Syncs,
    pub(crate) tidy: EofCleanup,
    pub(crate) strays: StrayObjects,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) cluster: Cluster,
    pub(crate) background: Background,
    pub(crate) grace: Option<Grace>,
    pub(crate) statfs: StatFs,
    pub(crate) heat: Heat,
    pub(crate) balance: Balance,
    pub(crate) ways: PathCache,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) promises: LookupLeases,
    pub(crate) relaxed: Relaxed,
    pub(crate) decoupled: Decoupled,
    pub(crate) pace: Pace,
}

impl Mds {
    /// A machine over an existing table, before anything is known of it.
    pub(crate) fn empty(config: Config, now: Now) -> Mds {
        let heat = Heat::new(&config);
        let cluster = Cluster::new(&config.map, config.rank);
        Mds {
            core: Core::new(config, now),
            gate: Gate::default(),
            sessions: Sessions::default(),
            leases: Leases::default(),
            recalls: Recalls::default(),
            opens: Opens::default(),
            locks: Locks::default(),
            discards: Discards::default(),
            syncs: Syncs::default(),
            tidy: EofCleanup::default(),
            strays: StrayObjects::default(),
            checkpointer: Checkpointer::default(),
            cluster,
            background: Background::default(),
            grace: None,
            statfs: StatFs::default(),
            heat,
            balance: Balance::default(),
            ways: PathCache::default(),
            shortcuts: Shortcuts::default(),
            promises: LookupLeases::default(),
            relaxed: Relaxed::default(),
            decoupled: Decoupled::default(),
            pace: Pace::default(),
        }
    }

    /// Something happened. Time never goes back; an earlier time counts as the last one.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.core.now = Now { mono_ms: now.mono_ms.max(self.core.now.mono_ms), wall: now.wall };
        if self.core.log.failed {
            return;
        }
        match input {
            Input::Message { conn, msg } => self.message(conn, msg),
            Input::Durable { lsn } => self.durable(lsn),
            Input::Loaded { ticket, items } => self.loaded(ticket, items),
            Input::LoadGoesOn { ticket, dir, from_hash } => {
                self.cluster.atlas.load_goes_on(&mut self.core, ticket, dir, from_hash)
            }
            Input::LoadFailed { ticket } => self.load_failed(ticket),
            Input::Connected { conn, peer } => self.sessions.connected(conn, peer),
            Input::Disconnected { conn } => self.disconnected(conn),
            Input::JournalFailed => return self.journal_failed(),
            Input::CheckpointDone { id } => self.checkpoint_done(id),
            Input::MergeRowsDone { id, merged } => self.decoupled.merge_rows_done(&mut self.core, id, merged),
            Input::CheckpointFailed { id, full } => self.checkpointer.checkpoint_failed(&mut self.core, id, full),
            Input::Discarded { ino } => self.discarded(ino),
            Input::Strays { inos } => self.strays.take_list(&inos),
            Input::Restored { ino } => self.decoupled.put_back(&mut self.core, ino),
            Input::Kept { to, result } => self.decoupled.theirs_kept(&mut self.core, &mut self.opens, to, result),
            Input::Fork { ino, size } => self.decoupled.fork_is(&mut self.core, ino, size),
            Input::Spilled { ino, ok } => self.spilled(ino, ok),
            Input::DataInPlace { ino, upto, no_room } => self.data_in_place(ino, upto, no_room),
            Input::DataFailed => return self.data_failed(),
            Input::DataSynced { ticket, ok } => self.data_synced(ticket, ok),
            Input::PeerDead { session } => self.peer_dead(session),
            Input::PeerUp { rank } => self.cluster.peer_up(&mut self.core, &mut self.shortcuts, rank),
            Input::PeerDown { rank } => self.peer_down(rank),
            Input::Peer { from, msg } => self.peer_message(from, msg),
            Input::Map(map) => self.map_changed(map),
            Input::Scanned { ticket, page } => self.scanned(ticket, page),
            Input::Settled { table_upto } => self.table_settled(table_upto),
            Input::Quiesced { ticket, ok } => self.quiesced(ticket, ok),
            Input::Fenced { session } => self.fenced(session),
            Input::ShutOut { session } => self.shut_out(session),
            Input::Identities(left) => self.identities_left(&left),
            Input::Admin { id, ask } => self.admin(id, ask),
            Input::StatFs(totals) => self.statfs = totals,
            Input::Thread(load) => self.heat.measured(&self.core, load),
            Input::Decided(decision) => {
                self.balance.decided(&mut self.core, &mut self.cluster, &self.decoupled, decision)
            }
            Input::JournalSpace { used, limit } => {
                self.decoupled.journal_space(&mut self.core, &self.sessions, &self.cluster, used, limit)
            }
            Input::Full(full) => self.core.log.no_room = full,
            Input::JournalFull(full) => self.core.journal_full(full),
            Input::Tick => self.tick(),
            Input::Again => {
                self.step_merges();
                self.step_export();
            }
            Input::Stop => self.checkpointer.stop(&mut self.core, &self.cluster),
            Input::StopSoon => self.stop_soon(),
        }
        self.settle();
    }

    /// The next thing to do, in order.
    pub fn pop(&mut self) -> Option<Output> {
        self.core.out.pop_front()
    }

    /// All there is to do, in order.
    pub fn drain(&mut self) -> std::collections::vec_deque::Drain<'_, Output> {
        self.core.out.drain(..)
    }

    /// Work done so far by long works that go in steps, in units of some 25 ns: tells how long a step takes without measuring it.
    pub fn long_work(&self) -> u64 {
        self.pace.spent()
    }

    /// True if an answer waits until the journal is durable. None does where all that is asked for is relaxed.
    pub fn waits_for_journal(&self) -> bool {
        self.gate.len() > 0
    }

    /// Resumes requests whose wait is over.
    fn settle(&mut self) {
        loop {
            self.rooms_ended();
            while let Some(job) = self.core.parked.next_ready() {
                self.run(job);
                self.rooms_ended();
            }
            // After those of this rank, or they would never have a turn.
            if self.cluster.loans.take_due() {
                self.next_loans();
                continue;
            }
            if self.opens.reaps.is_empty() || self.grace.is_some() {
                break;
            }
            self.reap_some(self.core.config.some(REAPS_PER_INPUT));
            if !self.core.parked.has_ready() {
                break;
            }
        }
        if self.core.loads.is_time_to_evict() {
            // Those who waited for what was read have gone on.
            self.core.evict(&self.cluster, &self.grace);
        }
        if self.core.stopping {
            self.try_stop();
        }
    }

    /// Memory is ahead of the disk and cannot be trusted: nothing leaves any more.
    fn journal_failed(&mut self) {
        self.core.log.failed = true;
        self.core.out.clear();
        let text = "a write or sync of the journal failed, so changes in memory may be lost: check the disk under the \
                    data directory, then start the server again; it recovers everything it acknowledged";
        self.core.out.push_back(Output::Fatal { text: text.into() });
    }

    /// Objects do not take what was acknowledged, or not durably. The journal has it: the next life writes it again.
    pub(crate) fn data_failed(&mut self) {
        self.core.log.failed = true;
        self.core.out.clear();
        let text = "data that is durable in the journal could not be written to its objects, or not durably: check the disk under the data \
                    directory, then start the server again; it recovers everything it acknowledged";
        self.core.out.push_back(Output::Fatal { text: text.into() });
    }

    /// Totals for `statfs`: the store's, and the inodes counted below the root.
    pub(crate) fn totals(&self) -> StatFs {
        let counted = self.core.tree.inode(Ino::ROOT).map(|root| (root.rstat().entries + 1).max(1) as u64);
        StatFs { inodes: counted.unwrap_or(self.statfs.inodes), ..self.statfs }
    }
}
