//! How RocksDB is set up, and how the memory a job gives to its state is shared out.

use super::expiry::{Expiry, Filters};
use crate::state::layered::Limits;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BlockBasedTablePinningTier, Cache, DBCompressionType, DataBlockIndexType,
    LogLevel, Options, WriteOptions,
};
use std::sync::Arc;

/// Bytes of memory that a job's state takes, unless told otherwise.
pub const MEMORY_DEFAULT: u64 = 1 << 30;

/// The least that works: a few blocks and layers for each task.
const MEMORY_MIN: u64 = 16 << 20;

/// A table file closes at this size.
const FILE_BYTES: u64 = 64 << 20;

/// Bytes of the first sorted level; each further one holds ten times as much.
const LEVEL_BYTES: u64 = 256 << 20;

/// Files of the first level, each a layer, that are compacted together. A state that fits the next level is rewritten each time.
const FIRST_LEVEL_FILES: i32 = 8;

/// Bytes of rows that are read and cached together, before compression.
const BLOCK_BYTES: usize = 4 << 10;

/// Bytes of a part of an index or a filter. A batch of reads goes in runs of 32 sorted rows: most of a run lies in one part.
const PART_BYTES: usize = 64 << 10;

/// Bits of a Bloom filter for each row: one look in a hundred for a row that is not there reads a block.
const FILTER_BITS: f64 = 10.0;

/// Bytes that are set aside for a database's list of its files.
const MANIFEST_BYTES: usize = 64 << 10;

/// Open table files of all tasks together.
const OPEN_FILES: usize = 768;

/// Files older than this are rewritten, so that expired rows are freed where nothing else is written.
pub(super) const PERIODIC_SECONDS: u64 = 3600;

/// The memory of a job's state: one block cache for all its tasks. Of the whole the cache takes five sixteenths; the tasks' layers
/// take a fifth, and the rest is left for what RocksDB allocates beside its cache (readers, compactions, files being written) and
/// for what the allocator keeps: measured, not guessed. There are no write buffers: layers become files as they are.
#[derive(Clone)]
pub struct Memory {
    cache: Cache,
    bytes: u64,
    tasks: u64,
}

impl Memory {
    /// So many bytes for so many tasks.
    pub fn new(bytes: u64, tasks: usize) -> Self {
        let bytes = bytes.max(MEMORY_MIN);
        // No estimate of an entry's size: the cache's table grows with it.
        let cache = Cache::new_hyper_clock_cache((bytes / 16 * 5) as usize, 0);
        Self { cache, bytes, tasks: tasks.max(1) as u64 }
    }

    /// What each task's layers may take: one active, one being applied.
    pub(super) fn layers(&self) -> Limits {
        let active = self.bytes / 10 / self.tasks;
        Limits { active, frozen: 1, active_most: active }
    }

    /// Bytes that the cache holds.
    pub fn cached(&self) -> u64 {
        self.cache.get_usage() as u64
    }
}

/// For a task's database, its files dropping what has expired.
pub(super) fn database(memory: &Memory, expiry: Arc<Expiry>) -> Options {
    let mut options = tables(Some(&memory.cache), Index::InParts);
    options.create_if_missing(true);
    options.set_compaction_filter_factory(Filters(expiry));
    // Nothing is written into it but the ranges that a restore cuts away. RocksDB takes files of the first level up to half as
    // much again for layers, whose filters stay in memory.
    options.set_write_buffer_size((memory.layers().active * 2) as usize);
    options.set_max_open_files((OPEN_FILES / memory.tasks as usize).max(64) as i32);
    // One flush, one compaction; the threads are the process's, whatever the number of databases.
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1 << 20);
    options
}

/// For the table file that a layer becomes.
pub(super) fn layer(memory: &Memory) -> Options {
    tables(Some(&memory.cache), Index::Whole)
}

/// For a snapshot's files that are only read, once and in order.
pub(super) fn reading() -> Options {
    let mut options = tables(None, Index::Whole);
    options.set_max_open_files(64);
    options
}

/// How a table file's index and filter lie in it, and are cached.
#[derive(PartialEq, Eq)]
enum Index {
    /// As one block each: found at once, but all of it is there or nothing. For layers, which are looked into for every row.
    Whole,
    /// In parts below a top that stays: those of a large state do not fit the memory.
    InParts,
}

/// For table files, whoever writes them.
fn tables(cache: Option<&Cache>, index: Index) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_format_version(6);
    blocks.set_bloom_filter(FILTER_BITS, false);
    blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    if let Some(cache) = cache {
        blocks.set_block_cache(cache);
        if index == Index::InParts {
            blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            blocks.set_partition_filters(true);
            blocks.set_metadata_block_size(PART_BYTES);
        }
        // Whatever wrote them, those of layers stay.
        blocks.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::FlushAndSimilar);
        blocks.set_partition_pinning_tier(BlockBasedTablePinningTier::FlushAndSimilar);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
        blocks.set_pin_top_level_index_and_filter(true);
        blocks.set_optimize_filters_for_memory(true);
    } else {
        blocks.disable_cache();
    }
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_target_file_size_base(FILE_BYTES);
    options.set_max_bytes_for_level_base(LEVEL_BYTES);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_level_zero_file_num_compaction_trigger(FIRST_LEVEL_FILES);
    // With a database only its first sixteen files are opened, which is not worth as many threads.
    options.set_max_file_opening_threads(1);
    // The list of files is short, and begins anew with each database: 4 MiB set aside for it are never filled.
    options.set_manifest_preallocation_size(MANIFEST_BYTES);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(1);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_skip_stats_update_on_db_open(true);
    options
}

/// For every write: a crash goes back to the last checkpoint, so there is no log.
pub(super) fn writes() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.disable_wal(true);
    options
}
