//! While it runs: a job is stopped with a savepoint and goes on from it elsewhere, in other numbers of tasks, on the other backend; it is rescaled;
//! a task panics and the job starts again by itself. The rows are those of a run that nothing happened to.

use super::case::{Case, Stage, all, pause, settled};
use millstream_tests::chance::{Chance, seed};
use millstream_tests::program::root;
use serde_json::Value;
use std::process::Command;

/// So slow that something can be asked of it before it ends: a record at a time, a rest after each.
const SLOWLY: [(&str, &str); 2] = [("MILLSTREAM_BATCH_RECORDS", "1"), ("MILLSTREAM_PACE_MS", "40")];

/// Cases in which nothing is repeated when a job goes on from a checkpoint, as `millstream` runs them.
fn cases() -> Vec<Case> {
    all().into_iter().filter(|case| !case.may_repeat() && !case.native).collect()
}

fn check(case: &Case, stage: &Stage, what: &str) {
    let expected = case.expected();
    let rows = stage.rows(&expected);
    assert_eq!(settled(rows), settled(expected), "{} {what}", case.name);
}

#[test]
fn every_case_goes_on_from_a_savepoint_in_another_number_of_tasks_on_the_other_backend() {
    let mut chance = Chance::new(seed(), "golden savepoints");
    let mut stopped = 0;
    for case in cases() {
        let stage = case.stage("parallelism: 2");
        let [before, after] =
            if chance.draw().is_multiple_of(2) { ["memory", "rocksdb"] } else { ["rocksdb", "memory"] };
        let mut running = stage.start(&[SLOWLY[0], SLOWLY[1], ("MILLSTREAM_STATE_BACKEND", before)]);
        pause(chance.between(0, 200));
        let asked = stage.ask(&mut running, &["savepoint", "--stop", "--to", "savepoint"]);
        assert!(running.wait().expect("the program runs").success(), "{} stops well", case.name);
        if !asked.status.success() {
            // It came to its end first, which is as good a run as any.
            check(&case, &stage, &format!("straight: {}", String::from_utf8_lossy(&asked.stderr)));
            continue;
        }
        stopped += 1;
        let listed = stage.state(&["list", "savepoint"]);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        stage.replace("parallelism: 2", &format!("parallelism: {}", chance.between(1, 5)));
        let again = stage.run_from("savepoint", after);
        assert!(again.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&again.stderr));
        // Run again, as after a crash: it has gone on by itself and starts nothing anew.
        assert!(stage.run_from("savepoint", after).status.success(), "{} runs again", case.name);
        check(&case, &stage, "from a savepoint");
    }
    assert!(stopped >= 3, "some jobs are stopped before their end: {stopped}");
}

#[test]
fn every_case_is_rescaled_up_and_down_while_it_runs() {
    let mut rescaled = 0;
    for case in cases() {
        let stage = case.stage("parallelism: 1");
        let mut running = stage.start(&SLOWLY);
        rescaled += u32::from(stage.ask(&mut running, &["rescale", "5"]).status.success());
        rescaled += u32::from(stage.ask(&mut running, &["rescale", "2"]).status.success());
        assert!(running.wait().expect("the program runs").success(), "{} ends well", case.name);
        check(&case, &stage, "rescaled");
    }
    assert!(rescaled >= 6, "some jobs are rescaled before their end: {rescaled}");
}

#[test]
fn every_case_starts_again_by_itself_when_a_task_panics() {
    let mut chance = Chance::new(seed(), "golden panics");
    let mut hits = 0;
    for case in cases() {
        for section in ["sources", "sinks"] {
            let stage = case.stage("checkpoint: { every: 3 records }");
            stage.prepend("restart: { delay: 1ms }");
            let names = case.names(section);
            let name = &names[usize::try_from(chance.between(0, names.len() as u64 - 1)).expect("small")];
            let step = if section == "sources" { "source/{}/record" } else { "sink/{}/written" };
            let place = format!("{}:{}", step.replace("{}", name), chance.between(1, 4));
            let run = stage.run_with(&[("MILLSTREAM_PANIC_AT", &place)]);
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            assert!(run.status.success(), "{} after a panic at {place}: {said}", case.name);
            hits += u32::from(said.contains("starts again from its last checkpoint"));
            check(&case, &stage, &format!("after a panic at {place}"));
        }
    }
    assert!(hits >= 3, "some tasks panic: {hits}");
}

#[test]
fn job_that_is_told_to_end_takes_a_last_checkpoint_and_goes_on_from_it() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    for signal in ["-TERM", "-INT"] {
        let stage = case.stage("checkpoint: { every: 1h }");
        let mut running = stage.start(&SLOWLY);
        // A checkpoint was taken for the savepoint: the job reads.
        assert!(stage.ask(&mut running, &["savepoint", "--to", "savepoint"]).status.success());
        let told = Command::new("kill").args([signal, &running.id().to_string()]).status();
        assert!(told.is_ok_and(|told| told.success()));
        assert!(running.wait().expect("the program runs").success(), "it ends well after {signal}");
        let again = stage.run("");
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(said.contains("goes on from checkpoint 2"), "of the end, not of the savepoint: {said}");
        check(&case, &stage, signal);
    }
}

#[test]
fn state_of_a_savepoint_is_read_without_the_job() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("parallelism: 2");
    let mut running = stage.start(&SLOWLY);
    let asked = stage.ask(&mut running, &["savepoint", "--to", "savepoint"]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    assert!(running.wait().expect("the program runs").success());
    check(&case, &stage, "with a savepoint taken");
    let exported = stage.state(&["export", "savepoint"]);
    let lines: Vec<Value> = String::from_utf8_lossy(&exported.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let seen = lines.iter().find(|line| line["operator"] == "dedup").expect("a ride was seen before the savepoint");
    let (state, key) = (seen["state"].as_str().expect("a name"), seen["key"].as_str().expect("a ride's id"));
    let read = stage.state(&["read", "savepoint", "dedup", state, key]);
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), seen.to_string());
    let unknown = stage.state(&["read", "savepoint", "dedup", state, "no such ride"]);
    assert!(!unknown.status.success(), "a key that has nothing is said to have nothing");
    let ended = stage.export_to_nobody("savepoint");
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(141), &b""[..]), "it ends without a word, as `cat` would");
}

#[test]
fn savepoint_older_than_what_the_sinks_show_repeats_nothing_unasked() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("parallelism: 1");
    let mut running = stage.start(&SLOWLY);
    assert!(stage.ask(&mut running, &["savepoint", "--to", "savepoint"]).status.success());
    assert!(running.wait().expect("the program runs").success());
    let refused = stage.run_from("savepoint", "memory");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("would come a second time"), "{said}");
    check(&case, &stage, "after a refusal");
}

#[test]
fn exact_rows_are_neither_repeated_nor_replaced_where_a_checkpoint_is_gone() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("checkpoint: { every: 3 records }");
    assert!(!stage.run("checkpoint/retained:3").status.success());
    let last = stage.hide(".millstream/rides/checkpoints/decisions/0000000003.json");
    stage.refused("checkpoint 2 is the newest that is left");
    let all = stage.hide(".millstream/rides/checkpoints");
    stage.refused("no checkpoint is found to go on from");
    all();
    last();
    stage.finish();
    check(&case, &stage, "after two refusals");
}

#[test]
fn windows_under_way_are_not_taken_for_those_of_another_size() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("checkpoint: { every: 3 records }");
    assert!(!stage.run("checkpoint/retained:2").status.success());
    stage.replace("tumbling: 1m", "tumbling: 30s");
    stage.refused("was kept for `tumbling: 60000ms");
    stage.replace("tumbling: 30s", "tumbling: 1m");
    stage.finish();
    check(&case, &stage, "after a refusal");
}

#[test]
fn state_is_not_looked_for_under_another_key_unless_told_so() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("checkpoint: { every: 3 records }");
    assert!(!stage.run("checkpoint/retained:2").status.success());
    stage.replace("key: /id", "key: /requested_at");
    let why = "state `seen` of operator `dedup` was kept by `/id`, and the job now has its key from `/requested_at`";
    let said = stage.refused(why);
    assert!(said.contains("--allow-changed-key"), "it says what to do: {said}");
    let allowed = stage.run_told(&["--allow-changed-key"], "checkpoint/retained:1");
    let said = String::from_utf8_lossy(&allowed.stderr).into_owned();
    assert!(!said.contains(why), "{said}");
    stage.replace("key: /requested_at", "key: /id");
    // The checkpoint after that says so.
    stage.refused("was kept by `/requested_at`");
}

#[test]
fn checkpoint_of_another_backend_is_refused_with_what_to_do() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("checkpoint: { every: 3 records }");
    let backend = |name: &'static str| ("MILLSTREAM_STATE_BACKEND", name);
    assert!(!stage.run_with(&[("MILLSTREAM_FAIL_AT", "checkpoint/decided:2"), backend("memory")]).status.success());
    let refused = stage.run_with(&[backend("rocksdb")]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("written by the state backend `memory`"), "{said}");
    assert!(said.contains("savepoint") && said.contains("--fresh"), "it says what to do: {said}");
    assert!(stage.run_with(&[backend("memory")]).status.success(), "nothing was touched");
    check(&case, &stage, "after a refusal");
}

#[test]
fn savepoint_that_cannot_be_started_from_costs_no_checkpoint() {
    let case = all().into_iter().find(|case| case.name == "rides/job").expect("the example is there");
    let stage = case.stage("checkpoint: { every: 3 records }");
    assert!(!stage.run("checkpoint/decided:2").status.success());
    let other_job = root().join("tests/golden/savepoints/v1/savepoint");
    for (savepoint, reason) in [
        ("nowhere", "there is no folder `nowhere`"),
        (other_job.to_str().expect("UTF-8"), "the savepoint was made with 16"),
    ] {
        let refused = stage.run_fresh_from(savepoint);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(reason), "{said}");
    }
    let again = stage.run("");
    assert!(String::from_utf8_lossy(&again.stderr).contains("goes on from checkpoint 2"), "they are still there");
    check(&case, &stage, "after a refusal");
}
