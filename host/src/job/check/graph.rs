//! The shape of the job: no cycles, and nobody works for nothing.

use crate::job::definition::problem::{Problem, nearest};
use crate::job::definition::{Definition, Operator};

pub(super) fn check(definition: &Definition, problems: &mut Vec<Problem>) {
    cycles(definition, problems);
    unread(definition, problems);
}

fn cycles(definition: &Definition, problems: &mut Vec<Problem>) {
    let mut done: Vec<&str> = vec![];
    for operator in &definition.operators {
        let mut path = vec![];
        if let Some(cycle) = walk(definition, operator, &mut path, &mut done) {
            // The walk runs against the data: turned round it reads as records travel.
            let mut names: Vec<&str> = cycle.iter().rev().map(|operator| operator.name.as_str()).collect();
            names.push(names[0]);
            let message = format!("the job has a cycle: {}", names.join(" → "));
            problems.push(Problem::at(cycle[0].place, message).hint("an operator cannot read what comes from itself"));
            done.extend(cycle.iter().map(|operator| operator.name.as_str()));
        }
    }
}

/// The operators of a cycle that `operator` leads to, against the flow of data; none if it leads to none.
fn walk<'a>(
    definition: &'a Definition,
    operator: &'a Operator,
    path: &mut Vec<&'a Operator>,
    done: &mut Vec<&'a str>,
) -> Option<Vec<&'a Operator>> {
    if done.contains(&operator.name.as_str()) {
        return None;
    }
    if let Some(start) = path.iter().position(|seen| seen.name == operator.name) {
        return Some(path[start..].to_vec());
    }
    path.push(operator);
    for input in &operator.inputs {
        let from = definition.operators.iter().find(|operator| operator.name == input.from.node);
        if let Some(cycle) = from.and_then(|from| walk(definition, from, path, done)) {
            return Some(cycle);
        }
    }
    path.pop();
    done.push(&operator.name);
    None
}

fn unread(definition: &Definition, problems: &mut Vec<Problem>) {
    let inputs = definition.operators.iter().flat_map(|operator| &operator.inputs).map(|input| &input.from);
    let read: Vec<&str> =
        inputs.chain(definition.sinks.iter().map(|sink| &sink.input)).map(|from| from.node.as_str()).collect();
    let known = |name: &str| {
        let operators = definition.operators.iter().map(|operator| operator.name.as_str());
        operators.chain(definition.sources.iter().map(|source| source.name.as_str())).any(|known| known == name)
    };
    // A misspelt reference is told where it stands; here it counts as meant.
    let meant = |name: &str| read.iter().any(|read| !known(read) && nearest(read, [name]).is_some());
    let is_read = |name: &str| read.contains(&name) || meant(name);
    let sources = definition.sources.iter().map(|source| ("source", &source.name, source.place));
    let operators = definition.operators.iter().map(|operator| ("operator", &operator.name, operator.place));
    for (kind, name, place) in sources.chain(operators).filter(|(_, name, _)| !is_read(name)) {
        let problem = Problem::at(place, format!("nobody reads the {kind} `{name}`"));
        problems.push(problem.hint(format!("give a sink `input: {name}`, or take it out")));
    }
}
