//! `millstream rescale`: a running job goes on in another number of tasks.

use super::Failure;
use super::running::Running;
use anyhow::anyhow;
use millstream::job::control::socket::{Ask, Done};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    running: Running,
    /// Tasks of each node that has no `parallelism` of its own, up to the job's `max_parallelism`
    parallelism: usize,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let (job, done) = arguments.running.ask(Ask::Rescale { parallelism: arguments.parallelism })?;
    let Done::Rescaled { from, to } = done else {
        return Err(anyhow!("job `{job}` did something else than it was asked").into());
    };
    if from == to {
        writeln!(out, "{job}: runs with parallelism {to} already")?;
    } else {
        writeln!(
            out,
            "{job}: parallelism {from} → {to}; `parallelism` in its job file counts again when it is run anew"
        )?;
    }
    Ok(())
}
