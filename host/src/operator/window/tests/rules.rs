//! The rules of windows one by one.

use super::super::{BuiltIn, WindowFactory, WindowSettings};
use super::harness::{Fed, MINUTE, batch, count, count_and_sum, retracted, settings, task};
use crate::operator::OperatorFactory;
use bytes::Bytes;
use dataflow::aggregate::{Aggregate, Function};
use dataflow::key::Keying;
use dataflow::record::{Batch, Column, Fault, Origin, Raw, Value, ValueType};
use dataflow::time::END;
use std::sync::Arc;

#[test]
fn a_record_at_the_end_of_a_window_counts_for_the_next() {
    let mut fed = Fed::new(settings(0), count());
    fed.feed(&[("Pune", MINUTE - 1, 0), ("Pune", MINUTE, 0), ("Pune", -1, 0)]);
    fed.advance(MINUTE);
    assert_eq!(fed.panes(), ["Pune -1 on_time 0 1", "Pune 0 on_time 0 1"]);
    fed.advance(END);
    assert_eq!(fed.panes(), ["Pune 1 end_of_input 0 1"]);
}

#[test]
fn late_records_go_to_their_output_untouched() {
    let mut fed = Fed::new(settings(0), count());
    fed.advance(MINUTE);
    let raw = Raw { slab: Bytes::from_static(b"onetwo"), spans: vec![(0, 3), (3, 6)] };
    let origin = Origin { partition: "rides.ndjson".into(), places: vec![7, 8] };
    let mixed = batch(&[("Pune", MINUTE, 1), ("Mumbai", 5, 2)]);
    fed.try_feed(Batch { raw: Some(raw), origin: Some(origin), ..mixed }).unwrap();
    let late = fed.late();
    assert_eq!(late.len(), 1);
    assert_eq!((late[0].timestamps.clone(), late[0].raw.as_ref().unwrap().get(0)), (vec![5], Some(&b"two"[..])));
    assert_eq!(late[0].columns[0].get(0), Value::Text("Mumbai"));
    assert_eq!(late[0].origin.as_ref().unwrap().places, [8]);
    assert_eq!(fed.metrics.late_records_dropped.get(), 1);
}

#[test]
fn nobody_reading_late_records_they_are_only_counted() {
    let mut fed = Fed::new(WindowSettings { late_output: false, ..settings(0) }, count());
    fed.advance(MINUTE);
    fed.feed(&[("Pune", 5, 0)]);
    assert!(fed.late().is_empty());
    assert_eq!(fed.metrics.late_records_dropped.get(), 1);
}

#[test]
fn a_late_record_behind_the_watermark_of_an_open_window_still_counts_on_time() {
    let mut fed = Fed::new(settings(0), count());
    fed.advance(MINUTE - 1);
    fed.feed(&[("Pune", 5, 0)]);
    fed.advance(MINUTE);
    assert_eq!(fed.panes(), ["Pune 0 on_time 0 1"]);
}

#[test]
fn a_key_first_seen_after_its_window_has_fired_begins_with_a_late_pane() {
    let mut fed = Fed::new(settings(MINUTE), count());
    fed.advance(MINUTE);
    fed.feed(&[("Pune", 5, 0), ("Pune", 6, 0)]);
    fed.restart();
    fed.feed(&[("Pune", 7, 0)]);
    assert_eq!(fed.panes(), ["Pune 0 late 0 1", "Pune 0 late 1 2", "Pune 0 late 2 3"]);
    fed.advance(2 * MINUTE);
    assert_eq!((fed.panes(), fed.rows_kept()), (vec![], 0));
}

#[test]
fn windows_fire_in_time_order_and_keys_in_byte_order() {
    let mut fed = Fed::new(settings(0), count());
    fed.feed(&[("b", MINUTE, 0), ("c", 0, 0), ("a", MINUTE, 0), ("a", 0, 0)]);
    fed.advance(END);
    let panes: Vec<String> = fed.panes().iter().map(|pane| pane[..3].to_string()).collect();
    assert_eq!(panes, ["a 0", "c 0", "a 1", "b 1"]);
}

#[test]
fn rows_taken_back_leave_no_pane_unless_one_was_sent() {
    let retracting = WindowSettings { input_retracts: true, ..settings(MINUTE) };
    let mut fed = Fed::new(retracting, count_and_sum(true));
    fed.feed(&[("Pune", 5, 7), ("Mumbai", 5, 7), ("Mumbai", 6, 1)]);
    fed.try_feed(retracted(&[("Pune", 5, 7), ("Mumbai", 6, 1)])).unwrap();
    fed.advance(MINUTE);
    assert_eq!(fed.panes(), ["Mumbai 0 on_time 0 1 7"]);
    fed.try_feed(retracted(&[("Mumbai", 5, 7)])).unwrap();
    assert_eq!(fed.panes(), ["Mumbai 0 late 1 0 Absent"]);
}

#[test]
fn what_cannot_be_undone_is_refused_behind_an_input_that_retracts() {
    let max = Aggregate { function: Function::Max, field: Some((1, ValueType::Int)) };
    let max = Arc::new(BuiltIn::new(&[("/max".to_string(), max)], false).unwrap());
    let refused = WindowFactory::new(WindowSettings { input_retracts: true, ..settings(0) }, max);
    assert!(refused.err().unwrap().to_string().contains("takes rows back"));
}

#[test]
fn a_row_that_takes_back_what_cannot_be_undone_is_put_aside() {
    let max = Aggregate { function: Function::Max, field: Some((1, ValueType::Int)) };
    let max = Arc::new(BuiltIn::new(&[("/max".to_string(), max)], false).unwrap());
    let mut fed = Fed::new(settings(0), max);
    fed.feed(&[("Pune", 5, 7), ("Pune", 5, 9)]);
    fed.try_feed(retracted(&[("Pune", 5, 9)])).unwrap();
    fed.advance(END);
    assert_eq!((fed.panes(), fed.out.dead.len()), (vec!["Pune 0 end_of_input 0 9".to_string()], 1));
    assert!(fed.out.dead[0].reason.contains("cannot undo"), "{}", fed.out.dead[0].reason);
}

#[test]
fn lengths_that_make_no_window_are_refused() {
    let no_extent = WindowFactory::new(WindowSettings { size_ms: 0, ..settings(0) }, count());
    assert_eq!(no_extent.err().unwrap().to_string(), "a window of 0 ms: a window's size must be at least 1 ms");
    assert!(WindowFactory::new(settings(-1), count()).is_err());
}

#[test]
fn a_value_that_could_not_be_taken_puts_its_record_aside() {
    let mut fed = Fed::new(settings(0), count_and_sum(false));
    let mut rows = batch(&[("Pune", 5, 0), ("Pune", 6, 3)]);
    rows.columns[1] = Column::new(ValueType::Int);
    rows.columns[1].push_absent();
    rows.columns[1].push(Value::Int(3));
    rows.faults.push(Fault { row: 0, column: 1, found: "an object" });
    fed.try_feed(rows).unwrap();
    fed.advance(END);
    assert_eq!(fed.panes(), ["Pune 0 end_of_input 0 1 3"]);
    assert_eq!(fed.out.dead[0].reason, "field `/fare`, which the window aggregates, is an object: expected int");
    assert_eq!((fed.out.dead[0].node.as_str(), fed.out.dead[0].timestamp), ("per-minute", Some(5)));
}

#[test]
fn one_key_field_is_called_key_and_several_keep_their_names() {
    let pointers = |key: &[&str]| -> Vec<String> {
        let key = key.iter().map(ToString::to_string).collect();
        let factory = WindowFactory::new(WindowSettings { key, ..settings(0) }, count()).unwrap();
        factory.schema().fields.into_iter().map(|field| field.pointer).collect()
    };
    let rest = ["/window_start", "/window_end", "/pane/timing", "/pane/index", "/count"];
    assert_eq!(pointers(&["/city"]), [&["/key"], &rest[..]].concat());
    assert_eq!(pointers(&["/city", "/car"]), [&["/city", "/car"], &rest[..]].concat());
}

#[test]
fn a_key_of_several_fields_comes_out_part_by_part() {
    let key = vec!["/city".to_string(), "/stars".to_string()];
    let mut fed = Fed::new(WindowSettings { key, ..settings(0) }, count());
    let mut rows = batch(&[("Pune", 5, 4)]);
    rows.keys = Some(Keying::default().keys(1, &[&rows.columns[0], &rows.columns[1]]).0);
    fed.try_feed(rows).unwrap();
    fed.advance(END);
    let (_, pane) = &fed.out.batches[0];
    assert_eq!((pane.columns[0].get(0), pane.columns[1].get(0)), (Value::Text("Pune"), Value::Int(4)));
}

#[test]
fn a_window_without_key_has_one_pane_and_runs_in_one_task() {
    let mut fed = Fed::new(WindowSettings { key: vec![], ..settings(0) }, count());
    fed.try_feed(Batch { keys: None, ..batch(&[("Pune", 5, 0), ("Mumbai", 6, 0)]) }).unwrap();
    fed.advance(END);
    assert_eq!(fed.out.batches[0].1.columns[4].get(0), Value::Int(2));
    let two = crate::operator::TaskInfo { parallelism: 2, ..task() };
    assert!(fed.factory.create(&two).is_err());
}

#[test]
fn state_of_other_aggregates_is_refused_rather_than_misread() {
    let mut fed = Fed::new(settings(0), count_and_sum(false));
    fed.feed(&[("Pune", 5, 1)]);
    fed.restart_with(settings(0), count());
    let refused = fed.try_feed(batch(&[("Pune", 6, 1)])).unwrap_err();
    assert!(refused.to_string().contains("computed by other aggregates"));
}

#[test]
fn a_window_that_has_fired_stays_so_after_a_restore_to_a_watermark_before_its_end() {
    let mut fed = Fed::new(settings(MINUTE), count());
    fed.feed(&[("Pune", 5, 0)]);
    fed.advance(MINUTE);
    // A cut within the advance of a chain: this operator has fired, the watermark does not count as reached yet.
    fed.watermark = 0;
    fed.restart();
    fed.feed(&[("Pune", 6, 0), ("Pune", MINUTE, 0)]);
    assert_eq!(fed.panes(), ["Pune 0 on_time 0 1", "Pune 0 late 1 2"]);
    fed.advance(2 * MINUTE);
    assert_eq!(fed.panes(), ["Pune 1 on_time 0 1"]);
}
