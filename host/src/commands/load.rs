//! Loads a job file and all that can be judged without running it: the common beginning of `check` and `run`.

use super::{Failure, say};
use anyhow::Context;
use millstream::engine::{Engine, EngineSettings};
use millstream::job::definition::problem::Problems;
use millstream::job::definition::{self, Component, Definition};
use millstream::job::{check, components};
use millstream::operator_project;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A job that nothing was found wrong with.
pub(super) struct Checked {
    pub(super) definition: Definition,
    pub(super) known: check::Components,
    pub(super) code: Code,
}

/// The components' bytes, each read or built once.
#[derive(Default)]
pub(super) struct Code(RefCell<BTreeMap<PathBuf, Vec<u8>>>);

impl Code {
    /// The bytes of a component; a project is built first.
    pub(super) fn load(&self, component: &Component) -> anyhow::Result<Vec<u8>> {
        let (Component::File(path) | Component::Project(path)) = component;
        if let Some(bytes) = self.0.borrow().get(path) {
            return Ok(bytes.clone());
        }
        let bytes = match component {
            Component::File(path) => std::fs::read(path).with_context(|| format!("reading {}", path.display()))?,
            Component::Project(folder) => operator_project::build(folder, &mut say)?.bytes,
        };
        self.0.borrow_mut().insert(path.clone(), bytes.clone());
        Ok(bytes)
    }
}

/// Reads and checks the job file at `path`; compiled components are kept in `data_dir`.
pub(super) fn load(path: &Path, data_dir: &Path) -> Result<Checked, Failure> {
    let loaded = definition::load(path).map_err(Failure::Unfit)?;
    let (file, text) = (loaded.file.clone(), loaded.text.clone());
    let refuse = |problems| Failure::Refused(Problems::new(&file, &text, problems));
    let mut problems = loaded.problems;
    let Some(definition) = loaded.definition else { return Err(refuse(problems)) };
    problems.extend(check::structure(&definition));
    if problems.is_empty() {
        problems.extend(check::files(&definition));
    }
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let code = Code::default();
    let known = if check::has_guests(&definition) {
        let cache = Some(data_dir.join("components"));
        let engine = Engine::new(EngineSettings { cache, ..EngineSettings::default() })?;
        let (known, refused) = components::describe(&definition, &engine, &|component| code.load(component));
        problems.extend(refused);
        known
    } else {
        check::Components::new()
    };
    problems.extend(check::columns(&definition, &known));
    if problems.is_empty() { Ok(Checked { definition, known, code }) } else { Err(refuse(problems)) }
}
