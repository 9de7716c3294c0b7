//! Opens a job file and reads it: YAML to tree, references resolved, tree to definition, all problems collected.

use super::problem::{Problem, Problems};
use super::section::Reader;
use super::tree::{self, References};
use super::{Definition, read};
use anyhow::Context;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// What was read: the definition with faulty parts replaced, and what is wrong. It may run only if nothing is.
#[derive(Debug)]
pub struct Loaded {
    /// Name of the file, as errors show it.
    pub file: String,
    /// The file's text, as written.
    pub text: String,
    /// What it says; none where it is not even YAML.
    pub definition: Option<Definition>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

impl Loaded {
    /// The definition, if nothing is wrong.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn into_result(self) -> Result<Definition, Problems> {
        match self.definition {
            Some(definition) if self.problems.is_empty() => Ok(definition),
            _ => Err(Problems::new(&self.file, &self.text, self.problems)),
        }
    }
}

/// The environment and the files of this process; relative paths start at the job file's folder.
#[derive(Debug)]
pub struct Process {
    /// The job file's folder.
    pub folder: PathBuf,
}

impl References for Process {
    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &str) -> std::io::Result<String> {
        let content = std::fs::read_to_string(self.folder.join(path))?;
        Ok(content.strip_suffix('\n').unwrap_or(&content).to_string())
    }
}

/// Opens and reads the job file at `path`.
///
/// # Errors
/// It cannot be opened. What is wrong inside it is in the answer.
pub fn load(path: &Path) -> anyhow::Result<Loaded> {
    let text = std::fs::read_to_string(path).with_context(|| format!("opening the job file {}", path.display()))?;
    // Absolute: a checkpoint knows a file by its path, which must not depend on where the program was started.
    let whole = std::path::absolute(path).with_context(|| format!("finding the job file {}", path.display()))?;
    let folder = whole.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(read_text(&path.display().to_string(), &text, &folder, &Process { folder: folder.clone() }))
}

/// Reads the text of a job file called `file`, with paths starting at `folder`.
pub fn read_text(file: &str, text: &str, folder: &Path, references: &dyn References) -> Loaded {
    let loaded = |definition, problems| Loaded { file: file.into(), text: text.into(), definition, problems };
    let mut root = match tree::parse(text) {
        Ok(root) => root,
        Err(problem) => return loaded(None, vec![problem]),
    };
    let mut problems = vec![];
    tree::resolve(&mut root, references, &mut problems);
    let reader = Reader { folder, problems: RefCell::new(problems) };
    let definition = read::job(&reader, &root, format!("{:016x}", xxh3_64(text.as_bytes())));
    loaded(Some(definition), reader.problems.into_inner())
}
