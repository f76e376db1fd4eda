//! The shapes through the client library: one connection a client, several calls in flight on each.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use loligo_client::{Call, CallResult, Done, Fh};
use loligo_driver::client::Client;
use loligo_types::{Cred, FsError, Ino, Name, Op, OpenFlags, RenameMode};

use crate::result::{Measured, histogram};
use crate::shape::{Phase, Stock, dir_name, shuffled};
use crate::{Config, cpu};

/// Connected clients and the directories that they work in.
pub struct Run {
    workers: Vec<Worker>,
    run_dir: Name,
}

struct Worker {
    client: Client,
    cred: Arc<Cred>,
    id: usize,
    dir: Ino,
    /// Bytes of a small file.
    small_bytes: usize,
    /// Inodes of its files by number, learned at their creation; 0: it was made by another run.
    inos: Vec<Ino>,
}

/// Results of one client.
struct Share {
    latencies: Histogram<u64>,
    ops: u64,
    errors: u64,
    first_error: Option<FsError>,
}

/// A call that ended: which item it was for, when it began, what came.
type Ended = (usize, Instant, CallResult);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("names of the benchmark are valid")
}

fn make_dir(client: &Client, cred: &Arc<Cred>, dir: Ino, text: &str) -> Result<Ino, String> {
    let mkdir = Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 };
    let done = match client.call(cred, Call::Op(mkdir)) {
        Err(failed) if failed.error == FsError::Exists => {
            client.call(cred, Call::Op(Op::Lookup { dir, name: name(text) }))
        }
        other => other,
    };
    let done = done.map_err(|failed| format!("directory {text}: {}", failed.error))?;
    done.attr().map(|a| a.ino).ok_or_else(|| format!("directory {text}: an answer without attributes"))
}

impl Run {
    /// Connects the clients and makes their directories.
    pub fn start(connect: &dyn Fn() -> Result<Client, String>, config: &Config, run_id: &str) -> Result<Run, String> {
        let cred = Arc::new(Cred::root());
        let mut workers = Vec::new();
        for id in 0..config.clients {
            let client = connect()?;
            let root = make_dir(&client, &cred, Ino::ROOT, run_id)?;
            let own = if config.shared { "shared".to_string() } else { format!("own.{id:03}") };
            let dir = make_dir(&client, &cred, root, &own)?;
            workers.push(Worker {
                client,
                cred: Arc::clone(&cred),
                id,
                dir,
                small_bytes: config.small_bytes,
                inos: vec![Ino(0); config.files],
            });
        }
        Ok(Run { workers, run_dir: name(run_id) })
    }

    /// Runs a phase on all clients at once.
    pub fn phase(&mut self, config: &Config, phase: Phase, stock: Stock) -> Result<Measured, String> {
        let window = (config.in_flight / config.clients).max(1);
        let barrier = Barrier::new(self.workers.len() + 1);
        let shares: Vec<Share>;
        let (wall_s, client_cpu_s, server_before);
        let own_before = cpu::own();
        {
            let barrier = &barrier;
            let (joined, wall, before) = thread::scope(|scope| {
                let handles: Vec<_> = self
                    .workers
                    .iter_mut()
                    .map(|worker| {
                        scope.spawn(move || {
                            barrier.wait();
                            worker.work(config.files, window, phase, stock)
                        })
                    })
                    .collect();
                let before = (config.server_cpu(), config.rank_cpu());
                barrier.wait();
                let start = Instant::now();
                let joined: Vec<_> = handles.into_iter().map(|h| h.join().expect("a worker does not panic")).collect();
                (joined, start.elapsed(), before)
            });
            shares = joined;
            wall_s = wall.as_secs_f64();
            server_before = before;
            client_cpu_s = cpu::own() - own_before;
        }
        let (server_before, ranks_before): (Option<f64>, Vec<f64>) = server_before;
        let rank_cpu_s = config.rank_cpu().iter().zip(ranks_before).map(|(after, before)| after - before).collect();
        let server_cpu_s = config.server_cpu().zip(server_before).map(|(after, before)| after - before);
        let latencies = histogram();
        let mut all = Measured { wall_s, server_cpu_s, rank_cpu_s, client_cpu_s, latencies, ops: 0, errors: 0 };
        for share in shares {
            all.latencies.add(share.latencies).map_err(|e| e.to_string())?;
            all.ops += share.ops;
            all.errors += share.errors;
            if let Some(error) = share.first_error {
                eprintln!("{}: {} failed, first with: {error}", phase.name(), share.errors);
            }
        }
        Ok(all)
    }

    /// Removes what the phases left.
    pub fn clean_up(mut self, config: &Config, stock: Stock) -> Result<(), String> {
        for (there, phase) in [(stock.files, Phase::Unlink), (stock.dirs, Phase::Rmdir)] {
            if there {
                self.phase(config, phase, stock)?;
            }
        }
        let Some(first) = self.workers.first() else { return Ok(()) };
        let (client, cred) = (first.client.clone(), Arc::clone(&first.cred));
        let remove = |dir, name: Name| client.call(&cred, Call::Op(Op::Rmdir { dir, name }));
        let root = make_dir(&client, &cred, Ino::ROOT, &self.run_dir.to_string())?;
        for worker in &self.workers {
            let own = if config.shared { "shared".to_string() } else { format!("own.{:03}", worker.id) };
            // In a shared run the first one took it.
            let _ = remove(root, name(&own));
        }
        remove(Ino::ROOT, self.run_dir.clone())
            .map_err(|failed| format!("removing {}: {}", self.run_dir, failed.error))?;
        self.stop()
    }

    /// Ends the clients, leaving what they made.
    pub fn stop(self) -> Result<(), String> {
        for worker in &self.workers {
            worker.client.stop(Duration::from_secs(30)).map_err(|e| format!("stopping a client: {e}"))?;
        }
        Ok(())
    }
}

impl Share {
    fn new() -> Share {
        Share { latencies: histogram(), ops: 0, errors: 0, first_error: None }
    }

    fn count(&mut self, began: Instant, result: &CallResult) {
        self.latencies.saturating_record(began.elapsed().as_nanos() as u64);
        match result {
            Ok(_) => self.ops += 1,
            Err(failed) => self.fail(failed.error),
        }
    }

    fn fail(&mut self, error: FsError) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }
}

impl Worker {
    fn work(&mut self, files: usize, window: usize, phase: Phase, stock: Stock) -> Share {
        match phase {
            Phase::Readdir => self.list(),
            Phase::Smallwrite | Phase::Smallread => self.chains(files, window, phase, stock),
            _ => self.single_calls(files, window, phase, stock),
        }
    }

    fn call_for(&self, phase: Phase, stock: Stock, i: usize) -> Call {
        let dir = self.dir;
        let file = |stock: Stock| name(&stock.file(self.id, i));
        let op = match phase {
            Phase::Create => {
                let (mode, umask) = (0o644, 0);
                return Call::Op(Op::Mknod {
                    dir,
                    name: file(stock),
                    kind: loligo_types::Kind::File,
                    mode,
                    umask,
                    rdev: 0,
                });
            }
            Phase::Stat if self.inos[i] == Ino(0) => Op::Lookup { dir, name: file(stock) },
            Phase::Stat => return Call::GetAttr { ino: self.inos[i] },
            Phase::Rename => Op::Rename {
                dir,
                name: file(stock),
                new_dir: dir,
                new_name: file(stock.after(Phase::Rename)),
                mode: RenameMode::Replace,
            },
            Phase::Unlink => Op::Unlink { dir, name: file(stock) },
            Phase::Mkdir => Op::Mkdir { dir, name: name(&dir_name(self.id, i)), mode: 0o755, umask: 0 },
            Phase::Rmdir => Op::Rmdir { dir, name: name(&dir_name(self.id, i)) },
            Phase::Readdir | Phase::Smallwrite | Phase::Smallread => unreachable!("these are not single calls"),
        };
        Call::Op(op)
    }

    /// One call an item; `window` in flight; what comes together is answered together, in one write.
    fn single_calls(&mut self, files: usize, window: usize, phase: Phase, stock: Stock) -> Share {
        if window == 1 {
            return self.one_at_a_time(files, phase, stock);
        }
        let mut share = Share::new();
        let (to, from) = channel::<Ended>();
        let mut items: Box<dyn Iterator<Item = usize>> =
            if phase == Phase::Stat { Box::new(shuffled(files)) } else { Box::new(0..files) };
        let mut flying = 0;
        loop {
            let mut batch = self.client.batch();
            while flying + batch.len() < window {
                let Some(i) = items.next() else { break };
                let (to, began) = (to.clone(), Instant::now());
                batch.add(&self.cred, self.call_for(phase, stock, i), move |result| {
                    // The receiver lives until every call was answered.
                    let _ = to.send((i, began, result));
                });
            }
            flying += batch.len();
            batch.send();
            if flying == 0 {
                return share;
            }
            for (i, began, result) in some(&from) {
                flying -= 1;
                share.count(began, &result);
                if let (Phase::Create, Ok(done)) = (phase, &result) {
                    self.inos[i] = done.attr().map_or(Ino(0), |a| a.ino);
                }
            }
        }
    }

    /// One call after another, each waited for by the thread that made it.
    fn one_at_a_time(&mut self, files: usize, phase: Phase, stock: Stock) -> Share {
        let mut share = Share::new();
        let order: Vec<usize> = if phase == Phase::Stat { shuffled(files).collect() } else { (0..files).collect() };
        for i in order {
            let (call, began) = (self.call_for(phase, stock, i), Instant::now());
            let result = self.client.call(&self.cred, call);
            share.count(began, &result);
            if let (Phase::Create, Ok(done)) = (phase, &result) {
                self.inos[i] = done.attr().map_or(Ino(0), |a| a.ino);
            }
        }
        share
    }

    /// Open, write or read, close: the calls of one file one after another, `window` files at a time.
    fn chains(&mut self, files: usize, window: usize, phase: Phase, stock: Stock) -> Share {
        let mut share = Share::new();
        let (to, from) = channel::<(usize, Instant, Result<(), FsError>)>();
        let data: Arc<[u8]> = vec![b'x'; self.small_bytes].into();
        let order: Vec<usize> =
            if phase == Phase::Smallread { shuffled(files).collect() } else { (0..files).collect() };
        let mut items = order.into_iter();
        let mut flying = 0;
        loop {
            while flying < window {
                let Some(i) = items.next() else { break };
                let chain = Chain { client: self.client.clone(), cred: Arc::clone(&self.cred), to: to.clone(), i };
                chain.start(self.dir, name(&stock.after(phase).file(self.id, i)), phase, Arc::clone(&data));
                flying += 1;
            }
            if flying == 0 {
                return share;
            }
            for (_, began, result) in some(&from) {
                flying -= 1;
                share.latencies.saturating_record(began.elapsed().as_nanos() as u64);
                match result {
                    Ok(()) => share.ops += 1,
                    Err(error) => share.fail(error),
                }
            }
        }
    }

    /// Reads the whole directory with attributes; one latency a call.
    fn list(&mut self) -> Share {
        let mut share = Share::new();
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = match self.client.call(&self.cred, Call::Open { ino: self.dir, flags }) {
            Ok(Done { fh: Some(fh), .. }) => fh,
            Ok(_) => unreachable!("an open gives a handle"),
            Err(failed) => {
                share.fail(failed.error);
                return share;
            }
        };
        let mut cookie = 0;
        loop {
            let began = Instant::now();
            let result = self.client.call(&self.cred, Call::Readdir { fh, cookie, limit: 1024, plus: true });
            share.latencies.saturating_record(began.elapsed().as_nanos() as u64);
            match &result {
                Ok(done) => {
                    let (entries, end) = done.entries().unwrap_or((&[], true));
                    share.ops += entries.len() as u64;
                    cookie = entries.last().map_or(cookie, |e| e.cookie);
                    if end {
                        break;
                    }
                }
                Err(failed) => {
                    share.fail(failed.error);
                    break;
                }
            }
        }
        // The listing is done; a failed close changes nothing of it.
        let _ = self.client.call(&self.cred, Call::Release { fh, flock_owner: None });
        share
    }
}

/// Waits for one, and takes what else is there.
fn some<T>(from: &Receiver<T>) -> Vec<T> {
    from.recv().ok().into_iter().chain(from.try_iter()).collect()
}

/// The calls on one small file.
struct Chain {
    client: Client,
    cred: Arc<Cred>,
    to: Sender<(usize, Instant, Result<(), FsError>)>,
    i: usize,
}

impl Chain {
    fn start(self, dir: Ino, name: Name, phase: Phase, data: Arc<[u8]>) {
        let began = Instant::now();
        let (client, cred) = (self.client.clone(), Arc::clone(&self.cred));
        if phase == Phase::Smallwrite {
            let flags = OpenFlags { write: true, ..OpenFlags::default() };
            let call = Call::Create { dir, name, mode: 0o644, umask: 0, flags, exclusive: true };
            client.submit(&cred, call, move |result| {
                self.then(began, result, move |chain, fh| {
                    let write = Call::Write { fh, offset: 0, data, append: false, kill_priv: false };
                    chain.transfer(began, fh, write);
                })
            });
        } else {
            client.submit(&cred, Call::Op(Op::Lookup { dir, name }), move |result| match result {
                Ok(done) => {
                    let ino = done.attr().map_or(Ino(0), |a| a.ino);
                    let flags = OpenFlags { read: true, ..OpenFlags::default() };
                    let (client, cred) = (self.client.clone(), Arc::clone(&self.cred));
                    client.submit(&cred, Call::Open { ino, flags }, move |result| {
                        self.then(began, result, move |chain, fh| {
                            chain.transfer(began, fh, Call::Read { fh, offset: 0, len: data.len() as u32 });
                        })
                    });
                }
                Err(failed) => self.end(began, Err(failed.error)),
            });
        }
    }

    fn then(self, began: Instant, result: CallResult, next: impl FnOnce(Chain, Fh)) {
        match result {
            Ok(Done { fh: Some(fh), .. }) => next(self, fh),
            Ok(_) => self.end(began, Err(FsError::BadHandle)),
            Err(failed) => self.end(began, Err(failed.error)),
        }
    }

    fn transfer(self, began: Instant, fh: Fh, call: Call) {
        let (client, cred) = (self.client.clone(), Arc::clone(&self.cred));
        client.submit(&cred, call, move |moved| {
            let (client, cred) = (self.client.clone(), Arc::clone(&self.cred));
            client.submit(&cred, Call::Flush { fh, owner: None }, move |flushed| {
                let (client, cred) = (self.client.clone(), Arc::clone(&self.cred));
                client.submit(&cred, Call::Release { fh, flock_owner: None }, move |released| {
                    let result = moved.and(flushed).and(released).map(drop).map_err(|failed| failed.error);
                    self.end(began, result);
                });
            });
        });
    }

    fn end(self, began: Instant, result: Result<(), FsError>) {
        // The receiver lives until every chain has ended.
        let _ = self.to.send((self.i, began, result));
    }
}
