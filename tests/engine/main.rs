//! What guests are promised and what they cannot do: components that are refused, calls that fail, and that nothing else is
//! touched by it. The guest operator is driven directly, over the `memory` backend.

mod aggregating;
mod cases; // what a window computes
mod faults; // one test per way to go wrong
mod loading; // what is refused before anything runs
mod rig; // an operator with state, time and outputs in the test's hand
mod state; // values, lists, maps, time to live, migration
mod timers; // event time and processing time
