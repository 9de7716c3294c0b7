//! The three loops: source tasks read and stamp, operator tasks compute, sink tasks write. One OS thread each, no async, no
//! lock and no allocation per record. A task has one wait point: an element, room in an output, a due timer, control, or a
//! finished snapshot. Knows nothing of wasm, files or formats: it sees `Source`, `Operator` and `Sink`.

mod chain;
mod control;
mod operator_task;
mod port;
mod sink_task;
mod source_task;
mod source_time;

pub use chain::{Chain, ChainNode, KeyBy, Target};
pub use control::{Command, Control, End, Event, Gate, Held, Request, Stop, TaskId};
pub use operator_task::{Input, OperatorTask};
pub use port::Port;
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
