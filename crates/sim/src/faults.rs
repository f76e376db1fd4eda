//! Random faults: of connections, machines, disks.

use loligo_store::mem::{CrashPlan, Fault, FaultPoint, Keep, Torn};

use crate::world::{Event, World};

impl World {
    /// Effect of a crash on unsynced bytes.
    pub fn crash_plan(&mut self) -> CrashPlan {
        // What relaxed directories may lose is looked for where all of it is lost.
        let second = if self.options.relaxed { Keep::Nothing } else { Keep::Some };
        let keep = self.rng.pick(&[Keep::Nothing, second, Keep::Some, Keep::All]);
        let torn = self.rng.pick(&[Torn::Byte, Torn::Sector]);
        CrashPlan { keep, torn, seed: self.rng.bits() }
    }

    /// One thing goes wrong, and the next is planned.
    pub fn fault(&mut self) {
        if self.quiet {
            return;
        }
        if self.options.full && self.rng.one_in(3) {
            self.fill_disks();
        }
        let weights = self.knobs.fault_weights;
        let mut at = self.rng.below(weights.iter().sum());
        let mut kind = 0;
        while at >= weights[kind] {
            at -= weights[kind];
            kind += 1;
        }
        match kind {
            0 => self.reset_connection(),
            1 => self.stall_connection(),
            2 => {
                let node = self.rng.below(self.nodes.len() as u64) as usize;
                self.cut_off(node);
            }
            3 => {
                let node = self.rng.below(self.nodes.len() as u64) as usize;
                self.crash_node(node);
            }
            // At whatever moment: also between a write and its sync.
            4 => {
                let rank = self.some_rank();
                let (life, us) = (self.seats[rank].life, self.rng.range(0, 3000));
                let all = self.seats.len() > 1 && self.rng.one_in(4);
                self.after(us, Event::Crash { rank, life, all });
            }
            5 => {
                let plan = CrashPlan { keep: Keep::All, torn: Torn::Byte, seed: 0 };
                let rank = self.some_rank();
                self.crash_server(rank, &plan);
            }
            6 => self.disk_fault(),
            7 => self.stop_servers(),
            8 => self.break_pair(),
            _ => self.stall_pair(),
        }
        let ms = self.knobs.fault_every_ms;
        let next = self.rng.range(ms * 200, ms * 1800);
        self.after(next, Event::Fault);
    }

    pub fn some_rank(&mut self) -> usize {
        if self.seats.len() == 1 { 0 } else { self.rng.below(self.seats.len() as u64) as usize }
    }

    fn some_connection(&mut self) -> Option<u64> {
        let ids: Vec<u64> = self.net.conns.keys().copied().collect();
        (!ids.is_empty()).then(|| self.rng.pick(&ids))
    }

    fn reset_connection(&mut self) {
        if let Some(id) = self.some_connection() {
            self.reset(id);
        }
    }

    /// Both ends lose a rest of what was under way, and learn of it at different times.
    fn reset(&mut self, id: u64) {
        self.note(|| format!("conn {id} is reset"));
        self.outcome.faults[2] += 1;
        let (for_server, for_client) = (self.rng.delay(1000, 600_000), self.rng.delay(1000, 100_000));
        let (rng, now) = (&mut self.rng, self.now);
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let (up, down) = (conn.up.cut(rng, now), conn.down.cut(rng, now));
        self.at(up + for_server, Event::GoneServer(id));
        self.at(down + for_client, Event::GoneClient(id));
    }

    /// Nothing arrives for a while, and then everything.
    fn stall_connection(&mut self) {
        let Some(id) = self.some_connection() else { return };
        let us = self.rng.delay(300_000, 3_000_000);
        self.note(|| format!("conn {id} stalls for {us} us"));
        let until = self.now + us;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        conn.up.stall(until);
        conn.down.stall(until);
        // Events for what waits come too early; these come in time.
        for _ in 0..conn.up.waiting() {
            self.at(until, Event::ToServer(id));
        }
        let waiting = self.net.conns.get(&id).map_or(0, |conn| conn.down.waiting());
        for _ in 0..waiting {
            self.at(until, Event::ToClient(id));
        }
    }

    /// A client cannot reach the server for a while, perhaps longer than its session lives.
    pub fn cut_off(&mut self, node: usize) {
        let us = self.rng.range(50_000, 4_000_000);
        self.note(|| format!("client {node} is cut off for {us} us"));
        self.nodes[node].cut_off_until = self.now + us;
        for id in self.nodes[node].conns.values().copied().collect::<Vec<_>>() {
            if self.rng.one_in(2) {
                self.reset(id);
            } else {
                // Neither end is told: only silence.
                let Some(conn) = self.net.conns.get_mut(&id) else { continue };
                conn.up.drop_all();
                conn.down.drop_all();
                let (a, b) = (self.rng.range(us / 2, us * 2), self.rng.range(us / 2, us * 2));
                self.after(a, Event::GoneServer(id));
                self.after(b, Event::GoneClient(id));
            }
        }
    }

    /// The disks have hardly any room for a while, and perhaps not even a reserve.
    fn fill_disks(&mut self) {
        let reserve = if self.rng.one_in(4) { 0 } else { 64 << 20 };
        let room = self.rng.range(0, 64 << 10);
        self.note(|| format!("disks are full but for {room} bytes, and {reserve} in reserve"));
        for disk in std::iter::once(&self.disk).chain(self.seats.iter().map(|seat| &seat.journal)) {
            disk.set_reserve(reserve);
            disk.set_capacity(Some(disk.used() + room));
        }
        let us = self.rng.delay(200_000, 3_000_000);
        self.after(us, Event::Room);
    }

    /// There is room again.
    pub fn make_room(&mut self) {
        self.note(|| "there is room on all disks".into());
        for disk in std::iter::once(&self.disk).chain(self.seats.iter().map(|seat| &seat.journal)) {
            disk.set_capacity(None);
        }
    }

    fn disk_fault(&mut self) {
        let rank = self.some_rank();
        if self.seats[rank].server.is_none() {
            return;
        }
        let point = self.rng.pick(&[
            FaultPoint::LogAppend,
            FaultPoint::LogSync,
            FaultPoint::TableWrite,
            FaultPoint::TableWrite,
            FaultPoint::TableRead,
            FaultPoint::BlobWrite,
            FaultPoint::BlobSync,
            FaultPoint::BlobRead,
        ]);
        let fault = match point {
            FaultPoint::TableWrite | FaultPoint::BlobWrite => self.rng.pick(&[Fault::Io, Fault::Full]),
            _ => Fault::Io,
        };
        let nth = self.rng.range(1, 20);
        self.note(|| format!("disk fault planned: {point:?} {nth} {fault:?}"));
        match point {
            FaultPoint::LogAppend | FaultPoint::LogSync => self.seats[rank].journal.fail(point, nth, fault),
            _ => self.disk.fail(point, nth, fault),
        }
        self.disk_faults = true;
    }
}
