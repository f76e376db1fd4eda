//! Status of the machine, as plain data, for `loligo status`, `top` and the metrics.

use std::collections::BTreeMap;

use loligo_types::{Lsn, Rank, SessionId};

use crate::balance::BalanceStatus;
use crate::core::Core;
use crate::counters::OpCount;
use crate::decouple::{DecoupledCount, DecoupledStatus};
use crate::heat::{HotDir, KnownLoad, Load, LoadVec};
use crate::lease::Leases;
use crate::lock::Locks;
use crate::open::Opens;
use crate::session::{Session, Sessions};
use crate::tally::TallyStatus;

/// A session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionStatus {
    /// Its number.
    pub id: SessionId,
    /// The client's name for itself.
    pub name: String,
    /// User whom it belongs to.
    pub uid: u32,
    /// It lives in the server's process.
    pub local: bool,
    /// It has a connection.
    pub connected: bool,
    /// It is over, but its client may still reach what it held.
    pub ending: bool,
    /// The identity that its client has proved, while it is connected over TLS.
    pub identity: Option<String>,
    /// Its client reads and writes file data in the store by itself, or may.
    pub direct: bool,
    /// Since its last message, milliseconds.
    pub idle_ms: u64,
    /// Open handles.
    pub opens: usize,
    /// Leases.
    pub leases: usize,
    /// Locked ranges.
    pub locks: usize,
    /// Requests being executed.
    pub in_flight: usize,
    /// Requests so far.
    pub requests: u64,
    /// Of those, answered with an error.
    pub errors: u64,
}

/// A request that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitStatus {
    /// Its session.
    pub session: SessionId,
    /// Name of the operation.
    pub op: &'static str,
    /// The reason for which it waits.
    pub why: &'static str,
    /// Since when, milliseconds.
    pub age_ms: u64,
}

/// The grace time after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraceStatus {
    /// It ends at the latest in so many milliseconds.
    pub left_ms: u64,
    /// Sessions that it waits for.
    pub missing: usize,
}

/// Relaxed directories, whose changes are durable a moment after they are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelaxedStatus {
    /// Directories with such a policy.
    pub directories: usize,
    /// Answers so far that left before the journal was durable.
    pub early: u64,
    /// Inodes whose last change is not durable.
    pub behind: usize,
    /// Age of the oldest such change, milliseconds.
    pub lag_ms: u64,
}

/// Everything.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// This server's logical number.
    pub rank: Rank,
    /// Its state in the cluster map.
    pub member: loligo_types::RankState,
    /// It is being drained, and does not get on: why, and what to do.
    pub drain_stuck: Option<String>,
    /// Sessions by number.
    pub sessions: Vec<SessionStatus>,
    /// Operations by name; those never asked for are absent.
    pub ops: BTreeMap<&'static str, OpCount>,
    /// Memory of the cache, bytes.
    pub cache_bytes: usize,
    /// Of it for hashes of names that are not in it, bytes.
    pub hash_bytes: usize,
    /// Inodes in the cache.
    pub cache_inodes: usize,
    /// Dirty records.
    pub dirty: usize,
    /// Leases given.
    pub leases: usize,
    /// Memory of the leases, bytes.
    pub lease_bytes: usize,
    /// Locked ranges.
    pub locks: usize,
    /// The last change.
    pub last_lsn: Lsn,
    /// The last durable change.
    pub durable_lsn: Lsn,
    /// Answers that wait for the journal.
    pub gated: usize,
    /// Answers that did not.
    pub relaxed: RelaxedStatus,
    /// Journal bytes not trimmed.
    pub journal_bytes: u64,
    /// Above this changes wait; 0: not known yet.
    pub journal_limit: u64,
    /// The table or the store is full.
    pub full: bool,
    /// The journal failed; nothing is answered any more.
    pub failed: bool,
    /// After a restart.
    pub grace: Option<GraceStatus>,
    /// Recalls not answered.
    pub recalls_pending: usize,
    /// Recalls so far.
    pub recalls: u64,
    /// Sessions evicted so far.
    pub evicted: u64,
    /// Checkpoints that failed so far.
    pub checkpoints_failed: u64,
    /// Decoupled subtrees; at most 256, those that are taken back soonest first.
    pub decoupled: Vec<DecoupledStatus>,
    /// Number of decoupled subtrees.
    pub decoupled_count: DecoupledCount,
    /// Merges into decoupled subtrees.
    pub subtree_merges: u64,
    /// Conflicts in merges, where others could work meanwhile.
    pub subtree_conflicts: u64,
    /// Subtrees that were taken back because their owners were not heard.
    pub decouplings_lost: u64,
    /// Requests that were sent on to another rank so far.
    pub redirects: u64,
    /// Directories split into fragments so far.
    pub splits: u64,
    /// Directories merged so far.
    pub merges: u64,
    /// Bytes of file data that went into the journal in this life.
    pub data_taken: u64,
    /// Bytes, and files, of which only the journal is known to have all durably.
    pub data_held: (u64, usize),
    /// Directories made at ranks that their numbers name, so far.
    pub scattered: u64,
    /// Fragments of such directories that were given to other ranks because the directories have grown, so far.
    pub spreads: u64,
    /// Paths over directories of several ranks.
    pub paths: PathStatus,
    /// By placement, what was waited for, and how long paths were.
    pub tally: TallyStatus,
    /// Reads of the table under way.
    pub loads: usize,
    /// Files of whose objects something is to be dropped.
    pub discards: usize,
    /// Orphans.
    pub orphans: usize,
    /// Requests that wait, oldest first; at most 1000.
    pub waiting: Vec<WaitStatus>,
    /// Number of waiting requests.
    pub waiting_count: usize,
    /// The load of this rank.
    pub load: Load,
    /// The load of others, as far as it is known.
    pub others: Vec<KnownLoad>,
    /// The balancer.
    pub balance: BalanceStatus,
    /// The hottest directories, hottest first; at most 10.
    pub hottest: Vec<HotDir>,
    /// Fragments of directories whose heat is remembered, and the memory for that, bytes.
    pub heat_frags: (usize, usize),
    /// The counters so far, not decayed; of requests, samples with their weight.
    pub heat_totals: LoadVec,
}

/// Paths over directories of several ranks, and what is replicated for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathStatus {
    /// Replicas that this rank holds of others' directories.
    pub held: usize,
    /// Its own directories of which others hold replicas.
    pub lent: usize,
    /// Names on the way that were found by replicas so far, and that another rank had to be asked for by the client.
    pub steps: u64,
    pub partings: u64,
    /// Questions to other ranks so far, for replicas and names.
    pub asks: u64,
    /// Replicas that were asked back so far, because a directory was about to change.
    pub asked_back: u64,
    /// Paths whose directories are known as one step, and walks that began with one.
    pub shortcuts: usize,
    pub shortcuts_taken: u64,
    /// Directories of which it is remembered what clients were promised, lookup leases given so far, and changes that had to wait for the end of one.
    pub promised: usize,
    pub promises: u64,
    pub promise_waits: u64,
}

/// Most waiting requests shown one by one.
const WAITING_SHOWN: usize = 1000;

impl Sessions {
    pub(crate) fn session_status(
        &self,
        core: &Core,
        leases: &Leases,
        opens: &Opens,
        locks: &Locks,
    ) -> Vec<SessionStatus> {
        let sessions = self.iter().map(|(slot, session)| SessionStatus {
            id: session.id,
            name: String::from_utf8_lossy(&session.name).into_owned(),
            uid: session.uid,
            local: session.local,
            connected: session.conn.is_some(),
            ending: session.ending.is_some(),
            identity: self.identity_of(session),
            direct: !session.addresses.is_empty(),
            idle_ms: core.now.mono_ms.saturating_sub(session.heard_ms),
            opens: opens.handles(slot),
            leases: leases.count(slot),
            locks: locks.held_by(slot),
            in_flight: session.window.running(),
            requests: session.requests,
            errors: session.errors,
        });
        sessions.collect()
    }

    fn identity_of(&self, session: &Session) -> Option<String> {
        let conn = self.conns.get(&session.conn?)?;
        conn.peer.identity.as_ref().map(|identity| identity.name.clone())
    }
}

impl Core {
    pub(crate) fn waiting_status(&self) -> Vec<WaitStatus> {
        let waiting = self.parked.iter().take(WAITING_SHOWN).map(|(job, why)| WaitStatus {
            session: job.session,
            op: job.op.name(),
            why: why.name(),
            age_ms: self.now.mono_ms.saturating_sub(job.since_ms),
        });
        waiting.collect()
    }
}
