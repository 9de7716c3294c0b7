//! `millstream check`: all that is wrong with a job file, or what the job will do.

use super::{Failure, load};
use millstream::job::check::explain;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The job file
    job: PathBuf,
    /// Read the file sources and say which watermark bound covers how many of their records
    #[arg(long)]
    measure: bool,
    /// Where compiled components are kept
    #[arg(long, default_value = ".millstream")]
    data_dir: PathBuf,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let checked = load::load(&arguments.job, &arguments.data_dir)?;
    write!(out, "{}", explain(&checked.definition, &checked.known))?;
    if arguments.measure {
        writeln!(out)?;
        for (source, disorder) in millstream::job::measure(&checked.definition)? {
            let bound = checked.definition.sources.iter().find(|it| it.name == source);
            write!(out, "{}", disorder.report(&source, bound.and_then(|it| it.watermark.bound_ms)))?;
        }
    }
    Ok(())
}
