//! Cost of one operation in the machine alone: `cargo run --release -p loligo-mds --example cost [FILES [RANKS [POLICY]]]`.
//!
//! One busy session of two, leases wanted as a mount wants them, a group of 64 requests for each sync of the journal. Without wire, journal
//! bytes on disk and table. With RANKS over 1 it is rank 0 of so many: all are connected, each has eight subtrees, and loads come in from
//! two others each second. With POLICY over 0 one is in force, and its next tick is far away. Time goes on by 20 ms with each 1000
//! requests.
//!
//! `cost --compare A,B,.. [FILES]` runs the phases with so many ranks in turn, five times each, and prints the best of each.
//!
//! `cost --placed giga,replicated,table [FILES]` does the same for files in a directory of a lone rank, and in directories that are placed
//! so, of one of four ranks: by number, and by path (the whole way is this rank's).

use std::sync::Arc;

use loligo_mds::heat::{Beat, Load};
use loligo_mds::peer::PeerMsg;
use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Request, ToClient, ToServer};
use loligo_types::{
    Answer, ClusterMap, Control, Cred, Frag, Ino, Lease, Lsn, Name, Op, OpenFlags, PolicyId, Rank, RankInfo, RankState,
    Route,
};
use loligo_types::{Replicas, Seq, Time, XattrMode};

/// Requests between two ticks, and milliseconds.
const TICK: (u64, u64) = (1000, 20);
/// Subtrees of each other rank.
const SUBTREES: u64 = 8;
/// No tick of the balancer while it runs.
const TICK_FAR_MS: u64 = 1 << 40;
/// Runs of a comparison.
const RUNS: usize = 5;
/// Ranks of which one has a directory that is placed.
const PLACED_RANKS: u16 = 4;

/// Time that this thread spent on a processor, so that others on the machine count less.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

struct Bench {
    mds: Mds,
    now: Now,
    seq: u64,
    last: Lsn,
    acked: u64,
    errors: u64,
    /// Inode of the last answer that had one.
    made: Ino,
    ranks: u16,
    beats: u64,
    quiet: bool,
}

fn map(ranks: u16, policy: PolicyId) -> ClusterMap {
    if ranks < 2 {
        return ClusterMap { policy, ..ClusterMap::default() };
    }
    let info = |rank| RankInfo { rank: Rank(rank), address: String::new(), state: RankState::Up };
    ClusterMap { epoch: 1, ranks: (0..ranks).map(info).collect(), policy }
}

impl Bench {
    fn new(ranks: u16, policy: PolicyId, quiet: bool) -> Bench {
        let now = Now { mono_ms: 1, wall: Time(1_000_000_000) };
        let mut config = Config { map: map(ranks, policy), balance_ms: TICK_FAR_MS, ..Config::default() };
        (config.cache_bytes_max, config.leases_max) = (usize::MAX, usize::MAX);
        let mds = Mds::new(config, now);
        let (last, made) = (Lsn(0), Ino::ROOT);
        let mut bench = Bench { mds, now, seq: 0, last, acked: 0, errors: 0, made, ranks, beats: 1, quiet };
        for rank in (1..ranks).map(Rank) {
            bench.input(Input::PeerUp { rank });
            let route = |n| Route { dir: Ino(u64::from(rank.0) << 40 | n), frag: Frag::WHOLE, rank, version: 1 };
            let (map, routes) = (map(ranks, policy), (0..SUBTREES).map(route).collect());
            let msg = PeerMsg::Hello { life: 1, received: 0, sent: 0, map, routes };
            bench.input(Input::Peer { from: rank, msg });
        }
        // The second does nothing, but that it is there means that leases of others are looked for.
        for conn in [ConnId(1), ConnId(2)] {
            bench.input(Input::Connected {
                conn,
                peer: Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None },
            });
            let hello = Hello {
                versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
                client: 0,
                resume: None,
                name: "cost".into(),
                fs_id: None,
            };
            bench.input(Input::Message { conn, msg: ToServer::Hello(hello) });
            bench.sync();
        }
        bench
    }

    fn input(&mut self, input: Input) {
        let mut done = Vec::new();
        self.mds.handle(self.now, input);
        while let Some(output) = self.mds.pop() {
            match output {
                Output::Append { lsn, .. } => self.last = lsn,
                Output::Checkpoint { id, .. } => done.push(Input::CheckpointDone { id }),
                Output::Settle { table_upto, .. } => done.push(Input::Settled { table_upto }),
                Output::Send { msg: ToClient::Reply { result, .. }, .. } => {
                    self.acked += 1;
                    if let Ok(Answer::Entry(attr)) = &result {
                        self.made = attr.ino;
                    }
                    self.errors += u64::from(result.is_err());
                }
                _ => {}
            }
        }
        done.into_iter().for_each(|input| self.input(input));
    }

    fn tick(&mut self) {
        self.now.mono_ms += TICK.1;
        self.now.wall.0 += TICK.1 as i64 * 1_000_000;
        self.input(Input::Tick);
        let second = self.now.mono_ms / 1000;
        if self.ranks > 1 && second > self.beats {
            self.beats = second;
            let load = Load { auth: 1000.0, all: 1000.0, requests_per_s: 100.0, ..Load::default() };
            let beats: Vec<Beat> = (1..self.ranks)
                .map(|rank| Beat { rank: Rank(rank), seq: second, age_ms: 1000, load, weighed: Default::default() })
                .collect();
            for from in [1, self.ranks / 2].map(Rank) {
                self.input(Input::Peer { from, msg: PeerMsg::Beat(beats.clone()) });
            }
        }
    }

    fn sync(&mut self) {
        let lsn = self.last;
        self.input(Input::Durable { lsn });
    }

    fn request(&mut self, op: Op) {
        self.seq += 1;
        let answered = Seq(self.seq.saturating_sub(64));
        let want = Lease::ATTR | Lease::NAMES;
        let request = Request { seq: Seq(self.seq), answered, want, cred: Cred::root(), op, ino: None, ways: None };
        self.input(Input::Message { conn: ConnId(1), msg: ToServer::Request(request) });
        if self.seq.is_multiple_of(64) {
            self.sync();
        }
        if self.seq.is_multiple_of(TICK.0) {
            self.tick();
        }
    }

    fn mkdir(&mut self, dir: Ino, text: &str) -> Ino {
        let name = Name::new(text.as_bytes()).expect("a valid name");
        self.request(Op::Mkdir { dir, name, mode: 0o755, umask: 0 });
        self.sync();
        self.made
    }

    // Not inlined, so that callgrind can tell the phases apart (bench/ranks.sh).
    #[inline(never)]
    fn phase(&mut self, name: &str, count: u64, op: &dyn Fn(u64) -> Op) -> u64 {
        let ops: Vec<Op> = (0..count).map(op).collect();
        let (acked, errors) = (self.acked, self.errors);
        let start = cpu_ns();
        ops.into_iter().for_each(|op| self.request(op));
        self.sync();
        let ns = (cpu_ns() - start) / count;
        assert_eq!((self.acked - acked, self.errors - errors), (count, 0), "every request is executed");
        if !self.quiet {
            println!("{name:>14} {ns:6} ns");
        }
        ns
    }
}

fn name(i: u64) -> Name {
    Name::new(format!("file.{i:08}").as_bytes()).expect("a valid name")
}

/// A permutation of 0..count, for access in no order.
fn scatter(i: u64, count: u64) -> u64 {
    (i * 7_368_787) % count
}

/// All phases; nanoseconds of each operation by name.
fn phases(bench: &mut Bench, count: u64) -> Vec<(&'static str, u64)> {
    let top = bench.mkdir(Ino::ROOT, "home");
    let dir = bench.mkdir(top, "user");
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let mut all = Vec::new();
    let mut phase = |name, count, op: &dyn Fn(u64) -> Op| all.push((name, bench.phase(name, count, op)));
    let named = |text: String| Name::new(text.as_bytes()).expect("a valid name");
    phase("mkdir", count / 10, &|i| Op::Mkdir { dir, name: named(format!("d{i}")), mode: 0o755, umask: 0 });
    phase("mknod", count / 10, &|i| {
        let (name, kind) = (named(format!("m{i}")), loligo_types::Kind::File);
        Op::Mknod { dir, name, kind, mode: 0o644, umask: 0, rdev: 0 }
    });
    // Numbers of inodes are given one after another.
    let first = dir.0 + 1 + 2 * (count / 10);
    phase("create", count, &|i| Op::Create {
        dir,
        name: name(i),
        mode: 0o644,
        umask: 0,
        flags,
        exclusive: false,
        handle: i,
    });
    phase("close", count, &|i| Op::Control(Control::Close { handles: vec![i], lost: false }));
    phase("getattr", count, &|i| Op::GetAttr { ino: Ino(first + scatter(i, count)) });
    phase("lookup", count, &|i| Op::Lookup { dir, name: name(scatter(i, count)) });
    let readdir = Op::Readdir { dir, cookie: 0, limit: 1000, plus: true, handle: None };
    phase("readdir 1000", count / 1000, &|_| readdir.clone());
    phase("rename", count, &|i| {
        let mode = loligo_types::RenameMode::Replace;
        Op::Rename { dir, name: name(i), new_dir: dir, new_name: named(format!("new.{i:08}")), mode }
    });
    phase("unlink", count, &|i| Op::Unlink { dir, name: named(format!("new.{i:08}")) });
    all
}

/// Phases with files in a directory that is placed so; placed by nobody: at a lone rank. Nanoseconds of each operation by name.
fn phases_placed(placement: Option<&str>, count: u64) -> Vec<(&'static str, u64)> {
    let mut bench = Bench::new(if placement.is_some() { PLACED_RANKS } else { 1 }, PolicyId::NONE, true);
    let top = bench.mkdir(Ino::ROOT, "home");
    if let Some(placement) = placement {
        let (name, value) = (b"loligo.policy.placement".as_slice().into(), placement.as_bytes().into());
        bench.request(Op::SetXattr { ino: top, name, value, mode: XattrMode::Set });
        bench.sync();
    }
    let named = |text: String| Name::new(text.as_bytes()).expect("a valid name");
    let is_here = |dir: &Ino| placement.is_none() || dir.zeroth_rank() == Some(Rank::ZERO);
    let mut texts = (0..).map(|n| format!("user{n}"));
    let (text, dir) = texts
        .find_map(|text| Some((text.clone(), Some(bench.mkdir(top, &text)).filter(is_here)?)))
        .expect("one is here");
    let way: Arc<[Name]> = [named("home".into()), named(text)].into();
    let path = |i: u64| way.iter().cloned().chain([name(i)]).collect::<Arc<[Name]>>();
    // Numbers of inodes are given one after another, from that of a file on.
    bench.request(Op::Mknod {
        dir,
        name: named("first".into()),
        kind: loligo_types::Kind::File,
        mode: 0o644,
        umask: 0,
        rdev: 0,
    });
    bench.sync();
    let first = bench.made.0 + 1;
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let create =
        |dir, text, handle| Op::Create { dir, name: text, mode: 0o644, umask: 0, flags, exclusive: false, handle };
    let by = Replicas::OnTheWay;
    let mut all = Vec::new();
    let mut phase = |name, op: &dyn Fn(u64) -> Op| all.push((name, bench.phase(name, count, op)));
    phase("create", &|i| create(dir, name(i), i));
    phase("close", &|i| Op::Control(Control::Close { handles: vec![i], lost: false }));
    phase("getattr", &|i| Op::GetAttr { ino: Ino(first + scatter(i, count)) });
    phase("lookup", &|i| Op::Lookup { dir, name: name(scatter(i, count)) });
    phase("stat by path", &|i| Op::Walk { dir: Ino::ROOT, names: path(scatter(i, count)), by });
    phase("create by path", &|i| {
        let what = Box::new(create(Ino::ROOT, named(format!("path.{i:08}")), count + i));
        Op::Via { dir: Ino::ROOT, names: Arc::clone(&way), by, what }
    });
    phase("close", &|i| Op::Control(Control::Close { handles: vec![count + i], lost: false }));
    phase("unlink", &|i| Op::Unlink { dir, name: name(i) });
    all
}

/// The best of several runs of each, in turn so that a slow minute does not hit one of them alone.
fn compare(heads: &[String], count: u64, run: &dyn Fn(usize, u64) -> Vec<(&'static str, u64)>) {
    let mut best: Vec<Vec<(&str, u64)>> = vec![Vec::new(); heads.len()];
    for _ in 0..RUNS {
        for (at, best) in best.iter_mut().enumerate() {
            let found = run(at, count);
            match best.is_empty() {
                true => *best = found,
                false => best.iter_mut().zip(found).for_each(|(old, new)| old.1 = old.1.min(new.1)),
            }
        }
    }
    println!("| phase | {} | last to first |", heads.join(" | "));
    println!("|---|{}---:|", "---:|".repeat(heads.len()));
    for at in 0..best[0].len() {
        let ns: Vec<u64> = best.iter().map(|of| of[at].1).collect();
        let cells: Vec<String> = ns.iter().map(u64::to_string).collect();
        let ratio = ns[ns.len() - 1] as f64 / ns[0].max(1) as f64;
        println!("| {} | {} | {ratio:.3} |", best[0][at].0, cells.join(" | "));
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: Option<&String>, or: u64| text.and_then(|n| n.parse().ok()).unwrap_or(or);
    let count = number(words.get(2), 300_000);
    match words.first().map(String::as_str) {
        Some("--compare") => {
            let ranks: Vec<u16> = words.get(1).map_or("1,8", |text| text).split(',').flat_map(str::parse).collect();
            let heads: Vec<String> = ranks.iter().map(|n| format!("{n} ranks, ns")).collect();
            if ranks.is_empty() {
                return eprintln!("--compare wants A,B");
            }
            return compare(&heads, count, &|at, count| {
                phases(&mut Bench::new(ranks[at], PolicyId::NONE, true), count)
            });
        }
        Some("--placed") => {
            let all = words.get(1).map_or("giga,replicated,table", |text| text);
            let ways: Vec<Option<&str>> = std::iter::once(None).chain(all.split(',').map(Some)).collect();
            let heads: Vec<String> = ways.iter().map(|way| format!("{}, ns", way.unwrap_or("one rank"))).collect();
            return compare(&heads, count, &|at, count| phases_placed(ways[at], count));
        }
        _ => {}
    }
    let policy = PolicyId(number(words.get(2), 0) as u32);
    let mut bench = Bench::new(number(words.get(1), 1) as u16, policy, false);
    phases(&mut bench, number(words.first(), 300_000));
    let status = bench.mds.status();
    println!("cache {} bytes, leases {} in {} bytes", status.cache_bytes, status.leases, status.lease_bytes);
}
