//! Results of a run, as data. Not their display.

use std::collections::BTreeMap;

use loligo_types::{Ino, LookupLease, Placement};

use crate::spread::Spread;

/// One virtual second; the last one may be shorter.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Second {
    /// Its length, seconds.
    pub length: f64,
    /// Calls of the workload that were answered.
    pub calls: u64,
    /// Requests that each rank answered.
    pub replies: Vec<u64>,
    /// Share of it that each rank's thread worked.
    pub busy: Vec<f64>,
    /// Requests that ranks sent on.
    pub redirects: u64,
    /// Pieces given from rank to rank.
    pub moves: u64,
    /// Leases asked back.
    pub recalls: u64,
    /// Messages between ranks, beats left out.
    pub peer_messages: u64,
}

/// One client.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Client {
    /// Calls that were answered.
    pub calls: u64,
    /// When its last lane ended, seconds; none: it had not ended when time was up.
    pub ended_s: Option<f64>,
    /// Ranks with which it began a session.
    pub sessions: u64,
}

/// A phase of the workload began.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// Which.
    pub name: String,
    /// Seconds.
    pub at_s: f64,
}

/// Calls of one kind in a part of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KindTimes {
    /// As it is called in traces: `stat`.
    pub call: &'static str,
    /// Number of answered calls.
    pub calls: u64,
    /// Microseconds, on average.
    pub mean_us: f64,
    /// Half took no longer, microseconds.
    pub p50_us: f64,
    /// 70 of 100 took no longer, microseconds.
    pub p70_us: f64,
    /// 99 of 100 took no longer, microseconds.
    pub p99_us: f64,
}

/// Work between two marks of the workload, or before the first, or after the last.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Part {
    /// The phase that began with it; the first one has no name.
    pub name: String,
    /// When it began, seconds.
    pub at_s: f64,
    /// Virtual seconds to its last answer.
    pub length_s: f64,
    /// Calls that were answered.
    pub calls: u64,
    /// Calls a second until nine of ten were answered: without the end, when fewer and fewer lanes work.
    pub most_per_s: f64,
    /// Requests of clients sent on to another rank.
    pub redirects: u64,
    /// Leases asked back.
    pub recalls: u64,
    /// Messages between ranks, beats left out.
    pub peer_messages: u64,
    /// Questions of ranks to others for replicas and names.
    pub replica_asks: u64,
    /// Replicas asked back.
    pub replicas_asked_back: u64,
    /// Ways by path that the client had to go on elsewhere.
    pub partings: u64,
    /// Requests of clients at each rank, those included that were sent on.
    pub by_rank: Vec<u64>,
    /// Share of the time that each rank's thread worked.
    pub busy: Vec<f64>,
    /// Of these, for messages of other ranks.
    pub busy_for_peers: Vec<f64>,
    /// Requests that ranks carried out, by operation.
    pub ops: BTreeMap<&'static str, u64>,
    /// Those of the rank that was busiest.
    pub busiest_ops: BTreeMap<&'static str, u64>,
    /// By kind of call.
    pub kinds: Vec<KindTimes>,
}

impl Part {
    /// Calls answered a second.
    pub fn calls_per_s(&self) -> f64 {
        if self.length_s > 0.0 { self.calls as f64 / self.length_s } else { 0.0 }
    }

    /// Requests of clients for each call.
    pub fn per_call(&self) -> f64 {
        self.by_rank.iter().sum::<u64>() as f64 / self.calls.max(1) as f64
    }

    fn mean(&self) -> f64 {
        self.by_rank.iter().sum::<u64>() as f64 / self.by_rank.len().max(1) as f64
    }

    /// Standard deviation of the ranks' requests (of all ranks, no sample) over their mean; 0: all had as many.
    pub fn variation(&self) -> f64 {
        let mean = self.mean();
        let square = self.by_rank.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>();
        if mean > 0.0 { (square / self.by_rank.len().max(1) as f64).sqrt() / mean } else { 0.0 }
    }

    /// Requests of the rank that had most, over the mean.
    pub fn most_requests(&self) -> f64 {
        let mean = self.mean();
        if mean > 0.0 { self.by_rank.iter().copied().max().unwrap_or(0) as f64 / mean } else { 0.0 }
    }

    /// The rank that worked most.
    pub fn busiest(&self) -> usize {
        (0..self.busy.len()).max_by(|a, b| self.busy[*a].total_cmp(&self.busy[*b])).unwrap_or(0)
    }

    /// Times of a kind of call, if there was any.
    pub fn kind(&self, call: &str) -> Option<&KindTimes> {
        self.kinds.iter().find(|kind| kind.call == call)
    }
}

/// Something was given to another rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Moving {
    /// When, seconds.
    pub at_s: f64,
    /// By which rank.
    pub from: usize,
    /// To which.
    pub to: usize,
    /// The directory, or the one that the fragment is of.
    pub dir: Ino,
    /// The fragment as it is written; `*`: all.
    pub frag: String,
}

/// All of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// As it was asked for, with all parameters.
    pub workload: String,
    /// Ranks.
    pub ranks: usize,
    /// Distribution of directories at the beginning.
    pub spread: Spread,
    /// Placement of new directories.
    pub placement: Placement,
    /// For how long clients that asked by path could go by what they were told of directories.
    pub lookup_lease: LookupLease,
    /// Programs asked by path, and nothing was cached.
    pub by_path: bool,
    /// Policy that decided the moves.
    pub policy: String,
    /// Decisions that came to nothing because something was wrong with the policy.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
    /// Seed of randomness.
    pub seed: u64,
    /// Where and when times were measured.
    pub measured: String,
    /// Virtual seconds from the first call to the last answer, or to the limit.
    pub length_s: f64,
    /// All clients have ended.
    pub is_complete: bool,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Client by client.
    pub clients: Vec<Client>,
    /// In order.
    pub phases: Vec<Phase>,
    /// Work of each phase.
    pub parts: Vec<Part>,
    /// In order.
    pub moves: Vec<Moving>,
    /// Calls that were answered.
    pub calls: u64,
    /// Those that found nothing, and may.
    pub misses: u64,
    /// Those that failed otherwise.
    pub failed: u64,
    /// The first of them, and why.
    pub first_failure: Option<String>,
    /// Mean latency, microseconds, including calls of the workload that needed no message.
    pub mean_us: f64,
    /// The median, microseconds.
    pub p50_us: f64,
    /// 99 of 100 took no longer, microseconds.
    pub p99_us: f64,
    /// Requests that ranks answered.
    pub requests: u64,
    /// Requests that ranks sent on.
    pub redirects: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Leases asked back.
    pub recalls: u64,
    /// Messages between ranks, beats left out.
    pub peer_messages: u64,
    /// Decisions asked for.
    pub decisions: u64,
    /// Moves that decisions wanted and that could not be begun.
    pub refused: u64,
    /// Decisions that did not come before the next one was asked for.
    pub unanswered: u64,
    /// Share of the time that each rank's thread worked.
    pub busy: Vec<f64>,
    /// Requests that each rank answered.
    pub by_rank: Vec<u64>,
}

impl Report {
    /// Calls answered a second.
    pub fn calls_per_s(&self) -> f64 {
        if self.length_s > 0.0 { self.calls as f64 / self.length_s } else { 0.0 }
    }

    /// Run time of the clients that ended: mean and standard deviation, seconds.
    pub fn run_time(&self) -> (f64, f64) {
        let times: Vec<f64> = self.clients.iter().filter_map(|client| client.ended_s).collect();
        if times.is_empty() {
            return (0.0, 0.0);
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let square = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        (mean, square.sqrt())
    }

    /// Moves in the last quarter of the time.
    pub fn late_moves(&self) -> usize {
        self.moves.iter().filter(|one| one.at_s > self.length_s * 0.75).count()
    }

    /// Share of its time that the busiest rank worked, beside the mean of all; 1: all were as busy.
    pub fn busy_balance(&self) -> f64 {
        let most = self.busy.iter().copied().fold(0.0, f64::max);
        let mean = self.busy.iter().sum::<f64>() / self.busy.len().max(1) as f64;
        if mean > 0.0 { most / mean } else { 1.0 }
    }

    /// Requests of the busiest rank, relative to the mean of all; 1: all had the same.
    pub fn balance(&self) -> f64 {
        let most = self.by_rank.iter().copied().max().unwrap_or(0) as f64;
        let mean = self.by_rank.iter().sum::<u64>() as f64 / self.by_rank.len().max(1) as f64;
        if mean > 0.0 { most / mean } else { 1.0 }
    }
}
