//! The metrics: their names, units and stability in one table, and the text that Prometheus reads.
//!
//! A stable name keeps its meaning; the others may change with what they measure. Times are seconds, sizes bytes.

use std::fmt::Write;

use loligo_driver::server::metrics::Distribution;

use super::Source;

/// What a name stands for.
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
const CACHE_BYTES: Metric = stable("loligo_cache_bytes", "gauge", "memory of the metadata cache");
const CACHE_LIMIT: Metric = stable("loligo_cache_limit_bytes", "gauge", "what the metadata cache may take");
const CACHE_INODES: Metric = stable("loligo_cache_inodes", "gauge", "inodes in the cache");
const DIRTY: Metric = stable("loligo_dirty_records", "gauge", "records changed and not yet in the table");
const ORPHANS: Metric = stable("loligo_orphans", "gauge", "files without a name that are still open");
const LOADS: Metric = internal("loligo_table_loads_total", "counter", "reads of the table for what was not cached");
const LOAD_ROWS: Metric = internal("loligo_table_load_rows_total", "counter", "rows that they read");
const TABLE_KEYS: Metric = stable("loligo_table_keys", "gauge", "rows of the table, estimated");
const TABLE_BYTES: Metric = stable("loligo_table_bytes", "gauge", "bytes of the table on disk, estimated");
const JOURNAL_RECORDS: Metric = stable("loligo_journal_records_total", "counter", "changes written to the journal");
const JOURNAL_WRITTEN: Metric = stable("loligo_journal_written_bytes_total", "counter", "bytes written to the journal");
const JOURNAL_LAG: Metric = stable("loligo_journal_lag_records", "gauge", "changes made and not yet durable");
const JOURNAL_OUTSTANDING: Metric = stable("loligo_journal_outstanding_bytes", "gauge", "journal not yet in the table");
const JOURNAL_LIMIT: Metric = stable("loligo_journal_limit_bytes", "gauge", "above this changes wait for checkpoints");
const JOURNAL_SYNC: Metric = stable("loligo_journal_sync_seconds", "histogram", "time of a sync of the journal");
const JOURNAL_FULL: Metric = stable("loligo_journal_full", "gauge", "1 while the journal waits for space on the disk");
const CHECKPOINTS: Metric = stable("loligo_checkpoints_total", "counter", "checkpoints written into the table");
const CHECKPOINTS_FAILED: Metric =
    stable("loligo_checkpoints_failed_total", "counter", "checkpoints that failed and were tried again");
const CHECKPOINT_RECORDS: Metric = stable("loligo_checkpoint_records_total", "counter", "records in them");
const CHECKPOINT_SECONDS: Metric = stable("loligo_checkpoint_seconds", "histogram", "time of a checkpoint");
const RANK_CPU: Metric = stable("loligo_rank_cpu_seconds_total", "counter", "CPU time of the rank's thread");
const ROUNDS: Metric = internal("loligo_rounds_total", "counter", "rounds of the rank's loop");
const SPACE_TOTAL: Metric = stable("loligo_disk_bytes", "gauge", "size of the disk below the data directory");
const SPACE_FREE: Metric = stable("loligo_disk_free_bytes", "gauge", "free there");
const UP: Metric =
    stable("loligo_serving", "gauge", "1 if it serves, 0 during grace, with a full disk or after a failure");
const UPTIME: Metric = stable("loligo_uptime_seconds", "gauge", "since the start");
const MOUNT_OPS: Metric =
    stable("loligo_mount_ops_total", "counter", "requests of the kernel to the mount of this process, by operation");
const MOUNT_ERRORS: Metric = stable("loligo_mount_errors_total", "counter", "errors given to the kernel, by kind");
const MOUNT_NOTIFICATIONS: Metric =
    stable("loligo_mount_notifications_total", "counter", "times the kernel was told to drop what it cached, by kind");
const MOUNT_INODES: Metric = stable("loligo_mount_inodes", "gauge", "inodes that the kernel knows");

/// Buckets of the histograms end at powers of two of nanoseconds from about 1 us to 17 s.
const FIRST_BUCKET: u32 = 10;
const LAST_BUCKET: u32 = 34;

/// The page.
pub fn render(source: &Source, status: &loligo_driver::Status) -> String {
    let mut page = Page::default();
    server(&mut page, source, status);
    operations(&mut page, status);
    clients(&mut page, status);
    memory(&mut page, source, status);
    disk(&mut page, status);
    mount(&mut page, source);
    page.0
}

fn server(page: &mut Page, source: &Source, status: &loligo_driver::Status) {
    let serving = super::doc::health(&status.mds).0 == "serving";
    page.one(&UP, u64::from(serving) as f64);
    page.one(&UPTIME, source.uptime_s());
    page.one(&RANK_CPU, status.metrics.rank_cpu_ns.get() as f64 / 1e9);
    page.one(&ROUNDS, status.metrics.rounds.get() as f64);
}

fn operations(page: &mut Page, status: &loligo_driver::Status) {
    let ops = || status.metrics.ops.iter();
    page.labelled(&OPS_TOTAL, "op", ops().map(|(name, op)| (name, op.done.get())));
    page.labelled(&OP_ERRORS, "op", ops().map(|(name, op)| (name, op.errors.get())));
    page.head(&OP_SECONDS);
    for (name, op) in ops().filter(|(_, op)| op.done.get() > 0) {
        page.histogram(&OP_SECONDS, &format!("op=\"{name}\""), &op.latency.snapshot());
    }
}

fn clients(page: &mut Page, status: &loligo_driver::Status) {
    let (mds, metrics) = (&status.mds, &status.metrics);
    let connected = mds.sessions.iter().filter(|session| session.connected).count() as u64;
    let away = mds.sessions.len() as u64 - connected;
    page.labelled(&SESSIONS, "state", [("connected", connected), ("away", away)].into_iter());
    page.one(&CONNECTIONS, metrics.connections.get() as f64);
    page.one(&ACCEPTED, metrics.accepted.get() as f64);
    page.one(&DROPPED, metrics.dropped.get() as f64);
    page.one(&BYTES_IN, metrics.bytes_in.get() as f64);
    page.one(&BYTES_OUT, metrics.bytes_out.get() as f64);
    page.one(&LEASES, mds.leases as f64);
    page.one(&LEASE_BYTES, mds.lease_bytes as f64);
    page.one(&RECALLS, mds.recalls as f64);
    page.one(&RECALLS_PENDING, mds.recalls_pending as f64);
    page.one(&EVICTED, mds.evicted as f64);
    page.one(&LOCKS, mds.locks as f64);
    page.one(&WAITING, mds.waiting_count as f64);
    page.one(&GATED, mds.gated as f64);
}

fn memory(page: &mut Page, source: &Source, status: &loligo_driver::Status) {
    let (mds, metrics) = (&status.mds, &status.metrics);
    page.one(&CACHE_BYTES, mds.cache_bytes as f64);
    page.one(&CACHE_LIMIT, source.settings.number("cache_bytes") as f64);
    page.one(&CACHE_INODES, mds.cache_inodes as f64);
    page.one(&DIRTY, mds.dirty as f64);
    page.one(&ORPHANS, mds.orphans as f64);
    page.one(&LOADS, metrics.loads.get() as f64);
    page.one(&LOAD_ROWS, metrics.load_rows.get() as f64);
}

fn disk(page: &mut Page, status: &loligo_driver::Status) {
    let (mds, metrics) = (&status.mds, &status.metrics);
    page.one(&TABLE_KEYS, status.table.keys as f64);
    page.one(&TABLE_BYTES, status.table.bytes as f64);
    page.one(&JOURNAL_RECORDS, metrics.journal_records.get() as f64);
    page.one(&JOURNAL_WRITTEN, metrics.journal_bytes.get() as f64);
    page.one(&JOURNAL_LAG, mds.last_lsn.0.saturating_sub(mds.durable_lsn.0) as f64);
    page.one(&JOURNAL_OUTSTANDING, mds.journal_bytes as f64);
    page.one(&JOURNAL_LIMIT, mds.journal_limit as f64);
    page.one(&JOURNAL_FULL, metrics.journal_full.get() as f64);
    page.head(&JOURNAL_SYNC);
    page.histogram(&JOURNAL_SYNC, "", &metrics.journal_sync.snapshot());
    page.one(&CHECKPOINTS, metrics.checkpoints.get() as f64);
    page.one(&CHECKPOINTS_FAILED, mds.checkpoints_failed as f64);
    page.one(&CHECKPOINT_RECORDS, metrics.checkpoint_records.get() as f64);
    page.head(&CHECKPOINT_SECONDS);
    page.histogram(&CHECKPOINT_SECONDS, "", &metrics.checkpoint_time.snapshot());
    page.one(&SPACE_TOTAL, status.space.total_bytes as f64);
    page.one(&SPACE_FREE, status.space.free_bytes as f64);
}

fn mount(page: &mut Page, source: &Source) {
    let Some((_, counts)) = source.mount() else { return };
    page.labelled(&MOUNT_OPS, "op", counts.ops.into_iter());
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

    fn labelled<'a>(&mut self, metric: &Metric, label: &str, values: impl Iterator<Item = (&'a str, u64)>) {
        self.head(metric);
        for (name, value) in values {
            let _ = writeln!(self.0, "{}{{{label}=\"{name}\"}} {value}", metric.name);
        }
    }

    fn histogram(&mut self, metric: &Metric, labels: &str, values: &Distribution) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut buckets = values.buckets().peekable();
        let mut below = 0;
        for power in FIRST_BUCKET..=LAST_BUCKET {
            let end = 1u64 << power;
            while let Some((_, n)) = buckets.next_if(|(upper, _)| *upper < end) {
                below += n;
            }
            let seconds = end as f64 / 1e9;
            let _ = writeln!(self.0, "{}_bucket{{{labels}{comma}le=\"{seconds}\"}} {below}", metric.name);
        }
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "{}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", metric.name, values.count);
        let _ = writeln!(self.0, "{}_sum{braces} {}", metric.name, values.sum as f64 / 1e9);
        let _ = writeln!(self.0, "{}_count{braces} {}", metric.name, values.count);
    }
}
