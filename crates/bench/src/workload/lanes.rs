//! A thread for each lane, from the first call to the last. Not where they wait (`gate.rs`), nor how a call is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loligo_workload::{Call, Item, Lane, Rng, Workload};

use super::gate::{Come, Gate};
use super::tally::Tally;
use super::{Config, Place, Shell};

/// Interval at which their progress is looked at.
const LOOK: Duration = Duration::from_millis(40);
/// Stack of a lane: small, because there may be many of them.
const STACK_BYTES: usize = 512 << 10;

/// Results of all lanes.
pub struct Ran {
    /// From the beginning to the end of the last lane.
    pub took: Duration,
    /// For each client how many calls it made, and when its last lane ended.
    pub clients: Vec<(u64, Duration)>,
    /// Lanes over all clients.
    pub lanes: usize,
    /// All lanes came to their ends by themselves.
    pub complete: bool,
    /// Phases: one before the first mark, and one for each mark.
    pub phases: Vec<Phase>,
    /// Calls, if they were to be recorded: when, by which client; ordered within each lane.
    pub did: Vec<(Duration, usize, Call)>,
}

/// Between two marks that all lanes have come to.
pub struct Phase {
    /// Its name; none before the first mark.
    pub name: Option<Arc<str>>,
    /// When it began.
    pub at: Duration,
    /// When all had come to the next mark, or to the end.
    pub until: Duration,
    /// Its counters.
    pub tally: Tally,
}

/// Results of a lane.
struct Share {
    client: usize,
    /// By phase.
    tallies: Vec<Tally>,
    ended: Duration,
    did: Vec<(Duration, usize, Call)>,
    /// It came to its end by itself.
    complete: bool,
}

/// One lane at work.
struct Worker<'a> {
    client: usize,
    shell: Box<dyn Shell>,
    gate: &'a Gate,
    over: &'a AtomicBool,
    calls: &'a AtomicU64,
    think_us: u64,
    rng: Rng,
    record: bool,
}

/// Says that a lane has ended, whatever ended it: the others would wait for it at the next mark.
struct Ends<'a>(&'a Gate);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Observer of running lanes.
pub trait Look {
    /// So many calls were made so far.
    fn progress(&mut self, calls: u64);
    /// All lanes wait at a mark.
    fn mark(&mut self);
}

/// Runs all lanes of a workload.
pub fn run(config: &Config, workload: Workload, place: &dyn Place, look: &mut dyn Look) -> Result<Ran, String> {
    let clients = workload.clients.len();
    let mut jobs: Vec<(usize, Lane, Box<dyn Shell>)> = Vec::new();
    for (client, lanes) in workload.clients.into_iter().enumerate() {
        jobs.extend(lanes.into_iter().map(|lane| (client, lane, place.shell(client))));
    }
    let lanes = jobs.len();
    let (gate, over, calls) = (Gate::new(lanes), AtomicBool::new(false), AtomicU64::new(0));
    let (gate, over, calls) = (&gate, &over, &calls);
    let mut rng = Rng::new(config.seed, 0xC11E);
    let mut phases = vec![Phase::begin(None, Duration::ZERO)];
    let shares: Result<Vec<Share>, String> = thread::scope(|scope| {
        let mut handles = Vec::new();
        for (client, lane, shell) in jobs {
            let own = Rng::new(rng.draw(), client as u64);
            let (think_us, record) = (workload.think_us, config.record);
            let worker = Worker { client, shell, gate, over, calls, think_us, rng: own, record };
            let ends = Ends(gate);
            let body = move || {
                let _ends = ends;
                worker.run(lane)
            };
            match thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    over.store(true, Ordering::Relaxed);
                    gate.close();
                    return Err(format!("lane {} of {lanes}: no thread for it: {error}", handles.len()));
                }
            }
        }
        loop {
            match gate.come(LOOK) {
                Come::End => break,
                Come::Mark(at) => {
                    phases.last_mut().expect("one has begun").until = at;
                    look.mark();
                    let (at, name) = gate.open();
                    phases.push(Phase::begin(Some(name), at));
                }
                Come::Nowhere => {}
            }
            look.progress(calls.load(Ordering::Relaxed));
            if config.limit.is_some_and(|limit| gate.began().elapsed() >= limit) {
                over.store(true, Ordering::Relaxed);
                gate.close();
            }
        }
        handles.into_iter().map(|handle| handle.join().map_err(|_| "a lane panicked".to_string())).collect()
    });
    let mut ran = Ran {
        took: Duration::ZERO,
        clients: vec![(0, Duration::ZERO); clients],
        lanes,
        complete: true,
        phases,
        did: Vec::new(),
    };
    for mut share in shares? {
        let of_it = &mut ran.clients[share.client];
        let calls: u64 = share.tallies.iter().map(Tally::calls).sum();
        *of_it = (of_it.0 + calls, of_it.1.max(share.ended));
        ran.took = ran.took.max(share.ended);
        ran.did.append(&mut share.did);
        ran.complete &= share.complete;
        for (phase, tally) in ran.phases.iter_mut().zip(share.tallies) {
            phase.tally.add(tally);
        }
    }
    ran.phases.last_mut().expect("there is one").until = ran.took;
    Ok(ran)
}

impl Phase {
    fn begin(name: Option<Arc<str>>, at: Duration) -> Phase {
        Phase { name, at, until: at, tally: Tally::default() }
    }
}

impl Worker<'_> {
    fn run(mut self, lane: Lane) -> Share {
        let mut share = Share {
            client: self.client,
            tallies: vec![Tally::default()],
            ended: Duration::ZERO,
            did: Vec::new(),
            complete: true,
        };
        for item in lane {
            let goes_on = match item {
                Item::Call(call) => self.one(call, &mut share),
                Item::Until(us) => self.gate.rest(self.gate.began() + Duration::from_micros(us)),
                Item::Mark(name) => {
                    let passed = self.gate.mark(name);
                    // Each lane passes all marks that there are as long as it goes on.
                    share.tallies.push(Tally::default());
                    passed
                }
            };
            if !goes_on {
                share.complete = false;
                break;
            }
        }
        share.ended = self.gate.began().elapsed();
        share
    }

    fn one(&mut self, call: Call, share: &mut Share) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return false;
        }
        let begun = Instant::now();
        let result = self.shell.call(&call);
        share.tallies.last_mut().expect("there is one").note(&call, begun.elapsed(), result);
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.record {
            share.did.push((begun.saturating_duration_since(self.gate.began()), self.client, call));
        }
        match self.think_us {
            0 => true,
            // So that lanes do not keep in step.
            think => {
                self.gate.rest(Instant::now() + Duration::from_micros(think / 2 + self.rng.below(think)));
                true
            }
        }
    }
}
