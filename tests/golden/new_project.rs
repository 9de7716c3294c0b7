//! What `millstream new` makes: it compiles, its cases and its own tests pass, and its job gives what its README says.

use millstream_tests::program::millstream;
use std::path::Path;
use std::process::Command;

fn succeeds(command: &mut Command, folder: &Path) -> String {
    let output = command.current_dir(folder).output().expect("the program starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

#[test]
fn new_project_builds_and_passes_its_own_tests() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    succeeds(millstream().args(["new", "count-twice"]), folder.path());
    let project = folder.path().join("count-twice");
    let command = |argument: &str| {
        let mut command = millstream();
        // The target folder of this test's own build has other settings.
        command.arg(argument).env_remove("CARGO_TARGET_DIR");
        command
    };
    succeeds(&mut command("build"), &project);
    succeeds(&mut command("test"), &project);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let told = succeeds(Command::new(cargo).args(["test", "--release"]).env_remove("CARGO_TARGET_DIR"), &project);
    assert!(told.contains("test tests::"), "it has tests: {told}");
    let rows = succeeds(command("run").arg("job.yaml"), &project);
    let readme = std::fs::read_to_string(project.join("README.md")).expect("it has one");
    let promised: Vec<&str> = readme.lines().filter(|line| line.starts_with('{')).collect();
    assert!(promised.len() > 1 && promised.iter().all(|row| rows.contains(row)), "as its README says: {rows}");
}
