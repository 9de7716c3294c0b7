//! Everything that can be found wrong with a job without running it. `structure` needs the definition alone; `files` looks at
//! the disk; `columns` also needs to know what the components say of themselves. Nothing here starts a task.

mod columns;
mod explain;
mod files;
mod graph;
mod known;
mod measure;
mod promises;
mod structure;
mod time;

pub use explain::explain;
pub use files::files;
pub(in crate::job) use files::guests;
pub use known::{Columns, Components, Described, Outputs, TakenField, outputs};
pub use measure::Disorder;

use super::definition::Definition;
use super::definition::problem::Problem;

/// Problems of the definition alone: names, references, cycles, nodes nobody reads, time, promises.
pub fn structure(definition: &Definition) -> Vec<Problem> {
    let mut problems = vec![];
    structure::check(definition, &mut problems);
    graph::check(definition, &mut problems);
    time::check(definition, &mut problems);
    promises::check(definition, &mut problems);
    problems
}

/// Problems of columns, inputs and configurations, for a definition without problems of structure.
pub fn columns(definition: &Definition, components: &Components) -> Vec<Problem> {
    let mut problems = vec![];
    columns::check(definition, components, &mut problems);
    problems
}

/// Whether the job calls any component.
pub fn has_guests(definition: &Definition) -> bool {
    !guests(definition).is_empty()
}

#[cfg(test)]
mod tests;
