//! Runs guest code: wasmtime and nothing else of the stream. Knows components, instances, limits and the functions a guest
//! may call; knows nothing of sources, barriers or checkpoints. `operator::guest` stands between a task and an instance.
//!
//! Invariants: a guest reaches only what is linked here, which is `state` (of rows it was handed), `log` and `metrics`. Every call
//! runs under a deadline and a memory limit. A guest's answer is checked by whoever applies it, never trusted.

pub mod aggregator; // calls of the `aggregator` world
pub mod bindings; // the only place where the WIT package becomes Rust
mod cache; // compiled components on disk
pub mod columns; // columns across the boundary
pub mod component; // bytes -> checked, compiled, described
pub mod description; // what a component says of itself
pub mod fault; // how a call failed
pub mod host; // what a guest may call
pub mod instance; // calls of the `processor` world
pub mod limits; // what one instance may use
mod runtime; // the process's engine
mod ticker; // moves the epoch while calls run
mod world; // which world a component fits, before it is compiled

pub use aggregator::Aggregator;
pub use component::{Component, LoadError};
pub use fault::{Fault, FaultKind};
pub use instance::Instance;
pub use limits::Limits;
pub use runtime::{Engine, EngineSettings};
