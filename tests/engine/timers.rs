//! Timers through a guest. An alarm says its payload, and when it was due.

use super::rig::rig;
use dataflow::key::push_part;
use dataflow::record::Value;

#[test]
fn due_timers_fire_in_time_order_and_once() {
    let mut rig = rig();
    rig.rows(&[("a", "alarm", 300, 1), ("b", "alarm", 100, 1), ("c", "alarm", 200, 1)]);
    assert!(rig.watermark(99).said.is_empty());
    let fired = rig.watermark(250);
    assert_eq!(fired.said, [(100, "ring".into()), (200, "ring".into())]);
    assert_eq!(fired.times, [100, 200], "an output has the timer's time");
    assert_eq!(rig.watermark(1000).numbers(), [300]);
    assert!(rig.watermark(2000).said.is_empty());
}

#[test]
fn setting_a_timer_again_replaces_it_and_removing_it_removes_it() {
    let mut rig = rig();
    rig.rows(&[("a", "alarm", 100, 1), ("a", "alarm", 200, 1), ("b", "alarm", 100, 1)]);
    rig.rows(&[("b", "silence", 0, 1)]);
    assert_eq!(rig.watermark(500).numbers(), [200]);
}

#[test]
fn processing_time_timers_fire_by_the_clock() {
    let mut rig = rig();
    rig.rows(&[("a", "tick", 50, 1)]);
    assert!(rig.watermark(1000).said.is_empty());
    assert!(rig.clock(49).said.is_empty());
    assert_eq!(rig.clock(50).said, [(50, "tick".into())]);
}

#[test]
fn a_timer_that_fails_is_put_aside_and_counts_as_fired() {
    for (deed, reason) in
        [("trapping alarm", "timer `alarm`: the guest trapped"), ("refusing alarm", "not to my taste")]
    {
        let mut rig = rig();
        rig.rows(&[("a", "alarm", 1, 0), ("b", deed, 2, 0), ("c", "alarm", 3, 0)]);
        let fired = rig.watermark(10);
        assert_eq!(fired.numbers(), [1, 3], "{deed}");
        let letter = &fired.dead[0];
        assert!(letter.reason.contains(reason), "{}", letter.reason);
        let mut key = vec![];
        push_part(&mut key, Value::Text("b"));
        assert_eq!((letter.key.as_ref(), letter.timestamp), (Some(&key), Some(2)));
        assert!(letter.value.is_some(), "its payload");
        assert!(rig.watermark(100).dead.is_empty(), "{deed}");
    }
}

#[test]
fn more_timers_than_one_call_takes_fire_all_the_same() {
    let mut rig = rig();
    let keys: Vec<String> = (0..3000).map(|key| format!("key-{key}")).collect();
    let rows: Vec<_> = keys.iter().enumerate().map(|(at, key)| (key.as_str(), "alarm", 5000 - at as i64, 0)).collect();
    rig.rows(&rows);
    let numbers = rig.watermark(5000).numbers();
    assert_eq!(numbers, (2001..=5000).collect::<Vec<i64>>());
}
