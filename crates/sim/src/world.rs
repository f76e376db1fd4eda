//! The world: one queue of events by time, and everything that they happen to. Every choice comes from one seed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use loligo_client::{Input, Invalidation, Token};
use loligo_mds::heat::DecayVec;
use loligo_store::mem::MemDisk;
use loligo_store::{Backend, Identity};
use loligo_types::{ClusterMap, Frag, Ino, Rank, SessionId, Time};

use crate::data::{Data, Epoch};
use crate::direct::{self, Step};
use crate::history::History;
use crate::knobs::Knobs;
use crate::locks::Locks;
use crate::net::Net;
use crate::node::Node;
use crate::options::{Canary, Options, Outcome};
use crate::peers::Pair;
use crate::relaxed::Relaxed;
use crate::rng::Rng;
use crate::rows;
use crate::seat::Seat;
use crate::server::Work;
use crate::subtrees::Jobs;
use crate::workload::Places;

/// Lines of the trace that are kept.
const TRACE_KEPT: usize = 400;

/// Time between jumps of a wall clock, and the farthest jump, microseconds.
const JUMP_US: u64 = 500_000;
const HOUR_US: u64 = 3_600_000_000;
/// The wall clock at the beginning where they do, microseconds: some time after 1970, as clocks are.
const EPOCH_US: i64 = 1_700_000_000_000_000;

/// Events of the simulation.
#[derive(Debug)]
pub enum Event {
    /// Full disks have room again.
    Room,
    ToServer(u64),
    ToClient(u64),
    /// An end learns that the connection is gone.
    GoneServer(u64),
    GoneClient(u64),
    Connect {
        node: usize,
        life: u64,
        /// The client's number of the rank, and the rank that is there.
        number: Rank,
        rank: usize,
    },
    ClientTick {
        node: usize,
        life: u64,
    },
    Invalidated {
        node: usize,
        life: u64,
        token: Token,
        what: Invalidation,
    },
    /// A program goes on after a pause, or begins.
    Program {
        node: usize,
        life: u64,
        program: usize,
    },
    Work {
        rank: usize,
        life: u64,
        work: Work,
    },
    StartServer(usize),
    /// The connections between ranks are looked at.
    LookAtPairs,
    /// An end of such a connection learns that it is there, or gone, or that something came.
    PairUp {
        at: usize,
        side: usize,
        number: u64,
    },
    PairDown {
        at: usize,
        side: usize,
        number: u64,
    },
    ToPeer {
        at: usize,
        side: usize,
        number: u64,
    },
    /// A migration is ordered.
    Thrash,
    /// A rank is added or drained.
    Members,
    /// Another policy is put in force.
    Policy,
    /// A rank hears of the cluster map.
    TellMap {
        rank: usize,
    },
    /// It is passed on to another rank.
    Order {
        rank: usize,
        dir: Ino,
        frag: Option<Frag>,
        to: Rank,
        hops: u64,
    },
    /// A new client came to a server that is stopping.
    Refused {
        node: usize,
        life: u64,
    },
    /// A client's machine crashes because a program on it wants it to.
    CrashNode {
        node: usize,
        life: u64,
    },
    StartNode(usize),
    Fault,
    /// Something between a client and the store, or a rank and the store.
    Direct(Step),
    /// A crash of a rank (or of all) that was planned for this moment.
    Crash {
        rank: usize,
        life: u64,
        all: bool,
    },
}

/// Everything.
pub struct World {
    seed: u64,
    pub now: u64,
    counter: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub rng: Rng,
    pub options: Options,
    pub knobs: Knobs,
    pub net: Net,
    /// Table and objects of all ranks.
    pub disk: MemDisk,
    /// That, as long as a rank has it open.
    pub store: Option<Arc<dyn Backend>>,
    /// State of a store that clients reach by themselves, besides its objects.
    pub direct: direct::Store,
    pub seats: Vec<Seat>,
    pub pairs: Vec<Pair>,
    /// The durable cluster map.
    pub map: ClusterMap,
    /// For choices about that, which runs without them do not make.
    pub member_rng: Rng,
    pub policy_rng: Rng,
    /// Orders to migrate that were not answered: what, to whom, how often passed on.
    pub orders: BTreeMap<u64, (Ino, Option<Frag>, Rank, u64)>,
    /// Directories of which fragments were ordered to move alone: nobody lists them at once.
    pub spread: BTreeSet<Ino>,
    pub next_ask: u64,
    /// All ranks were told to stop.
    pub stopping: bool,
    pub nodes: Vec<Node>,
    pub history: History,
    pub data: Data,
    pub locks: Locks,
    /// Directories that are decoupled now and then.
    pub jobs: Rc<RefCell<Jobs>>,
    /// Directories that are relaxed, and one beside them.
    pub relaxed: Rc<RefCell<Relaxed>>,
    pub places: Rc<Places>,
    pub stop: Rc<std::cell::Cell<bool>>,
    /// Faults are over.
    pub quiet: bool,
    /// Programs to go on now.
    pub ready: VecDeque<(usize, usize)>,
    /// Answers to calls of the world itself.
    pub world_answers: BTreeMap<u64, loligo_client::CallResult>,
    pub next_call: u64,
    pub next_op: u64,
    pub next_tag: u32,
    pub next_epoch: Epoch,
    pub next_life: u64,
    pub epochs: BTreeMap<SessionId, Epoch>,
    /// Sessions that the server ended.
    pub fenced: BTreeSet<SessionId>,
    /// By which rank, and whose they were.
    pub ended_at: BTreeSet<(Rank, u64)>,
    /// Clients' numbers, by session.
    pub clients: BTreeMap<SessionId, u64>,
    /// Durably ended.
    pub ended: BTreeSet<SessionId>,
    /// Calls whose outcome nobody knows, with the sessions under which they may still happen.
    pub lost: Vec<(usize, BTreeSet<SessionId>, crate::calls::LostCall)>,
    /// Faults of the disk may be to come.
    pub disk_faults: bool,
    /// Files that had objects, as the metadata server knows.
    pub spilled: BTreeSet<u64>,
    /// Heat that ranks counted in lives that have ended.
    pub ended_heat: DecayVec,
    /// The run comes to its end: a server that stops is not started again.
    pub ends: bool,
    pub outcome: Outcome,
    tail: VecDeque<String>,
}

impl World {
    /// A formatted disk, and nothing running.
    pub fn new(seed: u64, options: Options) -> World {
        let mut rng = Rng::new(seed);
        let (mut fs_id, mut hash_key) = ([0; 16], [0; 16]);
        for at in [0, 8] {
            fs_id[at..at + 8].copy_from_slice(&rng.bits().to_le_bytes());
            hash_key[at..at + 8].copy_from_slice(&rng.bits().to_le_bytes());
        }
        let key = halves(&hash_key);
        let knobs = Knobs::new(&mut rng, fs_id, key, &options);
        let members = options.members && knobs.ranks > 1;
        // One more can be added.
        let seats = knobs.ranks + usize::from(members);
        let mut world = World {
            seed,
            now: 1_000_000,
            counter: 0,
            queue: BTreeMap::new(),
            rng,
            options,
            net: Net::default(),
            disk: MemDisk::new(Identity::new(fs_id, hash_key)),
            seats: (0..seats).map(|_| Seat::new(Identity::new(fs_id, hash_key))).collect(),
            store: None,
            direct: direct::Store::default(),
            pairs: Pair::all(seats),
            map: crate::seat::map_of(knobs.ranks),
            member_rng: Rng::new(seed ^ 0x6d65_6d62_6572),
            policy_rng: Rng::new(seed ^ 0x706f_6c69_6379),
            orders: BTreeMap::new(),
            spread: BTreeSet::new(),
            next_ask: 0,
            stopping: false,
            nodes: Vec::new(),
            history: History::default(),
            data: Data::default(),
            locks: Locks::default(),
            jobs: Rc::default(),
            relaxed: Rc::default(),
            places: Rc::default(),
            stop: Rc::default(),
            quiet: true,
            ready: VecDeque::new(),
            world_answers: BTreeMap::new(),
            next_call: 1,
            next_op: 1,
            next_tag: 1,
            next_epoch: 1,
            next_life: 1,
            epochs: BTreeMap::new(),
            fenced: BTreeSet::new(),
            ended_at: BTreeSet::new(),
            clients: BTreeMap::new(),
            ended: BTreeSet::new(),
            lost: Vec::new(),
            disk_faults: false,
            spilled: BTreeSet::new(),
            ended_heat: DecayVec::default(),
            ends: false,
            outcome: Outcome::default(),
            tail: VecDeque::new(),
            knobs,
        };
        let formatted = world
            .disk
            .open()
            .map_err(|e| e.to_string())
            .and_then(|backend| rows::format(&*backend.table(), key, Time(0)));
        if let Err(text) = formatted {
            world.wrong(format!("formatting failed: {text}"));
        }
        (0..world.seats.len()).for_each(|rank| world.start_server(rank));
        if world.seats.len() > 1 {
            world.look_at_pairs();
        }
        for at in 0..world.knobs.clients {
            let node = world.new_node();
            world.nodes.push(node);
            world.begin_node(at);
        }
        world
    }

    // Time, trace, findings.

    /// Puts an event where it belongs.
    pub fn after(&mut self, us: u64, event: Event) {
        self.at(self.now + us, event);
    }

    pub fn at(&mut self, when: u64, event: Event) {
        self.counter += 1;
        self.queue.insert((when.max(self.now), self.counter), event);
    }

    pub fn wrong(&mut self, text: String) {
        self.note(|| format!("WRONG {text}"));
        if self.outcome.findings.len() < 20 {
            self.outcome.findings.push(format!("at {} us: {text}", self.now));
        }
    }

    /// A line of the trace.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if !self.options.trace {
            return;
        }
        let line = format!("{:>9} {}", self.now, line());
        for byte in line.bytes() {
            self.mix(u64::from(byte));
        }
        if self.options.print {
            println!("{line}");
        }
        self.tail.push_back(line);
        if self.tail.len() > TRACE_KEPT {
            self.tail.pop_front();
        }
    }

    fn mix(&mut self, n: u64) {
        self.outcome.trace_hash = loligo_types::hash::mix(self.outcome.trace_hash ^ n);
    }

    pub fn now_ms(&self) -> u64 {
        self.now / 1000
    }

    /// Wall clock of a machine. If wall clocks jump, each does so twice a second, which needs no choices that other runs do not make.
    fn wall(&self, machine: usize) -> Time {
        if !self.options.clocks {
            return Time(self.now as i64 * 1000);
        }
        let turn = (self.now + machine as u64 * 70_001) / JUMP_US;
        let jump =
            Rng::new(self.seed ^ turn << 16 ^ (machine as u64) << 8).range(0, 2 * HOUR_US) as i64 - HOUR_US as i64;
        Time((EPOCH_US + self.now as i64 + jump) * 1000)
    }

    pub fn mds_now(&self, rank: usize) -> loligo_mds::Now {
        let wall = self.wall(rank);
        let is_wrong = self.options.canary == Some(Canary::SessionsByTheWallClock);
        let mono_ms = if is_wrong { (wall.0 / 1_000_000) as u64 } else { self.now_ms() };
        loligo_mds::Now { mono_ms, wall }
    }

    pub fn client_now(&self, node: usize) -> loligo_client::Now {
        loligo_client::Now { ms: self.now_ms(), wall: self.wall(self.seats.len() + node) }
    }

    /// The rest of the run's result.
    pub fn finish(mut self) -> Outcome {
        self.outcome.unchecked = self.history.gave_up;
        self.outcome.subtrees = self.jobs.borrow().counts;
        self.outcome.shared = self.jobs.borrow().shared.counts;
        self.outcome.relaxed = self.relaxed.borrow().counts;
        self.outcome.trace = self.tail.into();
        self.outcome
    }

    /// True if the run decouples directories.
    pub fn has_subtrees(&self) -> bool {
        self.options.subtrees || self.options.allow
    }

    // Events.

    /// Does the next thing; false when there is none.
    pub fn step(&mut self) -> bool {
        let Some(((at, number), event)) = self.queue.pop_first() else { return false };
        self.now = at;
        self.outcome.events += 1;
        self.mix(at);
        self.mix(number);
        self.handle(event);
        while let Some((node, program)) = self.ready.pop_front() {
            self.poll(node, program);
        }
        self.gather();
        true
    }

    /// Goes on until this is true, at most so long. Whether it became true.
    pub fn until(&mut self, ms: u64, mut done: impl FnMut(&mut World) -> bool) -> bool {
        let end = self.now + ms * 1000;
        loop {
            if done(self) {
                return true;
            }
            if self.now >= end || !self.outcome.findings.is_empty() || !self.step() {
                return false;
            }
        }
    }

    pub fn gather(&mut self) {
        let mut found = std::mem::take(&mut self.history.findings);
        found.append(&mut self.data.findings);
        found.append(&mut self.locks.findings);
        found.append(&mut self.jobs.borrow_mut().findings);
        found.append(&mut self.relaxed.borrow_mut().findings);
        for seat in &mut self.seats {
            if let Some(server) = &mut seat.server {
                found.append(&mut server.watch.findings);
            }
        }
        found.into_iter().for_each(|text| self.wrong(text));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ToServer(conn) => self.arrive_at_server(conn),
            Event::ToClient(conn) => self.arrive_at_client(conn),
            Event::GoneServer(conn) => self.gone_server(conn),
            Event::GoneClient(conn) => self.gone_client(conn),
            Event::Connect { node, life, number, rank } => self.connect(node, life, number, rank),
            Event::ClientTick { node, life } => {
                if self.is_alive(node, life) {
                    self.feed_client(node, Input::Tick);
                    let us = self.rng.range(30_000, 60_000);
                    self.after(us, Event::ClientTick { node, life });
                }
            }
            Event::Invalidated { node, life, token, what } => {
                if self.is_alive(node, life) {
                    self.note(|| format!("client {node} dropped {what:?}"));
                    self.nodes[node].kernel.invalidate(what);
                    self.nodes[node].dropping -= 1;
                    self.feed_client(node, Input::Invalidated { token });
                }
            }
            Event::Program { node, life, program } => {
                if self.is_alive(node, life) {
                    self.wake(node, program);
                }
            }
            Event::Work { rank, life, work } => {
                if life == self.seats[rank].life && self.seats[rank].server.is_some() {
                    self.note(|| format!("rank {rank} {}", show_work(&work)));
                    self.with_server(rank, |server, now| server.work(now, work));
                }
            }
            Event::StartServer(rank) => self.start_server(rank),
            Event::LookAtPairs => self.look_at_pairs(),
            Event::PairUp { at, side, number } => self.pair_up(at, side, number),
            Event::PairDown { at, side, number } => self.pair_down(at, side, number),
            Event::ToPeer { at, side, number } => self.arrive_at_peer(at, side, number),
            Event::Thrash => self.thrash(),
            Event::Members => self.change_members(),
            Event::Policy => self.change_policy(),
            Event::TellMap { rank } => self.tell_map(rank),
            Event::Order { rank, dir, frag, to, hops } => self.order_again(rank, dir, frag, to, hops),
            Event::Refused { node, life } => {
                if self.is_alive(node, life) {
                    self.crash_node(node);
                }
            }
            Event::CrashNode { node, life } => {
                if self.is_alive(node, life) && !self.quiet {
                    self.crash_node(node);
                }
            }
            Event::StartNode(node) => {
                if !self.nodes[node].up {
                    self.begin_node(node);
                    self.begin_programs(node);
                }
            }
            Event::Fault => self.fault(),
            Event::Room => self.make_room(),
            Event::Direct(step) => self.direct_step(step),
            Event::Crash { rank, life, all } => {
                if life == self.seats[rank].life && life != 0 && !self.quiet {
                    let plan = self.crash_plan();
                    if all { self.crash_all(&plan) } else { self.crash_server(rank, &plan) }
                }
            }
        }
    }
}

fn halves(key: &[u8; 16]) -> (u64, u64) {
    let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("eight bytes"));
    (half(0), half(8))
}

/// A message in a few words.
pub fn show(msg: &dyn std::fmt::Debug) -> String {
    let mut text = format!("{msg:?}");
    if text.len() > 900 {
        let end = (0..=900).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text += "...";
    }
    text
}

fn show_work(work: &Work) -> String {
    match work {
        Work::Tick => "ticks".into(),
        other => show(other),
    }
}
