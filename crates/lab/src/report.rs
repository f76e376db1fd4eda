//! What came out of a run, as data. Not how it is shown.

use loligo_types::Ino;

use crate::spread::Spread;

/// One virtual second; the last one may be shorter.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Second {
    /// How long it was, seconds.
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
    /// Who had what at the beginning.
    pub spread: Spread,
    /// What decided what moves.
    pub policy: String,
    /// Decisions that came to nothing because something was wrong with the policy.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
    /// What chance was drawn from.
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
    /// What was done with a call of the workload that needed no message is in it, too: microseconds.
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
    /// What decisions wanted and could not be begun.
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

    /// How long clients took, those that ended: mean and standard deviation, seconds.
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

    /// What the rank with most requests had, beside the mean of all; 1: all had the same.
    pub fn balance(&self) -> f64 {
        let most = self.by_rank.iter().copied().max().unwrap_or(0) as f64;
        let mean = self.by_rank.iter().sum::<u64>() as f64 / self.by_rank.len().max(1) as f64;
        if mean > 0.0 { most / mean } else { 1.0 }
    }
}
