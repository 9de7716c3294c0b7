//! Control: from the file a user wrote to running tasks. `definition` is the file as data, `blueprint` what it means,
//! `wire` makes the tasks, `run` starts, resumes and ends them.

pub mod definition; // the file, as data
pub mod check; // what is wrong with it, found without running
pub mod components; // what its components say of themselves
mod connectors; // the only names of concrete sources and sinks
mod logic; // windows, guests, and what stands in for them
mod blueprint; // nodes, plan and factories
mod storage; // by the name its user gives it
mod recovery; // which checkpoint is taken
mod restore; // what a checkpoint gives back
mod wire; // channels and tasks
mod attempt; // one run of the tasks
mod run; // start, resume, restart, rescale, end
pub mod control; // what others ask of a running job
pub mod savepoint; // a checkpoint in canonical form
mod measure; // how far a source's records come out of order

pub use blueprint::{Blueprint, Code, ComponentLoader, Part, SinkPart, SourcePart, blueprint};
pub use control::Handle;
pub use measure::measure;
pub use run::{Resumed, RunOptions, RunningJob, Started, run, start};
pub use wire::DEAD_LETTERS;
