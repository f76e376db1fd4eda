//! `loligo balancer explain`: for the last ticks what each hook of the policy saw and answered.

use super::text::ago;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, put};
use crate::ranks::rank::not_reached;
use crate::service::admin::balancer::{BalancerDoc, TickDoc};
use crate::target;

/// Prints the last ticks of a rank, or of all.
pub fn run(rank: Option<u16>, ticks: usize, target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    let (ranks, unreached) = match rank {
        Some(rank) => (vec![rank], Vec::new()),
        None => {
            let doc: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
            (doc.ranks.iter().map(|rank| rank.rank).collect(), doc.unreached)
        }
    };
    let mut all = serde_json::Map::new();
    if json && !unreached.is_empty() {
        all.insert("unreached".into(), serde_json::json!(unreached));
    }
    for rank in ranks {
        let seen: Vec<TickDoc> = ask::json(&found, &format!("/api/v1/balancer/ticks/{rank}"))?;
        let last = last_ticks(&seen, ticks);
        if json {
            let doc = serde_json::to_value(last).map_err(|e| Failure::new(format!("the ticks as JSON: {e}")))?;
            all.insert(rank.to_string(), doc);
            continue;
        }
        if last.is_empty() {
            put(format_args!(
                "rank {rank}: no tick yet: is a policy in force? (loligo balancer show{})",
                target.again()
            ))?;
        }
        for tick in last {
            let name = tick.name.as_ref().map_or(String::new(), |name| format!(", what names {name}"));
            put(format_args!("rank {rank}, tick {}{name}, {}, {} us", tick.tick, ago(tick.at_ms), tick.took_us))?;
            let faults = tick.fault.iter().map(|fault| format!("failed: {fault}; nothing moves"));
            for line in tick.lines.iter().cloned().chain(faults) {
                put(format_args!("  {line}"))?;
            }
        }
    }
    match not_reached(&unreached) {
        _ if json => put(serde_json::Value::Object(all)),
        none if none.is_empty() => Ok(()),
        some => put(some.trim_end()),
    }
}

/// The last ones; at a tick several policies may have decided.
fn last_ticks(seen: &[TickDoc], ticks: usize) -> &[TickDoc] {
    let mut numbers: Vec<u64> = seen.iter().map(|tick| tick.tick).collect();
    numbers.dedup();
    let Some(first) = numbers.len().checked_sub(ticks).map_or(numbers.first(), |at| numbers.get(at)) else {
        return &[];
    };
    let at = seen.iter().position(|tick| tick.tick == *first).unwrap_or(seen.len());
    &seen[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_tick_all_policies_are_shown() {
        let tick = |tick| TickDoc {
            at_ms: 0,
            tick,
            policy: 1,
            name: None,
            lines: Vec::new(),
            moves: 0,
            fault: None,
            took_us: 0,
        };
        let seen: Vec<TickDoc> = [3, 4, 4, 5, 5].map(tick).into();
        let of = |ticks| last_ticks(&seen, ticks).iter().map(|tick| tick.tick).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(2), of(9)), (vec![], vec![5, 5], vec![4, 4, 5, 5], vec![3, 4, 4, 5, 5]));
        assert!(last_ticks(&[], 1).is_empty());
    }
}
