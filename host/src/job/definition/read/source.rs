//! Reads a source of the job file.

use super::super::keys::{self, Group};
use super::super::problem::{Problem, did_you_mean};
use super::super::section::{Reader, Section, positive_ms, text};
use super::super::tree::{Key, Node};
use super::super::{
    Emit, EventTime, FileFormat, FileSource, GeneratorKind, GeneratorSource, OnBadRecord, OnExcess, Source,
    SourceConnector, TimeField, TimeFormat, Tolerance, Watermark, WhenAllIdle, units,
};
use std::path::Path;
use std::time::Duration;

/// In the place of a field: a record's time is the clock's.
const PROCESSING_TIME: &str = "processing_time";

#[derive(Clone, Copy)]
enum Connector {
    File,
    Generator,
}

pub(super) fn source(reader: &Reader<'_>, key: &Key, node: &Node) -> Source {
    let mut section = Section::new(reader, format!("sources.{}", key.name), node, &[&keys::SOURCE]);
    let choices = [("file", Connector::File), ("generator", Connector::Generator)];
    let connector = connector(&section, &choices, &["kafka", "http", "postgres"]);
    let (own, other): (Option<&'static Group>, &[&'static Group]) = match connector {
        Some(Connector::File) => (Some(&keys::FILE_SOURCE), &[&keys::GENERATOR_SOURCE]),
        Some(Connector::Generator) => (Some(&keys::GENERATOR_SOURCE), &[&keys::FILE_SOURCE]),
        None => (None, &[]),
    };
    if let Some(own) = own {
        section.also(own);
        section.refuse_unknown(other);
    }
    Source {
        name: key.name.clone(),
        place: key.place,
        connector: match connector {
            Some(Connector::Generator) => SourceConnector::Generator(generator(&section)),
            Some(Connector::File) => SourceConnector::File(file(&section)),
            None => SourceConnector::File(FileSource {
                path: reader.folder.to_path_buf(),
                folder: None,
                format: FileFormat::Json,
                follow: false,
                max_record_bytes: 1,
            }),
        },
        event_time: event_time(&section),
        arrival: time_field(&section, "arrival"),
        watermark: watermark(&section.section("watermark", &keys::WATERMARK)),
        tolerance: tolerance(&section.section("tolerance", &keys::TOLERANCE)),
        on_bad_record: section
            .choice("on_bad_record", &[("dead_letter", OnBadRecord::DeadLetter), ("fail", OnBadRecord::Fail)]),
        parallelism: section.optional_number("parallelism", 1..=1024).map(|number| number as usize),
    }
}

/// The connector, or none and a problem that names what there is.
pub(super) fn connector<T: Copy>(section: &Section<'_>, choices: &[(&str, T)], later: &[&str]) -> Option<T> {
    if let Some(Ok(name)) = section.node("connector").map(text)
        && later.contains(&name.as_str())
    {
        let there = super::super::section::one_of(choices.iter().map(|(name, _)| *name));
        let message = format!("the connector `{name}` is not in this version");
        section.reader.problem(Problem::at(section.place_of("connector"), message).hint(format!("there is {there}")));
        return None;
    }
    section.optional_choice("connector", choices)
}

fn file(section: &Section<'_>) -> FileSource {
    let is_relative =
        section.node("path").and_then(|node| text(node).ok()).is_some_and(|path| Path::new(&path).is_relative());
    FileSource {
        path: section.path("path"),
        folder: is_relative.then(|| section.reader.folder.to_path_buf()),
        format: section
            .choice("format", &[("json", FileFormat::Json), ("csv", FileFormat::Csv), ("lines", FileFormat::Lines)]),
        follow: section.boolean("follow"),
        max_record_bytes: section.size("max_record_bytes"),
    }
}

fn generator(section: &Section<'_>) -> GeneratorSource {
    let event_rate = |node: &Node| {
        rate(node)?.ok_or_else(|| {
            "records lie at times, so many per second, e.g. `100/s`: these cannot be unlimited".to_string()
        })
    };
    GeneratorSource {
        kind: section.choice(
            "kind",
            &[
                ("rides", GeneratorKind::Rides),
                ("pickups", GeneratorKind::Pickups),
                ("payments", GeneratorKind::Payments),
                ("regions", GeneratorKind::Regions),
            ],
        ),
        seed: section.number("seed", 0..=u64::MAX),
        rate: section.optional("rate", rate).flatten(),
        records: section.optional_number("records", 0..=u64::MAX),
        partitions: section.number("partitions", 1..=10_000) as usize,
        keys: section.number("keys", 1..=u64::MAX),
        skew: section.float("skew", 0.0..=10.0),
        start: section.optional("start", |node| units::time_ms(&text(node)?)).unwrap_or_default(),
        step_ms: 1_000.0 / section.optional("event_rate", event_rate).unwrap_or(1_000.0),
        out_of_order_ms: section.span_ms("out_of_order"),
        stragglers: section.float("stragglers", 0.0..=1.0),
        straggle_ms: section.span_ms("straggle"),
        duplicates: section.float("duplicates", 0.0..=1.0),
    }
}

/// Records per second of `1000/s`; none for `unlimited`.
fn rate(node: &Node) -> Result<Option<f64>, String> {
    let text = text(node).map_err(|_| "a rate needs a unit, e.g. `1000/s`, or `unlimited`")?;
    if text == "unlimited" {
        return Ok(None);
    }
    let number = text.strip_suffix("/s").and_then(|number| number.trim().parse::<f64>().ok());
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.map(Some).ok_or_else(|| "a rate is written as records per second, e.g. `1000/s`, or `unlimited`".into())
}

fn event_time(section: &Section<'_>) -> Option<EventTime> {
    let node = section.node("event_time")?;
    match text(node).as_deref() {
        Err(_) => time_field(section, "event_time").map(EventTime::Field),
        Ok(PROCESSING_TIME) => Some(EventTime::Clock),
        Ok(word) => {
            let is_pointer = word.starts_with('/');
            let meant = did_you_mean(word, [PROCESSING_TIME]);
            let problem =
                Problem::at(node.place, format!("`event_time: {word}` says neither a field nor `{PROCESSING_TIME}`"));
            section.reader.problem(problem.hint(match meant {
                Some(meant) => meant,
                None => format!(
                    "e.g. `event_time: {{ field: {}, format: rfc3339 }}`",
                    if is_pointer { word } else { "/time" }
                ),
            }));
            let field = TimeField { field: word.into(), format: TimeFormat::Rfc3339 };
            Some(if is_pointer { EventTime::Field(field) } else { EventTime::Clock })
        }
    }
}

fn time_field(section: &Section<'_>, name: &str) -> Option<TimeField> {
    section.node(name)?;
    let section = section.section(name, &keys::TIME_FIELD);
    Some(TimeField {
        field: section.pointer("field"),
        format: section.choice(
            "format",
            &[
                ("unix_s", TimeFormat::UnixS),
                ("unix_ms", TimeFormat::UnixMs),
                ("unix_us", TimeFormat::UnixUs),
                ("unix_ns", TimeFormat::UnixNs),
                ("rfc3339", TimeFormat::Rfc3339),
            ],
        ),
    })
}

fn watermark(section: &Section<'_>) -> Watermark {
    let every = section.duration("every");
    let emits = [("per_record", Emit::PerRecord), ("periodic", Emit::Periodic(every)), ("at_end", Emit::AtEnd)];
    let emit = section.choice("emit", &emits);
    if section.has("every") && !matches!(emit, Emit::Periodic(_)) {
        let problem = Problem::at(section.place_of("every"), "`every` only fits `emit: periodic`");
        section.reader.problem(problem.hint("leave one of the two out"));
    }
    Watermark {
        bound_ms: section.optional_span_ms("bound").or(section.has("bound").then_some(0)),
        emit,
        idle_after: section.optional("idle_after", duration_or_never).flatten(),
        when_all_idle: section
            .choice("when_all_idle", &[("hold", WhenAllIdle::Hold), ("advance", WhenAllIdle::Advance)]),
        max_drift_ms: section.optional_span_ms("max_drift"),
    }
}

fn duration_or_never(node: &Node) -> Result<Option<Duration>, String> {
    if text(node).is_ok_and(|text| text == "never") {
        return Ok(None);
    }
    Ok(Some(Duration::from_millis(positive_ms(node)?.unsigned_abs())))
}

fn tolerance(section: &Section<'_>) -> Tolerance {
    Tolerance {
        ahead_ms: section.span_ms("ahead"),
        behind_ms: section.optional_span_ms("behind"),
        on_excess: section.choice(
            "on_excess",
            &[
                ("dead_letter", OnExcess::DeadLetter),
                ("replace", OnExcess::Replace),
                ("side_output", OnExcess::SideOutput),
            ],
        ),
    }
}
