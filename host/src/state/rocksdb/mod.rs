//! The `rocksdb` backend: the base is one RocksDB database per task, for state larger than memory. A barrier's layer is
//! applied in write batches and flushed; then RocksDB links its files aside, and those that no earlier snapshot has stored
//! are copied to the checkpoints' storage. There is no write-ahead log: what a crash loses, the last checkpoint has.
//!
//! ```text
//! key      key group u16 BE · state number u32 BE · row
//! value    expiry i64 BE · schema version u16 BE · bytes
//! ```

mod base;
mod cursor;
mod database; // opened, closed, opened again
mod expiry;
mod files; // from storage to a directory
mod restore;
mod stored; // rows as bytes
#[cfg(test)]
mod tests;
mod tuning;
mod upload;
mod worker;

pub use tuning::{MEMORY_DEFAULT, Memory};

use super::layered::{Layered, Setup};
use super::{SnapshotVisitor, StateBackend};
use crate::checkpoint::CheckpointStorage;
use crate::env::{FailPoints, WaitPoint};
use anyhow::Context;
use base::Base;
use dataflow::checkpoint::FileEntry;
use files::Files;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What it is called in job files and manifests.
pub const NAME: &str = "rocksdb";

/// What a `rocksdb` backend is made with.
pub struct RocksOptions {
    /// Where snapshots go.
    pub storage: Arc<dyn CheckpointStorage>,
    /// The directory of the job's databases, best on the file system of its checkpoints: files are linked then, not copied.
    pub folder: PathBuf,
    /// Memory it shares with the job's other tasks.
    pub memory: Memory,
    /// Name of the task's chain, for file names.
    pub chain: String,
    /// Which of the chain's tasks.
    pub task: usize,
    /// Names this run of the job, differently from all earlier ones: files that an older manifest names are never overwritten.
    pub attempt: String,
    /// Key groups the task owns.
    pub groups: Range<u16>,
    /// Noticed when a snapshot is ready.
    pub notify: Arc<WaitPoint>,
    /// Where tests make it die.
    pub fail_points: Arc<FailPoints>,
}

type RocksBackend = Layered<Base>;

/// Without rows. Its directory is made when it is first needed, and removed with the backend.
pub fn open(options: RocksOptions) -> Box<dyn StateBackend> {
    Box::new(backend(options))
}

fn backend(options: RocksOptions) -> RocksBackend {
    let RocksOptions { storage, folder, memory, chain, task, attempt, groups, notify, fail_points } = options;
    let directory = folder.join(format!("{chain}-{task}-{attempt}"));
    let limits = memory.layers();
    let files = Files { storage, prefix: format!("state/{chain}-{task}-{attempt}") };
    let base = Base::new(directory, &memory, files, groups.start);
    Layered::new(Setup { chain, task, groups, limits, notify, fail_points }, base)
}

/// Removes what killed processes left in the directory of a job's databases. Only before any of them is opened.
///
/// # Errors
/// It cannot be removed.
pub fn clear(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| {
            format!("the state directory `{}` of an earlier run cannot be removed", folder.display())
        })?;
    }
    Ok(())
}

/// Visits the rows of `groups` that a snapshot's files hold, in the order of their stored keys.
pub(super) fn read_snapshot(
    storage: &dyn CheckpointStorage,
    scratch: &Path,
    files: &[FileEntry],
    groups: Range<u16>,
    visit: &mut SnapshotVisitor<'_>,
) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let folder = files::folder_in(scratch)?;
    files::fetch(storage, files, folder.path())?;
    database::visit(folder.path(), groups, visit)
}
