//! What a job file means, and that every key and default stands in the table of keys.

use super::keys::{GROUPS, WithoutIt};
use super::*;
use std::collections::BTreeSet;
use std::path::Path;

struct NoReferences;

impl References for NoReferences {
    fn environment(&self, name: &str) -> Option<String> {
        (name == "TABLE").then(|| "s3cret".to_string())
    }

    fn file(&self, path: &str) -> std::io::Result<String> {
        if path == "table.txt" { Ok("hidden".into()) } else { Err(std::io::ErrorKind::NotFound.into()) }
    }
}

fn read(text: &str) -> Definition {
    let loaded = read_text("job.yaml", text, Path::new("/jobs"), &NoReferences);
    loaded.into_result().unwrap_or_else(|problems| panic!("{problems}"))
}

fn problems(text: &str) -> String {
    read_text("job.yaml", text, Path::new("/jobs"), &NoReferences).into_result().unwrap_err().to_string()
}

const RIDES: &str = "
name: rides
checkpoint: { every: 4 records }
sources:
  rides:
    connector: file
    path: rides.jsonl
    event_time: { field: /requested_at }
    watermark: { bound: 30s, emit: per_record }
operators:
  per-minute:
    input: rides
    key: /city
    window: { tumbling: 1m, allowed_lateness: 60s }
    aggregate: { count: {}, total: { sum: /fare, type: int }, mean: /fare }
  surge:
    inputs: { panes: { from: per-minute, key: [/key, /window_start] } }
    component: ../operators/surge
    config: { threshold: 3.0, cities: [Pune] }
    fields: { city: /key }
    limits: { time: 200ms }
sinks:
  board: { input: per-minute, connector: sqlite, path: board.db, table: '${env:TABLE}', mode: upsert, key: [key, /window_start] }
  late: { input: per-minute.late, connector: file, path: late }
";

#[test]
fn a_job_file_becomes_plain_data() {
    let job = read(RIDES);
    assert_eq!((job.name.as_str(), job.parallelism, job.max_parallelism), ("rides", 1, 128));
    assert_eq!(job.checkpoint.every, Every::Records(4));
    let source = &job.sources[0];
    assert_eq!(source.event_time_field().unwrap().format, TimeFormat::Rfc3339);
    assert_eq!((source.watermark.bound_ms, source.watermark.emit), (Some(30_000), Emit::PerRecord));
    assert_eq!(source.watermark.idle_after, Some(Duration::from_secs(60)));
    let SourceConnector::File(file) = &source.connector else { panic!("{source:?}") };
    assert_eq!(file.path, Path::new("/jobs/rides.jsonl"));

    let Logic::Window(window) = &job.operators[0].logic else { panic!() };
    assert_eq!(window.kind, WindowKind::Tumbling { size_ms: 60_000, offset_ms: 0 });
    assert_eq!(window.allowed_lateness_ms, 60_000);
    let names: Vec<_> = window.aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect();
    assert_eq!(names, ["count", "total", "mean"]);

    let Logic::Guest(guest) = &job.operators[1].logic else { panic!() };
    assert_eq!(guest.component, Component::Project("/jobs/../operators/surge".into()));
    assert_eq!(guest.config, serde_json::json!({"threshold": 3.0, "cities": ["Pune"]}));
    assert_eq!(guest.limits.time, Duration::from_millis(200));
    assert_eq!(guest.limits.memory, 64 << 20);
    let input = &job.operators[1].inputs[0];
    assert_eq!(
        (input.name.as_deref(), input.key.as_slice()),
        (Some("panes"), &["/key".into(), "/window_start".into()][..])
    );

    let SinkConnector::Sqlite(board) = &job.sinks[0].connector else { panic!() };
    assert_eq!((board.table.as_str(), board.key.as_slice()), ("s3cret", &["/key".into(), "/window_start".into()][..]));
    assert_eq!(job.sinks[0].delivery, Delivery::ExactlyOnce);
    assert_eq!(job.sinks[1].input.output.as_deref(), Some("late"));
}

#[test]
fn checkpoints_pause_and_fail_as_the_job_file_says() {
    let job = read(RIDES);
    assert_eq!((job.checkpoint.min_pause, job.checkpoint.tolerated_failures), (Duration::ZERO, None));
    let job = read(&RIDES.replace("every: 4 records", "every: 10s, min_pause: 2s, tolerated_failures: 3"));
    assert_eq!((job.checkpoint.min_pause, job.checkpoint.tolerated_failures), (Duration::from_secs(2), Some(3)));
}

#[test]
fn a_secret_is_used_and_never_shown() {
    let text = RIDES.replace("mode: upsert", "mode: '${env:TABLE}'").replace("30s", "'${file:table.txt}'");
    let shown = problems(&text);
    assert!(shown.contains("`mode: ${env:TABLE}`") && shown.contains("`bound: ${file:table.txt}`"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains("hidden"), "{shown}");
}

#[test]
fn a_reference_that_names_nothing_is_refused() {
    let shown = problems(&RIDES.replace("${env:TABLE}", "${env:NOPE}"));
    assert!(shown.contains("the environment variable `NOPE` is not set"), "{shown}");
    let shown = problems(&RIDES.replace("${env:TABLE}", "${file:nope}"));
    assert!(shown.contains("the file `nope` cannot be read"), "{shown}");
    let shown = problems(&RIDES.replace("${env:TABLE}", "${TABLE}"));
    assert!(shown.contains("`${TABLE}` is no reference"), "{shown}");
}

#[test]
fn a_doubled_dollar_is_a_plain_one() {
    let job = read(&RIDES.replace("${env:TABLE}", "a$${b}"));
    let SinkConnector::Sqlite(board) = &job.sinks[0].connector else { panic!() };
    assert_eq!(board.table, "a${b}");
}

#[test]
fn every_problem_is_told_at_once() {
    let text =
        RIDES.replace("30s", "30").replace("tumbling", "tumblng").replace("connector: sqlite", "connector: kafka");
    let shown = problems(&text);
    assert!(shown.contains("`bound: 30`: a duration needs a unit"), "{shown}");
    assert!(shown.contains("did you mean `tumbling`?"), "{shown}");
    assert!(shown.contains("the connector `kafka` is not in this version"), "{shown}");
}

#[test]
fn the_same_text_has_the_same_revision_and_another_has_another() {
    assert_eq!(read(RIDES).revision, read(RIDES).revision);
    assert_ne!(read(RIDES).revision, read(&RIDES.replace("30s", "31s")).revision);
}

#[test]
fn no_key_stands_twice_in_a_group() {
    for group in GROUPS {
        let names: BTreeSet<_> = group.keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), group.keys.len(), "{}", group.title);
    }
}

/// docs/job-file.md is the table of keys in Markdown. To renew it: `UPDATE_DOCS=1 cargo test -p millstream job_file_page`.
#[test]
fn the_job_file_page_lists_every_key_with_its_default() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/job-file.md");
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    const MARK: &str = "<!-- From here on the table of keys in host/src/job/definition/keys.rs. -->\n";
    let (by_hand, _) = written.split_once(MARK).unwrap_or((&written, ""));
    let mut expected = format!("{by_hand}{MARK}");
    for group in GROUPS {
        expected +=
            &format!("\n## {}\n\n{}\n\n| key | takes | default | |\n|---|---|---|---|\n", group.title, group.says);
        for key in group.keys {
            let default = match key.without {
                WithoutIt::Required => "required".to_string(),
                WithoutIt::Is(value) => format!("`{value}`"),
                WithoutIt::None(meaning) => meaning.to_string(),
            };
            expected += &format!("| `{}` | {} | {default} | {} |\n", key.name, key.takes.replace('|', "\\|"), key.says);
        }
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, &expected).unwrap();
        return;
    }
    assert!(written == expected, "docs/job-file.md differs from the table of keys; renew it with UPDATE_DOCS=1");
}
