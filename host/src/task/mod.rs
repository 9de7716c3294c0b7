//! The three loops: source tasks read and stamp, operator tasks compute, sink tasks write. One OS thread each, no async, no
//! lock and no allocation per record. A task has one wait point: an element, room in an output, a due timer, control, or a
//! finished snapshot. Knows nothing of wasm, files or formats: it sees `Source`, `Operator` and `Sink`.

mod chain;
mod control;
mod in_flight; // rows that a barrier overtook, stored
mod inputs; // what comes into a task
mod operator_task;
mod port;
mod replay; // what a restored task is given again
mod sink_task;
mod source_task;
mod source_time;
#[cfg(test)]
mod tests; // an operator task at barriers

pub use chain::{Chain, ChainNode, Target};
pub use control::{Command, Control, End, Event, Gate, Held, Request, Stop, TaskId};
pub use in_flight::InFlightStore;
pub use inputs::Input;
pub use operator_task::{Durable, OperatorTask};
pub use port::Port;
pub use replay::{ChainShare, replay_of_chain, replay_of_sink};
pub use sink_task::SinkTask;
pub use source_task::{SourceOutputs, SourceTask, SourceWiring};
pub use source_time::{Emit, Excess, SourceTimeSettings, Tolerance, WhenAllIdle};

use std::time::Duration;

/// About most bytes of raw values in one batch.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Adds up how long a task works, waits for room, and waits for input; the three sum to the wall clock.
struct Stopwatch {
    last: Duration,
}

impl Stopwatch {
    fn start(clock: &dyn crate::env::Clock) -> Self {
        Self { last: clock.monotonic() }
    }

    /// Time since the last lap, ns.
    fn lap(&mut self, clock: &dyn crate::env::Clock) -> u64 {
        let now = clock.monotonic();
        let lap = now.saturating_sub(self.last);
        self.last = now;
        u64::try_from(lap.as_nanos()).unwrap_or(u64::MAX)
    }
}
