//! `kill -9` of the server in a loop under load, with workers that know every acknowledged change and every synced byte.
//!
//! Through the client library, and through a mount in a process of its own, a crash of the server is a pause: every call
//! succeeds in the end, exactly once; where directories move meanwhile a sync may tell of a loss. Where server and mount are one process, calls under way fail, and each may or may
//! not have happened; all acknowledged before must be there.
//!
//! `LOLIGO_CRASHES` sets how many times each is killed (default 5).

mod target;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use loligo_e2e::{PATIENCE, Scratch, eventually, within};
use loligo_types::Random;

use target::{Library, Mounted, Target};
use worker::{Allowed, Worker};

const WORKERS: usize = 4;
/// The workers' directories.
const DIRS: [&str; WORKERS] = ["/w0", "/w1", "/w2", "/w3"];

fn crashes() -> u64 {
    std::env::var("LOLIGO_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

/// Workers at work.
struct Load<T> {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Worker<T>>>,
}

impl<T: Target> Load<T> {
    fn start(workers: Vec<Worker<T>>) -> Load<T> {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let run = |mut worker: Worker<T>| {
            let (stop, acknowledged) = (stop.clone(), acknowledged.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && worker.step() {
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                worker
            })
        };
        let threads = workers.into_iter().map(run).collect();
        Load { stop, acknowledged, threads }
    }

    /// Waits until some more work was done.
    fn progress(&self, steps: u64) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + steps;
        eventually("work goes on", || {
            self.acknowledged.load(Ordering::Relaxed) >= goal || self.threads.iter().any(JoinHandle::is_finished)
        });
    }

    fn stop(self) -> Vec<Worker<T>> {
        self.stop.store(true, Ordering::Relaxed);
        within(PATIENCE, "the workers' last steps", move || {
            self.threads.into_iter().map(|t| t.join().expect("no worker found anything wrong")).collect()
        })
    }
}

fn workers<T: Target>(target: &T, allowed: Allowed) -> Vec<Worker<T>> {
    (0..WORKERS).map(|i| Worker::new(target.clone(), i, allowed)).collect()
}

/// Kills the server again and again under clients that live on.
fn survive<T: Target>(scratch: &Scratch, mut server: loligo_e2e::Process, target: &T) -> loligo_e2e::Process {
    let servers: Vec<_> = (0..crashes()).map(|_| scratch.prepare_server()).collect();
    let allowed = if scratch.ranks() > 1 { Allowed::ToldLosses(crashes()) } else { Allowed::Nothing };
    let load = Load::start(workers(target, allowed));
    let mut dice = Random::new(u64::from(std::process::id()));
    for next in servers {
        load.progress(20);
        std::thread::sleep(Duration::from_millis(dice.below(500)));
        server.kill();
        server = next.start();
    }
    load.progress(20);
    let mut left = load.stop();
    left.iter_mut().for_each(Worker::verify);
    // Not from anybody's cache.
    server.kill();
    server = scratch.serve();
    let fresh = Library::connect(scratch);
    for worker in left {
        worker.moved_to(fresh.clone()).verify();
    }
    server
}

#[test]
fn a_program_with_the_client_library_sees_a_crash_as_a_pause() {
    let Some(scratch) = Scratch::new("crash-lib") else { return };
    let server = scratch.serve();
    let target = Library::connect(&scratch);
    let server = survive(&scratch, server, &target);
    drop(target);
    server.stop();
}

#[test]
fn a_mount_in_its_own_process_sees_a_crash_as_a_pause() {
    let Some(scratch) = Scratch::new("crash-mount") else { return };
    let server = scratch.serve();
    let mount = scratch.mount("m");
    let server = survive(&scratch, server, &Mounted { root: mount.path().to_owned() });
    mount.stop();
    server.stop();
}

#[test]
fn several_ranks_keep_what_they_acknowledged_while_directories_move() {
    let Some(scratch) = Scratch::new("crash-ranks") else { return };
    let scratch = scratch.with_ranks(4);
    let server = scratch.serve();
    let mount = scratch.mount("m");
    let thrasher = scratch.thrash(&DIRS);
    let server = survive(&scratch, server, &Mounted { root: mount.path().to_owned() });
    drop(thrasher);
    mount.stop();
    server.stop();
}

#[test]
fn a_program_with_the_client_library_follows_directories_that_move_through_crashes() {
    let Some(scratch) = Scratch::new("crash-ranks-lib") else { return };
    let scratch = scratch.with_ranks(3);
    let server = scratch.serve();
    let target = Library::connect(&scratch);
    let thrasher = scratch.thrash(&DIRS);
    let server = survive(&scratch, server, &target);
    drop((thrasher, target));
    server.stop();
}

#[test]
fn server_and_mount_in_one_process_keep_what_they_acknowledged() {
    let Some(scratch) = Scratch::new("crash-up") else { return };
    let mut up = scratch.up("m");
    let root: PathBuf = up.path().to_owned();
    let mut all = workers(&Mounted { root }, Allowed::Failures);
    let mut dice = Random::new(u64::from(std::process::id()) + 1);
    for _ in 0..crashes() {
        let load = Load::start(all);
        load.progress(40);
        std::thread::sleep(Duration::from_millis(dice.below(500)));
        up.kill();
        all = load.stop();
        up = scratch.up("m");
        all = within(PATIENCE, "verifying", move || {
            all.iter_mut().for_each(Worker::verify);
            all
        });
    }
    drop(all);
    up.stop();
}
