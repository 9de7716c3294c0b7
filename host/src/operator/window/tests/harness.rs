//! Feeds a window by hand: rows, watermarks, a new operator on the same state. The state is a sorted map.

use super::super::{Aggregator, BuiltIn, WindowFactory, WindowSettings};
use crate::operator::{Context, Due, Emitter, Operator, OperatorFactory, TaskInfo};
use crate::state::{Address, RowMeta, Sizes, StateBackend, StateDeclaration, StateNumber, Visitor};
use crate::telemetry::NodeMetrics;
use dataflow::aggregate::{Aggregate, Function};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::{KeyGroup, Keying};
use dataflow::record::{Batch, Change, Column, Value, ValueType, Values};
use dataflow::time::{START, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

type Stored = (u16, u32, Vec<u8>);

/// The state as a sorted map.
#[derive(Default)]
struct SortedMap(BTreeMap<Stored, (RowMeta, Vec<u8>)>);

impl SortedMap {
    fn keys(&self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8])) -> Vec<Stored> {
        let is_in = |row: &[u8]| row >= range.0 && (range.1.is_empty() || row < range.1);
        self.0.keys().filter(|key| key.0 == group.0 && key.1 == state.0 && is_in(&key.2)).cloned().collect()
    }
}

impl StateBackend for SortedMap {
    fn name(&self) -> &'static str {
        "sorted map"
    }

    fn register(&mut self, _state: StateNumber, _declaration: &StateDeclaration) {}

    fn get(&self, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        let (meta, bytes) = self.0.get(&(at.group.0, at.state.0, at.row.to_vec()))?;
        into.extend_from_slice(bytes);
        Some(*meta)
    }

    fn put(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) {
        self.0.insert((at.group.0, at.state.0, at.row.to_vec()), (meta, bytes.to_vec()));
    }

    fn delete(&mut self, at: Address<'_>) {
        self.0.remove(&(at.group.0, at.state.0, at.row.to_vec()));
    }

    fn scan(&self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) {
        for key in self.keys(group, state, range) {
            let (meta, bytes) = &self.0[&key];
            if visit(&key.2, *meta, bytes).is_break() {
                return;
            }
        }
    }

    fn delete_range(&mut self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8])) {
        self.keys(group, state, range).iter().for_each(|key| drop(self.0.remove(key)));
    }

    fn advance(&mut self, _watermark: Timestamp, _now: Timestamp) {}

    fn snapshot(&mut self, _checkpoint: CheckpointId) {}

    fn poll_snapshot(&mut self) -> anyhow::Result<Option<(CheckpointId, Vec<FileEntry>)>> {
        Ok(None)
    }

    fn restore(&mut self, _files: &[FileEntry], _groups: std::ops::Range<u16>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Tests ask for windows: marks, which are empty, count only where no window is left, for then they must be gone too.
    fn sizes(&self) -> Sizes {
        let windows = self.0.values().filter(|(_, bytes)| !bytes.is_empty()).count();
        Sizes { rows: if windows == 0 { self.0.len() } else { windows } as u64, ..Sizes::default() }
    }
}

pub(super) fn task() -> TaskInfo {
    TaskInfo {
        operator: "per-minute".to_string(),
        task: 0,
        parallelism: 1,
        max_parallelism: 128,
        states: vec![StateNumber(3)],
    }
}

pub(super) const MINUTE: i64 = 60_000;

pub(super) fn settings(allowed_lateness_ms: i64) -> WindowSettings {
    WindowSettings {
        size_ms: MINUTE,
        offset_ms: 0,
        allowed_lateness_ms,
        key: vec!["/city".to_string()],
        late_output: true,
        input_retracts: false,
        fields: [(1, "/fare".to_string())].into(),
    }
}

/// `/count` of rows.
pub(super) fn count() -> Arc<dyn Aggregator> {
    let count = Aggregate { function: Function::Count, field: None };
    Arc::new(BuiltIn::new(&[("/count".to_string(), count)], false).unwrap())
}

/// `/count` of rows and `/sum` of column 1.
pub(super) fn count_and_sum(retracting: bool) -> Arc<dyn Aggregator> {
    let count = Aggregate { function: Function::Count, field: None };
    let sum = Aggregate { function: Function::Sum, field: Some((1, ValueType::Int)) };
    let aggregates = [("/count".to_string(), count), ("/sum".to_string(), sum)];
    Arc::new(BuiltIn::new(&aggregates, retracting).unwrap())
}

/// Rows of (key, timestamp, value): column 0 is the key, column 1 the value.
pub(super) fn batch(rows: &[(&str, Timestamp, i64)]) -> Batch {
    let mut city = Column::new(ValueType::Scalar);
    rows.iter().for_each(|row| assert!(city.push(Value::Text(row.0))));
    let (keys, _) = Keying::default().keys(rows.len(), &[&city]);
    Batch {
        timestamps: rows.iter().map(|row| row.1).collect(),
        columns: vec![city, Column::all(Values::Int(rows.iter().map(|row| row.2).collect()))],
        keys: Some(keys),
        ..Batch::default()
    }
}

/// The rows, taken back.
pub(super) fn retracted(rows: &[(&str, Timestamp, i64)]) -> Batch {
    Batch { changes: vec![Change::Retract; rows.len()], ..batch(rows) }
}

/// A window with its state, fed by hand.
pub(super) struct Fed {
    pub(super) factory: WindowFactory,
    operator: Box<dyn Operator>,
    state: Box<dyn StateBackend>,
    pub(super) metrics: NodeMetrics,
    pub(super) watermark: Timestamp,
    pub(super) out: Emitter,
}

impl Fed {
    pub(super) fn new(settings: WindowSettings, aggregator: Arc<dyn Aggregator>) -> Self {
        let factory = WindowFactory::new(settings, aggregator).unwrap();
        let operator = factory.create(&task()).unwrap();
        let mut fed = Self {
            factory,
            operator,
            state: Box::new(SortedMap::default()),
            metrics: NodeMetrics::default(),
            watermark: START,
            out: Emitter::default(),
        };
        fed.restart();
        fed
    }

    fn call<T>(
        &mut self,
        watermark: Timestamp,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut context =
            Context { state: &mut self.state, out: &mut self.out, watermark, now: 0, metrics: &self.metrics };
        call(&mut *self.operator, &mut context)
    }

    /// A new operator on the state as it is, as after a restore.
    pub(super) fn restart(&mut self) {
        self.operator = self.factory.create(&task()).unwrap();
        self.call(self.watermark, |operator, context| operator.open(context)).unwrap();
    }

    /// The same with another aggregator.
    pub(super) fn restart_with(&mut self, settings: WindowSettings, aggregator: Arc<dyn Aggregator>) {
        self.factory = WindowFactory::new(settings, aggregator).unwrap();
        self.restart();
    }

    pub(super) fn try_feed(&mut self, batch: Batch) -> anyhow::Result<()> {
        self.call(self.watermark, |operator, context| operator.on_batch(0, batch, context))
    }

    pub(super) fn feed(&mut self, rows: &[(&str, Timestamp, i64)]) {
        self.try_feed(batch(rows)).unwrap();
    }

    /// One slice of what is due at `watermark`; it counts as reached once no more is due.
    pub(super) fn fire_some(&mut self, watermark: Timestamp) -> Due {
        let due = self.call(watermark, |operator, context| operator.on_watermark(context)).unwrap();
        if due == Due::Done {
            self.watermark = watermark;
        }
        due
    }

    pub(super) fn advance(&mut self, watermark: Timestamp) {
        while self.fire_some(watermark) == Due::More {}
    }

    /// Rows of windows in the state.
    pub(super) fn rows_kept(&self) -> u64 {
        self.state.sizes().rows
    }

    /// What came out of port 0 since the last call: per pane `key, window start, timing, index, aggregates`.
    pub(super) fn panes(&mut self) -> Vec<String> {
        let (panes, rest) = std::mem::take(&mut self.out.batches).into_iter().partition(|(port, _)| *port == 0);
        self.out.batches = rest;
        let panes: Vec<(usize, Batch)> = panes;
        panes.iter().flat_map(|(_, batch)| (0..batch.len()).map(|row| line(batch, row))).collect()
    }

    /// What came out of port 1 since the last call.
    pub(super) fn late(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.out.batches).into_iter().filter(|(port, _)| *port == 1).map(|(_, it)| it).collect()
    }
}

fn line(batch: &Batch, row: usize) -> String {
    let cell = |column: &Column| match column.get(row) {
        Value::Text(text) => text.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float.to_string(),
        other => format!("{other:?}"),
    };
    let (Value::Int(start), Value::Int(end)) = (batch.columns[1].get(row), batch.columns[2].get(row)) else {
        panic!("a pane has a start and an end")
    };
    assert_eq!(batch.timestamps[row], end - 1);
    let rest: Vec<String> = batch.columns[3..].iter().map(cell).collect();
    format!("{} {} {}", cell(&batch.columns[0]), start / MINUTE, rest.join(" "))
}
