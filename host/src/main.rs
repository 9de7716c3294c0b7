//! The program `millstream`: reads its arguments and hands them to a command.

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
