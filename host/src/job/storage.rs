//! Storage by the name that its user gives it: a folder.

use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::filesystem::FilesystemStorage;
use anyhow::ensure;
use std::path::Path;
use std::sync::Arc;

/// Opens a place: one that must be there, or one to write to.
///
/// # Errors
/// It is not there, or cannot be made.
pub(super) fn place(name: &str, must_exist: bool) -> anyhow::Result<Arc<dyn CheckpointStorage>> {
    ensure!(!must_exist || Path::new(name).is_dir(), "there is no folder `{name}`");
    Ok(Arc::new(FilesystemStorage::open(name)?))
}
