//! The shapes over a mount (or any directory): one process a client, plain system calls.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::result::{Measured, histogram};
use crate::shape::{Phase, Stock, dir_name, shuffled};
use crate::{Config, cpu};

/// Results of one client process.
#[derive(Default)]
struct Report {
    ops: u64,
    errors: u64,
    cpu_ns: u64,
    latencies_ns: Vec<u64>,
}

/// The directories that clients work in.
pub fn prepare(root: &Path, config: &Config) -> io::Result<Vec<PathBuf>> {
    let dirs: Vec<_> = (0..config.clients)
        .map(|c| root.join(if config.shared { "shared".into() } else { format!("own.{c:03}") }))
        .collect();
    for dir in &dirs {
        fs::create_dir_all(dir)?;
    }
    Ok(dirs)
}

/// Runs one phase with a process for each client; they start together.
pub fn run_phase(dirs: &[PathBuf], config: &Config, phase: Phase, stock: Stock) -> io::Result<Measured> {
    let (gate_read, gate_write) = rustix::pipe::pipe()?;
    let mut gate_write = Some(gate_write);
    let mut children = Vec::new();
    for (client, dir) in dirs.iter().enumerate() {
        let (from, to) = rustix::pipe::pipe()?;
        // SAFETY: this process has one thread while it measures over a mount, so the child may do anything.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                drop(gate_write.take());
                let code = child(gate_read.as_fd().try_clone_to_owned(), to, dir, client, config, phase, stock);
                // SAFETY: ends the child without running the parent's destructors.
                unsafe { libc::_exit(code) }
            }
            pid => children.push((pid, File::from(from))),
        }
    }
    let server_before = config.server_cpu();
    let start = Instant::now();
    drop(gate_write);
    let mut sum = Report::default();
    let mut wall_s = 0.0f64;
    for (pid, mut pipe) in children {
        let report = Report::read(&mut pipe);
        wall_s = wall_s.max(start.elapsed().as_secs_f64());
        let mut status = 0;
        // SAFETY: waits for a child that was forked above.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        sum.add(report.map_err(|e| io::Error::other(format!("a benchmark process failed (status {status}): {e}")))?);
    }
    let server_cpu_s = config.server_cpu().zip(server_before).map(|(after, before)| after - before);
    let mut latencies = histogram();
    for ns in &sum.latencies_ns {
        latencies.saturating_record(*ns);
    }
    Ok(Measured {
        wall_s,
        server_cpu_s,
        rank_cpu_s: Vec::new(),
        client_cpu_s: sum.cpu_ns as f64 / 1e9,
        latencies,
        ops: sum.ops,
        errors: sum.errors,
    })
}

fn child(
    gate: io::Result<OwnedFd>,
    to: OwnedFd,
    dir: &Path,
    client: usize,
    config: &Config,
    phase: Phase,
    stock: Stock,
) -> i32 {
    let mut to = File::from(to);
    let Ok(gate) = gate else { return 1 };
    let mut byte = [0];
    // Returns when the parent closes its end.
    let _ = File::from(gate).read(&mut byte);
    let before = cpu::own();
    let mut report = work(dir, client, config, phase, stock);
    report.cpu_ns = ((cpu::own() - before) * 1e9) as u64;
    i32::from(report.write(&mut to).is_err())
}

fn work(dir: &Path, client: usize, config: &Config, phase: Phase, stock: Stock) -> Report {
    let mut report = Report::default();
    let n = config.files;
    let data = vec![b'x'; config.small_bytes];
    let mut buffer = vec![0u8; config.small_bytes];
    let file = |i: usize| dir.join(stock.file(client, i));
    let sub = |i: usize| dir.join(dir_name(client, i));
    match phase {
        Phase::Create => (0..n).for_each(|i| {
            let path = file(i);
            report.one(|| OpenOptions::new().write(true).create_new(true).open(&path).map(drop))
        }),
        Phase::Stat => shuffled(n).for_each(|i| {
            let path = file(i);
            report.one(|| fs::symlink_metadata(&path).map(drop))
        }),
        Phase::Readdir => list(dir, &mut report),
        Phase::Rename => (0..n).for_each(|i| {
            let (old, new) = (file(i), dir.join(stock.after(Phase::Rename).file(client, i)));
            report.one(|| fs::rename(&old, &new))
        }),
        Phase::Unlink => (0..n).for_each(|i| {
            let path = file(i);
            report.one(|| fs::remove_file(&path))
        }),
        Phase::Mkdir => (0..n).for_each(|i| {
            let path = sub(i);
            report.one(|| fs::create_dir(&path))
        }),
        Phase::Rmdir => (0..n).for_each(|i| {
            let path = sub(i);
            report.one(|| fs::remove_dir(&path))
        }),
        Phase::Smallwrite => (0..n).for_each(|i| {
            let path = file(i);
            report.one(|| OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(&data))
        }),
        Phase::Smallread => shuffled(n).for_each(|i| {
            let path = file(i);
            report.one(|| File::open(&path)?.read_exact(&mut buffer))
        }),
    }
    report
}

/// Reads a directory with the attributes of each entry; one latency a directory.
fn list(dir: &Path, report: &mut Report) {
    let start = Instant::now();
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                match entry.and_then(|e| e.metadata()) {
                    Ok(_) => report.ops += 1,
                    Err(_) => report.errors += 1,
                }
            }
        }
        Err(_) => report.errors += 1,
    }
    report.latencies_ns.push(start.elapsed().as_nanos() as u64);
}

impl Report {
    fn one(&mut self, op: impl FnOnce() -> io::Result<()>) {
        let start = Instant::now();
        match op() {
            Ok(()) => self.ops += 1,
            Err(_) => self.errors += 1,
        }
        self.latencies_ns.push(start.elapsed().as_nanos() as u64);
    }

    fn add(&mut self, other: Report) {
        self.ops += other.ops;
        self.errors += other.errors;
        self.cpu_ns += other.cpu_ns;
        self.latencies_ns.extend(other.latencies_ns);
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let head = [self.ops, self.errors, self.cpu_ns, self.latencies_ns.len() as u64];
        let bytes: Vec<u8> = head.iter().chain(&self.latencies_ns).flat_map(|n| n.to_le_bytes()).collect();
        to.write_all(&bytes)
    }

    fn read(from: &mut impl Read) -> io::Result<Report> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let mut numbers = bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("chunks of eight")));
        let mut next = || numbers.next().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof));
        let (ops, errors, cpu_ns, count) = (next()?, next()?, next()?, next()?);
        let latencies_ns: Vec<_> = numbers.collect();
        if latencies_ns.len() as u64 != count {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Report { ops, errors, cpu_ns, latencies_ns })
    }
}
