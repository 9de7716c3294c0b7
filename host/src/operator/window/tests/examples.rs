//! The worked examples: twelve rides in two cities, per record, bound 30 s.

use super::harness::{Fed, MINUTE, count, settings};
use dataflow::time::END;

const NINE: i64 = 9 * 60 * MINUTE;

/// City, seconds after 09:00:00, and the watermark after the record, as seconds before or after 09:00:00.
const RIDES: [(&str, i64, i64); 12] = [
    ("Pune", 5, -25),
    ("Mumbai", 20, -10),
    ("Pune", 40, 10),
    ("Pune", 55, 25),
    ("Mumbai", 70, 40),
    ("Pune", 50, 40),
    ("Pune", 90, 60),
    ("Pune", 105, 75),
    ("Pune", 58, 75),
    ("Mumbai", 125, 95),
    ("Pune", 140, 110),
    ("Pune", 160, 130),
];

/// What came out at which record, counted from 1; 13 is the end of input. The window is given as minutes after 09:00.
fn run(lateness: i64, restart_before: Option<usize>) -> (Vec<(usize, Vec<String>)>, Fed) {
    let mut fed = Fed::new(settings(lateness), count());
    let mut sent = vec![];
    for (index, (city, at, watermark)) in RIDES.iter().enumerate() {
        if restart_before.is_none_or(|at| at == index) {
            fed.restart();
        }
        fed.feed(&[(city, NINE + at * 1000, 0)]);
        if restart_before.is_none_or(|at| at == index) {
            fed.restart();
        }
        fed.advance(NINE + watermark * 1000);
        sent.push((index + 1, fed.panes()));
    }
    fed.advance(END);
    sent.push((13, fed.panes()));
    sent.retain(|(_, panes)| !panes.is_empty());
    for (_, panes) in &mut sent {
        panes.iter_mut().for_each(|pane| *pane = pane.replace(" 540 ", " 09:00 ").replace(" 541 ", " 09:01 "));
        panes.iter_mut().for_each(|pane| *pane = pane.replace(" 542 ", " 09:02 "));
    }
    (sent, fed)
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

fn without_lateness() -> Vec<(usize, Vec<String>)> {
    vec![
        (7, owned(&["Pune 09:00 on_time 0 4", "Mumbai 09:00 on_time 0 1"])),
        (12, owned(&["Pune 09:01 on_time 0 2", "Mumbai 09:01 on_time 0 1"])),
        (13, owned(&["Pune 09:02 end_of_input 0 2", "Mumbai 09:02 end_of_input 0 1"])),
    ]
}

fn with_a_minute_of_lateness() -> Vec<(usize, Vec<String>)> {
    let mut expected = without_lateness();
    expected.insert(1, (9, owned(&["Pune 09:00 late 1 5"])));
    expected
}

#[test]
fn without_lateness_the_ninth_ride_is_dropped_and_counted() {
    let (sent, fed) = run(0, Some(0));
    assert_eq!(sent, without_lateness());
    assert_eq!(fed.metrics.late_records_dropped.get(), 1);
    assert_eq!(fed.rows_kept(), 0);
}

#[test]
fn with_lateness_the_ninth_ride_makes_a_late_pane_for_its_city_alone() {
    let (sent, fed) = run(MINUTE, Some(0));
    assert_eq!(sent, with_a_minute_of_lateness());
    assert_eq!(fed.metrics.late_records_dropped.get(), 0);
}

#[test]
fn a_restart_at_any_record_changes_no_pane() {
    for at in 0..RIDES.len() {
        assert_eq!(run(0, Some(at)).0, without_lateness());
        assert_eq!(run(MINUTE, Some(at)).0, with_a_minute_of_lateness());
    }
    assert_eq!(run(MINUTE, None).0, with_a_minute_of_lateness());
}

#[test]
fn state_is_freed_when_the_watermark_reaches_end_plus_lateness() {
    let mut fed = Fed::new(settings(MINUTE), count());
    fed.feed(&[("Pune", NINE, 0), ("Mumbai", NINE, 0)]);
    fed.advance(NINE + 2 * MINUTE - 1);
    assert_eq!(fed.rows_kept(), 2);
    fed.advance(NINE + 2 * MINUTE);
    assert_eq!(fed.rows_kept(), 0);
}
