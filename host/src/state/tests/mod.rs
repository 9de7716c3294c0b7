//! What stands above the backends, against reference models, with restores at random points in any number of tasks.

mod keyed; // values, lists and maps
mod overlay; // what a call writes
pub(crate) mod owners; // the tasks that share a state
mod timers;

use super::{StateDeclaration, StateKind, Ttl};

fn declaration(number: u32, kind: StateKind, ttl: Option<Ttl>) -> StateDeclaration {
    StateDeclaration { name: format!("state {number}"), version: 3, kind, ttl }
}
