//! The documents of `/api/v1`: what `loligo status --json` prints. Fields are only added. Times are in the unit that a
//! field's name ends with; sizes are bytes. Described in docs/cli.md.

use std::collections::BTreeMap;

use loligo_driver::server::metrics::Metrics;
use loligo_mds::admin::{DrainStatus, Migration};
use loligo_types::{Rank, RankState, Route};
use serde::{Deserialize, Serialize};

use super::Source;
use super::decoupled::DecoupledDoc;
use super::heat::{HeatDoc, HotDirDoc, KnownLoadDoc, LoadDoc};
use super::machine::{MountDoc, SpaceDoc, TableDoc};
use super::others::UnreachedDoc;
use super::tally::TallyDoc;

/// The user of sessions whose clients come over the network: the kernel does not tell who that is.
const NOBODY: u32 = u32::MAX;

/// `/api/v1/status`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
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
    /// Why, unless it is serving; with several ranks, of the one that is worst off.
    pub reason: Option<String>,
    /// Where clients connect: the addresses of rank 0, which tells them of the others.
    pub addresses: Vec<String>,
    /// Where the same process has mounted it.
    pub mount: Option<MountDoc>,
    pub space: SpaceDoc,
    pub table: TableDoc,
    /// By what ranks balance; none: it is not known.
    #[serde(default)]
    pub balancer: Option<super::balancer::NowDoc>,
    /// All that could be asked, whoever runs them.
    pub ranks: Vec<RankDoc>,
    /// Those who could not, and whose ranks are missing therefore.
    #[serde(default)]
    pub unreached: Vec<UnreachedDoc>,
    /// The servers that share the store; none: it is this machine's.
    #[serde(default)]
    pub servers: Vec<ServerDoc>,
}

/// One of the servers that share a store.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ServerDoc {
    /// In hexadecimal digits.
    pub number: String,
    pub name: String,
    /// Where other servers reach it.
    pub address: String,
    /// It keeps the cluster map.
    pub leads: bool,
    /// It stands by: it takes ranks only of servers that are gone, or by order.
    pub standby: bool,
    /// It is about to end.
    pub stops: bool,
    /// It was silent for too long: its ranks go to others.
    pub gone: bool,
    /// The one that answers.
    pub this: bool,
    pub ranks: Vec<u32>,
}

/// The answer to the order to have another server run a rank.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct HandOverDoc {
    pub rank: u16,
    /// The name of the one that runs it now.
    pub server: String,
}

/// One rank.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RankDoc {
    pub rank: u16,
    /// As the server's: `serving`, `damaged`, `grace`, `full`, or `failed`.
    pub state: String,
    /// Why, unless it is serving; then what is wrong all the same, as with its balancer; of one that is being drained, why
    /// it does not get on.
    pub reason: Option<String>,
    /// Where clients connect to it.
    pub addresses: Vec<String>,
    /// Requests answered in the last second or so, per second.
    pub requests_per_s: u64,
    pub sessions: u64,
    pub connections: u64,
    pub cache_bytes: u64,
    pub cache_hash_bytes: u64,
    pub cache_limit_bytes: u64,
    pub cache_inodes: u64,
    pub dirty_records: u64,
    pub leases: u64,
    pub locks: u64,
    pub recalls: u64,
    pub recalls_pending: u64,
    pub evicted: u64,
    /// Times that a directory was cut into more fragments, and that fragments became one again.
    #[serde(default)]
    pub splits: u64,
    #[serde(default)]
    pub merges: u64,
    /// Directories made at ranks that their numbers name.
    pub scattered: u64,
    /// Bytes of file data that only the journal is known to have durably.
    #[serde(default)]
    pub data_held: u64,
    /// Their fragments that went to other ranks.
    pub spreads: u64,
    /// Replicas of other ranks' directories that it holds, for paths that lead through them, and its own directories that others have.
    #[serde(default)]
    pub replicas_held: u64,
    #[serde(default)]
    pub replicas_lent: u64,
    /// Names on the way that were found by replicas, and those for which the client had to ask another rank.
    #[serde(default)]
    pub path_steps: u64,
    #[serde(default)]
    pub path_partings: u64,
    /// Questions to other ranks for replicas, and replicas that were asked back.
    #[serde(default)]
    pub replica_asks: u64,
    #[serde(default)]
    pub replicas_asked_back: u64,
    /// Paths whose directories it knows as one step, and walks that began with one.
    #[serde(default)]
    pub path_shortcuts: u64,
    #[serde(default)]
    pub path_shortcuts_taken: u64,
    /// Lookup leases that it has given, and changes that waited for the end of one.
    #[serde(default)]
    pub lookup_leases: u64,
    #[serde(default)]
    pub lookup_lease_waits: u64,
    /// Requests by placement, what they waited for, and how long paths were.
    #[serde(default)]
    pub counted: TallyDoc,
    /// Subtrees that are decoupled, and those of them whose owners are away.
    #[serde(default)]
    pub decoupled_subtrees: u64,
    #[serde(default)]
    pub decoupled_away: u64,
    /// Merges into decoupled subtrees, and subtrees that were taken back because their owners were away for too long.
    #[serde(default)]
    pub subtree_merges: u64,
    #[serde(default)]
    pub subtree_conflicts: u64,
    #[serde(default)]
    pub decouplings_lost: u64,
    pub orphans: u64,
    pub waiting: u64,
    pub waiting_longest_ms: u64,
    pub gated: u64,
    /// Directories with a relaxed policy, inodes whose last change is not durable, and how old the oldest such change is.
    #[serde(default)]
    pub relaxed_directories: u64,
    #[serde(default)]
    pub relaxed_behind: u64,
    #[serde(default)]
    pub relaxed_lag_ms: u64,
    /// Answers that did not wait for the journal.
    #[serde(default)]
    pub relaxed_answers: u64,
    pub grace_left_ms: Option<u64>,
    pub cpu_s: f64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub journal: JournalDoc,
    pub checkpoints: CheckpointDoc,
    /// By name; `data` is all operations on file data. Those never asked for are absent.
    pub ops: BTreeMap<String, OpDoc>,
    #[serde(default)]
    pub load: LoadDoc,
    /// State of its balancer.
    #[serde(default)]
    pub balancer: super::balancer::RankBalanceDoc,
    /// Loads of the other ranks, as far as it knows them.
    #[serde(default)]
    pub others: Vec<KnownLoadDoc>,
    /// Number of failed reads and writes of file data since the rank was started, and the files, at most 64, until nothing of such data is
    /// left.
    #[serde(default)]
    pub data_errors: u64,
    #[serde(default)]
    pub damaged: Vec<DamagedDoc>,
    /// At most 10, hottest first.
    #[serde(default)]
    pub hottest: Vec<HotDirDoc>,
    /// At most 256; those that are taken back soonest first.
    #[serde(default)]
    pub decoupled: Vec<DecoupledDoc>,
    /// Since the start, not decayed.
    #[serde(default)]
    pub heat: HeatDoc,
}

/// The journal of a rank.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
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
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct CheckpointDoc {
    pub done: u64,
    pub failed: u64,
    pub records: u64,
    pub p99_ms: f64,
}

/// One operation since the start.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
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

/// One of `/api/v1/subtrees`: a fragment of a directory, and which rank has authority over it and all below it.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SubtreeDoc {
    /// Inode number of the directory.
    pub dir: u64,
    /// The fragment; `*` is the whole directory.
    pub frag: String,
    pub rank: u16,
    /// Number of changes of authority.
    pub version: u64,
}

/// One of `/api/v1/migrations`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct MigrationDoc {
    /// Its number at the rank that gives the subtree away.
    pub id: u64,
    /// Inode number of the directory.
    pub dir: u64,
    /// The fragment of it that moves, if it is not all that the rank has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frag: Option<String>,
    pub from: u16,
    pub to: u16,
    /// `waiting`, `preparing`, `freezing`, `moving`, `cleaning`, `done`, or `failed: ` and why.
    pub state: String,
    /// Inodes found so far that move.
    pub inodes: u64,
    /// Inodes looked at, of all that are in memory.
    pub seen: u64,
    pub of: u64,
    /// Time that requests for it waited; 0: not yet.
    pub frozen_us: u64,
    /// So far, or in all.
    pub took_ms: u64,
}

/// The answer to a `POST` to `/api/v1/migrate`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct BegunDoc {
    /// The migration's number at the rank that gives the subtree away.
    pub id: u64,
    pub from: u16,
}

/// The answer to a `POST` to `/api/v1/rank/add`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct AddedDoc {
    pub ranks: Vec<u16>,
}

/// `/api/v1/rank/drain`: how far a rank has given away what it has.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DrainDoc {
    /// There is such a rank (still).
    pub there: bool,
    pub draining: bool,
    /// State of the drain, in words.
    pub state: String,
    pub subtrees_left: u64,
    pub subtrees_given: u64,
    /// Files that live by themselves: those known and not given away yet.
    pub files_left: u64,
    pub files_given: u64,
    /// Open inodes without a name, whose last close it waits for.
    pub orphans: u64,
    pub sessions: u64,
    pub took_ms: u64,
    /// Why it does not go on, and what to do.
    pub stuck: Option<String>,
}

/// One of `/api/v1/sessions`.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SessionDoc {
    pub id: u64,
    /// The rank that it is at; a client has one at each rank that it talks to.
    #[serde(default)]
    pub rank: u16,
    pub name: String,
    /// The user that the kernel names; none: it came over TCP, see `identity`.
    pub uid: Option<u32>,
    /// In the server's process.
    pub local: bool,
    pub connected: bool,
    /// It is over, but its client may still reach what it held.
    #[serde(default)]
    pub ending: bool,
    /// The identity that its client has shown.
    #[serde(default)]
    pub identity: Option<String>,
    /// Its client may read and write file data in the store by itself.
    #[serde(default)]
    pub direct: bool,
    pub idle_ms: u64,
    pub opens: u64,
    pub leases: u64,
    pub locks: u64,
    pub in_flight: u64,
    pub requests: u64,
    pub errors: u64,
}

/// Of nanoseconds.
pub(super) fn us(ns: u64) -> f64 {
    (ns as f64 / 10.0).round() / 100.0
}

/// The state in a word, and why it is not serving, or what is wrong although it is.
pub type Health = (&'static str, Option<String>);

/// Text on so many files with data errors. Their names are not for everybody who may ask for the health.
fn damage(files: usize) -> String {
    let files = crate::output::human_files(files as u64);
    format!(
        "the data of {files} could not be read or written; loligo status names them, and loligo fsck --data-checksums finds all"
    )
}

/// The state of a rank.
fn health_of(rank: &loligo_driver::RankStatus) -> Health {
    let (mds, trouble) = (&rank.mds, super::balancer::trouble(rank));
    if mds.failed {
        return (
            "failed",
            Some("the journal could not be written; look at the disk and start the server again".into()),
        );
    }
    if let Some(grace) = mds.grace {
        let text = format!(
            "after a restart, for at most {:.1} s: {} not back yet",
            grace.left_ms as f64 / 1e3,
            crate::output::counted(grace.missing as u64, "client of before")
        );
        return ("grace", Some(text));
    }
    if mds.full {
        return (
            "full",
            Some(
                "the disk or the pool is full: what needs more room fails (ENOSPC) until there is some; removals go on"
                    .into(),
            ),
        );
    }
    match mds.member {
        RankState::Up if !rank.faults.is_empty() => ("damaged", Some(damage(rank.faults.len()))),
        RankState::Up => ("serving", trouble),
        RankState::Draining => ("draining", mds.drain_stuck.clone()),
        RankState::Leaving => ("leaving", None),
    }
}

/// The state in a word, and why it is not serving: that of the rank that is worst off.
pub fn health(status: &loligo_driver::Status) -> Health {
    let all = status.ranks.iter().map(|rank| (rank.rank, health_of(rank)));
    worst_of(status.ranks.len(), all).unwrap_or(("failed", Some("there is no rank".into())))
}

/// The same of all ranks of the file system that could be asked; nothing if there are none.
pub fn health_of_all(ranks: &[RankDoc]) -> Option<(String, Option<String>)> {
    let all = ranks.iter().map(|rank| (Rank(rank.rank), (rank.state.as_str(), rank.reason.clone())));
    worst_of(ranks.len(), all).map(|(word, reason)| (word.to_string(), reason))
}

fn worst_of<'a>(
    count: usize,
    ranks: impl Iterator<Item = (Rank, (&'a str, Option<String>))>,
) -> Option<(&'a str, Option<String>)> {
    match worst(ranks)? {
        (rank, (word, reason)) if count > 1 => Some((word, reason.map(|reason| format!("rank {rank}: {reason}")))),
        (_, health) => Some(health),
    }
}

/// The one that is worst off; of equal ones, one that says why, and of these the lowest.
fn worst<'a>(
    ranks: impl Iterator<Item = (Rank, (&'a str, Option<String>))>,
) -> Option<(Rank, (&'a str, Option<String>))> {
    let order = ["leaving", "draining", "serving", "damaged", "full", "grace", "failed"];
    let badness = |word: &str| order.iter().position(|other| *other == word);
    ranks.max_by_key(|(rank, (word, reason))| (badness(word), reason.is_some(), std::cmp::Reverse(*rank)))
}

fn servers(me: u64, sight: &loligo_store::Sight) -> Vec<ServerDoc> {
    let doc = |(number, seen): (&u64, &loligo_store::ServerSeen)| ServerDoc {
        number: format!("{number:016x}"),
        name: seen.name.clone(),
        address: seen.at.clone(),
        leads: sight.leader == Some(*number),
        standby: !seen.flags.shares,
        stops: seen.flags.stops,
        gone: seen.is_gone,
        this: *number == me,
        ranks: sight.ranks.iter().filter(|(_, rank)| rank.is_held && rank.server == *number).map(|(r, _)| *r).collect(),
    };
    sight.servers.iter().map(doc).collect()
}

impl StatusDoc {
    /// From a picture of the server.
    pub fn new(source: &Source, status: &loligo_driver::Status) -> StatusDoc {
        let (health, reason) = health(status);
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
                bytes: named(counts.bytes.to_vec()),
            }),
            space: SpaceDoc { total_bytes: status.space.total_bytes, free_bytes: status.space.free_bytes },
            table: TableDoc { estimated_keys: status.table.keys, bytes: status.table.bytes },
            balancer: status.ranks.first().and_then(|rank| source.policy_now(rank.mds.balance.policy)),
            ranks: status.ranks.iter().map(|rank| RankDoc::new(source, rank)).collect(),
            unreached: Vec::new(),
            servers: source.server.sight().map(|(me, sight)| servers(me, &sight)).unwrap_or_default(),
        }
    }
}

impl RankDoc {
    /// From a picture of it.
    pub fn new(source: &Source, status: &loligo_driver::RankStatus) -> RankDoc {
        let (mds, metrics) = (&status.mds, &*status.metrics);
        let (state, reason) = health_of(status);
        RankDoc {
            rank: status.rank.0,
            state: state.to_string(),
            reason,
            addresses: status.addresses.iter().map(ToString::to_string).collect(),
            requests_per_s: metrics.requests_per_s.get(),
            sessions: mds.sessions.len() as u64,
            connections: metrics.connections.get(),
            cache_bytes: mds.cache_bytes as u64,
            cache_hash_bytes: mds.hash_bytes as u64,
            cache_limit_bytes: source.settings.number("cache_bytes"),
            cache_inodes: mds.cache_inodes as u64,
            dirty_records: mds.dirty as u64,
            leases: mds.leases as u64,
            locks: mds.locks as u64,
            recalls: mds.recalls,
            recalls_pending: mds.recalls_pending as u64,
            evicted: mds.evicted,
            splits: mds.splits,
            merges: mds.merges,
            scattered: mds.scattered,
            data_held: mds.data_held.0,
            spreads: mds.spreads,
            replicas_held: mds.paths.held as u64,
            replicas_lent: mds.paths.lent as u64,
            path_steps: mds.paths.steps,
            path_partings: mds.paths.partings,
            replica_asks: mds.paths.asks,
            replicas_asked_back: mds.paths.asked_back,
            path_shortcuts: mds.paths.shortcuts as u64,
            path_shortcuts_taken: mds.paths.shortcuts_taken,
            lookup_leases: mds.paths.promises,
            lookup_lease_waits: mds.paths.promise_waits,
            counted: TallyDoc::new(&mds.tally),
            decoupled_subtrees: mds.decoupled_count.all as u64,
            decoupled_away: mds.decoupled_count.away as u64,
            subtree_merges: mds.subtree_merges,
            subtree_conflicts: mds.subtree_conflicts,
            decouplings_lost: mds.decouplings_lost,
            orphans: mds.orphans as u64,
            waiting: mds.waiting_count as u64,
            waiting_longest_ms: mds.waiting.iter().map(|wait| wait.age_ms).max().unwrap_or(0),
            gated: mds.gated as u64,
            relaxed_directories: mds.relaxed.directories as u64,
            relaxed_behind: mds.relaxed.behind as u64,
            relaxed_lag_ms: mds.relaxed.lag_ms,
            relaxed_answers: mds.relaxed.early,
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
            ops: super::ops::of(std::iter::once(metrics), false),
            load: LoadDoc::new(&mds.load),
            balancer: super::balancer::rank_doc(status),
            others: mds.others.iter().map(KnownLoadDoc::new).collect(),
            data_errors: status.data_errors,
            damaged: status.faults.iter().map(DamagedDoc::new).collect(),
            hottest: mds.hottest.iter().map(HotDirDoc::new).collect(),
            decoupled: mds.decoupled.iter().map(DecoupledDoc::new).collect(),
            heat: HeatDoc::new(&mds.heat_totals),
        }
    }
}

/// A file whose data could not be read or written.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DamagedDoc {
    pub inode: u64,
    /// Null: not known by heart.
    pub path: Option<String>,
    /// Last error of the store.
    pub text: String,
    pub times: u64,
}

impl DamagedDoc {
    fn new(fault: &loligo_driver::DataFault) -> DamagedDoc {
        let loligo_driver::DataFault { ino, path, text, times } = fault;
        DamagedDoc { inode: ino.0, path: path.clone(), text: text.clone(), times: *times }
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

/// The sessions at all ranks.
pub fn sessions(ranks: &[loligo_driver::RankStatus]) -> Vec<SessionDoc> {
    let doc = |(rank, s): (u16, &loligo_mds::SessionStatus)| SessionDoc {
        id: s.id.0,
        rank,
        name: s.name.clone(),
        uid: Some(s.uid).filter(|uid| *uid != NOBODY),
        local: s.local,
        connected: s.connected,
        ending: s.ending,
        identity: s.identity.clone(),
        direct: s.direct,
        idle_ms: s.idle_ms,
        opens: s.opens as u64,
        leases: s.leases as u64,
        locks: s.locks as u64,
        in_flight: s.in_flight as u64,
        requests: s.requests,
        errors: s.errors,
    };
    ranks.iter().flat_map(|rank| rank.mds.sessions.iter().map(|s| doc((rank.rank.0, s)))).collect()
}

/// A line of the subtree map.
pub fn subtree(route: &Route) -> SubtreeDoc {
    let Route { dir, frag, rank, version } = *route;
    SubtreeDoc { dir: dir.0, frag: frag.to_string(), rank: rank.0, version }
}

/// A migration.
pub fn migration(m: &Migration) -> MigrationDoc {
    MigrationDoc {
        id: m.id,
        dir: m.dir.0,
        frag: m.frag.map(|frag| frag.to_string()),
        from: m.from.0,
        to: m.to.0,
        state: m.state.clone(),
        inodes: m.inodes,
        seen: m.seen,
        of: m.of,
        frozen_us: m.frozen_us,
        took_ms: m.took_ms,
    }
}

/// Progress of a rank's drain. `there`: there is such a rank.
pub fn drain(status: Option<DrainStatus>, there: bool) -> DrainDoc {
    let draining = status.is_some();
    let s = status.unwrap_or_default();
    DrainDoc {
        there,
        draining,
        state: s.state,
        subtrees_left: s.subtrees_left,
        subtrees_given: s.subtrees_given,
        files_left: s.files_left,
        files_given: s.files_given,
        orphans: s.orphans,
        sessions: s.sessions,
        took_ms: s.took_ms,
        stuck: s.stuck,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ranks_that_are_equally_well_off_one_that_says_what_is_wrong_is_shown() {
        let of = |all: &[(u16, &'static str, Option<&str>)]| {
            let all = all.iter().map(|(rank, word, why)| (Rank(*rank), (*word, why.map(str::to_string))));
            worst(all).map(|(rank, (word, _))| (rank.0, word))
        };
        assert_eq!(
            of(&[(0, "serving", None), (1, "serving", Some("x")), (2, "serving", Some("y"))]),
            Some((1, "serving"))
        );
        assert_eq!(of(&[(0, "serving", Some("x")), (1, "grace", None)]), Some((1, "grace")));
        assert_eq!(of(&[(1, "serving", None), (0, "serving", None)]), Some((0, "serving")));
        assert_eq!(of(&[]), None);
    }
}
