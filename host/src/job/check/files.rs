//! What must be on the disk before a job runs: the files of its sources, its components.

use crate::job::definition::problem::Problem;
use crate::job::definition::{AggregateFunction, Component, Definition, Guest, Logic, Source, SourceConnector};

/// Problems of the disk.
pub fn files(definition: &Definition) -> Vec<Problem> {
    let sources = definition.sources.iter().filter_map(source);
    sources.chain(guests(definition).into_iter().filter_map(component)).collect()
}

/// Every guest of a job.
pub(in crate::job) fn guests(definition: &Definition) -> Vec<&Guest> {
    let mut guests = vec![];
    for operator in &definition.operators {
        match &operator.logic {
            Logic::Guest(guest) => guests.push(guest),
            Logic::Window(window) => {
                guests.extend(window.aggregates.iter().filter_map(|aggregate| match &aggregate.function {
                    AggregateFunction::Guest(guest) => Some(guest),
                    AggregateFunction::BuiltIn { .. } => None,
                }))
            }
        }
    }
    guests
}

fn source(source: &Source) -> Option<Problem> {
    let SourceConnector::File(file) = &source.connector else { return None };
    if file.follow {
        return None; // files may appear later
    }
    let pattern = file.path.to_string_lossy();
    if file.path.exists() {
        return None;
    }
    let missing = |what: &str| Problem::at(source.place, format!("the source `{}` has no file: {what}", source.name));
    if !pattern.contains(['*', '?', '[']) {
        return Some(
            missing(&format!("{pattern} does not exist")).hint("relative paths start at the job file's folder"),
        );
    }
    match glob::glob(&pattern) {
        Ok(mut paths) => match paths.next() {
            Some(_) => None,
            None => {
                Some(missing(&format!("nothing fits {pattern}")).hint("relative paths start at the job file's folder"))
            }
        },
        Err(error) => Some(missing(&format!("{pattern} is no pattern: {}", error.msg))),
    }
}

fn component(guest: &Guest) -> Option<Problem> {
    match &guest.component {
        Component::File(path) if path.is_file() => None,
        Component::File(path) => Some(
            Problem::at(guest.place, format!("the component {} is not there", path.display()))
                .hint("`millstream build` makes one of an operator project; relative paths start at the job file's folder"),
        ),
        Component::Project(folder) if folder.join("Cargo.toml").is_file() => None,
        Component::Project(folder) if folder.is_dir() => Some(
            Problem::at(guest.place, format!("{} is no operator project: it has no Cargo.toml", folder.display()))
                .hint("`millstream new` makes one"),
        ),
        Component::Project(file) if file.is_file() => Some(
            Problem::at(guest.place, format!("{} is neither a component nor the folder of an operator project", file.display()))
                .hint("name a `.wasm` file, or the folder"),
        ),
        Component::Project(folder) => Some(
            Problem::at(guest.place, format!("the component {} is not there", folder.display()))
                .hint("name a `.wasm` file or the folder of an operator project; relative paths start at the job file's folder"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::job::definition::load;

    #[test]
    fn files_and_components_that_are_not_there_are_told_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job.yaml");
        let text = "\
name: gone
sources:
  one: { connector: file, path: one.jsonl }
  many: { connector: file, path: 'many/*.jsonl' }
  later: { connector: file, path: later, follow: true }
operators:
  file: { inputs: [one, many, later], component: gone.wasm }
  folder: { input: file, component: gone }
  empty: { input: folder, component: . }
sinks:
  out: { input: empty, connector: stdout }
";
        std::fs::write(&job, text).unwrap();
        let problems = super::files(&load(&job).unwrap().definition.unwrap());
        let told: Vec<(u32, bool)> =
            problems.iter().map(|it| (it.place.unwrap().line, it.message.contains("has no Cargo.toml"))).collect();
        assert_eq!(told, [(3, false), (4, false), (7, false), (8, false), (9, true)]);
        assert!(problems[1].message.contains("nothing fits"), "{problems:?}");
    }
}
