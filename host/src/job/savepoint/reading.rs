//! Where state is read from without the job's code: a savepoint, or a job's newest checkpoint.

use super::{FILE, Opened, open};
use crate::checkpoint::{CheckpointStorage, Checkpoints};
use crate::job::storage::place;
use crate::state::{self, SnapshotVisitor};
use anyhow::{Context, bail};
use dataflow::checkpoint::{Manifest, StateEntry, StateKind};
use std::ops::Range;
use std::sync::Arc;

/// Something that state can be read from.
pub enum Reading {
    /// A savepoint.
    Savepoint(Box<Opened>),
    /// A checkpoint of a job, and the storage of its files.
    Checkpoint(Box<Manifest>, Arc<dyn CheckpointStorage>),
}

/// What lies at `name`: a savepoint, or else a job's folder in a data directory, whose newest decided checkpoint is meant.
///
/// # Errors
/// It is neither, or damaged.
pub fn reading(name: &str) -> anyhow::Result<Reading> {
    let storage = place(name, true)?;
    if storage.read(FILE)?.is_some() {
        return Ok(Reading::Savepoint(Box::new(open(storage, name)?)));
    }
    // What is named may be a job's folder or prefix, or that of its checkpoints.
    let within = format!("{}/checkpoints", name.trim_end_matches('/'));
    for storage in [place(&within, true), Ok(storage)] {
        // A folder that is not there is none of the two.
        let Ok(storage) = storage else { continue };
        if let Some(manifest) = Checkpoints::new(storage.clone(), String::new()).latest()? {
            return Ok(Reading::Checkpoint(Box::new(manifest), storage));
        }
    }
    bail!("`{name}` holds neither a savepoint nor a decided checkpoint")
}

impl Reading {
    /// The states there are, each once: timers, which are kept by time and by name, are those by time.
    pub fn states(&self) -> impl Iterator<Item = &StateEntry> {
        let states = match self {
            Self::Savepoint(opened) => &opened.savepoint.states,
            Self::Checkpoint(manifest, _) => &manifest.states,
        };
        states.iter().filter(|state| state.kind != StateKind::TimersByName)
    }

    /// Key groups of the job.
    pub fn max_parallelism(&self) -> u16 {
        match self {
            Self::Savepoint(opened) => opened.savepoint.max_parallelism,
            Self::Checkpoint(manifest, _) => manifest.max_parallelism,
        }
    }

    /// What it is, for a person.
    pub fn name(&self) -> String {
        match self {
            Self::Savepoint(opened) => {
                format!("savepoint of checkpoint {} of job `{}`", opened.savepoint.checkpoint, opened.savepoint.job)
            }
            Self::Checkpoint(manifest, _) => format!("checkpoint {} of job `{}`", manifest.checkpoint, manifest.job),
        }
    }

    /// Visits the rows of these key groups.
    ///
    /// # Errors
    /// A file is missing or damaged, or the visitor refuses.
    pub fn rows(&self, groups: Range<u16>, visit: &mut SnapshotVisitor<'_>) -> anyhow::Result<()> {
        match self {
            Self::Savepoint(opened) => opened.rows(groups, visit),
            Self::Checkpoint(manifest, storage) => {
                let overlaps = |task: &&dataflow::checkpoint::TaskSnapshot| {
                    task.groups.0 < groups.end && groups.start < task.groups.1
                };
                let scratch = tempfile::tempdir().context("no scratch directory can be made")?;
                for task in manifest.tasks.iter().filter(overlaps) {
                    let own = groups.start.max(task.groups.0)..groups.end.min(task.groups.1);
                    state::read_snapshot(storage, scratch.path(), task, own, visit)
                        .with_context(|| format!("the state of `{}` task {} cannot be read", task.chain, task.task))?;
                }
                Ok(())
            }
        }
    }
}
