//! The `millstream` binary as a user runs it, built from this tree before its first use so that no test runs an old one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A command that starts `millstream` in the project's root, without fail points, and with checkpoints in its data directory.
pub fn millstream() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(BUILT.get_or_init(build));
    command.current_dir(root()).env_remove("MILLSTREAM_FAIL_AT").env_remove("MILLSTREAM_CHECKPOINT_STORAGE");
    command
}

/// The project's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the project")
}

/// Builds into the target directory that the running test came from.
fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let target = test.ancestors().find(|folder| folder.ends_with("release")).expect("tests are built with --release");
    let target = target.parent().expect("`release` lies in the target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // Why: some build scripts are run again when these change, and the whole program after them; a build from the shell has none.
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_cargos_own(name)).for_each(|name| {
        build.env_remove(name);
    });
    let built = build
        .args(["build", "--release", "--quiet", "--workspace", "--bin", "millstream", "--target-dir"])
        .arg(target)
        .current_dir(root())
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "`cargo build --release --workspace --bin millstream` succeeds"
    );
    target.join("release/millstream")
}

/// Variables that cargo sets for what it runs.
fn is_cargos_own(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || name.starts_with("CARGO_BIN_")
        || name == "OUT_DIR"
}
