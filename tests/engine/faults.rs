//! A guest that goes wrong on a row: that row is put aside with its reason, the others are as if it had never been.

use super::rig::{Rig, hostile, rig, settings};
use millstream::engine::Limits;
use millstream::operator::guest::{GuestSettings, OnError};
use std::time::Duration;

/// Counts before and after a row that does `deed`; the row must be put aside for a reason that says `reason`, and nothing
/// else may be different.
fn only_the_guilty_row_suffers(deed: &str, reason: &str) {
    suffers(&mut rig(), deed, reason);
}

fn suffers(rig: &mut Rig, deed: &str, reason: &str) {
    let output = rig.rows(&[
        ("a", "count", 0, 1),
        ("a", "write", 5, 2),
        ("a", deed, 0, 3),
        ("b", "count", 0, 4),
        ("a", "count", 0, 5),
    ]);
    assert_eq!(output.numbers(), [1, 0, 1, 2], "{deed}: the other rows' outputs: {output:?}");
    assert_eq!(output.lines, [1, 2, 4, 5]);
    assert_eq!(output.dead.len(), 1, "{deed}");
    let letter = &output.dead[0];
    assert!(letter.reason.contains(reason), "{deed}: `{}` does not say `{reason}`", letter.reason);
    assert_eq!((letter.partition.as_deref(), letter.place), (Some("deeds.csv"), Some(3)));
    assert_eq!((letter.timestamp, letter.node.as_str()), (Some(3), "hostile"));
    assert_eq!(letter.value.as_deref(), Some(format!("a {deed} 0").as_bytes()));
    assert_eq!(letter.component.as_deref(), Some(hostile().digest()));
    // What the failing call had written is gone, what the others wrote is there.
    let after = rig.rows(&[("a", "write", 0, 6), ("a", "append", 7, 6), ("a", "count", 0, 6)]);
    assert_eq!(after.said, [(0, "5".into()), (7, String::new()), (3, String::new())], "{deed}");
}

macro_rules! faults {
    ($($name:ident: $deed:literal, $reason:literal;)*) => { $(
        #[test]
        fn $name() {
            only_the_guilty_row_suffers($deed, $reason);
        }
    )* };
}

faults! {
    a_trap_costs_its_row: "trap", "unreachable";
    growing_without_end_costs_its_row: "grow", "bytes of memory, may have 67108864";
    recursing_without_end_costs_its_row: "recurse", "call stack exhausted";
    a_row_refused_by_the_guest_is_put_aside: "refuse", "not to my taste";
    refusing_a_row_of_another_call_is_a_bad_answer: "refuse another", "a bad row 4096 in a call of 1 rows";
    a_failure_that_names_no_row_is_a_bad_answer: "refuse none", "names no row";
    a_failed_call_is_a_fault: "fail", "no good";
    ends_beyond_the_bytes_are_a_bad_answer: "ends beyond", "end at 9 in 3 bytes";
    ends_that_fall_are_a_bad_answer: "ends falling", "ends fall";
    text_that_is_not_utf8_is_a_bad_answer: "not utf-8", "not UTF-8";
    a_column_of_another_type_is_a_bad_answer: "wrong type", "int where one of text";
    a_column_of_another_length_is_a_bad_answer: "wrong length", "2 values where 1";
    a_missing_column_is_a_bad_answer: "wrong columns", "1 columns, but declares 2";
    bytes_for_columns_are_a_bad_answer: "bytes for columns", "bytes, but declares columns";
    timestamps_of_another_length_are_a_bad_answer: "wrong times", "2 timestamps for 1 rows";
    a_timestamp_beyond_the_year_9998_is_a_bad_answer: "far time", "the timestamp 9223372036854775807";
    changes_of_another_length_are_a_bad_answer: "wrong changes", "3 changes for 1 rows";
    an_origin_out_of_the_call_is_a_bad_answer: "strange origin", "an origin 4096";
    an_unknown_port_is_a_bad_answer: "strange port", "output 9 of 2";
    passing_a_row_of_another_call_is_a_bad_answer: "strange pass", "a passed row 4096";
    passing_rows_to_an_output_with_columns_is_a_bad_answer: "pass to columns", "declares columns";
    too_much_output_costs_its_row: "much", "a call may put out 33554432";
    a_gigabyte_of_output_is_never_copied: "gigabyte", "more bytes than one call may";
    state_of_a_row_of_another_call_traps: "strange row", "row 1 is not in this call";
    an_unknown_state_traps: "strange state", "state 77 of 5";
    asking_for_a_prefetched_state_traps: "prefetched state", "`count` is prefetched";
    asking_a_value_for_its_length_traps: "list of a value", "`note` is not of the kind";
    writing_a_value_to_a_list_traps: "value of a list", "`items` is not of the kind";
    writing_a_value_of_another_type_traps: "ill-typed put", "int where one of text";
    writing_more_values_than_rows_traps: "ill-sized put", "2 values where 1";
    writing_a_value_with_false_ends_traps: "ill-ended put", "end at 70";
    writing_a_value_beyond_the_limit_traps: "large put", "a value of 5242880 bytes";
    writing_a_broadcast_map_by_a_keyed_row_traps: "broadcast", "only by rows of a broadcast input";
    what_a_trapping_call_wrote_is_gone: "write and trap", "unreachable";
    effects_for_an_unknown_state_are_a_bad_answer: "write elsewhere", "state 99 of 5";
    effects_for_a_row_of_another_call_are_a_bad_answer: "write others", "a row 4096";
    effects_of_another_type_are_a_bad_answer: "write badly", "text where one of int";
    an_unknown_timer_is_a_bad_answer: "strange timer", "timer 9 of 2";
    half_a_timer_is_a_bad_answer: "half a timer", "1 rows, 0 timers";
    an_unregistered_metric_traps: "strange metric", "metric 77 was not registered";
}

#[test]
fn a_loop_is_stopped_and_costs_its_row() {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let mut rig = Rig::new(hostile(), GuestSettings { limits, ..settings() }).unwrap();
    suffers(&mut rig, "loop", "took too long");
}

#[test]
fn a_trap_is_put_aside_with_the_guests_backtrace() {
    let output = rig().rows(&[("a", "trap", 0, 1)]);
    assert!(output.dead[0].backtrace.as_ref().unwrap().contains("hostile"), "{:?}", output.dead[0].backtrace);
}

#[test]
fn a_batch_that_fails_though_none_of_its_rows_does_is_made_smaller() {
    let mut rig = rig();
    let together = [("a", "together", 0, 1); 4];
    let output = rig.rows(&together);
    assert_eq!((output.numbers(), output.dead.len()), (vec![1; 4], 0));
    assert_eq!(rig.metrics.guest_faults.get(), 1);
    // From now on batches of two, for a while.
    assert_eq!(rig.rows(&[("a", "rows", 0, 1); 4]).numbers(), [2; 4]);
    for _ in 0..64 {
        rig.rows(&[("a", "rows", 0, 1)]);
    }
    assert_eq!(rig.rows(&[("a", "rows", 0, 1); 4]).numbers(), [4; 4]);
}

#[test]
fn guilty_rows_are_forgotten_if_the_job_says_so() {
    let mut rig = Rig::new(hostile(), GuestSettings { on_error: OnError::Skip, ..settings() }).unwrap();
    let output = rig.rows(&[("a", "trap", 0, 1), ("a", "refuse", 0, 1), ("a", "count", 0, 1)]);
    assert_eq!((output.numbers(), output.dead.len()), (vec![1], 0));
}

#[test]
fn a_guilty_row_fails_the_job_if_the_job_says_so() {
    let mut rig = Rig::new(hostile(), GuestSettings { on_error: OnError::Fail, ..settings() }).unwrap();
    let error = rig.try_rows(&[("a", "count", 0, 1), ("a", "refuse", 0, 1)]).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("failed on a record (deeds.csv, line 2): ") && said.contains("not to my taste"), "{said}");
}

#[test]
fn guilty_rows_in_a_row_open_the_breaker() {
    let mut rig = Rig::new(hostile(), GuestSettings { guilty_in_a_row: 3, ..settings() }).unwrap();
    let trap = ("a", "trap", 0, 1);
    assert_eq!(rig.rows(&[trap, trap, ("a", "count", 0, 1), trap, trap]).dead.len(), 4);
    let error = rig.try_rows(&[trap]).unwrap_err();
    assert!(
        error.to_string().contains("failed on 3 records in a row, the last (deeds.csv, line 6): the guest trapped"),
        "{error:#}"
    );
}

#[test]
fn a_record_without_a_required_field_is_put_aside_before_the_guest_sees_it() {
    let mut rig = rig();
    let mut batch = rig.batch(&[("a", "count", 0, 1), ("a", "rows", 0, 2)]);
    batch.columns[0].present = Some(vec![false, true]);
    let output = rig.try_batch(batch).unwrap();
    assert_eq!(output.numbers(), [1], "the guest sees one row");
    assert_eq!(output.dead[0].reason, "field `do` is missing, text is needed");
    assert_eq!(output.dead[0].place, Some(1));
    let mut failing = Rig::new(hostile(), GuestSettings { on_error: OnError::Fail, ..settings() }).unwrap();
    let mut batch = failing.batch(&[("a", "count", 0, 1)]);
    batch.columns[0].present = Some(vec![false]);
    let error = failing.try_batch(batch).unwrap_err();
    assert!(error.to_string().contains("field `do` is missing"), "{error:#}");
}

#[test]
fn rows_passed_on_are_the_rows_that_came() {
    let output = rig().rows(&[("a", "pass", 1, 1), ("a", "bytes", 42, 2), ("b", "pass", 3, 3)]);
    assert_eq!(output.raw, ["a pass 1", "42", "b pass 3"]);
    assert_eq!(output.lines, [1, 2, 3]);
}

#[test]
fn an_instance_can_be_replaced_between_any_two_calls() {
    let calls = [("a", "calls", 0, 1)];
    let mut kept = rig();
    assert_eq!((kept.rows(&calls).numbers(), kept.rows(&calls).numbers()), (vec![1], vec![2]));
    let mut replaced = Rig::new(hostile(), GuestSettings { replace_every_call: true, ..settings() }).unwrap();
    assert_eq!((replaced.rows(&calls).numbers(), replaced.rows(&calls).numbers()), (vec![1], vec![1]));
}

#[test]
fn talking_without_end_costs_nothing_but_lines() {
    assert_eq!(rig().rows(&[("a", "talk", 0, 1), ("a", "count", 0, 1)]).numbers(), [1]);
}
