//! Test guests: the crates of `tests/guests`, built once per test program, and components made of a WIT text alone, whose every
//! function traps.

use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

/// A processor that does what its rows say, most of it wrong.
pub fn hostile() -> &'static [u8] {
    static BUILT: OnceLock<Vec<u8>> = OnceLock::new();
    BUILT.get_or_init(|| built("hostile").expect("the test guests build"))
}

/// The same operator in its next version.
pub fn hostile_next() -> &'static [u8] {
    static BUILT: OnceLock<Vec<u8>> = OnceLock::new();
    BUILT.get_or_init(|| built("hostile-next").expect("the test guests build"))
}

/// An aggregator that sums, with amounts it cannot take.
pub fn summing() -> &'static [u8] {
    static BUILT: OnceLock<Vec<u8>> = OnceLock::new();
    BUILT.get_or_init(|| built("summing").expect("the test guests build"))
}

/// A processor that judges rides by limits from a broadcast input.
pub fn limits() -> &'static [u8] {
    static BUILT: OnceLock<Vec<u8>> = OnceLock::new();
    BUILT.get_or_init(|| built("limits").expect("the test guests build"))
}

/// The component of one crate of `tests/guests`.
fn built(name: &str) -> Result<Vec<u8>> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests");
    let target = target()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--target", "wasm32-unknown-unknown", "--package", name])
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(&guests)
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "cargo fails on `{name}`");
    let module = target.join("wasm32-unknown-unknown/release").join(name.replace('-', "_")).with_extension("wasm");
    let module = std::fs::read(&module).with_context(|| format!("reading `{}`", module.display()))?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

/// Where guests are built: beside what cargo built of this program.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(3).context("a test program lies in target/release/deps")?;
    Ok(target.join("guests"))
}

/// A component of the world `world` in the WIT text `wit`; every function of it traps.
///
/// # Errors
/// The text is no WIT, or has no such world.
pub fn empty(wit: &str, world: &str) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit)?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, true)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

/// The text of the package that hosts and guests share.
pub fn operator_wit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/operator.wit");
    std::fs::read_to_string(path).expect("the WIT package is part of the project")
}
