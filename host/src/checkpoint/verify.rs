//! Stored files and what is known of them: whoever reads a file that a checkpoint names gets what was written, or is told
//! which file is damaged.

use super::CheckpointStorage;
use anyhow::Context;
use dataflow::checkpoint::FileEntry;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes of a file that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

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
pub fn checksum(content: &[u8]) -> String {
    format!("{:016x}", xxh3_64(content))
}

/// Reads a file that a checkpoint names.
///
/// # Errors
/// [`Damaged`]: it is missing, or has another length or checksum. Any other: the storage refuses.
pub fn read_verified(storage: &dyn CheckpointStorage, file: &FileEntry) -> anyhow::Result<Vec<u8>> {
    let content =
        storage.read(&file.name).with_context(|| format!("checkpoint file `{}` cannot be read", file.name))?;
    let content = content.ok_or_else(|| missing(file))?;
    same(file, &entry(file.name.clone(), &content))?;
    Ok(content)
}

/// Puts a file that a checkpoint names into a new one at `to`, as [`CheckpointStorage::read_to_file`] does.
///
/// # Errors
/// As [`read_verified`].
pub fn read_verified_to_file(storage: &dyn CheckpointStorage, file: &FileEntry, to: &Path) -> anyhow::Result<()> {
    let found = storage.read_to_file(&file.name, to);
    if !found.with_context(|| format!("checkpoint file `{}` cannot be read", file.name))? {
        Err(missing(file))?;
    }
    Ok(same(file, &entry_of_file(file.name.clone(), to)?)?)
}

/// How a checkpoint names a file with the content of the one at `path`, which is read piece by piece.
///
/// # Errors
/// It cannot be read.
pub fn entry_of_file(name: String, path: &Path) -> anyhow::Result<FileEntry> {
    let (mut hash, mut length, mut chunk) = (Xxh3::new(), 0, vec![0; CHUNK_BYTES]);
    let mut read = || -> std::io::Result<()> {
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(()),
                bytes => {
                    hash.update(&chunk[..bytes]);
                    length += bytes as u64;
                }
            }
        }
    };
    read().with_context(|| format!("`{}` cannot be read", path.display()))?;
    Ok(FileEntry { name, length, checksum: format!("{:016x}", hash.digest()) })
}

fn missing(file: &FileEntry) -> Damaged {
    Damaged { file: file.name.clone(), problem: "is missing: it was deleted outside millstream".to_string() }
}

fn same(file: &FileEntry, found: &FileEntry) -> Result<(), Damaged> {
    if found == file {
        return Ok(());
    }
    let problem = format!(
        "is damaged: it has {} bytes with checksum {}, but {} bytes with checksum {} were written",
        found.length, found.checksum, file.length, file.checksum
    );
    Err(Damaged { file: file.name.clone(), problem })
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
