//! A new operator project: a commented example that builds and passes its own tests, with the SDK beside it.

use anyhow::{Context, bail};
use std::path::Path;

/// The guest SDK and the WIT package, by path.
const SDK: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));

/// The project's own files. `NAME` stands for its name.
const TEMPLATE: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("template/lib.rs.txt")),
    ("cases/visits.yaml", include_str!("template/visits.yaml")),
    ("job.yaml", include_str!("template/job.yaml")),
    ("data/clicks.jsonl", include_str!("template/clicks.jsonl")),
    ("README.md", include_str!("template/README.md")),
    (".gitignore", "target/\n.millstream/\n"),
];

/// Every file of a project called `name`, with its path.
pub fn files(name: &str) -> Vec<(String, String)> {
    let own = TEMPLATE.iter().map(|(path, text)| ((*path).to_string(), text.replace("NAME", name)));
    let sdk = SDK.iter().map(|(path, text)| (format!("sdk/{path}"), (*text).to_string()));
    own.chain(sdk).collect()
}

/// Packages in the project's workspace.
const SDK_PACKAGES: [&str; 2] = ["millstream-sdk", "millstream-sdk-derive"];

/// Writes a project into `folder`, which must not be there yet; its last part is the project's name.
///
/// # Errors
/// The name does not fit, the folder is there, or it cannot be written.
pub fn create(folder: &Path) -> anyhow::Result<()> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(fits) {
        bail!("`{name}` is no name for an operator: lower-case letters, digits, `-` and `_`, a letter first");
    }
    if SDK_PACKAGES.contains(&name) {
        bail!("`{name}` is a package of the SDK, which the project carries: give the operator another name");
    }
    if folder.exists() {
        bail!("{} is there already: nothing was written", folder.display());
    }
    for (path, text) in files(name) {
        let path = folder.join(path);
        let parent = path.parent().expect("a file lies in a folder");
        std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_carries_the_whole_sdk() {
        let files = files("visits");
        let has = |path: &str| files.iter().any(|(there, _)| there == path);
        for path in ["Cargo.toml", "src/lib.rs", "sdk/guest-sdk/src/lib.rs", "sdk/guest-sdk/derive/src/lib.rs"] {
            assert!(has(path), "{path}");
        }
        assert!(has("sdk/wit/operator.wit"));
        assert!(files.iter().all(|(path, text)| path.starts_with("sdk/") || !text.contains("NAME")));
    }

    #[test]
    fn a_project_never_overwrites_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let error = create(&folder.path().join("Upper")).unwrap_err();
        assert!(error.to_string().starts_with("`Upper` is no name for an operator"), "{error}");
        let project = folder.path().join("visits");
        create(&project).unwrap();
        let error = create(&project).unwrap_err();
        assert!(error.to_string().ends_with("is there already: nothing was written"), "{error}");
    }

    #[test]
    fn the_job_of_a_new_project_has_no_problem() {
        let folder = tempfile::tempdir().unwrap();
        create(&folder.path().join("visits")).unwrap();
        let loaded = crate::job::definition::load(&folder.path().join("visits/job.yaml")).unwrap();
        let mut problems = loaded.problems.clone();
        let definition = loaded.definition.unwrap();
        problems.extend(crate::job::check::structure(&definition));
        problems.extend(crate::job::check::files(&definition));
        assert_eq!(problems, []);
    }
}
