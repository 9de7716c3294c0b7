//! Lists the guest SDK's files and the WIT package, so that the program carries them: `millstream new` writes them into
//! projects, since no registry has them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let mut list = String::from("&[\n");
    for folder in ["guest-sdk", "wit"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        add(&root, Path::new(folder), &mut list)?;
    }
    list.push_str("]\n");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("sdk_files.rs"), list)
}

fn add(root: &Path, folder: &Path, list: &mut String) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(root.join(folder))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                add(root, &path, list)?;
            }
        } else if ["rs", "toml", "wit", "md"].iter().any(|known| path.extension().is_some_and(|it| it == *known)) {
            let full = root.join(&path).canonicalize()?;
            writeln!(list, "({path:?}, include_str!({full:?})),").expect("a string takes what is written");
        }
    }
    Ok(())
}
