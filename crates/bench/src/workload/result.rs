//! What a workload gave, as text for people and as JSON. Times are seconds since the clients began, latencies microseconds.

use std::fmt::Write as _;

use serde::Serialize;

use super::Config;
use super::lanes::Ran;
use super::served::Served;
use super::tally::Kind;

/// Clients shown one by one as text; the JSON has all.
const CLIENTS_SHOWN: usize = 16;

/// A workload measured.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadResult {
    /// As text, with all its parameters.
    pub workload: String,
    /// What chance was drawn from.
    pub seed: u64,
    /// `native` or `mounted`.
    pub through: &'static str,
    /// The clients came to their end before time was up.
    pub complete: bool,
    /// What the set-up took, seconds.
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
    /// When what phase began.
    pub phases: Vec<PhaseStart>,
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
    /// Over all clients and the whole run.
    pub calls_per_s: f64,
    /// Those that found nothing, as they may.
    pub misses: u64,
    /// Those that failed.
    pub errors: u64,
    /// Median time, microseconds.
    pub p50_us: f64,
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

/// A phase that began at a mark.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseStart {
    /// Its name.
    pub name: String,
    /// When, seconds.
    pub at_s: f64,
}

/// What was seen of both sides.
pub struct Sides {
    pub setup_s: f64,
    pub server_cpu_s: Option<f64>,
    pub client_cpu_s: f64,
    pub sessions: Option<u64>,
    pub redirects: Option<u64>,
    pub recalls: Option<u64>,
    pub served: Option<Served>,
}

impl WorkloadResult {
    pub(super) fn new(config: &Config, is_native: bool, ran: &Ran, sides: Sides) -> WorkloadResult {
        let length_s = ran.took.as_secs_f64();
        let rate = |calls: u64| (calls as f64 / length_s.max(1e-9)).round();
        let us = |ns: u64| (ns as f64 / 10.0).round() / 100.0;
        let kind = |(call, kind): (&&'static str, &Kind)| KindResult {
            call,
            calls: kind.calls,
            calls_per_s: rate(kind.calls),
            misses: kind.misses,
            errors: kind.errors,
            p50_us: us(kind.latencies.value_at_quantile(0.5)),
            p99_us: us(kind.latencies.value_at_quantile(0.99)),
            max_us: us(kind.latencies.max()),
        };
        let kinds: Vec<KindResult> = ran.tally.kinds.iter().map(kind).collect();
        let ended: Vec<f64> = ran.clients.iter().map(|(_, ended)| ended.as_secs_f64()).collect();
        let (client_mean_s, client_sd_s) = spread(&ended);
        WorkloadResult {
            workload: config.text.clone(),
            seed: config.seed,
            through: if is_native { "native" } else { "mounted" },
            complete: ran.complete,
            setup_s: milli(sides.setup_s),
            length_s: milli(length_s),
            lanes: ran.lanes,
            calls: ran.tally.calls(),
            calls_per_s: rate(ran.tally.calls()),
            misses: kinds.iter().map(|kind| kind.misses).sum(),
            errors: kinds.iter().map(|kind| kind.errors).sum(),
            first_error: ran.tally.first_error.clone(),
            kinds,
            clients: ran
                .clients
                .iter()
                .map(|(calls, ended)| ClientResult { calls: *calls, ended_s: milli(ended.as_secs_f64()) })
                .collect(),
            client_mean_s: milli(client_mean_s),
            client_sd_s: milli(client_sd_s),
            phases: ran
                .phases
                .iter()
                .map(|(at, name)| PhaseStart { name: name.to_string(), at_s: milli(at.as_secs_f64()) })
                .collect(),
            server_cpu_s: sides.server_cpu_s.map(milli),
            client_cpu_s: milli(sides.client_cpu_s),
            sessions: sides.sessions,
            redirects: sides.redirects,
            recalls: sides.recalls,
            served: sides.served,
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
            let _ = writeln!(out, "phase {} from {:.3} s", phase.name, phase.at_s);
        }
        let seconds = |s: Option<f64>| s.map_or("-".to_string(), |s| format!("{s:.3} s"));
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
