//! Control: from the file a user wrote to running tasks.

pub mod check; // what is wrong with it, found without running
pub mod components; // what its components say of themselves
pub mod definition; // the file, as data
