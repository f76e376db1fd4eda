//! Which requests ranks answered for a workload: how many a call took (RPC amplification), and how evenly ranks had them (load variance; both as
//! in ShardFS vs. IndexFS, SoCC'15, figure 6). Not where the numbers come from: the server tells them.

use std::collections::BTreeMap;

use serde::Serialize;

/// Requests answered so far, by rank and operation.
pub type Requests = BTreeMap<(u32, String), u64>;

/// Requests that were answered while the clients worked.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Served {
    /// All, those included that were sent on to another rank.
    pub requests: u64,
    /// For each call that was made.
    pub per_call: f64,
    /// By operation.
    pub ops: BTreeMap<String, u64>,
    /// By rank, of all that there are.
    pub ranks: BTreeMap<u32, u64>,
    /// Standard deviation of the ranks' numbers (of all ranks, no sample) over their mean; 0: all had as many.
    pub variation: f64,
    /// The busiest rank's number over the mean.
    pub busiest: f64,
}

impl Served {
    /// Requests since `before`, for so many calls; none if the server does not tell.
    pub(super) fn new(before: &Requests, after: &Requests, calls: u64) -> Option<Served> {
        if after.is_empty() {
            return None;
        }
        let (mut ops, mut ranks) = (BTreeMap::new(), BTreeMap::new());
        for (key, count) in after {
            let (rank, op) = key;
            let since = count.saturating_sub(before.get(key).copied().unwrap_or(0));
            *ranks.entry(*rank).or_insert(0) += since;
            if since > 0 {
                *ops.entry(op.clone()).or_insert(0) += since;
            }
        }
        let requests: u64 = ranks.values().sum();
        let mean = requests as f64 / ranks.len() as f64;
        let squares: f64 = ranks.values().map(|count| (*count as f64 - mean).powi(2)).sum();
        let over_mean = |value: f64| if mean > 0.0 { milli(value / mean) } else { 0.0 };
        let busiest = ranks.values().copied().max().unwrap_or(0) as f64;
        Some(Served {
            requests,
            per_call: milli(requests as f64 / calls.max(1) as f64),
            variation: over_mean((squares / ranks.len() as f64).sqrt()),
            busiest: over_mean(busiest),
            ops,
            ranks,
        })
    }

    /// For people, two lines.
    pub(super) fn to_text(&self) -> String {
        let mut ops: Vec<(&String, &u64)> = self.ops.iter().collect();
        ops.sort_by_key(|(op, count)| (std::cmp::Reverse(**count), *op));
        let ops: Vec<String> = ops.into_iter().map(|(op, count)| format!("{op} {count}")).collect();
        let ranks: Vec<String> = self.ranks.iter().map(|(rank, count)| format!("rank {rank} {count}")).collect();
        format!(
            "requests {}, {:.3} a call: {}\nby rank: {}; variation {:.3}, busiest {:.3} times the mean",
            self.requests,
            self.per_call,
            ops.join(", "),
            ranks.join(", "),
            self.variation,
            self.busiest
        )
    }
}

fn milli(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(all: &[(u32, &str, u64)]) -> Requests {
        all.iter().map(|(rank, op, count)| ((*rank, op.to_string()), *count)).collect()
    }

    #[test]
    fn what_was_answered_before_does_not_count_and_a_rank_that_had_nothing_does() {
        let before = requests(&[(0, "lookup", 10), (0, "create", 1), (1, "create", 0)]);
        let after = requests(&[(0, "lookup", 10), (0, "create", 61), (1, "create", 30), (2, "create", 0)]);
        let served = Served::new(&before, &after, 60).expect("it is told");
        assert_eq!((served.requests, served.per_call), (90, 1.5));
        assert_eq!(served.ops, BTreeMap::from([("create".to_string(), 90)]));
        assert_eq!(served.ranks, BTreeMap::from([(0, 60), (1, 30), (2, 0)]));
        // sqrt((30^2 + 0 + 30^2) / 3) / 30
        assert_eq!((served.variation, served.busiest), (0.816, 2.0));
        assert_eq!(
            served.to_text(),
            "requests 90, 1.500 a call: create 90\nby rank: rank 0 60, rank 1 30, rank 2 0; variation 0.816, busiest 2.000 times the mean"
        );
    }

    #[test]
    fn without_a_server_that_tells_or_without_requests_nothing_is_made_up() {
        assert_eq!(Served::new(&Requests::new(), &Requests::new(), 5), None);
        let none = requests(&[(0, "create", 3)]);
        let served = Served::new(&none, &none, 0).expect("it is told");
        assert_eq!((served.requests, served.per_call, served.variation, served.busiest), (0, 0.0, 0.0, 0.0));
    }
}
