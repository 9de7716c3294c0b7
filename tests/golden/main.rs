//! Golden cases: jobs with their input and the rows that must come out. Each runs straight, after crashes at seeded moments, and in
//! two tasks. Adding a case adds no Rust: see `case.rs` for what a case is.

mod case;
mod crash;
mod kept;
mod moves;
mod straight;
