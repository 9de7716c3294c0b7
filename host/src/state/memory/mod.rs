//! The `memory` backend: the base is in memory too, in tables as the layers'; durable by the files of its snapshots. What
//! was frozen is written as a delta, or the whole base where the deltas have outgrown it.

mod background;
mod base;
mod cursor;
mod snapshot_file;
#[cfg(test)]
mod tests;

use super::layered::{Layered, Limits, Setup};
use super::{SnapshotVisitor, StateBackend};
use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::memory::MemoryStorage;
use crate::env::{FailPoints, WaitPoint};
use background::Writer;
use base::Base;
use dataflow::checkpoint::FileEntry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What it is called in job files and manifests.
pub const NAME: &str = "memory";

/// Bytes at which the active layer is frozen early, unless told otherwise.
pub const ACTIVE_LIMIT_DEFAULT: u64 = 64 << 20;

/// Frozen layers that may wait for the thread before no more is frozen early. The active layer may grow to as many times its
/// limit before the task waits.
const FROZEN_MAX: usize = 4;

/// What a `memory` backend is made with.
pub struct MemoryOptions {
    /// Where snapshots go.
    pub storage: Arc<dyn CheckpointStorage>,
    /// Name of the task's chain, for file names.
    pub chain: String,
    /// Which of the chain's tasks.
    pub task: usize,
    /// Names this run of the job, differently from all earlier ones: files that an older manifest names are never overwritten.
    pub attempt: String,
    /// Key groups the task owns.
    pub groups: Range<u16>,
    /// See [`ACTIVE_LIMIT_DEFAULT`].
    pub active_limit: u64,
    /// Noticed when a snapshot is ready.
    pub notify: Arc<WaitPoint>,
    /// Where tests make it die.
    pub fail_points: Arc<FailPoints>,
}

pub(in crate::state) type MemoryBackend = Layered<Base>;

/// Without rows.
pub fn open(options: MemoryOptions) -> Box<dyn StateBackend> {
    Box::new(MemoryBackend::with(options))
}

/// One for tests of what stands above it: owns `groups`, and its snapshots vanish with it.
pub fn for_tests(groups: Range<u16>) -> Box<dyn StateBackend> {
    Box::new(MemoryBackend::with(test_options(groups)))
}

fn test_options(groups: Range<u16>) -> MemoryOptions {
    static ATTEMPT: AtomicU64 = AtomicU64::new(0);
    let attempt = ATTEMPT.fetch_add(1, Ordering::Relaxed).to_string();
    let storage = Arc::new(MemoryStorage::default());
    let (active_limit, notify, fail_points) = (ACTIVE_LIMIT_DEFAULT, Arc::default(), Arc::default());
    MemoryOptions { storage, chain: "test".into(), task: 0, attempt, groups, active_limit, notify, fail_points }
}

impl MemoryBackend {
    fn with(options: MemoryOptions) -> Self {
        let MemoryOptions { storage, chain, task, attempt, groups, active_limit, notify, fail_points } = options;
        let writer = Writer { storage, prefix: format!("state/{chain}-{task}"), attempt };
        let base = Base::new(groups.clone(), writer, active_limit);
        let limits = Limits { active: active_limit, frozen: FROZEN_MAX, active_most: active_limit * FROZEN_MAX as u64 };
        Self::new(Setup { chain, task, groups, limits, notify, fail_points }, base)
    }

    #[cfg(test)]
    pub(in crate::state) fn for_tests(groups: Range<u16>) -> Self {
        Self::with(test_options(groups))
    }
}

/// Visits the rows of `groups` that a snapshot's files hold, in the order of their stored keys.
pub(super) fn read_snapshot(
    storage: Arc<dyn CheckpointStorage>,
    files: &[FileEntry],
    groups: Range<u16>,
    visit: &mut SnapshotVisitor<'_>,
) -> anyhow::Result<()> {
    let writer = Writer { storage, prefix: String::new(), attempt: String::new() };
    Base::new(groups, writer, 0).visit_files(files, visit)
}
