//! Reads the rows of a durable snapshot, without a task: savepoints and `millstream state` are made from it. The way back
//! needs nothing of its own: rows are put into a fresh backend, of either kind.

use super::{SnapshotVisitor, memory};
use crate::checkpoint::CheckpointStorage;
use anyhow::bail;
use dataflow::checkpoint::TaskSnapshot;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Visits the rows of `groups` that one task's snapshot holds, in the order of their stored keys: key group, state number,
/// row. Rows that have expired may be among them. `scratch` is a directory for files while they are read; it is made if it is
/// not there, and what is put into it is removed. Best on the file system of the checkpoints: their files are linked then.
///
/// # Errors
/// A file is missing or damaged: which, and how. Written by a backend that this program does not know. Or the visitor's own.
pub fn read_snapshot(
    storage: &Arc<dyn CheckpointStorage>,
    scratch: &Path,
    snapshot: &TaskSnapshot,
    groups: Range<u16>,
    visit: &mut SnapshotVisitor<'_>,
) -> anyhow::Result<()> {
    match snapshot.backend.as_str() {
        memory::NAME => memory::read_snapshot(storage.clone(), &snapshot.files, groups, visit),
        super::rocksdb::NAME => super::rocksdb::read_snapshot(&**storage, scratch, &snapshot.files, groups, visit),
        other => bail!(
            "the state of `{}` {} was written by the backend `{other}`, which this program does not know: use the program \
             that wrote it",
            snapshot.chain,
            snapshot.task
        ),
    }
}
