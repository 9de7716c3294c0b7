//! Where a job keeps things: its checkpoints and savepoints in what its user names, a folder or a URL; its state in the
//! backend that the job file names.

use super::definition::State;
use super::run::RunOptions;
use crate::checkpoint::{CheckpointStorage, Location};
use crate::env::{Env, FailPoints, WaitPoint};
use crate::state::memory::{self, ACTIVE_LIMIT_DEFAULT, MemoryOptions};
use crate::state::rocksdb::{
    MEMORY_DEFAULT, Memory, NAME as ROCKSDB, RocksOptions, clear as clear_databases, open as open_rocksdb,
};
use crate::state::{SnapshotVisitor, StateBackend, read_snapshot};
use crate::task::InFlightStore;
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::TaskSnapshot;
use dataflow::graph::Flow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a job's checkpoints lie: in the data directory, or in what the user names instead. The layout is the same.
///
/// # Errors
/// It cannot be opened.
pub(super) fn checkpoints(job: &str, options: &RunOptions) -> anyhow::Result<Arc<dyn CheckpointStorage>> {
    let local = Location::Folder(options.data_dir.clone());
    let location = options.checkpoint_storage.as_ref().unwrap_or(&local);
    location
        .open(&format!("{job}/checkpoints"))
        .with_context(|| format!("the checkpoint storage `{location}` cannot be opened"))
}

/// Opens a place: one that must be there, or one to write to.
///
/// # Errors
/// It is not there, or cannot be made.
pub(super) fn place(name: &str, must_exist: bool) -> anyhow::Result<Arc<dyn CheckpointStorage>> {
    let location: Location = name.parse()?;
    if let Location::Folder(folder) = &location {
        ensure!(!must_exist || folder.is_dir(), "there is no folder `{name}`");
    }
    location.open("")
}

/// Where the databases of a job lie that keeps its things in `home`.
pub(super) fn state_folder(home: &Path) -> PathBuf {
    home.join("state")
}

/// Removes the databases of dead runs of a job. Only before it runs.
///
/// # Errors
/// They cannot be removed.
pub(super) fn clear_state(home: &Path) -> anyhow::Result<()> {
    clear_databases(&state_folder(home))
}

/// What the backends of one attempt at a job have in common.
pub(super) struct States {
    storage: Arc<dyn CheckpointStorage>,
    attempt: String,
    fail_points: Arc<FailPoints>,
    /// For files that are only read.
    scratch: PathBuf,
    kind: Kind,
}

enum Kind {
    Memory,
    RocksDb { folder: PathBuf, memory: Memory },
}

impl States {
    /// For `tasks` tasks with state, whose databases lie in `folder`. `env` may name a backend to be taken instead of the job's: for
    /// tests.
    ///
    /// # Errors
    /// There is no such backend.
    pub(super) fn new(
        state: State,
        env: &Env,
        (folder, tasks): (PathBuf, usize),
        (storage, attempt): (Arc<dyn CheckpointStorage>, String),
    ) -> anyhow::Result<Self> {
        let memory = match (state, env.state_backend.as_deref()) {
            (State::Memory, None) | (_, Some(memory::NAME)) => None,
            (State::Memory, Some(ROCKSDB)) => Some(MEMORY_DEFAULT),
            (State::RocksDb { memory }, None | Some(ROCKSDB)) => Some(memory),
            (_, Some(other)) => bail!("`MILLSTREAM_STATE_BACKEND` names `{other}`: there are `memory` and `rocksdb`"),
        };
        let scratch = folder.join("scratch");
        let kind = match memory {
            None => Kind::Memory,
            Some(bytes) => Kind::RocksDb { folder, memory: Memory::new(bytes, tasks) },
        };
        Ok(Self { storage, attempt, fail_points: env.fail_points.clone(), scratch, kind })
    }

    /// The job's checkpoints.
    pub(super) fn storage(&self) -> &dyn CheckpointStorage {
        &*self.storage
    }

    /// Where a task keeps what lies in its inputs.
    pub(super) fn in_flight(&self, flows: Vec<Flow>) -> InFlightStore {
        InFlightStore { storage: self.storage.clone(), attempt: self.attempt.clone(), flows }
    }

    /// Visits the rows of a snapshot that no backend can take over as it is.
    ///
    /// # Errors
    /// A file is missing or damaged, or the visitor's own.
    pub(super) fn read(
        &self,
        part: &TaskSnapshot,
        groups: Range<u16>,
        visit: &mut SnapshotVisitor<'_>,
    ) -> anyhow::Result<()> {
        read_snapshot(&self.storage, &self.scratch, part, groups, visit)
    }

    /// The backend of one task, without rows.
    pub(super) fn backend(
        &self,
        chain: &str,
        task: usize,
        groups: Range<u16>,
        notify: Arc<WaitPoint>,
    ) -> Box<dyn StateBackend> {
        let (storage, chain, attempt) = (self.storage.clone(), chain.to_string(), self.attempt.clone());
        let fail_points = self.fail_points.clone();
        match &self.kind {
            Kind::Memory => {
                let active_limit = ACTIVE_LIMIT_DEFAULT;
                memory::open(MemoryOptions { storage, chain, task, attempt, groups, active_limit, notify, fail_points })
            }
            Kind::RocksDb { folder, memory } => {
                let (folder, memory) = (folder.clone(), memory.clone());
                open_rocksdb(RocksOptions {
                    storage,
                    folder,
                    memory,
                    chain,
                    task,
                    attempt,
                    groups,
                    notify,
                    fail_points,
                })
            }
        }
    }
}
