//! Result of a phase, as a table row and as JSON. Latencies in microseconds.

use hdrhistogram::Histogram;
use serde::Serialize;

/// One phase measured.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseResult {
    /// Its name.
    pub phase: &'static str,
    /// Clients at work.
    pub clients: usize,
    /// Operations done (entries, for readdir).
    pub ops: u64,
    /// Per second of wall time, all clients together.
    pub ops_per_s: f64,
    /// Median time from request to answer.
    pub p50_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// 999 of 1000 were faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// CPU of the server's process per operation; absent when the server is not known.
    pub server_cpu_us_per_op: Option<f64>,
    /// CPU of the ranks' threads per operation, all ranks together; absent when they are not known.
    pub rank_cpu_us_per_op: Option<f64>,
    /// Processor use of each rank's thread, by rank.
    pub rank_busy: Vec<f64>,
    /// CPU of the clients' processes per operation.
    pub client_cpu_us_per_op: f64,
    /// Operations that failed (not counted in `ops`).
    pub errors: u64,
}

/// Measurements of a phase.
pub struct Measured {
    /// Wall seconds.
    pub wall_s: f64,
    /// CPU seconds of the server.
    pub server_cpu_s: Option<f64>,
    /// CPU seconds of the ranks' threads; none where they are not known.
    pub rank_cpu_s: Vec<f64>,
    /// CPU seconds of the clients.
    pub client_cpu_s: f64,
    /// Latencies of single operations, nanoseconds.
    pub latencies: Histogram<u64>,
    /// Done.
    pub ops: u64,
    /// Failed.
    pub errors: u64,
}

/// A histogram that can hold from a nanosecond to an hour.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are constants that fit")
}

impl PhaseResult {
    /// Makes rates of sums.
    pub fn new(phase: &'static str, clients: usize, m: &Measured) -> PhaseResult {
        let per_op = |s: f64| round(s * 1e6 / m.ops.max(1) as f64);
        let quantile = |q: f64| round(m.latencies.value_at_quantile(q) as f64 / 1e3);
        PhaseResult {
            phase,
            clients,
            ops: m.ops,
            ops_per_s: (m.ops as f64 / m.wall_s.max(1e-9)).round(),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: round(m.latencies.max() as f64 / 1e3),
            server_cpu_us_per_op: m.server_cpu_s.map(per_op),
            rank_cpu_us_per_op: (!m.rank_cpu_s.is_empty()).then(|| per_op(m.rank_cpu_s.iter().sum())),
            rank_busy: m.rank_cpu_s.iter().map(|s| round(s / m.wall_s.max(1e-9))).collect(),
            client_cpu_us_per_op: per_op(m.client_cpu_s),
            errors: m.errors,
        }
    }

    /// One JSON object without line breaks.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and names can be written as JSON")
    }

    /// Head of the table.
    pub fn head() -> String {
        format!(
            "{:<11} {:>7} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11} {:>7}",
            "phase",
            "clients",
            "ops",
            "ops/s",
            "p50 us",
            "p99 us",
            "p999 us",
            "max us",
            "srv us/op",
            "rank us/op",
            "cli us/op",
            "errors"
        )
    }

    /// Its row.
    pub fn row(&self) -> String {
        let or_dash = |us: Option<f64>| us.map_or("-".to_string(), |us| format!("{us:.1}"));
        let (server, rank) = (or_dash(self.server_cpu_us_per_op), or_dash(self.rank_cpu_us_per_op));
        format!(
            "{:<11} {:>7} {:>9} {:>11.0} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>11} {:>11} {:>11.1} {:>7}",
            self.phase,
            self.clients,
            self.ops,
            self.ops_per_s,
            self.p50_us,
            self.p99_us,
            self.p999_us,
            self.max_us,
            server,
            rank,
            self.client_cpu_us_per_op,
            self.errors
        )
    }
}

fn round(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}
