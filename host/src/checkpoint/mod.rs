//! Control: consistent cuts of a job, and where they are stored. `mod.rs` is the storage contract, its siblings fulfil it.

pub mod contract; // what every storage keeps
pub mod filesystem;
mod location; // which storage serves a place
pub mod memory;
pub mod s3;
mod coordinator; // takes checkpoints and ends the job
#[cfg(test)]
mod coordinator_tests;
mod store; // manifests and decisions
mod verify; // a file is what was stored

pub use coordinator::{CheckpointSettings, Coordinator, Outcome, Tasks};
pub use location::Location;
pub use store::{Checkpoints, DecidedElsewhere};
pub use verify::{Damaged, entry, read_verified};

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
