//! Client machines in virtual time: the production ones, driven as their driver does, each with lanes of programs above it and a
//! cache as a kernel has. Not what the programs do (`shell.rs`), nor what came of it (`lab.rs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use loligo_client::{Call, CallId, Client, Config, Input, Now, Output, Token};
use loligo_mds::Input as MdsInput;
use loligo_types::msg::ToClient;
use loligo_types::{Cred, Ino, Op, Rank, Time, XattrMode};
use loligo_workload::{Lane, Rng};

use crate::by_path::Guesses;
use crate::kernel::Kernel;
use crate::shell::{Did, Mail, Reply, Shell, Want};
use crate::world::World;

/// Between two ticks of a client that waits for something, and of one that does not, nanoseconds.
const TICK_NS: u64 = 50_000_000;
const IDLE_TICK_NS: u64 = 250_000_000;
/// Shift of a timer's kind in its token, the highest byte; below it the number of the client and of the lane or connection.
const KIND: u32 = 56;
const CLIENT: u32 = 28;
const TICK: u64 = 0;
const WAKE: u64 = 1;
const CONNECTED: u64 = 2;
const RESTED: u64 = 3;
/// The call that says what the kernel has forgotten: it is answered at once.
const FORGET: CallId = CallId(0);
/// The call that sets a policy.
const SAY: CallId = CallId(u64::MAX);
/// Inodes that are forgotten with one call.
const FORGET_BATCH: usize = 64;

struct Running {
    mail: Rc<RefCell<Mail>>,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

struct Node {
    client: Client,
    kernel: Rc<RefCell<Kernel>>,
    /// Guesses of the rank to ask for a path, set if its programs use path functions.
    hints: Option<Rc<RefCell<Guesses>>>,
    /// Connections by what the client calls them.
    conns: BTreeMap<Rank, u64>,
    lanes: Vec<Running>,
    calls: BTreeMap<CallId, usize>,
    stopped: bool,
    /// When its last lane ended.
    ended: Option<u64>,
    /// Lanes that have not.
    going: usize,
    sessions: u64,
}

struct Conn {
    client: usize,
    number: Rank,
    rank: usize,
    open: bool,
}

/// All of them.
pub struct Clients {
    nodes: Vec<Node>,
    /// By their numbers, less one.
    conns: Vec<Conn>,
    now: Rc<Cell<u64>>,
    did: Rc<RefCell<Vec<(usize, Did)>>>,
    cred: Arc<Cred>,
    next_call: u64,
    /// Lanes that have not ended.
    going: usize,
    /// Lanes that have been told something.
    ready: Vec<(usize, usize)>,
    /// Lanes that have come to a mark.
    marked: Vec<(usize, usize)>,
    mark: Option<Arc<str>>,
    /// Phases that have begun, nanoseconds.
    pub phases: Vec<(Arc<str>, u64)>,
    /// Inodes that the kernel of a client remembers.
    cache_inodes: usize,
    /// Those that are added from now on ask by path, and cache nothing.
    pub by_path: bool,
    /// The time that all clients rest at a mark, nanoseconds.
    pub rest_ns: u64,
    /// True while they rest.
    resting: bool,
    /// A policy was set.
    said: bool,
    /// The first error that a client met and should not have.
    pub wrong: Option<String>,
}

impl Clients {
    /// None. `cache_inodes`: so many inodes each of them is to remember.
    pub fn new(cache_inodes: usize) -> Clients {
        Clients {
            nodes: Vec::new(),
            conns: Vec::new(),
            now: Rc::default(),
            did: Rc::default(),
            cred: Arc::new(Cred::root()),
            next_call: 1,
            going: 0,
            ready: Vec::new(),
            marked: Vec::new(),
            mark: None,
            phases: Vec::new(),
            cache_inodes,
            by_path: false,
            rest_ns: 0,
            resting: false,
            said: false,
            wrong: None,
        }
    }

    /// One more, which connects to the first rank. Its number.
    pub fn add(&mut self, world: &mut World) -> usize {
        let at = self.nodes.len();
        let config = Config {
            client: at as u64 + 1,
            name: format!("client{at}"),
            rank: Rank::ZERO,
            cache: !self.by_path,
            cache_names: !self.by_path,
            ..Config::default()
        };
        self.nodes.push(Node {
            client: Client::new(config),
            kernel: Rc::new(RefCell::new(Kernel::new(self.cache_inodes))),
            hints: self.by_path.then(Rc::default),
            conns: BTreeMap::new(),
            lanes: Vec::new(),
            calls: BTreeMap::new(),
            stopped: false,
            ended: None,
            going: 0,
            sessions: 0,
        });
        self.connect(world, at, Rank::ZERO, 0);
        world.timer(at as u64 * 1_370_000 % TICK_NS, TICK << KIND | (at as u64) << CLIENT);
        at
    }

    /// A client gets one more lane, which begins at this time.
    pub fn begin(&mut self, world: &mut World, at: usize, lane: Lane, start: u64, think_ns: u64, rng: Rng) {
        let mail: Rc<RefCell<Mail>> = Rc::default();
        let node = &mut self.nodes[at];
        let shell = Shell {
            mail: Rc::clone(&mail),
            kernel: Rc::clone(&node.kernel),
            hints: node.hints.clone(),
            now: Rc::clone(&self.now),
            start,
            did: Rc::clone(&self.did),
            client: at,
            lane: node.lanes.len(),
            think_ns,
            rng,
            marks: 0,
        };
        let number = node.lanes.len();
        node.lanes.push(Running { mail, future: Some(Box::pin(shell.run(lane))) });
        (node.going, node.ended) = (node.going + 1, None);
        self.going += 1;
        world.timer(start.saturating_sub(world.now), WAKE << KIND | (at as u64) << CLIENT | number as u64);
    }

    /// A client sets a policy of the root. [`Clients::is_said`] says whether it was done.
    pub fn say(&mut self, world: &mut World, at: usize, policy: &[u8], value: &str) {
        let (name, value) = (policy.into(), value.as_bytes().into());
        let call = Call::Op(Op::SetXattr { ino: Ino::ROOT, name, value, mode: XattrMode::Set });
        self.said = false;
        self.feed(world, at, Input::Call { id: SAY, cred: Arc::clone(&self.cred), call });
    }

    /// True if the policy of the last [`Clients::say`] is set.
    pub fn is_said(&self) -> bool {
        self.said
    }

    /// A client gives everything back and ends.
    pub fn stop(&mut self, world: &mut World, at: usize) {
        self.feed(world, at, Input::Stop);
        self.go_on(world);
    }

    /// True if the client has stopped.
    pub fn has_stopped(&self, at: usize) -> bool {
        self.nodes[at].stopped
    }

    /// Lanes that have not ended.
    pub fn going(&self) -> usize {
        self.going
    }

    /// When the last lane of a client ended, nanoseconds.
    pub fn ended(&self, at: usize) -> Option<u64> {
        self.nodes[at].ended
    }

    /// Calls of a client that have not been answered.
    pub fn unanswered(&self, at: usize) -> usize {
        self.nodes[at].calls.len()
    }

    /// Sessions that a client has begun.
    pub fn sessions(&self, at: usize) -> u64 {
        self.nodes[at].sessions
    }

    /// Calls of the workload that were answered since this was asked last, with their clients.
    pub fn take_done(&mut self) -> Vec<(usize, Did)> {
        std::mem::take(&mut self.did.borrow_mut())
    }

    /// A message has arrived.
    pub fn told(&mut self, world: &mut World, conn: u64, message: ToClient) {
        let Some(Conn { client, number, open: true, .. }) = self.conns.get(conn as usize - 1) else { return };
        let (client, rank) = (*client, *number);
        self.feed(world, client, Input::Message { rank, message });
        self.go_on(world);
    }

    /// The time of a timer has come.
    pub fn timer(&mut self, world: &mut World, number: u64) {
        let at = (number >> CLIENT & ((1 << (KIND - CLIENT)) - 1)) as usize;
        let low = number & ((1 << CLIENT) - 1);
        match number >> KIND {
            TICK => {
                if self.nodes[at].stopped {
                    return;
                }
                self.feed(world, at, Input::Tick);
                let waits = self.nodes[at].client.has_requests() || !self.nodes[at].calls.is_empty();
                world.timer(if waits { TICK_NS } else { IDLE_TICK_NS }, number);
            }
            CONNECTED => {
                let Conn { client, number, open, .. } = self.conns[low as usize - 1];
                if open {
                    self.feed(world, client, Input::Connected { rank: number });
                }
            }
            RESTED => self.pass_mark(world.now),
            _ => self.reply(at, low as usize, Reply::Woken),
        }
        self.go_on(world);
    }

    fn connect(&mut self, world: &mut World, client: usize, number: Rank, rank: usize) {
        self.disconnect(world, client, number);
        self.conns.push(Conn { client, number, rank, open: true });
        let conn = self.conns.len() as u64;
        self.nodes[client].conns.insert(number, conn);
        world.open(rank, conn);
        // There and back again.
        world.timer(2 * world.net(), CONNECTED << KIND | conn);
    }

    fn disconnect(&mut self, world: &mut World, client: usize, number: Rank) {
        let Some(conn) = self.nodes[client].conns.remove(&number) else { return };
        let of_it = &mut self.conns[conn as usize - 1];
        of_it.open = false;
        world.close(of_it.rank, conn);
    }

    fn feed(&mut self, world: &mut World, at: usize, input: Input) {
        self.now.set(world.now);
        let now = Now { ms: world.now / 1_000_000, wall: Time(world.now as i64) };
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.nodes[at].client.handle(now, input);
            while let Some(output) = self.nodes[at].client.poll() {
                self.output(world, at, output, &mut inputs);
            }
        }
    }

    fn output(&mut self, world: &mut World, at: usize, output: Output, inputs: &mut Vec<Input>) {
        match output {
            Output::Send { rank, message } => {
                if let Some(conn) = self.nodes[at].conns.get(&rank) {
                    world.send(self.conns[*conn as usize - 1].rank, *conn, message);
                }
            }
            Output::Connect { rank, address } => {
                let to = address.and_then(|text| text.parse().ok()).unwrap_or(0);
                self.connect(world, at, rank, to);
            }
            Output::Disconnect { rank } => self.disconnect(world, at, rank),
            Output::Ready { welcome, .. } => self.nodes[at].sessions += u64::from(!welcome.resumed),
            Output::Refused { why, text } => {
                self.wrong.get_or_insert_with(|| format!("client {at} was refused: {why:?}, {text}"));
            }
            // They have no connection to the store.
            Output::Direct { .. } => {}
            // Nor a subtree for themselves.
            Output::Keep { .. }
            | Output::KeptMerged { .. }
            | Output::KeptLost { .. }
            | Output::StageFailed { .. }
            | Output::Doubt { .. } => {}
            Output::Complete { id: FORGET, .. } => {}
            Output::Complete { id: SAY, result } => match result {
                Ok(_) => self.said = true,
                Err(failed) => {
                    self.wrong.get_or_insert_with(|| format!("the policy of the root was not set: {:?}", failed.error));
                }
            },
            Output::Complete { id, result } => match self.nodes[at].calls.remove(&id) {
                Some(lane) => self.reply(at, lane, Reply::Done(Box::new(result))),
                None => {
                    self.wrong.get_or_insert_with(|| format!("client {at} answered call {} twice", id.0));
                }
            },
            Output::Invalidate { token, what } => {
                self.nodes[at].kernel.borrow_mut().invalidate(what);
                if token != Token::NONE {
                    inputs.push(Input::Invalidated { token });
                }
            }
            Output::ClockRuns { rank, runs } => {
                self.wrong.get_or_insert_with(|| format!("client {at} takes the clock of rank {rank} for {runs:?}"));
            }
            Output::Stopped => {
                self.nodes[at].stopped = true;
                for number in self.nodes[at].conns.keys().copied().collect::<Vec<_>>() {
                    self.disconnect(world, at, number);
                }
            }
        }
    }

    fn reply(&mut self, at: usize, lane: usize, reply: Reply) {
        self.nodes[at].lanes[lane].mail.borrow_mut().reply = Some(reply);
        self.ready.push((at, lane));
    }

    /// Lets all lanes go on that were told something.
    fn go_on(&mut self, world: &mut World) {
        self.now.set(world.now);
        loop {
            while let Some((at, lane)) = self.ready.pop() {
                self.poll(world, at, lane);
            }
            if self.resting || self.marked.is_empty() || self.marked.len() < self.going() {
                return;
            }
            // All have come.
            if self.rest_ns > 0 {
                self.resting = true;
                world.timer(self.rest_ns, RESTED << KIND);
                return;
            }
            self.pass_mark(world.now);
        }
    }

    /// All lanes go on from the mark to which they have come.
    fn pass_mark(&mut self, now: u64) {
        self.resting = false;
        self.phases.extend(self.mark.take().map(|name| (name, now)));
        for (at, lane) in std::mem::take(&mut self.marked) {
            self.reply(at, lane, Reply::Woken);
        }
    }

    fn poll(&mut self, world: &mut World, at: usize, lane: usize) {
        let running = &mut self.nodes[at].lanes[lane];
        let Some(future) = &mut running.future else { return };
        let ended = future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let (found, forgotten) = {
            let mut kernel = self.nodes[at].kernel.borrow_mut();
            let is_batch = kernel.forgotten.len() >= FORGET_BATCH;
            let forgotten = if is_batch { std::mem::take(&mut kernel.forgotten) } else { Vec::new() };
            (std::mem::take(&mut kernel.found), forgotten)
        };
        if !forgotten.is_empty() {
            let (cred, call) = (Arc::clone(&self.cred), Call::Forget { inos: forgotten });
            self.feed(world, at, Input::Call { id: FORGET, cred, call });
        }
        for (other, found) in found {
            self.reply(at, other, Reply::Found(found));
        }
        let running = &mut self.nodes[at].lanes[lane];
        if ended {
            running.future = None;
            self.going -= 1;
            let node = &mut self.nodes[at];
            node.going -= 1;
            if node.going == 0 {
                node.ended = Some(world.now);
            }
            return;
        }
        let want = running.mail.borrow_mut().want.take();
        match want {
            Some(Want::Ask(call)) => {
                let id = CallId(self.next_call);
                self.next_call += 1;
                self.nodes[at].calls.insert(id, lane);
                self.feed(world, at, Input::Call { id, cred: Arc::clone(&self.cred), call });
            }
            Some(Want::Sleep(ns)) => world.timer(ns, WAKE << KIND | (at as u64) << CLIENT | lane as u64),
            Some(Want::Mark(name)) => {
                self.mark.get_or_insert(name);
                self.marked.push((at, lane));
            }
            Some(Want::Found) | None => {}
        }
    }

    /// Something for a rank from outside, for those who drive a world with clients.
    pub fn admin(world: &mut World, rank: usize, id: u64, ask: loligo_mds::admin::Ask) {
        world.arrive(rank, 0, MdsInput::Admin { id, ask });
    }
}
