//! A guest component as an operator of the stream: batches become calls, answers become state, timers and outputs. Stands between
//! a task, which knows nothing of guests, and `engine`, which knows nothing of the stream.
//!
//! Invariant: a call's effects are real wholly or not at all, and a guest's failure costs the rows it failed on, not the job.

mod aggregate; // the world `aggregator` as what a window computes
mod call; // one call: in, checked, made real
mod emit; // checked effects -> batches on ports
mod factory; // what a planner makes operators with
mod lent; // where the state was while a call has it
mod lift; // a guest's answer -> checked effects
mod live; // the instance, and the one that migrates
mod lower; // a batch -> what a guest sees
mod recovery; // what happens when a guest fails
mod riding; // prefetched states
mod session; // states on demand
mod settings; // what a job says about a guest
mod timers; // timers of both clocks

pub use aggregate::GuestAggregator;
pub use factory::GuestFactory;
pub use lower::FieldSource;
pub use settings::{GuestInput, GuestPort, GuestSettings, OnError, Reshape};

use super::{Context, Due, Operator};
use crate::engine::host::StateCalls;
use dataflow::record::Batch;
use dataflow::time::{Clock, Timestamp};
use factory::Shared;
use std::sync::Arc;

/// Most timers that one call fires.
const TIMERS_AT_ONCE: usize = 1024;

/// A guest in one task.
pub struct GuestOperator {
    shared: Arc<Shared>,
    live: live::Live,
    migrator: live::Migrator,
    lowerings: Vec<lower::Lowering>,
    riding: riding::Riding,
    clocks: timers::Clocks,
    /// A `session::Session`; none where all states ride along.
    session: Option<Box<dyn StateCalls>>,
    caution: recovery::Caution,
}

impl GuestOperator {
    fn name(&self) -> &str {
        &self.shared.operator
    }
}

impl Operator for GuestOperator {
    fn open(&mut self, context: &mut Context<'_>) -> anyhow::Result<()> {
        self.clocks.open(context.state.as_ref());
        self.live.get().map(|_| ())
    }

    fn on_batch(&mut self, input: usize, mut batch: Batch, context: &mut Context<'_>) -> anyhow::Result<()> {
        let lacking = self.lowerings[input].lacking(&batch);
        if !lacking.is_empty() {
            batch = self.without_lacking(&batch, lacking, context)?;
        }
        if batch.is_empty() { Ok(()) } else { self.run(input, batch, context) }
    }

    fn on_watermark(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due> {
        self.fire(Clock::EventTime, context)
    }

    fn on_clock(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due> {
        self.fire(Clock::ProcessingTime, context)
    }

    fn next_clock_timer(&self, _context: &Context<'_>) -> Option<Timestamp> {
        self.clocks.next_clock_timer()
    }
}
