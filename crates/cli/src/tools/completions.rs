//! `loligo completions`: a script for a shell.

use clap::CommandFactory;

use crate::args::Cli;
use crate::output::Outcome;

/// Prints it.
pub fn run(shell: clap_complete::Shell) -> Outcome {
    clap_complete::generate(shell, &mut Cli::command(), "loligo", &mut std::io::stdout());
    Ok(())
}
