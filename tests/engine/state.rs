//! State through a guest: prefetched values, values, lists and maps on demand, time to live, and values of older versions.

use super::rig::{Rig, hostile, hostile_next, rig, settings};
use dataflow::time::END;

#[test]
fn a_prefetched_value_is_each_keys_own_and_is_kept() {
    let mut rig = rig();
    assert_eq!(rig.rows(&[("a", "count", 0, 1), ("b", "count", 0, 1), ("a", "count", 0, 2)]).numbers(), [1, 1, 2]);
    assert_eq!(rig.rows(&[("b", "count", 0, 3), ("a", "count", 0, 3)]).numbers(), [2, 3]);
}

#[test]
fn states_on_demand_see_the_calls_own_writes_and_are_kept() {
    let mut rig = rig();
    let output = rig.rows(&[("a", "write", 1, 1), ("a", "write", 2, 1), ("b", "write", 3, 1)]);
    assert_eq!(output.said, [(0, String::new()), (0, "1".into()), (0, String::new())]);
    assert_eq!(rig.rows(&[("a", "append", 2, 1), ("a", "append", 3, 1)]).numbers(), [2, 5]);
    assert_eq!(rig.rows(&[("b", "append", 9, 1), ("a", "append", 4, 1)]).numbers(), [9, 9]);
    assert_eq!(rig.rows(&[("a", "entry", 7, 1)]).said, [(7, "sum".into())]);
    assert_eq!(rig.rows(&[("a", "write", 0, 1), ("b", "write", 0, 1)]).said, [(0, "2".into()), (0, "3".into())]);
}

/// The TTL is a second. What a row sees is the same however the rows are cut into batches.
#[test]
fn a_prefetched_value_expires_for_each_row_by_the_rows_own_time() {
    let rows = [
        ("a", "recent", 1, 0),     // sees nothing
        ("a", "recent", 2, 999),   // 1, whose stamp is 1000
        ("a", "recent", 3, 1_999), // nothing: the stamp of 2 is 1999
        ("b", "recent", 4, 2_000), // nothing, another key
        ("a", "recent", 5, 2_500), // 3
        ("a", "recent", 6, 9_000), // nothing
    ];
    let expected = [-1, 1, -1, -1, 3, -1];
    assert_eq!(rig().rows(&rows).numbers(), expected, "in one batch");
    for size in 1..rows.len() {
        let mut rig = rig();
        let numbers: Vec<i64> = rows.chunks(size).flat_map(|rows| rig.rows(rows).numbers()).collect();
        assert_eq!(numbers, expected, "in batches of {size}");
    }
}

#[test]
fn what_a_late_row_writes_is_gone_at_once() {
    let rows = [("a", "recent", 1, 100), ("a", "recent", 2, 101)];
    let mut whole = rig();
    whole.watermark(1_100);
    assert_eq!(whole.rows(&rows).numbers(), [-1, -1], "the stamp 1100 is not above the watermark");
    let mut ended = rig();
    ended.watermark(END);
    assert_eq!(ended.rows(&rows).numbers(), [-1, 1], "at the end of event time the rows' own times decide");
}

#[test]
fn a_value_of_an_older_version_is_migrated_when_it_is_first_touched() {
    let mut old = rig();
    old.rows(&[("a", "count", 0, 1), ("a", "count", 0, 1), ("b", "count", 0, 1)]);
    let mut next = old.swapped(hostile_next(), settings()).unwrap();
    // Two counts were 20 in the next version's terms, one was 10.
    assert_eq!(next.rows(&[("a", "count", 0, 1), ("c", "count", 0, 1)]).numbers(), [21, 1]);
    assert_eq!(next.rows(&[("a", "count", 0, 1), ("b", "count", 0, 1)]).numbers(), [22, 11]);
}

#[test]
fn a_migration_that_fails_fails_the_job() {
    let mut old = rig();
    old.rows(&[("a", "count", 0, 1); 13]);
    let error = old.swapped(hostile_next(), settings()).unwrap().try_rows(&[("a", "count", 0, 1)]).unwrap_err();
    assert!(format!("{error:#}").contains("migrating state `count` from version 1: 13 brings bad luck"), "{error:#}");
}

#[test]
fn a_value_of_a_newer_version_is_refused_by_name() {
    let mut next = Rig::new(hostile_next(), settings()).unwrap();
    next.rows(&[("a", "count", 0, 1)]);
    let error = next.swapped(hostile(), settings()).unwrap().try_rows(&[("a", "count", 0, 1)]).unwrap_err();
    assert!(format!("{error:#}").contains("state `count` holds values of version 2"), "{error:#}");
}
