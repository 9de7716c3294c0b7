//! `millstream savepoint`: a checkpoint of a running job in canonical form, at a place that the user names.

use super::Failure;
use super::progress::grouped;
use super::running::{Running, whole};
use anyhow::anyhow;
use millstream::job::control::socket::{Ask, Done, Ending};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    running: Running,
    /// Where it goes: a folder or a URL, empty or not there yet
    #[arg(long)]
    to: String,
    /// The job ends with the savepoint; it can go on from it
    #[arg(long)]
    stop: bool,
    /// With --stop: all windows and event-time timers fire first; the job has ended for good
    #[arg(long, requires = "stop")]
    drain: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let stop = match (arguments.stop, arguments.drain) {
        (false, _) => None,
        (true, false) => Some(Ending::Suspend),
        (true, true) => Some(Ending::Drain),
    };
    let to = whole(&arguments.to)?;
    let (job, done) = arguments.running.ask(Ask::Savepoint { to: to.clone(), stop })?;
    let Done::Savepoint { id, checkpoint, rows, bytes } = done else {
        return Err(anyhow!("job `{job}` did something else than it was asked").into());
    };
    let (rows, bytes) = (grouped(rows), grouped(bytes));
    writeln!(out, "{to}\n  savepoint {id} of {job}, checkpoint {checkpoint}: {rows} rows of state, {bytes} bytes")?;
    Ok(())
}
