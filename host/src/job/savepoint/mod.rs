//! Savepoints: a decided checkpoint in one canonical form that depends on no backend, no path and no other file, so that it
//! can be kept, copied, and read without the job's code. docs/savepoints.md describes the format.

mod line;
mod read;
mod reading;
mod rows;
mod write;

pub use line::{BROADCAST_TOLD, Line, is_told, line};
pub use read::{Opened, open};
pub use reading::{Reading, reading};
pub use write::{Written, claim, give_up, write};

/// The name of the file that says what a savepoint holds. It is written last: without it there is no savepoint.
pub const FILE: &str = "savepoint.json";

#[cfg(test)]
mod tests;
