//! A window in several tasks on a real backend, fed by hand and made anew from a checkpoint in any number of tasks.

use super::super::{Accumulate, Accumulators, Aggregator, Bad, Finishing, Rows, WindowFactory, WindowSettings};
use crate::operator::{Context, Due, Emitter, Operator, OperatorFactory, TaskInfo};
use crate::state::tests::owners::{Kind, Owners};
use crate::telemetry::NodeMetrics;
use dataflow::key::{KeyGroup, Keying};
use dataflow::record::{Batch, Blobs, Column, Field, Value, ValueType};
use dataflow::time::{START, Timestamp};
use std::sync::Arc;

/// A record: key, timestamp, value.
pub(super) type Row = (&'static str, Timestamp, Option<i64>);

/// See the module.
pub(super) struct Tasks {
    factory: WindowFactory,
    owners: Owners,
    operators: Vec<Box<dyn Operator>>,
    watermark: Timestamp,
    pub(super) metrics: NodeMetrics,
    pub(super) out: Emitter,
}

impl Tasks {
    pub(super) fn new(kind: Kind, settings: WindowSettings, aggregator: Arc<dyn Aggregator>, groups: u16) -> Self {
        let factory = WindowFactory::new(settings, aggregator).unwrap();
        let owners = Owners::new(kind, factory.states(), groups);
        let (metrics, out) = (NodeMetrics::default(), Emitter::default());
        let mut tasks = Self { factory, owners, operators: vec![], watermark: START, metrics, out };
        tasks.open();
        tasks
    }

    /// All tasks anew from a checkpoint, so many of them.
    pub(super) fn restore(&mut self, parallelism: usize) {
        self.owners.restore(parallelism);
        self.open();
    }

    fn open(&mut self) {
        let parallelism = self.owners.parallelism();
        let operator = |task| {
            let (operator, states) = ("window".to_string(), self.owners.numbers());
            let max_parallelism = self.owners.groups();
            self.factory.create(&TaskInfo { operator, task, parallelism, max_parallelism, states }).unwrap()
        };
        self.operators = (0..parallelism).map(operator).collect();
        (0..parallelism).for_each(|task| self.call(task, |operator, context| operator.open(context)).unwrap());
    }

    fn call<T>(&mut self, task: usize, call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> T) -> T {
        let (state, watermark) = (self.owners.backend(task), self.watermark);
        let mut context = Context { state, out: &mut self.out, watermark, now: 0, metrics: &self.metrics };
        call(&mut *self.operators[task], &mut context)
    }

    /// Each row goes to the task that owns its key.
    pub(super) fn feed(&mut self, rows: &[Row]) {
        let groups = self.owners.groups();
        for task in 0..self.operators.len() {
            let whole = batch(rows);
            let keys = whole.keys.as_ref().expect("the batch is keyed");
            let owner = |row: usize| self.owners.owner(KeyGroup::of(keys.hashes[keys.of[row] as usize], groups));
            let own: Vec<Row> = (0..rows.len()).filter(|&row| owner(row) == task).map(|row| rows[row]).collect();
            if !own.is_empty() {
                self.call(task, |operator, context| operator.on_batch(0, batch(&own), context)).unwrap();
            }
        }
    }

    pub(super) fn advance(&mut self, watermark: Timestamp) {
        self.watermark = watermark;
        for task in 0..self.operators.len() {
            while self.call(task, |operator, context| operator.on_watermark(context)).unwrap() == Due::More {}
        }
        self.owners.advance(watermark, 0);
    }

    pub(super) fn rows_kept(&self) -> u64 {
        self.owners.rows()
    }

    /// Batches of a port since the last call.
    pub(super) fn sent(&mut self, port: usize) -> Vec<Batch> {
        let (sent, rest) = std::mem::take(&mut self.out.batches).into_iter().partition(|(of, _)| *of == port);
        self.out.batches = rest;
        let sent: Vec<(usize, Batch)> = sent;
        sent.into_iter().map(|(_, batch)| batch).collect()
    }
}

/// Column 0 is the key, 1 the value, 2 a quarter of it.
fn batch(rows: &[Row]) -> Batch {
    let mut columns = [ValueType::Scalar, ValueType::Int, ValueType::Float].map(Column::new);
    for (key, _, value) in rows {
        columns[0].push(Value::Text(key));
        columns[1].push(value.map_or(Value::Absent, Value::Int));
        columns[2].push(value.map_or(Value::Absent, |value| Value::Float(value as f64 / 4.0)));
    }
    let (keys, _) = Keying::default().keys(rows.len(), &[&columns[0]]);
    let timestamps = rows.iter().map(|row| row.1).collect();
    Batch { timestamps, columns: columns.into(), keys: Some(keys), ..Batch::default() }
}

/// Behaves as a guest that forgets nothing: lists the values in the order in which they came, so that each one that is lost, repeated
/// or moved is seen.
pub(super) struct Listing;

impl Aggregator for Listing {
    fn columns(&self) -> Vec<Field> {
        vec![Field::new("/values", ValueType::Text)]
    }

    fn version(&self) -> u16 {
        1
    }

    fn supports_retract(&self) -> bool {
        false
    }

    fn reads(&self) -> Vec<usize> {
        vec![1]
    }

    fn create(&self, _task: &TaskInfo) -> anyhow::Result<Box<dyn Accumulate>> {
        Ok(Box::new(Self))
    }
}

impl Accumulate for Listing {
    fn blank(&self) -> &[u8] {
        &[]
    }

    fn accumulate(&mut self, rows: &Rows<'_>, accumulators: &mut Accumulators) -> anyhow::Result<Vec<Bad>> {
        let mut lists: Vec<Vec<u8>> = accumulators.bytes.iter().map(<[u8]>::to_vec).collect();
        for (&row, &cell) in rows.rows.iter().zip(rows.cells) {
            let value = rows.batch.columns[1].get(row as usize);
            lists[cell as usize].extend_from_slice(listed(value).as_bytes());
            accumulators.present[cell as usize] = true;
        }
        accumulators.bytes = Blobs::default();
        lists.iter().for_each(|list| accumulators.bytes.push(list));
        Ok(vec![])
    }

    fn merge(&mut self, left: &Blobs, right: &Blobs) -> anyhow::Result<Blobs> {
        let mut merged = Blobs::default();
        left.iter().zip(right.iter()).for_each(|(left, right)| merged.push(&[left, right].concat()));
        Ok(merged)
    }

    fn finish(&mut self, panes: &Finishing<'_>, results: &mut [Column]) -> anyhow::Result<Vec<Bad>> {
        for list in panes.accumulators.iter() {
            results[0].push(Value::Text(std::str::from_utf8(list)?));
        }
        Ok(vec![])
    }

    fn is_empty(&self, _accumulator: &[u8]) -> bool {
        false
    }

    fn migrate(&mut self, _from: u16, old: &Blobs) -> anyhow::Result<Blobs> {
        Ok(old.clone())
    }
}

/// How a value stands in a list.
pub(super) fn listed(value: Value<'_>) -> String {
    match value {
        Value::Int(int) => format!("{int},"),
        _ => "-,".to_string(),
    }
}
