//! Windows against the reference model, which keeps every record and judges them singly; and windows too big for one call.

use super::super::{Aggregator, BuiltIn, Combined, WindowSettings};
use super::harness::{Fed, count_and_sum, settings};
use super::tasks::{Listing, Row, Tasks, listed};
use crate::operator::Due;
use crate::state::tests::owners::{Kind, kinds};
use dataflow::aggregate::{Aggregate, Function};
use dataflow::model::{Judged, Pane, Windows};
use dataflow::record::{Batch, Value, ValueType};
use dataflow::time::{END, START};
use proptest::prelude::*;
use std::sync::Arc;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const SIZE: i64 = 60_000;

/// Key groups.
const GROUPS: u16 = 8;

/// What happens to a window.
#[derive(Debug, Clone)]
enum Step {
    /// Records of (key, timestamp, value) that come before the next watermark.
    Records(Vec<(usize, i64, Option<i64>)>),
    /// The watermark moves by so much.
    Advance(i64),
    /// A restart in so many tasks.
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let record = || (0..KEYS.len(), -200_000i64..400_000, prop::option::weighted(0.9, -9i64..9));
    prop_oneof![
        5 => prop::collection::vec(record(), 1..8).prop_map(Step::Records),
        4 => (1i64..120_000).prop_map(Step::Advance),
        2 => (1..=usize::from(GROUPS)).prop_map(Step::Restore),
    ]
}

/// Every built-in aggregate over ints and floats, and one as a guest has it between them.
fn aggregator() -> Arc<dyn Aggregator> {
    let over = |field| Function::ALL.map(|function| Aggregate { function, field: Some(field) });
    let named = |aggregates: &[Aggregate], name: &str| {
        let name = |at: usize| format!("/{name}{at}");
        let named: Vec<_> = aggregates.iter().enumerate().map(|(at, aggregate)| (name(at), *aggregate)).collect();
        Arc::new(BuiltIn::new(&named, false).unwrap())
    };
    let rows = Aggregate { function: Function::Count, field: None };
    let ints = [&[rows][..], &over((1, ValueType::Int))].concat();
    Arc::new(Combined::new(vec![named(&ints, "int"), Arc::new(Listing), named(&over((2, ValueType::Float)), "float")]))
}

/// A pane as the model has it.
fn expected(pane: &Pane<Option<i64>>) -> String {
    let present: Vec<i64> = pane.values.iter().copied().flatten().collect();
    let sum = (!present.is_empty()).then(|| present.iter().sum::<i64>());
    let mean = sum.map(|sum| sum as f64 / present.len() as f64);
    let quarter = |value: Option<i64>| text(value.map_or(Value::Absent, |value| Value::Float(value as f64 / 4.0)));
    let int = |value: Option<i64>| text(value.map_or(Value::Absent, Value::Int));
    let float = |value: Option<f64>| text(value.map_or(Value::Absent, Value::Float));
    let (least, most) = (present.iter().min().copied(), present.iter().max().copied());
    let number = present.len();
    let list: String = pane.values.iter().map(|value| listed(value.map_or(Value::Absent, Value::Int))).collect();
    let ints = format!("{} {number} {} {} {} {}", pane.values.len(), int(sum), int(least), int(most), float(mean));
    let floats =
        format!("{number} {} {} {} {}", quarter(sum), quarter(least), quarter(most), float(mean.map(|it| it / 4.0)));
    format!("{} {} {} {} {ints} {list} {floats}", pane.key, pane.start, pane.timing.name(), pane.index)
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float.to_string(),
        other => format!("{other:?}"),
    }
}

/// A pane's columns but for the window's end, which is checked.
fn line(batch: &Batch, row: usize) -> String {
    let (Value::Int(start), Value::Int(end)) = (batch.columns[1].get(row), batch.columns[2].get(row)) else {
        panic!("a pane has a start and an end")
    };
    assert_eq!((end - start, batch.timestamps[row]), (SIZE, end - 1));
    let columns = batch.columns.iter().enumerate().filter(|(at, _)| *at != 2);
    columns.map(|(_, column)| text(column.get(row))).collect::<Vec<_>>().join(" ")
}

/// A record that came too late.
fn late(batch: &Batch, row: usize) -> String {
    format!("{} {} {}", text(batch.columns[0].get(row)), batch.timestamps[row], text(batch.columns[1].get(row)))
}

fn sorted(batches: &[Batch], of: fn(&Batch, usize) -> String) -> Vec<String> {
    let mut lines: Vec<_> = batches.iter().flat_map(|batch| (0..batch.len()).map(move |row| of(batch, row))).collect();
    lines.sort_unstable();
    lines
}

fn check(kind: Kind, steps: &[Step], (offset, lateness): (i64, i64), cut: usize) {
    let settings = WindowSettings { offset_ms: offset, ..settings(lateness) };
    let mut tasks = Tasks::new(kind, settings, aggregator(), GROUPS);
    let mut model = Windows::new(SIZE, offset, lateness);
    let (mut watermark, mut dropped) = (START, 0);
    for step in steps.iter().chain([&Step::Advance(i64::MAX)]) {
        let (mut panes, mut too_late) = (vec![], vec![]);
        match step {
            Step::Records(records) => {
                let rows: Vec<Row> = records.iter().map(|&(key, at, value)| (KEYS[key], at, value)).collect();
                rows.chunks(cut).for_each(|rows| tasks.feed(rows));
                for &(key, at, value) in &rows {
                    match model.record(key, at, value) {
                        Judged::Kept => {}
                        Judged::LatePane(pane) => panes.push(expected(&pane)),
                        Judged::TooLate => {
                            too_late.push(format!("{key} {at} {}", text(value.map_or(Value::Absent, Value::Int))));
                        }
                    }
                }
            }
            Step::Advance(by) => {
                watermark = if *by == i64::MAX { END } else { watermark.max(-200_000).saturating_add(*by) };
                tasks.advance(watermark);
                panes.extend(model.advance(watermark).iter().map(expected));
            }
            Step::Restore(parallelism) => tasks.restore(*parallelism),
        }
        dropped += too_late.len() as u64;
        panes.sort_unstable();
        too_late.sort_unstable();
        assert_eq!(sorted(&tasks.sent(0), line), panes);
        assert_eq!(sorted(&tasks.sent(1), late), too_late);
    }
    assert_eq!(tasks.metrics.late_records_dropped.get(), dropped);
    assert_eq!((tasks.out.dead.len(), tasks.rows_kept(), model.kept()), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_send_what_the_model_sends_wherever_batches_are_cut_and_tasks_are_restored(
        steps in prop::collection::vec(step(), 1..32),
        offset in prop_oneof![Just(0i64), Just(17_000)],
        lateness in prop_oneof![Just(0i64), Just(1), Just(30_000), Just(90_000)],
        cut in 1usize..5,
    ) {
        for kind in kinds() {
            check(kind, &steps, (offset, lateness), cut);
        }
    }
}

#[test]
fn a_big_window_fires_in_slices_and_a_restart_between_them_repeats_and_loses_nothing() {
    let names: Vec<String> = (0..10_000).map(|number| format!("key-{number:05}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), 0, 1)).collect();
    for lateness in [0, SIZE] {
        let mut fed = Fed::new(settings(lateness), count_and_sum(false));
        rows.chunks(4096).for_each(|rows| fed.feed(rows));
        let mut slices = 0;
        let mut panes = vec![];
        while fed.fire_some(SIZE) == Due::More {
            slices += 1;
            panes.extend(fed.panes());
            fed.restart();
        }
        panes.extend(fed.panes());
        panes.sort_unstable();
        let expected: Vec<String> = names.iter().map(|name| format!("{name} 0 on_time 0 1 1")).collect();
        assert_eq!(panes, expected);
        assert_eq!(slices, 2);
        fed.advance(2 * SIZE);
        assert_eq!(fed.rows_kept(), 0);
    }
}

#[test]
fn a_window_that_fits_one_call_is_not_torn_and_comes_in_byte_order() {
    let names: Vec<String> = (0..3_000).map(|number| format!("key-{number:05}")).collect();
    let rows: Vec<_> = names.iter().flat_map(|name| [(name.as_str(), 0, 1), (name.as_str(), SIZE, 1)]).collect();
    let mut fed = Fed::new(settings(0), count_and_sum(false));
    fed.feed(&rows);
    for window in [0, 1] {
        let more = fed.fire_some(END) == Due::More;
        let expected: Vec<String> = names.iter().map(|name| format!("{name} {window} end_of_input 0 1 1")).collect();
        assert_eq!((fed.panes(), more), (expected, window == 0));
    }
}
