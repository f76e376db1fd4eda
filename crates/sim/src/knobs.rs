//! Parameters of a run: everything that is chosen once, from the seed.

use loligo_namespace::FragConfig;
use loligo_types::{JournalMode, Rank};

use crate::options::Options;
use crate::rng::Rng;

/// The choices.
#[derive(Clone, Debug)]
pub struct Knobs {
    pub clients: usize,
    pub programs: usize,
    pub think_us: u64,
    pub net: (u64, u64),
    pub journal: (u64, u64),
    pub table: (u64, u64),
    pub data: (u64, u64),
    pub kernel: (u64, u64),
    pub fault_every_ms: u64,
    /// Relative weight of each kind of fault.
    pub fault_weights: [u64; 10],
    pub ranks: usize,
    /// Checkpoints are synced, and not only written.
    pub table_syncs: bool,
    /// A checkpoint's rows become true bit by bit, as on a cluster, and not all at once.
    pub rows_apart: bool,
    pub migrate_every_ms: u64,
    pub server: loligo_mds::Config,
    pub client: loligo_client::Config,
    pub segment_size: u64,
    pub journal_limit: u64,
    pub direct: Direct,
    /// Of eight things that a program does where there are relaxed directories so many are done there.
    pub relaxed_of_8: u64,
}

/// Of clients that reach file data by themselves; without them nothing of this matters.
#[derive(Clone, Debug)]
pub struct Direct {
    /// Operations of a client under way at a time.
    pub threads: u64,
    /// One of so many pieces is on its way for long.
    pub hangs: u64,
    /// Now and then a rank is started that is set not to have it.
    pub some_ranks: bool,
}

/// Time after which a silent session ends, milliseconds.
pub const SESSION_MS: u32 = 1500;
/// Choices for [`loligo_mds::Config::shrink`]: a few inodes take as many steps here as many more do outside simulations.
const SHRINK: [usize; 4] = [1, 16, 64, 512];

impl Knobs {
    /// Those of a seed.
    pub fn new(rng: &mut Rng, fs_id: [u8; 16], hash_key: (u64, u64), options: &Options) -> Knobs {
        let slow = |rng: &mut Rng, short: u64, long: u64| (rng.range(short / 2, short), rng.range(short, long));
        let client = loligo_client::Config {
            name: "sim".into(),
            client: 0,
            rank: Rank::ZERO,
            cache: !rng.one_in(6),
            // Where there are paths half of all clients cache none: others go the way first, and do the rest by number.
            cache_names: !(rng.one_in(6) || options.paths && hash_key.1 >> 45 & 1 == 1),
            write_buffer_file: rng.pick(&[200, 1000, 100_000]),
            write_buffer_total: rng.pick(&[300, 2000, 100_000]),
            write_behind: rng.pick(&[64, 300, 100_000]),
            write_delay_ms: rng.pick(&[20, 200, 2000]),
            read_ahead: rng.pick(&[0, 1 << 20]),
            read_cache: rng.pick(&[100_000, 1 << 22]),
            close_delay_ms: rng.pick(&[0, 100, 1000]),
            idle_handles: rng.pick(&[2, 100]),
            shrink: SHRINK[(hash_key.1 / 2 % 4) as usize],
            give_up_ms: rng.pick(&[1000, 4000, 60_000]),
            // Chosen as the fragments are, below.
            doubt_ms: [0, 100, 500, 2_000][(hash_key.1 / 32 % 4) as usize],
            keeps: false,
            lives_with_rank: false,
            // A directory that a client has given its number to is not scattered.
            ino_grant: if options.scattered && hash_key.1 >> 40 & 3 != 0 {
                0
            } else {
                [0, 3, 16, 1000][(hash_key.1 % 4) as usize]
            },
        };
        // Chosen by the secret, too.
        let balance_ms = [100, 300, 1000][(hash_key.0 % 3) as usize];
        let heat_sample = if options.balance { 1 } else { 8 };
        let server = loligo_mds::Config {
            balance_ms,
            heat_sample,
            fs_id,
            hash_key,
            inline_max: rng.pick(&[128, 300, 4096]),
            // Chosen by the secret: of data of a few bytes small changes are logged in short, or only of data of the usual size.
            short_from: [512, 40, 40, 40][(hash_key.0 >> 42 & 3) as usize],
            session_ms: SESSION_MS,
            recall_ms: SESSION_MS / [1, 5][(hash_key.1 % 2) as usize],
            // Also shorter than a session lives: the server must wait for who did not notice the restart.
            grace_ms: rng.pick(&[SESSION_MS / 10, SESSION_MS * 2]),
            cache_bytes_max: rng.pick(&[1_000, 20_000, 1 << 22]),
            leases_max: rng.pick(&[4, 1000]),
            dirty_max: rng.pick(&[5, 50, 1000]),
            dirty_ms_max: rng.pick(&[50, 500, 3000]),
            checkpoint_records: rng.pick(&[1, 10, 100]),
            contended_ms: rng.pick(&[1, 50, 500]),
            // Chosen by the secret: no data, or that of one block, goes into the journal, or all of it.
            journal_max: [64 << 10, 64, 0, 64][(hash_key.0 >> 40 & 3) as usize],
            journal_mode: mode(hash_key.0 >> 48),
            root: (0o755, 0, 0),
            frag: frags(hash_key.0),
            moved_leases_max: (8192 / SHRINK[(hash_key.1 / 2 % 4) as usize]).max(1),
            shrink: SHRINK[(hash_key.1 / 2 % 4) as usize],
            ..loligo_mds::Config::default()
        };
        let mut fault_weights = [0; 10];
        for weight in &mut fault_weights[..8] {
            *weight = rng.pick(&[0, 1, 1, 3]);
        }
        fault_weights[0] += 1;
        if options.relaxed {
            // A loss needs the crash of a rank, of its machine too, while something waits for its sync.
            fault_weights[4] += 4;
        }
        let (first, last) = options.ranks;
        let ranks = if first < last { rng.range(first, last) } else { first }.clamp(1, 5) as usize;
        if ranks > 1 {
            fault_weights[8] = rng.pick(&[0, 1, 3, 6]);
            fault_weights[9] = rng.pick(&[0, 1, 3]);
        }
        let migrate_every_ms = if ranks > 1 { rng.pick(&[100, 300, 1000, 3000]) } else { 0 };
        let segment_size = rng.pick(&[1_000, 10_000, 1 << 20]);
        Knobs {
            clients: rng.range(2, 3) as usize,
            programs: rng.range(1, 3) as usize,
            think_us: rng.pick(&[4_000, 20_000]),
            net: slow(rng, 300, 20_000),
            // By the secret: so slow that answers wait because of the lag.
            journal: match (slow(rng, 500, 30_000), hash_key.0 >> 50 & 3) {
                (_, 0) if options.relaxed => (30_000, 200_000),
                (_, 1) if options.relaxed => (5_000, 400_000),
                (_, 2) if options.relaxed => (100_000, 600_000),
                (usual, _) => usual,
            },
            table: slow(rng, 1000, 50_000),
            data: slow(rng, 500, 30_000),
            kernel: slow(rng, 100, 50_000),
            fault_every_ms: rng.pick(&[100, 300, 1000, 3000]),
            fault_weights,
            server,
            client,
            segment_size,
            ranks,
            table_syncs: !rng.one_in(3),
            // By the secret, as above.
            rows_apart: hash_key.1 / 16 % 2 == 1,
            migrate_every_ms,
            // In a journal that cannot be cut to below its limit each change waits for the checkpoint of the one before it.
            journal_limit: rng.pick(&[40_000, 1 << 22]).max(segment_size * 6),
            direct: Direct {
                threads: [1, 2, 16][(hash_key.0 / 64 % 3) as usize],
                hangs: [4, 20, 200][(hash_key.1 / 64 % 3) as usize],
                some_ranks: (hash_key.1 / 256).is_multiple_of(4),
            },
            // By the secret: strict changes wait for the syncs, so programs that do many of those do little besides.
            relaxed_of_8: [4, 7][(hash_key.0 >> 52 & 1) as usize],
        }
    }
}

/// The journal mode of files without a policy: most runs have that of a server as it is installed.
fn mode(number: u64) -> JournalMode {
    let at = (number & 15) as usize;
    JournalMode::ALL.get(at).copied().unwrap_or(JournalMode::Selective)
}

/// When directories are cut: directories of a run have few names, so mostly at a few. Chosen by the file system's secret,
/// which comes from the seed as well, so that seeds found before choose the rest as they did.
fn frags(secret: u64) -> FragConfig {
    let (split_entries, merge_entries, split_bits) = match secret % 5 {
        0 => return FragConfig::default(),
        1 => (1, 0, 3),
        2 => (2, 0, 1),
        3 => (2, 1, 1),
        _ => (4, 1, 1),
    };
    // The last but one is no setting that a server takes: a split and a merge lie next to each other.
    FragConfig { split_entries, merge_entries, split_bits }
}
