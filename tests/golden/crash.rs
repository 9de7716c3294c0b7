//! Through crashes: the process dies at seeded moments of the named steps, runs again, and must end with the same rows. And the
//! worked example of a crash, to the number.

use super::case::{Rows, Stage, all, pause, settled};
use millstream_tests::chance::{Chance, seed, tell_kills};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Steps at which the process dies, whatever source, operator or sink comes to them.
pub(crate) const STEPS: [&str; 14] = [
    "source/*/record",
    "exchange/*/barrier",
    "operator/*/batch",
    "state/*/frozen",
    "state/*/applied",
    "state/*/stored",
    "sink/*/written",
    "sink/*/staged",
    "sink/*/applied",
    "checkpoint/complete",
    "checkpoint/manifest",
    "checkpoint/decided",
    "restore/*",
    "checkpoint/retained",
];

/// Each step must have been hit so often over all cases, or the test has shown nothing of it.
const HITS_MIN: u32 = 3;

/// Often enough that something is decided before the end.
const CHECKPOINTS: &str = "checkpoint: { every: 3 records }";

#[test]
fn every_case_gives_the_same_rows_after_crashes_at_any_step() {
    let mut chance = Chance::new(seed(), "golden crashes");
    let mut hits: BTreeMap<&str, u32> = STEPS.iter().map(|&step| (step, 0)).collect();
    for case in all().into_iter().filter(|case| !case.may_repeat()) {
        for step in STEPS {
            // A barrier waits for others only where there are several.
            let before = 1 + u64::from(step.starts_with("exchange"));
            let stage = case.stage(&format!("{CHECKPOINTS}\nparallelism: {before}"));
            let (expected, backend) = (case.expected(), backend(&mut chance));
            if step.starts_with("restore") {
                // Nothing is restored before something has been kept.
                assert!(!stage.run_with(&[FAIL_AT_DECISION, backend]).status.success(), "{} is killed", case.name);
            }
            let fail_at = format!("{step}:{}", if step.starts_with("restore") { 1 } else { 1 + chance.between(0, 3) });
            let died = !stage.run_with(&[("MILLSTREAM_FAIL_AT", &fail_at), backend]).status.success();
            *hits.get_mut(step).expect("every step is counted") += u32::from(died);
            let tasks = chance.between(1, 4);
            if died {
                stage.replace(&format!("parallelism: {before}"), &format!("parallelism: {tasks}"));
                stage.finish_with(&[backend]);
            }
            let rows = stage.rows(&expected);
            let what = format!("{} after {fail_at} in {tasks} tasks, {}", case.name, backend.1);
            if case.is_exact() && before.max(tasks) == 1 {
                assert_eq!(rows, expected, "{what}");
            } else {
                assert_eq!(settled(rows), settled(expected), "{what}");
            }
        }
    }
    tell_kills(hits.values().sum(), &format!("{hits:?}"));
    assert!(hits.values().all(|&hit| hit >= HITS_MIN), "every step is hit at least {HITS_MIN} times: {hits:?}");
}

const FAIL_AT_DECISION: (&str, &str) = ("MILLSTREAM_FAIL_AT", "checkpoint/decided");

#[test]
fn every_case_shows_its_last_rows_when_it_died_between_deciding_and_applying_them() {
    for case in all().into_iter().filter(|case| !case.may_repeat()) {
        // Nothing but the last checkpoint is taken.
        let (stage, expected) = (case.stage("checkpoint: { every: 1h }"), case.expected());
        assert!(!stage.run_with(&[FAIL_AT_DECISION]).status.success(), "{} is killed", case.name);
        stage.finish();
        assert_eq!(stage.rows(&expected), expected, "{}", case.name);
    }
}

/// Where state is kept.
fn backend(chance: &mut Chance) -> (&'static str, &'static str) {
    ("MILLSTREAM_STATE_BACKEND", ["memory", "rocksdb"][usize::from(chance.draw() % 2 == 1)])
}

#[test]
fn every_case_gives_the_same_rows_when_it_is_killed_at_any_moment() {
    let mut chance = Chance::new(seed(), "golden kills");
    let mut killed = 0;
    for case in all().into_iter().filter(|case| !case.may_repeat()) {
        let (stage, expected) = (case.stage(CHECKPOINTS), case.expected());
        let backend = backend(&mut chance);
        for _ in 0..3 {
            let slowly = [("MILLSTREAM_BATCH_RECORDS", "1"), ("MILLSTREAM_PACE_MS", "10"), backend];
            let mut running = stage.start(&slowly);
            pause(chance.between(0, 250));
            running.kill().expect("it is ours");
            killed += u32::from(!running.wait().expect("it has ended").success());
        }
        stage.finish_with(&[backend]);
        assert_eq!(settled(stage.rows(&expected)), settled(expected), "{} with {}", case.name, backend.1);
    }
    tell_kills(killed, "at any moment");
    assert!(killed >= 10, "most are killed before their end: {killed}");
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

#[test]
fn counts_of_every_node_go_on_after_a_crash_as_if_nothing_had_happened() {
    let case = all().into_iter().find(|case| case.name == "sink-rows/job").expect("the case is there");
    let counts = |said: &str| -> BTreeMap<String, [String; 2]> {
        let words = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // Name, in, out, late, dead, and how the time was spent.
        let nodes = words.filter(|words| words.len() == 8 && words[7].ends_with('%'));
        nodes.map(|words| (words[0].to_string(), [words[1].to_string(), words[4].to_string()])).collect()
    };
    let run = |stage: &Stage, fail_at: &str| {
        String::from_utf8_lossy(
            &stage.run_with(&[("MILLSTREAM_FAIL_AT", fail_at), ("MILLSTREAM_BATCH_RECORDS", "1")]).stderr,
        )
        .into_owned()
    };
    let straight = counts(&run(&case.stage(CHECKPOINTS), ""));
    // Of six rides three have no key for `board`, and one of the two panes none for `dearest`.
    let expected = [("rides", ["6", "0"]), ("rows", ["6", "0"]), ("board", ["3", "3"]), ("dearest", ["1", "1"])];
    for (node, counted) in expected {
        assert_eq!(straight[node], counted.map(String::from), "{node}");
    }
    let stage = case.stage(CHECKPOINTS);
    run(&stage, "checkpoint/decided:1,sink/rows/written:5");
    let again = run(&stage, "");
    assert!(again.contains("goes on from checkpoint 1"), "{again}");
    assert_eq!(counts(&again), straight);
}
