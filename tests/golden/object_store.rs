//! Checkpoints in an object store: the process dies at a seeded moment, its machine is lost, and another one goes on with nothing but
//! the store and what the sinks had. The settled rows are the same.

use super::case::{Rows, all, settled};
use super::crash::STEPS;
use millstream_tests::chance::{Chance, seed};
use millstream_tests::object_server::ObjectServer;

#[test]
fn cases_give_the_same_rows_on_another_machine_with_the_same_store() {
    let server = ObjectServer::start();
    let mut chance = Chance::new(seed(), "golden object store");
    let mut moved = 0;
    // A third of the cases; other seeds take others.
    let first = usize::try_from(chance.between(0, 2)).expect("small");
    let cases = all().into_iter().filter(|case| !case.may_repeat());
    for (at, case) in cases.skip(first).step_by(3).enumerate() {
        let (stage, expected) = (case.stage("checkpoint: { every: 3 records }"), case.expected());
        // Nothing is restored in a first run.
        let steps: Vec<&str> = STEPS.into_iter().filter(|step| !step.starts_with("restore")).collect();
        let step = steps[usize::try_from(chance.between(0, steps.len() as u64 - 1)).expect("small")];
        let fail_at = format!("{step}:{}", 1 + chance.between(0, 3));
        let storage = format!("s3://millstream/case-{at}");
        let settings = server.settings();
        let mut environment: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        environment.push(("MILLSTREAM_CHECKPOINT_STORAGE", &storage));
        let dying = [&environment[..], &[("MILLSTREAM_FAIL_AT", fail_at.as_str())]].concat();
        if !stage.run_with(&dying).status.success() {
            moved += 1;
            stage.forget_data();
            let output = stage.run_with(&environment);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} after {fail_at}: {said}", case.name);
        }
        // The dead letters of the lost machine are lost with it.
        let kept =
            |rows: Rows| -> Rows { rows.into_iter().filter(|(name, _)| name != "dead-letters.ndjson").collect() };
        let rows = stage.rows(&expected);
        assert_eq!(settled(kept(rows)), settled(kept(expected)), "{} after {fail_at}", case.name);
    }
    assert!(moved >= 2, "enough cases died on the way: {moved}");
}
