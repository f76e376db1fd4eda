//! Counters of a running workload, by kind of call. Not their display.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use loligo_workload::Call;

use super::Wrong;

/// Longest time that is told apart from longer ones: a day, nanoseconds.
const NS_MAX: u128 = 86_400_000_000_000;

/// Calls of one kind.
#[derive(Clone)]
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
#[derive(Clone, Default)]
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
        // Not saturating: that would not let it grow.
        let ns = took.as_nanos().clamp(1, NS_MAX) as u64;
        kind.latencies.record(ns).expect("one that grows takes any time up to a day");
        match result {
            Ok(()) => {}
            Err(wrong) if wrong.missing && call.may_miss() => kind.misses += 1,
            Err(wrong) => {
                kind.errors += 1;
                self.first_error.get_or_insert_with(|| format!("{} {}: {}", call.name(), call.path(), wrong.text));
            }
        }
    }

    /// Adds the counters of another lane.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_counted_as_long_and_only_what_may_miss_is_a_miss() {
        let mut tally = Tally::default();
        let missing = || Err(Wrong { missing: true, text: "none".into() });
        for ms in [1, 2, 900] {
            tally.note(&Call::Stat("/a".into()), Duration::from_millis(ms), missing());
        }
        let mut all = Tally::default();
        all.note(&Call::Unlink("/b".into()), Duration::from_millis(3), missing());
        all.add(tally);
        let stat = &all.kinds["stat"];
        assert_eq!((stat.calls, stat.misses, stat.errors, all.calls()), (3, 3, 0, 4));
        assert!((890_000_000..910_000_000).contains(&stat.latencies.max()));
        assert_eq!(all.first_error.as_deref(), Some("unlink /b: none"));
    }
}
