//! A job in a folder of its own, run to its end or beside the test. What it says on standard error can be waited for.

use millstream_tests::program::millstream;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than anything takes here: who waits so long waits for nothing.
const PATIENCE: Duration = Duration::from_secs(120);

/// A job file, and the folder it runs in.
pub(crate) struct Job {
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
}

impl Job {
    /// With checkpoints in its data directory.
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        fs::write(folder.path().join("job.yaml"), text).expect("writable");
        Self { folder, environment: vec![], arguments: vec![] }
    }

    /// With more arguments.
    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// With more environment variables.
    pub(crate) fn within(mut self, environment: Vec<(String, String)>) -> Self {
        self.environment.extend(environment);
        self
    }

    /// A path below its folder.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = millstream();
        command.current_dir(self.folder.path()).args(["run", "job.yaml"]).args(&self.arguments);
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Runs it, dying where `fail_at` says.
    pub(crate) fn run(&self, fail_at: &str) -> Output {
        self.command().env("MILLSTREAM_FAIL_AT", fail_at).output().expect("the program starts")
    }

    /// Runs it to its end; what it said.
    pub(crate) fn finish(&self) -> String {
        let output = self.run("");
        assert!(output.status.success(), "the job ends well: {}", said(&output));
        said(&output)
    }

    /// Starts it beside the test.
    pub(crate) fn start(&self) -> Running {
        Running::start(&mut self.command())
    }

    /// Rows that a file sink has written to `folder`, sorted.
    pub(crate) fn rows(&self, folder: &str) -> Vec<String> {
        let mut rows = vec![];
        for file in files(&self.path(folder)).into_iter().filter(|(name, _)| !name.starts_with('.')) {
            rows.extend(String::from_utf8(file.1).expect("rows are text").lines().map(String::from));
        }
        rows.sort();
        rows
    }
}

/// A job that runs beside the test; killed when dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    heard: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let (line, lines) = channel();
        millstream::env::spawn("listening", move || {
            stderr.lines().map_while(Result::ok).try_for_each(|text| line.send(text))
        })
        .expect("a thread");
        Self { child, lines, heard: String::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains `text`.
    pub(crate) fn hears(&mut self, text: &str) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.heard += &format!("{line}\n");
                    if line.contains(text) {
                        return;
                    }
                }
                Err(_) => panic!("`{text}` is never said, but:\n{}", self.heard),
            }
        }
    }

    /// Waits for its end; whether it succeeded, and all it said.
    pub(crate) fn end(mut self) -> (bool, String) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard += &format!("{line}\n");
        }
        let ended = self.child.wait().expect("it is our child");
        (ended.success(), std::mem::take(&mut self.heard))
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it was running");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already where the test has waited for it.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Waits until `look` sees something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (pause, step) = (millstream::env::WaitPoint::default(), Duration::from_millis(10));
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if let Some(seen) = look() {
            return seen;
        }
        pause.wait(Some(step));
    }
    panic!("it never comes to this: {what}");
}

/// The number of the newest decision in a folder of checkpoints; 0 where there is none.
pub(crate) fn newest(checkpoints: &Path) -> u64 {
    let decisions = files(&checkpoints.join("decisions"));
    decisions.last_key_value().map_or(0, |(name, _)| name[..10].parse().expect("a decision is named by its number"))
}

/// Every file below a folder, by its path there.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.map(|entry| entry.expect("readable")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else if let Ok(bytes) = fs::read(entry.path()) {
            // One that is gone by now was being moved.
            found.insert(name, bytes);
        }
    }
    found
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("it is JSON")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Rides made up, counted by city and minute. `speed` says how they come, `checkpoint` when checkpoints are taken.
pub(crate) fn rides(speed: &str, checkpoint: &str, sinks: &str) -> String {
    format!(
        "name: rides
checkpoint: {{ {checkpoint} }}
sources:
  rides:
    connector: generator
    kind: rides
    {speed}
    keys: 8
    start: 2025-08-01T09:00:00Z
    event_rate: 20/s
    event_time: {{ field: /requested_at, format: unix_ms }}
    watermark: {{ bound: 5s }}
operators:
  per-minute:
    input: rides
    key: /city
    window: {{ tumbling: 1m }}
    aggregate: {{ count: {{}} }}
sinks:
{sinks}
"
    )
}
