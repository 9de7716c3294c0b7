//! One record or timer as its logic sees it: fields, time, the state of its key, and where effects go.

use super::values::Values;
use dataflow::key::Keys;
use dataflow::record::{Batch, Change, Column, Value};
use dataflow::time::Timestamp;

/// A record, or a timer that fired, in its call.
pub struct Row<'a> {
    pub(super) number: usize,
    pub(super) timestamp: Timestamp,
    pub(super) keys: &'a Keys,
    /// None for a timer.
    pub(super) batch: Option<&'a Batch>,
    pub(super) values: &'a mut [Values],
    pub(super) effects: &'a mut Effects,
    pub(super) watermark: Timestamp,
    pub(super) now: Timestamp,
}

/// What a call's rows have done, apart from values.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) passed: Vec<u32>,
    pub(super) columns: Vec<Column>,
    pub(super) timestamps: Vec<Timestamp>,
    pub(super) timers: Vec<TimerChange>,
}

#[derive(Debug)]
pub(super) struct TimerChange {
    pub(super) row: usize,
    pub(super) tag: Vec<u8>,
    /// None: it is removed.
    pub(super) set: Option<(Timestamp, Vec<u8>)>,
}

impl Row<'_> {
    /// The record's timestamp, or what the timer was set for.
    pub fn time(&self) -> Timestamp {
        self.timestamp
    }

    /// The encoded key.
    pub fn key(&self) -> &[u8] {
        self.keys.of_row(self.number)
    }

    /// A field of the record, by column; absent for a timer.
    pub fn field(&self, column: usize) -> Value<'_> {
        self.batch.map_or(Value::Absent, |batch| batch.columns[column].get(self.number))
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

    /// Sends the record on as it came.
    pub fn pass(&mut self) {
        self.effects.passed.push(self.number as u32);
    }

    /// Sends a row of the declared columns, with this row's timestamp.
    pub fn emit(&mut self, values: &[Value<'_>]) {
        for (column, value) in self.effects.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        self.effects.timestamps.push(self.timestamp);
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
