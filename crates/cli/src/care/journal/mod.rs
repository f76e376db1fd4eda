//! `loligo journal`: what the journals of ranks, and journal files, say. Each subcommand has a file of its own; what they read is in
//! `source.rs`.

mod apply;
mod backup;
mod builds;
mod diff;
mod erase;
mod erase_file;
mod export;
mod filters;
mod fits;
mod import;
mod inspect;
mod replace;
mod source;

use clap::Subcommand;

use crate::output::Outcome;

/// Last line of a dry run.
const NOTHING_CHANGED: &str = crate::output::UNCHANGED;

/// `loligo journal`.
#[derive(Subcommand)]
pub enum JournalCommand {
    /// Print segments and records of ranks' journals, or of a journal file. Servers go on meanwhile.
    Inspect(inspect::InspectArgs),
    /// Write a journal, or some of its records, into a file. Servers go on meanwhile.
    Export(export::ExportArgs),
    /// Put a journal file in the place of a rank's journal.
    Import(import::ImportArgs),
    /// Bring what journals say into the table, as a server does.
    Apply(apply::ApplyArgs),
    /// Make records of a rank's journal, or of a journal file, say nothing.
    Erase(erase::EraseArgs),
    /// Compare two journals, record by record. Exit code 3: they differ.
    Diff(diff::DiffArgs),
}

impl JournalCommand {
    /// True if the output is for programs.
    pub fn for_programs(&self) -> bool {
        match self {
            JournalCommand::Inspect(args) => args.json,
            JournalCommand::Export(args) => args.json,
            JournalCommand::Import(args) => args.json,
            JournalCommand::Apply(args) => args.json,
            JournalCommand::Erase(args) => args.json,
            JournalCommand::Diff(args) => args.json,
        }
    }
}

/// Does what is asked.
pub fn run(command: &JournalCommand) -> Outcome {
    match command {
        JournalCommand::Inspect(args) => inspect::run(args),
        JournalCommand::Export(args) => export::run(args),
        JournalCommand::Import(args) => import::run(args),
        JournalCommand::Apply(args) => apply::run(args),
        JournalCommand::Erase(args) => erase::run(args),
        JournalCommand::Diff(args) => diff::run(args),
    }
}
