//! The seam between a window and what it computes: built-in aggregates or a guest. The window keeps the accumulators and
//! decides when they are needed; an implementation computes and keeps nothing.

use crate::operator::TaskInfo;
use crate::telemetry::GuestMetrics;
use dataflow::checkpoint::AggregateEntry;
use dataflow::record::{Batch, Blobs, Column, Field};
use dataflow::time::Timestamp;
use std::sync::Arc;

/// Makes what a window computes, for each task.
pub trait Aggregator: Send + Sync {
    /// The columns it adds to a pane, in order.
    fn columns(&self) -> Vec<Field>;

    /// What its accumulators hold, for those who read them without it. As for a guest, which alone knows, unless told otherwise.
    fn entries(&self) -> Vec<AggregateEntry> {
        let entry = |field: Field| AggregateEntry { column: field.pointer, function: None, of: None };
        self.columns().into_iter().map(entry).collect()
    }

    /// Version of its accumulators. Ones of another version go through [`Accumulate::migrate`] before they are used.
    fn version(&self) -> u16;

    /// Whether accumulators of other versions can be understood, so that changing what is computed is no loss.
    fn migrates(&self) -> bool {
        false
    }

    /// Whether rows can be taken out again. If not, one that takes another back is put aside.
    fn supports_retract(&self) -> bool;

    /// Columns of the batch that it reads: a row whose value there could not be taken is put aside.
    fn reads(&self) -> Vec<usize>;

    /// What its guests report of themselves, over all tasks.
    fn reports(&self) -> Vec<Arc<GuestMetrics>> {
        vec![]
    }

    /// For one task.
    ///
    /// # Errors
    /// It cannot be made.
    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Accumulate>>;
}

/// Computes what a window says. Called from one thread, a batch at a time.
///
/// Contract:
/// - Results MUST depend on the arguments alone.
/// - An error means that the job cannot go on. What fails because of single rows or panes MUST be answered as [`Bad`] ones: all others
///   are done as if the bad ones had not been there.
pub trait Accumulate: Send {
    /// The bytes of an accumulator that has seen nothing; empty for a guest.
    fn blank(&self) -> &[u8];

    /// Takes rows into their accumulators, in the rows' order; out of them where the row is a retraction. `present` MUST become true
    /// for every accumulator that took a row, and for no other.
    ///
    /// # Errors
    /// See the contract.
    fn accumulate(&mut self, rows: &Rows<'_>, accumulators: &mut Accumulators) -> anyhow::Result<Vec<Bad>>;

    /// Merges pairwise. Associative and commutative.
    ///
    /// # Errors
    /// See the contract.
    fn merge(&mut self, left: &Blobs, right: &Blobs) -> anyhow::Result<Blobs>;

    /// Appends one result per pane to each of `results`, for bad panes any.
    ///
    /// # Errors
    /// See the contract.
    fn finish(&mut self, panes: &Finishing<'_>, results: &mut [Column]) -> anyhow::Result<Vec<Bad>>;

    /// Whether all that an accumulator has seen was taken back: such a window sends no first pane.
    fn is_empty(&self, accumulator: &[u8]) -> bool;

    /// Accumulators of version `from`, as ones of the version declared now, one for one.
    ///
    /// # Errors
    /// They cannot be understood: which, and what to do.
    fn migrate(&mut self, from: u16, old: &Blobs) -> anyhow::Result<Blobs>;
}

/// Rows of a batch and where they go.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The batch, with keys.
    pub batch: &'a Batch,
    /// The rows meant, ascending.
    pub rows: &'a [u32],
    /// Of each of `rows`, the index of its accumulator.
    pub cells: &'a [u32],
    /// The operator's watermark.
    pub watermark: Timestamp,
    /// Processing time.
    pub now: Timestamp,
}

/// Accumulators of one call, one per (slice, key).
#[derive(Debug, Default)]
pub struct Accumulators {
    /// Whether there was one; false for a new one.
    pub present: Vec<bool>,
    /// Their bytes; those of [`Accumulate::blank`] for a new one.
    pub bytes: Blobs,
}

impl Accumulators {
    /// Forgets all, keeps the room.
    pub(super) fn clear(&mut self) {
        self.present.clear();
        self.bytes.ends.clear();
        self.bytes.bytes.clear();
    }
}

/// Panes to be computed.
#[derive(Debug, Clone, Copy)]
pub struct Finishing<'a> {
    /// Encoded keys.
    pub keys: &'a Blobs,
    /// Windows' starts.
    pub starts: &'a [Timestamp],
    /// Windows' ends.
    pub ends: &'a [Timestamp],
    /// What the windows have seen.
    pub accumulators: &'a Blobs,
}

/// A row or pane that failed; becomes a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Row of the batch, or index among the panes.
    pub index: u32,
    /// What was wrong.
    pub reason: String,
    /// Of a pane: it is sent all the same, without the value that is wrong.
    pub is_sent: bool,
    /// Content digest of the component that failed.
    pub component: Option<String>,
    /// Its backtrace.
    pub backtrace: Option<String>,
}
