//! Reads a sink of the job file.

use super::super::keys::{self, Group};
use super::super::problem::Problem;
use super::super::section::{Reader, Section};
use super::super::tree::{Key, Node};
use super::super::{Delivery, FileSink, Mode, Pointer, RowFormat, Sink, SinkConnector, SqliteSink, StdoutSink, Times};
use super::source::connector;
use dataflow::checkpoint::CheckpointMode;

#[derive(Clone, Copy)]
enum Connector {
    Stdout,
    File,
    Sqlite,
}

pub(super) fn sink(reader: &Reader<'_>, key: &Key, node: &Node, mode: CheckpointMode) -> Sink {
    let mut section = Section::new(reader, format!("sinks.{}", key.name), node, &[&keys::SINK]);
    let choices = [("stdout", Connector::Stdout), ("file", Connector::File), ("sqlite", Connector::Sqlite)];
    let connector = connector(&section, &choices, &["kafka", "postgres", "http", "redis"]);
    let (own, other): (Option<&'static Group>, &[&'static Group]) = match connector {
        Some(Connector::Stdout) => (Some(&keys::STDOUT_SINK), &[&keys::FILE_SINK, &keys::SQLITE_SINK]),
        Some(Connector::File) => (Some(&keys::FILE_SINK), &[&keys::SQLITE_SINK]),
        Some(Connector::Sqlite) => (Some(&keys::SQLITE_SINK), &[&keys::FILE_SINK]),
        None => (None, &[]),
    };
    if let Some(own) = own {
        section.also(own);
        section.refuse_unknown(other);
    }
    let times = section.choice("times", &[("rfc3339", Times::Rfc3339), ("unix_ms", Times::UnixMs)]);
    let columns = section.columns("columns");
    let connector = match connector {
        Some(Connector::Sqlite) => SinkConnector::Sqlite(sqlite(&section, times, columns)),
        Some(Connector::File) => {
            SinkConnector::File(FileSink { path: section.path("path"), format: format(&section), times, columns })
        }
        Some(Connector::Stdout) => SinkConnector::Stdout(StdoutSink { format: format(&section), times, columns }),
        None => SinkConnector::Stdout(StdoutSink { format: RowFormat::Json, times, columns }),
    };
    Sink {
        name: key.name.clone(),
        place: key.place,
        input: section.reference("input"),
        delivery: delivery(&section, &connector, mode),
        connector,
        force: section.boolean("force"),
    }
}

fn format(section: &Section<'_>) -> RowFormat {
    section.choice("format", &[("json", RowFormat::Json), ("csv", RowFormat::Csv), ("raw", RowFormat::Raw)])
}

fn sqlite(section: &Section<'_>, times: Times, columns: Vec<Pointer>) -> SqliteSink {
    let modes = [("append", Mode::Append), ("upsert", Mode::Upsert), ("add", Mode::Add)];
    let mode = section.optional_choice("mode", &modes);
    let key = section.columns("key");
    if matches!(mode, Some(Mode::Upsert | Mode::Add)) && key.is_empty() {
        let problem = Problem::at(section.place_of("mode"), "a sink that changes rows needs the key that names them");
        section.reader.problem(problem.hint("e.g. `key: [key, window_start]`"));
    }
    if mode == Some(Mode::Append) && !key.is_empty() {
        let message = "`key` does not fit `mode: append`, which never changes a row";
        section.reader.problem(Problem::at(section.place_of("key"), message).hint("did you mean `mode: upsert`?"));
    }
    SqliteSink {
        path: section.path("path"),
        table: section.text("table"),
        mode: mode.unwrap_or(Mode::Upsert),
        key,
        columns,
        times,
        immediate: section.boolean("immediate"),
    }
}

/// What the settings give; a file that asks for the other promise is refused.
fn delivery(section: &Section<'_>, connector: &SinkConnector, mode: CheckpointMode) -> Delivery {
    let (given, hint) = match connector {
        _ if mode == CheckpointMode::AtLeastOnce => {
            (Delivery::AtLeastOnce, "leave `checkpoint: { mode: at_least_once }` out: state and output are exact then")
        }
        SinkConnector::Stdout(_) => (Delivery::AtLeastOnce, "stdout cannot take a line back: use `file` or `sqlite`"),
        SinkConnector::File(_) => (Delivery::ExactlyOnce, "a file sink is exactly once: leave `delivery` out"),
        SinkConnector::Sqlite(sink) if sink.immediate => {
            (Delivery::AtLeastOnce, "leave `immediate` out: rows come with their checkpoint then")
        }
        SinkConnector::Sqlite(_) => (Delivery::ExactlyOnce, "set `immediate: true` to write rows at once"),
    };
    let choices = [("exactly_once", Delivery::ExactlyOnce), ("at_least_once", Delivery::AtLeastOnce)];
    let asked = section.optional_choice("delivery", &choices);
    if asked.is_some_and(|asked| asked != given) {
        let gives = if given == Delivery::ExactlyOnce { "exactly once" } else { "at least once" };
        let message = format!("the settings of this sink give {gives}");
        section.reader.problem(Problem::at(section.place_of("delivery"), message).hint(hint));
    }
    given
}
