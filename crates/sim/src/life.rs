//! The server as the world sees it: it starts, does what it wants done, stops in order or at any moment, and starts again.

use loligo_store::Backend;
use loligo_store::mem::CrashPlan;
use loligo_types::Lsn;

use crate::server::{Act, Server, Start, Work};
use crate::world::{Event, World};

impl World {
    pub fn start_server(&mut self) {
        if self.server.is_some() || self.stopped {
            return;
        }
        let backend: std::sync::Arc<dyn Backend> = match self.disk.open() {
            Ok(backend) => backend,
            Err(error) => return self.wrong(format!("the disk does not open: {error}")),
        };
        let start = Start {
            config: loligo_mds::Config { data_epoch: self.data_epoch, ..self.knobs.server.clone() },
            segment_size: self.knobs.segment_size,
            journal_limit: self.knobs.journal_limit,
            canary: self.options.canary,
            chance: self.rng.bits(),
        };
        let now = self.mds_now();
        match Server::start(backend, start, now) {
            Ok((server, faults)) => {
                self.server_life = self.next_life;
                self.next_life += 1;
                self.note(|| "server starts".into());
                self.server = Some(server);
                for fault in faults {
                    self.wrong(format!("after a restart: {fault}"));
                }
                self.acts();
            }
            Err(text) => self.wrong(format!("the server does not start: {text}")),
        }
    }

    /// Lets the server do something, and carries out what it wants.
    pub fn with_server(&mut self, work: impl FnOnce(&mut Server, loligo_mds::Now)) {
        let now = self.mds_now();
        if let Some(server) = &mut self.server {
            work(server, now);
            self.acts();
        }
    }

    fn acts(&mut self) {
        while let Some(act) = self.server.as_mut().and_then(|server| server.out.pop_front()) {
            match act {
                Act::Send { conn, msg } => self.send_to_client(conn, msg),
                Act::Close { conn } => self.close_by_server(conn),
                Act::Begin(work) => {
                    let us = self.delay_of(&work);
                    self.after(us, Event::Work { life: self.server_life, work });
                }
                Act::Fenced { session, lsn } => {
                    self.note(|| format!("session {session} ends with record {lsn}"));
                    self.outcome.faults[3] += 1;
                    self.fenced.insert(session);
                    self.fences.push((session, lsn));
                    self.locks.ended(session);
                    if let Some(epoch) = self.epochs.get(&session) {
                        self.data.client_lost(*epoch);
                    }
                }
                Act::Durable(lsn) => self.durable(lsn),
                Act::DataFailed => self.data.server_lost(),
                Act::Fatal(text) => {
                    self.note(|| format!("server fails: {text}"));
                    let plan = self.crash_plan();
                    return self.crash_server(&plan);
                }
                Act::Stopped if self.ends => {
                    self.stopped = true;
                    self.note(|| "server stopped".into());
                }
                Act::Stopped => return self.restart_in_order(),
            }
        }
    }

    fn durable(&mut self, lsn: Lsn) {
        if let Some(server) = &mut self.server {
            let (known, later) = server.watch.spilled.drain(..).partition(|(with, _)| *with <= lsn);
            let known: Vec<(Lsn, u64)> = known;
            server.watch.spilled = later;
            self.spilled.extend(known.into_iter().map(|(_, ino)| ino));
        }
        let (ended, left): (Vec<_>, Vec<_>) = self.fences.drain(..).partition(|(_, with)| *with <= lsn);
        self.fences = left;
        for (session, _) in ended {
            self.ended.insert(session);
            let (gone, left): (Vec<_>, Vec<_>) = self.lost.drain(..).partition(|(of, _)| *of == session);
            self.lost = left;
            gone.into_iter().for_each(|(_, call)| self.close_lost(call));
        }
    }

    fn delay_of(&mut self, work: &Work) -> u64 {
        let (short, long) = match work {
            Work::JournalWrite | Work::JournalSync => self.knobs.journal,
            Work::Table | Work::LoadRead { .. } | Work::LoadDone { .. } => self.knobs.table,
            Work::Effect { .. } | Work::EffectDone { .. } => self.knobs.data,
            Work::Tick => return 20_000,
        };
        self.rng.delay(short, long)
    }

    /// The server has stopped in order: all that it answered is made durable, and another one starts.
    fn restart_in_order(&mut self) {
        let synced = self.server.as_ref().is_some_and(|server| server.blobs.sync_all().is_ok());
        if !synced {
            let plan = self.crash_plan();
            return self.crash_server(&plan);
        }
        self.outcome.faults[0] += 1;
        self.note(|| "server stopped, to be started again".into());
        self.server = None;
        self.disk.crash(&CrashPlan::lose_all());
        self.lose_server();
    }

    /// The server's machine or process stops.
    pub fn crash_server(&mut self, plan: &CrashPlan) {
        if self.server.take().is_none() {
            return;
        }
        self.outcome.faults[0] += 1;
        self.data_epoch += 1;
        self.note(|| format!("server crashes: {plan:?}"));
        self.disk.crash(plan);
        self.lose_data(plan);
        self.lose_server();
    }

    fn lose_data(&mut self, plan: &CrashPlan) {
        if plan.keep != loligo_store::mem::Keep::All {
            self.data.server_lost();
        }
    }

    /// Nothing of it is left but its disk: connections break, and after a while it starts again.
    fn lose_server(&mut self) {
        self.disk_faults = false;
        self.fences.clear();
        self.server_life = 0;
        let conns: Vec<u64> = self.net.conns.keys().copied().collect();
        for id in conns {
            let (rng, now) = (&mut self.rng, self.now);
            let Some(conn) = self.net.conns.get_mut(&id) else { continue };
            conn.up.drop_all();
            conn.gone_up = true;
            let end = conn.down.cut(rng, now);
            let us = self.rng.delay(1000, 100_000);
            self.at(end + us, Event::GoneClient(id));
        }
        let us = self.rng.range(1_000, 400_000);
        self.after(us, Event::StartServer);
    }
}
