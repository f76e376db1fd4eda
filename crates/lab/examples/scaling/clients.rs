//! Clients in virtual time: each keeps so many requests in flight, and goes where it is sent. They take no time
//! themselves, have no cache and ask for no leases: what is drawn is what ranks can do. Not the client machine.

use std::collections::{BTreeMap, HashMap};

use loligo_lab::world::{KEY, Next, World};
use loligo_mds::Input;
use loligo_mds::admin::{Ask, Told};
use loligo_namespace::hash63;
use loligo_types::msg::{Request, ToClient, ToServer};
use loligo_types::{Answer, Cred, Frag, FsError, Ino, Kind, Lease, Name, Op, Random, Rank, RenameMode, Seq};

/// Requests that a client keeps in flight.
pub const WINDOW: usize = 32;
/// Clients for each rank.
pub const CLIENTS: usize = 4;
/// Connections are numbered by client and rank.
const RANKS_MAX: u64 = 1024;

/// Load of the clients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// Each in a directory of its own, spread over the ranks.
    Own,
    /// The same, and so many of a hundred requests are renames into a directory of another rank.
    Renames(u64),
    /// The same as `Own`, while a directory moves to another rank every so many milliseconds.
    Moving(u64),
    /// All in one directory.
    Shared,
    /// All in one directory, whose fragments are dealt out to all ranks; nothing is renamed.
    Spread,
}

struct Flight {
    op: Op,
    began: u64,
}

#[derive(Default)]
struct Session {
    seq: u64,
    flying: BTreeMap<u64, Flight>,
}

struct Client {
    sessions: HashMap<usize, Session>,
    dir: Ino,
    /// A directory of another rank.
    other: Ino,
    rank: usize,
    /// Numbers of the names that are surely in its directory, and that no request is about to change.
    live: Vec<u64>,
    names: u64,
    chance: Random,
}

/// All clients of a world.
pub struct Clients {
    load: Load,
    /// Of `Load::Spread`: how fine the directory is cut. Fragment N is at rank N, modulo the number of ranks.
    bits: u8,
    all: Vec<Client>,
    cred: Cred,
    pub done: u64,
    /// Ordered and begun.
    pub migrations: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    pub latencies: Vec<u32>,
    /// True if its operations count.
    pub counts: bool,
}

fn name(client: usize, number: u64) -> Name {
    Name::new(format!("c{client:05}.{number:09}").as_bytes()).expect("a valid name")
}

/// The number of the name that an operation has made in the client's directory.
fn made(op: &Op) -> Option<u64> {
    let name = match op {
        Op::Mknod { name, .. } => name,
        Op::Rename { dir, new_dir, new_name, .. } if dir == new_dir => new_name,
        _ => return None,
    };
    String::from_utf8_lossy(name.as_bytes()).rsplit('.').next()?.parse().ok()
}

fn conn(client: usize, rank: usize) -> u64 {
    client as u64 * RANKS_MAX + rank as u64 + 1
}

impl Clients {
    /// Makes the directories, puts them on their ranks, and connects.
    pub fn start(world: &mut World, load: Load) -> Result<Clients, String> {
        let ranks = world.ranks();
        let count = CLIENTS * ranks;
        let is_one = matches!(load, Load::Shared | Load::Spread);
        let dirs = Self::make_dirs(world, if is_one { 1 } else { count })?;
        let bits = if load == Load::Spread { ranks.next_power_of_two().ilog2() as u8 } else { 0 };
        if load == Load::Spread {
            for frag in Frag::WHOLE.split(bits).into_iter().skip(1) {
                let to = frag.value as usize % ranks;
                if to > 0 {
                    let ask = Ask::MigrateFrag { dir: dirs[0], frag, to: Rank(to as u16) };
                    world.arrive(0, 0, Input::Admin { id: u64::from(frag.value), ask });
                }
            }
            let until = world.now + (1 << bits) * 200_000_000 + 2_000_000_000;
            while world.run(until).is_some() {}
        } else if !is_one && ranks > 1 {
            for (at, dir) in dirs.iter().enumerate().filter(|(at, _)| at % ranks != 0) {
                let to = Rank((at % ranks) as u16);
                world.arrive(0, 0, Input::Admin { id: at as u64, ask: Ask::Migrate { dir: *dir, to } });
            }
            // A few ticks for each, one after another.
            let until = world.now + dirs.len() as u64 * 120_000_000 + 2_000_000_000;
            while world.run(until).is_some() {}
        }
        let client = |at: usize| Client {
            sessions: HashMap::new(),
            dir: dirs[at % dirs.len()],
            other: dirs[(at + 1) % dirs.len()],
            rank: if is_one { 0 } else { at % ranks },
            live: Vec::new(),
            names: 0,
            chance: Random::new(at as u64),
        };
        let all = (0..count).map(client).collect();
        let (cred, latencies) = (Cred::root(), Vec::new());
        Ok(Clients {
            load,
            bits,
            all,
            cred,
            done: 0,
            migrations: 0,
            errors: 0,
            first_error: None,
            latencies,
            counts: false,
        })
    }

    fn make_dirs(world: &mut World, count: usize) -> Result<Vec<Ino>, String> {
        let own = u64::MAX >> 2;
        world.connect(0, own, 0);
        let mut dirs = Vec::new();
        for at in 0..count as u64 {
            let op = Op::Mkdir { dir: Ino::ROOT, name: name(0, at), mode: 0o755, umask: 0 };
            let request = Request {
                ino: None,
                ways: None,
                seq: Seq(at + 1),
                answered: Seq(at),
                want: Lease::NONE,
                cred: Cred::root(),
                op,
            };
            world.send(0, own, ToServer::Request(request));
            let until = world.now + 1_000_000_000;
            let made = loop {
                match world.run(until) {
                    Some(Next::Message { msg, .. }) => match *msg {
                        ToClient::Reply { result: Ok(Answer::Entry(attr)), .. } => break attr.ino,
                        ToClient::Reply { result, .. } => return Err(format!("mkdir: {result:?}")),
                        _ => {}
                    },
                    Some(_) => {}
                    None => return Err("a directory cannot be made".into()),
                }
            };
            dirs.push(made);
        }
        Ok(dirs)
    }

    /// Everybody begins.
    pub fn begin(&mut self, world: &mut World) {
        for at in 0..self.all.len() {
            (0..WINDOW).for_each(|_| self.ask(world, at));
        }
    }

    /// Works until then.
    pub fn run(&mut self, world: &mut World, until: u64) {
        let mut next_move = (0, world.now);
        while world.now < until {
            let mut stop = until;
            if let Load::Moving(ms) = self.load {
                if world.now >= next_move.1 {
                    self.order_move(world, next_move.0);
                    next_move = (next_move.0 + 1, world.now + ms * 1_000_000);
                }
                stop = stop.min(next_move.1);
            }
            while let Some(next) = world.run(stop) {
                match next {
                    Next::Message { rank, conn, msg } => {
                        self.told(world, rank, ((conn - 1) / RANKS_MAX) as usize, *msg);
                    }
                    Next::Told { told, .. } => self.migrations += u64::from(matches!(*told, Told::Begun(_))),
                    Next::Timer(_) | Next::Balance { .. } => {}
                }
            }
        }
    }

    fn order_move(&mut self, world: &mut World, number: usize) {
        // Over all of them, in no order.
        let at = number * 7919 % self.all.len();
        let (dir, from) = (self.all[at].dir, self.all[at].rank);
        let to = Rank(((from + 1) % world.ranks()) as u16);
        world.arrive(from, 0, Input::Admin { id: number as u64, ask: Ask::Migrate { dir, to } });
    }

    fn random(&mut self, at: usize, below: u64) -> u64 {
        self.all[at].chance.below(below)
    }

    /// A client asks for the next thing: of ten, four files made, four looked at, one renamed, one removed.
    fn ask(&mut self, world: &mut World, at: usize) {
        let dice = self.random(at, 100);
        let client = &mut self.all[at];
        let (dir, number) = (client.dir, client.names);
        let afar = match self.load {
            Load::Renames(percent) => percent,
            _ => 0,
        };
        let renames = self.load != Load::Spread;
        let op = if dice < afar + 20 && (renames || dice >= 10) && client.live.len() > 100 {
            let old = client.live.swap_remove(number as usize % client.live.len());
            if dice < afar {
                client.names += 1;
                let (new_dir, new_name) = (client.other, name(at, number));
                Op::Rename { dir, name: name(at, old), new_dir, new_name, mode: RenameMode::Replace }
            } else if dice < afar + 10 {
                client.names += 1;
                let new_name = name(at, number);
                Op::Rename { dir, name: name(at, old), new_dir: dir, new_name, mode: RenameMode::Replace }
            } else {
                Op::Unlink { dir, name: name(at, old) }
            }
        } else if dice < 60 && client.live.len() > 100 {
            let place = number as usize * 31 % client.live.len();
            // A request of this client's may remove it meanwhile: that it is gone is an answer, too.
            Op::Lookup { dir, name: name(at, client.live[place]) }
        } else {
            client.names += 1;
            Op::Mknod { dir, name: name(at, number), kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 }
        };
        let rank = self.rank_for(world, at, &op);
        let began = world.now;
        self.send(world, at, rank, Flight { op, began });
    }

    /// The rank that has the name.
    fn rank_for(&self, world: &World, at: usize, op: &Op) -> usize {
        match op.first_name() {
            Some((_, name)) if self.load == Load::Spread => {
                Frag::of(hash63(KEY, name.as_bytes()), self.bits).value as usize % world.ranks()
            }
            _ => self.all[at].rank,
        }
    }

    fn send(&mut self, world: &mut World, at: usize, rank: usize, flight: Flight) {
        let client = &mut self.all[at];
        let session = client.sessions.entry(rank).or_insert_with(|| {
            world.connect(rank, conn(at, rank), at as u64 + 1);
            Session::default()
        });
        session.seq += 1;
        let seq = session.seq;
        let answered = session.flying.keys().next().map_or(seq, |oldest| *oldest) - 1;
        let (cred, op) = (self.cred.clone(), flight.op.clone());
        session.flying.insert(seq, flight);
        let request =
            Request { ino: None, ways: None, seq: Seq(seq), answered: Seq(answered), want: Lease::NONE, cred, op };
        world.send(rank, conn(at, rank), ToServer::Request(request));
    }

    fn told(&mut self, world: &mut World, rank: usize, at: usize, msg: ToClient) {
        let Some(client) = self.all.get_mut(at) else { return };
        match msg {
            ToClient::Reply { seq, result, .. } => {
                let flight = client.sessions.get_mut(&rank).and_then(|session| session.flying.remove(&seq.0));
                let Some(flight) = flight else { return };
                match &result {
                    Ok(_) => client.live.extend(made(&flight.op)),
                    Err(FsError::NotFound) if matches!(flight.op, Op::Lookup { .. }) => {}
                    Err(error) if self.counts => {
                        self.errors += 1;
                        self.first_error.get_or_insert_with(|| format!("{:?}: {error:?}", flight.op));
                    }
                    _ => {}
                }
                if self.counts {
                    self.done += 1;
                    self.latencies.push((world.now - flight.began).min(u64::from(u32::MAX)) as u32);
                }
                self.ask(world, at);
            }
            ToClient::Redirect { seq, rank: to, .. } => {
                let flight = client.sessions.get_mut(&rank).and_then(|session| session.flying.remove(&seq.0));
                let Some(flight) = flight else { return };
                if self.load != Load::Spread {
                    client.rank = usize::from(to.0);
                }
                self.send(world, at, usize::from(to.0), flight);
            }
            ToClient::Recall { ino, id, .. } => {
                world.send(rank, conn(at, rank), ToServer::RecallDone { ino, id });
            }
            _ => {}
        }
    }
}
