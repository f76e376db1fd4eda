//! Result of a workload, as text for people and as JSON. Times are seconds since the clients began, latencies microseconds.

use std::fmt::Write as _;

use serde::Serialize;

use super::lanes::{Phase, Ran};
use super::served::Served;
use super::tally::{Kind, Tally};
use super::{Config, Seen, Told};

/// Clients shown one by one as text; the JSON has all.
const CLIENTS_SHOWN: usize = 16;

/// A workload measured.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadResult {
    /// As text, with all its parameters.
    pub workload: String,
    /// Seed of randomness.
    pub seed: u64,
    /// `native` or `mounted`.
    pub through: &'static str,
    /// The clients came to their end before time was up.
    pub complete: bool,
    /// Time of the set-up, seconds.
    pub setup_s: f64,
    /// From the beginning to the end of the last client, seconds.
    pub length_s: f64,
    /// Lanes over all clients.
    pub lanes: usize,
    /// Made, whatever came of them.
    pub calls: u64,
    /// Over all clients.
    pub calls_per_s: f64,
    /// Calls that found nothing, as they may.
    pub misses: u64,
    /// Calls that failed.
    pub errors: u64,
    /// The first of them, and why.
    pub first_error: Option<String>,
    /// By kind of call.
    pub kinds: Vec<KindResult>,
    /// By client.
    pub clients: Vec<ClientResult>,
    /// Mean of the clients' run times, seconds.
    pub client_mean_s: f64,
    /// Their standard deviation (of a sample; 0 of a single client), seconds.
    pub client_sd_s: f64,
    /// If there are marks: what is between them.
    pub phases: Vec<PhaseResult>,
    /// CPU seconds of the server's process; absent when it is not known.
    pub server_cpu_s: Option<f64>,
    /// CPU seconds of this process, which is all clients.
    pub client_cpu_s: f64,
    /// Sessions at all ranks at the end; absent when the server does not tell.
    pub sessions: Option<u64>,
    /// Requests that ranks sent on to others; absent when the server does not tell.
    pub redirects: Option<u64>,
    /// Leases asked back; absent when the server does not tell.
    pub recalls: Option<u64>,
    /// Requests that ranks answered; absent when the server does not tell.
    pub served: Option<Served>,
}

/// Calls of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindResult {
    /// Which: `create`, `stat`, and so on.
    pub call: &'static str,
    /// Made.
    pub calls: u64,
    /// Over all clients and the whole run, or the phase.
    pub calls_per_s: f64,
    /// Those that found nothing, as they may.
    pub misses: u64,
    /// Those that failed.
    pub errors: u64,
    /// Median time, microseconds.
    pub p50_us: f64,
    /// 70 of 100 were faster, microseconds.
    pub p70_us: f64,
    /// 99 of 100 were faster, microseconds.
    pub p99_us: f64,
    /// The slowest, microseconds.
    pub max_us: f64,
}

/// A client.
#[derive(Clone, Debug, Serialize)]
pub struct ClientResult {
    /// Calls that it made.
    pub calls: u64,
    /// When its last lane ended, seconds.
    pub ended_s: f64,
}

/// From one mark to the next.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseResult {
    /// Its name; empty before the first mark.
    pub name: String,
    /// When it began, seconds.
    pub at_s: f64,
    /// Until all lanes had come to its end, seconds.
    pub length_s: f64,
    /// Made in it.
    pub calls: u64,
    /// Over all clients.
    pub calls_per_s: f64,
    /// By kind of call.
    pub kinds: Vec<KindResult>,
    /// CPU seconds of the server's process; absent when it is not known.
    pub server_cpu_s: Option<f64>,
    /// CPU seconds of this process.
    pub client_cpu_s: f64,
    /// Requests that ranks answered; absent when the server does not tell.
    pub served: Option<Served>,
}

impl KindResult {
    /// All kinds, over so many seconds.
    fn all(tally: &Tally, length_s: f64) -> Vec<KindResult> {
        let us = |ns: u64| (ns as f64 / 10.0).round() / 100.0;
        let kind = |(call, kind): (&&'static str, &Kind)| KindResult {
            call,
            calls: kind.calls,
            calls_per_s: rate(kind.calls, length_s),
            misses: kind.misses,
            errors: kind.errors,
            p50_us: us(kind.latencies.value_at_quantile(0.5)),
            p70_us: us(kind.latencies.value_at_quantile(0.7)),
            p99_us: us(kind.latencies.value_at_quantile(0.99)),
            max_us: us(kind.latencies.max()),
        };
        tally.kinds.iter().map(kind).collect()
    }
}

impl PhaseResult {
    fn new(phase: &Phase, before: &Seen, after: &Seen) -> PhaseResult {
        let length_s = phase.until.saturating_sub(phase.at).as_secs_f64();
        let calls = phase.tally.calls();
        PhaseResult {
            name: phase.name.as_deref().unwrap_or_default().to_string(),
            at_s: milli(phase.at.as_secs_f64()),
            length_s: milli(length_s),
            calls,
            calls_per_s: rate(calls, length_s),
            kinds: KindResult::all(&phase.tally, length_s),
            server_cpu_s: since(after.server_cpu_s, before.server_cpu_s),
            client_cpu_s: milli(after.client_cpu_s - before.client_cpu_s),
            served: Served::new(&before.told.requests, &after.told.requests, calls),
        }
    }

    /// For people.
    fn to_text(&self) -> String {
        let name = if self.name.is_empty() { "before the first mark" } else { &self.name };
        let Served { per_call, variation, busiest, .. } = match &self.served {
            Some(served) => served,
            None => return format!("phase {name}: {}", self.times()),
        };
        format!(
            "phase {name}: {}; {per_call:.3} requests a call, variation {variation:.3}, busiest {busiest:.3} times the mean",
            self.times()
        )
    }

    fn times(&self) -> String {
        format!(
            "{} calls in {:.3} s, {:.0}/s; CPU: server {}, clients {:.3} s",
            self.calls,
            self.length_s,
            self.calls_per_s,
            seconds(self.server_cpu_s),
            self.client_cpu_s
        )
    }
}

fn since(after: Option<f64>, before: Option<f64>) -> Option<f64> {
    Some(milli(after? - before?))
}

fn rate(calls: u64, length_s: f64) -> f64 {
    (calls as f64 / length_s.max(1e-9)).round()
}

fn seconds(s: Option<f64>) -> String {
    s.map_or("-".to_string(), |s| format!("{s:.3} s"))
}

impl WorkloadResult {
    /// `seen`: before the first phase, between each two, and after the last one.
    pub(super) fn new(config: &Config, is_native: bool, ran: &Ran, setup_s: f64, seen: &[Seen]) -> WorkloadResult {
        let length_s = ran.took.as_secs_f64();
        let mut tally = Tally::default();
        ran.phases.iter().for_each(|phase| tally.add(phase.tally.clone()));
        let kinds = KindResult::all(&tally, length_s);
        let ended: Vec<f64> = ran.clients.iter().map(|(_, ended)| ended.as_secs_f64()).collect();
        let (client_mean_s, client_sd_s) = spread(&ended);
        let (before, after) = (&seen[0], &seen[seen.len() - 1]);
        let of_server =
            |count: fn(&Told) -> Option<u64>| Some(count(&after.told)?.saturating_sub(count(&before.told)?));
        let phases = ran.phases.iter().zip(seen.windows(2));
        let phases =
            phases.filter(|(phase, _)| ran.phases.len() > 1 && (phase.name.is_some() || phase.tally.calls() > 0));
        WorkloadResult {
            workload: config.text.clone(),
            seed: config.seed,
            through: if is_native { "native" } else { "mounted" },
            complete: ran.complete,
            setup_s: milli(setup_s),
            length_s: milli(length_s),
            lanes: ran.lanes,
            calls: tally.calls(),
            calls_per_s: rate(tally.calls(), length_s),
            misses: kinds.iter().map(|kind| kind.misses).sum(),
            errors: kinds.iter().map(|kind| kind.errors).sum(),
            first_error: tally.first_error.clone(),
            kinds,
            clients: ran
                .clients
                .iter()
                .map(|(calls, ended)| ClientResult { calls: *calls, ended_s: milli(ended.as_secs_f64()) })
                .collect(),
            client_mean_s: milli(client_mean_s),
            client_sd_s: milli(client_sd_s),
            phases: phases.map(|(phase, seen)| PhaseResult::new(phase, &seen[0], &seen[1])).collect(),
            server_cpu_s: since(after.server_cpu_s, before.server_cpu_s),
            client_cpu_s: milli(after.client_cpu_s - before.client_cpu_s),
            sessions: after.told.sessions,
            redirects: of_server(|told| told.redirects),
            recalls: of_server(|told| told.recalls),
            served: Served::new(&before.told.requests, &after.told.requests, tally.calls()),
        }
    }

    /// One JSON object without line breaks.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and names can be written as JSON")
    }

    /// For people, several lines.
    pub fn to_text(&self) -> String {
        // Writing into a string cannot fail.
        let mut out = String::new();
        let _ = writeln!(out, "{} (seed {}, {})", self.workload, self.seed, self.through);
        let whole = if self.complete { "" } else { ", cut off: time was up" };
        let _ = writeln!(
            out,
            "{} calls in {:.3} s, {:.0}/s; set-up {:.3} s{whole}",
            self.calls, self.length_s, self.calls_per_s, self.setup_s
        );
        let _ = writeln!(
            out,
            "\n{:<9} {:>10} {:>11} {:>9} {:>7} {:>10} {:>10} {:>10}",
            "call", "calls", "calls/s", "misses", "errors", "p50 us", "p99 us", "max us"
        );
        for kind in &self.kinds {
            let _ = writeln!(
                out,
                "{:<9} {:>10} {:>11.0} {:>9} {:>7} {:>10.1} {:>10.1} {:>10.1}",
                kind.call,
                kind.calls,
                kind.calls_per_s,
                kind.misses,
                kind.errors,
                kind.p50_us,
                kind.p99_us,
                kind.max_us
            );
        }
        let _ = writeln!(
            out,
            "\nclients: {} with {} lanes; run time {:.3} s on average, standard deviation {:.3} s",
            self.clients.len(),
            self.lanes,
            self.client_mean_s,
            self.client_sd_s
        );
        if self.clients.len() > 1 {
            let times = self.clients.iter().take(CLIENTS_SHOWN).map(|client| format!("{:.3}", client.ended_s));
            let more = if self.clients.len() > CLIENTS_SHOWN { ", ..." } else { "" };
            let _ = writeln!(out, "each, s: {}{more}", times.collect::<Vec<_>>().join(", "));
        }
        for phase in &self.phases {
            let _ = writeln!(out, "{}", phase.to_text());
        }
        let _ = writeln!(out, "CPU: server {}, clients {:.3} s", seconds(self.server_cpu_s), self.client_cpu_s);
        let count = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
        let _ = write!(
            out,
            "sessions {}, redirects {}, recalls {}",
            count(self.sessions),
            count(self.redirects),
            count(self.recalls)
        );
        if let Some(served) = &self.served {
            let _ = write!(out, "\n{}", served.to_text());
        }
        out
    }
}

/// Mean and standard deviation of a sample.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

fn milli(s: f64) -> f64 {
    (s * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_clients_are_spread_around_their_mean() {
        assert_eq!(spread(&[2.0]), (2.0, 0.0));
        assert_eq!(spread(&[1.0, 3.0]), (2.0, 2.0f64.sqrt()));
        assert_eq!(spread(&[]), (0.0, 0.0));
    }
}
