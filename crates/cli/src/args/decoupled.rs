//! The command line of what concerns decoupled directories. Not here: what it does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use super::Target;

/// `loligo run`, `decouple`, `sync`, `merge`, `recouple`, `abandon`.
#[derive(Subcommand)]
pub enum DecoupledCommand {
    /// Run a command with a directory decoupled, then complete what its policy says, and report; the exit code is the command's.
    Run {
        /// A preset (loligo policy presets) or a file with a policy; without it, the policy that counts at the directory.
        #[arg(long, value_name = "FILE|PRESET")]
        policy: Option<PathBuf>,
        /// The directory, in a mount.
        dir: PathBuf,
        /// The command.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Have a directory of a mount for oneself: what is done below it needs no server, and others are refused there.
    Decouple {
        /// The directory, in a mount.
        dir: PathBuf,
        /// A preset (loligo policy presets) or a file with a policy; without it, the policy that counts at the directory.
        #[arg(long, value_name = "FILE|PRESET")]
        policy: Option<PathBuf>,
        /// Seconds after the end of its session, within which the mount may come back before the directory is taken from it.
        #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
        lease: f64,
    },
    /// Complete in a decoupled directory what its policy says, persist and merge; it stays decoupled.
    Sync {
        /// The directory, in a mount.
        dir: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Complete in a decoupled directory what its policy says, and give it back.
    Recouple {
        /// The directory, in a mount.
        dir: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Merge what was done in a decoupled directory of a mount, which stays decoupled; or what a program that is gone has kept of one, which
    /// is one like others then.
    #[command(group(clap::ArgGroup::new("kept").required(true).args(["what", "stored"])))]
    Merge {
        /// The directory, in a mount; or the journal that the program kept on this machine.
        #[arg(value_name = "DIRECTORY|FILE")]
        what: Option<PathBuf>,
        /// What the program has kept in the store: of this directory, inside a mount unless a server is named.
        #[arg(long, value_name = "DIRECTORY")]
        stored: Option<PathBuf>,
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a decoupled directory back without what was not merged.
    #[command(group(clap::ArgGroup::new("kept").required(true).args(["what", "stored"])))]
    Abandon {
        /// The directory, in a mount; or the journal that a program which is gone has kept of it on this machine, and which stays.
        #[arg(value_name = "DIRECTORY|FILE")]
        what: Option<PathBuf>,
        /// Without what such a program has kept in the store, which is gone then: of this directory, inside a mount unless a server is named.
        #[arg(long, value_name = "DIRECTORY")]
        stored: Option<PathBuf>,
        #[command(flatten)]
        target: Target,
    },
}

impl DecoupledCommand {
    /// Whether its output is for programs (`--json`).
    pub fn for_programs(&self) -> bool {
        match self {
            DecoupledCommand::Sync { json, .. }
            | DecoupledCommand::Recouple { json, .. }
            | DecoupledCommand::Merge { json, .. } => *json,
            _ => false,
        }
    }
}
