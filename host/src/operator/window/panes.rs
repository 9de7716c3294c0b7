//! Panes: what has been gathered to be sent, and how it looks as a batch. A pane's timestamp is the last one of its window.

use super::store::Sent;
use super::{Accumulate, Bad, Finishing};
use crate::dead_letter::{DeadLetter, VALUE_BYTES_MAX};
use dataflow::key;
use dataflow::record::{Batch, Blobs, Column, Field, Schema, Value, ValueType, Values};
use dataflow::time::Timestamp;
use dataflow::window::Timing;

/// Panes to be sent, in order.
#[derive(Debug, Default)]
pub(super) struct Panes {
    pub(super) keys: Blobs,
    pub(super) starts: Vec<Timestamp>,
    pub(super) ends: Vec<Timestamp>,
    pub(super) accumulators: Blobs,
    /// What had been sent before.
    pub(super) sent: Vec<Sent>,
}

impl Panes {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn push(&mut self, start: Timestamp, end: Timestamp, key: &[u8], accumulator: &[u8], sent: Sent) {
        self.keys.push(key);
        self.starts.push(start);
        self.ends.push(end);
        self.accumulators.push(accumulator);
        self.sent.push(sent);
    }
}

/// The columns of an operator's panes.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    operator: String,
    key_fields: usize,
    schema: Schema,
}

/// Columns between the key and the aggregates.
const FIXED: usize = 4;

impl Layout {
    /// Key columns, then start, end, timing, index, then the aggregates.
    pub(super) fn new(operator: &str, key: &[String], aggregates: Vec<Field>) -> Self {
        Self { operator: operator.to_string(), key_fields: key.len(), schema: schema(key, aggregates) }
    }

    /// Computes the panes and makes a batch of them, and dead letters of those that fail.
    pub(super) fn finish(
        &self,
        panes: &Panes,
        timing: Timing,
        logic: &mut dyn Accumulate,
    ) -> anyhow::Result<(Batch, Vec<DeadLetter>)> {
        let mut columns = self.schema.columns(panes.len());
        let results = &mut columns[self.key_fields + FIXED..];
        let finishing = Finishing {
            keys: &panes.keys,
            starts: &panes.starts,
            ends: &panes.ends,
            accumulators: &panes.accumulators,
        };
        let bad = logic.finish(&finishing, results)?;
        for key in panes.keys.iter() {
            self.push_key(key, &mut columns);
        }
        let fixed = &mut columns[self.key_fields..];
        fixed[0].values = Values::Int(panes.starts.clone());
        fixed[1].values = Values::Int(panes.ends.clone());
        panes.ends.iter().for_each(|_| {
            fixed[2].push(Value::Text(timing.name()));
        });
        fixed[3].values = Values::Int(panes.sent.iter().map(|sent| sent.panes.into()).collect());
        let timestamps = panes.ends.iter().map(|end| end.saturating_sub(1)).collect();
        let batch = Batch { timestamps, columns, ..Batch::default() };
        if bad.is_empty() {
            return Ok((batch, vec![]));
        }
        let is_sent = |index: &u32| bad.iter().all(|bad| bad.index != *index || bad.is_sent);
        let sent = batch.select(&(0..panes.len() as u32).filter(is_sent).collect::<Vec<_>>());
        Ok((sent, bad.into_iter().map(|bad| self.dead_letter(panes, bad, &batch)).collect()))
    }

    fn push_key(&self, key: &[u8], columns: &mut [Column]) {
        if let ([Column { present: None, values: Values::Scalar(blobs) }, ..], 1) = (&mut *columns, self.key_fields) {
            return blobs.push(key);
        }
        let mut parts = key::parts(key);
        for column in &mut columns[..self.key_fields] {
            column.push(parts.next().unwrap_or(Value::Absent));
        }
    }

    /// What a pane that is not sent had seen, or what is sent of it.
    fn dead_letter(&self, panes: &Panes, bad: Bad, batch: &Batch) -> DeadLetter {
        let index = bad.index as usize;
        let accumulator = panes.accumulators.get(index);
        let seen = accumulator[..accumulator.len().min(VALUE_BYTES_MAX)].to_vec();
        let letter = DeadLetter {
            node: self.operator.clone(),
            key: Some(panes.keys.get(index).to_vec()),
            timestamp: Some(panes.ends[index].saturating_sub(1)),
            reason: bad.reason,
            component: bad.component,
            backtrace: bad.backtrace,
            value: (!bad.is_sent).then_some(seen),
            ..DeadLetter::default()
        };
        letter.with_columns(&self.schema, batch, index)
    }
}

/// What flows out of port 0. One key field is called `/key`, several keep their pointers.
pub(super) fn schema(key: &[String], aggregates: Vec<Field>) -> Schema {
    let name = |pointer: &String| if key.len() == 1 { "/key".to_string() } else { pointer.clone() };
    let mut fields: Vec<Field> = key.iter().map(|pointer| Field::new(name(pointer), ValueType::Scalar)).collect();
    fields.extend([
        Field::time("/window_start"),
        Field::time("/window_end"),
        Field::new("/pane/timing", ValueType::Text),
        Field::new("/pane/index", ValueType::Int),
    ]);
    fields.extend(aggregates);
    Schema { fields }
}
