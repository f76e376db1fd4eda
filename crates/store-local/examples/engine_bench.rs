//! Measures the store on this machine's disk: table batches and reads, object writes and reads beside
//! the same on a plain file. Numbers stand in `docs/decisions/engine.md`. Not a test.
//!
//! `cargo run --release -p loligo-store-local --example engine_bench -- DIR [ENTRIES [MIB]]`

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use loligo_store::{Backend, Batch, Blobs, Durability, ObjectId, Table};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const OBJECT: u64 = 4 << 20;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let dir =
        PathBuf::from(args.next().ok_or("name a directory to make and remove: engine_bench DIR [ENTRIES [MIB]]")?);
    let entries: u64 = args.next().map_or(Ok(2_000_000), |n| n.parse())?;
    let mib: u64 = args.next().map_or(Ok(1024), |n| n.parse())?;
    fs::create_dir(&dir)?;
    let data = dir.join("data");
    LocalStore::format(&data, &FormatOptions::default())?;
    table(&data, entries)?;
    objects(&dir, mib)?;
    fs::remove_dir_all(&dir)?;
    Ok(())
}

fn open(data: &Path) -> loligo_store::Result<LocalStore> {
    LocalStore::open(data, &OpenOptions::default())
}

/// A key like that of an inode record: spread, 9 bytes; its value has 100 bytes.
fn key(n: u64) -> Vec<u8> {
    [&[1][..], &loligo_types::hash::spread(n).to_be_bytes()].concat()
}

fn table(data: &Path, entries: u64) -> Outcome {
    let store = open(data)?;
    let table = store.table();
    let start = Start::now();
    for first in (0..entries).step_by(5_000) {
        let mut batch = Batch::new();
        for n in first..(first + 5_000).min(entries) {
            let mut value = [n as u8; 100];
            value[..8].copy_from_slice(&n.wrapping_mul(31).to_le_bytes());
            batch.put(key(n), value);
        }
        table.write(&batch, Durability::Sync)?;
    }
    rate("table write, batches of 5000, synced", entries, start);
    get(&*table, entries)?;
    drop((table, store));
    let start = Start::now();
    let store = open(data)?;
    duration("open after a kill, replaying", start);
    store.close()?;
    drop(store);
    let start = Start::now();
    let _store = open(data)?;
    duration("open after a clean stop", start);
    Ok(())
}

fn get(table: &dyn Table, entries: u64) -> Outcome {
    let reads = entries.min(200_000);
    let start = Start::now();
    for n in 0..reads {
        table.get(&key(n * 7919 % entries))?.ok_or("a key is missing")?;
    }
    rate("table get, random", reads, start);
    let start = Start::now();
    for first in (0..reads).step_by(100) {
        let keys: Vec<Vec<u8>> = (first..first + 100).map(|n| key(n * 7907 % entries)).collect();
        table.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    rate("table multi_get of 100, random", reads, start);
    let start = Start::now();
    let found = table.scan(&[1], &[2], reads as usize)?.len();
    rate("table scan", found as u64, start);
    Ok(())
}

fn objects(dir: &Path, mib: u64) -> Outcome {
    let store = open(&dir.join("data"))?;
    let blobs = store.blobs();
    let chunk = vec![7; 128 << 10];
    for round in 1..=2 {
        plain_file(dir, mib, &chunk)?;
        large_file(&*blobs, round, mib, &chunk)?;
    }
    let start = Start::now();
    for n in 0..20_000u64 {
        blobs.write_at(ObjectId::new(1000 + n, 0), 0, &chunk[..4096])?;
    }
    rate("new objects of 4 KiB", 20_000, start);
    let start = Start::now();
    for n in 0..50_000u64 {
        let at = loligo_types::hash::spread(n) % (mib << 20) / 4096 * 4096;
        blobs.write_at(ObjectId::new(1, at / OBJECT), at % OBJECT, &chunk[..4096])?;
    }
    rate("4 KiB written at random in the large file", 50_000, start);
    let start = Start::now();
    store.close()?;
    duration("clean stop after that", start);
    Ok(())
}

fn plain_file(dir: &Path, mib: u64, chunk: &[u8]) -> Outcome {
    let path = dir.join("plain");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    let start = Start::now();
    for at in (0..mib << 20).step_by(chunk.len()) {
        file.write_all_at(chunk, at)?;
    }
    throughput("plain file, write 128 KiB pieces", mib, start);
    file.sync_data()?;
    throughput("plain file, write and fdatasync", mib, start);
    let mut buf = vec![0; chunk.len()];
    let start = Start::now();
    for at in (0..mib << 20).step_by(chunk.len()) {
        file.read_exact_at(&mut buf, at)?;
    }
    throughput("plain file, read from the page cache", mib, start);
    fs::remove_file(path)?;
    Ok(())
}

fn large_file(blobs: &dyn Blobs, ino: u64, mib: u64, chunk: &[u8]) -> Outcome {
    let start = Start::now();
    for at in (0..mib << 20).step_by(chunk.len()) {
        blobs.write_at(ObjectId::new(ino, at / OBJECT), at % OBJECT, chunk)?;
    }
    throughput("objects, write 128 KiB pieces", mib, start);
    let all: Vec<u64> = (0..(mib << 20) / OBJECT).collect();
    blobs.sync_many(ino, &all)?;
    throughput("objects, write and sync", mib, start);
    let mut buf = vec![0; chunk.len()];
    let start = Start::now();
    for at in (0..mib << 20).step_by(chunk.len()) {
        blobs.read_at(ObjectId::new(ino, at / OBJECT), at % OBJECT, &mut buf)?;
    }
    throughput("objects, read verified from the page cache", mib, start);
    Ok(())
}

/// The time and the process's CPU time at the start of a measurement.
#[derive(Clone, Copy)]
struct Start {
    time: Instant,
    cpu: Duration,
}

impl Start {
    fn now() -> Self {
        Self { time: Instant::now(), cpu: cpu() }
    }

    /// Seconds of time and of CPU time since.
    fn elapsed(self) -> (f64, f64) {
        (self.time.elapsed().as_secs_f64(), (cpu() - self.cpu).as_secs_f64())
    }
}

/// CPU time of the whole process, RocksDB's threads included, the kernel's write-back not.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn rate(what: &str, count: u64, start: Start) {
    let (time, cpu) = start.elapsed();
    println!("{what:<44} {:>9.0} /s    {:>8.2} us CPU each", count as f64 / time, cpu * 1e6 / count as f64);
}

fn throughput(what: &str, mib: u64, start: Start) {
    let (time, cpu) = start.elapsed();
    println!("{what:<44} {:>9.0} MiB/s {:>8.2} us CPU a MiB", mib as f64 / time, cpu * 1e6 / mib as f64);
}

fn duration(what: &str, start: Start) {
    let (time, cpu) = start.elapsed();
    println!("{what:<44} {:>9.1} ms    {:>8.1} ms CPU", time * 1e3, cpu * 1e3);
}
