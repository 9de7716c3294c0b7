//! A batch of records: timestamps, columns, and the raw bytes by reference.

use super::Column;
use crate::key::Keys;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Whether a row is new or takes back a row that was sent before, word for word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A new row.
    #[default]
    Insert,
    /// Takes a row back: counts go down by one, sums by its value.
    Retract,
}

/// The bytes of whole values: spans of a shared read buffer, so keeping them copies nothing.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    /// The read buffer.
    pub slab: Bytes,
    /// From and to of each row's value; `u32::MAX, u32::MAX` is a tombstone.
    pub spans: Vec<(u32, u32)>,
}

impl Raw {
    /// The span of a row without a value.
    pub const TOMBSTONE: (u32, u32) = (u32::MAX, u32::MAX);

    /// The value of `row`, none for a tombstone.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let (from, to) = self.spans[row];
        (self.spans[row] != Self::TOMBSTONE).then(|| &self.slab[from as usize..to as usize])
    }
}

/// Where the rows of a batch were read: a partition (a file, a topic's partition) and each row's place in it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The partition's name.
    pub partition: Arc<str>,
    /// Each row's place: the line of a file from 1, the offset of a topic.
    pub places: Vec<u64>,
}

/// Header `i` belongs to `rows[i]`.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// Row of each header, ascending.
    pub rows: Vec<u32>,
    /// Names.
    pub names: super::Blobs,
    /// Values.
    pub values: super::Blobs,
}

/// A field that was there but could not be taken: why a column lacks a value that its reader may require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Row of the batch.
    pub row: u32,
    /// Column of the batch.
    pub column: u16,
    /// What was found instead, such as `an object`.
    pub found: &'static str,
}

/// Many records in one allocation. Every list that is not empty or none has one entry per row.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Event times, ms since 1970 UTC.
    pub timestamps: Vec<i64>,
    /// Empty where all rows are inserts.
    pub changes: Vec<Change>,
    /// The edge's columns, in the order of its schema.
    pub columns: Vec<Column>,
    /// Whole values, where some later node wants them or dead letters might.
    pub raw: Option<Raw>,
    /// Headers, where the source has them.
    pub headers: Option<Headers>,
    /// The rows' keys, once the batch has passed an exchange by key.
    pub keys: Option<Keys>,
    /// Where the rows were read, while they are still records of a source.
    pub origin: Option<Origin>,
    /// Fields that could not be taken; normally empty.
    pub faults: Vec<Fault>,
}

impl Batch {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.timestamps.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    /// Whether `row` is new or taken back.
    pub fn change(&self, row: usize) -> Change {
        self.changes.get(row).copied().unwrap_or_default()
    }

    /// The rows `rows`, ascending, as a batch of their own.
    pub fn select(&self, rows: &[u32]) -> Self {
        let origin = self.origin.as_ref().map(|origin| Origin {
            partition: origin.partition.clone(),
            places: rows.iter().map(|&row| origin.places[row as usize]).collect(),
        });
        Self {
            timestamps: rows.iter().map(|&row| self.timestamps[row as usize]).collect(),
            changes: if self.changes.is_empty() {
                vec![]
            } else {
                rows.iter().map(|&row| self.changes[row as usize]).collect()
            },
            columns: self.columns.iter().map(|column| column.select(rows)).collect(),
            raw: self.raw.as_ref().map(|raw| Raw {
                slab: raw.slab.clone(),
                spans: rows.iter().map(|&row| raw.spans[row as usize]).collect(),
            }),
            headers: self.headers.as_ref().map(|headers| headers.select(rows)),
            keys: self.keys.as_ref().map(|keys| keys.select(rows)),
            origin,
            faults: self.faults.iter().filter_map(|fault| fault.moved(rows)).collect(),
        }
    }

    /// Rows `from..to` as a batch of their own.
    pub fn slice(&self, from: usize, to: usize) -> Self {
        self.select(&(from as u32..to as u32).collect::<Vec<_>>())
    }

    /// Bytes it holds, for bounds on channels; of a shared read buffer only the rows' own spans count.
    pub fn byte_size(&self) -> usize {
        let raw = self.raw.as_ref().map_or(0, |raw| {
            raw.spans.len() * 8 + raw.spans.iter().map(|&(from, to)| (to - from) as usize).sum::<usize>()
        });
        let headers = self.headers.as_ref().map_or(0, |headers| headers.names.bytes.len() + headers.values.bytes.len());
        self.len() * 8
            + self.changes.len()
            + self.columns.iter().map(Column::byte_size).sum::<usize>()
            + raw
            + headers
            + self.keys.as_ref().map_or(0, Keys::byte_size)
            + self.origin.as_ref().map_or(0, |origin| origin.places.len() * 8)
    }
}

impl Headers {
    fn select(&self, rows: &[u32]) -> Self {
        let mut chosen = Self::default();
        for (at, &row) in rows.iter().enumerate() {
            let first = self.rows.partition_point(|&owner| owner < row);
            for header in (first..self.rows.len()).take_while(|&header| self.rows[header] == row) {
                chosen.rows.push(at as u32);
                chosen.names.push(self.names.get(header));
                chosen.values.push(self.values.get(header));
            }
        }
        chosen
    }
}

impl Fault {
    fn moved(&self, rows: &[u32]) -> Option<Self> {
        rows.binary_search(&self.row).ok().map(|row| Self { row: row as u32, ..*self })
    }
}
