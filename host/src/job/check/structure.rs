//! Names and references: every node has its own name, and whoever reads names a node that is there.

use crate::job::definition::problem::{Problem, did_you_mean};
use crate::job::definition::{Definition, Logic, OnExcess, Operator, Place, Reference};

pub(super) fn check(definition: &Definition, problems: &mut Vec<Problem>) {
    distinct_names(definition, problems);
    for reference in references(definition) {
        resolves(definition, reference, problems);
    }
    if definition.max_parallelism < definition.parallelism as u16 {
        problems.push(too_parallel("the job", definition.parallelism, definition, definition.parallelism_place));
    }
    for operator in &definition.operators {
        let parallelism = operator.parallelism.unwrap_or(1);
        if parallelism > usize::from(definition.max_parallelism) {
            problems.push(too_parallel(&format!("`{}`", operator.name), parallelism, definition, operator.place));
        }
        if matches!(operator.logic, Logic::Window(_)) {
            one_input(operator, problems);
        }
        let tasks = operator.parallelism.unwrap_or(definition.parallelism);
        if matches!(operator.logic, Logic::Window(_)) && tasks > 1 && operator.inputs.iter().any(|i| i.key.is_empty()) {
            let message = format!("the window `{}` has no key, so it must run in one task", operator.name);
            problems.push(Problem::at(operator.place, message).hint("give it a `key`, or `parallelism: 1`"));
        }
    }
}

fn one_input(window: &Operator, problems: &mut Vec<Problem>) {
    if window.inputs.len() > 1 {
        let message =
            format!("the window `{}` has {} inputs, and a window reads one", window.name, window.inputs.len());
        problems.push(Problem::at(window.place, message).hint("give each input a window of its own"));
    }
    for input in window.inputs.iter().filter(|input| input.broadcast) {
        let message =
            format!("the window `{}` would count the records of `{}` in every task", window.name, input.from.node);
        problems.push(Problem::at(window.place, message).hint("`broadcast` is for components: leave it out"));
    }
}

fn too_parallel(who: &str, parallelism: usize, definition: &Definition, place: Place) -> Problem {
    let max = definition.max_parallelism;
    Problem::at(place, format!("{who} asks for {parallelism} tasks, but there are only {max} key groups"))
        .hint("raise `max_parallelism`, or lower `parallelism`")
}

/// All places where a node reads another.
fn references(definition: &Definition) -> impl Iterator<Item = &Reference> {
    let inputs = definition.operators.iter().flat_map(|operator| &operator.inputs).map(|input| &input.from);
    inputs.chain(definition.sinks.iter().map(|sink| &sink.input))
}

fn distinct_names(definition: &Definition, problems: &mut Vec<Problem>) {
    let sources = definition.sources.iter().map(|node| (&node.name, node.place, "source"));
    let operators = definition.operators.iter().map(|node| (&node.name, node.place, "operator"));
    let sinks = definition.sinks.iter().map(|node| (&node.name, node.place, "sink"));
    let all: Vec<_> = sources.chain(operators).chain(sinks).collect();
    for (index, (name, place, kind)) in all.iter().enumerate() {
        if let Some((_, first, other)) = all[..index].iter().find(|(earlier, _, _)| earlier == name) {
            let message = format!("the {kind} `{name}` has the name of the {other} on line {}", first.line);
            problems.push(Problem::at(*place, message).hint("every node needs a name of its own"));
        }
    }
    for (kind, empty, place) in
        [("source", definition.sources.is_empty(), "sources"), ("sink", definition.sinks.is_empty(), "sinks")]
    {
        if empty {
            let problem = Problem { place: None, message: format!("the job has no {kind}"), hint: None };
            problems.push(problem.hint(format!("name at least one under `{place}`")));
        }
    }
}

fn resolves(definition: &Definition, reference: &Reference, problems: &mut Vec<Problem>) {
    if reference.node.is_empty() {
        return; // the reader has said so
    }
    let node = &reference.node;
    let sources = definition.sources.iter().map(|source| source.name.as_str());
    let operators = definition.operators.iter().map(|operator| operator.name.as_str());
    let names: Vec<&str> = sources.chain(operators).collect();
    if definition.sinks.iter().any(|sink| sink.name == *node) && !names.contains(&node.as_str()) {
        let message = format!("`{node}` is a sink, and a sink has no output");
        problems.push(Problem::at(reference.place, message).hint("read what the sink reads"));
        return;
    }
    if !names.contains(&node.as_str()) {
        let message = format!("there is no source or operator `{node}`");
        let hint = did_you_mean(node, names.iter().copied());
        problems.push(
            Problem::at(reference.place, message)
                .hint(hint.unwrap_or_else(|| format!("there is {}", names.join(", ")))),
        );
        return;
    }
    if let Some(output) = &reference.output
        && let Some(outputs) = side_outputs(definition, node)
        && !outputs.contains(&output.as_str())
    {
        let message = format!("`{node}` has no output `{output}`");
        let hint = match outputs.as_slice() {
            [] => format!("it has its main output only: `{node}`"),
            outputs => format!("beside its main output it has `{node}.{}`", outputs.join(&format!("`, `{node}."))),
        };
        problems.push(Problem::at(reference.place, message).hint(hint));
    }
}

/// Side outputs of a node; none where only its component knows.
fn side_outputs(definition: &Definition, node: &str) -> Option<Vec<&'static str>> {
    if let Some(source) = definition.sources.iter().find(|source| source.name == node) {
        let side = source.tolerance.on_excess == OnExcess::SideOutput;
        return Some(if side { vec![OUT_OF_TOLERANCE] } else { vec![] });
    }
    let operator = definition.operators.iter().find(|operator| operator.name == node)?;
    match operator.logic {
        Logic::Window(_) => Some(vec![LATE]),
        Logic::Guest(_) => None,
    }
}

/// A window's output of records that came too late.
pub(super) const LATE: &str = "late";
/// A source's output of records whose time is out of tolerance.
pub(super) const OUT_OF_TOLERANCE: &str = "out_of_tolerance";
