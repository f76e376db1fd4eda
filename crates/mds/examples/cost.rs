//! What one operation costs in the machine alone: `cargo run --release -p loligo-mds --example cost [FILES]`.
//!
//! One busy session of two, leases wanted as a mount wants them, a group of 64 requests for each sync of the journal. Without
//! wire, journal bytes on disk and table.

use loligo_mds::{Config, ConnId, Input, Mds, Now, Output, Peer};
use loligo_types::msg::{Hello, Request, ToClient, ToServer};
use loligo_types::{Cred, Ino, Lease, Lsn, Name, Op, OpenFlags, Seq, Time};

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
}

impl Bench {
    fn new() -> Bench {
        let now = Now { mono_ms: 1, wall: Time(1_000_000_000) };
        let mut config = Config::default();
        (config.cache_bytes_max, config.leases_max) = (usize::MAX, usize::MAX);
        let mds = Mds::new(config, now);
        let mut bench = Bench { mds, now, seq: 0, last: Lsn(0), acked: 0, errors: 0 };
        // The second does nothing, but that it is there means that leases of others are looked for.
        for conn in [ConnId(1), ConnId(2)] {
            bench.input(Input::Connected {
                conn,
                peer: Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false },
            });
            let hello = Hello { versions: (2, 2), client: 0, resume: None, name: "cost".into(), fs_id: None };
            bench.input(Input::Message { conn, msg: ToServer::Hello(hello) });
            bench.sync();
        }
        bench
    }

    fn input(&mut self, input: Input) {
        self.mds.handle(self.now, input);
        while let Some(output) = self.mds.pop() {
            match output {
                Output::Append { lsn, .. } => self.last = lsn,
                Output::Send { msg: ToClient::Reply { result, .. }, .. } => {
                    self.acked += 1;
                    self.errors += u64::from(result.is_err());
                }
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
        let request = Request { seq: Seq(self.seq), answered, want, cred: Cred::root(), op };
        self.input(Input::Message { conn: ConnId(1), msg: ToServer::Request(request) });
        if self.seq.is_multiple_of(64) {
            self.sync();
        }
    }

    fn phase(&mut self, name: &str, count: u64, op: impl Fn(u64) -> Op) {
        let ops: Vec<Op> = (0..count).map(op).collect();
        let (acked, errors) = (self.acked, self.errors);
        let start = cpu_ns();
        ops.into_iter().for_each(|op| self.request(op));
        self.sync();
        let ns = (cpu_ns() - start) / count;
        assert_eq!(self.acked - acked, count, "every request is answered");
        println!("{name:>14} {ns:6} ns  errors {}", self.errors - errors);
    }
}

fn name(i: u64) -> Name {
    Name::new(format!("file.{i:08}").as_bytes()).expect("a valid name")
}

/// A permutation of 0..count, for access in no order.
fn scatter(i: u64, count: u64) -> u64 {
    (i * 7_368_787) % count
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let mut bench = Bench::new();
    let dir = Ino::ROOT;
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    bench.phase("mkdir", count / 10, |i| Op::Mkdir {
        dir,
        name: Name::new(format!("d{i}").as_bytes()).expect("a valid name"),
        mode: 0o755,
        umask: 0,
    });
    bench.phase("mknod", count / 10, |i| Op::Mknod {
        dir,
        name: Name::new(format!("m{i}").as_bytes()).expect("a valid name"),
        kind: loligo_types::Kind::File,
        mode: 0o644,
        umask: 0,
        rdev: 0,
    });
    let first = Ino::FIRST.0 + 2 * (count / 10);
    bench.phase("create", count, |i| Op::Create {
        dir,
        name: name(i),
        mode: 0o644,
        umask: 0,
        flags,
        exclusive: false,
        handle: i,
    });
    bench.phase("close", count, |i| Op::Close { handles: vec![i] });
    bench.phase("getattr", count, |i| Op::GetAttr { ino: Ino(first + scatter(i, count)) });
    bench.phase("lookup", count, |i| Op::Lookup { dir, name: name(scatter(i, count)) });
    bench.phase("readdir 1000", count / 1000, |_| Op::Readdir {
        dir,
        cookie: 0,
        limit: 1000,
        plus: true,
        handle: None,
    });
    bench.phase("rename", count, |i| Op::Rename {
        dir,
        name: name(i),
        new_dir: dir,
        new_name: Name::new(format!("new.{i:08}").as_bytes()).expect("a valid name"),
        mode: loligo_types::RenameMode::Replace,
    });
    bench.phase("unlink", count, |i| Op::Unlink {
        dir,
        name: Name::new(format!("new.{i:08}").as_bytes()).expect("a valid name"),
    });
    let status = bench.mds.status();
    println!("cache {} bytes, leases {} in {} bytes", status.cache_bytes, status.leases, status.lease_bytes);
}
