//! Cost of the snapshot of pieces that the machine shows to the policy: `cargo run --release -p loligo-mds --example snapshot_cost
//! [DIRECTORIES [ROUNDS]]`. A tree of so many directories in which each has ten, all of them hot: whole; whole, when there are lines
//! of the subtree map; and cut into eight fragments each (an eighth of the directories).
//!
//! Shown are the fastest of the ticks at which the policy is asked, as what else the machine does only makes them slower: one after
//! another, and with work between them that fills the processor's caches.

use std::time::{Duration, Instant};

use loligo_mds::peer::PeerMsg;
use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_namespace::FragConfig;
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Request, ToClient, ToServer};
use loligo_types::{
    Answer, ClusterMap, Cred, Frag, Ino, Kind, Lease, Lsn, Name, Op, PolicyId, Rank, RankInfo, RankState, Route, Seq,
    Time,
};

/// Milliseconds between two ticks of the balancer.
const TICK_MS: u64 = 100;
/// More than processors keep near them, bytes.
const CACHES: usize = 64 << 20;
/// Names in a directory that is cut.
const NAMES: u64 = 64;
/// Directories with lines of the subtree map that are another rank's.
const LINES: u64 = 500;

struct Bench {
    mds: Mds,
    now: Now,
    seq: u64,
    last: Lsn,
    made: Ino,
    /// Pieces of the last tick.
    pieces: usize,
}

impl Bench {
    fn new(frag: FragConfig, lines: u64) -> Bench {
        let now = Now { mono_ms: 1, wall: Time(1_000_000_000) };
        let info = |rank| RankInfo { rank: Rank(rank), address: String::new(), state: RankState::Up };
        let map = ClusterMap { epoch: 1, ranks: (0..2).map(info).collect(), policy: PolicyId(1) };
        let mut config = Config { map: map.clone(), frag, heat_sample: 1, balance_ms: TICK_MS, ..Config::default() };
        (config.cache_bytes_max, config.leases_max, config.dirty_max) = (usize::MAX, usize::MAX, usize::MAX);
        let mds = Mds::new(config, now);
        let mut bench = Bench { mds, now, seq: 0, last: Lsn(0), made: Ino::ROOT, pieces: 0 };
        bench.input(Input::PeerUp { rank: Rank(1) });
        let route = |n| Route { dir: Ino(1 << 40 | n), frag: Frag::WHOLE, rank: Rank(1), version: 1 };
        let routes = (0..lines).map(route).collect();
        bench.input(Input::Peer { from: Rank(1), msg: PeerMsg::Hello { life: 1, received: 0, sent: 0, map, routes } });
        let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
        bench.input(Input::Connected { conn: ConnId(1), peer });
        let hello = Hello {
            versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
            client: 0,
            resume: None,
            name: "snapshot".into(),
            fs_id: None,
        };
        bench.input(Input::Message { conn: ConnId(1), msg: ToServer::Hello(hello) });
        bench.sync();
        bench
    }

    fn input(&mut self, input: Input) {
        self.mds.handle(self.now, input);
        self.outputs();
    }

    fn outputs(&mut self) {
        while let Some(output) = self.mds.pop() {
            match output {
                Output::Append { lsn, .. } => self.last = lsn,
                Output::Balance(snapshot) => self.pieces = snapshot.pieces.len(),
                Output::Send { msg: ToClient::Reply { result, .. }, .. } => {
                    if let Answer::Entry(attr) = result.expect("every request is executed") {
                        self.made = attr.ino;
                    }
                }
                _ => {}
            }
        }
    }

    fn sync(&mut self) {
        let lsn = self.last;
        self.input(Input::Durable { lsn });
    }

    fn request(&mut self, op: Op) -> Ino {
        self.seq += 1;
        let (seq, answered) = (Seq(self.seq), Seq(self.seq.saturating_sub(64)));
        let request = Request { seq, answered, want: Lease::default(), cred: Cred::root(), op, ino: None, ways: None };
        self.input(Input::Message { conn: ConnId(1), msg: ToServer::Request(request) });
        self.sync();
        self.made
    }

    /// A tree; each directory with so many files.
    fn fill(&mut self, dirs: u64, files: u64) {
        let mut all = vec![Ino::ROOT];
        let name = |text: String| Name::new(text.as_bytes()).expect("a name");
        for n in 0..dirs {
            let dir = all[n as usize / 10];
            all.push(self.request(Op::Mkdir { dir, name: name(format!("dir.{n}")), mode: 0o755, umask: 0 }));
        }
        // In no order of the tree, as programs are.
        for n in 0..dirs {
            let dir = all[1 + (n * 7_368_787 % dirs) as usize];
            for file in 0..files {
                let name = name(format!("file.{file}"));
                self.request(Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 });
            }
        }
    }

    /// The fastest of some ticks at which the policy is asked.
    fn ticks(&mut self, rounds: usize, mut between: impl FnMut()) -> Duration {
        let mut fastest = Duration::MAX;
        self.now.mono_ms += TICK_MS;
        self.input(Input::Tick);
        for _ in 0..rounds {
            self.now.mono_ms += TICK_MS;
            self.pieces = 0;
            between();
            let began = Instant::now();
            self.mds.handle(self.now, Input::Tick);
            fastest = fastest.min(began.elapsed());
            self.outputs();
            assert_ne!(self.pieces, 0, "the policy is asked");
        }
        fastest
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let dirs = numbers.first().copied().unwrap_or(10_000).max(8);
    let rounds = numbers.get(1).copied().unwrap_or(51).max(1) as usize;
    let whole = FragConfig { split_entries: u64::MAX, ..FragConfig::default() };
    let cut = FragConfig { split_entries: NAMES / 2, merge_entries: 0, split_bits: 3 };
    println!("| directories | pieces | warm, us | ns a piece | cold, us | ns a piece |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (what, frag, dirs, files, lines) in [
        ("whole", whole, dirs, 2, 0),
        ("whole, with lines", whole, dirs, 2, LINES),
        ("cut in eight", cut, dirs / 8, NAMES, LINES),
    ] {
        let mut bench = Bench::new(frag, lines);
        bench.fill(dirs, files);
        let warm = bench.ticks(rounds, || ());
        let mut filler = vec![1u8; CACHES];
        let cold = bench.ticks(rounds, || filler.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)));
        let each = |time: Duration| time.as_nanos() as usize / bench.pieces;
        println!(
            "| {dirs} {what} | {} | {} | {} | {} | {} |",
            bench.pieces,
            warm.as_micros(),
            each(warm),
            cold.as_micros(),
            each(cold)
        );
    }
}
