//! The command line of `loligo policy`. Not here: what it does.

use std::path::PathBuf;

use clap::Subcommand;

use super::{Directory, Order};

/// `loligo policy`.
#[derive(Subcommand)]
pub enum PolicyCommand {
    /// Say what a directory and all below it promise, and show what that changes: sets its xattr loligo.policy.subtree.
    Set {
        #[command(flatten)]
        dir: Directory,
        /// A preset (loligo policy presets), a file with a policy, or `-` for stdin.
        #[arg(value_name = "FILE|PRESET", required_unless_present_any = ["version", "rollback"])]
        policy: Option<PathBuf>,
        /// A version of the directory's own policy that was in force before (loligo policy history).
        #[arg(long, value_name = "N", conflicts_with_all = ["policy", "rollback"])]
        version: Option<u32>,
        /// Go back to the policy that was in force before: another version, or none.
        #[arg(long, conflicts_with = "policy")]
        rollback: bool,
        #[command(flatten)]
        order: Order,
    },
    /// Print which policy is in force at a path, from which directory it is, what it promises, and where directories live that are made there.
    Show {
        /// Data directory of the server; the path is then one in the file system, as in /a/b.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Address of the server; likewise.
        #[arg(long, value_name = "ADDR")]
        server: Option<String>,
        /// A directory or a file, inside a mount unless a server is named.
        path: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the versions of a directory's own policy: which was in force when, and who set it.
    History {
        #[command(flatten)]
        dir: Directory,
        /// Print the document of this version.
        #[arg(long, value_name = "N", conflicts_with = "json")]
        version: Option<u32>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what is promised at a path now, what is outstanding, and what would be lost if a client, a machine, the rank or the store died.
    Explain {
        /// Data directory of the server; the path is then one in the file system, as in /a/b. What a mount holds back only that mount knows.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Address of the server; likewise.
        #[arg(long, value_name = "ADDR")]
        server: Option<String>,
        /// A directory or a file, inside a mount unless a server is named.
        path: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look at what is done below a directory, and say which placement of directories (loligo subtree place) suits it, and why.
    Advise {
        #[command(flatten)]
        dir: Directory,
        /// Seconds to observe the directory.
        #[arg(long, value_name = "S", default_value_t = 10)]
        seconds: u32,
        /// For so many ranks, and not as many as there are.
        #[arg(long, value_name = "N")]
        ranks: Option<u16>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take a directory's own policy away: what is above counts again.
    Unset {
        #[command(flatten)]
        dir: Directory,
        #[command(flatten)]
        order: Order,
    },
    /// Print the policies that have a name.
    Presets {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say whether a file is a policy that makes sense; exit code 3 if not.
    Check {
        /// The policy; `-` for stdin.
        file: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}
