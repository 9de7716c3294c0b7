//! The rows of one output in the running call, as they will cross.

use super::{Emission, Output};
use crate::Timestamp;
use crate::bindings::types::{self, Change, Headers};
use crate::input::{no_blobs, push_blob};
use crate::row::Facts;

/// The rows of one output in the running call.
pub(crate) struct OutputBuffer<O: Output> {
    passed: Vec<u32>,
    origins: Vec<u32>,
    /// None while every row keeps the timestamp of its origin.
    timestamps: Option<Vec<Timestamp>>,
    /// Empty while all rows are inserts.
    changes: Vec<Change>,
    headers: Option<Headers>,
    columns: O::Columns,
}

impl<O: Output> OutputBuffer<O> {
    pub(crate) fn new() -> Self {
        Self {
            passed: Vec::new(),
            origins: Vec::new(),
            timestamps: None,
            changes: Vec::new(),
            headers: None,
            columns: O::Columns::default(),
        }
    }

    #[inline]
    pub(crate) fn pass(&mut self, row: u32) {
        self.passed.push(row);
    }

    #[inline]
    pub(crate) fn emit(&mut self, facts: &Facts, row: u32, emission: Emission<O::Row<'_>>) {
        let Emission { row: values, timestamp, change, headers } = emission;
        if timestamp.is_some() || self.timestamps.is_some() {
            self.stamp(facts, row, timestamp);
        }
        if change == Change::Retract || !self.changes.is_empty() {
            self.changes.resize(self.origins.len(), Change::Insert);
            self.changes.push(change);
        }
        if !headers.is_empty() {
            self.head(headers);
        }
        self.origins.push(row);
        O::append(values, &mut self.columns);
    }

    #[cold]
    fn stamp(&mut self, facts: &Facts, row: u32, timestamp: Option<Timestamp>) {
        let of_row = |row: &u32| facts.timestamps[*row as usize];
        let timestamps = self.timestamps.get_or_insert_with(|| self.origins.iter().map(of_row).collect());
        timestamps.push(timestamp.unwrap_or_else(|| of_row(&row)));
    }

    #[cold]
    fn head(&mut self, headers: Vec<(String, Vec<u8>)>) {
        let empty = || Headers { rows: Vec::new(), name: no_blobs(), value: no_blobs() };
        let all = self.headers.get_or_insert_with(empty);
        for (name, value) in headers {
            all.rows.push(self.origins.len() as u32);
            push_blob(&mut all.name, name.as_bytes());
            push_blob(&mut all.value, &value);
        }
    }

    /// What crosses to the host; none if nothing was sent.
    pub(crate) fn finish(self, port: u32) -> Option<types::Output> {
        if self.passed.is_empty() && self.origins.is_empty() {
            return None;
        }
        Some(types::Output {
            port,
            passed: self.passed,
            origins: self.origins,
            timestamps: self.timestamps,
            changes: self.changes,
            headers: self.headers,
            body: O::finish(self.columns),
        })
    }
}
