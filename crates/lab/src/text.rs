//! A report as a line of a table, as CSV and as JSON. Not as a picture: `draw.rs`.

use std::fmt::Write;

use serde_json::json;

use crate::report::{Client, KindTimes, Part, Report, Second};

/// The columns of [`Report::row`], with the line below them.
const HEAD: &str = "\
| ranks | spread | policy | seconds | calls/s | p50, us | p99, us | client's time, s | its sd, s | requests | redirects | sessions | recalls | \
messages between ranks | moves | late moves | busy, mean | busiest | balance | busy max/mean | failed | faults |
|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// The first line of [`Report::csv`].
const CSV_HEAD: &str =
    "ranks,spread,second,length,calls,redirects,moves,recalls,peer_messages,replies_by_rank,busy_by_rank\n";

/// The first line of [`Report::parts_csv`].
const PARTS_HEAD: &str = "placement,by_path,lookup_lease,ranks,seed,phase,length_s,calls,calls_per_s,most_per_s,requests_per_call,variation,most_requests,\
busy_mean,busy_most,busy_for_peers_mean,redirects,recalls,peer_messages,replica_asks,replicas_asked_back,partings,readdirs,failed,\
call,of_calls,mean_us,p50_us,p70_us,p99_us\n";

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

fn list<T>(all: &[T], show: impl Fn(&T) -> String) -> String {
    all.iter().map(show).collect::<Vec<_>>().join(" ")
}

impl Report {
    /// Head of a Markdown table of reports: two lines.
    pub fn table_head() -> &'static str {
        HEAD
    }

    /// A line of that table.
    pub fn row(&self) -> String {
        let (mean, sd) = self.run_time();
        let busy = self.busy.iter().sum::<f64>() / self.busy.len().max(1) as f64;
        let busiest = self.busy.iter().copied().fold(0.0, f64::max);
        format!(
            "| {} | {} | {} | {:.2}{} | {:.0} | {:.0} | {:.0} | {mean:.3} | {sd:.3} | {} | {} | {} | {} | {} | {} | {} | {busy:.2} | \
             {busiest:.2} | {:.2} | {:.2} | {} | {} |",
            self.ranks,
            self.spread,
            self.policy,
            self.length_s,
            if self.is_complete { "" } else { "+" },
            self.calls_per_s(),
            self.p50_us,
            self.p99_us,
            self.requests,
            self.redirects,
            self.sessions,
            self.recalls,
            self.peer_messages,
            self.moves.len(),
            self.late_moves(),
            self.balance(),
            self.busy_balance(),
            self.failed,
            self.faults
        )
    }

    /// First line of a file of [`Report::csv`] lines.
    pub fn csv_head() -> &'static str {
        CSV_HEAD
    }

    /// A line for each second; lists of ranks are parted by spaces.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        for (number, second) in self.seconds.iter().enumerate() {
            let Second { length, calls, redirects, moves, recalls, peer_messages, replies, busy } = second;
            // Writing into a string cannot fail.
            let _ = writeln!(
                out,
                "{},{},{number},{length:.3},{calls},{redirects},{moves},{recalls},{peer_messages},{},{}",
                self.ranks,
                self.spread,
                list(replies, u64::to_string),
                list(busy, |share| format!("{share:.3}"))
            );
        }
        out
    }

    /// First line of a file of [`Report::parts_csv`] lines.
    pub fn parts_csv_head() -> &'static str {
        PARTS_HEAD
    }

    /// A line for each phase and kind of call in it.
    pub fn parts_csv(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            let of_part = self.part_csv(part);
            for KindTimes { call, calls, mean_us, p50_us, p70_us, p99_us } in &part.kinds {
                // Writing into a string cannot fail.
                let _ = writeln!(out, "{of_part},{call},{calls},{mean_us:.1},{p50_us:.1},{p70_us:.1},{p99_us:.1}");
            }
        }
        out
    }

    fn part_csv(&self, part: &Part) -> String {
        format!(
            "{},{},{},{},{},{},{:.6},{},{:.0},{:.0},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4},{},{},{},{},{},{},{},{}",
            self.placement.name(),
            if self.by_path { "yes" } else { "no" },
            self.lookup_lease.text(),
            self.ranks,
            self.seed,
            part.name,
            part.length_s,
            part.calls,
            part.calls_per_s(),
            part.most_per_s,
            part.per_call(),
            part.variation(),
            part.most_requests(),
            mean(&part.busy),
            part.busy.iter().copied().fold(0.0, f64::max),
            mean(&part.busy_for_peers),
            part.redirects,
            part.recalls,
            part.peer_messages,
            part.replica_asks,
            part.replicas_asked_back,
            part.partings,
            part.ops.get("readdir").copied().unwrap_or(0),
            self.failed
        )
    }

    /// All of it.
    pub fn json(&self) -> serde_json::Value {
        let moves: Vec<_> = self
            .moves
            .iter()
            .map(|m| json!({ "at_s": m.at_s, "from": m.from, "to": m.to, "dir": m.dir.0, "frag": m.frag }))
            .collect();
        let phases: Vec<_> = self.phases.iter().map(|p| json!({ "name": p.name, "at_s": p.at_s })).collect();
        let client = |c: &Client| json!({ "calls": c.calls, "ended_s": c.ended_s, "sessions": c.sessions });
        let clients: Vec<_> = self.clients.iter().map(client).collect();
        let second = |s: &Second| {
            json!({
                "length": s.length, "calls": s.calls, "replies": s.replies, "busy": s.busy, "redirects": s.redirects,
                "moves": s.moves, "recalls": s.recalls, "peer_messages": s.peer_messages,
            })
        };
        let parts: Vec<_> = self.parts.iter().map(part_json).collect();
        let seconds: Vec<_> = self.seconds.iter().map(second).collect();
        let (mean, sd) = self.run_time();
        json!({
            "workload": self.workload, "ranks": self.ranks, "spread": self.spread.to_string(), "placement": self.placement.name(), "by_path": self.by_path, "lookup_lease": self.lookup_lease.text(), "policy": self.policy, "faults": self.faults, "first_fault": self.first_fault,
            "seed": self.seed,
            "measured": self.measured, "length_s": self.length_s, "is_complete": self.is_complete,
            "calls": self.calls, "calls_per_s": self.calls_per_s(), "misses": self.misses, "failed": self.failed,
            "first_failure": self.first_failure, "mean_us": self.mean_us, "p50_us": self.p50_us, "p99_us": self.p99_us,
            "run_time_mean_s": mean, "run_time_sd_s": sd, "requests": self.requests, "redirects": self.redirects,
            "sessions": self.sessions, "recalls": self.recalls, "peer_messages": self.peer_messages,
            "decisions": self.decisions, "refused": self.refused, "unanswered": self.unanswered, "late_moves": self.late_moves(),
            "busy": self.busy, "by_rank": self.by_rank, "balance": self.balance(), "busy_balance": self.busy_balance(),
            "moves": moves, "phases": phases, "parts": parts, "clients": clients, "seconds": seconds,
        })
    }
}

fn part_json(part: &Part) -> serde_json::Value {
    let kind = |k: &KindTimes| json!({ "call": k.call, "calls": k.calls, "mean_us": k.mean_us, "p50_us": k.p50_us, "p70_us": k.p70_us, "p99_us": k.p99_us });
    json!({
        "name": part.name, "at_s": part.at_s, "length_s": part.length_s, "calls": part.calls, "calls_per_s": part.calls_per_s(),
        "most_per_s": part.most_per_s, "requests_per_call": part.per_call(), "variation": part.variation(), "most_requests": part.most_requests(),
        "redirects": part.redirects, "recalls": part.recalls, "peer_messages": part.peer_messages, "replica_asks": part.replica_asks,
        "replicas_asked_back": part.replicas_asked_back, "partings": part.partings, "by_rank": part.by_rank, "busy": part.busy,
        "busy_for_peers": part.busy_for_peers, "ops": part.ops, "busiest": part.busiest(), "busiest_ops": part.busiest_ops,
        "kinds": part.kinds.iter().map(kind).collect::<Vec<_>>(),
    })
}
