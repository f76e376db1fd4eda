//! Ranks in virtual time: the production machines, each fed by a queue; how long each input keeps its thread is given
//! ([`Costs`]). Journals sync in groups, one sync at a time and rank; the table is in memory and takes a given time to read.
//! File data is only answered for, not kept. Not here: what clients ask, and who decides what moves.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_mds::peer::PeerMsg;
use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Page, Peer};
use loligo_rows::{FirstRows, Loader, Pieces, batch_of, first_rows, put_finished};
use loligo_store::mem::MemDisk;
use loligo_store::{Backend, Durability, Identity, Table};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, ToClient, ToServer};
use loligo_types::{
    Answer, ClusterMap, DataAnswer, DataOp, Frag, Ino, Lsn, Op, PolicyId, Rank, RankInfo, RankState, Snapshot,
    ThreadLoad, Time,
};

use loligo_workload::Rng;

use crate::costs::Costs;
use crate::queue::Queue;

/// Nanoseconds between two ticks of a rank.
const TICK_NS: u64 = 20_000_000;
/// Ticks between two times that a rank is told how busy it was: a second.
const CPU_TICKS: u64 = 50;
/// A step of long works has so many units ([`Mds::long_work`]), as far as costs go.
const STEP_UNITS: u64 = 400;
/// Under which names are hashed.
pub const KEY: (u64, u64) = (1, 2);

/// A scheduled event.
enum Event {
    /// Something comes to a rank.
    Arrive(usize, Box<Input>),
    /// A rank's thread is free.
    Free(usize),
    Synced(usize),
    Tick(usize, u64),
    Next(Next),
}

/// An event that the user of the world has to handle.
#[derive(Debug)]
pub enum Next {
    /// A message for a client has arrived over a connection.
    Message { rank: usize, conn: u64, msg: Box<ToClient> },
    /// The time of [`World::timer`] has come.
    Timer(u64),
    /// A rank answers an administrator.
    Told { rank: usize, id: u64, told: Box<loligo_mds::admin::Told> },
    /// A rank asks what is to move.
    Balance { rank: usize, snapshot: Box<Snapshot> },
}

/// Counters of a rank since the beginning.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Answers to requests.
    pub replies: u64,
    /// Requests sent on to another rank.
    pub redirects: u64,
    /// Leases asked back.
    pub recalls: u64,
    /// Messages to other ranks, beats left out.
    pub peer_messages: u64,
    /// Pieces given to other ranks.
    pub moves: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Nanoseconds that its thread worked.
    pub worked: u64,
    /// Of these for messages of other ranks.
    pub worked_for_peers: u64,
}

/// Something was given to another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// When, nanoseconds.
    pub at: u64,
    /// By which rank.
    pub from: usize,
    /// To which.
    pub to: usize,
    /// The directory, or the one that the fragment is of.
    pub dir: Ino,
    /// The fragment, or the first of several.
    pub frag: Frag,
}

struct Seat {
    mds: Mds,
    queue: VecDeque<Input>,
    /// Its thread works, or will look into the queue by an event that is on its way.
    busy: bool,
    appended: Lsn,
    syncing: Option<Lsn>,
    counts: Counts,
    /// It is to go on with a long work when what has come is done.
    again: bool,
    /// The time it had worked when its load was last reported, nanoseconds.
    told_worked: u64,
}

/// All of it.
pub struct World {
    /// Nanoseconds.
    pub now: u64,
    seats: Vec<Seat>,
    table: Arc<dyn Table>,
    costs: Costs,
    events: Queue<Event>,
    map: ClusterMap,
    /// Nothing costs anything: while all is prepared.
    pub free: bool,
    /// Work of threads and syncs of journals take so many percent more or less than given, by chance; none: exactly as long.
    pub jitter: Option<(Rng, u64)>,
    /// The subtrees and fragments that ranks gave away, in order.
    pub moved: Vec<Moved>,
    /// A real clock, nanoseconds, for who wants to know how long a snapshot really takes.
    pub clock: Option<fn() -> u64>,
    /// By that clock: pieces shown, and how long the tick took.
    pub shown: Vec<(usize, u64)>,
    /// By that clock: how long steps of long works took.
    pub steps: Vec<u64>,
    /// By that clock: the time that the machine took for each input ([`label`]), nanoseconds.
    pub took: Vec<((&'static str, usize), u64)>,
}

/// The name of a rank's input and its size, for measuring its real time. The size is the number of names in the path; the caller adds the
/// entries of an answer.
fn label(input: &Input) -> Option<(&'static str, usize)> {
    match input {
        Input::Message { msg: ToServer::Request(request), .. } => match &request.op {
            Op::Walk { names, .. } => Some(("walk", names.len())),
            Op::Via { names, what, .. } => {
                let name = match **what {
                    Op::Open { .. } => "via open",
                    Op::Readdir { .. } => "via readdir",
                    Op::SetAttr { .. } | Op::Readlink { .. } => "via inode",
                    _ => "via",
                };
                Some((name, names.len()))
            }
            op => Some((op.name(), 0)),
        },
        Input::Peer { msg: PeerMsg::Letter { .. }, .. } => Some(("letter", 0)),
        Input::Peer { .. } => Some(("peer", 0)),
        _ => None,
    }
}

impl World {
    /// Ranks that have just started, all set as `given` says. Their balancers rest until [`World::set_policy`].
    pub fn new(ranks: usize, costs: Costs, given: &Config) -> Result<World, String> {
        let disk = MemDisk::new(Identity::new([7; 16], [0; 16]));
        let table = disk.open().map_err(|e| e.to_string())?.table();
        let mut first = first_rows(KEY, FirstRows { now: Time(0), mode: 0o755, uid: 0, gid: 0 });
        put_finished(&mut first);
        table.write(&first, Durability::Sync).map_err(|e| e.to_string())?;
        let info = |rank: u16| RankInfo { rank: Rank(rank), address: rank.to_string(), state: RankState::Up };
        let map = match ranks {
            1 => ClusterMap::default(),
            _ => ClusterMap { epoch: 1, ranks: (0..ranks as u16).map(info).collect(), ..Default::default() },
        };
        let seat = |rank| {
            let config = Config { rank: Rank(rank), map: map.clone(), hash_key: KEY, ..given.clone() };
            let mds = Mds::new(config, Now { mono_ms: 1, wall: Time(1_000_000) });
            Seat {
                mds,
                queue: VecDeque::new(),
                busy: false,
                appended: Lsn(0),
                syncing: None,
                counts: Counts::default(),
                again: false,
                told_worked: 0,
            }
        };
        let mut world = World {
            now: 1_000_000,
            seats: (0..ranks as u16).map(seat).collect(),
            table,
            costs,
            events: Queue::new(),
            map,
            free: true,
            jitter: None,
            moved: Vec::new(),
            clock: None,
            shown: Vec::new(),
            steps: Vec::new(),
            took: Vec::new(),
        };
        for at in 0..ranks {
            for other in (0..ranks).filter(|other| *other != at) {
                world.arrive(at, 0, Input::PeerUp { rank: Rank(other as u16) });
            }
            // Not all at the same moment.
            world.at(world.now + TICK_NS + at as u64 * 137_000 % TICK_NS, Event::Tick(at, 1));
        }
        Ok(world)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.seats.len()
    }

    /// Of each rank.
    pub fn counts(&self) -> Vec<Counts> {
        self.seats.iter().map(|seat| seat.counts).collect()
    }

    /// Nanoseconds that each rank's thread has worked.
    pub fn worked(&self) -> Vec<u64> {
        self.seats.iter().map(|seat| seat.counts.worked).collect()
    }

    /// The sum over all ranks of what was counted.
    pub fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.seats.iter().map(|seat| of(&seat.counts)).sum()
    }

    /// All ranks balance by this policy from now on.
    pub fn set_policy(&mut self, policy: PolicyId) {
        (self.map.epoch, self.map.policy) = (self.map.epoch + 1, policy);
        for rank in 0..self.seats.len() {
            self.arrive(rank, 0, Input::Map(self.map.clone()));
        }
    }

    /// The machine of a rank as it shows itself.
    pub fn status(&self, rank: usize) -> loligo_mds::Status {
        self.seats[rank].mds.status()
    }

    fn at(&mut self, when: u64, event: Event) {
        self.events.put(when, event);
    }

    /// [`World::run`] returns with this number after this time.
    pub fn timer(&mut self, after: u64, number: u64) {
        self.at(self.now + after, Event::Next(Next::Timer(number)));
    }

    /// Something comes to a rank after this time.
    pub fn arrive(&mut self, rank: usize, after: u64, input: Input) {
        self.at(self.now + after, Event::Arrive(rank, Box::new(input)));
    }

    /// A connection is made to a rank; it says nothing yet.
    pub fn open(&mut self, rank: usize, conn: u64) {
        let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
        self.arrive(rank, self.costs.net, Input::Connected { conn: ConnId(conn), peer });
    }

    /// A connection is dropped by its client, after what was sent before.
    pub fn close(&mut self, rank: usize, conn: u64) {
        self.arrive(rank, self.costs.net, Input::Disconnected { conn: ConnId(conn) });
    }

    /// A client connects and greets.
    pub fn connect(&mut self, rank: usize, conn: u64, client: u64) {
        self.open(rank, conn);
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

    /// Nanoseconds that a message takes.
    pub fn net(&self) -> u64 {
        self.costs.net
    }

    /// Goes on until there is something to deal with, or until this time.
    pub fn run(&mut self, until: u64) -> Option<Next> {
        while let Some((when, event)) = self.events.take(until) {
            self.now = when;
            match event {
                Event::Next(next) => return Some(next),
                event => self.happen(event),
            }
        }
        self.now = self.now.max(until);
        None
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(rank, input) => self.come(rank, *input),
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
            Event::Tick(rank, number) => {
                self.at(self.now + TICK_NS, Event::Tick(rank, number + 1));
                if number.is_multiple_of(CPU_TICKS) {
                    let seat = &mut self.seats[rank];
                    let worked = seat.counts.worked - seat.told_worked;
                    seat.told_worked = seat.counts.worked;
                    let percent = (worked as f64 / (CPU_TICKS * TICK_NS) as f64 * 100.0).min(100.0) as f32;
                    self.come(rank, Input::Thread(ThreadLoad { cpu_percent: percent, busy_percent: percent }));
                }
                self.come(rank, Input::Tick);
            }
            Event::Next(_) => {}
        }
    }

    fn come(&mut self, rank: usize, input: Input) {
        self.seats[rank].queue.push_back(input);
        if !self.seats[rank].busy {
            self.work(rank);
        }
    }

    /// The next of the queue: what follows from it follows when its time is over.
    fn work(&mut self, rank: usize) {
        let Some(input) = self.seats[rank].queue.pop_front() else {
            self.seats[rank].busy = false;
            return;
        };
        let mut cost = if self.free { 0 } else { self.costs.of(&input) };
        let (is_peer, label) = (matches!(input, Input::Peer { .. }), self.clock.and_then(|_| label(&input)));
        let now = Now { mono_ms: self.now / 1_000_000, wall: Time(self.now as i64) };
        let mut outputs = Vec::new();
        if let Input::Message { conn, msg: ToServer::Data(request) } = input {
            let msg = ToClient::Data { id: request.id, result: Ok(data_answer(&request.op)) };
            outputs.push(Output::Send { conn, msg });
        } else {
            let seat = &mut self.seats[rank];
            let (is_step, worked) = (matches!(input, Input::Again), seat.mds.long_work());
            let begun = self.clock.map(|clock| clock());
            seat.mds.handle(now, input);
            let took = self.clock.zip(begun).map(|(clock, begun)| clock() - begun);
            self.steps.extend(took.filter(|_| is_step));
            let mut entries = 0;
            seat.again &= !is_step;
            if !self.free {
                cost += (seat.mds.long_work() - worked) * self.costs.step / STEP_UNITS;
            }
            while let Some(output) = seat.mds.pop() {
                if let (Output::Balance(snapshot), false) = (&output, self.free) {
                    cost += self.costs.snapshot + self.costs.piece * snapshot.pieces.len() as u64;
                    self.shown.extend(took.map(|ns| (snapshot.pieces.len(), ns)));
                }
                if let Output::Send { msg: ToClient::Reply { result: Ok(answer), .. }, .. } = &output {
                    cost += if self.free { 0 } else { self.costs.of_answer(answer) };
                    let listed = if let Answer::Walked { last, .. } = answer { last } else { answer };
                    if let Answer::Entries { entries: some, .. } = listed {
                        entries = some.len();
                    }
                }
                outputs.push(output);
            }
            let of = |(name, size): (&'static str, usize), ns| ((name, size.max(entries)), ns);
            self.took.extend(label.zip(took).map(|(label, ns)| of(label, ns)));
        }
        let cost = self.vary(cost);
        let done = self.now + cost;
        let seat = &mut self.seats[rank];
        (seat.busy, seat.counts.worked) = (true, seat.counts.worked + cost);
        seat.counts.worked_for_peers += if is_peer { cost } else { 0 };
        for output in outputs {
            self.carry_out(rank, done, output);
        }
        self.sync(rank);
        self.at(done, Event::Free(rank));
    }

    /// A time as it is this time. Not for messages: they must not overtake each other.
    fn vary(&mut self, ns: u64) -> u64 {
        match &mut self.jitter {
            Some((rng, percent)) if ns > 0 => {
                let percent = (*percent).min(100);
                (ns * (100 - percent) + rng.below(2 * ns * percent + 1)) / 100
            }
            _ => ns,
        }
    }

    fn sync(&mut self, rank: usize) {
        let seat = &self.seats[rank];
        if seat.syncing.is_none() && seat.appended > Lsn(0) {
            let time = if self.free { 0 } else { self.vary(self.costs.sync) };
            let seat = &mut self.seats[rank];
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
            Output::Load { ticket, needs } => match Loader::new(KEY, Pieces::default()).load(&*self.table, &needs) {
                Ok(rows) => (load, Input::Loaded { ticket, items: rows.items }),
                Err(_) => (load, Input::LoadFailed { ticket }),
            },
            Output::Checkpoint { id, records } => {
                let written = batch_of(&*self.table, Rank(rank as u16), &records)
                    .is_ok_and(|batch| batch.is_empty() || self.table.write(&batch, Durability::Sync).is_ok());
                assert!(written, "the table in memory takes everything");
                (sync, Input::CheckpointDone { id })
            }
            Output::MergeRows { id, rows } => {
                let mut merged = rows.rows();
                let written = batch_of(&*self.table, Rank(rank as u16), &std::mem::take(&mut merged.records))
                    .is_ok_and(|batch| batch.is_empty() || self.table.write(&batch, Durability::Sync).is_ok());
                assert!(written, "the table in memory takes everything");
                (sync, Input::MergeRowsDone { id, merged: Some(Box::new(merged)) })
            }
            Output::Settle { table_upto, .. } => (sync, Input::Settled { table_upto }),
            Output::SettleData => (
                sync,
                Input::DataInPlace { ino: loligo_types::Ino(0), upto: loligo_types::Lsn(u64::MAX), no_room: false },
            ),
            Output::SyncData { ticket } => (sync, Input::DataSynced { ticket, ok: true }),
            Output::Quiesce { ticket, .. } => (0, Input::Quiesced { ticket, ok: true }),
            Output::Spill { ino, .. } => (sync, Input::Spilled { ino, ok: true }),
            Output::Discard { ino, .. } => (sync, Input::Discarded { ino }),
            Output::Restore { ino, .. } => (sync, Input::Restored { ino }),
            Output::KeepTheirs { to, .. } => (sync, Input::Kept { to, result: Ok(()) }),
            Output::LookAtFork { ino, .. } => (sync, Input::Fork { ino, size: None }),
            // Nothing is pinned and nothing floats.
            Output::Scan { ticket, .. } => (load, Input::Scanned { ticket, page: Some(Page::default()) }),
            Output::TakenBack { .. } | Output::StraysDropped { .. } | Output::OwnerLost => return,
            Output::Again if std::mem::replace(&mut self.seats[rank].again, true) => return,
            Output::Again => (0, Input::Again),
            Output::Peer { to, msg } => {
                self.count_peer(rank, usize::from(to.0), &msg);
                let input = Input::Peer { from: Rank(rank as u16), msg };
                return self.at(done + net, Event::Arrive(usize::from(to.0), Box::new(input)));
            }
            Output::Send { conn, msg } => {
                let counts = &mut self.seats[rank].counts;
                match &msg {
                    ToClient::Reply { .. } => counts.replies += 1,
                    ToClient::Redirect { .. } => counts.redirects += 1,
                    ToClient::Recall { .. } => counts.recalls += 1,
                    ToClient::Welcome(welcome) => counts.sessions += u64::from(!welcome.resumed),
                    _ => {}
                }
                let next = Next::Message { rank, conn: conn.0, msg: Box::new(msg) };
                return self.at(done + net, Event::Next(next));
            }
            Output::Told { id, told } => {
                return self.at(done, Event::Next(Next::Told { rank, id, told: Box::new(told) }));
            }
            Output::Balance(snapshot) => return self.at(done, Event::Next(Next::Balance { rank, snapshot })),
            Output::Fatal { text } => panic!("rank {rank}: {text}"),
            _ => return,
        };
        self.at(done + when, Event::Arrive(rank, Box::new(then)));
    }

    fn count_peer(&mut self, from: usize, to: usize, msg: &PeerMsg) {
        let counts = &mut self.seats[from].counts;
        counts.peer_messages += u64::from(!matches!(msg, PeerMsg::Beat(_)));
        if let PeerMsg::Letter { letter, .. } = msg
            && let Some([route, ..]) = letter.gives()
        {
            counts.moves += 1;
            self.moved.push(Moved { at: self.now, from, to, dir: route.dir, frag: route.frag });
        }
    }
}

fn data_answer(op: &DataOp) -> DataAnswer {
    match op {
        DataOp::Read { len, .. } => DataAnswer::Bytes(vec![0; *len as usize].into()),
        DataOp::Seek { offset, .. } => DataAnswer::Offset(Some(*offset)),
        DataOp::Write { .. } | DataOp::Sync | DataOp::Punch { .. } | DataOp::Discard { .. } => DataAnswer::Done,
    }
}
