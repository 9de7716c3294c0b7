//! Event time: whoever needs it gets it, and every watermark can move.

use crate::job::definition::problem::Problem;
use crate::job::definition::{Definition, Emit, EventTime, Logic, OnExcess, Operator, Source, SourceConnector};

pub(super) fn check(definition: &Definition, problems: &mut Vec<Problem>) {
    for source in &definition.sources {
        check_source(source, problems);
    }
    for operator in definition.operators.iter().filter(|operator| matches!(operator.logic, Logic::Window(_))) {
        let untimed = |source: &&&Source| source.event_time.is_none() && !lacks_any_time(source);
        for source in sources_of(definition, operator).iter().filter(untimed) {
            let message = format!(
                "the window `{}` needs event time, and the source `{}` says of no field that it holds it",
                operator.name, source.name
            );
            let problem = Problem::at(source.place, message);
            problems.push(
                problem.hint("e.g. `event_time: { field: /time, format: rfc3339 }`, or `event_time: processing_time`"),
            );
        }
    }
}

/// Whether no record of it would have a time. Generated records have one of their own.
fn lacks_any_time(source: &Source) -> bool {
    let timed = source.event_time.is_some() || source.arrival.is_some();
    !timed && matches!(source.connector, SourceConnector::File(_))
}

fn check_source(source: &Source, problems: &mut Vec<Problem>) {
    if lacks_any_time(source) {
        let message =
            format!("the source `{}` says of no field that it holds a time, and every record needs one", source.name);
        problems.push(Problem::at(source.place, message).hint(
            "e.g. `event_time: { field: /time, format: rfc3339 }`, or `arrival: { field: /received_at }` where that is all there \
             is; without either, `event_time: processing_time` goes by the clock",
        ));
    }
    let watermark = &source.watermark;
    if source.event_time_field().is_some() && watermark.bound_ms.is_none() && watermark.emit != Emit::AtEnd {
        let message = format!("the source `{}` has event time and no bound: how late may records come?", source.name);
        problems.push(Problem::at(source.place, message).hint(
            "e.g. `watermark: { bound: 30s }`; `millstream check --measure` says which bound covers how many; \
             `emit: at_end` needs none",
        ));
    }
    if source.event_time == Some(EventTime::Clock) {
        let key = if source.arrival.is_some() { "arrival" } else { "watermark.bound" };
        if source.arrival.is_some() || watermark.bound_ms.is_some_and(|bound| bound > 0) {
            let message = format!("the source `{}` goes by the clock, so its `{key}` means nothing", source.name);
            problems.push(Problem::at(source.place, message).hint(format!(
                "leave `{key}` out, or take the time from a field: `event_time: {{ field: /time, format: rfc3339 }}`"
            )));
        }
    }
    if watermark.max_drift_ms.is_some() {
        let message = format!("the source `{}` has a `max_drift`, which this version does not keep to", source.name);
        problems.push(Problem::at(source.place, message).hint("leave it out: no partition is paused"));
    }
    if watermark.emit == Emit::AtEnd && is_endless(source) {
        let message =
            format!("the source `{}` never ends, so with `emit: at_end` no window would ever fire", source.name);
        problems.push(Problem::at(source.place, message).hint("use `emit: periodic` with a `bound`"));
    }
    let judges = source.tolerance.behind_ms.is_some() || source.tolerance.on_excess != OnExcess::DeadLetter;
    if judges && source.arrival.is_none() {
        let message = format!("the source `{}` has a tolerance, but nothing to judge it by", source.name);
        problems.push(
            Problem::at(source.place, message)
                .hint("say where the arrival time stands: `arrival: { field: /received_at }`"),
        );
    }
}

/// Whether a source has no end of its own.
pub(in crate::job) fn is_endless(source: &Source) -> bool {
    match &source.connector {
        SourceConnector::File(file) => file.follow,
        SourceConnector::Generator(generator) => generator.records.is_none(),
    }
}

/// The sources whose records lead to `operator`.
pub(in crate::job) fn sources_of<'a>(definition: &'a Definition, operator: &'a Operator) -> Vec<&'a Source> {
    let (mut found, mut seen, mut open): (Vec<&Source>, Vec<&str>, Vec<&Operator>) = (vec![], vec![], vec![operator]);
    while let Some(operator) = open.pop() {
        for name in operator.inputs.iter().map(|input| input.from.node.as_str()) {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            found.extend(definition.sources.iter().find(|source| source.name == name));
            open.extend(definition.operators.iter().find(|operator| operator.name == name));
        }
    }
    found
}
