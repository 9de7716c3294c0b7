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
}
