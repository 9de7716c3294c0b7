//! `millstream test`: an operator's cases, straight and with its instance replaced between any two records.

use super::{Failure, say};
use anyhow::{Context, anyhow};
use millstream::engine::{Engine, EngineSettings};
use millstream::operator_project;
use millstream::operator_project::cases::{Way, read, run as run_case};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The operator project's folder, or a component
    #[arg(default_value = ".")]
    operator: PathBuf,
    /// Files of cases; without any, those in the project's folder `cases`
    cases: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let bytes = if arguments.operator.is_dir() {
        operator_project::build(&arguments.operator, &mut say)?.bytes
    } else {
        std::fs::read(&arguments.operator).with_context(|| format!("reading {}", arguments.operator.display()))?
    };
    let files = case_files(arguments)?;
    let engine = Engine::new(EngineSettings::default())?;
    let component = engine.load(&bytes).context("the component is refused")?;
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        for case in read(&file)? {
            for (way, words) in [(Way::Straight, "straight"), (Way::Replaced, "with its instance replaced")] {
                let differences = run_case(&component, &case, way).unwrap_or_else(|error| vec![format!("{error:#}")]);
                if differences.is_empty() {
                    passed += 1;
                    continue;
                }
                failed += 1;
                writeln!(out, "FAILED {}: {} ({words})", file.display(), case.case)?;
                for line in differences {
                    writeln!(out, "  {line}")?;
                }
            }
        }
    }
    writeln!(out, "{passed} runs passed, {failed} failed")?;
    if failed > 0 { Err(Failure::Told) } else { Ok(()) }
}

fn case_files(arguments: &Arguments) -> anyhow::Result<Vec<PathBuf>> {
    if !arguments.cases.is_empty() {
        return Ok(arguments.cases.clone());
    }
    if arguments.operator.is_file() {
        return Err(anyhow!(
            "a component has no cases of its own: name files of them, `millstream test {} CASES…`",
            arguments.operator.display()
        ));
    }
    let folder = arguments.operator.join("cases");
    let none = || anyhow!("there are no cases: name files of them, or put them into {}", folder.display());
    let entries = std::fs::read_dir(&folder).map_err(|_| none())?;
    let is_cases = |path: &Path| path.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json");
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_cases(path)).collect();
    files.sort();
    if files.is_empty() { Err(none()) } else { Ok(files) }
}
