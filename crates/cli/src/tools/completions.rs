//! `loligo completions`: a script for a shell.

use clap::CommandFactory;

use crate::args::Cli;
use crate::output::{Outcome, put};

/// Prints it.
pub fn run(shell: clap_complete::Shell) -> Outcome {
    // Into memory first: where it cannot be written, the generator panics.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loligo", &mut script);
    put(String::from_utf8_lossy(&script).trim_end())
}
