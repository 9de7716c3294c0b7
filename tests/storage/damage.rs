//! A file of the last checkpoint is damaged or missing: it is named, nothing is touched, and the one before is taken only where
//! no promise is broken, or where the user says so.

use crate::rig::{Job, files, json, rides, said};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const EXACT: &str = "  files: { input: per-minute, connector: file, path: out }
  one: { input: per-minute, connector: file, path: one.ndjson }
  table: { input: per-minute, connector: sqlite, path: board.db, table: rides, mode: append }";

const AT_LEAST_ONCE: &str =
    "  table: { input: per-minute, connector: sqlite, path: board.db, table: rides, mode: upsert, key: [key, window_start], immediate: true }
  eyes: { input: per-minute, connector: stdout }";

/// Four checkpoints are applied by every sink when it dies.
const EXACT_APPLIED: &str = "sink/files/applied:4,sink/one/applied:4,sink/table/applied:4";
const AT_LEAST_ONCE_APPLIED: &str = "sink/table/applied:4,sink/eyes/applied:4";

fn job(sinks: &str) -> Job {
    Job::new(&rides("records: 12000", "every: 2000 records", sinks))
}

/// What is done to a file.
type Harm = fn(&Path);

const HARMS: [(&str, Harm); 3] = [
    ("is missing", |file| fs::remove_file(file).expect("it is there")),
    ("is damaged", |file| {
        let mut bytes = fs::read(file).expect("it is there");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        fs::write(file, bytes).expect("writable");
    }),
    ("is damaged", |file| {
        let bytes = fs::read(file).expect("it is there");
        fs::write(file, &bytes[..bytes.len() / 2]).expect("writable");
    }),
];

fn checkpoints(job: &Job) -> PathBuf {
    job.path(".millstream/rides/checkpoints")
}

/// The newest decision, its manifest, and a state file that only that one names.
fn newest_files(job: &Job) -> [String; 3] {
    let all = files(&checkpoints(job));
    let decisions: Vec<&String> = all.keys().filter(|name| name.starts_with("decisions/")).collect();
    let manifest = |decision: &str| json(&all[decision])["manifest"]["name"].as_str().expect("a name").to_string();
    let state = |manifest: &str| -> BTreeSet<String> {
        let manifest = json(&all[manifest]);
        let tasks = manifest["tasks"].as_array().expect("tasks").iter();
        let named = tasks.flat_map(|task| task["files"].as_array().expect("files").clone());
        named.map(|file: Value| file["name"].as_str().expect("a name").to_string()).collect()
    };
    let [.., before, newest] = &decisions[..] else { panic!("two checkpoints are kept: {decisions:?}") };
    let (old, new) = (state(&manifest(before)), state(&manifest(newest)));
    let own = new.difference(&old).next().expect("each checkpoint has a file of its own").clone();
    [newest.to_string(), manifest(newest), own]
}

fn table(job: &Job) -> Vec<String> {
    let database = Connection::open(job.path("board.db")).expect("the database opens");
    let mut rows =
        database.prepare("SELECT key || window_start || count FROM rides ORDER BY 1").expect("there is a table");
    rows.query_map([], |row| row.get(0)).expect("readable").map(|row| row.expect("text")).collect()
}

fn outputs(job: &Job) -> [Vec<String>; 3] {
    let mut one: Vec<String> =
        fs::read_to_string(job.path("one.ndjson")).expect("it is there").lines().map(String::from).collect();
    one.sort();
    [job.rows("out"), one, table(job)]
}

#[test]
fn damage_is_named_and_nothing_is_touched_until_the_user_accepts_repeated_output() {
    let straight = job(EXACT);
    straight.finish();
    for which in 0..3 {
        for (problem, harm) in HARMS {
            let job = job(EXACT);
            assert!(!job.run(EXACT_APPLIED).status.success(), "it dies");
            let name = newest_files(&job)[which].clone();
            if which == 0 && problem == "is missing" {
                continue; // a decision that is not there was never made
            }
            harm(&checkpoints(&job).join(&name));
            let kept = (files(&checkpoints(&job)), outputs(&job));
            let refused = job.run("");
            let told = said(&refused);
            assert_eq!(refused.status.code(), Some(1), "{told}");
            // A decision has no checksum of its own: it is found not to be one.
            let problem = if which == 0 { "is no checkpoint decision" } else { problem };
            for part in [problem, name.as_str(), "--repeat-output", "`files`, `one`, `table`", "checkpoint 4"] {
                assert!(told.contains(part), "`{part}` is not in: {told}");
            }
            assert_eq!((files(&checkpoints(&job)), outputs(&job)), kept, "nothing is touched");

            let accepting = job.with(&["--repeat-output"]);
            let told = accepting.finish();
            assert!(told.contains("goes on from checkpoint 3") && told.contains("a second time"), "{told}");
            for (repeated, whole) in outputs(&accepting).into_iter().zip(outputs(&straight)) {
                assert!(repeated.len() > whole.len(), "the rows of checkpoint 4 come again");
                let once: BTreeSet<String> = repeated.into_iter().collect();
                assert_eq!(once, whole.into_iter().collect(), "and none is lost or another one");
            }
        }
    }
}

#[test]
fn job_without_exactly_once_sinks_falls_back_by_itself_and_says_so() {
    let straight = job(AT_LEAST_ONCE);
    straight.finish();
    for which in 0..3 {
        let job = job(AT_LEAST_ONCE);
        assert!(!job.run(AT_LEAST_ONCE_APPLIED).status.success(), "it dies");
        let name = newest_files(&job)[which].clone();
        HARMS[1].1(&checkpoints(&job).join(&name));
        let told = job.finish();
        assert!(told.contains(&name) && told.contains("goes on from checkpoint 3"), "{told}");
        assert_eq!(table(&job), table(&straight));
    }
}

#[test]
fn job_with_no_whole_checkpoint_left_starts_over_only_when_told() {
    let job = Job::new(&rides("records: 12000", "every: 2000 records, keep: 1", AT_LEAST_ONCE));
    assert!(!job.run(AT_LEAST_ONCE_APPLIED).status.success(), "it dies");
    for (name, _) in files(&checkpoints(&job)).into_iter().filter(|(name, _)| name.starts_with("manifests/")) {
        HARMS[0].1(&checkpoints(&job).join(name));
    }
    let told = said(&job.run(""));
    assert!(told.contains("no earlier one is left") && told.contains("--fresh"), "{told}");
    job.with(&["--fresh"]).finish();
}
