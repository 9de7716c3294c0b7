//! Compiles an operator project with cargo and wraps the outcome as a component. Cargo decides what must be compiled again;
//! the component is made anew only when cargo's module is newer.

use super::encode;
use anyhow::{Context, anyhow, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The target that components are compiled for.
const TARGET: &str = "wasm32-unknown-unknown";

/// A component that was built.
#[derive(Debug)]
pub struct Built {
    /// The component.
    pub bytes: Vec<u8>,
    /// Where it lies, beside cargo's other outputs.
    pub path: PathBuf,
    /// Whether anything was new.
    pub changed: bool,
}

/// Builds the project in `folder`; cargo's own messages go to standard error. `say` gets lines for a person: what is
/// installed on the way.
///
/// # Errors
/// No cargo, no target and no rustup to add it, the code does not compile, the project makes no `cdylib`, or what it makes
/// is no component.
pub fn build(folder: &Path, say: &mut dyn FnMut(&str)) -> anyhow::Result<Built> {
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .with_context(|| format!("{} is no operator project: it has no Cargo.toml", folder.display()))?;
    let folder = manifest.parent().expect("a file lies in a folder").to_path_buf();
    add_target(&folder, say)?;
    let module = compile(&folder, &manifest)?;
    let path = module.with_extension("component.wasm");
    if is_newer(&path, &module) {
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        return Ok(Built { bytes, path, changed: false });
    }
    let code = std::fs::read(&module).with_context(|| format!("reading {}", module.display()))?;
    let bytes = encode(&code).with_context(|| format!("{} cannot become a component", folder.display()))?;
    write_whole(&path, &bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(Built { bytes, path, changed: true })
}

/// Another process may build the same project or take the component at this moment: it never sees half of one.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&unfinished, bytes)?;
    std::fs::rename(&unfinished, path)
}

fn is_newer(made: &Path, from: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    matches!((modified(made), modified(from)), (Ok(made), Ok(from)) if made >= from)
}

/// Adds the target to the toolchain that the project uses, if it is not there.
fn add_target(folder: &Path, say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).current_dir(folder).output();
    let sysroot = sysroot.map_err(|error| missing("rustc", error))?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout);
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    say(&format!("adding the target {TARGET} to the Rust toolchain"));
    let status = Command::new("rustup").args(["target", "add", TARGET]).current_dir(folder).status();
    let status = status.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow!(
            "the Rust toolchain lacks the target {TARGET}, and there is no rustup to add it: install the target as your \
             toolchain's packages do, or install rustup from https://rustup.rs"
        ),
        _ => anyhow!(error).context("starting rustup"),
    })?;
    if !status.success() {
        bail!("rustup did not add the target {TARGET}: see its message above");
    }
    Ok(())
}

fn missing(program: &str, error: std::io::Error) -> anyhow::Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return anyhow!("there is no `{program}`: operators in Rust need a Rust toolchain, see https://rustup.rs");
    }
    anyhow!(error).context(format!("starting {program}"))
}

/// Runs cargo and finds the module it made of the package itself.
fn compile(folder: &Path, manifest: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo")
        .args(["build", "--release", "--lib", "--target", TARGET, "--message-format", "json-render-diagnostics"])
        .arg("--manifest-path")
        .arg(manifest)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| missing("cargo", error))?;
    let stdout = cargo.stdout.take().expect("cargo was started with a pipe");
    let mut module = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading cargo's messages")?;
        if let Some(found) = module_in(&line, manifest) {
            module = Some(found);
        }
    }
    if !cargo.wait().context("waiting for cargo")?.success() {
        bail!("{} does not compile: see cargo's messages above", folder.display());
    }
    module.ok_or_else(|| {
        anyhow!("{} makes no module: its Cargo.toml needs `[lib] crate-type = [\"cdylib\"]`", folder.display())
    })
}

/// The `.wasm` file of the package at `manifest`, if this message of cargo's names it.
fn module_in(message: &str, manifest: &Path) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is = |value: &serde_json::Value, text: &str| value.as_str() == Some(text);
    let cdylib = message["target"]["kind"].as_array()?.iter().any(|kind| is(kind, "cdylib"));
    let ours = Path::new(message["manifest_path"].as_str()?) == manifest;
    if !is(&message["reason"], "compiler-artifact") || !cdylib || !ours {
        return None;
    }
    let files = message["filenames"].as_array()?.iter().filter_map(|file| file.as_str());
    files.map(PathBuf::from).find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_that_of_the_package_itself() {
        let message = |manifest: &str, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","target":{{"kind":["{kind}"]}},
                "filenames":["/t/release/a.d","/t/release/a.wasm"]}}"#
            )
        };
        let own = Path::new("/p/Cargo.toml");
        assert_eq!(module_in(&message("/p/Cargo.toml", "cdylib"), own), Some("/t/release/a.wasm".into()));
        assert_eq!(module_in(&message("/p/sdk/Cargo.toml", "cdylib"), own), None);
        assert_eq!(module_in(&message("/p/Cargo.toml", "rlib"), own), None);
        assert_eq!(module_in("warning: not json", own), None);
    }

    #[test]
    fn a_folder_without_cargo_toml_is_no_project() {
        let folder = tempfile::tempdir().unwrap();
        let error = build(folder.path(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("is no operator project: it has no Cargo.toml"), "{error}");
    }
}
