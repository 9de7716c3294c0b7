//! The stream host. A record's path, in order: `source` decodes, keys and stamps it; `exchange` carries it to the task that
//! owns its key; `task` aligns barriers, advances time and calls an `operator`, native or a guest in the `engine`, which
//! remembers in `state`; a `sink` writes, stages and applies. Control stands beside it: `checkpoint` makes consistent cuts,
//! `job` turns the file a user wrote into running tasks. The rules of time, windows and recovery are in the package `dataflow`.

pub mod source; // 1 records come in
pub mod exchange; // 2 they are carried to a task
pub mod task; // 3 the three loops
pub mod operator; // 4 what a task calls
pub mod engine; // 5 wasmtime, and nothing else of the stream
pub mod state; // 6 what operators remember
pub mod sink; // 7 records go out
pub mod checkpoint; // control: consistent cuts, and where they are stored
pub mod job; // control: from a job file to running tasks
pub mod operator_project; // an operator's project: made, built to a component, its cases run

pub mod dead_letter; // records put aside
pub mod env; // clock, threads, waiting, fail points
pub mod telemetry; // what is counted
