//! Control: consistent cuts of a job, and where they are stored. `mod.rs` is the storage contract, its siblings fulfil it.

pub mod contract; // what every storage keeps
pub mod filesystem;
mod location; // which storage serves a place
pub mod memory;
pub mod s3;
mod coordinator; // takes checkpoints and ends the job
#[cfg(test)]
mod coordinator_tests;
mod schedule; // when the next one begins, how many may fail
mod store; // manifests and decisions
mod verify; // a file is what was stored

pub use coordinator::{Coordinator, Outcome, Tasks};
pub use location::{Location, shown};
pub use schedule::CheckpointSettings;
pub use store::{Checkpoints, DecidedElsewhere};
pub use verify::{Damaged, checksum, entry, entry_of_file, read_verified, read_verified_to_file};

use anyhow::Context;
use std::path::Path;

/// Keeps the files of one job's checkpoints. Shared by all its threads.
///
/// Contract:
/// - `write` MUST be durable when it returns, and MUST never leave a partial file under the name.
/// - `create` MUST succeed for exactly one caller per name, also across crashes: deciding stands on it. Callers MUST NOT
///   create a name with equal contents: the content may be all that tells who has created it.
/// - Names use `/` as in paths; files of one writer never clash with another's.
pub trait CheckpointStorage: Send + Sync {
    /// Stores a file, replacing one of the same name.
    ///
    /// # Errors
    /// Disk full, permission lost, storage unreachable.
    fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()>;

    /// Stores a file if the name is free; false if it was taken.
    ///
    /// # Errors
    /// As `write`.
    fn create(&self, name: &str, content: &[u8]) -> anyhow::Result<bool>;

    /// A file's content; none if there is no such file.
    ///
    /// # Errors
    /// As `write`.
    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>>;

    /// Stores the file at `from`, which nobody changes any more, as `write` does; a large one without holding it in memory. It
    /// may be linked, not copied.
    ///
    /// # Errors
    /// As `write`; `from` cannot be read.
    fn write_file(&self, name: &str, from: &Path) -> anyhow::Result<()> {
        let content = std::fs::read(from).with_context(|| format!("`{}` cannot be read", from.display()))?;
        self.write(name, &content)
    }

    /// Puts a file's content into a new file at `to`, which nobody may change: it may be a link. False if there is no such file.
    ///
    /// # Errors
    /// As `write`; `to` cannot be written.
    fn read_to_file(&self, name: &str, to: &Path) -> anyhow::Result<bool> {
        let Some(content) = self.read(name)? else { return Ok(false) };
        std::fs::write(to, content).with_context(|| format!("`{}` cannot be written", to.display()))?;
        Ok(true)
    }

    /// Names that begin with `prefix`, sorted.
    ///
    /// # Errors
    /// As `write`.
    fn list(&self, prefix: &str) -> anyhow::Result<Vec<String>>;

    /// Removes a file; nothing happens if it is not there.
    ///
    /// # Errors
    /// As `write`.
    fn delete(&self, name: &str) -> anyhow::Result<()>;

    /// Removes what a writer that died left unfinished, where that can be. Only for one who alone writes here.
    ///
    /// # Errors
    /// As `write`.
    fn remove_unfinished(&self) -> anyhow::Result<()> {
        Ok(())
    }
}
