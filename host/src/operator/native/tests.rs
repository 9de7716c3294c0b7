//! Native operators on the memory backend.

use super::{Dedup, Fired, Logic, Row, RunningCount, operator};
use crate::operator::{Context, Due, Emitter, Operator, OperatorFactory, TaskInfo};
use crate::state::memory;
use crate::state::{StateBackend, StateDeclaration, StateNumber};
use crate::telemetry::NodeMetrics;
use dataflow::graph::Port;
use dataflow::key::Keying;
use dataflow::record::{Batch, Column, Field, Schema, Value, ValueType, Values};
use dataflow::time::{START, Timestamp};

const HOUR: i64 = 3_600_000;

struct Fed {
    operator: Box<dyn Operator>,
    state: Box<dyn StateBackend>,
    metrics: NodeMetrics,
    watermark: Timestamp,
    out: Emitter,
}

impl Fed {
    fn new(logic: impl Logic + 'static) -> Self {
        let factory = operator(logic);
        let mut state = memory::for_tests(0..128);
        let states: Vec<StateNumber> = (1..).map(StateNumber).take(factory.states().len()).collect();
        for (number, declaration) in states.iter().zip(factory.states()) {
            state.register(*number, &declaration);
        }
        let task = TaskInfo { operator: "native".to_string(), task: 0, parallelism: 1, max_parallelism: 128, states };
        let operator = factory.create(&task).unwrap();
        let (metrics, out) = (NodeMetrics::default(), Emitter::default());
        let mut fed = Self { operator, state, metrics, watermark: START, out };
        fed.call(|operator, context| operator.open(context)).unwrap();
        fed
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> T) -> T {
        let (watermark, metrics) = (self.watermark, &self.metrics);
        let mut context = Context { state: &mut self.state, out: &mut self.out, watermark, now: 0, metrics };
        call(&mut *self.operator, &mut context)
    }

    /// Rows of (key, time, two ints).
    fn feed(&mut self, rows: &[(&str, Timestamp, i64, i64)]) {
        let mut key = Column::new(ValueType::Scalar);
        rows.iter().for_each(|row| assert!(key.push(Value::Text(row.0))));
        let (keys, _) = Keying::default().keys(rows.len(), &[&key]);
        let ints = |of: fn(&(&str, i64, i64, i64)) -> i64| Column::all(Values::Int(rows.iter().map(of).collect()));
        let batch = Batch {
            timestamps: rows.iter().map(|row| row.1).collect(),
            columns: vec![key, ints(|row| row.2), ints(|row| row.3)],
            keys: Some(keys),
            ..Batch::default()
        };
        self.call(|operator, context| operator.on_batch(0, batch, context)).unwrap();
    }

    fn advance(&mut self, watermark: Timestamp) {
        self.watermark = watermark;
        while self.call(|operator, context| operator.on_watermark(context)).unwrap() == Due::More {}
    }

    fn sent(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.out.batches).into_iter().map(|(_, batch)| batch).collect()
    }

    fn times(&mut self) -> Vec<Timestamp> {
        self.sent().iter().flat_map(|batch| batch.timestamps.clone()).collect()
    }
}

#[test]
fn a_key_passes_once_an_hour_whatever_the_batches() {
    let rides = [("r1", 0, 0, 0), ("r2", 5, 0, 0), ("r1", 10, 0, 0), ("r1", HOUR - 1, 0, 0), ("r1", HOUR, 0, 0)];
    for batch in [1, 2, 5] {
        let mut dedup = Fed::new(Dedup);
        rides.chunks(batch).for_each(|rides| dedup.feed(rides));
        assert_eq!(dedup.times(), [0, 5, HOUR]);
    }
}

#[test]
fn a_running_count_is_sent_for_each_record() {
    let mut count = Fed::new(RunningCount);
    count.feed(&[("a", 1, 0, 0), ("b", 2, 0, 0), ("a", 3, 0, 0)]);
    count.feed(&[("a", 4, 0, 0)]);
    let sent = count.sent();
    assert_eq!(sent[0].columns[1].values, Values::Int(vec![1, 1, 2]));
    assert_eq!(sent[1].columns[1].values, Values::Int(vec![3]));
    assert_eq!((sent[0].columns[0].get(1), sent[0].timestamps[1]), (Value::Text("b"), 2));
}

/// Sends a key 10 ms after its last record; refuses negative numbers, and tags that say so.
struct Quiet;

impl Logic for Quiet {
    fn fields(&self) -> Schema {
        Schema { fields: vec![Field::new("/key", ValueType::Scalar), Field::new("/number", ValueType::Int)] }
    }

    fn values(&self) -> Vec<StateDeclaration> {
        vec![]
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn ports(&self) -> Vec<Port> {
        let columns = Some(Schema { fields: vec![Field::new("/payload", ValueType::Bytes)] });
        vec![Port { columns, ..Port::default() }]
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        match row.field(1) {
            Value::Int(0) => row.remove_timer(b"quiet"),
            Value::Int(1) => row.set_timer(b"quiet", row.time() + 10, b"payload"),
            Value::Int(2) => row.set_timer(b"bad", row.time(), b"payload"),
            _ => return Err("not a number for this operator".to_string()),
        }
        Ok(())
    }

    fn on_timer(&self, row: &mut Row<'_>, fired: &Fired<'_>) -> Result<(), String> {
        if fired.tag == b"bad" {
            return Err("a bad timer".to_string());
        }
        row.emit(0, &[Value::Bytes(fired.payload)]);
        Ok(())
    }
}

#[test]
fn timers_fire_in_time_order_when_the_watermark_reaches_them() {
    let mut quiet = Fed::new(Quiet);
    quiet.feed(&[("a", 5, 1, 0), ("b", 3, 1, 0), ("c", 1, 1, 0), ("c", 2, 0, 0), ("b", 4, 1, 0)]);
    quiet.advance(13);
    assert_eq!(quiet.times(), [] as [i64; 0]);
    quiet.advance(20);
    assert_eq!(quiet.times(), [14, 15]);
}

#[test]
fn what_fails_is_put_aside_alone() {
    let mut quiet = Fed::new(Quiet);
    quiet.feed(&[("a", 5, -1, 0), ("b", 6, 1, 0), ("c", 7, 2, 0)]);
    quiet.advance(20);
    let dead: Vec<_> = quiet.out.dead.iter().map(|dead| (dead.timestamp.unwrap(), dead.reason.as_str())).collect();
    assert_eq!(dead, [(5, "not a number for this operator"), (7, "a bad timer")]);
    assert_eq!(quiet.times(), [16]);
}
