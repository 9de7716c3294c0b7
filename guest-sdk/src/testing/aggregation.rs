//! Runs an aggregator natively: accumulators from records, merged and finished as windows do.

use super::cell::Cell;
use super::record::{Record, fields_of};
use super::run::{batch_of, blobs};
use super::store::Store;
use super::world::{World, enter};
use crate::aggregator::{Aggregator, Instance, describe};
use crate::bindings::types::{self, Batch, Blobs, Column, Description, Failure, ValueType};
use crate::input::blob;
use crate::{KeyValue, Timestamp};
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// Runs an aggregator as windows would. Panics where the host would fail the job.
pub struct Aggregation<A: Aggregator> {
    instance: Instance<A>,
    description: Description,
    world: Rc<RefCell<World>>,
}

impl<A: Aggregator> Aggregation<A> {
    /// Opens the aggregator with a configuration: `json!({ … })`, or any struct of serde's.
    pub fn new(config: impl serde::Serialize) -> Self {
        let config = serde_json::to_string(&config).expect("a test's configuration can be written as JSON");
        let context = types::Context { config, operator: "tested".to_owned(), task: 0, parallelism: 1 };
        let world = Rc::new(RefCell::new(World::new(Store::new(Vec::new()))));
        let instance = match enter(&world, || Instance::open(context)) {
            Ok(instance) => instance,
            Err(reason) => panic!("the aggregator refuses to open: {reason}"),
        };
        let aggregator = describe::<A>();
        let description = Description {
            states: Vec::new(),
            timers: Vec::new(),
            fields: aggregator.fields,
            whole_values: aggregator.whole_values,
            headers: false,
            inputs: Vec::new(),
            outputs: Vec::new(),
            config_schema: None,
        };
        Self { instance, description, world }
    }

    /// The accumulator of a window's records.
    ///
    /// # Errors
    /// The reasons of records that cannot be processed.
    pub fn accumulate(&self, records: &[Record]) -> Result<Vec<u8>, Vec<String>> {
        self.take(None, records, |batch, accumulators, acc_of| self.instance.accumulate(batch, accumulators, acc_of))
    }

    /// The accumulator without these records, which it has taken in before.
    ///
    /// # Errors
    /// The reasons of records that cannot be taken out.
    pub fn retract(&self, accumulator: &[u8], records: &[Record]) -> Result<Vec<u8>, Vec<String>> {
        let accumulator = Some(accumulator.to_vec());
        self.take(accumulator, records, |batch, accumulators, acc_of| {
            self.instance.retract(batch, accumulators, acc_of)
        })
    }

    /// The accumulator of both.
    pub fn merge(&self, left: &[u8], right: &[u8]) -> Vec<u8> {
        match enter(&self.world, || self.instance.merge(&blobs([left]), &blobs([right]))) {
            Ok(merged) => blob(&merged, 0).to_vec(),
            Err(reason) => panic!("merging fails: {reason}"),
        }
    }

    /// The result of a window [start, end).
    pub fn finish(&self, key: impl KeyValue, start: Timestamp, end: Timestamp, accumulator: &[u8]) -> Value {
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        let finish = || self.instance.finish(&blobs([bytes.as_slice()]), &[start], &[end], &blobs([accumulator]));
        match enter(&self.world, finish) {
            Ok(column) => Cell::of(&column, 0).map_or(Value::Null, |cell| cell.to_json()),
            Err(reason) => panic!("finishing fails: {reason}"),
        }
    }

    /// The result of a window of these records.
    pub fn result(&self, records: &[Record]) -> Value {
        match self.accumulate(records) {
            Ok(accumulator) => self.finish("", 0, 0, &accumulator),
            Err(reasons) => panic!("records cannot be processed: {}", reasons.join("; ")),
        }
    }

    /// Asserts what windows rely on: wherever the records are split, merging the parts in either order gives the result of the whole.
    pub fn assert_merges(&self, records: &[Record]) {
        let whole = self.result(records);
        for split in 0..=records.len() {
            let parts = [&records[..split], &records[split..]];
            let [left, right] = parts.map(|part| match self.accumulate(part) {
                Ok(accumulator) => accumulator,
                Err(reasons) => panic!("records cannot be processed: {}", reasons.join("; ")),
            });
            assert_eq!(
                self.finish("", 0, 0, &self.merge(&left, &right)),
                whole,
                "split at {split}, merged left to right"
            );
            assert_eq!(
                self.finish("", 0, 0, &self.merge(&right, &left)),
                whole,
                "split at {split}, merged right to left"
            );
        }
    }

    fn take(
        &self,
        accumulator: Option<Vec<u8>>,
        records: &[Record],
        take: impl Fn(Batch, &Column, &[u32]) -> Result<Blobs, Failure>,
    ) -> Result<Vec<u8>, Vec<String>> {
        let mut rows = Vec::new();
        for record in records {
            rows.push((record, record.taken_out(&self.description).map_err(|reason| vec![reason])?));
        }
        let rows: Vec<_> = rows.iter().map(|(record, cells)| (*record, cells)).collect();
        let fields = fields_of(&self.description, 0);
        let batch = batch_of(&rows, &fields, self.description.whole_values, false);
        let accumulators = Cell::column(ValueType::Bytes, &[accumulator.map(Cell::Bytes)]);
        match enter(&self.world, || take(batch, &accumulators, &vec![0; records.len()])) {
            Ok(accumulators) => Ok(blob(&accumulators, 0).to_vec()),
            Err(Failure::BadRows(bad)) => Err(bad.into_iter().map(|bad| bad.reason).collect()),
            Err(Failure::Failed(reason)) => Err(vec![reason]),
        }
    }
}
