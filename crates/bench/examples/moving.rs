//! Cost of moving a large subtree in the machines of two ranks: the longest step of each kind, and the CPU time of all.
//! `cargo run --release -p loligo-bench --example moving -- [--entries N] [--leases N] [--opens N] [--dirs N]`.
//!
//! The production machines in one thread, in memory: no wire, disk or table; a record is durable and a checkpoint in the
//! table at once. Steps are measured by the thread's CPU clock. Between two steps of the migration a request of somebody
//! else is served, as a driver does it; what it had to wait for the step before counts as its latency. The same through
//! sockets and with a real table: bench/move.sh.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use loligo_mds::admin::{Ask, Told};
use loligo_mds::peer::PeerMsg;
use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Request, ToClient, ToServer};
use loligo_types::{
    Answer, ClusterMap, Cred, Ino, Lease, Lsn, Name, Op, OpenFlags, Rank, RankInfo, RankState, Seq, Time,
};

const CONN: ConnId = ConnId(1);
/// Requests that are answered together.
const BATCH: u64 = 64;
/// One in so many requests of others comes with a tick.
const TICK_EVERY: u64 = 50;

/// CPU time of this thread.
fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Times of steps by what they were for.
#[derive(Default)]
struct Times(BTreeMap<&'static str, (u64, Duration, Duration)>);

impl Times {
    fn add(&mut self, what: &'static str, took: Duration) {
        let (count, sum, most) = self.0.entry(what).or_default();
        (*count, *sum, *most) = (*count + 1, *sum + took, (*most).max(took));
    }
}

struct Rig {
    mds: [Mds; 2],
    now: Now,
    seq: [u64; 2],
    last: [Lsn; 2],
    /// Another step of a long work is wanted.
    again: [bool; 2],
    made: Ino,
    answered: u64,
    recalled: u64,
    letter: usize,
    told: Option<Told>,
    times: [Times; 2],
    todo: Vec<(usize, Input)>,
}

fn kind(input: &Input) -> &'static str {
    match input {
        Input::Again => "again",
        Input::Tick => "tick",
        Input::Durable { .. } => "durable",
        Input::CheckpointDone { .. } => "checkpoint done",
        Input::Settled { .. } => "settled",
        Input::Quiesced { .. } => "quiesced",
        Input::Peer { msg: PeerMsg::Letter { .. }, .. } => "letter",
        Input::Peer { msg: PeerMsg::Received { .. }, .. } => "received",
        Input::Peer { .. } => "other peer messages",
        Input::Message { msg: ToServer::RecallDone { .. }, .. } => "recall done",
        Input::Message { .. } => "request",
        _ => "other",
    }
}

impl Rig {
    fn new() -> Rig {
        let now = Now { mono_ms: 1, wall: Time(1_000_000_000) };
        let info = |rank| RankInfo { rank: Rank(rank), address: String::new(), state: RankState::Up };
        let map = ClusterMap { epoch: 1, ranks: (0..2).map(info).collect(), ..Default::default() };
        let machine = |rank| {
            let mut config = Config { rank: Rank(rank), map: map.clone(), ..Config::default() };
            (config.cache_bytes_max, config.leases_max) = (usize::MAX, usize::MAX);
            Mds::new(config, now)
        };
        let mut rig = Rig {
            mds: [machine(0), machine(1)],
            now,
            seq: [0; 2],
            last: [Lsn(0); 2],
            again: [false; 2],
            made: Ino::ROOT,
            answered: 0,
            recalled: 0,
            letter: 0,
            told: None,
            times: Default::default(),
            todo: Vec::new(),
        };
        // Both know of the connection before the first message over it comes.
        rig.todo.push((1, Input::PeerUp { rank: Rank(0) }));
        rig.feed(0, Input::PeerUp { rank: Rank(1) });
        for at in 0..2 {
            let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
            rig.feed(at, Input::Connected { conn: CONN, peer });
            let hello = Hello {
                versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
                client: 77,
                resume: None,
                name: "moving".into(),
                fs_id: None,
            };
            rig.feed(at, Input::Message { conn: CONN, msg: ToServer::Hello(hello) });
        }
        rig
    }

    /// Feeds one machine, and then all that follows from it.
    fn feed(&mut self, at: usize, input: Input) {
        self.todo.push((at, input));
        while !self.todo.is_empty() {
            for (at, input) in std::mem::take(&mut self.todo) {
                let (what, before) = (kind(&input), cpu());
                self.mds[at].handle(self.now, input);
                self.times[at].add(what, cpu() - before);
                while let Some(output) = self.mds[at].pop() {
                    self.carry_out(at, output);
                }
            }
            if self.todo.is_empty() {
                for at in 0..2 {
                    self.sync(at);
                }
            }
        }
    }

    fn sync(&mut self, at: usize) {
        let lsn = self.last[at];
        if lsn > Lsn(0) {
            self.last[at] = Lsn(0);
            self.todo.push((at, Input::Durable { lsn }));
        }
    }

    fn carry_out(&mut self, at: usize, output: Output) {
        let then = match output {
            Output::Append { lsn, record } => {
                self.last[at] = lsn;
                self.letter = self.letter.max(record.len());
                return;
            }
            Output::Checkpoint { id, .. } => Input::CheckpointDone { id },
            Output::Settle { table_upto, .. } => Input::Settled { table_upto },
            Output::SyncData { ticket } => Input::DataSynced { ticket, ok: true },
            Output::Quiesce { ticket, .. } => Input::Quiesced { ticket, ok: true },
            Output::Again => {
                self.again[at] = true;
                return;
            }
            Output::Peer { to, msg } => {
                return self.todo.push((usize::from(to.0), Input::Peer { from: Rank(at as u16), msg }));
            }
            Output::Told { told, .. } => {
                self.told = Some(told);
                return;
            }
            Output::Send { msg: ToClient::Recall { ino, id, .. }, conn } => {
                self.recalled += 1;
                Input::Message { conn, msg: ToServer::RecallDone { ino, id } }
            }
            Output::Send { msg: ToClient::Reply { result, .. }, .. } => {
                self.answered += 1;
                if let Ok(Answer::Entry(attr) | Answer::Opened { attr, .. }) = &result {
                    self.made = attr.ino;
                }
                return;
            }
            Output::Load { needs, .. } => panic!("all is in memory, but {needs:?} is to be read"),
            Output::Fatal { text } => panic!("rank {at}: {text}"),
            _ => return,
        };
        self.todo.push((at, then));
    }

    fn request(&mut self, op: Op, want: Lease) {
        self.seq[0] += 1;
        let answered = Seq(self.seq[0].saturating_sub(BATCH));
        let request = Request { ino: None, ways: None, seq: Seq(self.seq[0]), answered, want, cred: Cred::root(), op };
        self.feed(0, Input::Message { conn: CONN, msg: ToServer::Request(request) });
    }

    fn mkdir(&mut self, dir: Ino, text: &str) -> Ino {
        self.request(Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 }, Lease::NONE);
        self.made
    }

    fn tick(&mut self) {
        self.now.mono_ms += 20;
        self.now.wall.0 += 20_000_000;
        (0..2).for_each(|at| self.feed(at, Input::Tick));
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a valid name")
}

struct Args {
    entries: u64,
    leases: u64,
    opens: u64,
    dirs: u64,
}

fn args() -> Result<Args, String> {
    let mut args = Args { entries: 1_000_000, leases: 0, opens: 0, dirs: 1000 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|text| text.parse().ok()).ok_or(format!("{word} wants a number"))?;
        match word.as_str() {
            "--entries" => args.entries = value,
            "--leases" => args.leases = value,
            "--opens" => args.opens = value,
            "--dirs" => args.dirs = value,
            _ => return Err(format!("{word} is not understood: --entries, --leases, --opens, --dirs")),
        }
    }
    match args.dirs > 0 && args.leases.max(args.opens) <= args.entries {
        true => Ok(args),
        false => Err("there are at least one directory, and not more leases and opens than entries".into()),
    }
}

/// Makes the subtree that moves, and something that stays.
fn fill(rig: &mut Rig, args: &Args) -> (Ino, Vec<Ino>) {
    let top = rig.mkdir(Ino::ROOT, "moves");
    let stays = rig.mkdir(Ino::ROOT, "stays");
    let mut others = Vec::new();
    for i in 0..1000 {
        let (name, kind) = (name(&format!("other.{i}")), loligo_types::Kind::File);
        rig.request(Op::Mknod { dir: stays, name, kind, mode: 0o644, umask: 0, rdev: 0 }, Lease::NONE);
        others.push(rig.made);
    }
    let mut dir = top;
    let each = args.entries.div_ceil(args.dirs);
    for i in 0..args.entries {
        if i.is_multiple_of(each) {
            dir = rig.mkdir(top, &format!("dir.{i}"));
        }
        let name = name(&format!("file.{i:010}"));
        let want = if i < args.leases { Lease::ATTR } else { Lease::NONE };
        if i < args.opens {
            let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
            rig.request(Op::Create { dir, name, mode: 0o644, umask: 0, flags, exclusive: true, handle: i + 1 }, want);
        } else {
            let kind = loligo_types::Kind::File;
            rig.request(Op::Mknod { dir, name, kind, mode: 0o644, umask: 0, rdev: 0 }, want);
        }
        if i.is_multiple_of(1000) {
            rig.tick();
        }
    }
    (top, others)
}

/// Serves requests of others for as long as it is to be; their latencies, what came before each of them included.
fn serve(
    rig: &mut Rig,
    others: &[Ino],
    latencies: &mut Histogram<u64>,
    goes_on: &mut dyn FnMut(&mut Rig, u64) -> bool,
) {
    let mut round = 0;
    loop {
        let before = cpu();
        for at in 0..2 {
            if std::mem::take(&mut rig.again[at]) {
                rig.feed(at, Input::Again);
            }
        }
        if round % TICK_EVERY == 0 {
            rig.tick();
        }
        let ino = others[round as usize % others.len()];
        rig.request(Op::GetAttr { ino }, Lease::NONE);
        latencies.saturating_record((cpu() - before).as_nanos() as u64);
        round += 1;
        if !goes_on(rig, round) {
            return;
        }
    }
}

fn main() -> std::process::ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(text) => {
            eprintln!("{text}");
            return std::process::ExitCode::from(2);
        }
    };
    let mut rig = Rig::new();
    let (top, others) = fill(&mut rig, &args);
    let status = rig.mds[0].status();
    println!("{} inodes in memory, {} leases, {} opens asked for", status.cache_inodes, status.leases, args.opens);
    let histogram = || Histogram::new_with_bounds(1, 1_000_000_000_000, 3).expect("the bounds are constants that fit");
    let (mut normal, mut moving) = (histogram(), histogram());
    serve(&mut rig, &others, &mut normal, &mut |_, round| round < 20_000);

    rig.times = Default::default();
    (rig.recalled, rig.letter) = (0, 0);
    let (before, at_ms) = (cpu(), rig.now.mono_ms);
    rig.feed(0, Input::Admin { id: 1, ask: Ask::Migrate { dir: top, to: Rank(1) } });
    let Some(Told::Begun(id)) = rig.told.take() else { panic!("the migration is refused") };
    let mut state = String::new();
    serve(&mut rig, &others, &mut moving, &mut |rig, round| {
        rig.feed(0, Input::Admin { id: 2, ask: Ask::Migrations });
        let Some(Told::Migrations(all)) = rig.told.take() else { return false };
        let Some(one) = all.iter().find(|one| one.id == id) else { return false };
        if one.state != state {
            println!("{:>10.1} ms: {} ({} inodes)", (cpu() - before).as_secs_f64() * 1e3, one.state, one.inodes);
            state.clone_from(&one.state);
        }
        state != "done" && !state.starts_with("failed") && round < 10_000_000
    });
    let took = cpu() - before;
    println!(
        "{state} after {:.0} ms of CPU and {} ms of simulated time",
        took.as_secs_f64() * 1e3,
        rig.now.mono_ms - at_ms
    );
    println!("{} recalls; longest record {} bytes", rig.recalled, rig.letter);
    for (what, h) in [("normally", &normal), ("while it moves", &moving)] {
        let us = |q: f64| h.value_at_quantile(q) as f64 / 1e3;
        println!(
            "requests of others {what}: {} of them, p50 {:.1} us, p99 {:.1} us, longest {:.1} us",
            h.len(),
            us(0.5),
            us(0.99),
            us(1.0)
        );
    }
    for (at, times) in rig.times.iter().enumerate() {
        println!("rank {at}: {:>20} {:>9} {:>12} {:>12}", "step", "count", "all, ms", "longest, ms");
        for (what, (count, sum, most)) in &times.0 {
            println!("{:>28} {count:>9} {:>12.2} {:>12.3}", what, sum.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3);
        }
    }
    std::process::ExitCode::from(u8::from(state != "done"))
}
