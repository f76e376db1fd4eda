//! Counts and latencies of operations, added up over ranks: those of this process, and what others say of theirs. The document of one is in
//! `doc.rs`.

use std::collections::BTreeMap;

use loligo_driver::server::metrics::{Distribution, Metrics};

use super::doc::{OpDoc, us};

fn op_doc(latency: &Distribution, count: u64, errors: u64, buckets: bool) -> OpDoc {
    OpDoc {
        count,
        errors,
        p50_us: us(latency.quantile(0.5)),
        p99_us: us(latency.quantile(0.99)),
        total_s: latency.sum as f64 / 1e9,
        latency_ns: if buckets { latency.buckets().collect() } else { Vec::new() },
    }
}

/// Counts and latencies by operation, over these ranks.
pub fn of<'a>(ranks: impl Iterator<Item = &'a Metrics>, buckets: bool) -> BTreeMap<String, OpDoc> {
    let mut all: BTreeMap<&str, (Distribution, u64, u64)> = BTreeMap::new();
    for metrics in ranks {
        for (name, op) in metrics.ops.iter().filter(|(_, op)| op.done.get() > 0) {
            let (latency, count, errors) = all.entry(name).or_default();
            latency.merge(&op.latency.snapshot());
            *count += op.done.get();
            *errors += op.errors.get();
        }
    }
    let doc = |(name, (latency, count, errors)): (&str, (Distribution, u64, u64))| {
        (name.to_string(), op_doc(&latency, count, errors, buckets))
    };
    all.into_iter().map(doc).collect()
}

/// Adds what others have counted of an operation.
pub fn add(op: &mut OpDoc, other: &OpDoc) {
    let mut buckets: BTreeMap<u64, u64> = op.latency_ns.iter().copied().collect();
    for (upper, n) in &other.latency_ns {
        *buckets.entry(*upper).or_default() += n;
    }
    op.latency_ns = buckets.into_iter().collect();
    (op.count, op.errors, op.total_s) = (op.count + other.count, op.errors + other.errors, op.total_s + other.total_s);
    (op.p50_us, op.p99_us) = (quantile(&op.latency_ns, 0.5), quantile(&op.latency_ns, 0.99));
}

/// Of buckets, microseconds.
fn quantile(buckets: &[(u64, u64)], share: f64) -> f64 {
    let total: u64 = buckets.iter().map(|(_, n)| n).sum();
    let wanted = (total as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    let at = buckets.iter().find(|(_, n)| {
        seen += n;
        seen >= wanted
    });
    at.map_or(0.0, |(upper, _)| us(*upper))
}

/// The counters of all these ranks.
pub fn all_metrics(ranks: &[loligo_driver::RankStatus]) -> impl Iterator<Item = &Metrics> {
    ranks.iter().map(|rank| &*rank.metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_servers_have_counted_of_an_operation_is_added_up() {
        let op = |count, errors, latency_ns: &[(u64, u64)]| OpDoc {
            count,
            errors,
            p50_us: 0.0,
            p99_us: 0.0,
            total_s: 1.0,
            latency_ns: latency_ns.to_vec(),
        };
        let mut one = op(60, 1, &[(1000, 50), (4000, 10)]);
        add(&mut one, &op(40, 2, &[(500, 38), (4000, 1), (9000, 1)]));
        assert_eq!((one.count, one.errors, one.total_s), (100, 3, 2.0));
        assert_eq!(one.latency_ns, [(500, 38), (1000, 50), (4000, 11), (9000, 1)]);
        assert_eq!((one.p50_us, one.p99_us), (1.0, 4.0));
    }
}
