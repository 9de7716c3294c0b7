//! Consistent cuts of a job. Pure: what a manifest says, when a checkpoint is complete, which one recovery takes.

mod manifest;
mod progress;
pub mod savepoint; // the canonical form, and how a job fits it

pub use manifest::{
    FileEntry, ForkEntry, Manifest, PartitionPosition, Payload, SourceSnapshot, Staged, StateEntry, StateKind,
    TaskSnapshot,
};
pub use progress::{Ended, Progress, Report};

use serde::{Deserialize, Serialize};

/// Names a checkpoint of a job: 1, 2, 3, … in the order they were started; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId(pub u64);

impl std::fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
