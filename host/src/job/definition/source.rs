//! A source as the job file has it: where records come from, how their time is read, how far the watermark trails it.

use super::{Place, Pointer};
use dataflow::time::Timestamp;
use std::path::PathBuf;
use std::time::Duration;

/// One entry of `sources`.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name in the job.
    pub name: String,
    /// Where it is written.
    pub place: Place,
    /// What reads the records.
    pub connector: SourceConnector,
    /// What a record's event time is; none: records have no event time (their timestamp is the arrival time if there is
    /// one), and nothing downstream may need it.
    pub event_time: Option<EventTime>,
    /// Where the time of arrival stands; none: unknown.
    pub arrival: Option<TimeField>,
    /// How the watermark follows the timestamps.
    pub watermark: Watermark,
    /// How far a timestamp may be from the arrival time.
    pub tolerance: Tolerance,
    /// What happens with a record that cannot be read.
    pub on_bad_record: OnBadRecord,
    /// Tasks; none: as the job says.
    pub parallelism: Option<usize>,
}

/// What a record's event time is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventTime {
    /// What stands in this field.
    Field(TimeField),
    /// What the clock says when the record is read.
    Clock,
}

impl Source {
    /// The field that the event time is taken from, if it is one.
    pub fn event_time_field(&self) -> Option<&TimeField> {
        match &self.event_time {
            Some(EventTime::Field(field)) => Some(field),
            Some(EventTime::Clock) | None => None,
        }
    }
}

/// What reads the records, with its own settings.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceConnector {
    /// Files.
    File(FileSource),
    /// Made-up records.
    Generator(GeneratorSource),
}

/// Settings of the file source.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSource {
    /// A file, a pattern, or a folder; absolute, or resolved against the job file's folder.
    pub path: PathBuf,
    /// The job file's folder, which partitions are named from, if the path was written relative to it.
    pub folder: Option<PathBuf>,
    /// How records lie in it.
    pub format: FileFormat,
    /// Go on reading what is appended and what appears.
    pub follow: bool,
    /// A longer record is put aside, in bytes.
    pub max_record_bytes: u64,
}

/// How records lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON value per line.
    Json,
    /// CSV with a header line.
    Csv,
    /// Plain lines: the whole line is the value.
    Lines,
}

/// Settings of the generator: the same settings give the same records.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorSource {
    /// What records it makes.
    pub kind: GeneratorKind,
    /// Seed of all chance.
    pub seed: u64,
    /// Records per second; none: as fast as they are taken.
    pub rate: Option<f64>,
    /// How many records in all; none: without end.
    pub records: Option<u64>,
    /// Partitions, each with an order of its own.
    pub partitions: usize,
    /// Distinct keys (cities, cards).
    pub keys: u64,
    /// Exponent of the keys' Zipf distribution; 0: all equally likely.
    pub skew: f64,
    /// Event time of the first record.
    pub start: Timestamp,
    /// Event time that passes from one record to the next, ms; may be less than one.
    pub step_ms: f64,
    /// Timestamps are shuffled by up to this much, ms.
    pub out_of_order_ms: i64,
    /// Share of records that come much later, 0 to 1.
    pub stragglers: f64,
    /// How much later they come at most, ms.
    pub straggle_ms: i64,
    /// Share of records that come twice, 0 to 1.
    pub duplicates: f64,
}

/// What records the generator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeneratorKind {
    /// Ride requests: id, city, requested_at, fare.
    Rides,
    /// Pickups of those rides.
    Pickups,
    /// Card payments.
    Payments,
    /// A changelog of which region a city belongs to.
    Regions,
}

/// Where a time stands in a record and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeField {
    /// Where.
    pub field: Pointer,
    /// How.
    pub format: TimeFormat,
}

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since 1970 UTC, fractions allowed.
    UnixS,
    /// Milliseconds since 1970 UTC.
    UnixMs,
    /// Microseconds since 1970 UTC.
    UnixUs,
    /// Nanoseconds since 1970 UTC.
    UnixNs,
    /// RFC 3339 text with an offset.
    Rfc3339,
}

/// How the watermark follows the timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// How far it trails the largest timestamp, ms; none is refused where event time is needed, unless `emit` is `at_end`.
    pub bound_ms: Option<i64>,
    /// When it is sent.
    pub emit: Emit,
    /// A partition that had nothing for so long leaves the minimum; none: never.
    pub idle_after: Option<Duration>,
    /// What it does when all inputs are idle.
    pub when_all_idle: WhenAllIdle,
    /// A partition further ahead of the slowest is paused, ms; none: never.
    pub max_drift_ms: Option<i64>,
}

/// When a watermark is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// After every record, before the next is judged.
    PerRecord,
    /// So often in processing time, and at the ends of batches.
    Periodic(Duration),
    /// Once, at the end of a bounded input: nothing is late.
    AtEnd,
}

/// What the watermark does when all inputs are idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenAllIdle {
    /// It stays.
    Hold,
    /// It follows the wall clock.
    Advance,
}

/// How far a timestamp may be from the arrival time. Nothing is judged where the arrival time is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tolerance {
    /// This far ahead of arrival, ms.
    pub ahead_ms: i64,
    /// This far behind arrival, ms; none: any.
    pub behind_ms: Option<i64>,
    /// What happens to a record beyond.
    pub on_excess: OnExcess,
}

/// What happens to a record whose timestamp is out of tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExcess {
    /// It is put aside with the reason.
    DeadLetter,
    /// The arrival time replaces its timestamp.
    Replace,
    /// It goes to the source's output `out_of_tolerance`.
    SideOutput,
}

/// What happens with a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadRecord {
    /// It is put aside with the reason.
    DeadLetter,
    /// The job fails.
    Fail,
}
