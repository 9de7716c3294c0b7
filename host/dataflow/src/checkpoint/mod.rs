//! Consistent cuts of a job. Pure: what a manifest says, when a checkpoint is complete, which one recovery takes.

mod manifest;
mod progress;
pub mod savepoint; // the canonical form, and how a job fits it

pub use manifest::{
    AggregateEntry, FileEntry, ForkEntry, InFlight, Manifest, PartitionPosition, Payload, SourceSnapshot, Staged,
    StateEntry, StateKind, TaskSnapshot,
};
pub use progress::{Ended, Longest, Moments, Progress, Report};

use crate::element::Cut;
use serde::{Deserialize, Serialize};

/// Names a checkpoint of a job: 1, 2, 3, … in the order they were started; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId(pub u64);

impl std::fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a job's checkpoints promise, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Every record is in the state once: a task's inputs wait for each other.
    ExactlyOnce,
    /// Inputs do not wait. After a restart some records are in the state twice.
    AtLeastOnce,
    /// As exact as the first, but barriers do not queue: rows between tasks are stored with the checkpoint.
    Unaligned,
}

impl CheckpointMode {
    /// All of them by the names that users write.
    pub const NAMES: [(&str, Self); 3] =
        [("exactly_once", Self::ExactlyOnce), ("at_least_once", Self::AtLeastOnce), ("unaligned", Self::Unaligned)];

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// How the barriers of such a job cut. The last checkpoint is `Settled` in every mode.
    pub fn cut(self) -> Cut {
        match self {
            Self::ExactlyOnce => Cut::Aligned,
            Self::AtLeastOnce => Cut::Loose,
            Self::Unaligned => Cut::Overtaking,
        }
    }
}
