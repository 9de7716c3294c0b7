//! Event time: milliseconds since 1970-01-01T00:00:00Z, as everywhere in this project.

/// Event time or processing time in ms since 1970 UTC.
pub type Timestamp = i64;

/// The watermark before any record: nothing is known yet.
pub const START: Timestamp = i64::MIN;

/// The watermark after the last record: every window and timer has fired.
pub const END: Timestamp = i64::MAX;

/// Earliest timestamp taken as meant: 0002-01-01. One in the year 1 is a default value or an overflow.
pub const EARLIEST: Timestamp = -62_104_060_800_000;

/// Latest timestamp taken as meant: the end of the year 9998.
pub const LATEST: Timestamp = 253_370_764_799_999;

/// Which clock a timer or a time to live goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The records' own time, moved by watermarks.
    EventTime,
    /// The wall clock of the host, as handed in.
    ProcessingTime,
}
