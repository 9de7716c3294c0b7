//! Storage by the name that its user gives it: a folder or a URL.

use super::run::RunOptions;
use crate::checkpoint::{CheckpointStorage, Location};
use anyhow::{Context, ensure};
use std::sync::Arc;

/// Where a job's checkpoints lie: in the data directory, or in what the user names instead. The layout is the same.
///
/// # Errors
/// It cannot be opened.
pub(super) fn checkpoints(job: &str, options: &RunOptions) -> anyhow::Result<Arc<dyn CheckpointStorage>> {
    let local = Location::Folder(options.data_dir.clone());
    let location = options.checkpoint_storage.as_ref().unwrap_or(&local);
    location
        .open(&format!("{job}/checkpoints"))
        .with_context(|| format!("the checkpoint storage `{location}` cannot be opened"))
}

/// Opens a place: one that must be there, or one to write to.
///
/// # Errors
/// It is not there, or cannot be made.
pub(super) fn place(name: &str, must_exist: bool) -> anyhow::Result<Arc<dyn CheckpointStorage>> {
    let location: Location = name.parse()?;
    if let Location::Folder(folder) = &location {
        ensure!(!must_exist || folder.is_dir(), "there is no folder `{name}`");
    }
    location.open("")
}
