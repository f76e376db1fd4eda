//! Programs that know every operation that was acknowledged, and look whether all of it is there. Each has a directory of its own, so
//! that what must be in it is known exactly; and all of them make names in one, each of which only one may get.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_driver::Address;
use loligo_driver::client::path::OpenHow;
use loligo_types::FsError;

use crate::servers::connect;

/// History of one program.
pub struct Told {
    /// Its directories.
    dirs: [PathBuf; 2],
    /// Its files, and what is in them.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// Names that it got of those that all want.
    won: Vec<u64>,
    /// Time of the longest call.
    longest: Duration,
}

/// Programs under way.
pub struct Programs {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    turns: Arc<Vec<Turns>>,
    threads: Vec<JoinHandle<Told>>,
}

/// The turns of one program.
#[derive(Default)]
struct Turns {
    /// Number of turns that it has done.
    done: AtomicU64,
    /// Time of the longest turn since that was asked, microseconds.
    longest: AtomicU64,
}

impl Programs {
    /// Starts so many, each with a client of its own.
    pub fn start(address: &Address, count: usize) -> Programs {
        Programs::start_in(address, count, |_, _| {})
    }

    /// The same; `place` is told of each directory that was made, with the how manieth it is, before there is anything in it.
    pub fn start_in(address: &Address, count: usize, place: impl Fn(&str, usize)) -> Programs {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let fs = connect(address);
        let dirs = std::iter::once("/all".to_string()).chain((0..count).flat_map(dirs_of));
        for (number, dir) in dirs.enumerate() {
            fs.mkdir(&dir, 0o755).expect("a directory");
            place(&dir, number);
        }
        let turns: Arc<Vec<Turns>> = Arc::new((0..count).map(|_| Turns::default()).collect());
        let start = |number: usize| {
            let (address, stop, done, turns) = (address.clone(), stop.clone(), done.clone(), turns.clone());
            std::thread::spawn(move || program(&address, number, &stop, &done, &turns[number]))
        };
        let threads = (0..count).map(start).collect();
        Programs { stop, done, turns, threads }
    }

    /// Waits until each program has ended the turn that it is in, and one more; how long the longest took since this was asked before.
    pub fn longest_turn(&self) -> Duration {
        let counts = || self.turns.iter().map(|turns| turns.done.load(Ordering::Acquire));
        let from: Vec<u64> = counts().collect();
        let until = Instant::now() + crate::servers::PATIENCE;
        while counts().zip(&from).any(|(now, from)| now < from + 2) {
            assert!(Instant::now() < until, "a program is not answered any more");
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a program has failed");
            std::thread::sleep(Duration::from_millis(5));
        }
        let longest = self.turns.iter().map(|turns| turns.longest.swap(0, Ordering::AcqRel)).max();
        Duration::from_micros(longest.unwrap_or(0))
    }

    /// Waits until so many more operations were acknowledged.
    pub fn until_more(&self, count: u64) {
        let from = self.done.load(Ordering::Acquire);
        let until = Instant::now() + crate::servers::PATIENCE;
        while self.done.load(Ordering::Acquire) < from + count {
            assert!(Instant::now() < until, "nothing is answered any more");
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a program has failed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends them.
    pub fn end(self) -> Vec<Told> {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().map(|thread| thread.join().expect("a program failed")).collect()
    }
}

/// Most files that a program has at a time.
const FILES_MAX: usize = 5000;

fn dirs_of(program: usize) -> [String; 2] {
    [format!("/p{program}"), format!("/q{program}")]
}

fn program(address: &Address, number: usize, stop: &AtomicBool, done: &AtomicU64, turns: &Turns) -> Told {
    let fs = connect(address);
    let dirs = dirs_of(number).map(PathBuf::from);
    let [dir, other] = &dirs;
    let mut told = Told { dirs: dirs.clone(), files: BTreeMap::new(), won: Vec::new(), longest: Duration::ZERO };
    for turn in 0u64.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let begun = Instant::now();
        let (old, name) = (turn.checked_sub(1).map(|old| dir.join(format!("f{old}"))), dir.join(format!("f{turn}")));
        let content = format!("{number}.{turn} ").repeat(1 + (turn % 7) as usize * 400).into_bytes();
        // Each of these is done once, however often it was sent.
        let file = fs.open(&name, OpenHow { exclusive: true, ..OpenHow::create() }).expect("a new name");
        file.write_at(0, content.clone()).expect("there is space");
        if turn % 3 > 0 {
            file.sync().expect("there is space");
        }
        file.close().expect("it is open");
        told.files.insert(name, content);
        match (turn % 4, old) {
            (1, Some(old)) => {
                // Sometimes into another directory, which another rank may have.
                let to = if turn % 8 == 1 { dir } else { other }.join(format!("r{turn}"));
                fs.rename(&old, &to).expect("it is there");
                let content = told.files.remove(&old).expect("it was made");
                told.files.insert(to, content);
            }
            (2, Some(old)) => {
                fs.unlink(&old).expect("it is there");
                told.files.remove(&old);
            }
            _ => {}
        }
        // In an hour more would be made than the disks of a small cluster hold.
        let spare = told.files.keys().find(|file| !file.ends_with(format!("f{turn}"))).cloned();
        if let Some(spare) = spare.filter(|_| told.files.len() > FILES_MAX) {
            fs.unlink(&spare).expect("it is there");
            told.files.remove(&spare);
        }
        match fs.mkdir(format!("/all/{turn}"), 0o755) {
            Ok(_) => told.won.push(turn),
            Err(FsError::Exists) => {}
            Err(error) => panic!("/all/{turn}: {error}"),
        }
        let took = begun.elapsed();
        told.longest = told.longest.max(took);
        turns.longest.fetch_max(took.as_micros() as u64, Ordering::AcqRel);
        turns.done.fetch_add(1, Ordering::AcqRel);
        done.fetch_add(4, Ordering::AcqRel);
    }
    told
}

/// Looks whether all of it is there, by a client that knows nothing; how long the longest turn of a program took.
pub fn check(address: &Address, all: &[Told]) -> Duration {
    let fs = connect(address);
    for told in all {
        let mut names = Vec::new();
        for dir in &told.dirs {
            let entries = fs.readdir(dir).expect("the directory");
            let own = entries.iter().map(|entry| String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
            names.extend(own.filter(|name| name != "." && name != "..").map(|name| dir.join(name)));
        }
        names.sort_unstable();
        assert_eq!(names, told.files.keys().cloned().collect::<Vec<_>>(), "{:?}", told.dirs);
        for (name, content) in &told.files {
            let found = fs.read(name).expect("it is there");
            assert!(found == *content, "{} is not what was written", name.display());
        }
    }
    let mut won: Vec<u64> = all.iter().flat_map(|told| told.won.iter().copied()).collect();
    won.sort_unstable();
    let there = fs.readdir("/all").expect("the directory");
    let there = there.iter().filter(|entry| entry.name.as_bytes() != b"." && entry.name.as_bytes() != b"..").count();
    assert!(won.windows(2).all(|pair| pair[0] != pair[1]), "a name was given twice");
    assert_eq!(won.len(), there, "each name in /all was given to one program");
    all.iter().map(|told| told.longest).max().unwrap_or_default()
}
