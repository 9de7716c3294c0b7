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
mod staging;

use super::encode::{self, Encoder};
use super::{Sink, SinkFactory, SinkInput};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use serde::{Deserialize, Serialize};
use staging::Staging;
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
        let staging = Staging::new(target.folder(), target.staged_prefix());
        if input.fresh {
            staging.remove_all_but(&[])?;
        }
        let applied = target.applied()?;
        Ok(Box::new(FileSink { encoder, staging, target, applied, waiting: vec![], swept: input.fresh }))
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

/// A payload: every part that had not been applied when it was made. A checkpoint that was abandoned is thus carried by
/// the next one.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Staged {
    parts: Vec<Part>,
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

struct FileSink {
    encoder: Encoder,
    staging: Staging,
    target: Box<dyn Target>,
    applied: Option<CheckpointId>,
    /// Staged, not yet applied.
    waiting: Vec<Part>,
    /// What an earlier run left undecided has been removed.
    swept: bool,
}

impl Sink for FileSink {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.staging.is_empty() && self.target.place(CheckpointId(0), &self.waiting).1 == 0 {
            self.staging.buffer.extend_from_slice(self.encoder.header());
        }
        self.encoder.write(batch, &mut self.staging.buffer)?;
        self.staging.written()
    }

    fn stage(&mut self, checkpoint: CheckpointId) -> anyhow::Result<Payload> {
        refuse_older(self.applied, checkpoint, self.target.folder())?;
        if let Some((staged, bytes)) = self.staging.seal(checkpoint)? {
            let (file, at) = self.target.place(checkpoint, &self.waiting);
            self.waiting.push(Part { checkpoint, staged, bytes, file, at });
        }
        let payload = serde_json::to_value(Staged { parts: self.waiting.clone() });
        Ok(Payload(payload.context("writing down what a file sink staged")?))
    }

    fn apply(&mut self, checkpoint: CheckpointId, payload: &Payload) -> anyhow::Result<()> {
        let staged: Staged = if payload.0.is_null() {
            Staged::default()
        } else {
            serde_json::from_value(payload.0.clone())
                .with_context(|| format!("reading what a file sink staged for checkpoint {checkpoint}"))?
        };
        self.target.publish(checkpoint, &staged.parts)?;
        self.applied = self.applied.max(Some(checkpoint));
        self.waiting.retain(|part| part.checkpoint > checkpoint);
        if !self.swept {
            self.staging.remove_all_but(&self.waiting)?;
            self.swept = true;
        }
        Ok(())
    }

    fn applied(&mut self) -> anyhow::Result<Option<CheckpointId>> {
        Ok(self.applied)
    }
}

/// A target that is ahead of the job would swallow rows: it takes them for applied.
fn refuse_older(applied: Option<CheckpointId>, checkpoint: CheckpointId, target: &Path) -> anyhow::Result<()> {
    if let Some(applied) = applied.filter(|&applied| applied >= checkpoint) {
        bail!(
            "`{}` already holds checkpoint {applied}, but the job is only at {checkpoint}: it was started from an older \
             state; start it with `--fresh` or write somewhere else",
            target.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
