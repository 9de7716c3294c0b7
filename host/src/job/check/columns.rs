//! Who reads a column gets one: keys, aggregates, a guest's fields, a sink's columns; and a guest's inputs, outputs and
//! configuration fit what its component says.

use super::known::{Columns, Components, Described, Outputs, TakenField, columns_of, outputs, path_of};
use crate::job::definition::problem::{Problem, did_you_mean};
use crate::job::definition::{
    AggregateFunction, Definition, Guest, Logic, Operator, Place, Pointer, Reference, RowFormat, Sink, SinkConnector,
};

pub(super) fn check(definition: &Definition, components: &Components, problems: &mut Vec<Problem>) {
    let known = outputs(definition, components);
    for operator in &definition.operators {
        check_operator(operator, components, &known, problems);
    }
    for sink in &definition.sinks {
        check_sink(sink, &known, problems);
    }
}

fn check_operator(operator: &Operator, components: &Components, known: &Outputs, problems: &mut Vec<Problem>) {
    for input in &operator.inputs {
        output_exists(&input.from, known, problems);
        for pointer in &input.key {
            has_column(
                &format!("the key of `{}`", operator.name),
                pointer,
                &input.from,
                operator.place,
                known,
                problems,
            );
        }
    }
    match &operator.logic {
        Logic::Window(window) => {
            for aggregate in &window.aggregates {
                let who = format!("the aggregate `{}`", aggregate.name);
                for input in &operator.inputs {
                    match &aggregate.function {
                        AggregateFunction::BuiltIn { field: Some(field), .. } => {
                            has_column(&who, field, &input.from, aggregate.place, known, problems);
                        }
                        AggregateFunction::BuiltIn { field: None, .. } => {}
                        AggregateFunction::Guest(guest) => {
                            guest_fields(guest, components, &input.from, None, known, problems);
                        }
                    }
                }
                if let AggregateFunction::Guest(guest) = &aggregate.function
                    && matches!(components.get(path_of(guest)), Some(Described::Processor { .. }))
                {
                    problems.push(wrong_world(guest, "processor", "aggregator", "an aggregate"));
                }
            }
        }
        Logic::Guest(guest) => check_guest(operator, guest, components, known, problems),
    }
}

fn wrong_world(guest: &Guest, is: &str, needs: &str, place: &str) -> Problem {
    let path = path_of(guest).display();
    Problem::at(guest.place, format!("the component {path} is of the world `{is}`, and {place} needs `{needs}`"))
        .hint("a `processor` is an operator of its own; an `aggregator` belongs under a window's `aggregate`")
}

fn check_guest(
    operator: &Operator,
    guest: &Guest,
    components: &Components,
    known: &Outputs,
    problems: &mut Vec<Problem>,
) {
    let (names, keyed) =
        match components.get(path_of(guest)) {
            Some(Described::Processor { inputs, keyed, endless, .. }) => {
                if let (Some(state), false) = (endless.first(), guest.keep_forever) {
                    let message = format!("`{}` keeps the state `{state}` of every key without end", operator.name);
                    problems.push(Problem::at(guest.place, message).hint(
                        "give it a time to live in the component, clear it by timers, or say `keep: forever` here",
                    ));
                }
                (inputs, *keyed)
            }
            Some(Described::Aggregator { .. }) => {
                problems.push(wrong_world(guest, "aggregator", "processor", "an operator"));
                return;
            }
            None => return,
        };
    let by_name = operator.inputs.iter().any(|input| input.name.is_some());
    for input in &operator.inputs {
        let index = match &input.name {
            Some(name) => names.iter().position(|known| known == name),
            None => Some(0),
        };
        if let (Some(name), None) = (&input.name, index) {
            let message = format!("the component of `{}` has no input `{name}`", operator.name);
            problems.push(Problem::at(input.from.place, message).hint(format!("it has {}", names.join(", "))));
        }
        guest_fields(guest, components, &input.from, index, known, problems);
        if keyed && input.key.is_empty() && !input.broadcast {
            let message = format!("`{}` remembers by key, and its input `{}` has none", operator.name, input.from.node);
            problems.push(Problem::at(operator.place, message).hint("e.g. `key: /city`"));
        }
    }
    if !by_name && names.len() > 1 {
        let message = format!("the component of `{}` has several inputs: {}", operator.name, names.join(", "));
        let hint = format!("name them: `inputs: {{ {}: {{ from: …, key: … }}, … }}`", names[0]);
        problems.push(Problem::at(operator.place, message).hint(hint));
    }
}

/// The fields that the component takes, and the overrides that the job gives.
fn guest_fields(
    guest: &Guest,
    components: &Components,
    from: &Reference,
    input: Option<usize>,
    known: &Outputs,
    problems: &mut Vec<Problem>,
) {
    let Some(fields) = components.get(path_of(guest)).map(Described::fields) else { return };
    for name in guest.fields.keys().filter(|name| !fields.iter().any(|field| field.name == **name)) {
        let there = fields.iter().map(|field| field.name.as_str());
        let hint = did_you_mean(name, there.clone());
        let hint = hint.unwrap_or_else(|| format!("it takes {}", there.collect::<Vec<_>>().join(", ")));
        let problem = Problem::at(guest.place, format!("the component takes no field `{name}`"));
        problems.push(problem.hint(hint));
    }
    let here = |field: &&TakenField| field.input.is_none() || input.is_none() || field.input == input;
    for field in fields.iter().filter(|field| field.required).filter(here) {
        let pointer = guest.fields.get(&field.name).unwrap_or(&field.pointer);
        let who = format!("the component's field `{}`", field.name);
        has_column(&who, pointer, from, guest.place, known, problems);
    }
}

fn output_exists(reference: &Reference, known: &Outputs, problems: &mut Vec<Problem>) {
    if let Some(output) = &reference.output
        && columns_of(known, reference).is_none()
    {
        let node = &reference.node;
        let outputs =
            known.keys().filter(|(name, output)| name == node && !output.is_empty()).map(|(_, output)| output.as_str());
        let message = format!("`{node}` has no output `{output}`");
        problems.push(Problem::at(reference.place, message).maybe_hint(did_you_mean(output, outputs)));
    }
}

fn has_column(
    who: &str,
    pointer: &Pointer,
    from: &Reference,
    place: Place,
    known: &Outputs,
    problems: &mut Vec<Problem>,
) {
    let Some(Columns::Declared(schema)) = columns_of(known, from) else { return };
    if schema.fields.iter().any(|field| field.pointer == *pointer) {
        return;
    }
    let columns: Vec<&str> = schema.fields.iter().map(|field| field.pointer.as_str()).collect();
    let hint = did_you_mean(pointer, columns.iter().copied());
    let hint = hint.unwrap_or_else(|| format!("it has {}", columns.join(", ")));
    problems.push(Problem::at(place, format!("{who} is `{pointer}`, which `{}` does not have", from.node)).hint(hint));
}

/// Two columns that no row can have together: nested, one that is a part of another; flat, the same name, which tables tell apart
/// by more than upper and lower case.
fn clash(columns: &[Pointer], nested: bool, is_table: bool) -> Option<(&Pointer, &Pointer)> {
    let name = |pointer: &Pointer| {
        let flat = pointer.trim_start_matches('/').replace('/', "_");
        if is_table { flat.to_ascii_lowercase() } else { flat }
    };
    let is_part =
        |of: &Pointer, part: &Pointer| part.strip_prefix(of.as_str()).is_some_and(|rest| rest.starts_with('/'));
    let clashes = |one: &Pointer, other: &Pointer| match nested {
        true => !one.is_empty() && !other.is_empty() && (is_part(one, other) || is_part(other, one)),
        false => name(one) == name(other),
    };
    let pairs = columns.iter().enumerate().flat_map(|(at, one)| columns[..at].iter().map(move |other| (other, one)));
    pairs.into_iter().find(|(one, other)| clashes(one, other))
}

fn check_sink(sink: &Sink, known: &Outputs, problems: &mut Vec<Problem>) {
    output_exists(&sink.input, known, problems);
    let (columns, key, format): (_, &[Pointer], _) = match &sink.connector {
        SinkConnector::Stdout(stdout) => (&stdout.columns, &[], stdout.format),
        SinkConnector::File(file) => (&file.columns, &[], file.format),
        SinkConnector::Sqlite(sqlite) => (&sqlite.columns, &sqlite.key, RowFormat::Csv),
    };
    for pointer in columns {
        has_column(&format!("a column of `{}`", sink.name), pointer, &sink.input, sink.place, known, problems);
    }
    for pointer in key {
        has_column(&format!("the key of `{}`", sink.name), pointer, &sink.input, sink.place, known, problems);
        if !columns.is_empty() && !columns.contains(pointer) {
            let message = format!("the key of `{}` is `{pointer}`, which is not among its columns", sink.name);
            problems.push(Problem::at(sink.place, message).hint(format!("add `{pointer}` to `columns`")));
        }
    }
    let is_table = matches!(sink.connector, SinkConnector::Sqlite(_));
    if let Some((one, other)) = clash(columns, format == RowFormat::Json, is_table) {
        let message = format!("the sink `{}` cannot write both `{one}` and `{other}`", sink.name);
        problems.push(Problem::at(sink.place, message).hint(match format {
            RowFormat::Json => "one would be a part of the other: leave one out of `columns`",
            _ => "both would have the same name, since steps are joined by `_`: leave one out of `columns`",
        }));
    }
    let declared = matches!(columns_of(known, &sink.input), Some(Columns::Declared(_)));
    if format == RowFormat::Raw && (declared || !columns.is_empty()) {
        let message =
            format!("the sink `{}` writes whole values, and `{}` has columns and none", sink.name, sink.input.node);
        problems.push(Problem::at(sink.place, message).hint("use `format: json` or `format: csv`"));
    }
    if format == RowFormat::Csv && !declared && columns.is_empty() {
        let message =
            format!("the sink `{}` needs to know its columns, and `{}` may have any", sink.name, sink.input.node);
        problems.push(Problem::at(sink.place, message).hint("name them: `columns: [id, city]`"));
    }
}
