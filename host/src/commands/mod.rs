//! What a person types. Each command is a file; here they are named, called, and their failures told: one line per cause.
//! Exit code 0: done; 1: it failed; 2: the arguments, the job file or what it names were refused and nothing ran; 141: nobody reads
//! the output any more.

mod build;
mod check;
mod load;
mod new;
mod progress;
mod rescale;
mod run;
mod running;
mod savepoint;
mod screen;
mod state;
mod stop;
mod summary;
mod test;

use clap::{Parser, Subcommand};
use millstream::job::definition::problem::Problems;
use std::io::Write;
use std::process::ExitCode;

/// Runs stream logic, compiled to WebAssembly components, over records with event time, state and exactly-once output.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a job in the foreground; it goes on from its last checkpoint
    Run(run::Arguments),
    /// Have a running job take a last checkpoint and end
    Stop(stop::Arguments),
    /// Make a savepoint of a running job: its state in one documented form, to keep, to move, to start from
    Savepoint(savepoint::Arguments),
    /// Have a running job go on in another number of tasks
    Rescale(rescale::Arguments),
    /// List, read and export the state in a savepoint or a checkpoint, without the job's code
    State(state::Arguments),
    /// Find all that is wrong with a job file, and say what the job will do, without running it
    Check(check::Arguments),
    /// Make an operator project in Rust that builds and passes its own tests
    New(new::Arguments),
    /// Compile an operator project to a component and describe it
    Build(build::Arguments),
    /// Run an operator's cases, straight and with its instance replaced between any two records
    Test(test::Arguments),
}

/// What a shell reports of a program that SIGPIPE has ended: 128 and the signal's number. Not success, as not all was done.
const UNREAD: u8 = 141;

/// Why a command ends without success.
enum Failure {
    /// The job file is refused.
    Refused(Problems),
    /// There is no such job file, or what it names does not fit: nothing ran, nor would it when tried again.
    Unfit(anyhow::Error),
    /// Something went wrong.
    Failed(anyhow::Error),
    /// All was said already.
    Told,
    /// Nobody reads the output any more, as where it goes to `head`.
    Unread,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Failure {
    /// Of writing to standard output.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::Unread;
        }
        Self::Failed(anyhow::Error::from(error).context("writing to standard output"))
    }
}

/// Runs the command of this process's arguments.
pub(crate) fn main() -> ExitCode {
    let out = &mut std::io::stdout(); // not locked: a stdout sink writes from its own thread
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Stop(arguments) => stop::run(&arguments, out),
        Command::Savepoint(arguments) => savepoint::run(&arguments, out),
        Command::Rescale(arguments) => rescale::run(&arguments, out),
        Command::State(arguments) => state::run(&arguments, out),
        Command::Check(arguments) => check::run(&arguments, out),
        Command::New(arguments) => new::run(&arguments, out),
        Command::Build(arguments) => build::run(&arguments, out),
        Command::Test(arguments) => test::run(&arguments, out),
    };
    let (code, text) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Told) => return ExitCode::FAILURE,
        Err(Failure::Unread) => return ExitCode::from(UNREAD),
        Err(Failure::Refused(problems)) => (2, problems.to_string()),
        Err(Failure::Unfit(error)) => (2, chain(&error)),
        Err(Failure::Failed(error)) => (1, chain(&error)),
    };
    // A closed standard error leaves only the exit code to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(code)
}

/// `error: …` and a line for each cause.
fn chain(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        text += &format!("caused by: {cause}\n");
    }
    text
}

/// A line for a person, beside the command's output.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_to_tell_of() {
        let failure = |kind: std::io::ErrorKind| Failure::from(std::io::Error::from(kind));
        assert!(matches!(failure(std::io::ErrorKind::BrokenPipe), Failure::Unread));
        assert!(matches!(failure(std::io::ErrorKind::StorageFull), Failure::Failed(_)));
    }

    #[test]
    fn a_failure_is_a_line_per_cause() {
        let error =
            anyhow::anyhow!("no such file").context("opening rides.jsonl").context("source `rides` cannot be opened");
        let expected =
            "error: source `rides` cannot be opened\ncaused by: opening rides.jsonl\ncaused by: no such file\n";
        assert_eq!(chain(&error), expected);
    }
}
