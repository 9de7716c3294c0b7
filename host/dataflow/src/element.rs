//! What travels in a channel. Signals travel with the data, so their order is never in doubt.

use crate::checkpoint::CheckpointId;
use crate::record::Batch;
use crate::time::Timestamp;

/// One item of a channel.
#[derive(Debug, Clone)]
pub enum Element {
    /// Records.
    Batch(Box<Batch>),
    /// No record with a timestamp below is expected any more from this sender. Only moves forward.
    Watermark(Timestamp),
    /// Splits the channel's records into before and after a checkpoint.
    Barrier(Barrier),
    /// This sender has nothing and leaves the minimum of watermarks.
    Idle,
    /// This sender is back.
    Active,
    /// Nothing follows. An ended input counts as having delivered all later barriers.
    End,
}

impl Element {
    /// Bytes for bounds on channels; a signal counts as a few.
    pub fn byte_size(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.byte_size(),
            _ => 16,
        }
    }
}

/// A cut through a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint it belongs to.
    pub checkpoint: CheckpointId,
    /// How it cuts.
    pub cut: Cut,
}

/// How a barrier cuts: which records a task with several inputs has in its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Inputs wait for each other: exactly what was sent before the barrier. What a watermark before it makes due has fired.
    Settled,
    /// The same, but a task that fires does not end that first: the snapshot says how far it is to go.
    Aligned,
    /// Inputs do not wait: also what comes behind the barrier on one input while it has not come on another.
    Loose,
    /// The barrier goes past everything that lies in a channel. The snapshot is taken at the first one, and what was sent before
    /// the barriers and has not been taken yet is kept beside it (unaligned checkpoints: Apache Flink, FLIP-76).
    Overtaking,
}

impl Cut {
    /// Whether an input whose barrier has come is held until all have.
    pub fn holds(self) -> bool {
        matches!(self, Self::Settled | Self::Aligned)
    }
}
