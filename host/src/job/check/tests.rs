//! Golden job files: tests/job_files/<case>.yaml is refused with exactly the text of <case>.error.txt, or, where there is no
//! such file, is not refused. To write the texts of new cases: `UPDATE_EXPECT=1 cargo test -p millstream golden`, then read them.

use super::*;
use crate::job::definition::problem::Problems;
use crate::job::definition::{References, read_text};
use dataflow::record::{Field, Schema, ValueType};
use std::path::{Path, PathBuf};

struct NoReferences;

impl References for NoReferences {
    fn environment(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &str) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// Components that golden files may name, without any code.
fn components() -> Components {
    let field = |name: &str, pointer: &str| TakenField {
        name: name.into(),
        pointer: pointer.into(),
        required: true,
        input: None,
    };
    let alert = Schema { fields: vec![Field::new("/city", ValueType::Text), Field::new("/ratio", ValueType::Float)] };
    let surge = Described::Processor {
        fields: vec![field("city", "/key"), field("count", "/count")],
        inputs: vec!["panes".into()],
        outputs: vec![("main".into(), Columns::Declared(alert)), ("calm".into(), Columns::Open)],
        keyed: true,
        endless: vec![],
    };
    let total = Described::Processor {
        fields: vec![],
        inputs: vec!["rides".into(), "rules".into()],
        outputs: vec![("main".into(), Columns::Open)],
        keyed: true,
        endless: vec!["total".into()],
    };
    let score = Described::Aggregator { fields: vec![field("fare", "/fare")], result_type: ValueType::Float };
    [
        ("components/surge.wasm".into(), surge),
        ("components/total.wasm".into(), total),
        ("components/score.wasm".into(), score),
    ]
    .into()
}

fn refusal(name: &str, text: &str) -> Option<String> {
    let loaded = read_text(name, text, Path::new(""), &NoReferences);
    let mut problems = loaded.problems;
    if let Some(definition) = &loaded.definition {
        problems.extend(structure(definition));
        if problems.is_empty() {
            problems.extend(columns(definition, &components()));
        }
    }
    (!problems.is_empty()).then(|| Problems::new(name, text, problems).to_string())
}

#[test]
fn golden_job_files_are_refused_with_the_expected_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/job_files");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    cases.sort();
    assert!(cases.len() > 20, "the golden job files are gone");
    let mut wrong = String::new();
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let refused = refusal(&name, &std::fs::read_to_string(&case).unwrap());
        let expected_path = case.with_extension("error.txt");
        if std::env::var_os("UPDATE_EXPECT").is_some()
            && let Some(refused) = &refused
        {
            std::fs::write(&expected_path, refused).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).ok();
        if refused != expected {
            wrong += &format!("== {name}\n-- expected\n{expected:?}\n-- got\n{refused:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
