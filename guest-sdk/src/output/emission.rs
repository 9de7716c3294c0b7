//! A row to send, with what differs from the row it came from.

use crate::Timestamp;
use crate::bindings::types::Change;

/// A row to send with another timestamp, as a retraction, or with headers: `at.emit(Emission::of(alert).at(end).retract())`.
/// A plain row becomes one by itself.
pub struct Emission<R> {
    pub(crate) row: R,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) change: Change,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl<R> Emission<R> {
    /// The row as an insert, at the timestamp of the row it came from.
    #[inline]
    pub fn of(row: R) -> Self {
        Self { row, timestamp: None, change: Change::Insert, headers: Vec::new() }
    }

    /// At another timestamp. One below the watermark is late for operators behind.
    #[must_use]
    pub fn at(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Takes back a row sent before: its columns must be the same, word for word.
    #[must_use]
    pub fn retract(self) -> Self {
        self.change(Change::Retract)
    }

    /// Insert or retract; `.change(at.change())` does as the row it came from.
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    /// With a header. May be given several times.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl<R> From<R> for Emission<R> {
    #[inline]
    fn from(row: R) -> Self {
        Self::of(row)
    }
}
