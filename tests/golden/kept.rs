//! Savepoints that earlier programs made and that every later one must still read. `savepoints/v<n>`, of format version n, and `v<n>-…` beside it hold
//! the job, its records unless they are generated, the savepoint taken in its midst, its state as JSON lines, and the rows that came out afterwards.
//! The savepoints are never made anew.

use super::case::{lines, settled};
use millstream_tests::program::{millstream, root};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn jobs_start_from_the_savepoints_of_all_versions() {
    let home = root().join("tests/golden/savepoints");
    let versions: Vec<_> =
        fs::read_dir(&home).expect("readable").map(|entry| entry.expect("readable").path()).collect();
    assert!(!versions.is_empty(), "there is a savepoint to start from");
    for version in versions {
        let stage = tempfile::tempdir().expect("a scratch folder");
        fs::copy(version.join("job.yaml"), stage.path().join("job.yaml")).expect("writable");
        if version.join("data").is_dir() {
            std::os::unix::fs::symlink(version.join("data"), stage.path().join("data")).expect("writable");
        }
        let run = |arguments: &[&str]| {
            let mut command = millstream();
            command.env("EXAMPLES", root().join("examples")).env("GUESTS", root().join("tests/guests"));
            let output = command.current_dir(stage.path()).args(arguments).output().expect("the program starts");
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            output
        };
        let savepoint = version.join("savepoint");
        let savepoint = savepoint.to_str().expect("UTF-8");
        let exported = String::from_utf8(run(&["state", "export", savepoint]).stdout).expect("UTF-8");
        let kept = fs::read_to_string(version.join("state.ndjson")).expect("readable");
        assert_eq!(exported, kept, "the state of {}", version.display());
        let told = |line: &str| serde_json::from_str::<Value>(line).expect("a line of JSON");
        if let Some(entry) = kept.lines().find(|line| told(line)["key"].is_null()) {
            let of = |field| told(entry)[field].as_str().expect("text").to_string();
            let read = run(&["state", "read", savepoint, &of("operator"), &of("state"), &of("entry")]);
            let read = String::from_utf8(read.stdout).expect("UTF-8");
            assert_eq!(read.trim_end(), entry, "an entry of no key is read by its name");
        }
        let told = String::from_utf8_lossy(&run(&["run", "job.yaml", "--from", savepoint]).stderr).into_owned();
        assert!(told.contains(": kept") && !told.contains(": new"), "every state is found again: {told}");
        let rows = |folder: &Path| {
            let files = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path());
            let files = files.filter(|file| file.extension().is_some_and(|ending| ending == "ndjson"));
            files.map(|file| (file.file_name().expect("a file").to_string_lossy().into_owned(), lines(&file))).collect()
        };
        let (out, expected) = (rows(&stage.path().join("out")), rows(&version.join("expected")));
        assert_eq!(settled(out), settled(expected), "{}", version.display());
    }
}
