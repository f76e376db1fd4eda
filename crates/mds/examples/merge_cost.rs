//! Cost of a merge in the machine alone, beside the same creates by request: `cargo run --release -p loligo-mds --example merge_cost [FILES
//! [steps|table]]`.
//!
//! One session that wants no leases. Without wire, bytes of the journal and table; what of memory goes into a checkpoint is drained, and
//! counts. `table`: what is new goes into the table at once. The owner's own work does not count.

use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_subtree::{Outcome, Settings, Subtree};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Request, ToClient, ToServer};
use loligo_types::{
    Answer, Control, Cred, FsResult, Ino, Interfere, Kind, Lease, Lsn, MergeInto, Name, Op, Seq, SubtreeAnswer,
    SubtreeOp, Time,
};

/// Requests between two syncs of the journal, and between two ticks.
const SYNC: u64 = 64;
const TICK: u64 = 1000;

/// Time that this thread spent on a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

struct Bench {
    mds: Mds,
    now: Now,
    seq: u64,
    last: Lsn,
    answer: Option<FsResult<Answer>>,
    /// Where merges go.
    into: MergeInto,
    /// Spent by other threads, nanoseconds.
    elsewhere: u64,
    /// Steps are measured, which takes longer than most of them; the longest one, nanoseconds.
    steps: bool,
    longest: u64,
}

impl Bench {
    fn new() -> Bench {
        let now = Now { mono_ms: 1, wall: Time(1_000_000_000) };
        let config = Config { cache_bytes_max: usize::MAX, ..Config::default() };
        let mds = Mds::new(config, now);
        let mut bench = Bench {
            mds,
            now,
            seq: 0,
            last: Lsn(0),
            answer: None,
            into: MergeInto::Memory,
            elsewhere: 0,
            steps: false,
            longest: 0,
        };
        let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
        bench.input(Input::Connected { conn: ConnId(1), peer });
        let versions = (PROTOCOL_VERSION, PROTOCOL_VERSION);
        let hello = Hello { versions, client: 0, resume: None, name: "cost".into(), fs_id: None };
        bench.input(Input::Message { conn: ConnId(1), msg: ToServer::Hello(hello) });
        bench.sync();
        bench
    }

    fn input(&mut self, input: Input) {
        let mut todo = vec![input];
        while let Some(input) = todo.pop() {
            let begun = self.steps.then(cpu_ns);
            self.mds.handle(self.now, input);
            if let Some(begun) = begun {
                self.longest = self.longest.max(cpu_ns() - begun);
            }
            while let Some(output) = self.mds.pop() {
                match output {
                    Output::Append { lsn, .. } => self.last = lsn,
                    Output::Checkpoint { id, .. } => todo.push(Input::CheckpointDone { id }),
                    Output::MergeRows { id, rows } => {
                        // Another thread's work, which does not count here.
                        let begun = cpu_ns();
                        let mut merged = rows.rows();
                        merged.records.clear();
                        self.elsewhere += cpu_ns() - begun;
                        todo.push(Input::MergeRowsDone { id, merged: Some(Box::new(merged)) });
                    }
                    Output::Settle { table_upto, .. } => todo.push(Input::Settled { table_upto }),
                    Output::Again => todo.push(Input::Again),
                    Output::Send { msg: ToClient::Reply { result, .. }, .. } => self.answer = Some(result),
                    _ => {}
                }
            }
        }
    }

    fn sync(&mut self) {
        let lsn = self.last;
        self.input(Input::Durable { lsn });
    }

    fn request(&mut self, op: Op) {
        self.seq += 1;
        let answered = Seq(self.seq.saturating_sub(SYNC));
        let request =
            Request { seq: Seq(self.seq), answered, want: Lease::NONE, cred: Cred::root(), op, ino: None, ways: None };
        self.input(Input::Message { conn: ConnId(1), msg: ToServer::Request(request) });
        if self.seq.is_multiple_of(SYNC) {
            self.sync();
        }
        if self.seq.is_multiple_of(TICK) {
            self.now.mono_ms += 20;
            self.input(Input::Tick);
        }
    }

    fn call(&mut self, op: Op) -> Answer {
        self.answer = None;
        self.request(op);
        self.sync();
        match self.answer.take() {
            Some(Ok(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn mkdir(&mut self, text: &str) -> Ino {
        let name = Name::new(text.as_bytes()).expect("a valid name");
        let answer = self.call(Op::Mkdir { dir: Ino::ROOT, name, mode: 0o755, umask: 0 });
        answer.attr().expect("it has attributes").ino
    }

    // Not inlined, so that callgrind can tell them apart.
    #[inline(never)]
    fn ask(&mut self, ops: Vec<Op>) -> u64 {
        let begun = cpu_ns();
        ops.into_iter().for_each(|op| self.request(op));
        self.sync();
        cpu_ns() - begun
    }

    #[inline(never)]
    fn merge(&mut self, dir: Ino, subtree: &mut Subtree) -> u64 {
        let mut ns = 0;
        for group in subtree.groups() {
            let epoch = subtree.record().epoch;
            let (merge, parts) = (subtree.record().merges + 1, group.parts.len() as u32);
            let begun = cpu_ns();
            for (part, body) in (0..).zip(&group.parts) {
                let what = SubtreeOp::Part { epoch, merge, part, blind: false, body: body.clone() };
                self.request(Op::Control(Control::Subtree { dir, what: Box::new(what) }));
            }
            let what = SubtreeOp::Merge { epoch, merge, parts, used: group.used, into: self.into };
            let Answer::Subtree(answer) = self.call(Op::Control(Control::Subtree { dir, what: Box::new(what) })) else {
                panic!("no such answer")
            };
            ns += cpu_ns() - begun - std::mem::take(&mut self.elsewhere);
            let SubtreeAnswer::Merged { merges, .. } = *answer else { panic!("no such answer") };
            subtree.merged(merges, group.used);
        }
        ns
    }
}

fn mknod(dir: Ino, n: u64) -> Op {
    let name = Name::new(format!("file.{n:08}").as_bytes()).expect("a valid name");
    Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 }
}

fn main() {
    let number = |at| std::env::args().nth(at).and_then(|n| n.parse::<u64>().ok());
    let files = number(1).unwrap_or(300_000);
    let mut bench = Bench::new();
    let asked = bench.mkdir("asked");
    let own = bench.mkdir("own");
    let by_request = bench.ask((0..files).map(|n| mknod(asked, n)).collect()) / files;

    let what = SubtreeOp::Decouple {
        owner: 1,
        resume: 0,
        inos: files,
        lease_ms: 60_000,
        interfere: Interfere::Block,
        promise: loligo_types::Promise::NONE,
    };
    let Answer::Subtree(answer) = bench.call(Op::Control(Control::Subtree { dir: own, what: Box::new(what) })) else {
        panic!("no such answer")
    };
    let SubtreeAnswer::Decoupled { record, root, inline_max, split } = *answer else { panic!("no such answer") };
    let settings = Settings { hash_key: Config::default().hash_key, inline_max, split };
    let mut subtree = Subtree::new(settings, record, *root);
    for n in 0..files {
        loop {
            match subtree.run(&mknod(own, n), &Cred::root(), bench.now.wall) {
                Outcome::Done(result) => break drop(result.expect("it can be made")),
                Outcome::Fetch(needs) => {
                    let what = SubtreeOp::Fetch { epoch: subtree.record().epoch, needs };
                    let Answer::Subtree(answer) =
                        bench.call(Op::Control(Control::Subtree { dir: own, what: Box::new(what) }))
                    else {
                        panic!("no such answer")
                    };
                    let SubtreeAnswer::Records(items) = *answer else { panic!("no such answer") };
                    subtree.learn(items);
                }
                Outcome::Numbers => panic!("there are enough numbers"),
            }
        }
    }
    let how = std::env::args().nth(2).unwrap_or_default();
    bench.steps = how == "steps";
    if how == "table" {
        bench.into = MergeInto::Table;
    }
    let merged = bench.merge(own, &mut subtree) / files;
    if bench.steps {
        return println!("the longest step of the merge: {} us", bench.longest / 1000);
    }
    println!("create by request {by_request:6} ns");
    println!("merged            {merged:6} ns, {:.3} of that", merged as f64 / by_request as f64);
}
