//! From a definition's settings to the connectors that do the work: one arm for each.

use super::definition::{self, Definition, SinkConnector, SourceConnector};
use crate::env::Clock;
use crate::sink::{self, SinkFactory, encode};
use crate::source::generator::{Factory, Kind, Settings};
use crate::source::{self, SourceFactory};
use crate::task::{Emit, Excess, SourceTimeSettings, Tolerance, WhenAllIdle};
use anyhow::Context;
use dataflow::graph::Input;
use dataflow::record::{Field, ValueType};
use std::path::PathBuf;
use std::sync::Arc;

/// A factory for each source, in the file's order.
pub(super) fn sources(definition: &Definition, clock: &Arc<dyn Clock>) -> anyhow::Result<Vec<Box<dyn SourceFactory>>> {
    let one = |source: &definition::Source| {
        make_source(source, clock).with_context(|| format!("source `{}` cannot be opened", source.name))
    };
    definition.sources.iter().map(one).collect()
}

fn make_source(source: &definition::Source, clock: &Arc<dyn Clock>) -> anyhow::Result<Box<dyn SourceFactory>> {
    match &source.connector {
        SourceConnector::File(file) => {
            Ok(Box::new(source::file::Factory::new(&source.name, file_settings(source, file))?))
        }
        SourceConnector::Generator(generator) => Ok(Box::new(make_generator(source, generator, clock.clone())?)),
    }
}

fn file_settings(source: &definition::Source, file: &definition::FileSource) -> source::file::Settings {
    use source::format::Format;
    source::file::Settings {
        path: file.path.to_string_lossy().into_owned(),
        folder: file.folder.clone(),
        format: match file.format {
            definition::FileFormat::Json => Format::Json,
            definition::FileFormat::Csv => Format::Csv,
            definition::FileFormat::Lines => Format::Lines,
        },
        follow: file.follow,
        max_record_bytes: usize::try_from(file.max_record_bytes).unwrap_or(usize::MAX),
        event_time: source.event_time_field().map(time_field),
        arrival: source.arrival.as_ref().map(time_field),
        on_bad_record: match source.on_bad_record {
            definition::OnBadRecord::DeadLetter => source::file::OnBadRecord::DeadLetter,
            definition::OnBadRecord::Fail => source::file::OnBadRecord::Fail,
        },
    }
}

fn time_field(time: &definition::TimeField) -> source::format::TimeField {
    use definition::TimeFormat as Given;
    use source::format::TimeFormat;
    source::format::TimeField {
        field: time.field.clone(),
        format: match time.format {
            Given::UnixS => TimeFormat::UnixS,
            Given::UnixMs => TimeFormat::UnixMs,
            Given::UnixUs => TimeFormat::UnixUs,
            Given::UnixNs => TimeFormat::UnixNs,
            Given::Rfc3339 => TimeFormat::Rfc3339,
        },
    }
}

/// How a source's time goes.
pub(super) fn source_time(source: &definition::Source) -> SourceTimeSettings {
    let watermark = &source.watermark;
    SourceTimeSettings {
        by_clock: source.event_time == Some(definition::EventTime::Clock),
        bound_ms: watermark.bound_ms.unwrap_or(0),
        emit: match watermark.emit {
            definition::Emit::PerRecord => Emit::PerRecord,
            definition::Emit::Periodic(_) => Emit::Periodic,
            definition::Emit::AtEnd => Emit::AtEnd,
        },
        idle_after: watermark.idle_after,
        when_all_idle: match watermark.when_all_idle {
            definition::WhenAllIdle::Hold => WhenAllIdle::Hold,
            definition::WhenAllIdle::Advance => WhenAllIdle::Advance,
        },
        tolerance: Tolerance {
            ahead_ms: Some(source.tolerance.ahead_ms),
            behind_ms: source.tolerance.behind_ms,
            on_excess: match source.tolerance.on_excess {
                definition::OnExcess::DeadLetter => Excess::DeadLetter,
                definition::OnExcess::Replace => Excess::Replace,
                definition::OnExcess::SideOutput => Excess::SideOutput,
            },
        },
    }
}

/// What a sink reads: all columns where they are declared, the columns it names, or whole values. One that finds its rows by key is
/// keyed: a row without one is put aside on its way to it.
pub(super) fn sink_input(sink: &definition::Sink, from: (usize, usize), is_declared: bool) -> Input {
    let (columns, key, raw) = match &sink.connector {
        SinkConnector::Stdout(it) => (&it.columns, &[][..], it.format == definition::RowFormat::Raw),
        SinkConnector::File(it) => (&it.columns, &[][..], it.format == definition::RowFormat::Raw),
        SinkConnector::Sqlite(it) => (&it.columns, it.key.as_slice(), false),
    };
    let named = columns.iter().chain(key).map(|pointer| Field::new(pointer, ValueType::Scalar));
    let wants: Vec<Field> = if is_declared { vec![] } else { named.collect() };
    let whole_values = !is_declared && (columns.is_empty() || raw);
    Input { from, key: key.to_vec(), wants, whole_values, ..Input::default() }
}

fn make_generator(
    source: &definition::Source,
    given: &definition::GeneratorSource,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Factory> {
    let settings = Settings {
        kind: match given.kind {
            definition::GeneratorKind::Rides => Kind::Rides,
            definition::GeneratorKind::Pickups => Kind::Pickups,
            definition::GeneratorKind::Payments => Kind::Payments,
            definition::GeneratorKind::Regions => Kind::Regions,
        },
        seed: given.seed,
        rate: given.rate,
        records: given.records,
        partitions: given.partitions,
        keys: given.keys,
        skew: given.skew,
        start: given.start,
        step_ms: given.step_ms,
        out_of_order_ms: given.out_of_order_ms,
        stragglers: given.stragglers,
        straggle_ms: given.straggle_ms,
        duplicates: given.duplicates,
    };
    let factory = Factory::new(settings, clock)?;
    // Without an event time of its own a source goes by its arrival field, as files do.
    match source.event_time_field().or(source.arrival.as_ref()) {
        Some(time) => factory.with_event_time(&time.field),
        None => Ok(factory),
    }
}

/// The sink that dead letters go to unless the job fails on them: NDJSON files in a folder.
pub(super) fn dead_letter_sink(folder: PathBuf) -> Box<dyn SinkFactory> {
    let settings = sink::file::Settings { path: folder, ..sink::file::Settings::default() };
    Box::new(sink::file::Factory { settings })
}

/// What opens a sink.
pub(super) fn sink_factory(given: &definition::Sink) -> Box<dyn SinkFactory> {
    match &given.connector {
        SinkConnector::Stdout(it) => Box::new(sink::stdout::Factory { rows: rows(it.format, it.times, &it.columns) }),
        SinkConnector::File(it) => Box::new(sink::file::Factory {
            settings: sink::file::Settings {
                path: it.path.clone(),
                rows: rows(it.format, it.times, &it.columns),
                on_existing: None,
            },
        }),
        SinkConnector::Sqlite(it) => Box::new(sink::sqlite::Factory {
            settings: sink::sqlite::Settings {
                path: it.path.clone(),
                table: it.table.clone(),
                mode: match it.mode {
                    definition::Mode::Append => sink::sqlite::Mode::Append,
                    definition::Mode::Upsert => sink::sqlite::Mode::Upsert,
                    definition::Mode::Add => sink::sqlite::Mode::Add,
                },
                key: it.key.clone(),
                columns: it.columns.clone(),
                times: times(it.times),
                immediate: it.immediate,
                on_existing: None,
            },
        }),
    }
}

fn rows(format: definition::RowFormat, given: definition::Times, columns: &[String]) -> encode::Settings {
    let format = match format {
        definition::RowFormat::Json => encode::Format::Ndjson,
        definition::RowFormat::Csv => encode::Format::Csv,
        definition::RowFormat::Raw => encode::Format::Raw,
    };
    encode::Settings { format, times: times(given), columns: columns.to_vec() }
}

fn times(given: definition::Times) -> encode::Times {
    match given {
        definition::Times::Rfc3339 => encode::Times::Rfc3339,
        definition::Times::UnixMs => encode::Times::UnixMs,
    }
}
