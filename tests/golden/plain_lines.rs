//! Plain lines without any time in them: windows go by the clock, so which window a line falls into differs from run to run, and
//! how often each line is counted over all windows does not.

use super::case::{lines, pause};
use millstream_tests::program::millstream;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn words(folder: &Path, keys: &str) -> Command {
    fs::write(folder.join("words.txt"), "tea\ncoffee\ntea\n\nmate\ntea\ncoffee\n").expect("writable");
    let job = format!(
        "name: words
sources:
  words: {{ connector: file, path: words.txt, format: lines, event_time: processing_time{keys} }}
operators:
  count: {{ input: words, key: \"\", window: {{ tumbling: 20ms }}, aggregate: {{ n: {{ count: {{}} }} }} }}
sinks:
  board: {{ input: count, connector: file, path: board }}
"
    );
    fs::write(folder.join("words.yaml"), job).expect("writable");
    let mut command = millstream();
    command.current_dir(folder).args(["run", "words.yaml"]).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// How often each word was counted, over all windows that can be seen.
fn counted(folder: &Path) -> BTreeMap<String, i64> {
    let files = fs::read_dir(folder.join("board")).into_iter().flatten().map(|entry| entry.expect("readable"));
    let visible = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
    let mut counted = BTreeMap::new();
    for row in visible.flat_map(|file| lines(&file.path())) {
        let word = row["key"].as_str().expect("a word").to_string();
        *counted.entry(word).or_default() += row["n"].as_i64().expect("a count");
    }
    counted
}

fn all() -> BTreeMap<String, i64> {
    [("coffee", 2), ("mate", 1), ("tea", 3)].map(|(word, n)| (word.to_string(), n)).into()
}

#[test]
fn lines_are_counted_once_whatever_the_clock_said_before_a_crash() {
    for records in 1..=6 {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut command = words(folder.path(), "");
        let job = fs::read_to_string(folder.path().join("words.yaml")).expect("readable");
        fs::write(folder.path().join("words.yaml"), format!("checkpoint: {{ every: 2 records }}\n{job}"))
            .expect("writable");
        command.env("MILLSTREAM_BATCH_RECORDS", "1").env("MILLSTREAM_PACE_MS", "15");
        let killed = command.env("MILLSTREAM_FAIL_AT", format!("source/words/record:{records}")).status();
        assert!(!killed.expect("the program starts").success(), "it dies after {records} records");
        let status = command.env_remove("MILLSTREAM_FAIL_AT").status().expect("the program starts");
        assert!(status.success(), "it goes on");
        assert_eq!(counted(folder.path()), all(), "killed after {records} records");
    }
}

#[test]
fn window_by_the_clock_fires_without_another_record() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut running = words(folder.path(), ", follow: true").spawn().expect("the program starts");
    let ended = loop {
        let ended = running.try_wait().expect("the program runs").is_some();
        if ended || counted(folder.path()) == all() {
            break ended;
        }
        pause(20);
    };
    assert!(!ended, "a followed file has no end");
    running.kill().expect("it runs");
    running.wait().expect("it has ended");
}
