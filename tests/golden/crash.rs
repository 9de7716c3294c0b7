//! Through crashes: the process dies at seeded moments of the named steps, runs again, and must end with the same rows. And the
//! worked example of a crash, to the number.

use super::case::{Case, Rows, all, settled};
use millstream_tests::chance::{Chance, seed};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Steps at which the process dies, for every source and sink where they have names.
const STEPS: [&str; 7] = [
    "source/{source}/record",
    "sink/{sink}/written",
    "sink/{sink}/staged",
    "sink/{sink}/applied",
    "checkpoint/complete",
    "checkpoint/manifest",
    "checkpoint/decided",
];

/// Each step must have been hit so often over all cases, or the test has shown nothing of it.
const HITS_MIN: u32 = 3;

#[test]
fn every_case_gives_the_same_rows_after_crashes_at_any_step() {
    let mut chance = Chance::new(seed(), "golden crashes");
    let mut hits: BTreeMap<&str, u32> = STEPS.iter().map(|&step| (step, 0)).collect();
    for case in all().into_iter().filter(|case| !case.may_repeat()) {
        for step in STEPS {
            let (stage, expected) = (case.stage("checkpoint: { every: 3 records }"), case.expected());
            let place = place(&case, step, &mut chance);
            let fail_at = format!("{place}:{}", 1 + chance.between(0, 3));
            let died = stage.run(&fail_at);
            *hits.get_mut(step).expect("every step is counted") += u32::from(!died.status.success());
            if !died.status.success() {
                stage.finish();
            }
            let rows = stage.rows(&expected);
            if case.is_exact() {
                assert_eq!(rows, expected, "{} after {fail_at}", case.name);
            } else {
                assert_eq!(settled(rows), settled(expected), "{} after {fail_at}", case.name);
            }
        }
    }
    assert!(hits.values().all(|&hit| hit >= HITS_MIN), "every step is hit at least {HITS_MIN} times: {hits:?}");
}

/// A step with a source or sink of the case in it.
fn place(case: &Case, step: &str, chance: &mut Chance) -> String {
    let mut pick = |section: &str| {
        let names = case.names(section);
        names[usize::try_from(chance.between(0, names.len() as u64 - 1)).expect("small")].clone()
    };
    match step {
        _ if step.contains("{source}") => step.replace("{source}", &pick("sources")),
        _ if step.contains("{sink}") => step.replace("{sink}", &pick("sinks")),
        _ => step.to_string(),
    }
}

/// The window of 09:00 was handed to every sink, and checkpoint 1, of the first four rides, is decided.
const AFTER_THE_SEVENTH_RIDE: &str =
    "checkpoint/decided:1,sink/adding/written:2,sink/upsert/written:2,sink/exact/written:2";

#[test]
fn crash_after_the_seventh_ride_shows_what_each_sink_promises() {
    let case = all().into_iter().find(|case| case.name == "crash/job").expect("the example is there");
    let expected = case.expected();
    let stage = case.stage("");
    assert!(!stage.run(AFTER_THE_SEVENTH_RIDE).status.success());
    let row = |key: &str, minute: &str, count: i64| json!({"key": key, "window_start": format!("2025-08-01T{minute}:00Z"), "count": count});
    let table = |rows: &Rows, name: &str| -> Vec<Value> { rows[&format!("board.db.{name}.ndjson")].clone() };
    let sorted = |mut rows: Vec<Value>| {
        rows.sort_by_key(Value::to_string);
        rows
    };
    let first = || vec![row("Mumbai", "09:00", 1), row("Pune", "09:00", 4)];
    let rest = || vec![row("Mumbai", "09:01", 1), row("Pune", "09:01", 2)];
    let crashed = stage.rows(&expected);
    assert_eq!(table(&crashed, "adding"), sorted(first()));
    assert_eq!(table(&crashed, "upsert"), sorted(first()));
    assert_eq!(table(&crashed, "exact"), Vec::<Value>::new(), "nothing is seen before a checkpoint covers it");
    let again = stage.run("");
    assert!(again.status.success());
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("goes on from checkpoint 1"), "it comes back at the fifth ride: {said}");
    let ended = stage.rows(&expected);
    let twice = vec![row("Mumbai", "09:00", 2), row("Pune", "09:00", 8)];
    assert_eq!(table(&ended, "adding"), sorted([twice, rest()].concat()));
    assert_eq!(table(&ended, "upsert"), sorted([first(), rest()].concat()));
    assert_eq!(table(&ended, "exact"), sorted([first(), rest()].concat()));
}
