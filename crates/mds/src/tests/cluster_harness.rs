//! Several machines in memory over one table: messages between them come in order, by themselves or by hand; each has its
//! own journal; clients have a session with each of them under one number. No data, no real time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_journal::table::{Meta, Row, decode_row};
use loligo_namespace::{FragConfig, Loaded, Tree, invariants};
use loligo_types::msg::{Reclaim, ToClient};
use loligo_types::{Answer, ClusterMap, Frag, FsResult, Ino, Kind, Op, Rank, RankInfo, RankState, Route, Seq};

use super::harness::*;
use crate::admin::{Ask, Migration, Told};
use crate::peer::PeerMsg;
use crate::{Config, Input, Member, Peer};

/// Outcome of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    Answered(FsResult<Answer>),
    Redirected { rank: usize, routes: Vec<Route>, done: Option<(Ino, u64)> },
}

/// The ranks, their table, and what is on its way between them.
pub struct Cluster {
    worlds: Vec<World>,
    pub table: BTreeMap<Vec<u8>, Vec<u8>>,
    /// On its way, by sender and receiver.
    pub wires: BTreeMap<(usize, usize), VecDeque<PeerMsg>>,
    /// Directions in which messages are delivered by hand only.
    pub held: BTreeSet<(usize, usize)>,
    /// Ranks whose process is not there.
    down: BTreeSet<usize>,
    clients: u64,
}

pub fn rank(at: usize) -> Rank {
    Rank(u16::try_from(at).expect("there are few ranks in a test"))
}

fn settings(at: usize, map: &ClusterMap) -> Config {
    // Nobody is evicted for silence, and nothing is checkpointed unless a test waits for it.
    let quiet = Config { session_ms: 10_000_000, recall_ms: 1_000_000, dirty_ms_max: 3000, ..config() };
    Config { rank: rank(at), map: map.clone(), ..quiet }
}

impl Cluster {
    pub fn new(ranks: usize) -> Cluster {
        Cluster::with_states(&vec![RankState::Up; ranks])
    }

    pub fn with_states(states: &[RankState]) -> Cluster {
        Cluster::with(states, FragConfig::default())
    }

    pub fn with(states: &[RankState], frag: FragConfig) -> Cluster {
        Cluster::with_settings(states, |config| Config { frag, ..config })
    }

    /// With other settings than those of [`settings`].
    pub fn with_settings(states: &[RankState], change: impl Fn(Config) -> Config) -> Cluster {
        let info =
            |(at, state): (usize, &RankState)| RankInfo { rank: rank(at), address: String::new(), state: *state };
        let map = ClusterMap { epoch: 1, ranks: states.iter().enumerate().map(info).collect(), ..Default::default() };
        let worlds = (0..states.len()).map(|at| World::with(change(settings(at, &map)))).collect();
        let mut cluster = Cluster {
            worlds,
            table: super::rows::begun(),
            wires: BTreeMap::new(),
            held: BTreeSet::new(),
            down: BTreeSet::new(),
            clients: 0,
        };
        cluster.worlds.iter_mut().for_each(|world| world.syncs_data = true);
        for at in 0..states.len() {
            for other in at + 1..states.len() {
                cluster.join(at, other);
            }
        }
        cluster
    }

    pub fn len(&self) -> usize {
        self.worlds.len()
    }

    /// Does something with a rank, which has the table meanwhile; then what follows from it at all ranks.
    pub fn at<R>(&mut self, at: usize, what: impl FnOnce(&mut World) -> R) -> R {
        let result = self.only(at, what);
        self.run();
        result
    }

    fn only<R>(&mut self, at: usize, what: impl FnOnce(&mut World) -> R) -> R {
        assert!(!self.down.contains(&at), "rank {at} is down");
        let world = &mut self.worlds[at];
        std::mem::swap(&mut self.table, &mut world.table);
        let result = what(world);
        world.pump();
        std::mem::swap(&mut self.table, &mut world.table);
        assert_eq!(world.fatal, None, "rank {at}");
        for (to, msg) in std::mem::take(&mut world.to_peers) {
            let to = usize::from(to.0);
            if !self.down.contains(&to) {
                self.wires.entry((at, to)).or_default().push_back(msg);
            }
        }
        result
    }

    /// Delivers what is not held.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let free = self.wires.iter().find(|(wire, queue)| !queue.is_empty() && !self.held.contains(wire));
            let Some((wire, _)) = free else { return };
            let (from, to) = *wire;
            self.carry(from, to);
        }
        panic!("the ranks talk without end");
    }

    fn carry(&mut self, from: usize, to: usize) -> Option<PeerMsg> {
        let msg = self.wires.get_mut(&(from, to))?.pop_front()?;
        self.only(to, |world| world.input(Input::Peer { from: rank(from), msg: msg.clone() }));
        Some(msg)
    }

    /// Delivers the next message of a direction that is held.
    pub fn deliver(&mut self, from: usize, to: usize) -> PeerMsg {
        let msg = self.carry(from, to).expect("a message is on its way");
        self.run();
        msg
    }

    /// The messages on their way in a direction.
    pub fn waiting(&self, from: usize, to: usize) -> Vec<&PeerMsg> {
        self.wires.get(&(from, to)).map_or(Vec::new(), |queue| queue.iter().collect())
    }

    /// Delivers what is on its way between two ranks that are held, until such a message is among those that wait.
    pub fn deliver_until(&mut self, from: usize, to: usize, is_it: impl Fn(&PeerMsg) -> bool) {
        for _ in 0..200 {
            if self.waiting(from, to).into_iter().any(&is_it) {
                return;
            }
            for (from, to) in [(from, to), (to, from)] {
                while !self.waiting(from, to).is_empty() {
                    self.deliver(from, to);
                }
            }
            self.wait(50);
        }
        panic!("the message does not come");
    }

    /// From now on messages between two ranks are delivered by hand, in both directions.
    pub fn hold(&mut self, a: usize, b: usize) {
        self.held.extend([(a, b), (b, a)]);
    }

    /// They are delivered by themselves again.
    pub fn release(&mut self) {
        self.held.clear();
        self.run();
    }

    fn join(&mut self, a: usize, b: usize) {
        self.only(a, |world| world.input(Input::PeerUp { rank: rank(b) }));
        self.only(b, |world| world.input(Input::PeerUp { rank: rank(a) }));
        self.run();
    }

    fn part(&mut self, a: usize, b: usize) {
        self.wires.remove(&(a, b));
        self.wires.remove(&(b, a));
        for (at, other) in [(a, b), (b, a)] {
            if !self.down.contains(&at) {
                self.only(at, |world| world.input(Input::PeerDown { rank: rank(other) }));
            }
        }
    }

    /// The connection between two ranks breaks, and there is a new one.
    pub fn reconnect(&mut self, a: usize, b: usize) {
        self.part(a, b);
        self.join(a, b);
    }

    /// The process of a rank dies; what was not durable is lost.
    pub fn kill(&mut self, at: usize) {
        self.down.insert(at);
        self.worlds[at].volatile.clear();
        for other in (0..self.len()).filter(|other| *other != at) {
            self.part(at, other);
        }
        self.run();
    }

    /// It starts again; its clients are still to come back.
    pub fn start(&mut self, at: usize) {
        self.down.remove(&at);
        self.tick_clocks();
        self.worlds[at].syncs = true;
        self.only(at, World::crash);
        for other in (0..self.len()).filter(|other| *other != at) {
            if !self.down.contains(&other) {
                self.join(at, other);
            }
        }
    }

    /// A client comes back to a rank that was restarted, with what it held.
    pub fn come_back(&mut self, client: usize, at: usize, held: Reclaim) {
        self.at(at, |world| {
            world.resume(client);
            world.reclaim(client, held);
        });
    }

    /// A rank dies and starts again, and all clients come back, holding nothing.
    pub fn crash(&mut self, at: usize) {
        self.kill(at);
        self.start(at);
        for client in 0..self.worlds[at].clients.len() {
            self.come_back(client, at, Reclaim::default());
        }
    }

    fn tick_clocks(&mut self) {
        for world in &mut self.worlds {
            world.now.mono_ms += 50;
            world.now.wall.0 += 50_000_000;
        }
    }

    /// Time goes on.
    pub fn wait(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(50) {
            self.tick_clocks();
            for at in 0..self.len() {
                if !self.down.contains(&at) {
                    self.only(at, World::tick);
                }
            }
            self.run();
        }
    }

    /// A client with a session at each rank.
    pub fn client(&mut self) -> usize {
        self.client_as(None)
    }

    /// The same, of somebody else than root.
    pub fn client_as(&mut self, peer: Option<Peer>) -> usize {
        self.clients += 1;
        let (number, ranks) = (1000 + self.clients, self.len());
        let one = |at| self.at(at, |world| world.client_of_many(number, peer.clone()));
        let at = (0..ranks).map(one).collect::<Vec<_>>();
        assert!(at.iter().all(|place| *place == at[0]), "a client has the same place everywhere");
        at[0]
    }

    /// A client with a session at one rank only.
    pub fn client_at(&mut self, at: usize) -> usize {
        self.clients += 1;
        let number = 1000 + self.clients;
        for world in &mut self.worlds {
            world.clients.push(Client { obeys: true, want: BOTH, number, ..Client::default() });
        }
        let client = self.worlds[at].clients.len() - 1;
        self.connect(client, at);
        client
    }

    /// It makes a connection to a rank, where it has no session that it knows of.
    pub fn connect(&mut self, client: usize, at: usize) {
        self.at(at, |world| world.connect(client));
    }

    pub fn send(&mut self, client: usize, at: usize, op: Op) -> Seq {
        self.at(at, |world| world.send(client, op))
    }

    /// The outcome of a request, if there is one.
    pub fn outcome(&mut self, client: usize, at: usize, seq: Seq) -> Option<Outcome> {
        let inbox = &mut self.worlds[at].clients[client].inbox;
        let is_it = |msg: &ToClient| match msg {
            ToClient::Reply { seq: of, .. } | ToClient::Redirect { seq: of, .. } => *of == seq,
            _ => false,
        };
        let place = inbox.iter().position(is_it)?;
        Some(match inbox.remove(place)? {
            ToClient::Reply { result, .. } => Outcome::Answered(result),
            ToClient::Redirect { rank, routes, done, .. } => {
                Outcome::Redirected { rank: usize::from(rank.0), routes, done }
            }
            other => panic!("{other:?} is no answer"),
        })
    }

    /// Asks one rank.
    pub fn ask(&mut self, client: usize, at: usize, op: Op) -> Outcome {
        let text = format!("{op:?}");
        let seq = self.send(client, at, op);
        for _ in 0..200 {
            if let Some(outcome) = self.outcome(client, at, seq) {
                return outcome;
            }
            self.wait(50);
        }
        panic!("{text} is not answered by rank {at}: {:?}", self.worlds[at].mds.under_way())
    }

    /// Asks as a client does that begins with this rank and goes where it is sent; and who was asked.
    pub fn call_by(&mut self, client: usize, first: usize, op: &Op) -> (FsResult<Answer>, Vec<usize>) {
        let (mut at, mut asked) = (first, Vec::new());
        while asked.len() < 8 {
            asked.push(at);
            match self.ask(client, at, op.clone()) {
                Outcome::Answered(result) => return (result, asked),
                Outcome::Redirected { rank, .. } => at = rank,
            }
            if asked.len() > 3 {
                self.wait(100);
            }
        }
        panic!("{op:?} is sent from rank to rank: {asked:?}")
    }

    /// The same, from rank 0.
    pub fn call(&mut self, client: usize, op: Op) -> FsResult<Answer> {
        self.call_by(client, 0, &op).0
    }

    pub fn mkdir(&mut self, client: usize, dir: Ino, text: &str) -> Ino {
        match self.call(client, mkdir(dir, text)) {
            Ok(Answer::Entry(attr)) => attr.ino,
            other => panic!("mkdir {text}: {other:?}"),
        }
    }

    /// Makes a file and closes it.
    pub fn touch(&mut self, client: usize, dir: Ino, text: &str) -> Ino {
        let (answer, asked) = self.call_by(client, 0, &create(dir, text, WRITE, 9999));
        let Ok(Answer::Opened { attr, .. }) = answer else { panic!("create {text}: {answer:?}") };
        let last = *asked.last().expect("somebody was asked");
        self.ask(client, last, close(9999));
        attr.ino
    }

    /// Files `f0` and so on.
    pub fn touch_all(&mut self, client: usize, dir: Ino, files: usize) {
        for n in 0..files {
            self.touch(client, dir, &format!("f{n}"));
        }
    }

    /// The inode of a name, wherever it is.
    pub fn lookup(&mut self, client: usize, dir: Ino, text: &str) -> FsResult<Ino> {
        match self.call(client, Op::Lookup { dir, name: name(text) }) {
            Ok(Answer::Entry(attr)) => Ok(attr.ino),
            Ok(Answer::Remote { ino, .. }) => Ok(ino),
            Ok(other) => panic!("lookup {text}: {other:?}"),
            Err(error) => Err(error),
        }
    }

    pub fn attr(&mut self, client: usize, ino: Ino) -> FsResult<loligo_types::Attr> {
        match self.call(client, Op::GetAttr { ino }) {
            Ok(Answer::Entry(attr)) => Ok(attr),
            Ok(other) => panic!("attributes of {ino}: {other:?}"),
            Err(error) => Err(error),
        }
    }

    /// The cluster map, as rank 0 knows it.
    pub fn map(&self) -> ClusterMap {
        self.worlds[0].mds.cluster.atlas.map.clone()
    }

    /// The keeper of the map changes it and tells all ranks.
    pub fn change_map(&mut self, change: impl FnOnce(&mut Vec<RankInfo>)) {
        let mut map = self.map();
        map.epoch += 1;
        if map.ranks.is_empty() {
            map.ranks.push(RankInfo { rank: rank(0), address: String::new(), state: RankState::Up });
        }
        change(&mut map.ranks);
        for at in 0..self.len() {
            if !self.down.contains(&at) {
                self.worlds[at].config.map = map.clone();
                self.only(at, |world| world.input(Input::Map(map.clone())));
            }
        }
        self.run();
    }

    /// One rank that knows of no other.
    pub fn begin_alone(&mut self) {
        self.worlds.push(World::with(settings(0, &ClusterMap::default())));
        self.worlds[0].syncs_data = true;
    }

    /// A rank that was removed is added again.
    pub fn come_again(&mut self, at: usize) {
        self.change_map(|ranks| {
            ranks.push(RankInfo { rank: rank(at), address: String::new(), state: RankState::Up });
            ranks.sort_by_key(|info| info.rank);
        });
        self.worlds[at].config.map = self.map();
        self.worlds[at].stopped = false;
        self.start(at);
    }

    /// A rank is added.
    pub fn add(&mut self) -> usize {
        let at = self.len();
        self.change_map(|ranks| {
            ranks.push(RankInfo { rank: rank(at), address: String::new(), state: RankState::Up });
        });
        let map = self.map();
        self.worlds.push(World::with(settings(at, &map)));
        self.worlds[at].now = self.worlds[0].now;
        self.worlds[at].syncs_data = true;
        for other in 0..at {
            if !self.down.contains(&other) {
                self.join(other, at);
            }
        }
        for client in 0..self.worlds[0].clients.len() {
            let number = self.worlds[0].clients[client].number;
            self.worlds[at].clients.push(Client { obeys: true, want: BOTH, number, ..Client::default() });
            self.connect(client, at);
        }
        at
    }

    pub fn set_state(&mut self, of: usize, state: RankState) {
        self.change_map(|ranks| {
            let info = ranks.iter_mut().find(|info| info.rank == rank(of)).expect("it is in the map");
            info.state = state;
        });
    }

    /// Takes the messages of a rank to the keeper of the map.
    pub fn members(&mut self, at: usize) -> Vec<Member> {
        std::mem::take(&mut self.worlds[at].members)
    }

    /// Waits until a rank says this to the keeper of the map.
    pub fn wait_member(&mut self, at: usize, what: &Member) {
        for _ in 0..400 {
            if self.members(at).contains(what) {
                return;
            }
            self.wait(50);
        }
        let under_way: Vec<_> = self.worlds.iter().map(|world| world.mds.under_way()).collect();
        let status = self.worlds[at].mds.drain_status();
        panic!("rank {at} does not say {what:?}: {status:?} {under_way:?}");
    }

    /// A rank is drained to the end, its clients go, and it is removed.
    pub fn drain_and_remove(&mut self, at: usize) {
        self.set_state(at, RankState::Draining);
        self.wait_member(at, &Member::Drained);
        self.remove_drained(at);
    }

    /// The rest of it.
    pub fn remove_drained(&mut self, at: usize) {
        self.set_state(at, RankState::Leaving);
        for client in 0..self.worlds[at].clients.len() {
            self.at(at, |world| world.message(client, loligo_types::msg::ToServer::Goodbye { gone: false }));
        }
        self.wait_member(at, &Member::Left);
        self.at(at, |world| world.input(Input::Stop));
        self.wait_for("the end of a rank", |cluster| cluster.worlds[at].stopped);
        assert_eq!(self.worlds[at].mds.inodes_held(), []);
        self.down.insert(at);
        for other in (0..self.len()).filter(|other| *other != at) {
            self.part(at, other);
        }
        self.change_map(|ranks| ranks.retain(|info| info.rank != rank(at)));
    }

    /// An administrator asks.
    pub fn admin(&mut self, at: usize, ask: Ask) -> Told {
        self.at(at, |world| {
            world.told = None;
            world.input(Input::Admin { id: 1, ask });
            world.told.take().expect("an administrator is answered at once")
        })
    }

    /// Begins a migration.
    pub fn begin_move(&mut self, dir: Ino, from: usize, to: usize) -> u64 {
        match self.admin(from, Ask::Migrate { dir, to: rank(to) }) {
            Told::Begun(id) => id,
            other => panic!("{dir} from {from} to {to}: {other:?}"),
        }
    }

    /// Moves a fragment of a directory, to the end.
    pub fn migrate_frag(&mut self, dir: Ino, frag: Frag, from: usize, to: usize) {
        let id = self.begin_frag(dir, frag, from, to);
        self.wait_for("the end of a migration", |cluster| {
            let state = cluster.state(from, id);
            assert!(!state.starts_with("failed"), "{state}");
            state == "done"
        });
    }

    /// Begins to.
    pub fn begin_frag(&mut self, dir: Ino, frag: Frag, from: usize, to: usize) -> u64 {
        match self.admin(from, Ask::MigrateFrag { dir, frag, to: rank(to) }) {
            Told::Begun(id) => id,
            other => panic!("{frag} of {dir} from {from} to {to}: {other:?}"),
        }
    }

    /// The state of a migration.
    pub fn state(&mut self, from: usize, id: u64) -> String {
        let all: Vec<Migration> = self.at(from, |world| world.mds.cluster.exports.migrations(&world.mds.core));
        all.into_iter().find(|one| one.id == id).map_or("unknown".into(), |one| one.state)
    }

    /// Moves a directory, to the end.
    pub fn migrate(&mut self, dir: Ino, from: usize, to: usize) {
        let id = self.begin_move(dir, from, to);
        self.wait_for("the end of a migration", |cluster| {
            let state = cluster.state(from, id);
            assert!(!state.starts_with("failed"), "{state}");
            state == "done"
        });
    }

    /// Lets time go on until something is so.
    pub fn wait_for(&mut self, what: &str, mut is_so: impl FnMut(&mut Cluster) -> bool) {
        for _ in 0..400 {
            if is_so(self) {
                return;
            }
            self.wait(50);
        }
        let under_way: Vec<_> = self.worlds.iter().map(|world| world.mds.under_way()).collect();
        panic!("{what} does not come: {under_way:?}");
    }

    /// True if a rank has an inode in memory, and so says that it is its own.
    pub fn has(&self, at: usize, ino: Ino) -> bool {
        self.worlds[at].mds.inodes_held().contains(&ino)
    }

    /// The world of a rank, to look at.
    pub fn world(&self, at: usize) -> &World {
        &self.worlds[at]
    }

    /// All names, as a client finds them that walks through all ranks: inode, kind, links, mode.
    pub fn walk(&mut self, client: usize) -> BTreeMap<String, (Ino, Kind, u32, u16)> {
        let (mut found, mut todo) = (BTreeMap::new(), vec![(String::new(), Ino::ROOT)]);
        while let Some((path, dir)) = todo.pop() {
            let mut cookie = 0;
            loop {
                let op = Op::Readdir { dir, cookie, limit: 5, plus: false, handle: None };
                let answer = self.call(client, op);
                let Ok(Answer::Entries { entries, next, end }) = answer else { panic!("readdir {path}: {answer:?}") };
                for entry in &entries {
                    let path = format!("{path}/{}", entry.name);
                    let attr = self.attr(client, entry.ino).unwrap_or_else(|error| panic!("{path}: {error:?}"));
                    assert_eq!((attr.ino, attr.kind), (entry.ino, entry.kind), "{path}");
                    if entry.kind == Kind::Dir {
                        todo.push((path.clone(), entry.ino));
                    }
                    found.insert(path, (attr.ino, attr.kind, attr.nlink, attr.mode));
                }
                if end {
                    break;
                }
                assert!(next > cookie, "{path}: it gets further");
                cookie = next;
            }
        }
        found
    }

    /// Everything comes to rest: nothing is under way, no inode is two ranks', and the table as a whole is a sound tree.
    pub fn finish(mut self) {
        self.release();
        self.wait_for("rest", |cluster| cluster.alive().all(|world| world.mds.under_way().is_empty()));
        // Sums move up.
        self.wait(8000);
        let mut all = BTreeSet::new();
        for world in self.alive() {
            for ino in world.mds.inodes_held() {
                assert!(all.insert(ino), "inode {ino} is two ranks'");
            }
        }
        for at in (0..self.len()).filter(|at| !self.down.contains(at)).collect::<Vec<_>>() {
            self.at(at, |world| world.input(Input::Stop));
        }
        self.wait(500);
        assert!(self.worlds.iter().all(|world| world.stopped), "they stop");
        assert_eq!(self.faults(), Vec::<String>::new());
    }

    /// The rows of the table.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.table.iter().map(|(key, value)| decode_row(key, value).expect("the table holds what was written"))
    }

    fn alive(&self) -> impl Iterator<Item = &World> + '_ {
        self.worlds.iter().enumerate().filter(|(at, _)| !self.down.contains(at)).map(|(_, world)| world)
    }

    fn faults(&self) -> Vec<String> {
        let mut tree = Tree::new(
            config().hash_key,
            loligo_namespace::Config {
                inline_max: self.worlds[0].config.inline_max,
                rank: Rank::ZERO,
                frag: loligo_namespace::FragConfig::default(),
            },
        );
        let mut dirs: BTreeMap<Ino, Vec<_>> = BTreeMap::new();
        let mut xattrs: BTreeMap<Ino, Vec<_>> = BTreeMap::new();
        let mut next = Ino(0);
        let (mut inodes, mut parts) = (Vec::new(), Vec::new());
        for row in self.rows() {
            match row {
                Row::Inode(inode) => {
                    if inode.kind == Kind::Dir {
                        dirs.entry(inode.ino).or_default();
                    }
                    if inode.part_of().is_some() { parts.push(inode) } else { inodes.push(inode) }
                }
                Row::Entry { dir, name, target, .. } => dirs.entry(dir).or_default().push((name, target)),
                Row::Xattr { ino, name, value } => xattrs.entry(ino).or_default().push((name, value)),
                Row::Inline { ino, data } => tree.load(Loaded::Inline(ino, Some(data))),
                Row::Orphan { ino, .. } => tree.load(Loaded::Orphan(ino)),
                Row::Discard { ino, from, object_size, .. } => tree.load(Loaded::Discard { ino, from, object_size }),
                Row::Meta { meta: Meta::NextIno, value, .. } => next = next.max(Ino(value)),
                _ => {}
            }
        }
        for mut inode in inodes {
            // Where fragments are several ranks', what is counted is what all count together.
            let ino = inode.ino;
            parts.iter().filter(|part| part.ino == ino).for_each(|part| inode.add_part(part));
            inode.end_spread();
            tree.load(Loaded::Inode(inode.ino, Some(inode)));
        }
        for (dir, entries) in dirs {
            tree.load(Loaded::Range { dir, from_hash: 0, upto_hash: u64::MAX, entries });
        }
        for (ino, items) in xattrs {
            tree.load(Loaded::Xattrs(ino, items));
        }
        tree.load(Loaded::NextIno(next));
        invariants::check(&tree)
    }
}

/// Two ranks, a client, and two directories below the root: the first is rank 0's, the second rank 1's.
pub fn two_ranks() -> (Cluster, usize, Ino, Ino) {
    here_and_there(Cluster::new(2))
}

pub fn here_and_there(mut cluster: Cluster) -> (Cluster, usize, Ino, Ino) {
    let client = cluster.client();
    let (here, there) = (cluster.mkdir(client, Ino::ROOT, "here"), cluster.mkdir(client, Ino::ROOT, "there"));
    cluster.migrate(there, 0, 1);
    (cluster, client, here, there)
}

pub fn rename(dir: Ino, text: &str, new_dir: Ino, new_text: &str) -> Op {
    let mode = loligo_types::RenameMode::Replace;
    Op::Rename { dir, name: name(text), new_dir, new_name: name(new_text), mode }
}

pub fn rmdir(dir: Ino, text: &str) -> Op {
    Op::Rmdir { dir, name: name(text) }
}
