//! `loligo completions`: a script for a shell.

use clap::CommandFactory;

use crate::args::Cli;
use crate::output::{Outcome, put};

/// Prints it.
pub fn run(shell: clap_complete::Shell) -> Outcome {
    // Into memory first: where it cannot be written, the generator panics.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loligo", &mut script);
    // What is for the program itself is not to be proposed; the generators know nothing of hidden options.
    let script = String::from_utf8_lossy(&script).replace("--ready-fd ", "");
    let others = |line: &&str| !line.contains("ready-fd") || line.trim_end().ends_with("--ready-fd)");
    put(script.lines().filter(others).collect::<Vec<_>>().join("\n"))
}
