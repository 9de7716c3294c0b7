//! A row of the running call: a record or a fired timer, with its key, its time, and all it can reach.
//! The middle of the record's path in the guest. Writes into the call's effects; never talks to the host itself.

use crate::bindings::types::{BadRow, Blobs, Change, Column, Headers};
use crate::call::Call;
use crate::input::{FieldColumn, blob};
use crate::key::Key;
use crate::output::OutputBuffer;
use crate::processor::{Moment, Processor};
use crate::{Bad, Emission, Fields, Input, Output, Timestamp, WholeRecords};
use serde::de::DeserializeOwned;
use std::ops::Deref;

/// What the host said about the rows of a call. Does not change while it runs.
pub(crate) struct Facts {
    pub(crate) moment: Moment,
    pub(crate) keys: Blobs,
    pub(crate) key_of: Vec<u32>,
    pub(crate) timestamps: Vec<Timestamp>,
    pub(crate) changes: Vec<Change>,
    pub(crate) values: Option<Column>,
    pub(crate) headers: Option<Headers>,
}

impl Facts {
    pub(crate) fn len(&self) -> usize {
        self.timestamps.len()
    }

    /// The row's key, as an index into the keys; [`NO_KEY`] where the input is not keyed.
    #[inline]
    fn key_of(&self, row: usize) -> u32 {
        self.key_of.get(row).copied().unwrap_or(NO_KEY)
    }
}

const NO_KEY: u32 = u32::MAX;

/// A row as the host handed it in: its time, key and value.
#[derive(Clone, Copy)]
pub struct Origin<'c> {
    pub(crate) facts: &'c Facts,
    pub(crate) number: u32,
    pub(crate) key: u32,
}

impl<'c> Origin<'c> {
    #[inline]
    pub(crate) fn new(facts: &'c Facts, number: usize) -> Self {
        Self { facts, number: number as u32, key: facts.key_of(number) }
    }

    /// The record's timestamp, or what the timer was set for.
    #[inline]
    pub fn time(&self) -> Timestamp {
        self.facts.timestamps[self.number as usize]
    }

    /// The row's key; empty where the input is not keyed.
    #[inline]
    pub fn key(&self) -> Key<'c> {
        if self.key == NO_KEY { Key::of(&[]) } else { Key::of(blob(&self.facts.keys, self.key as usize)) }
    }

    /// No record below this timestamp is expected any more. None: nothing is known yet.
    #[inline]
    pub fn watermark(&self) -> Option<Timestamp> {
        self.facts.moment.watermark
    }

    /// Whether the row's timestamp lies below the watermark.
    #[inline]
    pub fn is_late(&self) -> bool {
        self.watermark().is_some_and(|watermark| self.time() < watermark)
    }

    /// Processing time, the same for all rows of a call.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.facts.moment.now
    }

    /// Whether the record is new or takes back one that came before.
    #[inline]
    pub fn change(&self) -> Change {
        self.facts.changes.get(self.number as usize).copied().unwrap_or(Change::Insert)
    }

    /// The record's bytes; none for a tombstone. Needs [`Processor::WHOLE_VALUES`].
    pub fn value(&self) -> Option<&'c [u8]> {
        let values = self.facts.values.as_ref()?;
        let column = FieldColumn::of(values);
        let row = self.number as usize;
        column.present(row).then(|| column.bytes(row))
    }

    /// The record's bytes as JSON; none for a tombstone. Needs [`Processor::WHOLE_VALUES`].
    ///
    /// # Errors
    /// The value is not JSON of this shape.
    pub fn value_json<T: DeserializeOwned>(&self) -> Result<Option<T>, Bad> {
        Ok(self.value().map(serde_json::from_slice).transpose()?)
    }

    /// Name and value of each header. Needs [`Processor::HEADERS`].
    pub fn headers(&self) -> impl Iterator<Item = (&'c str, &'c [u8])> {
        let number = self.number;
        self.facts.headers.iter().flat_map(move |headers| {
            let mine = headers.rows.iter().enumerate().filter(move |(_, row)| **row == number);
            mine.map(|(index, _)| {
                let name = std::str::from_utf8(blob(&headers.name, index)).unwrap_or_default();
                (name, blob(&headers.value, index))
            })
        })
    }

    /// The value of the first header of this name.
    pub fn header(&self, name: &str) -> Option<&'c [u8]> {
        self.headers().find(|(header, _)| *header == name).map(|(_, value)| value)
    }
}

/// What a row can reach beside its own output: what the host handed in ([`Origin`]), and through the handles its state, timers,
/// side outputs and metrics. Every [`Row`] is one, so a function that takes `&Scope` works for all operators.
pub struct Scope<'c> {
    origin: Origin<'c>,
    pub(crate) call: &'c Call,
}

impl<'c> Deref for Scope<'c> {
    type Target = Origin<'c>;

    #[inline]
    fn deref(&self) -> &Origin<'c> {
        &self.origin
    }
}

/// A row of the running call, and where its output goes.
pub struct Row<'c, P: Processor> {
    scope: Scope<'c>,
    output: &'c mut OutputBuffer<P::Output>,
}

impl<'c, P: Processor> Row<'c, P> {
    #[inline]
    pub(crate) fn new(
        facts: &'c Facts,
        call: &'c Call,
        output: &'c mut OutputBuffer<P::Output>,
        number: usize,
    ) -> Self {
        Self { scope: Scope { origin: Origin::new(facts, number), call }, output }
    }

    /// Sends a row, with this row's key, and its timestamp unless an [`Emission`] says another.
    #[inline]
    pub fn emit<'r>(&mut self, row: impl Into<Emission<<P::Output as Output>::Row<'r>>>) {
        self.output.emit(self.scope.facts, self.scope.number, row.into());
    }

    /// Sends this record on as it came, at no cost. Records that pass go before those emitted in the same call.
    #[inline]
    pub fn pass(&mut self)
    where
        P::Output: WholeRecords,
    {
        self.scope.call.passing();
        self.output.pass(self.scope.number);
    }
}

impl<'c, P: Processor> Deref for Row<'c, P> {
    type Target = Scope<'c>;

    #[inline]
    fn deref(&self) -> &Scope<'c> {
        &self.scope
    }
}

/// The records of a call, for operators that want their columns.
pub struct Batch<'c, P: Processor> {
    pub(crate) facts: &'c Facts,
    pub(crate) fields: &'c Fields<'c>,
    pub(crate) call: &'c Call,
    pub(crate) output: &'c mut OutputBuffer<P::Output>,
    pub(crate) refused: &'c mut Refused,
}

impl<'c, P: Processor> Batch<'c, P> {
    /// How many records.
    #[expect(clippy::len_without_is_empty, reason = "a call has at least one row")]
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// The columns of the declared fields, in the order of the [`Input`](trait@Input) struct.
    pub fn fields(&self) -> &'c Fields<'c> {
        self.fields
    }

    /// The records' timestamps.
    pub fn timestamps(&self) -> &'c [Timestamp] {
        &self.facts.timestamps
    }

    /// The index of each record's key among the distinct keys of the call; empty where the input is not keyed.
    pub fn key_of(&self) -> &'c [u32] {
        &self.facts.key_of
    }

    /// Insert or retract of each record; empty where all are inserts.
    pub fn changes(&self) -> &'c [Change] {
        &self.facts.changes
    }

    /// One record, with its state and output.
    #[inline]
    pub fn row(&mut self, number: usize) -> Row<'_, P> {
        Row::new(self.facts, self.call, self.output, number)
    }

    /// This record cannot be processed. The call is undone and run again without it; go on to find others.
    pub fn refuse(&mut self, number: usize, bad: Bad) {
        self.refused.refuse(self.facts, number, bad);
    }

    /// Calls `each` for every record. One that it refuses takes those of the same key behind it out of this run: they are judged
    /// in the next one, on sound state.
    #[inline]
    pub fn each<'r>(&mut self, mut each: impl FnMut(&mut Row<'_, P>, <P::Input as Input>::Row<'r>) -> Result<(), Bad>)
    where
        'c: 'r,
    {
        for number in 0..self.facts.len() {
            if self.refused.skips(self.facts, number) {
                continue;
            }
            let done = match P::Input::read(self.fields, number) {
                Ok(input) => each(&mut self.row(number), input),
                Err(bad) => Err(bad),
            };
            if let Err(bad) = done {
                self.refuse(number, bad);
            }
        }
    }
}

/// The rows of a call that cannot be processed.
#[derive(Default)]
pub(crate) struct Refused {
    pub(crate) rows: Vec<BadRow>,
    /// Keys whose state may be half changed. Empty while no row is refused.
    keys: Vec<bool>,
}

impl Refused {
    #[inline]
    pub(crate) fn skips(&self, facts: &Facts, row: usize) -> bool {
        !self.keys.is_empty() && self.keys.get(facts.key_of(row) as usize).copied().unwrap_or(false)
    }

    #[cold]
    pub(crate) fn refuse(&mut self, facts: &Facts, row: usize, bad: Bad) {
        self.keys.resize(facts.keys.ends.len(), false);
        if let Some(spoilt) = self.keys.get_mut(facts.key_of(row) as usize) {
            *spoilt = true;
        }
        self.rows.push(BadRow { row: row as u32, reason: bad.into_reason() });
    }
}
