//! `loligo top`: rates and latencies of the last interval, repainted. Plain text when stdout is no terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::status::at_once;
use super::{ask, decoupled, hot};
use crate::args::Target;
use crate::output::{Failure, Outcome, human_bytes, human_count, human_time, written};
use crate::ranks::rank;
use crate::service::admin::doc::{OpDoc, RankDoc, StatusDoc};
use crate::target::{self, Found};

type Ops = BTreeMap<String, OpDoc>;

/// One look.
struct Look {
    at: Instant,
    status: StatusDoc,
    ops: Ops,
}

/// An operation in the time between two looks.
#[derive(PartialEq, Debug)]
struct Rate {
    name: String,
    per_s: f64,
    errors_per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Gives directories their paths that their ranks know by number alone. Each is looked for once, so that looking is not what makes them hot.
fn name(found: &Found, names: &mut BTreeMap<u64, Option<String>>, status: &mut StatusDoc) {
    let all = status.ranks.iter().flat_map(|rank| &rank.hottest);
    let mut new: Vec<(u64, Option<String>)> = all.map(|hot| (hot.dir, hot.path.clone())).collect();
    new.retain(|(dir, path)| path.is_none() && !names.contains_key(dir));
    decoupled::paths(found, new.iter_mut().map(|(dir, path)| (*dir, path)));
    names.extend(new);
    for hot in status.ranks.iter_mut().flat_map(|rank| &mut rank.hottest) {
        if hot.path.is_none() {
            hot.path = names.get(&hot.dir).cloned().flatten();
        }
    }
}

/// Shows it, `count` times (0: until Ctrl-C).
pub fn run(target: &Target, interval: f64, count: u64) -> Outcome {
    if !(0.05..=3600.0).contains(&interval) {
        return Err(Failure::usage(format!("--interval {interval}: this must be from 0.05 to 3600 seconds")));
    }
    let found = target::find(target)?;
    let terminal = std::io::stdout().is_terminal();
    let mut last = look(&found)?;
    let mut names = BTreeMap::new();
    let mut shown = 0;
    loop {
        pause(last.at + Duration::from_secs_f64(interval));
        let mut now = look(&found)?;
        name(&found, &mut names, &mut now.status);
        let page = page(&last, &now);
        let mut out = std::io::stdout();
        // Home, the page with the rest of each line cleared, then the rest of the screen: no flicker.
        let shown_now = match terminal {
            true => write!(out, "\x1b[H{}\x1b[J", page.replace('\n', "\x1b[K\n")),
            false => writeln!(out, "{page}"),
        };
        shown_now.and_then(|()| out.flush()).map_err(|e| written("standard output", &e))?;
        last = now;
        shown += 1;
        if shown == count {
            return Ok(());
        }
    }
}

/// Waits until the time for the next look.
fn pause(until: Instant) {
    if let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
}

fn look(found: &Found) -> Result<Look, Failure> {
    let (status, ops) = at_once(|| ask::json(found, "/api/v1/status"), || ask::json(found, "/api/v1/ops"));
    Ok(Look { at: Instant::now(), status: status?, ops: ops? })
}

/// Rates of operations between two looks.
fn rates(before: &Ops, after: &Ops, seconds: f64) -> Vec<Rate> {
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

fn page(last: &Look, now: &Look) -> String {
    let seconds = now.at.duration_since(last.at).as_secs_f64().max(1e-3);
    let status = &now.status;
    let mut out = format!("loligo top  {}\nup {}  {}", status.data, human_time(status.uptime_s), status.health);
    out.push_str(&status.reason.as_ref().map_or("\n".to_string(), |reason| format!(": {reason}\n")));
    if status.ranks.len() > 1 {
        let asked = |rank: &RankDoc| rank.ops.values().map(|op| op.count).sum::<u64>();
        let before = |rank: &RankDoc| last.status.ranks.iter().find(|old| old.rank == rank.rank).map_or(0, asked);
        let per_s = |rank: &RankDoc| (asked(rank).saturating_sub(before(rank)) as f64 / seconds).round() as u64;
        out.push_str(&rank::table(&status.ranks, per_s));
    }
    out.push_str(&rank::not_reached(&status.unreached));
    let alone = if status.ranks.len() == 1 { &status.ranks[..] } else { &[] };
    for (rank, before) in alone.iter().zip(&last.status.ranks) {
        let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let cpu = (rank.cpu_s - before.cpu_s).max(0.0) / seconds * 100.0;
        out.push_str(&format!(
            "rank {}: cpu {cpu:.0} %  load {:.0}  sessions {}  leases {}  waiting {}\nwire: in {}/s  out {}/s\n",
            rank.rank,
            rank.load.auth,
            human_count(rank.sessions),
            human_count(rank.leases),
            human_count(rank.waiting),
            human_bytes(per_s(rank.bytes_in, before.bytes_in) as u64),
            human_bytes(per_s(rank.bytes_out, before.bytes_out) as u64),
        ));
        let (journal, old) = (&rank.journal, &before.journal);
        out.push_str(&format!(
            "journal: lag {}  {:.0} changes/s  {:.0} syncs/s  outstanding {} of {}\n",
            human_count(journal.last_lsn.saturating_sub(journal.durable_lsn)),
            per_s(journal.last_lsn, old.last_lsn),
            per_s(journal.syncs, old.syncs),
            human_bytes(journal.outstanding_bytes),
            human_bytes(journal.limit_bytes),
        ));
        out.push_str(&format!(
            "cache: {} inodes  {} of {}  dirty {}  checkpoints {:.1}/s\n",
            human_count(rank.cache_inodes),
            human_bytes(rank.cache_bytes),
            human_bytes(rank.cache_limit_bytes),
            human_count(rank.dirty_records),
            per_s(rank.checkpoints.done, before.checkpoints.done),
        ));
    }
    out.push_str(&format!(
        "\n{:<14} {:>11} {:>10} {:>10} {:>10}\n",
        "operation", "ops/s", "errors/s", "p50 us", "p99 us"
    ));
    for rate in rates(&last.ops, &now.ops, seconds) {
        let Rate { name, per_s, errors_per_s, p50_us, p99_us } = rate;
        out.push_str(&format!("{name:<14} {per_s:>11.0} {errors_per_s:>10.1} {p50_us:>10.1} {p99_us:>10.1}\n"));
    }
    let hottest = hot::table(&status.ranks);
    if !hottest.is_empty() {
        out.push_str(&format!("\n{hottest}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

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
