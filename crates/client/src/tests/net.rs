//! Clients and the server of the tests, with a network between them that delivers in its own time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use loligo_types::msg::ToServer;
use loligo_types::{Answer, Attr, Cred, FsError, Ino, Name, OpenFlags, Random, Rank, SetAttr, Time};

use super::server::Server;
use crate::{Call, CallId, CallResult, Client, Config, Done, Fh, Input, Invalidation, Now, Output, Token};

/// One client and its connection.
pub struct Node {
    pub client: Client,
    connected: bool,
    want_connect: bool,
    to_server: VecDeque<ToServer>,
    /// Invalidations that caches above have not carried out.
    pub invalidations: VecDeque<(Token, Invalidation)>,
    pub done: BTreeMap<CallId, CallResult>,
    pub refused: bool,
    pub stopped: bool,
}

pub struct Net {
    pub server: Server,
    pub nodes: Vec<Node>,
    pub ms: u64,
    rng: Random,
    next_call: u64,
    /// Caches above do not answer.
    pub hold_invalidations: bool,
}

pub fn config() -> Config {
    Config {
        write_behind: 300,
        write_buffer_file: 1000,
        write_buffer_total: 1500,
        read_ahead: 2 << 20,
        close_delay_ms: 500,
        ..Config::default()
    }
}

impl Net {
    pub fn new(clients: usize) -> Net {
        Net::with(clients, &config(), 1)
    }

    pub fn with(clients: usize, config: &Config, seed: u64) -> Net {
        let node = |_| Node {
            client: Client::new(config.clone()),
            connected: false,
            want_connect: true,
            to_server: VecDeque::new(),
            invalidations: VecDeque::new(),
            done: BTreeMap::new(),
            refused: false,
            stopped: false,
        };
        Net {
            server: Server::new(clients),
            nodes: (0..clients).map(node).collect(),
            ms: 1,
            rng: Random::new(seed),
            next_call: 1,
            hold_invalidations: false,
        }
    }

    pub fn random(&mut self, below: usize) -> usize {
        self.rng.below(below as u64) as usize
    }

    fn now(&self) -> Now {
        Now { ms: self.ms, wall: Time(1_000_000 + self.ms as i64) }
    }

    pub fn feed(&mut self, at: usize, input: Input) {
        let now = self.now();
        let node = &mut self.nodes[at];
        node.client.handle(now, input);
        while let Some(output) = node.client.poll() {
            match output {
                Output::Send { message, .. } => {
                    if node.connected {
                        node.to_server.push_back(message);
                    }
                }
                Output::Connect { .. } => {
                    node.want_connect = true;
                    node.connected = false;
                    node.to_server.clear();
                    self.server.hung_up(at);
                }
                Output::Complete { id, result } => assert!(node.done.insert(id, result).is_none(), "answered twice"),
                Output::Invalidate { token, what } => node.invalidations.push_back((token, what)),
                Output::Ready { .. } | Output::Doubt { .. } => {}
                Output::Direct { .. } => panic!("there is no connection to the store"),
                Output::Keep { .. }
                | Output::KeptMerged { .. }
                | Output::KeptLost { .. }
                | Output::StageFailed { .. } => panic!("not decoupled"),
                Output::Disconnect { .. } => panic!("there is only one rank"),
                Output::ClockRuns { .. } => panic!("there is one clock"),
                Output::Refused { .. } => node.refused = true,
                Output::Stopped => node.stopped = true,
            }
        }
    }

    pub fn disconnect(&mut self, at: usize) {
        if self.nodes[at].connected {
            self.nodes[at].connected = false;
            self.nodes[at].to_server.clear();
            self.server.hung_up(at);
            self.feed(at, Input::Disconnected { rank: Rank::ZERO });
        }
    }

    /// Does one thing that can happen. Whether there was one.
    pub fn step(&mut self) -> bool {
        let mut choices = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if node.want_connect && !self.server.faults.mute {
                choices.push((at, 0));
            }
            if !node.to_server.is_empty() {
                choices.push((at, 1));
            }
            if node.connected && !self.server.out[at].is_empty() {
                choices.push((at, 2));
            }
            if !node.invalidations.is_empty() && !self.hold_invalidations {
                choices.push((at, 3));
            }
        }
        if choices.is_empty() {
            return false;
        }
        let pick = self.random(choices.len());
        let (at, what) = choices[pick];
        match what {
            0 => {
                self.nodes[at].want_connect = false;
                self.nodes[at].connected = true;
                self.feed(at, Input::Connected { rank: Rank::ZERO });
            }
            1 => {
                let message = self.nodes[at].to_server.pop_front().unwrap();
                self.server.receive(at, message);
            }
            2 => {
                let message = self.server.out[at].pop_front().unwrap();
                self.feed(at, Input::Message { rank: Rank::ZERO, message });
            }
            _ => {
                let (token, _) = self.nodes[at].invalidations.pop_front().unwrap();
                if token != Token::NONE {
                    self.feed(at, Input::Invalidated { token });
                }
            }
        }
        true
    }

    /// Lets everything happen that can without time.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 100_000, "the network never comes to rest");
        }
    }

    pub fn pass_time(&mut self, ms: u64) {
        let until = self.ms + ms;
        while self.ms < until {
            self.ms = (self.ms + 50).min(until);
            for at in 0..self.nodes.len() {
                self.feed(at, Input::Tick);
            }
            self.run();
        }
    }

    pub fn submit(&mut self, at: usize, call: Call) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.feed(at, Input::Call { id, cred: Arc::new(Cred::root()), call });
        id
    }

    /// Makes a call and delivers just as much as it needs.
    pub fn call(&mut self, at: usize, call: Call) -> CallResult {
        let text = format!("{call:?}");
        let id = self.submit(at, call);
        let mut idle = 0;
        loop {
            if let Some(result) = self.nodes[at].done.remove(&id) {
                return result;
            }
            if !self.step() {
                idle += 1;
                assert!(idle < 400, "no answer to {text}");
                self.ms += 50;
                for at in 0..self.nodes.len() {
                    self.feed(at, Input::Tick);
                }
            }
        }
    }

    pub fn ok(&mut self, at: usize, call: Call) -> Done {
        let text = format!("{call:?}");
        self.call(at, call).unwrap_or_else(|failed| panic!("{text}: {failed:?}"))
    }

    pub fn err(&mut self, at: usize, call: Call) -> FsError {
        self.call(at, call).expect_err("the call must fail").error
    }

    pub fn create(&mut self, at: usize, name: &str) -> (Fh, Ino) {
        let done = self.ok(at, create(name, rw()));
        (done.fh.unwrap(), done.attr().unwrap().ino)
    }

    pub fn open(&mut self, at: usize, ino: Ino, flags: OpenFlags) -> Fh {
        self.ok(at, Call::Open { ino, flags }).fh.unwrap()
    }

    pub fn write(&mut self, at: usize, fh: Fh, offset: u64, data: &[u8]) {
        let done = self.ok(at, write(fh, offset, data));
        assert_eq!(done.answer, Answer::Offset(data.len() as u64));
    }

    pub fn append(&mut self, at: usize, fh: Fh, data: &[u8]) {
        let call = Call::Write { fh, offset: 0, data: Arc::from(data), append: true, kill_priv: false };
        self.ok(at, call);
    }

    pub fn read(&mut self, at: usize, fh: Fh, offset: u64, len: u32) -> Vec<u8> {
        match self.ok(at, Call::Read { fh, offset, len }).answer {
            Answer::Bytes(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    pub fn flush(&mut self, at: usize, fh: Fh) -> CallResult {
        self.call(at, Call::Flush { fh, owner: None })
    }

    pub fn fsync(&mut self, at: usize, fh: Fh) -> CallResult {
        self.call(at, Call::Fsync { fh, data_only: false })
    }

    pub fn truncate(&mut self, at: usize, ino: Ino, fh: Option<Fh>, size: u64) {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.ok(at, Call::SetAttr { ino, set, fh });
    }

    pub fn attr(&mut self, at: usize, ino: Ino) -> Attr {
        *self.ok(at, Call::GetAttr { ino }).attr().unwrap()
    }

    /// Number of times the server did this.
    pub fn count(&self, what: &str) -> usize {
        self.server.log.iter().filter(|line| line.ends_with(what)).count()
    }
}

pub fn rw() -> OpenFlags {
    OpenFlags { read: true, write: true, ..OpenFlags::default() }
}

pub fn ro() -> OpenFlags {
    OpenFlags { read: true, ..OpenFlags::default() }
}

pub fn wo() -> OpenFlags {
    OpenFlags { write: true, ..OpenFlags::default() }
}

pub fn create(name: &str, flags: OpenFlags) -> Call {
    let name = Name::new(name.as_bytes()).unwrap();
    Call::Create { dir: Ino::ROOT, name, mode: 0o644, umask: 0, flags, exclusive: false }
}

pub fn write(fh: Fh, offset: u64, data: &[u8]) -> Call {
    Call::Write { fh, offset, data: Arc::from(data), append: false, kill_priv: false }
}
