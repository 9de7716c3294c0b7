//! What cannot run as it is ends with exit code 2 and a reason, and nothing has run; and what of a folder is not read.

use millstream_tests::program::millstream;
use std::fs;
use std::path::Path;

const JOB: &str = "\
name: copy
sources:
  rides: { connector: file, path: rides, event_time: { field: /at, format: unix_ms }, watermark: { bound: 1s } }
sinks:
  out: { input: rides, connector: file, path: out.ndjson }
";

/// The exit code of a run of `job.yaml` in a folder, and what it said.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = millstream().current_dir(folder).args(["run", "job.yaml"]).args(arguments).output();
    let output = output.expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_cannot_run_as_it_is_ends_with_exit_code_2() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let refused = |arguments: &[&str], says: &str| {
        let (code, said) = run(folder.path(), arguments);
        assert!(code == Some(2) && said.contains(says), "{code:?}: {said}");
    };
    refused(&[], "opening the job file job.yaml");
    fs::write(folder.path().join("job.yaml"), JOB).expect("writable");
    refused(&[], "rides does not exist");
    fs::create_dir(folder.path().join("rides")).expect("writable");
    refused(&[], "matches no file");
    fs::write(folder.path().join("rides/a.ndjson"), "{\"at\":1}\n").expect("writable");
    fs::write(folder.path().join("out.ndjson"), "somebody's\n").expect("writable");
    refused(&[], "which it has not written");
    let kept = fs::read_to_string(folder.path().join("out.ndjson")).expect("it is there");
    assert_eq!(kept, "somebody's\n");
    let (code, said) = run(folder.path(), &["--checkpoint-storage", "s3://key:hush@bucket"]);
    assert!(code == Some(2) && said.contains("takes no credentials") && !said.contains("hush"), "{code:?}: {said}");
}

#[test]
fn what_of_a_folder_is_not_read_is_said() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    fs::write(folder.path().join("job.yaml"), JOB).expect("writable");
    fs::create_dir_all(folder.path().join("rides/older")).expect("writable");
    fs::write(folder.path().join("rides/a.ndjson"), "{\"at\":1}\n").expect("writable");
    std::os::unix::fs::symlink("nowhere", folder.path().join("rides/link.ndjson")).expect("writable");
    let (code, said) = run(folder.path(), &[]);
    let told: Vec<&str> = said.lines().filter(|line| line.contains("rides/older")).collect();
    assert!(code == Some(0) && told.len() == 1 && told[0].contains("rides/link.ndjson"), "{code:?}: {said}");
}
