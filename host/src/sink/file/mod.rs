//! Rows go to files, exactly once. What is staged lies in hidden files beside the target; `apply` makes it visible.
//!
//! | path | what `apply` of a checkpoint does | a reader sees |
//! |---|---|---|
//! | a directory | renames to `<sink>-<checkpoint, 8 digits>.<ext>` | whole decided files, always |
//! | a file (`.ndjson`, `.jsonl`, `.json`, `.csv`, `.txt`) | appends at the place the checkpoint names | perhaps a part of the last checkpoint's rows while they are being appended |
//!
//! A checkpoint without rows makes no file. One writer per target: nothing guards against a second process.

mod directory;
mod marker;
mod single;
mod sink;
mod staging;

use super::encode::{self, Encoder};
use super::{Sink, SinkFactory, SinkInput};
use anyhow::ensure;
use dataflow::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use sink::FileSink;
use std::path::{Path, PathBuf};

/// Where rows go and how they are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// A directory, or one file by its ending.
    pub path: PathBuf,
    /// How rows become text.
    pub rows: encode::Settings,
    /// What happens to output of an earlier run when the job starts anew; none: the sink's own is replaced, and output
    /// that it does not know as its own is refused.
    pub on_existing: Option<OnExisting>,
}

/// What happens to output that is there already when the job starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExisting {
    /// The job does not start.
    Fail,
    /// It is removed: of a directory only files with this sink's name.
    Replace,
    /// It stays, and new rows go behind it.
    Append,
}

/// Opens file sinks.
#[derive(Debug, Clone)]
pub struct Factory {
    /// Where to, and how.
    pub settings: Settings,
}

impl SinkFactory for Factory {
    fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
        ensure!(
            !input.sink.contains(['/', '\\']),
            "sink `{}` is named like a path, so it cannot name files",
            input.sink
        );
        let encoder = Encoder::new(&self.settings.rows, input)?;
        let target: Box<dyn Target> = if is_one_file(&self.settings.path) {
            Box::new(single::Single::open(&self.settings, input)?)
        } else {
            Box::new(directory::Directory::open(&self.settings, input)?)
        };
        Ok(Box::new(FileSink::open(encoder, target, input.fresh)?))
    }
}

/// Whether rows go to this one file rather than to files in this directory.
pub fn is_one_file(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let named_so = ["ndjson", "jsonl", "json", "csv", "txt"].contains(&ending);
    named_so && !path.as_os_str().to_string_lossy().ends_with('/') && !path.is_dir()
}

/// Rows of one checkpoint in a staged file, and where they go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    checkpoint: CheckpointId,
    /// Name of the staged file.
    staged: String,
    bytes: u64,
    /// Name of the file that it becomes; of a single file, that file.
    file: String,
    /// Place in that file: 0 in a directory.
    at: u64,
}

/// What the two forms of target differ in.
trait Target: Send {
    fn folder(&self) -> &Path;
    fn staged_prefix(&self) -> String;
    /// Name and place for the rows of the checkpoint after those that wait.
    fn place(&self, checkpoint: CheckpointId, waiting: &[Part]) -> (String, u64);
    /// Makes parts visible that are not, and remembers the checkpoint. Does nothing the second time.
    fn publish(&mut self, checkpoint: CheckpointId, parts: &[Part]) -> anyhow::Result<()>;
    /// As the target itself tells.
    fn applied(&self) -> anyhow::Result<Option<CheckpointId>>;
}

#[cfg(test)]
mod tests;
