//! `millstream stop`: a running job takes a last checkpoint and ends.

use super::Failure;
use super::running::Running;
use millstream::job::control::socket::{Ask, Ending};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    running: Running,
    /// All windows and event-time timers fire first; the job has ended for good
    #[arg(long)]
    drain: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let ending = if arguments.drain { Ending::Drain } else { Ending::Suspend };
    let (job, _) = arguments.running.ask(Ask::Stop(ending))?;
    writeln!(out, "{job}: stopping with a last checkpoint")?;
    Ok(())
}
