//! Workloads of `loligo_workload` carried out for real: natively, by clients of a server, or with system calls below a directory of
//! any mounted file system. Everything is made below one new directory, and removed at the end.
//!
//! What lanes, marks and rests mean is as in the simulation (`loligo-lab`): each lane is a thread that makes its calls one after the
//! other; the lanes of a client share its session and what it caches.
//!
//! Not here: which calls are made (`loligo_workload`), and servers or mounts, which are given.
//!
//! | file | what |
//! |---|---|
//! | `lanes.rs` | the threads, one a lane |
//! | `gate.rs` | where lanes wait for each other, and are told to end |
//! | `native.rs` | calls through the client library, as a kernel turns them into requests |
//! | `by_path.rs` | calls through the client library's path functions, with nothing cached |
//! | `names.rs` | what a client has cached of names and attributes |
//! | `mounted.rs` | calls as system calls |
//! | `tally.rs` | what is counted while they run |
//! | `served.rs` | requests that ranks answered |
//! | `result.rs` | what came of it, as text and as JSON |

mod by_path;
mod gate;
mod lanes;
mod mounted;
mod names;
mod native;
mod result;
mod served;
mod tally;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use loligo_driver::client::{Client, Options};
use loligo_workload::{Call, Item, Workload, trace};

use crate::cpu;

pub use self::result::{ClientResult, KindResult, PhaseResult, WorkloadResult};
pub use self::served::{Requests, Served};

/// Most lanes of a workload: each is a thread.
pub const LANES_MAX: usize = 2048;

/// The xattr that says how directories are placed.
const PLACEMENT: &str = "loligo.policy.placement";

/// Settings of a run.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The workload as text, for the result.
    pub text: String,
    /// Seed of randomness: rests between calls.
    pub seed: u64,
    /// Longest that the clients may take, the set-up not counted; then they end with the calls that they are making.
    pub limit: Option<Duration>,
    /// Processes whose CPU counts as the server's.
    pub server_pids: Vec<u32>,
    /// Name of the new directory.
    pub name: String,
    /// Value of the new directory's xattr `loligo.policy.placement`: how directories below it are placed; none: as by default.
    pub placement: Option<String>,
    /// Leave what was made.
    pub keep: bool,
    /// Write down what is done, and when.
    pub record: bool,
}

/// Where to run.
pub enum Target<'a> {
    /// A server; called once for each client, with the options that it is to have.
    Native(&'a dyn Fn(Options) -> Result<Client, String>),
    /// The same, by paths, with clients that cache nothing.
    ByPath(&'a dyn Fn(Options) -> Result<Client, String>),
    /// Below a directory.
    Mounted(PathBuf),
}

/// A server's own counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Sessions that are connected, over all ranks.
    pub sessions: Option<u64>,
    /// Requests sent on to other ranks so far.
    pub redirects: Option<u64>,
    /// Leases asked back so far.
    pub recalls: Option<u64>,
    /// Requests answered so far; empty if it does not tell.
    pub requests: Requests,
}

/// Observer of a run.
pub struct Watch<'a> {
    /// Told now and then what is being done, and how many calls were made.
    pub progress: &'a mut dyn FnMut(&'static str, u64),
    /// Asks the server about itself, while its clients are connected.
    pub ask: &'a mut dyn FnMut() -> Told,
}

/// A call that did not go well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    /// There is nothing with that name.
    pub missing: bool,
    /// Why.
    pub text: String,
}

/// Makes calls, one after the other.
pub(crate) trait Shell: Send {
    fn call(&mut self, call: &Call) -> Result<(), Wrong>;
}

/// Where calls are made, with the one new directory.
trait Place {
    /// Something that makes calls for a client: 0 to the number of clients, which itself is who makes the set-up.
    fn shell(&self, client: usize) -> Box<dyn Shell>;
    /// Sets an xattr of the directory.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String>;
    /// Removes the directory with all that is in it.
    fn remove(&mut self) -> Result<(), String>;
    /// Ends the clients.
    fn stop(&mut self) -> Result<(), String>;
}

/// Runs it; the result, and the trace if one was to be written. Calls that fail are counted; an error is what keeps it from being run.
pub fn run(
    config: &Config,
    workload: Workload,
    target: Target<'_>,
    watch: &mut Watch<'_>,
) -> Result<(WorkloadResult, Option<String>), String> {
    check(&workload)?;
    let is_native = matches!(target, Target::Native(_) | Target::ByPath(_));
    let mut place: Box<dyn Place> = match target {
        Target::Native(connect) => Box::new(native::Servers::start(connect, &config.name, workload.clients.len())?),
        Target::ByPath(connect) => Box::new(by_path::Libraries::start(connect, &config.name, workload.clients.len())?),
        Target::Mounted(dir) => Box::new(mounted::Directory::make(&dir, &config.name)?),
    };
    let placed = config.placement.as_deref().map_or(Ok(()), |how| place.set(PLACEMENT, how));
    let done = placed.and_then(|()| measure(config, workload, place.as_ref(), is_native, watch));
    let removed = if config.keep {
        Ok(())
    } else {
        (watch.progress)("cleaning up", 0);
        place.remove()
    };
    let stopped = place.stop();
    let done = done?;
    removed.and(stopped)?;
    Ok(done)
}

/// Checks that it can be run for real.
pub fn check(workload: &Workload) -> Result<(), String> {
    let lanes: usize = workload.clients.iter().map(Vec::len).sum();
    if lanes == 0 {
        return Err("there is no client in it: nothing would be measured".into());
    }
    if lanes > LANES_MAX {
        return Err(format!("{lanes} lanes, each of them a thread: at most {LANES_MAX} can be run for real"));
    }
    Ok(())
}

fn measure(
    config: &Config,
    workload: Workload,
    place: &dyn Place,
    is_native: bool,
    watch: &mut Watch<'_>,
) -> Result<(WorkloadResult, Option<String>), String> {
    let mut text = if config.record { format!("# {}\n", config.text) } else { String::new() };
    let setup_began = Instant::now();
    let mut shell = place.shell(workload.clients.len());
    for (number, call) in workload.setup.iter().enumerate() {
        (watch.progress)("setting up", number as u64);
        let wrong = |wrong: Wrong| format!("set-up: {} {}: {}", call.name(), call.path(), wrong.text);
        shell.call(call).map_err(wrong)?;
        if config.record {
            text.push_str(&trace::line(0, None, call));
        }
    }
    drop(shell);
    let setup_s = setup_began.elapsed().as_secs_f64();
    let mut looks = Looks { config, watch, seen: Vec::new() };
    looks.look();
    let ran = lanes::run(config, workload, place, &mut looks)?;
    looks.look();
    let result = WorkloadResult::new(config, is_native, &ran, setup_s, &looks.seen);
    Ok((result, config.record.then(|| text + &written(ran))))
}

/// Counters of both sides at a moment.
struct Seen {
    /// CPU seconds of the server so far, if it is known.
    server_cpu_s: Option<f64>,
    /// Of this process.
    client_cpu_s: f64,
    told: Told,
}

/// Looks before the first phase, between phases, and after the last one.
struct Looks<'a, 'w> {
    config: &'a Config,
    watch: &'a mut Watch<'w>,
    seen: Vec<Seen>,
}

impl Looks<'_, '_> {
    fn look(&mut self) {
        let pids = &self.config.server_pids;
        let server_cpu = pids.iter().map(|pid| cpu::of_process(*pid)).sum::<Option<f64>>();
        let client_cpu_s = cpu::own();
        let told = (self.watch.ask)();
        self.seen.push(Seen { server_cpu_s: server_cpu.filter(|_| !pids.is_empty()), client_cpu_s, told });
    }
}

impl lanes::Look for Looks<'_, '_> {
    fn progress(&mut self, calls: u64) {
        (self.watch.progress)("measuring", calls);
    }

    fn mark(&mut self) {
        self.look();
    }
}

/// Calls of the clients, in the order in which they began.
fn written(ran: lanes::Ran) -> String {
    let marks = ran.phases.into_iter().filter_map(|phase| Some((phase.at, None, Item::Mark(phase.name?))));
    let calls = ran.did.into_iter().map(|(at, client, call)| (at, Some(client), Item::Call(call)));
    let mut all: Vec<(Duration, Option<usize>, Item)> = marks.chain(calls).collect();
    // It is stable: a mark stays before the calls of the same moment, and calls of a lane keep their order.
    all.sort_by_key(|(at, ..)| *at);
    let line = |(at, client, item): (Duration, Option<usize>, Item)| match item {
        Item::Call(call) => trace::line(at.as_micros() as u64, client, &call),
        Item::Mark(name) => trace::mark(at.as_micros() as u64, &name),
        Item::Until(_) => String::new(),
    };
    all.into_iter().map(line).collect()
}
