//! `loligo balancer explain`: for the last ticks what each hook of the policy saw and answered.

use super::text::ago;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, put};
use crate::service::admin::balancer::{BalancerDoc, TickDoc};
use crate::target;

/// Prints the last ticks of a rank, or of all.
pub fn run(rank: Option<u16>, ticks: usize, target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    let ranks = match rank {
        Some(rank) => vec![rank],
        None => ask::json::<BalancerDoc>(&found, "/api/v1/balancer")?.ranks.iter().map(|rank| rank.rank).collect(),
    };
    let mut all = serde_json::Map::new();
    for rank in ranks {
        let seen: Vec<TickDoc> = ask::json(&found, &format!("/api/v1/balancer/ticks/{rank}"))?;
        let last = &seen[seen.len().saturating_sub(ticks)..];
        if json {
            let doc = serde_json::to_value(last).map_err(|e| Failure::new(format!("the ticks as JSON: {e}")))?;
            all.insert(rank.to_string(), doc);
            continue;
        }
        if last.is_empty() {
            put(format_args!("rank {rank}: no tick yet: is a policy in force? (loligo balancer get)"))?;
        }
        for tick in last {
            put(format_args!("rank {rank}, tick {}, {}, {} us", tick.tick, ago(tick.at_ms), tick.took_us))?;
            let faults = tick.fault.iter().map(|fault| format!("failed: {fault}; nothing moves"));
            for line in tick.lines.iter().cloned().chain(faults) {
                put(format_args!("  {line}"))?;
            }
        }
    }
    if json { put(serde_json::Value::Object(all)) } else { Ok(()) }
}
