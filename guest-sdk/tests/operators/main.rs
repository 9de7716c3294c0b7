//! What the SDK promises to authors, on the native harness: declarations, state, timers, outputs, batches, aggregates.

mod aggregates;
mod batches;
mod declarations;
mod outputs;
mod state;
mod timers;
