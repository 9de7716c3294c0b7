//! `millstream stop`: a running job takes a last checkpoint and ends.

use super::Failure;
use super::running::Running;
use millstream::job::control::socket::{Ask, Done, Ending};
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
    let (job, done) = arguments.running.ask(Ask::Stop(ending))?;
    match done {
        Done::Ending => {
            writeln!(
                out,
                "{job}: had failed and waited to start again; it ends with the checkpoint that it had, and has read no further"
            )?;
        }
        _ => writeln!(out, "{job}: stopping with a last checkpoint")?,
    }
    Ok(())
}
