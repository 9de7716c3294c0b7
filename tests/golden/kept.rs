//! Savepoints that earlier versions made and that every later one must still read: `savepoints/v<n>` holds the job, the savepoint
//! taken in its midst, its state as JSON lines, and the rows that came out afterwards. They are never made anew.

use super::case::{lines, settled};
use millstream_tests::program::{millstream, root};
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
        let run = |arguments: &[&str]| {
            let mut command = millstream();
            command.env("EXAMPLES", root().join("examples")).current_dir(stage.path()).args(arguments);
            let output = command.output().expect("the program starts");
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            output
        };
        let savepoint = version.join("savepoint");
        let savepoint = savepoint.to_str().expect("UTF-8");
        let exported = String::from_utf8(run(&["state", "export", savepoint]).stdout).expect("UTF-8");
        let kept = fs::read_to_string(version.join("state.ndjson")).expect("readable");
        assert_eq!(exported, kept, "the state of {}", version.display());
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
