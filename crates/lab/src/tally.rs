//! Counters of a run: calls as they are answered, and at each mark of the workload the work of the ranks by then. Not their evaluation for
//! readers (`report.rs`).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use loligo_types::FsError;

use crate::clients::Clients;
use crate::report::{KindTimes, Part, Second};
use crate::shell::Did;
use crate::world::{Counts, World};

/// Longest latency that is told apart from longer ones, microseconds, and nanoseconds.
const LATENCY_MAX_US: u64 = 600_000_000;
const LATENCY_MAX_NS: u64 = LATENCY_MAX_US * 1000;
/// Of all calls of a part: what comes after is its end, when fewer and fewer lanes work.
const MOST: f64 = 0.9;
/// Nanoseconds.
const SECOND: f64 = 1e9;

/// Work of a run.
pub(crate) struct Tally {
    /// Of all calls, microseconds.
    pub latencies: Histogram<u64>,
    /// By client.
    pub calls: Vec<u64>,
    /// Those that found nothing, and may.
    pub misses: u64,
    /// Those that failed otherwise.
    pub failed: u64,
    /// The first of them, and why.
    pub first_failure: Option<String>,
    /// Second by second.
    pub seconds: Vec<Second>,
    parts: Vec<PartTally>,
}

/// Work between two marks.
struct PartTally {
    name: String,
    began: Seen,
    /// None: it goes on.
    ended: Option<Seen>,
    /// When each call was answered, nanoseconds, in order.
    answered: Vec<u64>,
    /// Nanoseconds.
    kinds: BTreeMap<&'static str, Histogram<u64>>,
}

/// Work of the ranks by a moment.
struct Seen {
    at: u64,
    counts: Vec<Counts>,
    ops: Vec<BTreeMap<&'static str, u64>>,
    /// Over all ranks: replicas and names asked for, replicas asked back, ways parted.
    asks: u64,
    asked_back: u64,
    partings: u64,
}

impl Seen {
    fn now(world: &World) -> Seen {
        let (mut ops, mut sums) = (Vec::new(), (0, 0, 0));
        for rank in 0..world.ranks() {
            let status = world.status(rank);
            ops.push(status.ops.iter().map(|(name, op)| (*name, op.count)).collect());
            let paths = status.paths;
            sums = (sums.0 + paths.asks, sums.1 + paths.asked_back, sums.2 + paths.partings);
        }
        let (asks, asked_back, partings) = sums;
        Seen { at: world.now, counts: world.counts(), ops, asks, asked_back, partings }
    }
}

fn histogram(most: u64) -> Histogram<u64> {
    Histogram::new_with_bounds(1, most, 3).expect("these bounds are in order")
}

impl Tally {
    /// Nothing yet, of so many clients.
    pub fn new(clients: usize) -> Tally {
        Tally {
            latencies: histogram(LATENCY_MAX_US),
            calls: vec![0; clients],
            misses: 0,
            failed: 0,
            first_failure: None,
            seconds: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Clients begin with a phase.
    pub fn begin(&mut self, name: &str, world: &World) {
        self.end(world);
        self.parts.push(PartTally {
            name: name.to_owned(),
            began: Seen::now(world),
            ended: None,
            answered: Vec::new(),
            kinds: BTreeMap::new(),
        });
    }

    /// The last part is over.
    pub fn end(&mut self, world: &World) {
        if let Some(part) = self.parts.last_mut().filter(|part| part.ended.is_none()) {
            part.ended = Some(Seen::now(world));
        }
    }

    /// Something has happened: all lanes may have passed a mark.
    pub fn look(&mut self, clients: &Clients, world: &World) {
        while let Some((name, _)) = clients.phases.get(self.parts.len().saturating_sub(1)) {
            self.begin(&name.clone(), world);
        }
    }

    /// A call was answered. Those of the phase that has just begun come when it was looked for.
    pub fn note(&mut self, client: usize, did: Did, now: u64) {
        let Some(calls) = self.calls.get_mut(client) else { return };
        *calls += 1;
        self.latencies.saturating_record((did.took / 1000).max(1));
        if let Some(part) = self.parts.get_mut(did.marks) {
            part.answered.push(now);
            let kind = part.kinds.entry(did.call.name()).or_insert_with(|| histogram(LATENCY_MAX_NS));
            kind.saturating_record(did.took.max(1));
        }
        match did.result {
            Ok(_) => {}
            Err(FsError::NotFound) if did.call.may_miss() => self.misses += 1,
            Err(error) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| format!("{} {}: {error:?}", did.call.name(), did.call.path()));
            }
        }
    }

    /// Work of each phase that is over. `began`: start of the clients, nanoseconds.
    pub fn parts(&self, began: u64) -> Vec<Part> {
        self.parts.iter().filter_map(|part| Some(part.part(part.ended.as_ref()?, began))).collect()
    }
}

impl PartTally {
    fn part(&self, ended: &Seen, run_began: u64) -> Part {
        let began = &self.began;
        let of = |from: u64, to: u64| to.saturating_sub(from) as f64 / SECOND;
        let upto = |share: f64| {
            let calls = (self.answered.len() as f64 * share).ceil() as usize;
            let at = calls.checked_sub(1).and_then(|last| self.answered.get(last)).copied();
            (calls, of(began.at, at.unwrap_or(began.at)))
        };
        let (calls, length_s) = upto(1.0);
        let (most, most_s) = upto(MOST);
        let pairs = || ended.counts.iter().zip(&began.counts);
        let sum = |of: &dyn Fn(&Counts) -> u64| pairs().map(|(now, then)| of(now) - of(then)).sum::<u64>();
        let share = |of: &dyn Fn(&Counts) -> u64| -> Vec<f64> {
            let length = of_length(began.at, ended.at);
            pairs().map(|(now, then)| (of(now) - of(then)) as f64 / length).collect()
        };
        let busy = share(&|c| c.worked);
        let since = |rank: usize| -> BTreeMap<&'static str, u64> {
            let before = |name: &str| began.ops[rank].get(name).copied().unwrap_or(0);
            let since = ended.ops[rank].iter().map(|(name, count)| (*name, count - before(name)));
            since.filter(|(_, count)| *count > 0).collect()
        };
        let mut ops = BTreeMap::new();
        for (name, count) in (0..ended.ops.len()).flat_map(since) {
            *ops.entry(name).or_insert(0) += count;
        }
        let mut part = Part {
            name: self.name.clone(),
            at_s: of(run_began, began.at),
            length_s,
            calls: calls as u64,
            most_per_s: if most_s > 0.0 { most as f64 / most_s } else { 0.0 },
            redirects: sum(&|c| c.redirects),
            recalls: sum(&|c| c.recalls),
            peer_messages: sum(&|c| c.peer_messages),
            replica_asks: ended.asks - began.asks,
            replicas_asked_back: ended.asked_back - began.asked_back,
            partings: ended.partings - began.partings,
            by_rank: pairs().map(|(now, then)| now.replies + now.redirects - then.replies - then.redirects).collect(),
            busy_for_peers: share(&|c| c.worked_for_peers),
            busy,
            ops,
            busiest_ops: BTreeMap::new(),
            kinds: self.kinds.iter().map(|(call, times)| kind(call, times)).collect(),
        };
        part.busiest_ops = since(part.busiest());
        part
    }
}

/// Nanoseconds between two moments, for shares: not 0.
fn of_length(from: u64, to: u64) -> f64 {
    to.saturating_sub(from).max(1) as f64
}

fn kind(call: &'static str, times: &Histogram<u64>) -> KindTimes {
    let us = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1000.0;
    let (calls, mean_us) = (times.len(), times.mean() / 1000.0);
    KindTimes { call, calls, mean_us, p50_us: us(0.5), p70_us: us(0.7), p99_us: us(0.99) }
}
