//! What runs beside a task: applies frozen layers to the base, and makes snapshots durable as a chain of files, full ones
//! and then deltas.

use super::base::{Base, Restored};
use super::snapshot_file::FileWriter;
use crate::checkpoint::{CheckpointStorage, entry};
use crate::state::layered::{Answers, Frozen, Layer, Table, Worker};
use anyhow::Context;
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use std::sync::Arc;

/// A full file closes at this size, so that a dump never doubles the memory of the base.
const FULL_FILE_BYTES: usize = 64 << 20;

/// The chain's files may weigh this many times the live rows…
const CHAIN_FACTOR: u64 = 3;

/// …and this much more,
const CHAIN_SLACK: u64 = 64 << 10;

/// …and hold at most this many deltas.
const CHAIN_DELTAS: usize = 100;

/// Who writes the files, and how their names begin.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) storage: Arc<dyn CheckpointStorage>,
    /// `state/<chain>-<task>`.
    pub(super) prefix: String,
    /// Differs between runs, so that no run overwrites a file of another.
    pub(super) attempt: String,
}

/// The thread's own.
pub(super) struct Background {
    base: Arc<Base>,
    writer: Writer,
    answers: Answers,
    /// Bytes of layers frozen early that wait for the next snapshot at least.
    pending_limit: u64,
    /// Files that hold everything up to the last snapshot.
    chain: Vec<FileEntry>,
    /// Files of the chain since the last full ones.
    deltas: usize,
    /// Deltas that no file holds yet: of early freezes, and of snapshots that storage refused.
    pending: Vec<Vec<u8>>,
    /// The chain lacks what was written: the next snapshot must be a full one.
    broken: bool,
    files: u64,
}

impl Background {
    pub(super) fn new(base: Arc<Base>, writer: Writer, answers: Answers, pending_limit: u64) -> Self {
        let Restored { files: chain, of_others: broken } = base.take_restored();
        let deltas = chain.len();
        Self { base, writer, answers, pending_limit, chain, deltas, pending: vec![], broken, files: 0 }
    }

    fn store(
        &mut self,
        layer: &Layer,
        checkpoint: Option<CheckpointId>,
    ) -> Option<(CheckpointId, anyhow::Result<Vec<FileEntry>>)> {
        let live = self.base.live_bytes();
        let pending: u64 = self.pending.iter().map(|delta| delta.len() as u64).sum::<u64>() + layer.sizes().1;
        let chain: u64 = self.chain.iter().map(|file| file.length).sum();
        let too_long = chain + pending > CHAIN_FACTOR * live + CHAIN_SLACK || self.deltas >= CHAIN_DELTAS;
        let full = self.broken || checkpoint.is_some() && too_long;
        if !full {
            let delta = encode(layer, self.base.groups().start);
            self.pending.extend((!delta.is_empty()).then(|| delta.finish()));
        }
        let Some(checkpoint) = checkpoint else {
            if pending > self.pending_limit.max(live / 4) {
                self.pending.clear();
                self.broken = true;
            }
            return None;
        };
        let written = if full { self.write_full(checkpoint) } else { self.write_pending(checkpoint) };
        Some((checkpoint, written.map(|()| self.chain.clone())))
    }

    fn write_pending(&mut self, checkpoint: CheckpointId) -> anyhow::Result<()> {
        while !self.pending.is_empty() {
            let file = self.write(checkpoint, &self.pending[0])?;
            self.files += 1;
            self.pending.remove(0);
            self.chain.push(file);
            self.deltas += 1;
        }
        Ok(())
    }

    fn write_full(&mut self, checkpoint: CheckpointId) -> anyhow::Result<()> {
        self.broken = true;
        let mut files = vec![];
        if let Err(refused) = self.write_base(checkpoint, &mut files) {
            for file in files {
                // No manifest will ever name it. If it cannot be deleted either, it lies there until the next start.
                if let Err(error) = self.writer.storage.delete(&file.name) {
                    tracing::warn!(file = file.name, error = format!("{error:#}"), "unfinished state file left behind");
                }
            }
            return Err(refused);
        }
        self.chain = files;
        self.deltas = 0;
        self.pending.clear();
        self.broken = false;
        Ok(())
    }

    fn write_base(&mut self, checkpoint: CheckpointId, files: &mut Vec<FileEntry>) -> anyhow::Result<()> {
        let groups = self.base.groups();
        let mut file = FileWriter::new();
        for (number, state) in self.base.states() {
            for (group, at) in groups.clone().zip(0..) {
                self.base.sweep(&state, at, Table::may_have_expired);
                for (_, row) in state.read(at).iter() {
                    file.push(KeyGroup(group), number, row);
                }
                if file.len() >= FULL_FILE_BYTES {
                    let content = std::mem::replace(&mut file, FileWriter::new()).finish();
                    files.push(self.write(checkpoint, &content)?);
                    self.files += 1;
                }
            }
        }
        if !file.is_empty() {
            files.push(self.write(checkpoint, &file.finish())?);
            self.files += 1;
        }
        Ok(())
    }

    fn write(&self, checkpoint: CheckpointId, content: &[u8]) -> anyhow::Result<FileEntry> {
        let Writer { storage, prefix, attempt } = &self.writer;
        let name = format!("{prefix}-{checkpoint}-{}-{attempt}", self.files);
        storage.write(&name, content).with_context(|| format!("state file `{name}` cannot be written"))?;
        Ok(entry(name, content))
    }
}

impl Worker for Background {
    fn take(&mut self, frozen: Frozen) -> bool {
        let Frozen { layer, clocks, checkpoint } = frozen;
        self.base.apply(&layer, clocks);
        let snapshot = self.store(&layer, checkpoint);
        drop(layer);
        // The snapshot first: who waits for a layer to be applied finds its snapshot ended.
        snapshot.is_none_or(|(checkpoint, files)| self.answers.snapshot(checkpoint, files)) && self.answers.applied()
    }
}

fn encode(layer: &Layer, first_group: u16) -> FileWriter {
    let mut file = FileWriter::new();
    for (state, group, table) in layer.tables() {
        for (_, row) in table.iter() {
            file.push(KeyGroup(first_group + group as u16), state, row);
        }
    }
    file
}
