//! Cost, in the machine alone, of the split threshold of directories: `cargo run --release -p loligo-mds --example frags [FILES
//! [THRESHOLD]]`. One directory is filled, read in no order, and emptied, with several thresholds; then it is cut at once, by its
//! policy. Shown are the time of an operation on a processor, the longest that any one input took by the clock (the split is in one of
//! them), the longest that 64 of them took on a processor, which others on the machine do not make longer, and what the counters of heat
//! take. A group of 64 requests for each sync of the journal, leases wanted as a mount wants them; without wire, disk and table.

use std::time::{Duration, Instant};

use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_namespace::FragConfig;
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Request, ToClient, ToServer};
use loligo_types::{Answer, Cred, Ino, Kind, Lease, Lsn, Name, Op, Seq, Time, XattrMode};

/// Time that this thread spent on a processor, so that others on the machine count less.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

struct Bench {
    mds: Mds,
    seq: u64,
    last: Lsn,
    answer: Option<Answer>,
    errors: u64,
    /// The longest input of this phase, and the longest in which the directory was cut otherwise.
    worst: Duration,
    worst_recut: Duration,
    recuts: u64,
    /// The longest group of 64 requests, nanoseconds of a processor, and when this one began.
    worst_group: u64,
    group_ns: u64,
}

impl Bench {
    fn new(frag: FragConfig) -> Bench {
        let mut config = Config { frag, ..Config::default() };
        (config.cache_bytes_max, config.leases_max, config.dirty_max) = (usize::MAX, usize::MAX, usize::MAX);
        let mds = Mds::new(config, NOW);
        let none = Duration::ZERO;
        let mut bench = Bench {
            mds,
            seq: 0,
            last: Lsn(0),
            answer: None,
            errors: 0,
            worst: none,
            worst_recut: none,
            recuts: 0,
            worst_group: 0,
            group_ns: 0,
        };
        let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
        bench.input(Input::Connected { conn: ConnId(1), peer });
        let hello = Hello {
            versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
            client: 0,
            resume: None,
            name: "frags".into(),
            fs_id: None,
        };
        bench.input(Input::Message { conn: ConnId(1), msg: ToServer::Hello(hello) });
        bench.sync();
        bench
    }

    fn input(&mut self, input: Input) {
        let start = Instant::now();
        self.mds.handle(NOW, input);
        let took = start.elapsed();
        self.worst = self.worst.max(took);
        let recuts = self.mds.recuts();
        if recuts != self.recuts {
            self.recuts = recuts;
            self.worst_recut = self.worst_recut.max(took);
        }
        while let Some(output) = self.mds.pop() {
            match output {
                Output::Append { lsn, .. } => self.last = lsn,
                Output::Send { msg: ToClient::Reply { result, .. }, .. } => match result {
                    Ok(answer) => self.answer = Some(answer),
                    Err(_) => self.errors += 1,
                },
                _ => {}
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
            let now = cpu_ns();
            self.worst_group = self.worst_group.max(now - self.group_ns);
            self.group_ns = now;
        }
    }

    /// Nanoseconds of a processor for each.
    fn phase(&mut self, count: u64, op: impl Fn(u64) -> Op) -> u64 {
        let ops: Vec<Op> = (0..count).map(op).collect();
        (self.worst, self.worst_recut, self.worst_group) = (Duration::ZERO, Duration::ZERO, 0);
        let start = cpu_ns();
        self.group_ns = start;
        ops.into_iter().for_each(|op| self.request(op));
        self.sync();
        let ns = (cpu_ns() - start) / count;
        assert_eq!(self.errors, 0, "every request is executed");
        ns
    }

    fn frags(&mut self) -> String {
        self.request(Op::GetXattr { ino: DIR, name: b"loligo.dir.frags".as_slice().into() });
        self.sync();
        match &self.answer {
            Some(Answer::Bytes(text)) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("the number of fragments is {other:?}"),
        }
    }
}

const NOW: Now = Now { mono_ms: 1, wall: Time(1_000_000_000) };
const DIR: Ino = Ino::FIRST;

fn name(i: u64) -> Name {
    Name::new(format!("file.{i:08}").as_bytes()).expect("a valid name")
}

/// A permutation of 0..count, for access in no order.
fn scatter(i: u64, count: u64) -> u64 {
    (i * 7_368_787) % count
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    println!(
        "| split at | fragments | mknod | longest | longest 64, CPU | longest split | lookup | heat of | takes | unlink | longest merge |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let only: Option<u64> = std::env::args().nth(2).and_then(|n| n.parse().ok());
    for split_entries in [100, 1000, 3000, 10_000, 30_000, 100_000, u64::from(u32::MAX)] {
        if only.is_some_and(|only| only != split_entries) {
            continue;
        }
        let merge_entries = (split_entries / 200).min(50);
        let mut bench = Bench::new(FragConfig { split_entries, merge_entries, split_bits: 3 });
        let mode = 0o755;
        let dir = Name::new(b"d").expect("a valid name");
        bench.phase(1, |_| Op::Mkdir { dir: Ino::ROOT, name: dir.clone(), mode, umask: 0 });
        let node = |i| Op::Mknod { dir: DIR, name: name(i), kind: Kind::File, mode, umask: 0, rdev: 0 };
        let made = bench.phase(count, node);
        let (worst, split, group) = (bench.worst, bench.worst_recut, bench.worst_group / 1000);
        let frags = bench.frags();
        let found = bench.phase(count, |i| Op::Lookup { dir: DIR, name: name(scatter(i, count)) });
        let (spots, bytes) = bench.mds.status().heat_frags;
        let gone = bench.phase(count, |i| Op::Unlink { dir: DIR, name: name(i) });
        let limit = if split_entries > count { "never".to_string() } else { split_entries.to_string() };
        println!(
            "| {limit} | {frags} | {made} ns | {} us | {group} us | {} us | {found} ns | {spots} | {} KiB | {gone} ns | {} us |",
            worst.as_micros(),
            split.as_micros(),
            bytes >> 10,
            bench.worst_recut.as_micros()
        );
    }
    if only.is_none() {
        at_once(count);
    }
}

/// A directory full of entries is cut by its policy.
fn at_once(count: u64) {
    let mut bench = Bench::new(FragConfig { split_entries: 1 << 32, merge_entries: 0, split_bits: 3 });
    let (mode, dir) = (0o755, Name::new(b"d").expect("a valid name"));
    bench.phase(1, |_| Op::Mkdir { dir: Ino::ROOT, name: dir.clone(), mode, umask: 0 });
    bench.phase(count, |i| Op::Mknod { dir: DIR, name: name(i), kind: Kind::File, mode, umask: 0, rdev: 0 });
    let set = |entries: &str| Op::SetXattr {
        ino: DIR,
        name: loligo_namespace::EXPECTED_ENTRIES.into(),
        value: entries.as_bytes().into(),
        mode: XattrMode::Set,
    };
    for entries in ["34359738369", "1"] {
        bench.phase(1, |_| set(entries));
        let (worst, frags) = (bench.worst_recut, bench.frags());
        println!("a directory of {count} entries is cut into {frags} fragments at once: {} us", worst.as_micros());
    }
}
