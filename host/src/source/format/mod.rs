//! Turns the records of a read buffer into typed columns, event times and dead letters. The bytes come framed from a
//! connector; each record is looked at once, and what nobody asked for is validated and passed over, never built.

mod csv;
mod json;
mod json_layout;
mod json_scan;
mod lines;
mod rows;
mod time;

use super::Projection;
use crate::dead_letter::DeadLetter;
use anyhow::ensure;
use bytes::Bytes;
use dataflow::record::Batch;
use dataflow::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use json::fields_of_json;
pub use time::{TimeField, TimeFormat};

/// How the records of a source are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON value per line. A member that comes twice: the last one counts.
    Json,
    /// RFC 4180 with a header. The pointer `/name` is the field under that header, `/a/b` the one under `a_b`, as the
    /// flat sinks write them. Of two headers with the same name the last counts.
    Csv,
    /// One text per line: the empty pointer.
    Lines,
}

/// What a decoder must know beside the projection.
#[derive(Debug, Clone)]
pub struct DecoderSettings {
    /// How records are written.
    pub format: Format,
    /// Where the event time stands; without it the arrival time is the event time, and without either it is 0.
    pub event_time: Option<TimeField>,
    /// Where the arrival time stands.
    pub arrival: Option<TimeField>,
}

/// Where a record lies in the read buffer, without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub from: u32,
    /// Behind the last byte.
    pub to: u32,
    /// The line it begins on, from 1.
    pub line: u64,
}

/// What came out of some records.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The readable ones: columns as the projection asks, event times in `timestamps`, bytes in `raw`; no origin yet.
    pub batch: Batch,
    /// Each row's arrival time; empty where the settings name no field.
    pub arrivals: Vec<Timestamp>,
    /// Each row's line.
    pub places: Vec<u64>,
    /// The unreadable ones, without node and partition.
    pub dead: Vec<DeadLetter>,
}

/// Decodes the records of one partition.
///
/// Contract:
/// - Every record MUST become a row or a dead letter, except a header.
/// - `decode` MUST give the same answer for the same records however they are cut into calls.
pub trait Decoder: Send {
    /// Whether the next record is taken as the header, which is the first of the partition wherever reading goes on.
    fn wants_header(&self) -> bool;

    /// Decodes `records`, consecutive in `slab`.
    ///
    /// # Errors
    /// The header cannot be read, so nothing of the partition can.
    fn decode(&mut self, slab: &Bytes, records: &[Span]) -> anyhow::Result<Decoded>;
}

impl DecoderSettings {
    /// Finds what can be found before anything is read.
    ///
    /// # Errors
    /// A field is no pointer.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, time) in [("event_time", &self.event_time), ("arrival", &self.arrival)] {
            let Some(TimeField { field, .. }) = time else { continue };
            ensure!(
                field.is_empty() || field.starts_with('/'),
                "`{name}.field` is `{field}`, not a JSON pointer: write `/{field}`"
            );
        }
        Ok(())
    }

    /// A decoder for one partition.
    pub fn decoder(&self, projection: &Projection) -> Box<dyn Decoder> {
        let plan = rows::Plan::new(self, projection);
        match self.format {
            Format::Json => Box::new(json::Json::new(plan)),
            Format::Csv => Box::new(csv::Csv::new(plan, projection.whole_values)),
            Format::Lines => Box::new(lines::Lines::new(plan)),
        }
    }
}

/// The segments of a JSON pointer, `~1` and `~0` undone. The empty pointer has none.
fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests;
