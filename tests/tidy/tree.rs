//! The text files of the project, read once. Build output, data directories and binary files are left out.

use std::fs;
use std::path::{Path, PathBuf};

/// One file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// From the project's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_string(), text: text.to_string() }
    }

    /// Whether it is Rust source that somebody wrote.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Its name without folders.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// All of them, in order of path.
pub(crate) fn files() -> Vec<File> {
    let mut files = vec![];
    walk(&root(), &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The text of one file; empty if there is none.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// Whether a path from the project's root leads to something.
pub(crate) fn exists(path: &str) -> bool {
    root().join(path).exists()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the project").to_path_buf()
}

fn walk(folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("the project can be read").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let hidden = name.starts_with('.') && !matches!(name.as_str(), ".ci" | ".gitignore" | ".cargo");
        if hidden || name == "target" || entry.path().is_symlink() {
            continue;
        }
        if path.is_dir() {
            walk(&path, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root()).expect("it was found under the root");
            files.push(File { path: path.to_string_lossy().replace('\\', "/"), text });
        }
    }
}
