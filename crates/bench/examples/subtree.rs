//! Cost of a decoupled subtree for its owner, the rank and the wire, beside the same creates asked of the rank: one table of measured
//! numbers. Started by `bench/subtree.sh`, which starts the server, too. Not its cost for others.
//!
//! usage: subtree ADDRESS SERVER-PID FILES DIR    DIR: on a disk, for what is persisted

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use loligo_bench::cpu;
use loligo_driver::Address;
use loligo_driver::client::{Call, Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_types::{Cred, Ino, Kind, Name, Op};

/// Requests of the rank that are under way at once.
const IN_FLIGHT: u64 = 64;
/// Creates with one at a time: they take long.
const ALONE: u64 = 20_000;

/// Time of something.
#[derive(Clone, Copy)]
struct Took {
    time: Duration,
    client: f64,
    rank: f64,
}

struct Meter {
    server: u32,
    begun: Instant,
    client: f64,
    rank: f64,
}

fn rank_cpu(server: u32) -> f64 {
    cpu::of_threads(server, "loligo-rank").iter().map(|(_, seconds)| seconds).sum()
}

impl Meter {
    fn start(server: u32) -> Meter {
        Meter { server, begun: Instant::now(), client: cpu::own(), rank: rank_cpu(server) }
    }

    fn stop(self) -> Took {
        let time = self.begun.elapsed();
        Took { time, client: cpu::own() - self.client, rank: rank_cpu(self.server) - self.rank }
    }
}

fn name(n: u64) -> Name {
    Name::new(format!("file.{n:08}").as_bytes()).expect("a good name")
}

/// Creates asked of the rank, so many at once; each is durable when it is answered.
fn by_requests(client: &Client, cred: &Arc<Cred>, dir: Ino, files: u64, in_flight: u64) -> Result<(), String> {
    let (to, from) = channel();
    let (mut sent, mut done) = (0, 0);
    while done < files {
        while sent < files && sent - done < in_flight {
            let op = Op::Mknod { dir, name: name(sent), kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 };
            let to = to.clone();
            client.submit(cred, Call::Op(op), move |result| _ = to.send(result));
            sent += 1;
        }
        from.recv().map_err(|e| e.to_string())?.map_err(|failed| failed.error.to_string())?;
        done += 1;
    }
    Ok(())
}

/// The same bytes written and synced, and nothing else.
fn plain_write(path: &Path, bytes: u64) -> std::io::Result<Duration> {
    let data = vec![0x5a; usize::try_from(bytes).unwrap_or(0)];
    let begun = Instant::now();
    let mut file = File::create(path)?;
    file.write_all(&data)?;
    file.sync_data()?;
    let time = begun.elapsed();
    std::fs::remove_file(path)?;
    Ok(time)
}

fn line(what: &str, files: u64, took: Took) {
    let (n, seconds) = (files as f64, took.time.as_secs_f64());
    println!(
        "{what:<34} {:>9.0} {:>8.2} {:>10.2} {:>10.2}",
        n / seconds,
        seconds,
        took.client * 1e6 / n,
        took.rank * 1e6 / n
    );
}

fn measure(fs: &Fs, client: &Client, address: &Address, server: u32, files: u64, disk: &Path) -> Result<(), String> {
    let (text, cred) = (|error: loligo_types::FsError| error.to_string(), fs.cred().clone());
    fs.mkdir("/asked", 0o755).map_err(text)?;
    fs.mkdir("/own", 0o755).map_err(text)?;
    println!("{:<34} {:>9} {:>8} {:>10} {:>10}", "creates in one directory", "/s", "s", "client us", "rank us");
    let asked = fs.stat("/asked").map_err(text)?.ino;
    let meter = Meter::start(server);
    by_requests(client, &cred, asked, files, IN_FLIGHT)?;
    let many = meter.stop();
    line(&format!("requests, {IN_FLIGHT} in flight, durable"), files, many);
    fs.mkdir("/alone", 0o755).map_err(text)?;
    let alone = fs.stat("/alone").map_err(text)?.ino;
    let meter = Meter::start(server);
    by_requests(client, &cred, alone, ALONE, 1)?;
    let single = meter.stop();
    line("requests, one in flight, durable", ALONE, single);

    let options = SubtreeOptions { allocated_inodes: files, ..SubtreeOptions::default() };
    let mut own = Subtree::decouple(fs, "/own", &options).map_err(text)?;
    let dir = own.root();
    let before = own.memory_bytes();
    let meter = Meter::start(server);
    for n in 0..files {
        own.create_in(dir, name(n), 0o644).map_err(text)?;
    }
    let append = meter.stop();
    line("append client journal", files, append);
    let (memory, bytes) = (own.memory_bytes() - before, own.outstanding().bytes);

    let kept = disk.join("own.journal");
    let meter = Meter::start(server);
    own.persist(&kept).map_err(|e| e.to_string())?;
    let persist = meter.stop();
    line("local persist (all at once)", files, persist);
    let plain = plain_write(&disk.join("plain"), bytes).map_err(|e| e.to_string())?;

    let neighbour = Neighbour::new(address)?;
    let quiet = neighbour.work("quiet", || std::thread::sleep(QUIET))?.1;
    let ((merged, merge), busy) = neighbour.work("busy", || {
        let meter = Meter::start(server);
        (own.merge(), meter.stop())
    })?;
    let merged = merged.map_err(text)?;
    line("volatile apply (the merge, durable)", files, merge);
    own.recouple().map_err(text)?;
    let there = fs.stat("/own").map_err(text)?.size;
    if there != files {
        return Err(format!("{there} of {files} files are there after the merge"));
    }
    let into_table = past_memory(fs, server, files)?;
    let n = files as f64;
    println!();
    println!(
        "nonvolatile beside volatile apply  {:.2} times the time, {:.2} times the rank's processor",
        into_table.time.as_secs_f64() / merge.time.as_secs_f64(),
        into_table.rank / merge.rank
    );
    println!("journal bytes a create             {:.1}, in {} steps of the merge", bytes as f64 / n, merged.steps);
    println!("memory a create, bytes             {:.0}", memory as f64 / n);
    let rate = |took: Took, n: u64| n as f64 / took.time.as_secs_f64();
    println!(
        "append beside requests             {:.1} times the rate of {IN_FLIGHT} in flight, {:.1} times that of one",
        rate(append, files) / rate(many, files),
        rate(append, files) / rate(single, ALONE)
    );
    println!(
        "append + merge beside requests     {:.1} times the rate of {IN_FLIGHT} in flight, {:.2} times the rank's processor",
        many.time.as_secs_f64() / (append.time + merge.time).as_secs_f64(),
        merge.rank / many.rank
    );
    println!("merged a second of the rank's core {:.0}", n / merge.rank);
    println!(
        "append + persist beside append     {:.2} times the time (of that {:.3} s; the same bytes written and synced: {:.3} s)",
        (append.time + persist.time).as_secs_f64() / append.time.as_secs_f64(),
        persist.time.as_secs_f64(),
        plain.as_secs_f64()
    );
    println!(
        "p50, p99 of creates beside it, us   quiet {} {}, during the merge {} {}",
        quiet.0, quiet.1, busy.0, busy.1
    );
    Ok(())
}

/// The same files merged into the table, past the rank's memory.
fn past_memory(fs: &Fs, server: u32, files: u64) -> Result<Took, String> {
    let text = |error: loligo_types::FsError| error.to_string();
    fs.mkdir("/past", 0o755).map_err(text)?;
    let into = loligo_types::MergeInto::Table;
    let options = SubtreeOptions { allocated_inodes: files, into, ..SubtreeOptions::default() };
    let mut past = Subtree::decouple(fs, "/past", &options).map_err(text)?;
    let dir = past.root();
    for n in 0..files {
        past.create_in(dir, name(n), 0o644).map_err(text)?;
    }
    let meter = Meter::start(server);
    past.merge().map_err(text)?;
    let took = meter.stop();
    line("nonvolatile apply (into the table)", files, took);
    past.recouple().map_err(text)?;
    let there = fs.stat("/past").map_err(text)?.size;
    if there == files { Ok(took) } else { Err(format!("{there} of {files} files are there after the merge")) }
}

/// Time for which a neighbour works while nothing else does.
const QUIET: Duration = Duration::from_secs(2);

/// Somebody else, who creates files one at a time.
struct Neighbour {
    client: Client,
    cred: Arc<Cred>,
}

impl Neighbour {
    fn new(address: &Address) -> Result<Neighbour, String> {
        let client = Client::connect(address, Options::default()).map_err(|e| e.to_string())?;
        Ok(Neighbour { client, cred: Arc::new(Cred::root()) })
    }

    /// Result of the other one, and p50 and p99 of this one's work meanwhile, microseconds.
    fn work<T>(&self, label: &str, other: impl FnOnce() -> T) -> Result<(T, (u128, u128)), String> {
        let fs = self.client.fs(self.cred.clone());
        let dir = fs.mkdir(format!("/neighbour-{label}"), 0o755).map_err(|e| e.to_string())?.ino;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let works = scope.spawn(|| {
                let mut took = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    by_name(&self.client, &self.cred, dir, took.len() as u64)?;
                    took.push(begun.elapsed().as_micros());
                }
                took.sort_unstable();
                Ok::<_, String>(took)
            });
            let given = other();
            over.store(true, Ordering::Relaxed);
            let took = works.join().map_err(|_| "the neighbour failed")??;
            let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or_default();
            Ok((given, (at(50), at(99))))
        })
    }
}

fn by_name(client: &Client, cred: &Arc<Cred>, dir: Ino, n: u64) -> Result<(), String> {
    let op = Op::Mknod { dir, name: name(n), kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 };
    client.call(cred, Call::Op(op)).map(drop).map_err(|failed| failed.error.to_string())
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let [_, address, server, files, disk] = &args[..] else {
        return Err("usage: subtree ADDRESS SERVER-PID FILES DIR".into());
    };
    let address: Address = address.parse().map_err(|e| format!("{address}: {e}"))?;
    let server = server.parse().map_err(|e| format!("{server}: {e}"))?;
    let files = files.parse().map_err(|e| format!("{files}: {e}"))?;
    let options = Options { name: "bench".into(), ..Options::default() };
    let client = Client::connect(&address, options).map_err(|e| e.to_string())?;
    let fs = client.fs(Arc::new(Cred::root()));
    measure(&fs, &client, &address, server, files, Path::new(disk))?;
    client.stop(Duration::from_secs(10)).map_err(|error| error.to_string())
}
