//! Control: from the file a user wrote to running tasks. `definition` is the file as data.

pub mod check; // what is wrong with it, found without running
pub mod components; // what its components say of themselves
pub mod definition; // the file, as data
mod status; // what a running job tells of itself

pub use status::{CheckpointStatus, NodeStatus, Status};
