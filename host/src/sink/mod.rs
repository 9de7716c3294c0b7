//! Records go out. One trait for all sinks, whatever they promise: rows are written, staged at a barrier, and applied once
//! the checkpoint is decided. `mod.rs` is the contract, its siblings fulfil it.

#[cfg(test)]
mod contract; // what every sink keeps
pub mod encode; // rows become text
pub mod file;
pub mod memory;
mod payload; // what was staged, in a manifest
pub mod sqlite;
pub mod stdout;

use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::{Batch, Schema};

/// Where rows go. One task calls it.
///
/// Contract:
/// - An exactly-once sink MUST NOT show a row before `apply` of the checkpoint that covers it, and MUST show it after.
/// - `stage` MUST leave everything written since the stage before durable but invisible, and name it in the payload; rows
///   written after it belong to the next checkpoint. At-least-once sinks MUST have everything out when `stage` returns.
/// - `apply` MUST be idempotent: it may be called again, with the same payload, after a crash between any two steps.
///   Checkpoints are applied in order; a crash may skip numbers, never go back.
/// - `applied` MUST tell the highest checkpoint whose rows are visible, none if none is.
/// - After a restart from checkpoint n, `apply(n, payload)` is called before any `write`; what was staged for later
///   checkpoints MUST never become visible and SHOULD be removed then.
pub trait Sink: Send {
    /// Takes rows, in order.
    ///
    /// # Errors
    /// The target refuses: what, where, what to do.
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()>;

    /// Makes durable what came since the last stage; the answer is stored in the checkpoint.
    ///
    /// # Errors
    /// The target refuses: the job fails and goes on from the last checkpoint.
    fn stage(&mut self, checkpoint: CheckpointId) -> anyhow::Result<Payload>;

    /// Makes what was staged visible.
    ///
    /// # Errors
    /// The target refuses, or what was staged is gone.
    fn apply(&mut self, checkpoint: CheckpointId, payload: &Payload) -> anyhow::Result<()>;

    /// The highest checkpoint whose rows are visible.
    ///
    /// # Errors
    /// The target does not answer.
    fn applied(&mut self) -> anyhow::Result<Option<CheckpointId>>;
}

/// Opens a sink when its job starts.
pub trait SinkFactory: Send + Sync {
    /// Opens it for rows with these columns.
    ///
    /// # Errors
    /// The target cannot be opened or does not fit the columns.
    fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>>;
}

/// What a sink gets.
#[derive(Debug, Clone)]
pub struct SinkInput {
    /// Name of the sink in the job.
    pub sink: String,
    /// Name of the job.
    pub job: String,
    /// The columns of the rows it gets, without the leading slash in written names.
    pub schema: Schema,
    /// Rows are whole values (in `Batch::raw`), as the source or a guest made them, rather than columns.
    pub whole_values: bool,
    /// The job starts anew, without a checkpoint to go on from: what an earlier run left in the target is not its own.
    pub fresh: bool,
}
