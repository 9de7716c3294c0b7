//! What a task calls with each batch: built-in operators and guests behind one trait. `mod.rs` is the contract, its
//! siblings fulfil it.

pub mod guest; // a component behind the seam
pub mod native; // rust code behind the seam
pub mod window; // panes over time

use crate::dead_letter::DeadLetter;
use crate::state::{StateBackend, StateDeclaration, StateNumber};
use crate::telemetry::{GuestMetrics, NodeMetrics};
use dataflow::checkpoint::AggregateEntry;
use dataflow::record::Batch;
use dataflow::time::Timestamp;
use std::sync::Arc;

/// The logic of one operator in one task. Called from one thread.
///
/// Contract:
/// - All that is remembered MUST be in `context.state`; fields of the operator are caches that may vanish between calls.
/// - A call that fails MUST leave no write and no output behind.
/// - Records first, then timers: `on_watermark(w)` comes after every record that came before w.
pub trait Operator: Send {
    /// Once, before anything else, on fresh or restored state.
    ///
    /// # Errors
    /// The operator cannot start.
    fn open(&mut self, context: &mut Context<'_>) -> anyhow::Result<()>;

    /// Records of one input. A keyed input's batches have `keys`.
    ///
    /// # Errors
    /// The job cannot go on. A record that cannot be processed is a dead letter, not an error.
    fn on_batch(&mut self, input: usize, batch: Batch, context: &mut Context<'_>) -> anyhow::Result<()>;

    /// Event time has come to `context.watermark`: fires a slice of what is due, in time order, and says whether more is.
    /// The task passes the watermark on once nothing more is due.
    ///
    /// # Errors
    /// As `on_batch`.
    fn on_watermark(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due>;

    /// Processing time has come to `context.now`: the same for processing-time timers.
    ///
    /// # Errors
    /// As `on_batch`.
    fn on_clock(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due>;

    /// When the next processing-time timer is due, ms since 1970 UTC.
    fn next_clock_timer(&self, context: &Context<'_>) -> Option<Timestamp>;
}

/// Whether a slice was all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Call again: more is due.
    More,
    /// All that was due has fired.
    Done,
}

/// What an operator may use during one call.
pub struct Context<'a> {
    /// The task's state. A box, so that it can be lent for the time of a call to code that cannot hold a reference: a guest's store.
    pub state: &'a mut Box<dyn StateBackend>,
    /// Where outputs go.
    pub out: &'a mut Emitter,
    /// The operator's watermark; `time::START` before the first.
    pub watermark: Timestamp,
    /// Processing time of this call, ms since 1970 UTC.
    pub now: Timestamp,
    /// The operator's counters.
    pub metrics: &'a NodeMetrics,
}

/// Collects what one call puts out. The task sends it on when the call is done.
#[derive(Debug, Default)]
pub struct Emitter {
    /// Batches by output port, in order. Port 0 is the main output.
    pub batches: Vec<(usize, Batch)>,
    /// Records put aside.
    pub dead: Vec<DeadLetter>,
}

impl Emitter {
    /// Sends `batch` to `port`; an empty one goes nowhere.
    pub fn emit(&mut self, port: usize, batch: Batch) {
        if !batch.is_empty() {
            self.batches.push((port, batch));
        }
    }
}

/// Makes an operator for each task.
pub trait OperatorFactory: Send + Sync {
    /// The states it keeps, by name. Their numbers come back in `TaskInfo::states`, in this order.
    fn states(&self) -> Vec<StateDeclaration>;

    /// What its states' rows are made for, where those made for something else would be misread.
    fn made_for(&self) -> Option<String> {
        None
    }

    /// What the accumulators in its state hold; nothing unless it is a window.
    fn aggregates(&self) -> Vec<AggregateEntry> {
        vec![]
    }

    /// What its guests report of themselves, over all tasks.
    fn reports(&self) -> Vec<Arc<GuestMetrics>> {
        vec![]
    }

    /// The operator for one task.
    ///
    /// # Errors
    /// It cannot be made: a component that does not load, a configuration it refuses.
    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Operator>>;
}

/// Where an operator runs.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// The operator's name in the job.
    pub operator: String,
    /// Which task.
    pub task: usize,
    /// Of how many.
    pub parallelism: usize,
    /// Key groups of the job.
    pub max_parallelism: u16,
    /// Numbers of the states it declared, in order.
    pub states: Vec<StateNumber>,
}
