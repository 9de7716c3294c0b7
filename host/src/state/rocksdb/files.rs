//! Names of a database's files in the storage, and the way back: from storage to a directory, each file verified.

use crate::checkpoint::{CheckpointStorage, read_verified_to_file};
use anyhow::Context;
use dataflow::checkpoint::{CheckpointId, FileEntry};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// How the list of a database's files is called there.
const LIST: &str = "MANIFEST-";

/// The files of one task's snapshots.
///
/// ```text
/// state/<chain>-<task>-<attempt>-000012.sst              a table file of the database
/// state/<chain>-<task>-<attempt>-<n>-MANIFEST-000005     which of them make up snapshot n
/// ```
#[derive(Clone)]
pub(super) struct Files {
    pub(super) storage: Arc<dyn CheckpointStorage>,
    /// `state/<chain>-<task>-<attempt>`.
    pub(super) prefix: String,
}

impl Files {
    /// `<chain>-<task>-<attempt>`.
    pub(super) fn task(&self) -> &str {
        self.prefix.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn name_of_table(&self, table: &str) -> String {
        format!("{}-{table}", self.prefix)
    }

    pub(super) fn name_of_list(&self, checkpoint: CheckpointId, list: &str) -> String {
        format!("{}-{checkpoint}-{list}", self.prefix)
    }
}

/// What a stored file is called in its database.
pub(super) fn local_name(stored: &str) -> Option<&str> {
    let at = if stored.ends_with(".sst") { stored.rfind('-')? + 1 } else { stored.rfind(LIST)? };
    Some(&stored[at..])
}

/// The stored table file's name in its database; none for the list.
pub(super) fn table_of(stored: &str) -> Option<&str> {
    local_name(stored).filter(|name| name.ends_with(".sst"))
}

/// Puts a snapshot's files into a directory as a database that can be opened.
///
/// # Errors
/// A file is missing or damaged: which, and how.
pub(super) fn fetch(storage: &dyn CheckpointStorage, files: &[FileEntry], into: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(into).with_context(|| format!("`{}` cannot be made", into.display()))?;
    let mut list = None;
    for file in files {
        let local = local_name(&file.name)
            .with_context(|| format!("`{}` is no name of a file of a state database", file.name))?;
        let path = into.join(local);
        read_verified_to_file(storage, file, &path)?;
        if local.starts_with(LIST) {
            list = Some(local);
        }
    }
    let list = list.with_context(|| {
        let first = files.first().map_or("none", |file| &file.name);
        format!("the snapshot names no list of its files beside `{first}`: its manifest is damaged")
    })?;
    fs::write(into.join("CURRENT"), format!("{list}\n"))
        .with_context(|| format!("`{}` cannot be written", into.display()))
}

/// A directory that goes when it is dropped.
pub(super) fn folder_in(above: &Path) -> anyhow::Result<tempfile::TempDir> {
    fs::create_dir_all(above)
        .and_then(|()| tempfile::tempdir_in(above))
        .with_context(|| format!("no directory can be made in `{}`", above.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_tell_the_names_in_the_database() {
        assert_eq!(local_name("state/a-b-0-19c-7f-000012.sst"), Some("000012.sst"));
        assert_eq!(local_name("state/MANIFEST-0-19c-7f-3-MANIFEST-000005"), Some("MANIFEST-000005"));
        assert_eq!(table_of("state/a-0-19c-7f-3-MANIFEST-000005"), None);
        assert_eq!(local_name("state/a"), None);
    }
}
