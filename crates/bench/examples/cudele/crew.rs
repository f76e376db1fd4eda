//! A server and its clients for one measurement, each a process, and what they cost. A server is new each time, as are its files; it is killed at the
//! end, and its directory removed. Not what is measured.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use loligo_bench::cpu;

/// Time limit for a server to come up.
const COMES_UP: Duration = Duration::from_secs(120);

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Journal {
    /// As `loligo serve` is.
    On,
    /// Records of the journal are dropped.
    Off,
}

/// The programs and places of a run.
#[derive(Clone, Debug)]
pub struct Place {
    /// `loligo`.
    pub loligo: PathBuf,
    /// The server without a journal.
    pub unjournaled: PathBuf,
    /// Where everything is made: on the disk that is measured.
    pub dir: PathBuf,
}

/// One step of one client.
#[derive(Clone, Debug)]
pub struct Did {
    pub begin: f64,
    pub end: f64,
    pub cpu: f64,
    pub count: u64,
}

impl Did {
    pub fn seconds(&self) -> f64 {
        self.end - self.begin
    }
}

/// Work of all clients.
#[derive(Clone, Debug)]
pub struct Job {
    /// From the first that began to the last that ended.
    pub seconds: f64,
    /// Of each client, in the order of the lines.
    pub by: Vec<Vec<Did>>,
    /// Seconds of the rank's thread.
    pub rank: f64,
    /// Seconds of the whole server.
    pub server: f64,
}

impl Job {
    /// Seconds of one client from its first step to its last.
    pub fn seconds_of(&self, client: usize) -> f64 {
        let (Some(first), Some(last)) = (self.by[client].first(), self.by[client].last()) else { return 0.0 };
        last.end - first.begin
    }

    /// Seconds of the slowest of these clients.
    pub fn slowest(&self, clients: usize) -> f64 {
        (0..clients).map(|client| self.seconds_of(client)).fold(0.0, f64::max)
    }

    /// Seconds of the processors of these clients.
    pub fn cpu(&self, clients: usize) -> f64 {
        self.by.iter().take(clients).flatten().map(|did| did.cpu).sum()
    }
}

struct Member {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// A server and its clients.
pub struct Crew {
    server: Child,
    members: Vec<Member>,
    data: PathBuf,
}

/// A program that is killed when this one ends, however that is.
fn beneath(program: &Path) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.arg("beneath").arg(program);
    Ok(command)
}

impl Crew {
    /// A new file system, served, and so many clients that are connected.
    pub fn start(place: &Place, journal: Journal, clients: usize) -> Result<Crew, String> {
        let data = place.dir.join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        }
        let mut format = Command::new(&place.loligo);
        format.arg("format").arg("--data").arg(&data).stdout(Stdio::null());
        match format.status() {
            Ok(status) if status.success() => {}
            other => return Err(format!("{} format: {other:?}", place.loligo.display())),
        }
        // What was written before must not be written out while this is measured.
        rustix::fs::sync();
        let log = std::fs::File::create(place.dir.join("server.log")).map_err(|error| error.to_string())?;
        let mut command = match journal {
            Journal::On => {
                let mut command = beneath(&place.loligo)?;
                command.args(["serve", "--log", "warn", "--data"]).arg(&data);
                command
            }
            Journal::Off => {
                let mut command = beneath(&place.unjournaled)?;
                command.arg(&data);
                command
            }
        };
        let also = log.try_clone().map_err(|error| error.to_string())?;
        let server =
            command.stdin(Stdio::null()).stdout(log).stderr(also).spawn().map_err(|error| error.to_string())?;
        let mut crew = Crew { server, members: Vec::new(), data };
        crew.wait_for_socket(place)?;
        let address = format!("unix:{}", crew.data.join("loligo.sock").display());
        for _ in 0..clients {
            let own = std::env::current_exe().map_err(|error| error.to_string())?;
            let mut command = beneath(&own)?;
            command.arg("client").arg(&address).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(|error| error.to_string())?;
            let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
                return Err("a client without pipes".into());
            };
            crew.members.push(Member { child, to, from: BufReader::new(from) });
        }
        Ok(crew)
    }

    fn wait_for_socket(&mut self, place: &Place) -> Result<(), String> {
        let (socket, until) = (self.data.join("loligo.sock"), Instant::now() + COMES_UP);
        while UnixStream::connect(&socket).is_err() {
            let ended = self.server.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || Instant::now() > until {
                let log = std::fs::read_to_string(place.dir.join("server.log")).unwrap_or_default();
                return Err(format!("the server did not come up: {log}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Every client of these does its line, all at once: what that took.
    pub fn run(&mut self, lines: &[String]) -> Result<Job, String> {
        let pid = self.server.id();
        let rank = || cpu::of_threads(pid, "loligo-rank").iter().map(|(_, seconds)| seconds).sum::<f64>();
        let (rank_before, server_before) = (rank(), cpu::of_process(pid).unwrap_or_default());
        for (member, line) in self.members.iter_mut().zip(lines) {
            // With the end of the line in the same write: nothing is begun before it is whole.
            member
                .to
                .write_all(format!("{line}\n").as_bytes())
                .map_err(|error| format!("a client has gone: {error}"))?;
        }
        let mut answers = Vec::new();
        for member in self.members.iter_mut().take(lines.len()) {
            let mut answer = String::new();
            member.from.read_line(&mut answer).map_err(|error| error.to_string())?;
            answers.push(answer);
        }
        let (rank, server) = (rank() - rank_before, cpu::of_process(pid).unwrap_or_default() - server_before);
        let by: Vec<Vec<Did>> = answers.iter().map(|answer| did(answer)).collect::<Result<_, _>>()?;
        let begin = by.iter().flatten().map(|did| did.begin).fold(f64::INFINITY, f64::min);
        let end = by.iter().flatten().map(|did| did.end).fold(f64::NEG_INFINITY, f64::max);
        Ok(Job { seconds: (end - begin).max(0.0), by, rank, server })
    }

    /// The same line for each, with `{}` for its number.
    pub fn all(&mut self, clients: usize, line: &str) -> Result<Job, String> {
        let lines: Vec<String> = (0..clients).map(|client| line.replace("{}", &client.to_string())).collect();
        self.run(&lines)
    }

    /// One client alone.
    pub fn one(&mut self, client: usize, line: &str) -> Result<Job, String> {
        self.members.swap(0, client);
        let job = self.run(&[line.to_owned()]);
        self.members.swap(0, client);
        job
    }
}

fn did(answer: &str) -> Result<Vec<Did>, String> {
    let answer = answer.trim();
    let Some(steps) = answer.strip_prefix("ok") else {
        return Err(match answer.strip_prefix("error ") {
            Some(text) => text.to_owned(),
            None => "a client has ended; what it said is above".to_owned(),
        });
    };
    let one = |step: &str| -> Option<Did> {
        let mut words = step.split_whitespace();
        words.next()?;
        let mut next = || words.next()?.parse::<f64>().ok();
        Some(Did { begin: next()?, end: next()?, cpu: next()?, count: next()? as u64 })
    };
    let steps = steps.trim().split(';').filter(|step| !step.is_empty());
    steps.map(|step| one(step).ok_or(format!("not understood: {step}"))).collect()
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Nothing of this file system is wanted any more.
        let _ = self.server.kill();
        let _ = self.server.wait();
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
