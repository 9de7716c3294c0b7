//! What every sink keeps, whatever its target: `check_sink` for those that are exactly once, `check_at_once` for those
//! that show rows as they are written. A crash is the sink dropped and opened again on the same target.

use super::{Sink, SinkFactory, SinkInput};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::{Batch, Field, Schema, Value, ValueType};
use std::ops::Range;

/// A target under test, empty when made. It outlives its sinks.
pub(super) trait Target {
    fn factory(&self) -> Box<dyn SinkFactory>;
    /// Rows that a reader sees, as [`row`] writes them, in any order.
    fn visible(&self) -> Vec<String>;
}

/// What the sinks under test get: `city` and `n`, never the same city twice.
pub(super) fn input(fresh: bool) -> SinkInput {
    let fields = vec![Field::new("/city", ValueType::Text), Field::new("/n", ValueType::Int)];
    SinkInput { sink: "out".into(), job: "rides".into(), schema: Schema { fields }, whole_values: false, fresh }
}

/// Rows `ids`.
pub(super) fn batch(ids: Range<i64>) -> Batch {
    let mut columns = input(true).schema.columns(0);
    for id in ids.clone() {
        columns[0].push(Value::Text(&format!("city-{id}")));
        columns[1].push(Value::Int(id));
    }
    Batch { timestamps: vec![0; ids.count()], columns, ..Batch::default() }
}

/// Row `id` as a target shows it.
pub(super) fn row(id: i64) -> String {
    format!("{{\"city\":\"city-{id}\",\"n\":{id}}}")
}

fn expect(target: &impl Target, ids: Range<i64>, moment: &str) {
    let mut visible = target.visible();
    let mut expected: Vec<String> = ids.map(row).collect();
    visible.sort();
    expected.sort();
    assert_eq!(visible, expected, "{moment}");
}

fn open(target: &impl Target, fresh: bool) -> Box<dyn Sink> {
    target.factory().open(&input(fresh)).expect("the sink opens")
}

fn stage(sink: &mut dyn Sink, ids: Range<i64>, checkpoint: u64) -> Payload {
    // Why: two writes, so that a stage gathers several batches.
    let middle = ids.start + (ids.end - ids.start) / 2;
    sink.write(&batch(ids.start..middle)).expect("rows are taken");
    sink.write(&batch(middle..ids.end)).expect("rows are taken");
    sink.stage(CheckpointId(checkpoint)).expect("rows are staged")
}

fn apply(sink: &mut dyn Sink, checkpoint: u64, payload: &Payload) {
    sink.apply(CheckpointId(checkpoint), payload).expect("what was staged is applied");
}

/// Every promise of an exactly-once sink, each on a target of its own.
pub(super) fn check_sink<T: Target>(make: impl Fn() -> T) {
    rows_appear_with_apply_and_once(&make());
    crash_between_any_two_steps_shows_each_row_once(&make);
    undecided_rows_never_appear(&make());
    checkpoint_without_rows_is_applied_too(&make());
    abandoned_checkpoint_is_carried_by_the_next(&make());
    fresh_start_begins_at_no_checkpoint(&make());
}

fn rows_appear_with_apply_and_once(target: &impl Target) {
    let mut sink = open(target, true);
    assert_eq!(sink.applied().expect("the target answers"), None, "nothing is applied at first");
    let first = stage(&mut *sink, 1..4, 1);
    sink.write(&batch(4..6)).expect("rows are taken");
    expect(target, 1..1, "nothing is visible before apply");
    apply(&mut *sink, 1, &first);
    expect(target, 1..4, "rows are visible after apply, those of the next checkpoint not");
    apply(&mut *sink, 1, &first);
    expect(target, 1..4, "applied twice, shown once");
    let second = sink.stage(CheckpointId(2)).expect("rows are staged");
    apply(&mut *sink, 2, &second);
    expect(target, 1..6, "rows written after a stage belong to the next checkpoint");
    assert_eq!(sink.applied().expect("the target answers"), Some(CheckpointId(2)));
}

/// Steps: 0 written, 1 staged, 2 decided and applied, 3 applied and the next staged. The crash comes after `step`; the run
/// goes on from the last decided checkpoint and writes again what that does not cover.
fn crash_between_any_two_steps_shows_each_row_once<T: Target>(make: &impl Fn() -> T) {
    for step in 0..4 {
        for applied_before_crash in [false, true] {
            let target = make();
            let mut sink = open(&target, true);
            let first = stage(&mut *sink, 1..3, 1);
            apply(&mut *sink, 1, &first);
            sink.write(&batch(3..5)).expect("rows are taken");
            let second = (step >= 1).then(|| sink.stage(CheckpointId(2)).expect("rows are staged"));
            if step >= 2 && applied_before_crash {
                apply(&mut *sink, 2, second.as_ref().expect("step 2 comes after staging"));
            }
            let _undecided = (step >= 3).then(|| stage(&mut *sink, 5..7, 3));
            drop(sink);

            let mut sink = open(&target, false);
            let (decided, payload, next_id) = if step >= 2 { (2, second.expect("staged"), 5) } else { (1, first, 3) };
            apply(&mut *sink, decided, &payload);
            expect(&target, 1..next_id, &format!("after a crash at step {step} and recovery"));
            assert_eq!(sink.applied().expect("the target answers"), Some(CheckpointId(decided)));
            let again = stage(&mut *sink, next_id..7, decided + 1);
            apply(&mut *sink, decided + 1, &again);
            apply(&mut *sink, decided + 1, &again);
            expect(&target, 1..7, &format!("after a crash at step {step} and going on"));
        }
    }
}

fn undecided_rows_never_appear(target: &impl Target) {
    let mut sink = open(target, true);
    let first = stage(&mut *sink, 1..3, 1);
    let _second = stage(&mut *sink, 100..110, 2);
    let _third = stage(&mut *sink, 110..120, 3);
    drop(sink);
    let mut sink = open(target, false);
    expect(target, 1..1, "opening shows nothing");
    apply(&mut *sink, 1, &first);
    expect(target, 1..3, "only the decided checkpoint is shown");
    let fourth = stage(&mut *sink, 3..5, 4);
    apply(&mut *sink, 4, &fourth);
    drop(sink);
    let mut sink = open(target, false);
    apply(&mut *sink, 4, &fourth);
    expect(target, 1..5, "rows of undecided checkpoints stay away for good");
}

fn checkpoint_without_rows_is_applied_too(target: &impl Target) {
    let mut sink = open(target, true);
    let first = stage(&mut *sink, 1..3, 1);
    apply(&mut *sink, 1, &first);
    let second = sink.stage(CheckpointId(2)).expect("nothing is staged");
    apply(&mut *sink, 2, &second);
    assert_eq!(sink.applied().expect("the target answers"), Some(CheckpointId(2)));
    drop(sink);
    let mut sink = open(target, false);
    assert_eq!(sink.applied().expect("the target answers"), Some(CheckpointId(2)), "right after opening");
    apply(&mut *sink, 2, &second);
    let third = stage(&mut *sink, 3..4, 3);
    apply(&mut *sink, 3, &third);
    expect(target, 1..4, "going on after a checkpoint without rows");
}

fn abandoned_checkpoint_is_carried_by_the_next(target: &impl Target) {
    let mut sink = open(target, true);
    let _abandoned = stage(&mut *sink, 1..3, 1);
    let second = stage(&mut *sink, 3..5, 2);
    drop(sink);
    let mut sink = open(target, false);
    apply(&mut *sink, 2, &second);
    expect(target, 1..5, "what an abandoned checkpoint staged comes with the next");
}

fn fresh_start_begins_at_no_checkpoint(target: &impl Target) {
    let mut sink = open(target, true);
    for checkpoint in 1..4 {
        let payload = stage(&mut *sink, checkpoint..checkpoint + 1, checkpoint as u64);
        apply(&mut *sink, checkpoint as u64, &payload);
    }
    let _undecided = stage(&mut *sink, 100..101, 4);
    drop(sink);
    let mut sink = open(target, true);
    assert_eq!(sink.applied().expect("the target answers"), None, "an earlier run does not count");
    expect(target, 1..1, "output of the sink's own earlier run is replaced");
    let first = stage(&mut *sink, 1..3, 1);
    apply(&mut *sink, 1, &first);
    expect(target, 1..3, "checkpoint 1 of the new run is shown");
}

/// Every promise of a sink that shows rows at once; writing a row again changes nothing visible where `converges`.
pub(super) fn check_at_once<T: Target>(make: impl Fn() -> T, converges: bool) {
    let target = make();
    let mut sink = open(&target, true);
    sink.write(&batch(1..3)).expect("rows are taken");
    expect(&target, 1..3, "rows are visible as soon as they are written");
    let first = sink.stage(CheckpointId(1)).expect("everything is out");
    apply(&mut *sink, 1, &first);
    sink.write(&batch(3..5)).expect("rows are taken");
    drop(sink);
    let mut sink = open(&target, false);
    expect(&target, 1..5, "a crash takes nothing back");
    apply(&mut *sink, 1, &first);
    assert_eq!(sink.applied().expect("the target answers"), Some(CheckpointId(1)));
    sink.write(&batch(3..5)).expect("rows are taken");
    if converges {
        expect(&target, 1..5, "rows written again leave the same table");
    } else {
        assert!(target.visible().len() > 4 || target.visible().iter().any(|row| row.contains("\"n\":6")));
    }
}
