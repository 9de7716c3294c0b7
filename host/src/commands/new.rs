//! `millstream new`: an operator project to start from.

use super::Failure;
use millstream::operator_project;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The project's folder; its last part is the operator's name
    folder: PathBuf,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    operator_project::create(&arguments.folder)?;
    let folder = arguments.folder.display();
    writeln!(out, "made {folder}: an operator in Rust, its tests, and a job that uses it")?;
    writeln!(out, "  cd {folder}")?;
    writeln!(out, "  cargo test                 # its tests, natively")?;
    writeln!(out, "  millstream test            # its cases, as a component")?;
    writeln!(out, "  millstream run job.yaml    # the job")?;
    Ok(())
}
