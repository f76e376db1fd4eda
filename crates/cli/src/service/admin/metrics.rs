//! The metrics: their names, units and stability in one table, and the text that Prometheus reads.
//!
//! A stable name keeps its meaning; the others may change with what they measure. Times are seconds, sizes bytes. What
//! each rank has of its own has the label `rank`.

use std::fmt::Write;

use loligo_driver::server::metrics::{Distribution, OpMetrics};
use loligo_driver::{RankStatus, Status};
use loligo_mds::{WaitCount, WalkCount};
use loligo_types::Load;

use super::Source;
use super::tally::names_of;

/// Of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kind, stability and help text of a metric.
struct Metric {
    name: &'static str,
    kind: &'static str,
    stable: bool,
    help: &'static str,
}

const fn stable(name: &'static str, kind: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, stable: true, help }
}

const fn internal(name: &'static str, kind: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, stable: false, help }
}

const OPS_TOTAL: Metric = stable("loligo_ops_total", "counter", "requests answered, by operation");
const OP_ERRORS: Metric = stable("loligo_op_errors_total", "counter", "requests answered with an error, by operation");
const OP_SECONDS: Metric =
    stable("loligo_op_seconds", "histogram", "time from the arrival of a request to its answer, by operation");
const SESSIONS: Metric = stable("loligo_sessions", "gauge", "sessions; state: connected or away");
const CONNECTIONS: Metric = stable("loligo_connections", "gauge", "open connections");
const ACCEPTED: Metric = stable("loligo_connections_total", "counter", "connections accepted");
const DROPPED: Metric = stable(
    "loligo_connections_dropped_total",
    "counter",
    "connections closed for breaking the protocol, or for their slowness",
);
const REFUSED: Metric = stable(
    "loligo_connections_refused_total",
    "counter",
    "connections closed because there was no room for more of their kind",
);
const BYTES_IN: Metric =
    stable("loligo_received_bytes_total", "counter", "bytes received from clients, file data included");
const BYTES_OUT: Metric = stable("loligo_sent_bytes_total", "counter", "bytes sent to clients, file data included");
const LEASES: Metric = stable("loligo_leases", "gauge", "leases given to clients");
const LEASE_BYTES: Metric = internal("loligo_lease_bytes", "gauge", "memory of the leases");
const RECALLS: Metric = stable("loligo_recalls_total", "counter", "leases asked back");
const RECALLS_PENDING: Metric = stable("loligo_recalls_pending", "gauge", "leases asked back and not given yet");
const EVICTED: Metric =
    stable("loligo_evictions_total", "counter", "sessions ended because they were silent or kept a lease");
const LOCKS: Metric = stable("loligo_locks", "gauge", "locked ranges of files");
const WAITING: Metric =
    stable("loligo_waiting_requests", "gauge", "requests that wait for a lease, a lock, the table or grace");
const GATED: Metric = internal("loligo_gated_answers", "gauge", "answers that wait for the journal");
const RELAXED_DIRECTORIES: Metric =
    stable("loligo_relaxed_directories", "gauge", "directories whose policy lets answers come before the journal");
const RELAXED_BEHIND: Metric =
    stable("loligo_relaxed_behind", "gauge", "inodes below such directories whose last change is not durable");
const RELAXED_LAG: Metric = stable("loligo_relaxed_lag_seconds", "gauge", "age of the oldest such change");
const RELAXED_ANSWERS: Metric =
    stable("loligo_relaxed_answers_total", "counter", "answers that came before the journal was durable");
const CACHE_BYTES: Metric = stable("loligo_cache_bytes", "gauge", "memory of the metadata cache");
const CACHE_HASHES: Metric =
    stable("loligo_cache_hash_bytes", "gauge", "of that memory for hashes of names that are not in it themselves");
const CACHE_LIMIT: Metric = stable("loligo_cache_limit_bytes", "gauge", "what the metadata cache may take");
const CACHE_INODES: Metric = stable("loligo_cache_inodes", "gauge", "inodes in the cache");
const DIRTY: Metric = stable("loligo_dirty_records", "gauge", "records changed and not yet in the table");
const ORPHANS: Metric = stable("loligo_orphans", "gauge", "files without a name that are still open");
const LOADS: Metric = internal("loligo_table_loads_total", "counter", "reads of the table for what was not cached");
const LOAD_ROWS: Metric = internal("loligo_table_load_rows_total", "counter", "rows that they read");
const TABLE_KEYS: Metric = stable(
    "loligo_table_keys",
    "gauge",
    "rows of the table, estimated: those that were written again or removed may count until they are compacted",
);
const TABLE_BYTES: Metric = stable("loligo_table_bytes", "gauge", "bytes of the table on disk, estimated");
const JOURNAL_RECORDS: Metric = stable("loligo_journal_records_total", "counter", "changes written to the journal");
const JOURNAL_WRITTEN: Metric = stable("loligo_journal_written_bytes_total", "counter", "bytes written to the journal");
const JOURNAL_LAG: Metric = stable("loligo_journal_lag_records", "gauge", "changes made and not yet durable");
const JOURNAL_OUTSTANDING: Metric = stable("loligo_journal_outstanding_bytes", "gauge", "journal not yet in the table");
const JOURNAL_LIMIT: Metric = stable("loligo_journal_limit_bytes", "gauge", "above this changes wait for checkpoints");
const JOURNAL_SYNC: Metric = stable("loligo_journal_sync_seconds", "histogram", "time of a sync of the journal");
const JOURNAL_FULL: Metric = stable("loligo_journal_full", "gauge", "1 while the journal waits for space on the disk");
const DATA_ERRORS: Metric = stable(
    "loligo_data_errors_total",
    "counter",
    "times that data of a file could not be read or written; a full store does not count",
);
const DAMAGED_FILES: Metric = stable(
    "loligo_damaged_files",
    "gauge",
    "files of which that is so, until nothing of such data is left; at most 64",
);
const CHECKPOINTS: Metric = stable("loligo_checkpoints_total", "counter", "checkpoints written into the table");
const CHECKPOINTS_FAILED: Metric =
    stable("loligo_checkpoints_failed_total", "counter", "checkpoints that failed and were tried again");
const CHECKPOINT_RECORDS: Metric = stable("loligo_checkpoint_records_total", "counter", "records in them");
const CHECKPOINT_SECONDS: Metric = stable("loligo_checkpoint_seconds", "histogram", "time of a checkpoint");
const MERGE_ROWS: Metric =
    stable("loligo_merge_rows_total", "counter", "rows of merges that went into the table in bulk");
const MERGE_ROWS_SECONDS: Metric =
    stable("loligo_merge_rows_seconds", "histogram", "time in which the rows of such a merge were made and written");
const RANK_CPU: Metric = stable("loligo_rank_cpu_seconds_total", "counter", "CPU time of the rank's thread");
const REDIRECTS: Metric =
    stable("loligo_redirects_total", "counter", "requests answered by sending the client on to another rank");
const BALANCE_POLICY: Metric =
    stable("loligo_balancer_policy", "gauge", "number of the policy by which the rank balances; 0: none");
const BALANCE_MOVES: Metric = stable(
    "loligo_balancer_moves_total",
    "counter",
    "migrations that the balancer's policy wanted and that were begun",
);
const BALANCE_REFUSED: Metric =
    stable("loligo_balancer_refused_total", "counter", "migrations that it wanted and that could not be begun");
const BALANCE_FAULTS: Metric = stable("loligo_balancer_faults_total", "counter", "ticks at which the policy failed");
const BALANCE_UNANSWERED: Metric =
    stable("loligo_balancer_unanswered_total", "counter", "ticks to which the policy gave no answer in time");
const BALANCE_TOOK: Metric =
    stable("loligo_balancer_decision_seconds", "gauge", "how long the last decision of the policy took");
const LOAD_AGE: Metric = internal(
    "loligo_rank_load_age_seconds",
    "gauge",
    "age of what a rank knows of the load of another one (label of); absent if it never heard of it",
);
const HEAT_READS: Metric =
    stable("loligo_heat_reads_total", "counter", "reads of inodes and names in directories, from samples");
const HEAT_WRITES: Metric =
    stable("loligo_heat_writes_total", "counter", "changes of inodes and names in directories, from samples");
const HEAT_READDIRS: Metric = stable("loligo_heat_readdirs_total", "counter", "listings of directories, from samples");
const HEAT_FETCHES: Metric =
    stable("loligo_heat_fetches_total", "counter", "reads of the table, one for each directory and read");
const HEAT_STORES: Metric =
    stable("loligo_heat_stores_total", "counter", "writes into the table, one for each directory and checkpoint");
const SPLITS: Metric = stable("loligo_dir_splits_total", "counter", "times that a directory was split into fragments");
const SCATTERED: Metric = stable(
    "loligo_dirs_scattered_total",
    "counter",
    "directories that were made at a rank which their number names (placement giga)",
);
const DATA_TAKEN: Metric = stable(
    "loligo_journal_data_bytes_total",
    "counter",
    "bytes of file data that went into the journal, small synced writes, and not into objects that are synced then",
);
const DATA_DIRECT: Metric = stable(
    "loligo_object_direct_bytes_total",
    "counter",
    "bytes of file data that were written to objects, and were in no journal",
);
const DATA_LOGGED: Metric = stable(
    "loligo_object_logged_bytes_total",
    "counter",
    "bytes of file data that were written to objects after the journal had them",
);
const OBJECT_SYNC: Metric = stable("loligo_object_sync_seconds", "histogram", "time of a sync of objects");
const DATA_HELD: Metric =
    stable("loligo_journal_data_held_bytes", "gauge", "those of them that only the journal is known to have durably");
const SPREADS: Metric = stable(
    "loligo_dir_spreads_total",
    "counter",
    "fragments of directories under placement giga that went to other ranks because the directories had grown",
);
const REPLICAS_HELD: Metric =
    stable("loligo_replicas_held", "gauge", "replicas of other ranks' directories, for paths that lead through them");
const REPLICAS_LENT: Metric =
    stable("loligo_replicas_lent", "gauge", "directories of the rank of which other ranks hold replicas");
const PATH_STEPS: Metric =
    stable("loligo_path_steps_total", "counter", "names on the way of paths that were found by replicas");
const PATH_SHORTCUTS: Metric =
    stable("loligo_path_shortcuts", "gauge", "paths whose directories the rank knows as one step");
const PATH_SHORTCUTS_TAKEN: Metric =
    stable("loligo_path_shortcuts_taken_total", "counter", "paths whose directories were found in one step");
const LOOKUP_LEASES: Metric = stable(
    "loligo_lookup_leases_total",
    "counter",
    "promises to clients that a directory stays where it is for a time",
);
const LOOKUP_LEASE_WAITS: Metric =
    stable("loligo_lookup_lease_waits_total", "counter", "changes that had to wait for the end of one");
const PATH_PARTINGS: Metric = stable(
    "loligo_path_partings_total",
    "counter",
    "names on the way of paths that were not, so that clients had to go on at another rank",
);
const REPLICA_ASKS: Metric =
    stable("loligo_replica_asks_total", "counter", "questions to other ranks for replicas and for names on the way");
const REPLICAS_ASKED_BACK: Metric = stable(
    "loligo_replicas_asked_back_total",
    "counter",
    "replicas that were asked back because a directory was about to change",
);
const PLACED_OPS: Metric = stable(
    "loligo_placed_ops_total",
    "counter",
    "requests answered, by how the directory was placed that they were in (a file's directory; a directory itself), and by operation",
);
const PLACED_REDIRECTS: Metric = stable(
    "loligo_placed_redirects_total",
    "counter",
    "requests answered by sending the client on to another rank, by how the directory was placed that they were in",
);
const WAITS: Metric = stable(
    "loligo_waits_total",
    "counter",
    "waits of requests that have ended, by what was waited for: recall and close are leases, lock a lock on a file, borrow and locked what other \
     ranks lend, replicas what they hold of directories on paths",
);
const WAIT_SECONDS: Metric =
    stable("loligo_wait_seconds_total", "counter", "how long these waits took, in whole milliseconds each");
const WALKS: Metric = stable("loligo_walks_total", "counter", "paths answered, by how many names they had");
const WALK_SHORTCUTS: Metric =
    stable("loligo_walk_shortcuts_total", "counter", "of those paths, how many began with a shortcut");
const WALK_PARTINGS: Metric = stable(
    "loligo_walk_partings_total",
    "counter",
    "of those paths, after how many the client had to go on at another rank",
);
const MERGES: Metric = stable("loligo_dir_merges_total", "counter", "times that fragments of a directory were merged");
const DECOUPLED: Metric =
    stable("loligo_decoupled_subtrees", "gauge", "subtrees that clients have for themselves, to be merged");
const DECOUPLED_AWAY: Metric = stable(
    "loligo_decoupled_subtrees_away",
    "gauge",
    "of them, those whose owners are not heard: they are taken back after a while",
);
const SUBTREE_MERGES: Metric =
    stable("loligo_subtree_merges_total", "counter", "times that what an owner of a decoupled subtree made was merged");
const SUBTREE_CONFLICTS: Metric = stable(
    "loligo_subtree_conflicts_total",
    "counter",
    "what did not go together with what others did in a decoupled subtree when it was merged",
);
const DECOUPLINGS_LOST: Metric = stable(
    "loligo_decouplings_lost_total",
    "counter",
    "decoupled subtrees taken back because their owners were not heard for too long",
);
const ROUNDS: Metric = internal("loligo_rounds_total", "counter", "rounds of the rank's loop");
const SPACE_TOTAL: Metric = stable("loligo_disk_bytes", "gauge", "size of the disk below the data directory");
const SPACE_FREE: Metric = stable("loligo_disk_free_bytes", "gauge", "free there");
const UP: Metric =
    stable("loligo_serving", "gauge", "1 if it serves, 0 during grace, with a full disk or after a failure");
const UPTIME: Metric = stable("loligo_uptime_seconds", "gauge", "since the start");
const MOUNT_OPS: Metric =
    stable("loligo_mount_ops_total", "counter", "requests of the kernel to the mount of this process, by operation");
const MOUNT_ERRORS: Metric = stable("loligo_mount_errors_total", "counter", "errors given to the kernel, by kind");
const MOUNT_BYTES: Metric =
    stable("loligo_mount_bytes_total", "counter", "bytes of file data that the kernel read and wrote, by direction");
const MOUNT_FSYNC: Metric = stable(
    "loligo_mount_fsync_seconds",
    "histogram",
    "time until an fsync of a program, or of the kernel for O_SYNC, was answered",
);
const MOUNT_NOTIFICATIONS: Metric =
    stable("loligo_mount_notifications_total", "counter", "times the kernel was told to drop what it cached, by kind");
const MOUNT_INODES: Metric = stable("loligo_mount_inodes", "gauge", "inodes that the kernel knows");

/// Buckets of the histograms end at powers of two of nanoseconds from about 1 us to 17 s.
const FIRST_BUCKET: u32 = 10;
const LAST_BUCKET: u32 = 34;

/// The page.
pub fn render(source: &Source, status: &Status) -> String {
    let mut page = Page::default();
    server(&mut page, source, status);
    operations(&mut page, status);
    counted(&mut page, status);
    clients(&mut page, status);
    memory(&mut page, source, status);
    disk(&mut page, status);
    load(&mut page, status);
    mount(&mut page, source);
    page.0
}

fn server(page: &mut Page, source: &Source, status: &Status) {
    let serving = matches!(super::doc::health(status).0, "serving" | "damaged");
    page.one(&UP, u64::from(serving) as f64);
    page.one(&UPTIME, source.uptime_s());
    page.ranks(&RANK_CPU, status, |rank| rank.metrics.rank_cpu_ns.get() as f64 / 1e9);
    page.ranks(&ROUNDS, status, |rank| rank.metrics.rounds.get() as f64);
}

fn operations(page: &mut Page, status: &Status) {
    for (metric, value) in
        [(&OPS_TOTAL, (|op| op.done.get()) as fn(&OpMetrics) -> u64), (&OP_ERRORS, |op| op.errors.get())]
    {
        page.head(metric);
        for rank in &status.ranks {
            for (name, op) in rank.metrics.ops.iter() {
                page.sample(metric, &format!("rank=\"{}\",op=\"{name}\"", rank.rank), value(op) as f64);
            }
        }
    }
    page.head(&OP_SECONDS);
    for rank in &status.ranks {
        for (name, op) in rank.metrics.ops.iter().filter(|(_, op)| op.done.get() > 0) {
            let labels = format!("rank=\"{}\",op=\"{name}\"", rank.rank);
            page.histogram(&OP_SECONDS, &labels, &op.latency.snapshot());
        }
    }
}

fn counted(page: &mut Page, status: &Status) {
    page.each(&PLACED_OPS, status, |rank, put| {
        for (placement, op, count) in &rank.mds.tally.placed {
            put(&format!("placement=\"{}\",op=\"{op}\"", placement.name()), *count as f64);
        }
    });
    page.each(&PLACED_REDIRECTS, status, |rank, put| {
        for (placement, count) in &rank.mds.tally.redirected {
            put(&format!("placement=\"{}\"", placement.name()), *count as f64);
        }
    });
    let waits = |value: fn(&WaitCount) -> f64| {
        move |rank: &RankStatus, put: &mut dyn FnMut(&str, f64)| {
            rank.mds.tally.waits.iter().for_each(|(why, waited)| put(&format!("why=\"{why}\""), value(waited)));
        }
    };
    page.each(&WAITS, status, waits(|waited| waited.count as f64));
    page.each(&WAIT_SECONDS, status, waits(|waited| waited.ms as f64 / 1e3));
    let walks = |value: fn(&WalkCount) -> u64| {
        move |rank: &RankStatus, put: &mut dyn FnMut(&str, f64)| {
            let put = |walks| put(&format!("names=\"{}\"", names_of(walks)), value(walks) as f64);
            rank.mds.tally.walks.iter().for_each(put);
        }
    };
    page.each(&WALKS, status, walks(|walks| walks.all));
    page.each(&WALK_SHORTCUTS, status, walks(|walks| walks.shortcut));
    page.each(&WALK_PARTINGS, status, walks(|walks| walks.parted));
}

fn clients(page: &mut Page, status: &Status) {
    page.head(&SESSIONS);
    for rank in &status.ranks {
        let connected = rank.mds.sessions.iter().filter(|session| session.connected).count();
        for (state, count) in [("connected", connected), ("away", rank.mds.sessions.len() - connected)] {
            page.sample(&SESSIONS, &format!("rank=\"{}\",state=\"{state}\"", rank.rank), count as f64);
        }
    }
    page.ranks(&CONNECTIONS, status, |rank| rank.metrics.connections.get() as f64);
    page.ranks(&ACCEPTED, status, |rank| rank.metrics.accepted.get() as f64);
    page.ranks(&DROPPED, status, |rank| rank.metrics.dropped.get() as f64);
    page.ranks(&REFUSED, status, |rank| rank.metrics.refused.get() as f64);
    page.ranks(&BYTES_IN, status, |rank| rank.metrics.bytes_in.get() as f64);
    page.ranks(&BYTES_OUT, status, |rank| rank.metrics.bytes_out.get() as f64);
    page.ranks(&LEASES, status, |rank| rank.mds.leases as f64);
    page.ranks(&LEASE_BYTES, status, |rank| rank.mds.lease_bytes as f64);
    page.ranks(&SPLITS, status, |rank| rank.mds.splits as f64);
    page.ranks(&MERGES, status, |rank| rank.mds.merges as f64);
    page.ranks(&SCATTERED, status, |rank| rank.mds.scattered as f64);
    page.ranks(&DATA_TAKEN, status, |rank| rank.mds.data_taken as f64);
    page.ranks(&DATA_HELD, status, |rank| rank.mds.data_held.0 as f64);
    page.ranks(&SPREADS, status, |rank| rank.mds.spreads as f64);
    page.ranks(&REPLICAS_HELD, status, |rank| rank.mds.paths.held as f64);
    page.ranks(&REPLICAS_LENT, status, |rank| rank.mds.paths.lent as f64);
    page.ranks(&PATH_STEPS, status, |rank| rank.mds.paths.steps as f64);
    page.ranks(&PATH_SHORTCUTS, status, |rank| rank.mds.paths.shortcuts as f64);
    page.ranks(&PATH_SHORTCUTS_TAKEN, status, |rank| rank.mds.paths.shortcuts_taken as f64);
    page.ranks(&LOOKUP_LEASES, status, |rank| rank.mds.paths.promises as f64);
    page.ranks(&LOOKUP_LEASE_WAITS, status, |rank| rank.mds.paths.promise_waits as f64);
    page.ranks(&PATH_PARTINGS, status, |rank| rank.mds.paths.partings as f64);
    page.ranks(&REPLICA_ASKS, status, |rank| rank.mds.paths.asks as f64);
    page.ranks(&REPLICAS_ASKED_BACK, status, |rank| rank.mds.paths.asked_back as f64);
    page.ranks(&DECOUPLED, status, |rank| rank.mds.decoupled_count.all as f64);
    page.ranks(&DECOUPLED_AWAY, status, |rank| rank.mds.decoupled_count.away as f64);
    page.ranks(&SUBTREE_MERGES, status, |rank| rank.mds.subtree_merges as f64);
    page.ranks(&SUBTREE_CONFLICTS, status, |rank| rank.mds.subtree_conflicts as f64);
    page.ranks(&DECOUPLINGS_LOST, status, |rank| rank.mds.decouplings_lost as f64);
    page.ranks(&RECALLS, status, |rank| rank.mds.recalls as f64);
    page.ranks(&RECALLS_PENDING, status, |rank| rank.mds.recalls_pending as f64);
    page.ranks(&EVICTED, status, |rank| rank.mds.evicted as f64);
    page.ranks(&LOCKS, status, |rank| rank.mds.locks as f64);
    page.ranks(&WAITING, status, |rank| rank.mds.waiting_count as f64);
    page.ranks(&GATED, status, |rank| rank.mds.gated as f64);
    page.ranks(&RELAXED_DIRECTORIES, status, |rank| rank.mds.relaxed.directories as f64);
    page.ranks(&RELAXED_BEHIND, status, |rank| rank.mds.relaxed.behind as f64);
    page.ranks(&RELAXED_LAG, status, |rank| rank.mds.relaxed.lag_ms as f64 / 1e3);
    page.ranks(&RELAXED_ANSWERS, status, |rank| rank.mds.relaxed.early as f64);
}

fn memory(page: &mut Page, source: &Source, status: &Status) {
    page.ranks(&CACHE_BYTES, status, |rank| rank.mds.cache_bytes as f64);
    page.ranks(&CACHE_HASHES, status, |rank| rank.mds.hash_bytes as f64);
    page.ranks(&CACHE_LIMIT, status, |_| source.settings.number("cache_bytes") as f64);
    page.ranks(&CACHE_INODES, status, |rank| rank.mds.cache_inodes as f64);
    page.ranks(&DIRTY, status, |rank| rank.mds.dirty as f64);
    page.ranks(&ORPHANS, status, |rank| rank.mds.orphans as f64);
    page.ranks(&LOADS, status, |rank| rank.metrics.loads.get() as f64);
    page.ranks(&LOAD_ROWS, status, |rank| rank.metrics.load_rows.get() as f64);
}

fn disk(page: &mut Page, status: &Status) {
    page.one(&TABLE_KEYS, status.table.keys as f64);
    page.one(&TABLE_BYTES, status.table.bytes as f64);
    page.ranks(&JOURNAL_RECORDS, status, |rank| rank.metrics.journal_records.get() as f64);
    page.ranks(&JOURNAL_WRITTEN, status, |rank| rank.metrics.journal_bytes.get() as f64);
    page.ranks(&JOURNAL_LAG, status, |rank| rank.mds.last_lsn.0.saturating_sub(rank.mds.durable_lsn.0) as f64);
    page.ranks(&JOURNAL_OUTSTANDING, status, |rank| rank.mds.journal_bytes as f64);
    page.ranks(&JOURNAL_LIMIT, status, |rank| rank.mds.journal_limit as f64);
    page.ranks(&JOURNAL_FULL, status, |rank| rank.metrics.journal_full.get() as f64);
    page.ranks(&DATA_ERRORS, status, |rank| rank.data_errors as f64);
    page.ranks(&DAMAGED_FILES, status, |rank| rank.faults.len() as f64);
    page.ranks(&DATA_DIRECT, status, |rank| rank.metrics.data_direct.get() as f64);
    page.ranks(&DATA_LOGGED, status, |rank| rank.metrics.data_logged.get() as f64);
    page.histograms(&OBJECT_SYNC, status, |rank| rank.metrics.object_sync.snapshot());
    page.histograms(&JOURNAL_SYNC, status, |rank| rank.metrics.journal_sync.snapshot());
    page.ranks(&CHECKPOINTS, status, |rank| rank.metrics.checkpoints.get() as f64);
    page.ranks(&CHECKPOINTS_FAILED, status, |rank| rank.mds.checkpoints_failed as f64);
    page.ranks(&CHECKPOINT_RECORDS, status, |rank| rank.metrics.checkpoint_records.get() as f64);
    page.histograms(&CHECKPOINT_SECONDS, status, |rank| rank.metrics.checkpoint_time.snapshot());
    page.ranks(&MERGE_ROWS, status, |rank| rank.metrics.merge_rows.get() as f64);
    page.histograms(&MERGE_ROWS_SECONDS, status, |rank| rank.metrics.merge_rows_time.snapshot());
    page.one(&SPACE_TOTAL, status.space.total_bytes as f64);
    page.one(&SPACE_FREE, status.space.free_bytes as f64);
}

fn load(page: &mut Page, status: &Status) {
    for (at, number) in Load::NUMBERS.iter().enumerate() {
        let metric = stable(number.metric, "gauge", number.help);
        page.ranks(&metric, status, |rank| rank.mds.load.values()[at]);
    }
    page.ranks(&REDIRECTS, status, |rank| rank.mds.redirects as f64);
    page.ranks(&BALANCE_POLICY, status, |rank| f64::from(rank.mds.balance.policy.0));
    page.ranks(&BALANCE_MOVES, status, |rank| rank.mds.balance.moves as f64);
    page.ranks(&BALANCE_REFUSED, status, |rank| rank.mds.balance.refused as f64);
    page.ranks(&BALANCE_FAULTS, status, |rank| rank.advice.faults as f64);
    page.ranks(&BALANCE_UNANSWERED, status, |rank| rank.mds.balance.unanswered as f64);
    page.ranks(&BALANCE_TOOK, status, |rank| rank.advice.took_us as f64 / 1e6);
    page.head(&LOAD_AGE);
    for rank in &status.ranks {
        let known = rank.mds.others.iter().filter_map(|other| Some((other.rank, other.load?.1)));
        for (of, age_ms) in known {
            page.sample(&LOAD_AGE, &format!("rank=\"{}\",of=\"{of}\"", rank.rank), age_ms as f64 / 1e3);
        }
    }
    page.ranks(&HEAT_READS, status, |rank| rank.mds.heat_totals.ird);
    page.ranks(&HEAT_WRITES, status, |rank| rank.mds.heat_totals.iwr);
    page.ranks(&HEAT_READDIRS, status, |rank| rank.mds.heat_totals.readdir);
    page.ranks(&HEAT_FETCHES, status, |rank| rank.mds.heat_totals.fetch);
    page.ranks(&HEAT_STORES, status, |rank| rank.mds.heat_totals.store);
}

fn mount(page: &mut Page, source: &Source) {
    let Some((_, counts)) = source.mount() else { return };
    page.labelled(&MOUNT_OPS, "op", counts.ops.into_iter());
    page.labelled(&MOUNT_BYTES, "direction", counts.bytes.into_iter());
    page.head(&MOUNT_FSYNC);
    page.histogram(&MOUNT_FSYNC, "", &counts.fsync);
    page.labelled(&MOUNT_ERRORS, "kind", counts.errors.into_iter());
    page.labelled(&MOUNT_NOTIFICATIONS, "kind", counts.notifications.into_iter());
    page.one(&MOUNT_INODES, counts.inodes as f64);
}

/// The text so far. Writing to a string cannot fail, so the results are dropped.
#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, metric: &Metric) {
        let note = if metric.stable { "" } else { " (may change)" };
        let _ = writeln!(self.0, "# HELP {} {}{note}", metric.name, metric.help);
        let _ = writeln!(self.0, "# TYPE {} {}", metric.name, metric.kind);
    }

    fn one(&mut self, metric: &Metric, value: f64) {
        self.head(metric);
        let _ = writeln!(self.0, "{} {value}", metric.name);
    }

    /// A value of each rank.
    fn ranks(&mut self, metric: &Metric, status: &Status, value: impl Fn(&RankStatus) -> f64) {
        self.head(metric);
        for rank in &status.ranks {
            self.sample(metric, &format!("rank=\"{}\"", rank.rank), value(rank));
        }
    }

    /// Values of each rank, with labels of their own.
    fn each(&mut self, metric: &Metric, status: &Status, values: impl Fn(&RankStatus, &mut dyn FnMut(&str, f64))) {
        self.head(metric);
        for rank in &status.ranks {
            values(rank, &mut |labels, value| self.sample(metric, &format!("rank=\"{}\",{labels}", rank.rank), value));
        }
    }

    /// A distribution of each rank.
    fn histograms(&mut self, metric: &Metric, status: &Status, values: impl Fn(&RankStatus) -> Distribution) {
        self.head(metric);
        for rank in &status.ranks {
            self.histogram(metric, &format!("rank=\"{}\"", rank.rank), &values(rank));
        }
    }

    fn sample(&mut self, metric: &Metric, labels: &str, value: f64) {
        let _ = writeln!(self.0, "{}{{{labels}}} {value}", metric.name);
    }

    fn labelled<'a>(&mut self, metric: &Metric, label: &str, values: impl Iterator<Item = (&'a str, u64)>) {
        self.head(metric);
        for (name, value) in values {
            let _ = writeln!(self.0, "{}{{{label}=\"{name}\"}} {value}", metric.name);
        }
    }

    fn histogram(&mut self, metric: &Metric, labels: &str, values: &Distribution) {
        let mut buckets = values.buckets().peekable();
        let mut below = 0;
        for power in FIRST_BUCKET..=LAST_BUCKET {
            let end = 1u64 << power;
            while let Some((_, n)) = buckets.next_if(|(upper, _)| *upper < end) {
                below += n;
            }
            let seconds = end as f64 / 1e9;
            let _ = writeln!(self.0, "{}_bucket{{{labels},le=\"{seconds}\"}} {below}", metric.name);
        }
        let _ = writeln!(self.0, "{}_bucket{{{labels},le=\"+Inf\"}} {}", metric.name, values.count);
        let _ = writeln!(self.0, "{}_sum{{{labels}}} {}", metric.name, values.sum as f64 / 1e9);
        let _ = writeln!(self.0, "{}_count{{{labels}}} {}", metric.name, values.count);
    }
}
