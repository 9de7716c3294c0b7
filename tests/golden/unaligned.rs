//! Through crashes with checkpoints whose barriers overtake: operators and sinks are made slow, so that rows lie between tasks when
//! a barrier comes. The process dies at a named step, dies again once the rows on their way were given back, and ends with the same
//! rows, in the same number of tasks or another.

use super::case::{all, settled};
use millstream_tests::chance::{Chance, seed, tell_kills};
use std::collections::BTreeMap;

/// Steps at which the process dies.
const STEPS: [&str; 8] = [
    "operator/*/batch",
    "operator/*/slice",
    "operator/*/overtaken",
    "sink/*/overtaken",
    "in-flight/*/written",
    "sink/*/staged",
    "checkpoint/manifest",
    "checkpoint/decided",
];

/// Steps at which it dies the second time, when what was on its way has been given back.
const STEPS_AGAIN: [&str; 2] = ["operator/*/replayed", "sink/*/replayed"];

/// One record every 15 ms, which takes each operator 25 ms and each sink 35 ms: rows wait before both, and there are records left to
/// read when checkpoints come.
const SLOWLY: [(&str, &str); 3] = [
    ("MILLSTREAM_BATCH_RECORDS", "1"),
    ("MILLSTREAM_PACE_MS", "15"),
    ("MILLSTREAM_SLOW_AT", "operator/*/batch:25000,sink/*/written:35000"),
];

/// Each step must have been hit so often over all cases, or the test has shown nothing of it.
const HITS_MIN: u32 = 3;

#[test]
fn every_case_gives_the_same_rows_after_crashes_while_barriers_overtake() {
    let mut chance = Chance::new(seed(), "golden unaligned");
    let mut hits: BTreeMap<&str, u32> = STEPS.iter().chain(&STEPS_AGAIN).map(|&step| (step, 0)).collect();
    for case in all().into_iter().filter(|case| !case.may_repeat()) {
        for step in STEPS {
            let expected = case.expected();
            let stage = case.stage("checkpoint: { every: 1ms, mode: unaligned }");
            let fail_at = format!("{step}:{}", 1 + chance.between(0, 3));
            let [batch, pace, slow] = SLOWLY;
            let died = stage.run_with(&[batch, pace, slow, ("MILLSTREAM_FAIL_AT", &fail_at)]);
            let tasks = chance.between(1, 3);
            if !died.status.success() {
                *hits.get_mut(step).expect("every step is counted") += 1;
                // One that died at its very end has nothing to go on with.
                let again = STEPS_AGAIN[usize::from(chance.draw() % 2 == 1)];
                *hits.get_mut(again).expect("every step is counted") += u32::from(!stage.run(again).status.success());
                stage.prepend(&format!("parallelism: {tasks}"));
                stage.finish();
            }
            let rows = stage.rows(&expected);
            if case.is_exact() && tasks == 1 {
                assert_eq!(rows, expected, "{} after {fail_at}", case.name);
            } else {
                assert_eq!(settled(rows), settled(expected), "{} after {fail_at}, then in {tasks} tasks", case.name);
            }
        }
    }
    tell_kills(hits.values().sum(), &format!("{hits:?}"));
    assert!(hits.values().all(|&hit| hit >= HITS_MIN), "every step is hit at least {HITS_MIN} times: {hits:?}");
}
