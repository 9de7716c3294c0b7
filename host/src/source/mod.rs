//! Records come in. A source answers "give me the next records" and "where are you"; it never sees barriers, watermarks
//! or stop requests, which are the source task's business. `mod.rs` is the contract, its siblings fulfil it.

pub mod file;
pub mod format;
pub mod generator;
pub mod memory;

#[cfg(test)]
pub(crate) mod contract;

use crate::dead_letter::DeadLetter;
use dataflow::record::{Batch, Schema};
use dataflow::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// One task's share of a source: some of its partitions.
///
/// Contract:
/// - `poll` MUST NOT block longer than a read of a local file takes.
/// - `partitions` MUST name every partition of the share that is known, and after `poll` returned records the position of
///   their partition MUST be the one behind the last of them.
/// - Opened again with those positions, it MUST give the very next records, in the same order, each with the same event time.
/// - A record that cannot be read becomes a dead letter; nothing else is lost with it. An error from `poll` fails the job.
pub trait Source: Send {
    /// The next records of one partition, at most about `limit.records` and `limit.bytes`.
    ///
    /// # Errors
    /// The source cannot go on: what, where, and what the user can do.
    fn poll(&mut self, limit: Limit) -> anyhow::Result<Polled>;

    /// Every known partition of this share with its position.
    fn partitions(&self) -> Vec<Partition>;

    /// Partitions whose turn comes later. They give nothing now, but are not idle: time waits for them.
    fn postponed(&self) -> Vec<Arc<str>> {
        vec![]
    }
}

/// How much one poll may give.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Most records, at least 1; exact.
    pub records: usize,
    /// About how many bytes of raw values.
    pub bytes: usize,
}

/// What a poll gave.
#[derive(Debug)]
pub enum Polled {
    /// Records, dead letters, or both.
    Records(Box<Records>),
    /// Nothing now. Ask again after this long.
    Nothing(Duration),
    /// `Source::partitions` has changed: one appeared or finished.
    Partitions,
    /// Every partition is read to its end, and no other will come.
    Finished,
}

/// Stands for the arrival of a record that does not say it.
pub const UNKNOWN_ARRIVAL: Timestamp = dataflow::time::START;

/// Records of one partition, in its order.
#[derive(Debug)]
pub struct Records {
    /// Which partition, as `Source::partitions` names it.
    pub partition: Arc<str>,
    /// The records: columns as the projection asks, event times in `timestamps` (0 where records have none), `origin` set.
    pub batch: Batch,
    /// Arrival times in ms, one per record, [`UNKNOWN_ARRIVAL`] where it has none; empty where the source does not say.
    pub arrivals: Vec<Timestamp>,
    /// What could not be read.
    pub dead: Vec<DeadLetter>,
    /// Bytes read, for the metrics.
    pub bytes: u64,
}

/// A partition and where it reads next.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Its name: the same after a restart.
    pub name: Arc<str>,
    /// The connector's own words for the place of the next record.
    pub next: serde_json::Value,
    /// Read to its end.
    pub finished: bool,
}

/// What later nodes want of a source's records, pushed back to where they are parsed once.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    /// The columns to take out, by pointer and type; the same pointer may come with several types. The empty pointer is
    /// the whole value.
    pub schema: Schema,
    /// Somebody needs whole values as the connector's format has them. Raw bytes are kept for dead letters all the same
    /// where that costs nothing.
    pub whole_values: bool,
}

/// Makes the tasks' shares of a source.
pub trait SourceFactory: Send + Sync {
    /// Most tasks that can share the work; a share beyond would have no partition.
    fn parallelism_max(&self) -> usize;

    /// The share of `task` of `parallelism`, going on from `positions` (those of all tasks, by partition name; empty at a
    /// fresh start).
    ///
    /// # Errors
    /// The source cannot be opened, or a position is no longer there.
    fn open(&self, share: Share<'_>) -> anyhow::Result<Box<dyn Source>>;
}

/// Which share to open, from where.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// Which task.
    pub task: usize,
    /// Of how many.
    pub parallelism: usize,
    /// Positions of all partitions at the checkpoint; empty at a fresh start.
    pub positions: &'a [Partition],
    /// What to take out of the records.
    pub projection: &'a Projection,
}
