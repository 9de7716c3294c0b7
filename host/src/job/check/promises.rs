//! Delivery: what a window sends and what a sink does with it must fit, unless the user insists.

use crate::job::definition::problem::Problem;
use crate::job::definition::{Definition, Logic, Mode, Sink, SinkConnector, Window};
use dataflow::checkpoint::CheckpointMode;

pub(super) fn check(definition: &Definition, problems: &mut Vec<Problem>) {
    for sink in &definition.sinks {
        if !sink.force {
            repeated_sums(definition, sink, problems);
            repeated_panes(definition, sink, problems);
        }
    }
    shared_targets(definition, problems);
}

fn repeated_sums(definition: &Definition, sink: &Sink, problems: &mut Vec<Problem>) {
    let loose = definition.checkpoint.mode == CheckpointMode::AtLeastOnce;
    if let SinkConnector::Sqlite(sqlite) = &sink.connector
        && sqlite.mode == Mode::Add
        && (sqlite.immediate || loose)
    {
        let message = format!("the sink `{}` would add rows again after a crash", sink.name);
        let why = if loose { "checkpoint: { mode: at_least_once }" } else { "immediate" };
        let hint = format!("leave `{why}` out, or use `mode: upsert`; `force: true` does it all the same");
        problems.push(Problem::at(sink.place, message).hint(hint));
    }
}

/// A window with allowed lateness sends a corrected pane for each late record; a sink that appends or adds keeps both.
fn repeated_panes(definition: &Definition, sink: &Sink, problems: &mut Vec<Problem>) {
    let does = match &sink.connector {
        SinkConnector::Stdout(_) => return, // for eyes: both panes are worth seeing
        SinkConnector::File(_) => "appends",
        SinkConnector::Sqlite(sqlite) => match sqlite.mode {
            Mode::Append => "appends",
            Mode::Add => "adds",
            Mode::Upsert => return,
        },
    };
    if let Some(window) = window_of(definition, sink)
        && window.allowed_lateness_ms > 0
    {
        let message = format!(
            "the window `{}` sends a whole new pane for a late record, and the sink `{}` {does} it to the one before",
            sink.input.node, sink.name
        );
        let hint =
            "use `mode: upsert` with the window's key, or no `allowed_lateness`; `force: true` does it all the same";
        problems.push(Problem::at(sink.place, message).hint(hint));
    }
}

/// The window whose panes the sink gets.
fn window_of<'a>(definition: &'a Definition, sink: &Sink) -> Option<&'a Window> {
    let operator = definition.operators.iter().find(|operator| operator.name == sink.input.node)?;
    match &operator.logic {
        Logic::Window(window) if sink.input.output.is_none() => Some(window),
        _ => None,
    }
}

fn shared_targets(definition: &Definition, problems: &mut Vec<Problem>) {
    let target = |sink: &Sink| match &sink.connector {
        SinkConnector::Stdout(_) => None,
        SinkConnector::File(file) => Some((file.path.clone(), String::new())),
        SinkConnector::Sqlite(sqlite) => Some((sqlite.path.clone(), sqlite.table.clone())),
    };
    for (index, sink) in definition.sinks.iter().enumerate() {
        let earlier =
            definition.sinks[..index].iter().find(|earlier| target(sink).is_some() && target(earlier) == target(sink));
        if let Some(earlier) = earlier {
            let message = format!("the sinks `{}` and `{}` write to the same place", earlier.name, sink.name);
            problems.push(Problem::at(sink.place, message).hint("give each a place of its own"));
        }
    }
}
