//! Rates and latencies of operations between two looks.

use std::collections::BTreeMap;

use super::Ops;

/// An operation in the time between two looks.
#[derive(PartialEq, Debug)]
pub(super) struct Rate {
    pub(super) name: String,
    pub(super) per_s: f64,
    pub(super) errors_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// Rates of operations between two looks.
pub(super) fn rates(before: &Ops, after: &Ops, seconds: f64) -> Vec<Rate> {
    let mut rates: Vec<Rate> = after
        .iter()
        .filter_map(|(name, now)| {
            let (count, errors, old) = match before.get(name) {
                Some(old) => {
                    (now.count - old.count.min(now.count), now.errors - old.errors.min(now.errors), &old.latency_ns[..])
                }
                None => (now.count, now.errors, &[][..]),
            };
            let (p50_us, p99_us) = quantiles(old, &now.latency_ns);
            (count > 0).then(|| Rate {
                name: name.clone(),
                per_s: count as f64 / seconds,
                errors_per_s: errors as f64 / seconds,
                p50_us,
                p99_us,
            })
        })
        .collect();
    rates.sort_by(|a, b| b.per_s.total_cmp(&a.per_s).then_with(|| a.name.cmp(&b.name)));
    rates
}

/// Median and 99th percentile, microseconds, of what was added to a histogram.
fn quantiles(before: &[(u64, u64)], after: &[(u64, u64)]) -> (f64, f64) {
    let old: BTreeMap<u64, u64> = before.iter().copied().collect();
    let added: Vec<(u64, u64)> =
        after.iter().map(|(upper, n)| (*upper, n.saturating_sub(old.get(upper).copied().unwrap_or(0)))).collect();
    let total: u64 = added.iter().map(|(_, n)| n).sum();
    let quantile = |share: f64| {
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = added.iter().find(|(_, n)| {
            seen += n;
            seen >= wanted
        });
        at.map_or(0.0, |(upper, _)| *upper as f64 / 1e3)
    };
    (quantile(0.5), quantile(0.99))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::admin::doc::OpDoc;

    fn op(count: u64, latency_ns: &[(u64, u64)]) -> OpDoc {
        OpDoc { count, errors: 0, p50_us: 0.0, p99_us: 0.0, total_s: 0.0, latency_ns: latency_ns.to_vec() }
    }

    #[test]
    fn only_what_happened_since_the_last_look_counts() {
        let before = Ops::from([("stat".into(), op(100, &[(1000, 100)])), ("idle".into(), op(5, &[(1000, 5)]))]);
        let after = Ops::from([
            ("stat".into(), op(200, &[(1000, 110), (4000, 88), (9000, 2)])),
            ("idle".into(), op(5, &[(1000, 5)])),
            ("new".into(), op(2, &[(500, 2)])),
        ]);
        let rates = rates(&before, &after, 2.0);
        assert_eq!(rates.iter().map(|rate| rate.name.as_str()).collect::<Vec<_>>(), ["stat", "new"]);
        assert_eq!((rates[0].per_s, rates[0].p50_us, rates[0].p99_us), (50.0, 4.0, 9.0));
    }
}
