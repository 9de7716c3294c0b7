//! Cases of an operator: records and times go in, expected rows, state and dead letters are compared. Each case runs straight,
//! and once more with the component's instance replaced between any two records. Only the guest operator and the memory
//! backend run here: no source, no task, no real clock.

mod case;
mod compare;
mod rows;
mod run;

pub use case::{Case, Expect, Step, read};
pub use run::{Way, run};
