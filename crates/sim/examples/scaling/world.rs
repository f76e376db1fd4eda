//! Ranks in virtual time: the production machines, each fed by a queue; how long each input keeps its thread is given
//! ([`Costs`]). Journals sync in groups, one sync at a time and rank. Not here: what clients ask.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use loligo_mds::peer::PeerMsg;
use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_sim::rows;
use loligo_store::{Durability, Table};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, ToClient, ToServer};
use loligo_types::{ClusterMap, Lsn, Op, Rank, RankInfo, RankState, Time};

use crate::costs::Costs;

const TICK_NS: u64 = 20_000_000;
/// Entries read of a directory at a time.
const ENTRIES: usize = 1000;
pub const KEY: (u64, u64) = (1, 2);

/// What is still to happen.
enum Event {
    /// Something comes to a rank.
    Arrive(usize, Box<Input>),
    /// A rank's thread is free.
    Free(usize),
    Synced(usize),
    ToClient(usize, usize, Box<ToClient>),
    Tick(usize),
}

struct Seat {
    mds: Mds,
    queue: VecDeque<Input>,
    /// Its thread works, or will look into the queue by an event that is on its way.
    busy: bool,
    appended: Lsn,
    syncing: Option<Lsn>,
    /// Nanoseconds that its thread worked.
    worked: u64,
}

/// All of it.
pub struct World {
    pub now: u64,
    seats: Vec<Seat>,
    table: Arc<dyn Table>,
    costs: Costs,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    bodies: std::collections::HashMap<u64, Event>,
    next: u64,
    /// Nothing costs anything: while all is prepared.
    pub free: bool,
    pub peer_messages: u64,
    pub redirects: u64,
    pub migrations: u64,
}

fn kind(op: &Op, costs: &Costs) -> u64 {
    match op {
        Op::Mknod { .. } | Op::Create { .. } | Op::Mkdir { .. } => costs.create,
        Op::Rename { .. } => costs.rename,
        Op::Unlink { .. } => costs.unlink,
        _ => costs.stat,
    }
}

impl World {
    pub fn new(ranks: usize, table: Arc<dyn Table>, costs: Costs) -> Result<World, String> {
        rows::format(&*table, KEY, Time(0))?;
        let info = |rank| RankInfo { rank: Rank(rank), address: String::new(), state: RankState::Up };
        let map = match ranks {
            1 => ClusterMap::default(),
            _ => ClusterMap { epoch: 1, ranks: (0..ranks as u16).map(info).collect(), ..Default::default() },
        };
        let seat = |rank| {
            let config = Config { rank: Rank(rank), map: map.clone(), hash_key: KEY, ..Config::default() };
            let mds = Mds::new(config, Now { mono_ms: 1, wall: Time(1_000_000) });
            Seat { mds, queue: VecDeque::new(), busy: false, appended: Lsn(0), syncing: None, worked: 0 }
        };
        let mut world = World {
            now: 1_000_000,
            seats: (0..ranks as u16).map(seat).collect(),
            table,
            costs,
            events: BinaryHeap::new(),
            bodies: Default::default(),
            next: 0,
            free: true,
            peer_messages: 0,
            redirects: 0,
            migrations: 0,
        };
        for at in 0..ranks {
            for other in (0..ranks).filter(|other| *other != at) {
                world.arrive(at, 0, Input::PeerUp { rank: Rank(other as u16) });
            }
            // Not all at the same moment.
            world.at(world.now + TICK_NS + at as u64 * 137_000 % TICK_NS, Event::Tick(at));
        }
        Ok(world)
    }

    pub fn ranks(&self) -> usize {
        self.seats.len()
    }

    /// Nanoseconds that each rank's thread has worked.
    pub fn worked(&self) -> Vec<u64> {
        self.seats.iter().map(|seat| seat.worked).collect()
    }

    fn at(&mut self, when: u64, event: Event) {
        self.next += 1;
        self.events.push(Reverse((when, self.next)));
        self.bodies.insert(self.next, event);
    }

    /// Something comes to a rank after this time.
    pub fn arrive(&mut self, rank: usize, after: u64, input: Input) {
        self.at(self.now + after, Event::Arrive(rank, Box::new(input)));
    }

    /// A client connects.
    pub fn connect(&mut self, rank: usize, conn: u64, client: u64) {
        let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false };
        self.arrive(rank, self.costs.net, Input::Connected { conn: ConnId(conn), peer });
        let hello = Hello {
            versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
            client,
            resume: None,
            name: "scaling".into(),
            fs_id: None,
        };
        self.send(rank, conn, ToServer::Hello(hello));
    }

    /// A client sends.
    pub fn send(&mut self, rank: usize, conn: u64, msg: ToServer) {
        self.arrive(rank, self.costs.net, Input::Message { conn: ConnId(conn), msg });
    }

    /// The next message for a client, if there is one before this time: rank, connection, message.
    pub fn run(&mut self, until: u64) -> Option<(usize, u64, ToClient)> {
        while let Some(Reverse((when, number))) = self.events.peek().copied() {
            if when > until {
                break;
            }
            self.events.pop();
            self.now = when;
            match self.bodies.remove(&number) {
                Some(Event::ToClient(rank, conn, msg)) => return Some((rank, conn as u64, *msg)),
                Some(event) => self.happen(event),
                None => {}
            }
        }
        self.now = self.now.max(until);
        None
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(rank, input) => {
                self.seats[rank].queue.push_back(*input);
                if !self.seats[rank].busy {
                    self.work(rank);
                }
            }
            Event::Free(rank) => self.work(rank),
            Event::Synced(rank) => {
                let seat = &mut self.seats[rank];
                if let Some(lsn) = seat.syncing.take() {
                    // What was awaited is first: answers leave in order.
                    seat.queue.push_front(Input::Durable { lsn });
                    self.sync(rank);
                }
                if !self.seats[rank].busy {
                    self.work(rank);
                }
            }
            Event::Tick(rank) => {
                self.at(self.now + TICK_NS, Event::Tick(rank));
                self.happen(Event::Arrive(rank, Box::new(Input::Tick)));
            }
            Event::ToClient(..) => {}
        }
    }

    fn cost(&self, input: &Input) -> u64 {
        if self.free {
            return 0;
        }
        match input {
            Input::Message { msg: ToServer::Request(request), .. } => kind(&request.op, &self.costs),
            Input::Peer { .. } => self.costs.peer,
            Input::Tick => self.costs.tick,
            Input::Again => self.costs.step,
            // In what a request costs on average.
            _ => 0,
        }
    }

    /// The next of the queue: what follows from it follows when its time is over.
    fn work(&mut self, rank: usize) {
        let Some(input) = self.seats[rank].queue.pop_front() else {
            self.seats[rank].busy = false;
            return;
        };
        let cost = self.cost(&input);
        let done = self.now + cost;
        let now = Now { mono_ms: self.now / 1_000_000, wall: Time(self.now as i64) };
        let seat = &mut self.seats[rank];
        (seat.busy, seat.worked) = (true, seat.worked + cost);
        seat.mds.handle(now, input);
        while let Some(output) = self.seats[rank].mds.pop() {
            self.carry_out(rank, done, output);
        }
        self.sync(rank);
        self.at(done, Event::Free(rank));
    }

    fn sync(&mut self, rank: usize) {
        let time = if self.free { 0 } else { self.costs.sync };
        let seat = &mut self.seats[rank];
        if seat.syncing.is_none() && seat.appended > Lsn(0) {
            seat.syncing = Some(std::mem::replace(&mut seat.appended, Lsn(0)));
            self.at(self.now + time, Event::Synced(rank));
        }
    }

    fn carry_out(&mut self, rank: usize, done: u64, output: Output) {
        let (net, load, sync) = (self.costs.net, self.costs.load, self.costs.sync);
        let (when, then) = match output {
            Output::Append { lsn, .. } => {
                self.seats[rank].appended = lsn;
                return;
            }
            Output::Load { ticket, needs } => match rows::load_pieces(&*self.table, KEY, &needs, ENTRIES) {
                Ok(items) => (load, Input::Loaded { ticket, items }),
                Err(_) => (load, Input::LoadFailed { ticket }),
            },
            Output::Checkpoint { id, records } => {
                let written = rows::batch_of(&*self.table, Rank(rank as u16), &records)
                    .is_ok_and(|batch| batch.is_empty() || self.table.write(&batch, Durability::Sync).is_ok());
                assert!(written, "the table in memory takes everything");
                (sync, Input::CheckpointDone { id })
            }
            Output::Settle { table_upto, .. } => (sync, Input::Settled { table_upto }),
            Output::SyncData { ticket } => (sync, Input::DataSynced { ticket, ok: true }),
            Output::Quiesce { ticket, .. } => (0, Input::Quiesced { ticket, ok: true }),
            Output::Again => (0, Input::Again),
            Output::Peer { to, msg } => {
                self.peer_messages += u64::from(!matches!(msg, PeerMsg::Beat(_)));
                let input = Input::Peer { from: Rank(rank as u16), msg };
                return self.at(done + net, Event::Arrive(usize::from(to.0), Box::new(input)));
            }
            Output::Send { conn, msg } => {
                self.redirects += u64::from(matches!(msg, ToClient::Redirect { .. }));
                return self.at(done + net, Event::ToClient(rank, conn.0 as usize, Box::new(msg)));
            }
            Output::Told { told, .. } => {
                self.migrations += u64::from(matches!(told, loligo_mds::admin::Told::Begun(_)));
                return;
            }
            Output::Fatal { text } => panic!("rank {rank}: {text}"),
            _ => return,
        };
        self.at(done + when, Event::Arrive(rank, Box::new(then)));
    }
}
