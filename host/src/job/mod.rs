//! Control: from the file a user wrote to running tasks.

pub mod definition; // the file, as data
