//! Stored files and what is known of them: whoever reads a file that a checkpoint names gets what was written, or is told
//! which file is damaged.

use super::CheckpointStorage;
use anyhow::Context;
use dataflow::checkpoint::FileEntry;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

/// A file that a checkpoint needs is missing, or is not what was stored. Found by `downcast_ref` in an error, it tells
/// that an earlier checkpoint may still be whole.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint file `{file}` {problem}")]
pub struct Damaged {
    /// Its name in the storage.
    pub file: String,
    /// What is wrong with it, as the rest of a sentence.
    pub problem: String,
}

/// How a checkpoint names a file with this content.
pub fn entry(name: String, content: &[u8]) -> FileEntry {
    FileEntry { name, length: content.len() as u64, checksum: checksum(content) }
}

/// xxh3-64 in hexadecimal.
fn checksum(content: &[u8]) -> String {
    format!("{:016x}", xxh3_64(content))
}

/// Reads a file that a checkpoint names.
///
/// # Errors
/// [`Damaged`]: it is missing, or has another length or checksum. Any other: the storage refuses.
pub fn read_verified(storage: &dyn CheckpointStorage, file: &FileEntry) -> anyhow::Result<Vec<u8>> {
    let damaged = |problem: String| Damaged { file: file.name.clone(), problem };
    let content =
        storage.read(&file.name).with_context(|| format!("checkpoint file `{}` cannot be read", file.name))?;
    let content = content.ok_or_else(|| damaged("is missing: it was deleted outside millstream".to_string()))?;
    let found = entry(file.name.clone(), &content);
    if found != *file {
        let (length, checksum) = (file.length, &file.checksum);
        let expected = format!("{length} bytes with checksum {checksum} were written");
        Err(damaged(format!(
            "is damaged: it has {} bytes with checksum {}, but {expected}",
            found.length, found.checksum
        )))?;
    }
    Ok(content)
}

/// Reads JSON with a version of its own. `what` says what file it is.
///
/// # Errors
/// [`Damaged`]: it is no such thing. Any other: a version that this program does not read.
pub(super) fn read_versioned<T: DeserializeOwned>(
    (what, name): (&str, &str),
    content: &[u8],
    version: u32,
) -> anyhow::Result<T> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let damaged =
        |error: serde_json::Error| Damaged { file: name.to_string(), problem: format!("is no {what}: {error}") };
    // The version comes first: what else it says is known only then.
    let found = serde_json::from_slice::<Versioned>(content).map_err(damaged)?.version;
    anyhow::ensure!(
        found == version,
        "{what} `{name}` has format version {found}, this program reads {version}: use the program that wrote it"
    );
    Ok(serde_json::from_slice(content).map_err(damaged)?)
}
