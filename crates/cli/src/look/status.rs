//! `loligo status`: what a server does and how it is, for a person or as JSON.

use std::collections::{BTreeMap, BTreeSet};

use super::{ask, counted as counters, decoupled, hot};
use crate::args::Target;
use crate::output::{Outcome, counted, human_bytes, human_count, human_time, put};
use crate::ranks::rank;
use crate::service::admin::balancer::VersionDoc;
use crate::service::admin::decoupled::DecoupledDoc;
use crate::service::admin::doc::{DamagedDoc, OpDoc, RankDoc, ServerDoc, SessionDoc, StatusDoc};
use crate::service::waiting;
use crate::settings::Given;
use crate::target::{self, Found};

/// Files shown whose data is damaged; `--json` has all that are known.
const DAMAGED_SHOWN: usize = 20;
/// Sessions shown; `/api/v1/sessions` has all.
const SESSIONS_SHOWN: usize = 20;
/// The least width of the names of operations.
const OP_WIDTH: usize = 14;
/// The least width of the numbers of sessions.
const ID_WIDTH: usize = 7;
/// Health states of a server that answers requests.
const SERVING: [&str; 2] = ["serving", "damaged"];

/// Prints it.
pub fn run(target: &Target, json: bool, given: &Given) -> Outcome {
    let found = target::find(target)?;
    if json {
        let (status, sessions) =
            at_once(|| ask::json(&found, "/api/v1/status"), || ask::json(&found, "/api/v1/sessions"));
        let (mut status, sessions): (serde_json::Value, serde_json::Value) = (status?, sessions?);
        name_all_json(&found, &mut status);
        kept_json(&found, given, &mut status);
        status["sessions"] = sessions;
        return put(format_args!("{status:#}"));
    }
    let (status, (sessions, ops)) = at_once(
        || ask::json(&found, "/api/v1/status"),
        || at_once(|| ask::json(&found, "/api/v1/sessions"), || ask::json(&found, "/api/v1/ops")),
    );
    let (sessions, mut status): (Vec<SessionDoc>, StatusDoc) = (sessions?, status?);
    let all = status.ranks.iter_mut().flat_map(|rank| &mut rank.decoupled);
    waiting::name_files(&status.fs_id, given, found.data.as_deref(), all);
    // Of ranks that do not serve nobody is told anything.
    if SERVING.contains(&&*status.health) && status.unreached.is_empty() {
        name_all(&found, &mut status);
    }
    put(page(&status, &ops?, &sessions).trim_end())?;
    decoupled::failed_stages(&status.ranks, target.path.as_deref()).into_iter().try_for_each(put)
}

/// Which files of this machine hold changes of decoupled directories.
fn kept_json(found: &Found, given: &Given, status: &mut serde_json::Value) {
    let fs_id = status["fs_id"].as_str().unwrap_or_default().to_string();
    let ranks = status["ranks"].as_array_mut().into_iter().flatten();
    let all = ranks.filter_map(|rank| rank.get_mut("decoupled")?.as_array_mut()).flatten();
    let (mut places, mut docs) = (Vec::new(), Vec::new());
    for one in all {
        if let Ok(doc) = serde_json::from_value::<DecoupledDoc>(one.clone()) {
            docs.push(doc);
            places.push(one);
        }
    }
    waiting::name_files(&fs_id, given, found.data.as_deref(), &mut docs);
    for (place, doc) in places.into_iter().zip(docs) {
        if let Some(file) = doc.kept_file {
            place["kept_file"] = file.into();
        }
    }
}

/// As the page for people, where the document is passed on as it is, with what a newer server says.
fn name_all_json(found: &Found, status: &mut serde_json::Value) {
    let reached = status["unreached"].as_array().is_none_or(Vec::is_empty);
    if !status["health"].as_str().is_some_and(|health| SERVING.contains(&health)) || !reached {
        return;
    }
    for (list, number) in [("decoupled", "dir"), ("damaged", "inode"), ("hottest", "dir")] {
        let ranks = status["ranks"].as_array_mut().into_iter().flatten();
        let mut all: Vec<&mut serde_json::Value> =
            ranks.filter_map(|rank| rank.get_mut(list)?.as_array_mut()).flatten().collect();
        let text = |path: &serde_json::Value| path.as_str().map(String::from);
        let mut paths: Vec<(u64, Option<String>)> =
            all.iter().map(|one| (one[number].as_u64().unwrap_or(0), text(&one["path"]))).collect();
        decoupled::paths(found, paths.iter_mut().map(|(ino, path)| (*ino, path)));
        for (one, (_, path)) in all.iter_mut().zip(paths) {
            one["path"] = path.into();
        }
    }
}

/// Gives what ranks know by its number alone its path: the names above it may be other ranks', or in the table alone.
pub fn name_all(found: &Found, status: &mut StatusDoc) {
    let all = status.ranks.iter_mut().flat_map(|rank| {
        let decoupled = rank.decoupled.iter_mut().map(|one| (one.dir, &mut one.path));
        let damaged = rank.damaged.iter_mut().map(|one| (one.inode, &mut one.path));
        decoupled.chain(damaged).chain(rank.hottest.iter_mut().map(|one| (one.dir, &mut one.path)))
    });
    decoupled::paths(found, all);
}

/// Both: a server that waits for others, which may hang, does so for all that it is asked at the same time.
pub fn at_once<A, B: Send>(one: impl FnOnce() -> A, other: impl FnOnce() -> B + Send) -> (A, B) {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let one = one();
        (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn line(out: &mut String, label: &str, text: &str) {
    out.push_str(&format!("{label:<12} {text}\n"));
}

fn page(status: &StatusDoc, ops: &BTreeMap<String, OpDoc>, sessions: &[SessionDoc]) -> String {
    let mut out = String::new();
    line(&mut out, "file system", &status.fs_id);
    line(&mut out, "data", &status.data);
    let up = human_time(status.uptime_s);
    line(&mut out, "server", &format!("process {}, up {up}, version {}", status.pid, status.version));
    let reason = status.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    line(&mut out, "health", &format!("{}{reason}", status.health));
    line(&mut out, "address", &status.addresses.join(", "));
    if let Some(mount) = &status.mount {
        line(&mut out, "mount", &format!("{}, {} known to the kernel", mount.path, counted(mount.inodes, "inode")));
    }
    let (free, total) = (human_bytes(status.space.free_bytes), human_bytes(status.space.total_bytes));
    line(&mut out, "disk", &format!("{free} free of {total}"));
    line(
        &mut out,
        "table",
        &format!(
            "{}; about {} rows, by an estimate of the store",
            human_bytes(status.table.bytes),
            human_count(status.table.estimated_keys)
        ),
    );
    if let Some(now) = &status.balancer
        && let Some(VersionDoc { policy, name, version, .. }) = &now.policy
    {
        let moves: u64 = status.ranks.iter().map(|rank| rank.balancer.moves).sum();
        let faults: u64 = status.ranks.iter().map(|rank| rank.balancer.faults).sum();
        let default = if now.chosen { "" } else { ", the default" };
        let text = format!(
            "{name}, version {version} (policy {policy}){default}; {}, {}",
            counted(moves, "move"),
            counted(faults, "failure")
        );
        line(&mut out, "balancer", &text);
    }
    let names: BTreeSet<&str> =
        status.ranks.iter().flat_map(|rank| &rank.balancer.policies).filter_map(|one| one.name.as_deref()).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        line(&mut out, "named", &format!("some directories are balanced by {}", names.join(", ")));
    }
    servers(&mut out, &status.servers);
    if let ([rank], []) = (&status.ranks[..], &status.unreached[..]) {
        rank_lines(&mut out, rank);
    }
    for (label, text) in counters::lines(status.ranks.iter().map(|rank| &rank.counted)) {
        line(&mut out, label, &text);
    }
    out.push('\n');
    out.push_str(&rank::table(&status.ranks, |rank| rank.requests_per_s));
    out.push_str(&rank::not_reached(&status.unreached));
    out.push_str(&damaged(&status.ranks));
    out.push_str(&decoupled::lines(&status.ranks, &status.data));
    out.push('\n');
    let hottest = hot::table(&status.ranks);
    if !hottest.is_empty() {
        out.push_str(&hottest);
        out.push('\n');
    }
    ops_table(&mut out, ops);
    out.push('\n');
    sessions_table(&mut out, sessions);
    out
}

/// A line for each file whose data could not be read or written.
fn damaged(ranks: &[RankDoc]) -> String {
    let several = ranks.len() > 1;
    let all = ranks.iter().flat_map(|rank| rank.damaged.iter().map(|one| (rank.rank, one)));
    let line = |(rank, one): (u16, &DamagedDoc)| {
        let name =
            one.path.as_ref().map_or_else(String::new, |path| format!("{} ", path.replace(char::is_control, "?")));
        let at = if several { format!(" at rank {rank}") } else { String::new() };
        format!("damaged{at}: {name}(inode {}), {} times: {}\n", one.inode, human_count(one.times), one.text)
    };
    all.take(DAMAGED_SHOWN).map(line).collect()
}

/// A line for each of the servers that share the store.
fn servers(out: &mut String, servers: &[ServerDoc]) {
    for server in servers {
        let ranks: Vec<String> = server.ranks.iter().map(u32::to_string).collect();
        let mut words = vec![match ranks.is_empty() {
            true => "no rank".to_string(),
            false => format!("rank {}", ranks.join(", ")),
        }];
        let flags = [
            (server.leads, "leads"),
            (server.standby, "stands by"),
            (server.stops, "is about to end"),
            (server.gone, "is gone"),
            (server.this, "this one"),
        ];
        words.extend(flags.iter().filter(|(is, _)| *is).map(|(_, word)| word.to_string()));
        line(out, "shared by", &format!("{}, number {}: {}", server.name, server.number, words.join("; ")));
    }
}

fn rank_lines(out: &mut String, rank: &RankDoc) {
    let journal = &rank.journal;
    line(
        out,
        "journal",
        &format!(
            "change {}, {} not yet durable; {} outstanding of {}",
            human_count(journal.last_lsn),
            human_count(journal.last_lsn.saturating_sub(journal.durable_lsn)),
            human_bytes(journal.outstanding_bytes),
            human_bytes(journal.limit_bytes)
        ),
    );
    line(
        out,
        "syncs",
        &format!(
            "p50 {:.0} us, p99 {:.0} us, {:.1} changes each",
            journal.sync_p50_us, journal.sync_p99_us, journal.records_per_sync
        ),
    );
    line(
        out,
        "cache",
        &format!(
            "{}, {} of {}; {} not yet in the table",
            counted(rank.cache_inodes, "inode"),
            human_bytes(rank.cache_bytes),
            human_bytes(rank.cache_limit_bytes),
            counted(rank.dirty_records, "row")
        ),
    );
    line(
        out,
        "clients",
        &format!(
            "{}, {}, {}",
            counted(rank.sessions, "session"),
            counted(rank.connections, "connection"),
            counted(rank.waiting, "request waiting")
        ),
    );
    if rank.relaxed_directories > 0 {
        line(
            out,
            "relaxed",
            &format!(
                "{} with that policy, {} inodes ahead of the journal, the oldest change {} old",
                human_count(rank.relaxed_directories),
                human_count(rank.relaxed_behind),
                human_time(rank.relaxed_lag_ms as f64 / 1000.0)
            ),
        );
    }
    line(
        out,
        "leases",
        &format!(
            "{}, {} being recalled; {}",
            human_count(rank.leases),
            human_count(rank.recalls_pending),
            counted(rank.locks, "lock")
        ),
    );
    if rank.orphans > 0 {
        line(
            out,
            "orphans",
            &match rank.orphans {
                1 => "1 file without a name that is still open".to_string(),
                n => format!("{} files without a name that are still open", human_count(n)),
            },
        );
    }
}

fn ops_table(out: &mut String, ops: &BTreeMap<String, OpDoc>) {
    let width = ops.keys().map(String::len).fold(OP_WIDTH, Ord::max);
    out.push_str(&format!(
        "{:<width$} {:>13} {:>9} {:>10} {:>10}\n",
        "operation", "answered", "errors", "p50 us", "p99 us"
    ));
    let mut ops: Vec<_> = ops.iter().collect();
    ops.sort_by_key(|(name, op)| (std::cmp::Reverse(op.count), *name));
    for (name, op) in ops {
        let (count, errors) = (human_count(op.count), human_count(op.errors));
        out.push_str(&format!("{name:<width$} {count:>13} {errors:>9} {:>10.1} {:>10.1}\n", op.p50_us, op.p99_us));
    }
}

fn sessions_table(out: &mut String, sessions: &[SessionDoc]) {
    // Of the second rank on numbers have 15 digits and more.
    let width = sessions.iter().take(SESSIONS_SHOWN).map(|s| s.id.to_string().len()).fold(ID_WIDTH, Ord::max);
    out.push_str(&format!(
        "{:>4} {:>width$} {:>6} {:>5} {:>7} {:>11} {:<5} name\n",
        "rank", "session", "user", "opens", "leases", "requests", "state"
    ));
    for s in sessions.iter().take(SESSIONS_SHOWN) {
        let state = match (s.connected, s.in_flight) {
            _ if s.ending => "ends",
            (false, _) => "away",
            (true, 0) => "idle",
            (true, _) => "busy",
        };
        let requests = human_count(s.requests);
        let identity = s.identity.as_ref().map(|identity| format!(", identity {identity}")).unwrap_or_default();
        let direct = if s.direct { ", direct data" } else { "" };
        let user = s.uid.map_or("-".to_owned(), |uid| uid.to_string());
        out.push_str(&format!(
            "{:>4} {:>width$} {user:>6} {:>5} {:>7} {requests:>11} {state:<5} {}{identity}{direct}\n",
            s.rank,
            s.id,
            s.opens,
            s.leases,
            s.name.replace(char::is_control, "?")
        ));
    }
    if sessions.len() > SESSIONS_SHOWN {
        out.push_str(&format!("... and {} more; --json shows all\n", sessions.len() - SESSIONS_SHOWN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_all_ranks_and_operations_with_long_names_stand_in_columns() {
        let session = |rank: u16, id: u64| SessionDoc {
            id,
            rank,
            name: format!("mount /{rank}\n"),
            uid: Some(1000),
            local: false,
            connected: true,
            ending: false,
            identity: None,
            direct: false,
            idle_ms: 0,
            opens: 1,
            leases: 2,
            locks: 0,
            in_flight: 0,
            requests: 1_234_567,
            errors: 0,
        };
        let mut out = String::new();
        sessions_table(&mut out, &[session(0, 1), session(1, (1 << 48) + 2), session(63, (63 << 48) + 2)]);
        let columns = |word: &'static str| out.lines().map(|line| line.find(word)).collect::<Vec<_>>();
        assert_eq!(columns("mount")[1..], [out.lines().next().and_then(|head| head.find("name")); 3], "{out}");
        assert!(out.lines().count() == 4 && columns("?")[1..].iter().all(Option::is_some), "{out}");
        let op = |count| OpDoc { count, errors: 0, p50_us: 1.0, p99_us: 2.0, total_s: 0.0, latency_ns: Vec::new() };
        let mut out = String::new();
        ops_table(&mut out, &BTreeMap::from([("a_name_that_is_longer".into(), op(5)), ("stat".into(), op(7))]));
        let lengths: BTreeSet<usize> = out.lines().map(str::len).collect();
        assert_eq!(lengths.len(), 1, "{out}");
    }
}
