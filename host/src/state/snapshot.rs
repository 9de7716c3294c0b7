//! Reads the rows of a durable snapshot, without a task.

use super::snapshot_file::read_file;
use super::{Address, SnapshotVisitor};
use crate::checkpoint::CheckpointStorage;
use dataflow::checkpoint::TaskSnapshot;
use dataflow::key::KeyGroup;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Visits the rows.
pub fn read_snapshot(
    storage: &Arc<dyn CheckpointStorage>,
    _scratch: &Path,
    snapshot: &TaskSnapshot,
    groups: Range<u16>,
    visit: &mut SnapshotVisitor<'_>,
) -> anyhow::Result<()> {
    let mut rows = BTreeMap::new();
    for file in &snapshot.files {
        read_file(&**storage, file, |row| {
            let at = (row.group.0, row.state, row.row.to_vec());
            match row.value {
                Some((meta, bytes)) => drop(rows.insert(at, (meta, bytes.to_vec()))),
                None => drop(rows.remove(&at)),
            }
        })?;
    }
    for ((group, state, row), (meta, bytes)) in &rows {
        if groups.contains(group) {
            visit(Address { group: KeyGroup(*group), state: *state, row }, *meta, bytes)?;
        }
    }
    Ok(())
}
