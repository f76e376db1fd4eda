//! The documents of `/api/v1`: what `loligo status --json` prints. Fields are only added. Times are in the unit that a
//! field's name ends with; sizes are bytes. Described in docs/cli.md.

use std::collections::BTreeMap;

use loligo_driver::server::metrics::{Distribution, Metrics};
use serde::{Deserialize, Serialize};

use super::Source;

/// `/api/v1/status`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct StatusDoc {
    /// Of the program.
    pub version: String,
    pub pid: u32,
    pub uptime_s: f64,
    /// Of the file system, in hexadecimal digits.
    pub fs_id: String,
    pub data: String,
    /// `serving`, `grace`, `full`, or `failed`.
    pub health: String,
    /// Why, unless it is serving.
    pub reason: Option<String>,
    /// Where clients connect.
    pub addresses: Vec<String>,
    /// Where the same process has mounted it.
    pub mount: Option<MountDoc>,
    pub space: SpaceDoc,
    pub table: TableDoc,
    pub ranks: Vec<RankDoc>,
}

/// A mount in the server's process.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct MountDoc {
    pub path: String,
    /// Inodes that the kernel knows.
    pub inodes: u64,
    /// Requests of the kernel.
    pub ops: BTreeMap<String, u64>,
    /// Errors answered.
    pub errors: BTreeMap<String, u64>,
}

/// The disk below.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SpaceDoc {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// The table, estimated.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct TableDoc {
    pub keys: u64,
    pub bytes: u64,
}

/// One rank.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct RankDoc {
    pub rank: u32,
    pub sessions: u64,
    pub connections: u64,
    pub cache_bytes: u64,
    pub cache_limit_bytes: u64,
    pub cache_inodes: u64,
    pub dirty_records: u64,
    pub leases: u64,
    pub locks: u64,
    pub recalls: u64,
    pub recalls_pending: u64,
    pub evicted: u64,
    pub orphans: u64,
    pub waiting: u64,
    pub waiting_longest_ms: u64,
    pub gated: u64,
    pub grace_left_ms: Option<u64>,
    pub cpu_s: f64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub journal: JournalDoc,
    pub checkpoints: CheckpointDoc,
    /// By name; `data` is all operations on file data. Those never asked for are absent.
    pub ops: BTreeMap<String, OpDoc>,
}

/// The journal of a rank.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct JournalDoc {
    /// The last change, and the last durable one; the difference is on its way to the disk.
    pub last_lsn: u64,
    pub durable_lsn: u64,
    /// Not yet in the table, and the limit above which changes wait.
    pub outstanding_bytes: u64,
    pub limit_bytes: u64,
    /// Since the start.
    pub written_records: u64,
    pub written_bytes: u64,
    pub syncs: u64,
    pub sync_p50_us: f64,
    pub sync_p99_us: f64,
    pub records_per_sync: f64,
}

/// The checkpoints of a rank.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct CheckpointDoc {
    pub done: u64,
    pub failed: u64,
    pub records: u64,
    pub p99_ms: f64,
}

/// One operation since the start.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct OpDoc {
    pub count: u64,
    pub errors: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Sum of all latencies, seconds.
    pub total_s: f64,
    /// Upper bound in nanoseconds and count of each bucket of the latency that is not empty; in `/api/v1/ops` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_ns: Vec<(u64, u64)>,
}

/// One of `/api/v1/sessions`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SessionDoc {
    pub id: u64,
    pub name: String,
    pub uid: u32,
    /// In the server's process.
    pub local: bool,
    pub connected: bool,
    pub idle_ms: u64,
    pub opens: u64,
    pub leases: u64,
    pub locks: u64,
    pub in_flight: u64,
    pub requests: u64,
    pub errors: u64,
}

fn us(ns: u64) -> f64 {
    (ns as f64 / 10.0).round() / 100.0
}

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

/// Counts and latencies by operation.
pub fn ops(metrics: &Metrics, buckets: bool) -> BTreeMap<String, OpDoc> {
    let all = metrics.ops.iter().filter(|(_, op)| op.done.get() > 0);
    all.map(|(name, op)| (name.to_string(), op_doc(&op.latency.snapshot(), op.done.get(), op.errors.get(), buckets)))
        .collect()
}

/// The state in a word, and why it is not serving.
pub fn health(mds: &loligo_mds::Status) -> (&'static str, Option<String>) {
    if mds.failed {
        return (
            "failed",
            Some("the journal could not be written; look at the disk and start the server again".into()),
        );
    }
    if let Some(grace) = mds.grace {
        let text = format!(
            "after a restart, for at most {:.1} s, until {} clients of before have come back",
            grace.left_ms as f64 / 1e3,
            grace.missing
        );
        return ("grace", Some(text));
    }
    if mds.full {
        return ("full", Some("the disk is full: changes wait or fail until there is space".into()));
    }
    ("serving", None)
}

impl StatusDoc {
    /// From a picture of the server.
    pub fn new(source: &Source, status: &loligo_driver::Status) -> StatusDoc {
        let (health, reason) = health(&status.mds);
        let named = |list: Vec<(&'static str, u64)>| list.into_iter().map(|(name, n)| (name.to_string(), n)).collect();
        StatusDoc {
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            uptime_s: (source.uptime_s() * 1e3).round() / 1e3,
            fs_id: status.identity.fs_id_hex(),
            data: source.data.display().to_string(),
            health: health.to_string(),
            reason,
            addresses: status.addresses.iter().map(ToString::to_string).collect(),
            mount: source.mount().map(|(path, counts)| MountDoc {
                path: path.display().to_string(),
                inodes: counts.inodes as u64,
                ops: named(counts.ops),
                errors: named(counts.errors),
            }),
            space: SpaceDoc { total_bytes: status.space.total_bytes, free_bytes: status.space.free_bytes },
            table: TableDoc { keys: status.table.keys, bytes: status.table.bytes },
            ranks: vec![RankDoc::new(source, status)],
        }
    }
}

impl RankDoc {
    fn new(source: &Source, status: &loligo_driver::Status) -> RankDoc {
        let (mds, metrics) = (&status.mds, &status.metrics);
        RankDoc {
            rank: mds.rank,
            sessions: mds.sessions.len() as u64,
            connections: metrics.connections.get(),
            cache_bytes: mds.cache_bytes as u64,
            cache_limit_bytes: source.settings.number("cache_bytes"),
            cache_inodes: mds.cache_inodes as u64,
            dirty_records: mds.dirty as u64,
            leases: mds.leases as u64,
            locks: mds.locks as u64,
            recalls: mds.recalls,
            recalls_pending: mds.recalls_pending as u64,
            evicted: mds.evicted,
            orphans: mds.orphans as u64,
            waiting: mds.waiting_count as u64,
            waiting_longest_ms: mds.waiting.iter().map(|wait| wait.age_ms).max().unwrap_or(0),
            gated: mds.gated as u64,
            grace_left_ms: mds.grace.map(|grace| grace.left_ms),
            cpu_s: metrics.rank_cpu_ns.get() as f64 / 1e9,
            bytes_in: metrics.bytes_in.get(),
            bytes_out: metrics.bytes_out.get(),
            journal: JournalDoc::new(mds, metrics),
            checkpoints: CheckpointDoc {
                done: metrics.checkpoints.get(),
                failed: mds.checkpoints_failed,
                records: metrics.checkpoint_records.get(),
                p99_ms: us(metrics.checkpoint_time.snapshot().quantile(0.99)) / 1e3,
            },
            ops: ops(metrics, false),
        }
    }
}

impl JournalDoc {
    fn new(mds: &loligo_mds::Status, metrics: &Metrics) -> JournalDoc {
        let sync = metrics.journal_sync.snapshot();
        JournalDoc {
            last_lsn: mds.last_lsn.0,
            durable_lsn: mds.durable_lsn.0,
            outstanding_bytes: mds.journal_bytes,
            limit_bytes: mds.journal_limit,
            written_records: metrics.journal_records.get(),
            written_bytes: metrics.journal_bytes.get(),
            syncs: sync.count,
            sync_p50_us: us(sync.quantile(0.5)),
            sync_p99_us: us(sync.quantile(0.99)),
            records_per_sync: metrics.journal_records.get() as f64 / sync.count.max(1) as f64,
        }
    }
}

/// The sessions.
pub fn sessions(mds: &loligo_mds::Status) -> Vec<SessionDoc> {
    let doc = |s: &loligo_mds::SessionStatus| SessionDoc {
        id: s.id.0,
        name: s.name.clone(),
        uid: s.uid,
        local: s.local,
        connected: s.connected,
        idle_ms: s.idle_ms,
        opens: s.opens as u64,
        leases: s.leases as u64,
        locks: s.locks as u64,
        in_flight: s.in_flight as u64,
        requests: s.requests,
        errors: s.errors,
    };
    mds.sessions.iter().map(doc).collect()
}
