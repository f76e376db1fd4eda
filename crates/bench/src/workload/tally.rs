//! What is counted while a workload runs, by kind of call. Not how it is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use loligo_workload::Call;

use super::Wrong;

/// Calls of one kind.
pub struct Kind {
    /// Made, whatever came of them.
    pub calls: u64,
    /// Those that found nothing, as they may.
    pub misses: u64,
    /// Those that failed.
    pub errors: u64,
    /// Nanoseconds.
    pub latencies: Histogram<u64>,
}

/// By kind of call.
#[derive(Default)]
pub struct Tally {
    /// By name.
    pub kinds: BTreeMap<&'static str, Kind>,
    /// The first call that failed.
    pub first_error: Option<String>,
}

impl Kind {
    fn new() -> Kind {
        // It grows with what is recorded: there is one for each lane and kind.
        let latencies = Histogram::new(3).expect("three digits can be kept");
        Kind { calls: 0, misses: 0, errors: 0, latencies }
    }
}

impl Tally {
    /// A call was made.
    pub fn note(&mut self, call: &Call, took: Duration, result: Result<(), Wrong>) {
        let kind = self.kinds.entry(call.name()).or_insert_with(Kind::new);
        kind.calls += 1;
        kind.latencies.saturating_record(took.as_nanos().clamp(1, u128::from(u64::MAX >> 1)) as u64);
        match result {
            Ok(()) => {}
            Err(wrong) if wrong.missing && call.may_miss() => kind.misses += 1,
            Err(wrong) => {
                kind.errors += 1;
                self.first_error.get_or_insert_with(|| format!("{} {}: {}", call.name(), call.path(), wrong.text));
            }
        }
    }

    /// What another lane counted.
    pub fn add(&mut self, other: Tally) {
        for (name, of_it) in other.kinds {
            let kind = self.kinds.entry(name).or_insert_with(Kind::new);
            kind.calls += of_it.calls;
            kind.misses += of_it.misses;
            kind.errors += of_it.errors;
            kind.latencies.add(of_it.latencies).expect("one that grows takes any other");
        }
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.kinds.values().map(|kind| kind.calls).sum()
    }
}
