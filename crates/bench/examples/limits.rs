//! Limits of this machine, for comparison with the server: a bare epoll server that answers every 128 bytes with 160,
//! and the sync of a small append on a disk. Not a benchmark of Loligo: none of its code runs here.
//!
//! `limits rpc` and `limits sync DIR`; `--json` for one object a line, `--seconds S` for how long each line takes (2).

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use loligo_bench::cpu;
use loligo_bench::result::histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::FallocateFlags;

const USAGE: &str = "usage: limits rpc | limits sync DIR    [--json] [--seconds S]";

/// Bytes of a request and of its answer.
const REQUEST: usize = 128;
const ANSWER: usize = 160;
/// Most bytes taken by one read.
const READ_MAX: usize = 64 << 10;
/// Most syncs of one line; slow disks end earlier, by time.
const SYNCS_MAX: usize = 20_000;

fn main() -> ExitCode {
    let outcome = Args::parse().and_then(|args| run(&args).map_err(|e| format!("limits: {e}")));
    outcome.map_or_else(
        |text| {
            eprintln!("{text}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

struct Args {
    /// A directory for `sync`; nothing for `rpc`.
    sync: Option<PathBuf>,
    json: bool,
    time: Duration,
}

impl Args {
    fn parse() -> Result<Args, String> {
        let (mut words, mut json, mut time) = (Vec::new(), false, Duration::from_secs(2));
        let mut given = std::env::args().skip(1);
        while let Some(arg) = given.next() {
            match arg.as_str() {
                "--json" => json = true,
                "--seconds" => {
                    let seconds = given.next().and_then(|s| s.parse().ok());
                    time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or(USAGE)?;
                }
                _ => words.push(arg),
            }
        }
        let sync = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["rpc"] => None,
            ["sync", dir] => Some(PathBuf::from(dir)),
            _ => return Err(USAGE.to_string()),
        };
        Ok(Args { sync, json, time })
    }
}

fn run(args: &Args) -> io::Result<()> {
    match &args.sync {
        Some(dir) => {
            for (reserved, bytes) in [(false, 512), (false, 4096), (true, 512), (true, 4096)] {
                syncs(dir, reserved, bytes, args.time)?.print(args.json);
            }
        }
        None => {
            for (transport, connections, depth) in
                [(Transport::Unix, 1, 1), (Transport::Tcp, 1, 1), (Transport::Unix, 4, 16), (Transport::Tcp, 4, 16)]
            {
                round_trips(transport, connections, depth, args.time)?.print(args.json);
            }
        }
    }
    Ok(())
}

/// Content of one line.
struct Line {
    what: String,
    latencies: Histogram<u64>,
    wall_s: f64,
    /// CPU seconds of the answering and of the asking process; absent for the disk.
    cpu_s: Option<(f64, f64)>,
}

impl Line {
    fn print(&self, json: bool) {
        let count = self.latencies.len().max(1) as f64;
        let quantile = |q: f64| self.latencies.value_at_quantile(q) as f64 / 1e3;
        let rate = self.latencies.len() as f64 / self.wall_s;
        let cpu = self.cpu_s.map(|(server, client)| (server * 1e6 / count, client * 1e6 / count));
        if json {
            let line = serde_json::json!({
                "what": self.what, "ops_per_s": rate.round(), "p50_us": quantile(0.5), "p99_us": quantile(0.99),
                "server_cpu_us_per_op": cpu.map(|c| c.0), "client_cpu_us_per_op": cpu.map(|c| c.1),
            });
            println!("{line}");
            return;
        }
        let cpu = cpu.map_or(String::new(), |(server, client)| format!("  cpu {server:.2} + {client:.2} us"));
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        println!("{:<28} {rate:>9.0}/s  p50 {p50:>7.1} us  p99 {p99:>7.1} us{cpu}", self.what);
    }
}

#[derive(Clone, Copy)]
enum Transport {
    Unix,
    Tcp,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::Unix => "unix",
            Transport::Tcp => "tcp",
        }
    }

    /// Connected sockets: the asking ends and the answering ends.
    fn connect(self, count: usize) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let tcp = || -> io::Result<(OwnedFd, OwnedFd)> {
            let asking = TcpStream::connect(listener.local_addr()?)?;
            let answering = listener.accept()?.0;
            asking.set_nodelay(true)?;
            answering.set_nodelay(true)?;
            Ok((asking.into(), answering.into()))
        };
        let unix = || UnixStream::pair().map(|(a, b)| (a.into(), b.into()));
        (0..count).map(|_| if matches!(self, Transport::Unix) { unix() } else { tcp() }).collect()
    }
}

/// Keeps `depth` requests in flight on each of `connections`; the answering end is a process of its own.
fn round_trips(transport: Transport, connections: usize, depth: usize, time: Duration) -> io::Result<Line> {
    let (asking, answering) = transport.connect(connections)?;
    // SAFETY: this process has one thread, so the child may do anything.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            drop(asking);
            let code = i32::from(answer(answering).is_err());
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(code) }
        }
        pid => pid,
    };
    drop(answering);
    let before = cpu::own();
    let start = Instant::now();
    let asked = ask(asking, depth, time);
    let (wall_s, client_cpu_s) = (start.elapsed().as_secs_f64(), cpu::own() - before);
    // The asking ends are closed, so the child ends.
    let server_cpu_s = wait_for(child)?;
    let what = format!("rpc {} {connections} x {depth}", transport.name());
    Ok(Line { what, latencies: asked?, wall_s, cpu_s: Some((server_cpu_s, client_cpu_s)) })
}

/// Waits for a child and gives its CPU seconds.
fn wait_for(child: i32) -> io::Result<f64> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both out-arguments are valid; a zeroed rusage is one too, should the call fail.
    let (found, usage) = unsafe { (libc::wait4(child, &mut status, 0, usage.as_mut_ptr()), usage.assume_init()) };
    if found != child || status != 0 {
        return Err(io::Error::other(format!("the answering process failed (status {status})")));
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// One end of a connection: how many bytes of an unfinished message were read.
struct Peer {
    socket: File,
    have: usize,
}

impl Peer {
    /// Reads once; how many whole messages of `size` bytes that completed, or nothing at the other end's close.
    fn receive(&mut self, buffer: &mut [u8], size: usize) -> io::Result<Option<usize>> {
        let read = self.socket.read(buffer)?;
        self.have += read;
        let whole = self.have / size;
        self.have %= size;
        Ok((read > 0).then_some(whole))
    }
}

/// Peers watched by an epoll of their own; the event's number is the index.
fn watched(sockets: Vec<OwnedFd>) -> io::Result<(OwnedFd, Vec<Peer>)> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (at, socket) in sockets.iter().enumerate() {
        epoll::add(&poll, socket, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
    }
    Ok((poll, sockets.into_iter().map(|s| Peer { socket: s.into(), have: 0 }).collect()))
}

/// The numbers of the peers that can be read.
fn ready(poll: impl AsFd, events: &mut Vec<epoll::Event>) -> io::Result<Vec<usize>> {
    events.clear();
    match epoll::wait(poll, spare_capacity(events), None) {
        Ok(_) => Ok(events.iter().map(|e| e.data.u64() as usize).collect()),
        Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

/// The server: answers until every peer has closed.
fn answer(sockets: Vec<OwnedFd>) -> io::Result<()> {
    let mut open = sockets.len();
    let (poll, mut peers) = watched(sockets)?;
    let mut events = Vec::with_capacity(64);
    let mut buffer = vec![0; READ_MAX];
    let answers = vec![7; (READ_MAX / REQUEST + 1) * ANSWER];
    while open > 0 {
        for at in ready(&poll, &mut events)? {
            let peer = &mut peers[at];
            let answered = peer.receive(&mut buffer, REQUEST).and_then(|whole| match whole {
                Some(whole) => peer.socket.write_all(&answers[..whole * ANSWER]).map(|()| true),
                None => Ok(false),
            });
            // A close while answers are on their way shows as an error of either call.
            if !answered.unwrap_or(false) {
                epoll::delete(&poll, &peer.socket)?;
                open -= 1;
            }
        }
    }
    Ok(())
}

/// The client; a single connection blocks in read, as nothing else is to be done.
fn ask(sockets: Vec<OwnedFd>, depth: usize, time: Duration) -> io::Result<Histogram<u64>> {
    let (poll, mut peers) = watched(sockets)?;
    let mut sent: Vec<VecDeque<Instant>> = vec![VecDeque::with_capacity(depth); peers.len()];
    let mut events = Vec::with_capacity(64);
    let mut buffer = vec![0; READ_MAX];
    let requests = vec![3; depth * REQUEST];
    let mut latencies = histogram();
    let end = Instant::now() + time;
    for (peer, sent) in peers.iter_mut().zip(&mut sent) {
        sent.extend(std::iter::repeat_n(Instant::now(), depth));
        peer.socket.write_all(&requests)?;
    }
    let mut now = Instant::now();
    while now < end {
        let readable = if peers.len() == 1 { vec![0] } else { ready(&poll, &mut events)? };
        for at in readable {
            let whole = peers[at].receive(&mut buffer, ANSWER)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            now = Instant::now();
            for began in sent[at].drain(..whole) {
                latencies.saturating_record((now - began).as_nanos() as u64);
            }
            sent[at].extend(std::iter::repeat_n(now, whole));
            peers[at].socket.write_all(&requests[..whole * REQUEST])?;
        }
    }
    Ok(latencies)
}

/// Appends `bytes` and syncs, again and again. With `reserved` the space was allocated before, as a journal does it.
fn syncs(dir: &Path, reserved: bool, bytes: usize, time: Duration) -> io::Result<Line> {
    let path = dir.join(format!("limits.{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    // Nothing of it stays behind, however this ends.
    std::fs::remove_file(&path)?;
    if reserved {
        rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, (SYNCS_MAX * bytes) as u64)?;
    }
    file.sync_all()?;
    let data = vec![7; bytes];
    let mut latencies = histogram();
    let start = Instant::now();
    while start.elapsed() < time && latencies.len() < SYNCS_MAX as u64 {
        let before = Instant::now();
        file.write_all(&data)?;
        file.sync_data()?;
        latencies.saturating_record(before.elapsed().as_nanos() as u64);
    }
    let kind = if reserved { "reserved append" } else { "append" };
    Ok(Line { what: format!("sync {kind} {bytes} B"), latencies, wall_s: start.elapsed().as_secs_f64(), cpu_s: None })
}
