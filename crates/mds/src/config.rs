//! Settings of the machine, and the time as it is given to it.

use std::sync::Arc;

use loligo_namespace::FragConfig;
use loligo_types::{ClusterMap, JournalMode, Journaling, Rank, Time};

/// The time of an input: one clock that never goes back, for time-outs, and the wall clock, for stamps only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Milliseconds of a monotonic clock.
    pub mono_ms: u64,
    /// Time of day.
    pub wall: Time,
}

/// Settings. Plain data; [`Config::default`] is what a server uses unless it is told otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// This metadata server's logical number.
    pub rank: Rank,
    /// The ranks of the cluster. Alone in it (or with nobody in it), a rank asks nobody about anything.
    pub map: ClusterMap,
    /// The file system.
    pub fs_id: [u8; 16],
    /// Made once by format: orders directories; one half of the secrets of sessions, the other is a client's. Clients are told it, nobody else.
    pub hash_key: (u64, u64),
    /// Largest file held in its inode, bytes.
    pub inline_max: u32,
    /// Smallest data held in an inode of which the journal has small changes in short, bytes.
    pub short_from: u32,
    /// A session that is silent for this long is evicted, milliseconds.
    pub session_ms: u32,
    /// Number that the driver changes when it starts after data may have been lost that clients were told is written
    /// (see [`loligo_types::msg::Welcome::data_epoch`]).
    pub data_epoch: u64,
    /// The life before this one may have ended in a crash, and not in order.
    pub after_crash: bool,
    /// A session that does not obey a recall for this long is given no sign of life any more, and evicted `session_ms` after the last
    /// one, milliseconds.
    pub recall_ms: u32,
    /// Time after a restart in which known sessions may reclaim what they held, milliseconds; those of the network for
    /// at least `session_ms`.
    pub grace_ms: u32,
    /// Memory for the cache of records, bytes. If changed records take more than this and an eighth, changes wait for
    /// checkpoints.
    pub cache_bytes_max: usize,
    /// Most leases of one session; beyond, the oldest are recalled.
    pub leases_max: usize,
    /// Most sessions.
    pub sessions_max: usize,
    /// Most bytes of requests that wait. A session that has more of them than are free is answered `Busy`.
    pub waiting_bytes_max: u64,
    /// Checkpointing starts when this many records are dirty.
    pub dirty_max: usize,
    /// Checkpointing starts when the oldest dirty record is this old, milliseconds.
    pub dirty_ms_max: u64,
    /// Most records of one checkpoint.
    pub checkpoint_records: usize,
    /// Time for which leases on a directory are withheld after they had to be recalled for a change of its entries,
    /// milliseconds.
    pub contended_ms: u64,
    /// After this time what was done with a directory counts half, milliseconds.
    pub heat_half_life_ms: u64,
    /// Most fragments of directories whose heat is remembered; beyond, the coldest are forgotten.
    pub heat_dirs_max: usize,
    /// One request in so many is counted for the heat of directories, and stands for all of them; 1: each.
    pub heat_sample: u32,
    /// Interval at which a rank tells others of its load, milliseconds.
    pub beat_ms: u64,
    /// Interval at which the balancer's policy is asked, milliseconds.
    pub balance_ms: u64,
    /// Leases that move with a subtree; those beyond are asked back before.
    pub moved_leases_max: usize,
    /// When directories are cut into fragments.
    pub frag: FragConfig,
    /// Divisor of everything that is done in one go, kept or told at once (1): simulations, of few inodes, meet what otherwise only
    /// millions would.
    pub shrink: usize,
    /// Where in the store clients may read and write file data by themselves; `None`: they cannot.
    pub direct: Option<Arc<str>>,
    /// Most bytes of data that go into the journal with one request; 0: none.
    pub journal_max: u32,
    /// Mode of the data journal for files whose policy says none.
    pub journal_mode: JournalMode,
    /// Data is durable in objects when its write is answered, as on RADOS.
    pub writes_durable: bool,
    /// Mode and owner of the root directory of a new file system.
    pub root: (u16, u32, u32),
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rank: Rank::ZERO,
            map: ClusterMap::default(),
            fs_id: [0; 16],
            hash_key: (0, 0),
            inline_max: 4096,
            short_from: 512,
            session_ms: 30_000,
            data_epoch: 0,
            after_crash: true,
            recall_ms: 30_000,
            grace_ms: 30_000,
            cache_bytes_max: 512 << 20,
            leases_max: 1 << 20,
            sessions_max: 4096,
            waiting_bytes_max: 1 << 30,
            dirty_max: 100_000,
            dirty_ms_max: 10_000,
            checkpoint_records: 2000,
            contended_ms: 1000,
            heat_half_life_ms: 5000,
            heat_dirs_max: 65_536,
            heat_sample: 8,
            beat_ms: 1000,
            balance_ms: 10_000,
            moved_leases_max: 65_536,
            frag: FragConfig::default(),
            shrink: 1,
            direct: None,
            journal_max: 64 << 10,
            journal_mode: JournalMode::Selective,
            writes_durable: false,
            root: (0o755, 0, 0),
        }
    }
}

impl Config {
    /// Mode of the data journal for files whose policy says none.
    pub(crate) fn journaling(&self) -> Journaling {
        match (self.journal_mode, self.journal_max, self.writes_durable) {
            (mode, 0, true) if mode.takes_data() => Journaling::of(JournalMode::Ordered),
            (mode, 0, false) if mode.takes_data() => Journaling::of(JournalMode::Writeback),
            (JournalMode::Selective, threshold, _) => Journaling { mode: JournalMode::Selective, threshold },
            (mode, ..) => Journaling::of(mode),
        }
    }

    /// The mode in force where a policy says this one: without data in the journal, modes that want it are as if nothing was said.
    pub(crate) fn journaling_of(&self, said: Option<Journaling>) -> Journaling {
        let said = said.filter(|said| self.journal_max > 0 || !said.mode.takes_data());
        said.unwrap_or_else(|| self.journaling())
    }

    /// So many, or fewer in a simulation.
    pub(crate) fn some(&self, many: usize) -> usize {
        (many / self.shrink.max(1)).max(1)
    }
}
