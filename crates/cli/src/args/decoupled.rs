//! The command line of what concerns decoupled directories. Not here: what it does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Order, Target};

/// The server of what a program that is gone has kept. A path inside a mount would be taken for one more directory.
#[derive(Args)]
pub struct ServerArgs {
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of the server: a Unix socket's path or HOST:PORT.
    #[arg(long, value_name = "ADDR", env = "LOLIGO_SERVER")]
    server: Option<String>,
}

impl ServerArgs {
    /// As other commands find it.
    pub fn target(self) -> Target {
        Target { data: self.data, server: self.server, path: None }
    }
}

/// `loligo run`, `decouple`, `sync`, `merge`, `recouple`, `abandon`.
#[derive(Subcommand)]
pub enum DecoupledCommand {
    /// Run a command with a directory decoupled, then complete what its policy says, and report; the exit code is the command's.
    Run {
        /// A preset (loligo policy presets) or a file with a policy; without it, the policy that counts at the directory.
        #[arg(long, value_name = "FILE|PRESET")]
        policy: Option<PathBuf>,
        /// If the server hears no more of the mount (it died, or its machine is cut off): so many seconds after the end of its session the server
        /// gives the directory back, without what was not merged. Until then the mount may come back and go on.
        #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
        lease: f64,
        /// The directory, in a mount.
        dir: PathBuf,
        /// The command and its arguments; `--` before it is not necessary. Options of `loligo run` stand before it.
        #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Have a directory of a mount for oneself: what is done below it needs no server. Others are refused, read, or work there, as `interfere` of the
    /// policy says.
    Decouple {
        /// The directory, in a mount.
        dir: PathBuf,
        /// A preset (loligo policy presets) or a file with a policy; without it, the policy that counts at the directory.
        #[arg(long, value_name = "FILE|PRESET")]
        policy: Option<PathBuf>,
        /// If the server hears no more of the mount (it died, or its machine is cut off): so many seconds after the end of its session the server
        /// gives the directory back, without what was not merged. Until then the mount may come back and go on.
        #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
        lease: f64,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Complete in a decoupled directory what its policy says, persist and merge; it stays decoupled.
    Sync {
        /// The directory, in a mount.
        dir: PathBuf,
        #[command(flatten)]
        order: Order,
    },
    /// Complete in a decoupled directory what its policy says, and give it back.
    Recouple {
        /// The directory, in a mount.
        dir: PathBuf,
        #[command(flatten)]
        order: Order,
    },
    /// Merge what was done in decoupled directories of a mount, which stay decoupled; or what programs that are gone have kept of some, which
    /// are like others then.
    Merge {
        /// Directories, in a mount; or journals that programs kept on this machine. Each is done, also if another one cannot be.
        #[arg(value_name = "DIRECTORY|FILE", required = true)]
        what: Vec<PathBuf>,
        /// Merge the journals that programs have kept in the store: of these directories, inside a mount unless a server is named.
        #[arg(long)]
        stored: bool,
        /// With --stored or a FILE: at once, without waiting for the owner, also if it is at work; it loses what is not in there. Root only.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        server: ServerArgs,
        #[command(flatten)]
        order: Order,
    },
    /// Give decoupled directories back without what was not merged.
    Abandon {
        /// Directories, in a mount, with what the mount has kept of them on this machine; or journals that programs which are gone have kept on this
        /// machine, and which stay.
        #[arg(value_name = "DIRECTORY|FILE", required = true)]
        what: Vec<PathBuf>,
        /// Remove such journals, also if their directories were taken back before.
        #[arg(long, conflicts_with_all = ["stored", "force"])]
        remove: bool,
        /// Without what such programs have kept in the store, which is gone then: of these directories, inside a mount unless a server is named.
        #[arg(long)]
        stored: bool,
        /// Of these directories, inside a mount unless a server is named, whoever has them: an owner need not be away, nor its lease be over, and it
        /// loses what it has not merged. Root only.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        server: ServerArgs,
        #[command(flatten)]
        order: Order,
    },
}

impl DecoupledCommand {
    /// True if the output is for programs (`--json`).
    pub fn for_programs(&self) -> bool {
        match self {
            DecoupledCommand::Sync { order, .. }
            | DecoupledCommand::Recouple { order, .. }
            | DecoupledCommand::Abandon { order, .. }
            | DecoupledCommand::Merge { order, .. } => order.json,
            DecoupledCommand::Decouple { json, .. } => *json,
            _ => false,
        }
    }
}
