//! One record or timer as its logic sees it: fields, time, the state of its key, and where effects go.

use super::values::Values;
use dataflow::key::Keys;
use dataflow::record::{Batch, Change, Column, Schema, Value};
use dataflow::time::Timestamp;

/// A record, or a timer that fired, in its call.
pub struct Row<'a> {
    pub(super) number: usize,
    pub(super) timestamp: Timestamp,
    pub(super) keys: &'a Keys,
    /// None for a timer.
    pub(super) batch: Option<&'a Batch>,
    /// Where each field lies in the batch.
    pub(super) columns: &'a [usize],
    pub(super) values: &'a mut [Values],
    pub(super) effects: &'a mut Effects,
    pub(super) watermark: Timestamp,
    pub(super) now: Timestamp,
}

/// What a call's rows have done, apart from values.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) passed: Vec<u32>,
    /// By port.
    pub(super) sent: Vec<Sent>,
    pub(super) timers: Vec<TimerChange>,
}

/// Rows made for one port.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) columns: Vec<Column>,
    pub(super) timestamps: Vec<Timestamp>,
}

impl Sent {
    /// None yet, of these columns.
    pub(super) fn new(schema: &Schema) -> Self {
        Self { columns: schema.columns(0), timestamps: vec![] }
    }
}

#[derive(Debug)]
pub(super) struct TimerChange {
    pub(super) row: usize,
    pub(super) tag: Vec<u8>,
    /// None: it is removed.
    pub(super) set: Option<(Timestamp, Vec<u8>)>,
}

impl<'a> Row<'a> {
    /// The record's timestamp, or what the timer was set for.
    pub fn time(&self) -> Timestamp {
        self.timestamp
    }

    /// The encoded key.
    pub fn key(&self) -> &'a [u8] {
        self.keys.of_row(self.number)
    }

    /// A field of the record, by its position in [`super::Logic::fields`]; absent for a timer.
    pub fn field(&self, field: usize) -> Value<'a> {
        self.batch.map_or(Value::Absent, |batch| batch.columns[self.columns[field]].get(self.number))
    }

    /// Whether the record is new or taken back.
    pub fn change(&self) -> Change {
        self.batch.map_or(Change::Insert, |batch| batch.change(self.number))
    }

    /// The key's value in a state.
    pub fn get(&self, state: usize) -> Option<&[u8]> {
        let key = self.keys.of[self.number] as usize;
        self.values[state].get(key, self.timestamp, (self.watermark, self.now))
    }

    /// Sets the key's value in a state.
    pub fn set(&mut self, state: usize, value: &[u8]) {
        self.values[state].set(self.keys.of[self.number] as usize, self.timestamp, self.now, value);
    }

    /// Removes the key's value from a state.
    pub fn clear(&mut self, state: usize) {
        self.values[state].clear(self.keys.of[self.number] as usize);
    }

    /// Sends the record on as it came, on the main output.
    pub fn pass(&mut self) {
        self.effects.passed.push(self.number as u32);
    }

    /// Sends a row of the port's columns, with this row's timestamp.
    pub fn emit(&mut self, port: usize, values: &[Value<'_>]) {
        let sent = &mut self.effects.sent[port];
        for (column, value) in sent.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        sent.timestamps.push(self.timestamp);
    }

    /// Sets the key's timer of this tag, in place of the one before.
    pub fn set_timer(&mut self, tag: &[u8], at: Timestamp, payload: &[u8]) {
        let set = Some((at, payload.to_vec()));
        self.effects.timers.push(TimerChange { row: self.number, tag: tag.to_vec(), set });
    }

    /// Removes the key's timer of this tag.
    pub fn remove_timer(&mut self, tag: &[u8]) {
        self.effects.timers.push(TimerChange { row: self.number, tag: tag.to_vec(), set: None });
    }
}
