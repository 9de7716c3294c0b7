//! Rows are encoded, gathered in a staged file, and published by the target when their checkpoint is decided. What a target
//! is, a directory or one file, is not known here.

use super::staging::Staging;
use super::{Part, Target};
use crate::sink::encode::Encoder;
use crate::sink::{Sink, payload};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use std::path::Path;

/// Version of a payload and of the files it names: every part that had not been applied when it was made. A checkpoint that was
/// abandoned is thus carried by the next one.
const VERSION: u32 = 1;

/// Writes to either form of target.
pub(super) struct FileSink {
    encoder: Encoder,
    staging: Staging,
    target: Box<dyn Target>,
    applied: Option<CheckpointId>,
    /// Staged, not yet applied.
    waiting: Vec<Part>,
    /// What an earlier run left undecided has been removed.
    swept: bool,
}

impl FileSink {
    /// `fresh`: nothing staged earlier counts.
    pub(super) fn open(encoder: Encoder, target: Box<dyn Target>, fresh: bool) -> anyhow::Result<Self> {
        let staging = Staging::new(target.folder(), target.staged_prefix());
        if fresh {
            staging.remove_all_but(&[])?;
        }
        let applied = target.applied()?;
        Ok(Self { encoder, staging, target, applied, waiting: vec![], swept: fresh })
    }
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
        payload::write(VERSION, &self.waiting).context("writing down what a file sink staged")
    }

    fn apply(&mut self, checkpoint: CheckpointId, payload: &Payload) -> anyhow::Result<()> {
        let parts: Vec<Part> = payload::read(VERSION, payload)
            .with_context(|| format!("reading what a file sink staged for checkpoint {checkpoint}"))?;
        self.target.publish(checkpoint, &parts)?;
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
