//! The page as plain text, for a file or a pipe; its head is also that of the screen.

use super::Look;
use super::rates::{Rate, rates};
use crate::look::hot;
use crate::output::{human_bytes, human_count, human_time};
use crate::ranks::rank;
use crate::service::admin::doc::RankDoc;
use crate::service::admin::machine::MountDoc;

/// The whole page.
pub(super) fn page(last: &Look, now: &Look) -> String {
    let seconds = now.since(last);
    let status = &now.status;
    let mut out = head(last, now);
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

/// The state of the server, and of its ranks.
pub(super) fn head(last: &Look, now: &Look) -> String {
    let seconds = now.since(last);
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
    out.push_str(&mounted(last, now).map_or(String::new(), |line| format!("{line}\n")));
    out
}

/// The mount in the server's process: its requests and bytes, which come over no wire.
fn mounted(last: &Look, now: &Look) -> Option<String> {
    let (mount, before) = (now.status.mount.as_ref()?, last.status.mount.as_ref()?);
    let bytes = |what: &str| {
        let of = |doc: &MountDoc| doc.bytes.get(what).copied().unwrap_or(0);
        human_bytes((of(mount).saturating_sub(of(before)) as f64 / now.since(last)) as u64)
    };
    let asked = |doc: &MountDoc| doc.ops.values().sum::<u64>();
    let per_s = asked(mount).saturating_sub(asked(before)) as f64 / now.since(last);
    Some(format!(
        "mount {}: {per_s:.0} requests/s  read {}/s  written {}/s",
        mount.path,
        bytes("read"),
        bytes("written")
    ))
}
