//! `loligo journal`: what the journals of ranks, and journal files, say. Each subcommand has a file of its own; what they read is in
//! `source.rs`.

mod diff;
mod export;
mod filters;
mod inspect;
mod source;

use clap::Subcommand;

use crate::output::Outcome;

/// `loligo journal`.
#[derive(Subcommand)]
pub enum JournalCommand {
    /// Print segments and records of ranks' journals, or of a journal file. Servers go on meanwhile.
    Inspect(inspect::InspectArgs),
    /// Write a rank's journal, or some of its records, into a file. Servers go on meanwhile.
    Export(export::ExportArgs),
    /// Compare two journals, record by record. Exit code 3: they differ.
    Diff(diff::DiffArgs),
}

impl JournalCommand {
    /// Whether its output is for programs.
    pub fn for_programs(&self) -> bool {
        match self {
            JournalCommand::Inspect(args) => args.json,
            JournalCommand::Export(args) => args.json,
            JournalCommand::Diff(args) => args.json,
        }
    }
}

/// Does what is asked.
pub fn run(command: &JournalCommand) -> Outcome {
    match command {
        JournalCommand::Inspect(args) => inspect::run(args),
        JournalCommand::Export(args) => export::run(args),
        JournalCommand::Diff(args) => diff::run(args),
    }
}
