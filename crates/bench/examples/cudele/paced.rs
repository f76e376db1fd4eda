//! Steps of a client for figure 6.9: files made at the pace of a job that computes between them, with merges at an interval, and somebody who
//! watches from outside how many there are. Not the figure (`fig69.rs`).
//!
//! The job's computing is real work of the processor, always the same for each file: nothing sleeps. So what a merge takes from the job's core
//! is seen in how long the job runs.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use loligo_driver::client::{Call, Client};
use loligo_types::{Answer, Cred, Ino, Op, XattrMode};

use crate::client::{Worker, clock, create, name, number, text};

/// So often the watcher looks.
const LOOK: Duration = Duration::from_millis(5);
/// The time is noted with each so many files.
const NOTE_EVERY: u64 = 100;
const ATTRIBUTE: &[u8] = b"loligo.subtree";

/// Somebody who looks how many files are in a directory.
pub struct Watch {
    stop: Sender<()>,
    /// Times, and how many there were.
    thread: JoinHandle<Result<Vec<(f64, u64)>, String>>,
}

/// One of the steps here.
pub fn step(worker: &mut Worker, what: &str, rest: &[&str]) -> Result<u64, String> {
    match (what, rest) {
        ("compute", [rounds]) => Ok(compute(number(rounds)?)),
        ("own", [path, inos, interval_ms]) => own(worker, path, number(inos)?, number(interval_ms)?),
        ("paced", [path, files, rounds, log]) => {
            let (dir, client, cred) = (worker.dir(path)?, worker.client.clone(), worker.cred.clone());
            let make = |n| client.call(&cred, create(dir, name("file", n))).map(drop).map_err(|f| text(f.error));
            paced(number(files)?, number(rounds)?, log, make)
        }
        ("paced_merging", [files, rounds, interval, log]) => {
            let interval: f64 = number(interval)?;
            let subtree = worker.own()?;
            let (dir, mut last, mut merges) = (subtree.root(), clock(), 0);
            let make = |n: u64| {
                subtree.create_in(dir, name("file", n), 0o644).map_err(text)?;
                if interval > 0.0 && n.is_multiple_of(16) && clock() - last >= interval {
                    last = clock();
                    subtree.merge().map_err(text)?;
                    merges += 1;
                }
                Ok(())
            };
            paced(number(files)?, number(rounds)?, log, make)?;
            Ok(merges)
        }
        ("merges", [path]) => status(worker, path, "merges"),
        ("watch", [path]) => {
            let (client, cred, dir) = (worker.client.clone(), worker.cred.clone(), worker.dir(path)?);
            let (stop, stopped) = channel();
            let thread = std::thread::spawn(move || {
                let mut seen = Vec::new();
                while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    seen.push((clock(), size(&client, &cred, dir)?));
                }
                Ok(seen)
            });
            worker.watch = Some(Watch { stop, thread });
            Ok(1)
        }
        ("unwatch", [log]) => {
            let Watch { stop, thread } = worker.watch.take().ok_or("nothing is watched")?;
            drop(stop);
            let seen = thread.join().map_err(|_| "the watcher failed")??;
            write(log, &seen)
        }
        _ => Err("no such step".into()),
    }
}

/// Computes: so many rounds of mixing a number.
fn compute(rounds: u64) -> u64 {
    let mut number = std::hint::black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..rounds {
        number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    std::hint::black_box(number);
    rounds
}

/// Makes the files, computing before each, and writes down afterwards when there were how many.
fn paced(files: u64, rounds: u64, log: &str, mut make: impl FnMut(u64) -> Result<(), String>) -> Result<u64, String> {
    let mut made = Vec::with_capacity((files / NOTE_EVERY) as usize + 2);
    for n in 0..files {
        if n.is_multiple_of(NOTE_EVERY) {
            made.push((clock(), n));
        }
        compute(rounds);
        make(n)?;
    }
    made.push((clock(), files));
    write(log, &made)?;
    Ok(files)
}

fn write(log: &str, lines: &[(f64, u64)]) -> Result<u64, String> {
    let file = std::fs::File::create(log).map_err(|error| error.to_string())?;
    let mut file = std::io::BufWriter::new(file);
    for (time, count) in lines {
        writeln!(file, "{time:.9} {count}").map_err(|error| error.to_string())?;
    }
    file.flush().map_err(|error| error.to_string())?;
    Ok(lines.len() as u64)
}

fn size(client: &Client, cred: &Arc<Cred>, dir: Ino) -> Result<u64, String> {
    let done = client.call(cred, Call::GetAttr { ino: dir }).map_err(|failed| text(failed.error))?;
    done.attr().map(|attr| attr.size).ok_or_else(|| "an answer without attributes".into())
}

/// Decouples a directory for this client as a mount does: whatever it is asked there it answers by itself, and merges at the interval of the policy
/// (0: never) while the work goes on.
fn own(worker: &mut Worker, path: &str, inos: u64, interval_ms: u64) -> Result<u64, String> {
    let dir = worker.dir(path)?;
    let mut policy = format!("pipeline = \"append_client_journal + volatile_apply\"\nallocated_inodes = {inos}\n");
    if interval_ms > 0 {
        policy.push_str(&format!("sync_interval = \"{interval_ms}ms\"\n"));
    }
    let value = format!("decouple 1\n{policy}").into_bytes().into();
    let set = Op::SetXattr { ino: dir, name: ATTRIBUTE.into(), value, mode: XattrMode::Set };
    worker.client.call(&worker.cred, Call::Op(set)).map_err(|failed| text(failed.error))?;
    loop {
        let told = told(worker, dir)?;
        match told.lines().find_map(|line| line.strip_prefix("command 1 ")) {
            Some(state) if state.starts_with("done") => return Ok(1),
            Some(state) if state.starts_with("failed") => return Err(format!("{path}: {state}")),
            _ => std::thread::yield_now(),
        }
    }
}

/// The client's state of a subtree of its own.
fn told(worker: &Worker, dir: Ino) -> Result<String, String> {
    let get = Op::GetXattr { ino: dir, name: ATTRIBUTE.into() };
    match worker.client.call(&worker.cred, Call::Op(get)).map_err(|failed| text(failed.error))?.answer {
        Answer::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Err("an answer without bytes".into()),
    }
}

fn status(worker: &Worker, path: &str, key: &str) -> Result<u64, String> {
    let told = told(worker, worker.dir(path)?)?;
    let line = told.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    number(line.ok_or_else(|| format!("{path}: nothing is said of {key}"))?)
}
