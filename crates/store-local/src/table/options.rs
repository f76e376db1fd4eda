//! Options of RocksDB: two cores, bounded memory and logs, a quick opening. Not tuned for any one benchmark; `docs/decisions/engine.md` has
//! the numbers.

use rocksdb::{BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LogLevel, Options};

use crate::store::OpenOptions;

/// Files of the first level below the newest ones.
const FILES_OF_LEVEL: u64 = 4;
/// Files that a compaction between two levels writes, and of the newest ones that are merged at a time, about.
const FILES_OF_COMPACTION: u64 = 12;
const NEWEST_FILES: u64 = 8;

pub(super) const DEFAULT_FAMILY: &str = "default";

pub(crate) fn database(options: &OpenOptions) -> Options {
    let mut db = Options::default();
    db.create_if_missing(true);
    db.set_block_based_table_factory(&blocks(options));
    db.set_compression_type(DBCompressionType::Lz4);
    memory_and_threads(&mut db, options);
    quick_opening(&mut db, options);
    bounded_logs(&mut db);
    db
}

fn blocks(options: &OpenOptions) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(options.block_cache_bytes));
    blocks.set_block_size(8 << 10);
    blocks.set_bloom_filter(10.0, false);
    // Indexes and filters count in the cache, or memory would grow with the number of files. In parts: once they do not
    // all fit, a read that misses brings in a few KiB of them, and not the whole filter of a file of a million keys.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_metadata_block_size(4 << 10);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_format_version(5);
    blocks
}

fn memory_and_threads(db: &mut Options, options: &OpenOptions) {
    db.set_write_buffer_size(options.write_buffer_bytes);
    db.set_max_write_buffer_number(3);
    // Names that are about to be made are looked up first, and are in none of the buffers.
    db.set_memtable_prefix_bloom_ratio(0.02);
    db.set_memtable_whole_key_filtering(true);
    db.set_target_file_size_base(options.table_file_bytes as u64);
    db.set_max_bytes_for_level_base(FILES_OF_LEVEL * options.table_file_bytes as u64);
    db.set_level_compaction_dynamic_level_bytes(true);
    db.set_max_background_jobs(2);
    // Spread the writing of files out, so that a sync of the journal does not wait behind it.
    db.set_bytes_per_sync(1 << 20);
    db.set_wal_bytes_per_sync(1 << 20);
}

fn quick_opening(db: &mut Options, options: &OpenOptions) {
    db.set_max_open_files(i32::try_from(options.open_tables).unwrap_or(i32::MAX));
    // At most 20 files are looked at, for how many rows there are.
    db.set_skip_stats_update_on_db_open(false);
    db.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    // There may be several logs, and the mark of the table tells of the last one only: RocksDB notes the others as they are closed, and opens no
    // table that lacks one of them.
    db.set_track_and_verify_wals_in_manifest(true);
    db.set_max_total_wal_size(64 << 20);
}

fn bounded_logs(db: &mut Options) {
    db.set_log_level(LogLevel::Warn);
    db.set_keep_log_file_num(2);
    db.set_max_log_file_size(1 << 20);
    db.set_stats_dump_period_sec(0);
    db.set_stats_persist_period_sec(0);
}

/// The most room that a compaction is likely to need at once, bytes.
pub(super) fn compaction_bytes(options: &OpenOptions) -> u64 {
    (FILES_OF_LEVEL + FILES_OF_COMPACTION) * options.table_file_bytes as u64
        + NEWEST_FILES * options.write_buffer_bytes as u64
}
