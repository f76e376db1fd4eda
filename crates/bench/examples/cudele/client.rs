//! A client: a process of its own with a connection and session of its own, which does what lines on its standard input say, one step after the
//! other, and answers each line with one. Not who says so (`crew.rs`).
//!
//! ```text
//! in:   STEP STEP ...         a step is NAME:ARGUMENT:...
//! out:  ok NAME BEGIN END CPU COUNT; NAME ...      seconds of the machine's monotonic clock; seconds of this process' processors
//!       error TEXT
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use loligo_bench::cpu;
use loligo_driver::Address;
use loligo_driver::client::{Call, CallResult, Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_types::{Cred, FsError, Ino, Interfere, Kind, MergeInto, Name, Op};

use crate::paced;

/// Operations of a file system that a figure needs.
pub struct Worker {
    pub client: Client,
    pub cred: Arc<Cred>,
    pub fs: Fs,
    pub subtree: Option<Subtree>,
    /// Directories by path.
    pub dirs: BTreeMap<String, Ino>,
    pub watch: Option<paced::Watch>,
}

/// Seconds of the machine's monotonic clock, the same in all its processes.
pub fn clock() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// The name of a file.
pub fn name(prefix: &str, n: u64) -> Name {
    Name::new(format!("{prefix}.{n:08}").as_bytes()).expect("names of the benchmark are valid")
}

/// The call that makes it.
pub fn create(dir: Ino, name: Name) -> Call {
    Call::Op(Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 })
}

/// Until its standard input ends.
pub fn run(address: &str) -> Result<(), String> {
    let address: Address = address.parse().map_err(|error| format!("{address}: {error}"))?;
    let options = Options { name: "cudele".into(), ..Options::default() };
    let client = Client::connect(&address, options).map_err(|error| error.to_string())?;
    let cred = Arc::new(Cred::root());
    let fs = client.fs(cred.clone());
    let mut worker = Worker { client, cred, fs, subtree: None, dirs: BTreeMap::new(), watch: None };
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let answer = match worker.line(&line) {
            Ok(answer) => format!("ok {answer}"),
            Err(text) => format!("error {}", text.replace('\n', " ")),
        };
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
    }
    // Nobody wants what is left: the server ends before this one.
    Ok(())
}

impl Worker {
    fn line(&mut self, line: &str) -> Result<String, String> {
        let mut answers = Vec::new();
        for step in line.split_whitespace() {
            let mut words = step.split(':');
            let what = words.next().unwrap_or_default();
            let rest: Vec<&str> = words.collect();
            let (begun, used) = (clock(), cpu::own());
            let count = self.step(what, &rest).map_err(|text| format!("{step}: {text}"))?;
            answers.push(format!("{what} {begun:.9} {:.9} {:.9} {count}", clock(), cpu::own() - used));
        }
        Ok(answers.join(";"))
    }

    fn step(&mut self, what: &str, rest: &[&str]) -> Result<u64, String> {
        match (what, rest) {
            ("mkdir", [path]) => {
                let made = self.fs.mkdir(path, 0o755).map_err(text)?;
                self.dirs.insert((*path).into(), made.ino);
                Ok(1)
            }
            ("look", [path]) => {
                let attr = self.fs.stat(path).map_err(text)?;
                self.dirs.insert((*path).into(), attr.ino);
                Ok(attr.size)
            }
            ("rpc", [path, files, in_flight]) => self.rpc(self.dir(path)?, number(files)?, number(in_flight)?),
            ("interfere", [files, expect, paths]) => self.interfere(number(files)?, expect, paths),
            ("decouple", [path, inos, how]) => {
                let interfere = if *how == "allow" { Interfere::Allow } else { Interfere::Block };
                let into = if *how == "table" { MergeInto::Table } else { MergeInto::Memory };
                let options =
                    SubtreeOptions { allocated_inodes: number(inos)?, interfere, into, ..SubtreeOptions::default() };
                self.subtree = Some(Subtree::decouple(&self.fs, path, &options).map_err(text)?);
                Ok(1)
            }
            ("append", [files, prefix]) => {
                let files = number(files)?;
                let own = self.own()?;
                let dir = own.root();
                for n in 0..files {
                    own.create_in(dir, name(prefix, n), 0o644).map_err(text)?;
                }
                Ok(files)
            }
            ("bytes", []) => Ok(self.own()?.outstanding().bytes),
            ("persist", [file]) => {
                self.own()?.persist(file).map_err(|error| error.to_string())?;
                Ok(1)
            }
            ("persist_global", []) => self.own()?.persist_global().map_err(text).map(|()| 1),
            ("merge", []) => self.own()?.merge().map_err(text).map(|merged| merged.records),
            ("recouple", []) => self.own()?.recouple().map_err(text).map(|()| 1),
            ("abandon", []) => self.own()?.abandon().map_err(text).map(|()| 1),
            _ => paced::step(self, what, rest),
        }
    }

    pub fn own(&mut self) -> Result<&mut Subtree, String> {
        self.subtree.as_mut().ok_or_else(|| "nothing is decoupled".into())
    }

    pub fn dir(&self, path: &str) -> Result<Ino, String> {
        self.dirs.get(path).copied().ok_or_else(|| format!("{path} was neither made nor looked at"))
    }

    /// Files made at the rank, so many requests at once.
    fn rpc(&mut self, dir: Ino, files: u64, in_flight: u64) -> Result<u64, String> {
        if in_flight < 2 {
            for n in 0..files {
                self.client.call(&self.cred, create(dir, name("file", n))).map_err(|failed| text(failed.error))?;
            }
            return Ok(files);
        }
        let (to, from) = channel::<CallResult>();
        let (mut sent, mut done) = (0, 0);
        while done < files {
            let mut batch = self.client.batch();
            while sent < files && sent - done < in_flight {
                let to = to.clone();
                // The receiver lives until every call was answered, or something failed.
                batch.add(&self.cred, create(dir, name("file", sent)), move |result| _ = to.send(result));
                sent += 1;
            }
            batch.send();
            for result in some(&from) {
                result.map_err(|failed| text(failed.error))?;
                done += 1;
            }
        }
        Ok(files)
    }

    /// Tries to make so many files in each of these directories, one after the other; all must end as expected.
    fn interfere(&mut self, files: u64, expect: &str, paths: &str) -> Result<u64, String> {
        let expected = if expect == "busy" { Err(FsError::Busy) } else { Ok(()) };
        let mut tried = 0;
        for path in paths.split(',') {
            let dir = self.dir(path)?;
            for n in 0..files {
                let result = self.client.call(&self.cred, create(dir, name("other", n)));
                let result = result.map(drop).map_err(|failed| failed.error);
                if result != expected {
                    return Err(format!("{path}: {result:?} where {expected:?} was expected, after {tried}"));
                }
                tried += 1;
            }
        }
        Ok(tried)
    }
}

/// Waits for one, and takes what else is there.
fn some<T>(from: &Receiver<T>) -> Vec<T> {
    from.recv().ok().into_iter().chain(from.try_iter()).collect()
}

pub fn text(error: FsError) -> String {
    error.to_string()
}

pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}
