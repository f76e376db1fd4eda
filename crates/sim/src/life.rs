//! The ranks as the world sees them: they start, do what they want done, stop in order or at any moment, alone or all
//! together, and start again.

use std::rc::Rc;
use std::sync::Arc;

use loligo_store::mem::{CrashPlan, Keep};
use loligo_store::{Backend, Durability};
use loligo_types::{Lsn, Rank, SessionId};

use crate::server::{Act, Disks, Server, Start, Work};
use crate::world::{Event, World};

impl World {
    /// The disk that all share, opened.
    pub fn shared(&mut self) -> Result<Arc<dyn Backend>, String> {
        if let Some(store) = &self.store {
            return Ok(Arc::clone(store));
        }
        let store: Arc<dyn Backend> = self.disk.open().map_err(|e| e.to_string())?;
        Ok(Arc::clone(self.store.insert(store)))
    }

    fn disks(&mut self, rank: usize) -> Result<Disks, String> {
        let shared = self.shared()?;
        let journal = self.seats[rank].journal.open().map_err(|e| e.to_string())?;
        Ok(Disks { shared, journal })
    }

    pub fn start_server(&mut self, rank: usize) {
        if self.seats[rank].server.is_some() || self.seats[rank].stopped || !self.is_member(rank) {
            return;
        }
        let disks = match self.disks(rank) {
            Ok(disks) => disks,
            Err(error) => return self.wrong(format!("a disk of rank {rank} does not open: {error}")),
        };
        let has_direct = self.options.direct && !(self.knobs.direct.some_ranks && self.rng.one_in(4));
        let start = Start {
            blobs: self.objects(disks.shared.blobs()),
            direct: self.options.direct,
            config: loligo_mds::Config {
                rank: Rank(rank as u16),
                map: self.map.clone(),
                data_epoch: self.seats[rank].data_epoch,
                after_crash: self.seats[rank].after_crash,
                direct: has_direct.then(|| "the store".into()),
                // Nothing orders what clients write there with what a rank writes for its journal.
                journal_max: if self.options.direct { 0 } else { self.knobs.server.journal_max },
                ..self.knobs.server.clone()
            },
            segment_size: self.knobs.segment_size,
            journal_limit: self.knobs.journal_limit,
            canary: self.options.canary,
            rows_upto: Rc::clone(&self.seats[rank].rows_upto),
            chance: self.rng.bits(),
            trace: self.options.trace,
            relaxed: self.options.relaxed,
            rows_apart: self.knobs.rows_apart,
            durability: if self.knobs.table_syncs { Durability::Sync } else { Durability::Buffered },
        };
        let now = self.mds_now(rank);
        match Server::start(disks, start, now) {
            Ok((server, faults)) => {
                self.seats[rank].life = self.next_life;
                self.seats[rank].after_crash = false;
                self.relaxed.borrow_mut().recovered(rank, server.found_upto, self.now);
                self.next_life += 1;
                self.note(|| format!("rank {rank} starts"));
                self.seats[rank].server = Some(server);
                for fault in faults {
                    self.wrong(format!("after a restart: {fault}"));
                }
                self.acts(rank);
            }
            // Whoever started it starts it again.
            Err(text) if self.disk_faults => {
                self.note(|| format!("rank {rank} does not start: {text}"));
                self.seats[rank].journal.crash(&CrashPlan::lose_nothing());
                self.after(100_000, Event::StartServer(rank));
            }
            Err(text) => self.wrong(format!("rank {rank} does not start: {text}")),
        }
    }

    /// True if all ranks run.
    pub fn all_up(&self) -> bool {
        self.members().into_iter().all(|rank| self.seats[rank].server.is_some())
    }

    /// True if all ranks have stopped in order.
    pub fn all_stopped(&self) -> bool {
        self.members().into_iter().all(|rank| self.seats[rank].stopped)
    }

    /// Lets a rank do something, and carries out what it wants.
    pub fn with_server(&mut self, rank: usize, work: impl FnOnce(&mut Server, loligo_mds::Now)) {
        let now = self.mds_now(rank);
        if let Some(server) = &mut self.seats[rank].server {
            work(server, now);
            self.acts(rank);
        }
    }

    fn acts(&mut self, rank: usize) {
        while let Some(act) = self.seats[rank].server.as_mut().and_then(|server| server.out.pop_front()) {
            match act {
                Act::Send { conn, msg } => self.send_to_client(conn, msg),
                Act::Close { conn } => self.close_by_server(conn),
                Act::Begin(work) => {
                    let us = self.delay_of(&work);
                    let life = self.seats[rank].life;
                    self.after(us, Event::Work { rank, life, work });
                }
                Act::Fenced { session } => self.fenced(rank, session),
                Act::Gone { session, lsn } => self.gone(rank, session, lsn),
                Act::ShutOut { session, addresses } => self.shut_out(rank, session, addresses),
                Act::Changed { lsn, events } => self.relaxed.borrow_mut().record(rank, lsn, self.now, &events),
                Act::Peer { to, msg } => self.send_to_peer(rank, usize::from(to.0), msg),
                Act::Balance(snapshot) => self.ask_worst(rank, &snapshot),
                Act::Member(member) => self.member_says(rank, member),
                Act::Told { id, told } => self.told(rank, id, &told),
                Act::Durable(lsn) => self.durable(rank, lsn),
                Act::DataFailed => self.data.server_lost(),
                Act::Note(text) => self.note(|| format!("rank {rank} {text}")),
                Act::Fatal(text) => {
                    self.note(|| format!("rank {rank} fails: {text}"));
                    let plan = self.crash_plan();
                    return self.crash_server(rank, &plan);
                }
                Act::Stopped => {
                    self.note(|| format!("rank {rank} stopped"));
                    if self.seats[rank].leaves && !self.stopping {
                        return self.rank_has_left(rank);
                    }
                    self.seats[rank].stopped = true;
                    if !self.ends && self.all_stopped() {
                        return self.restart_in_order();
                    }
                }
            }
        }
    }

    fn learn_sessions(&mut self, rank: usize) {
        if let Some(server) = &mut self.seats[rank].server {
            self.clients.extend(server.watch.begun.drain(..));
        }
    }

    /// A session is to end.
    fn fenced(&mut self, rank: usize, session: SessionId) {
        self.note(|| format!("rank {rank} ends session {session}"));
        self.outcome.faults[3] += 1;
        self.fenced.insert(session);
        self.learn_sessions(rank);
        let client = self.clients.get(&session).copied().unwrap_or(0);
        self.ended_at.insert((session.rank(), client));
        self.locks.ended(client);
        let now = self.nodes.iter().find(|node| node.life == client).map(|node| node.epoch);
        for epoch in self.epochs.get(&session).copied().into_iter().chain(now) {
            self.data.client_lost(epoch);
        }
    }

    /// It is gone with this record, which nothing is to follow that it has asked for.
    fn gone(&mut self, rank: usize, session: SessionId, lsn: Lsn) {
        if self.fenced.contains(&session) {
            self.note(|| format!("session {session} is gone with record {lsn} of rank {rank}"));
            self.seats[rank].fences.push((session, lsn));
        }
    }

    fn durable(&mut self, rank: usize, lsn: Lsn) {
        self.learn_sessions(rank);
        if let Some(server) = &mut self.seats[rank].server {
            let (known, later) = server.watch.spilled.drain(..).partition(|(with, _)| *with <= lsn);
            let known: Vec<(Lsn, u64)> = known;
            server.watch.spilled = later;
            self.spilled.extend(known.into_iter().map(|(_, ino)| ino));
        }
        let fences = self.seats[rank].fences.drain(..);
        let (ended, left): (Vec<_>, Vec<_>) = fences.partition(|(_, with)| *with <= lsn);
        self.seats[rank].fences = left;
        for (session, _) in ended {
            self.ended.insert(session);
            self.close_lost_of(session);
        }
    }

    fn delay_of(&mut self, work: &Work) -> u64 {
        let (short, long) = match work {
            Work::JournalWrite | Work::JournalSync => self.knobs.journal,
            Work::Table | Work::LoadRead { .. } | Work::LoadDone { .. } => self.knobs.table,
            // Between the steps of a long work, too, other things have their turn for long.
            Work::Effect { .. } | Work::EffectDone { .. } | Work::Again | Work::Decided(_) => self.knobs.data,
            Work::ShutOut { .. } | Work::Tick => return 20_000,
        };
        self.rng.delay(short, long)
    }

    /// All ranks are told to stop; they start again when the last one has. Not while one of them is down.
    pub fn stop_servers(&mut self) {
        if !self.all_up() || self.seats.iter().any(|seat| seat.leaves) {
            return;
        }
        self.stopping = true;
        for rank in 0..self.seats.len() {
            self.with_server(rank, |server, now| server.stop(now));
        }
    }

    /// The ranks have stopped in order: all that they answered is made durable, and they start again.
    fn restart_in_order(&mut self) {
        let synced = self.seats.iter().filter_map(|seat| seat.server.as_ref()).all(Server::sync_all);
        if !synced {
            let plan = self.crash_plan();
            return self.crash_all(&plan);
        }
        self.outcome.faults[0] += 1;
        self.note(|| "all stopped, to be started again".into());
        self.end_all(&CrashPlan::lose_all());
    }

    /// Ends a rank's life, and counts what it has done.
    pub fn take_server(&mut self, rank: usize) -> Option<Server> {
        // Those of records that are lost now are never spoken of.
        self.learn_sessions(rank);
        self.end_of_heat(rank);
        let server = self.seats[rank].server.take()?;
        self.relaxed.borrow_mut().crashed(rank, self.now);
        let status = server.mds.status();
        self.relaxed.borrow_mut().counts.early += status.relaxed.early;
        self.outcome.recuts.0 += status.splits;
        self.outcome.recuts.1 += status.merges;
        self.outcome.balanced += status.balance.moves;
        Some(server)
    }

    /// One rank's machine or process stops: of its journal the plan says what is left; table and objects are elsewhere.
    pub fn crash_server(&mut self, rank: usize, plan: &CrashPlan) {
        if self.seats.len() == 1 || self.stopping {
            // Ranks that stop together end together.
            return self.crash_all(plan);
        }
        if self.take_server(rank).is_none() {
            return;
        }
        self.outcome.faults[0] += 1;
        self.seats[rank].data_epoch += 1;
        self.seats[rank].after_crash = true;
        self.note(|| format!("rank {rank} crashes: {plan:?}"));
        self.seats[rank].journal.crash(plan);
        self.lose_server(rank);
    }

    /// All ranks stop at once, and so does what they share.
    pub fn crash_all(&mut self, plan: &CrashPlan) {
        if self.seats.iter().all(|seat| seat.server.is_none()) {
            // One by one they have crashed before; what was planned for the disk they share goes now.
            self.disk.heal();
            self.disk_faults = false;
            return;
        }
        self.outcome.faults[0] += 1;
        for seat in &mut self.seats {
            seat.data_epoch += 1;
            seat.after_crash = true;
        }
        self.note(|| format!("all ranks crash: {plan:?}"));
        self.end_all(plan);
        if plan.keep != Keep::All && !self.options.direct {
            self.data.server_lost();
        }
    }

    fn end_all(&mut self, plan: &CrashPlan) {
        self.disk_faults = false;
        self.stopping = false;
        for rank in 0..self.seats.len() {
            self.seats[rank].stopped = false;
            if self.take_server(rank).is_some() {
                let seed = plan.seed.wrapping_add(rank as u64 + 1);
                self.seats[rank].journal.crash(&CrashPlan { seed, ..*plan });
                self.lose_server(rank);
            }
        }
        self.store = None;
        // A cluster lives on.
        let plan = if self.options.direct { CrashPlan::lose_nothing() } else { *plan };
        self.disk.crash(&plan);
    }

    /// Nothing of it is left but its disk: connections break, and after a while it starts again.
    pub fn lose_server(&mut self, rank: usize) {
        self.seats[rank].fences.clear();
        self.seats[rank].leaves = false;
        self.seats[rank].life = 0;
        let of_it = self.net.conns.iter().filter(|(_, conn)| conn.rank == rank);
        let conns: Vec<u64> = of_it.map(|(id, _)| *id).collect();
        for id in conns {
            let (rng, now) = (&mut self.rng, self.now);
            let Some(conn) = self.net.conns.get_mut(&id) else { continue };
            conn.up.drop_all();
            conn.gone_up = true;
            let end = conn.down.cut(rng, now);
            let us = self.rng.delay(1000, 100_000);
            self.at(end + us, Event::GoneClient(id));
        }
        self.lose_peers_of(rank);
        let us = self.rng.range(1_000, 400_000);
        self.after(us, Event::StartServer(rank));
    }
}
