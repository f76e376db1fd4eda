//! temp
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;
use loligo_driver::*;
use loligo_types::msg::*;
use loligo_types::*;
use loligo_wire::*;

fn main() {
    let kind = std::env::args().nth(1).unwrap_or("mem".into());
    let backend: Arc<dyn loligo_store::Backend> = if kind == "mem" {
        let disk = loligo_store::mem::MemDisk::new(loligo_store::Identity::new([7; 16], [9; 16]));
        let b = disk.open().unwrap();
        std::mem::forget(disk);
        b
    } else {
        loligo_store_local::LocalStore::format(&kind, &loligo_store_local::FormatOptions::default()).unwrap();
        Arc::new(loligo_store_local::LocalStore::open(&kind, &loligo_store_local::OpenOptions::default()).unwrap())
    };
    format(&*backend, &FormatOptions::default()).unwrap();
    let server = Server::start(ServerConfig::new(backend), &mut |_| {}).unwrap();
    let Address::Pair(fd) = server.connect_pair().unwrap() else { panic!() };
    let mut s: UnixStream = Arc::try_unwrap(fd).unwrap().into();
    let mut d = Decoder::<FromServer>::new();
    d.handshake_done();
    let mut out = Vec::new();
    encode_to_server(&ToServer::Hello(Hello { versions: (1, 1), ..Default::default() }), &mut out);
    s.write_all(&out).unwrap();
    let mut recv = |s: &mut UnixStream| loop {
        if let Some(m) = d.next_message().unwrap() { return m; }
        let n = s.read(d.space()).unwrap();
        assert!(n > 0);
        d.filled(n);
    };
    recv(&mut s);
    let mut seq = 0u64;
    let mut answered = 1u64;
    let mut run = |name: &str, n: usize, window: usize, op: &dyn Fn(usize) -> Op| {
        let (mut sent, mut got) = (0, 0);
        let cpu0 = server.metrics().rank_cpu_ns.get();
        let t0 = Instant::now();
        let mut inos = Vec::new();
        let mut errs = 0;
        let mut outb = Vec::new();
        while got < n {
            outb.clear();
            while sent < n && sent - got < window {
                seq += 1;
                encode_to_server(&ToServer::Request(Request { seq: Seq(seq), answered: Seq(answered), want: Lease::NONE, cred: Cred::root(), op: op(sent) }), &mut outb);
                sent += 1;
            }
            s.write_all(&outb).unwrap();
            let ToClient::Reply { result, seq: r, .. } = recv(&mut s) else { panic!() };
            got += 1;
            if r.0 == answered { answered += 1; } else { answered = answered.max(r.0.saturating_sub(window as u64)); }
            match result { Ok(a) => if let Some(a) = a.attr() { inos.push(a.ino) }, Err(_) => errs += 1 }
        }
        let e = t0.elapsed();
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let cpu = server.metrics().rank_cpu_ns.get() - cpu0;
        println!("{name:20} window {window:4}: {:9.0}/s  {:7.2} us/op  rank cpu {:.2} us/op errs {errs}", n as f64 / e.as_secs_f64(), e.as_secs_f64() * 1e6 / n as f64, cpu as f64 / 1e3 / n as f64);
        inos
    };
    let mk = |p: &'static str| move |i: usize| Op::Mknod { dir: Ino::ROOT, name: Name::new(format!("{p}{i}").as_bytes()).unwrap(), kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 };
    run("create", 2000, 1, &mk("a"));
    let inos = run("create", 200_000, 64, &mk("b"));
    let g = |i: usize| Op::GetAttr { ino: inos[(i * 7919) % inos.len()] };
    run("stat", 50_000, 1, &g);
    run("stat", 500_000, 64, &g);
    run("lookup", 300_000, 64, &|i| Op::Lookup { dir: Ino::ROOT, name: Name::new(format!("b{i}").as_bytes()).unwrap() });
    run("unlink", 200_000, 64, &|i| Op::Unlink { dir: Ino::ROOT, name: Name::new(format!("b{i}").as_bytes()).unwrap() });
    let m = server.metrics();
    let h = m.journal_sync.snapshot();
    println!("syncs {} p50 {} us p99 {} us; batch mean {}", h.count, h.quantile(0.5) / 1000, h.quantile(0.99) / 1000, m.journal_records.get() / h.count.max(1));
    for (n, o) in m.ops.iter() { if o.done.get() > 0 { let l = o.latency.snapshot(); println!("{n} {} p50 {} us p99 {} us", o.done.get(), l.quantile(0.5) / 1000, l.quantile(0.99) / 1000); } }
    let c = m.checkpoint_time.snapshot();
    println!("checkpoints {} records {} p50 {} ms", c.count, m.checkpoint_records.get(), c.quantile(0.5) / 1_000_000);
    let t = Instant::now();
    server.stop().unwrap();
    println!("stop {:?}", t.elapsed());
}
