//! Golden cases: jobs with their input and the rows that must come out. Each runs straight, after crashes at seeded moments, on
//! another machine from an object store, in several tasks and in batches of other sizes; jobs with components once more with native
//! twins in their place. Adding a case adds no Rust: see `case.rs` for what a case is.

mod case;
mod crash;
mod kept;
mod moves;
mod new_project;
mod object_store;
mod plain_lines;
mod refused;
mod straight;
mod unaligned;
