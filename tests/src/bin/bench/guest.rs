//! Table `guest`: the same operator in the host and as a component, driven batch by batch on the memory backend. What differs
//! is the border between them: lowering, the call, lifting, and logic compiled to WebAssembly.

use super::Extent;
use super::measure::{self, Cost};
use super::table::{Compared, Table};
use anyhow::{Result, bail, ensure};
use dataflow::key::Keying;
use dataflow::record::{Batch, Column, Value, ValueType, Values};
use dataflow::time::START;
use millstream::engine::{Component, Engine, EngineSettings};
use millstream::operator::guest::{FieldSource, GuestFactory, GuestInput, GuestSettings};
use millstream::operator::native::{Dedup, RunningCount, operator};
use millstream::operator::{Context, Emitter, OperatorFactory, TaskInfo};
use millstream::operator_project::build;
use millstream::state::StateNumber;
use millstream::state::memory;
use millstream::telemetry::NodeMetrics;
use millstream_tests::chance::Chance;
use millstream_tests::program::root;
use std::cell::RefCell;

const KEY_GROUPS: u16 = 128;

/// Most records of one loop: an operator alone is steady long before a job is.
const RECORDS_MAX: usize = 1_000_000;

pub(super) fn measure(extent: Extent) -> Result<()> {
    let engine = Engine::new(EngineSettings::default())?;
    let load = |project: &str| -> Result<Component> {
        let built = build(&root().join(project), &mut |_| {})?;
        Ok(engine.load(&built.bytes)?)
    };
    let city = FieldSource { name: "city".into(), column: Some(0), value_type: ValueType::Text, required: true };
    let guests = [
        ("running count", load("tests/guests/counting")?, vec![city]),
        ("dedup", load("examples/rides/dedup")?, vec![]),
    ];
    let records = extent.records.min(RECORDS_MAX);
    for (name, component, fields) in guests {
        let settings =
            GuestSettings { inputs: vec![GuestInput { fields, broadcast: false }], ..GuestSettings::default() };
        let guest = GuestFactory::new("guest", component, settings)?;
        let native = if name == "dedup" { operator(Dedup) } else { operator(RunningCount) };
        for keys in [500, 100_000] {
            for rows in [64, 256, 1024, 4096] {
                let batches = batches(records, rows, keys);
                let expected = RefCell::new(None);
                let run = |factory: &dyn OperatorFactory| -> Result<Cost> {
                    let (sum, cost) = drive(factory, batches.clone())?;
                    ensure!(*expected.borrow_mut().get_or_insert(sum) == sum, "{name}: guest and host give other rows");
                    Ok(cost)
                };
                let title = format!("{name}, {keys} keys, batches of {rows}");
                let mut table = Table::new(title, records, Compared::Time);
                table.contender("in the host", || run(&native));
                table.contender("in a guest", || run(&guest));
                table.measure(extent.rounds)?;
            }
        }
    }
    Ok(())
}

/// Rows of a city each, all cities equally likely, a millisecond apart, so that nothing expires.
fn batches(records: usize, rows: usize, keys: u64) -> Vec<Batch> {
    let mut chance = Chance::new(1, "benchmark");
    let mut keying = Keying::default();
    let starts = (0..records).step_by(rows);
    let batch = |start: usize| {
        let rows = rows.min(records - start);
        let mut city = Column::with_capacity(ValueType::Text, rows);
        (0..rows).for_each(|_| _ = city.push(Value::Text(&format!("city-{}", chance.between(1, keys)))));
        let keys = Some(keying.keys(rows, &[&city]).0);
        let timestamps = (start..start + rows).map(|at| at as i64).collect();
        Batch { timestamps, columns: vec![city], keys, ..Batch::default() }
    };
    starts.map(batch).collect()
}

/// Runs all batches through a fresh operator: what came out, as rows and the sum of their times and numbers, and the cost.
fn drive(factory: &dyn OperatorFactory, batches: Vec<Batch>) -> Result<((usize, i64), Cost)> {
    let mut state = memory::for_tests(0..KEY_GROUPS);
    let declared = factory.states();
    let states: Vec<StateNumber> = (1..).map(StateNumber).take(declared.len()).collect();
    states.iter().zip(&declared).for_each(|(number, declaration)| state.register(*number, declaration));
    let task = TaskInfo { operator: "op".into(), task: 0, parallelism: 1, max_parallelism: KEY_GROUPS, states };
    let mut operator = factory.create(&task)?;
    let (metrics, mut out) = (NodeMetrics::default(), Emitter::default());
    let mut sum = (0, 0);
    let ((), cost) = measure::thread(|| {
        operator.open(&mut Context {
            state: &mut state,
            out: &mut out,
            watermark: START,
            now: 0,
            metrics: &metrics,
        })?;
        for batch in batches {
            let mut context = Context { state: &mut state, out: &mut out, watermark: START, now: 0, metrics: &metrics };
            operator.on_batch(0, batch, &mut context)?;
            ensure!(out.dead.is_empty(), "a record was put aside: {}", out.dead[0].reason);
            for (_, sent) in out.batches.drain(..) {
                sum.0 += sent.len();
                sum.1 += sent.timestamps.iter().sum::<i64>() + numbers(&sent)?;
            }
        }
        Ok(())
    })?;
    Ok((sum, cost))
}

/// The sum of a running count's column; rows passed on have none.
fn numbers(sent: &Batch) -> Result<i64> {
    let Some(column) = sent.columns.get(1) else { return Ok(0) };
    let Values::Int(numbers) = &column.values else { bail!("a count is an int") };
    Ok(numbers.iter().sum())
}
