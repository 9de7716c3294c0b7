//! Says what a job will do, for `millstream check`: each node with what it reads and sends, each sink with its promise and how
//! old a result may be when it is seen.

use super::known::{Columns, Components, Outputs, outputs};
use super::time::sources_of;
use crate::job::definition::units::DurationText;
use crate::job::definition::{
    AggregateFunction, BuiltIn, Component, Definition, Delivery, Emit, EventTime, Every, Guest, Input, Logic, Mode,
    Operator, Reference, Sink, SinkConnector, Source, SourceConnector, TimeFormat, WindowKind,
};
use dataflow::checkpoint::CheckpointMode;
use dataflow::record::ValueType;
use std::fmt::Write as _;
use std::time::Duration;

/// The whole job, as lines.
pub fn explain(definition: &Definition, components: &Components) -> String {
    let known = outputs(definition, components);
    let mut text = format!(
        "{}: {}, {}, {}; parallelism {}, a checkpoint every {}\n",
        definition.name,
        count(definition.sources.len(), "source"),
        count(definition.operators.len(), "operator"),
        count(definition.sinks.len(), "sink"),
        definition.parallelism,
        every(definition.checkpoint.every),
    );
    if definition.checkpoint.mode == CheckpointMode::AtLeastOnce {
        text += "checkpoints are at least once: after a crash some records count twice, and rows come again\n";
    }
    for source in &definition.sources {
        text += &explain_source(source);
    }
    for operator in &definition.operators {
        text += &explain_operator(operator, &known);
    }
    for sink in &definition.sinks {
        text += &explain_sink(definition, sink);
    }
    text
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn every(every: Every) -> String {
    match every {
        Every::Time(time) => duration(time),
        Every::Records(1) => "record".into(),
        Every::Records(records) => format!("{records} records"),
    }
}

fn duration(duration: Duration) -> String {
    DurationText(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)).to_string()
}

fn explain_source(source: &Source) -> String {
    let what = match &source.connector {
        SourceConnector::File(file) => {
            format!("{}{}", file.path.display(), if file.follow { ", followed" } else { "" })
        }
        SourceConnector::Generator(generator) => match generator.records {
            Some(records) => format!("{records} made-up records"),
            None => "made-up records without end".into(),
        },
    };
    let mut text = format!("\nsource {}: {what}\n", source.name);
    if let Some(EventTime::Clock) = source.event_time {
        text.push_str("  time from the clock, as records are read; nothing is late\n");
    }
    if let Some(time) = source.event_time_field() {
        let format = match time.format {
            TimeFormat::UnixS => "unix_s",
            TimeFormat::UnixMs => "unix_ms",
            TimeFormat::UnixUs => "unix_us",
            TimeFormat::UnixNs => "unix_ns",
            TimeFormat::Rfc3339 => "rfc3339",
        };
        let bound = DurationText(source.watermark.bound_ms.unwrap_or(0));
        let emit = match source.watermark.emit {
            Emit::PerRecord => format!("watermark {bound} behind, after every record"),
            Emit::Periodic(_) => format!("watermark {bound} behind, after every batch"),
            Emit::AtEnd => "watermark at the end of the input: nothing is late".into(),
        };
        writeln!(text, "  time from {} ({format}); {emit}", time.field).expect("a string takes what is written");
    }
    text
}

/// A pointer in a sentence.
fn named(pointer: &str) -> &str {
    if pointer.is_empty() { "the whole value" } else { pointer }
}

fn reads(input: &Input) -> String {
    let name = input.name.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
    let key = if input.key.is_empty() {
        String::new()
    } else {
        format!(" by {}", input.key.iter().map(|it| named(it)).collect::<Vec<_>>().join(", "))
    };
    format!("{}{key}{name}", written(&input.from))
}

fn written(reference: &Reference) -> String {
    match &reference.output {
        Some(output) => format!("{}.{output}", reference.node),
        None => reference.node.clone(),
    }
}

fn explain_operator(operator: &Operator, known: &Outputs) -> String {
    let inputs: Vec<String> = operator.inputs.iter().map(reads).collect();
    let mut text = format!("\noperator {}: reads {}\n", operator.name, inputs.join(" and "));
    match &operator.logic {
        Logic::Window(window) => {
            let WindowKind::Tumbling { size_ms, .. } = window.kind;
            let late = match window.allowed_lateness_ms {
                0 => String::new(),
                ms => format!(", late records taken for {}", DurationText(ms)),
            };
            let aggregates: Vec<String> = window
                .aggregates
                .iter()
                .map(|aggregate| match &aggregate.function {
                    AggregateFunction::BuiltIn { function, field, .. } => {
                        format!(
                            "{}{}",
                            function_name(*function),
                            field.as_ref().map(|f| format!(" of {f}")).unwrap_or_default()
                        )
                    }
                    AggregateFunction::Guest(guest) => format!("{} by {}", aggregate.name, component(guest)),
                })
                .collect();
            text += &format!("  windows of {}{late}: {}\n", DurationText(size_ms), aggregates.join(", "));
        }
        Logic::Guest(guest) => text += &format!("  component {}\n", component(guest)),
    }
    for ((_, output), columns) in known.iter().filter(|((node, _), _)| *node == operator.name) {
        let name = if output.is_empty() { operator.name.clone() } else { format!("{}.{output}", operator.name) };
        text += &format!("  sends {name}: {}\n", columns_text(columns));
    }
    text
}

fn function_name(function: BuiltIn) -> &'static str {
    match function {
        BuiltIn::Count => "count",
        BuiltIn::Sum => "sum",
        BuiltIn::Min => "min",
        BuiltIn::Max => "max",
        BuiltIn::Mean => "mean",
    }
}

fn component(guest: &Guest) -> String {
    match &guest.component {
        Component::File(path) => path.display().to_string(),
        Component::Project(path) => format!("project {}", path.display()),
    }
}

fn columns_text(columns: &Columns) -> String {
    let Columns::Declared(schema) = columns else { return "whole records".into() };
    let column = |field: &dataflow::record::Field| {
        let kind = match field.value_type {
            _ if field.time => "time",
            ValueType::Text => "text",
            ValueType::Bytes => "bytes",
            ValueType::Int => "int",
            ValueType::Float => "float",
            ValueType::Boolean => "boolean",
            ValueType::Scalar => "any",
        };
        format!("{} {kind}", field.pointer)
    };
    schema.fields.iter().map(column).collect::<Vec<_>>().join(", ")
}

fn explain_sink(definition: &Definition, sink: &Sink) -> String {
    let target = match &sink.connector {
        SinkConnector::Stdout(_) => "standard output".into(),
        SinkConnector::File(file) => format!("files in {}", file.path.display()),
        SinkConnector::Sqlite(sqlite) => {
            let mode = match sqlite.mode {
                Mode::Append => "append".into(),
                Mode::Upsert => format!("upsert by {}", sqlite.key.join(", ")),
                Mode::Add => format!("add by {}", sqlite.key.join(", ")),
            };
            format!("table {} of {}, {mode}", sqlite.table, sqlite.path.display())
        }
    };
    let promise = match (sink.delivery, sink.waits_for_checkpoint()) {
        (Delivery::ExactlyOnce, _) => "exactly once, visible with its checkpoint",
        (Delivery::AtLeastOnce, true) => {
            "at least once, visible with its checkpoint: after a crash some rows come again"
        }
        (Delivery::AtLeastOnce, false) => "at least once: after a crash some rows come again",
    };
    let budget = budget(definition, sink);
    format!("\nsink {}: reads {}\n  {target}\n  {promise}\n  {budget}\n", sink.name, written(&sink.input))
}

/// How old a result may be when it is seen: the largest sum over the paths that lead to the sink.
fn budget(definition: &Definition, sink: &Sink) -> String {
    let mut parts: Vec<(&str, i64)> = vec![];
    let sources: Vec<&Source> = match definition.operators.iter().find(|operator| operator.name == sink.input.node) {
        Some(operator) => {
            let window = window_ms(definition, operator, sink.input.output.is_some());
            parts.extend((window > 0).then_some(("window", window)));
            sources_of(definition, operator)
        }
        None => vec![],
    };
    let waits_for_time = !parts.is_empty();
    if waits_for_time && sources.iter().any(|source| source.watermark.emit == Emit::AtEnd) {
        return "results come at the end of the input".into();
    }
    if waits_for_time {
        let bound = sources.iter().filter_map(|source| source.watermark.bound_ms).max().unwrap_or(0);
        parts.push(("bound", bound));
    }
    let mut counted = None;
    if sink.waits_for_checkpoint() {
        match definition.checkpoint.every {
            Every::Time(time) => parts.push(("checkpoint", i64::try_from(time.as_millis()).unwrap_or(i64::MAX))),
            Every::Records(records) => counted = Some(records),
        }
    }
    if parts.is_empty() {
        return match counted {
            Some(records) => format!("a result is seen with the next checkpoint, {records} records later at most"),
            None => "a result is seen as soon as it comes".into(),
        };
    }
    let counted = counted.map(|records| format!(" and {records} records")).unwrap_or_default();
    let sum: i64 = parts.iter().map(|(_, ms)| ms).sum();
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, ms)| *ms > 0)
        .map(|(name, ms)| format!("{name} {}", DurationText(*ms)))
        .chain(["sink".to_string()])
        .collect();
    format!("a result is up to {} old{counted} when it is seen: {}", DurationText(sum), parts.join(" + "))
}

/// The windows on the longest way from a source to `operator`, its own included unless a side output is read.
fn window_ms(definition: &Definition, operator: &Operator, side_output: bool) -> i64 {
    let own = match &operator.logic {
        Logic::Window(window) if !side_output => {
            let WindowKind::Tumbling { size_ms, .. } = window.kind;
            size_ms
        }
        _ => 0,
    };
    let before = operator.inputs.iter().filter_map(|input| {
        let from = definition.operators.iter().find(|operator| operator.name == input.from.node)?;
        Some(window_ms(definition, from, input.from.output.is_some()))
    });
    own + before.max().unwrap_or(0)
}
