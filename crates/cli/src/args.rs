//! The command line, as clap reads it. Not here: what the commands do.

mod bench;
mod data;
mod decoupled;
mod examples;
mod order;
mod policy;
mod rank;
mod subtree;
pub mod synonyms;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use self::bench::{Bench, BenchMd, BenchWorkload};
pub use self::data::DataDir;
pub use self::decoupled::DecoupledCommand;
pub use self::examples::command;
pub use self::order::Order;
pub use self::policy::PolicyCommand;
pub use self::rank::{RankCommand, number, rank as rank_of};
pub use self::subtree::Subtree;
use crate::auth::AuthCommand;

/// The commands by what a user wants; clap knows no groups of commands.
const TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Service:
  up           Start store, server and mount in one process
  down         Stop what `up` or `serve` started
  format       Make an empty file system in a data directory
  serve        Start a server without a mount
  mount        Mount a served file system
  umount       Unmount it
  auth         Who may come in from other machines

Look:
  status       What a server does and how it is
  top          The same, live
  config       The effective configuration and where each value came from
  path         From inode numbers to paths
  doctor       What this machine allows, and what would help

Policy:
  policy       What a directory and all below it promise: who sees changes when, what survives
  run          Run a command with a directory decoupled, and complete what its policy says
  decouple     Have a directory of a mount for oneself: what is done below it needs no server
  sync         Complete there what its policy says: persist, merge
  merge        Merge what was done there, or what a program that is gone has kept of such a directory
  recouple     Complete it and give the directory back
  abandon      Give it back without what was not merged

Ranks:
  rank         The ranks that serve the namespace
  subtree      Which rank has which directories; move and pin them
  balancer     Which policy moves load between ranks, what it does, and why

Care:
  fsck         Check a file system, and repair it
  dump         Write the whole namespace as text
  load         Make a namespace from such a text
  copy         Copy a whole file system to another store
  journal      Look into journals, and mend them
  store        Check the store itself, below the namespace

Tools:
  bench        Measure
  completions  Print a completion script for a shell
  version      Versions of the program, its protocols and formats

Options:
{options}

`loligo COMMAND --help` says more about each. Exit codes: 1 it failed, 2 wrong usage, 3 a check found something.";

/// Loligo, a file system whose directories choose their own rules.
#[derive(Parser)]
#[command(
    name = "loligo",
    version,
    about = "Loligo, a file system whose directories choose their own rules",
    long_about = None,
    help_template = TEMPLATE
)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Configuration file (TOML); without it DATA/loligo.toml is read if it is there.
    #[arg(long, global = true, value_name = "FILE", env = "LOLIGO_CONFIG")]
    pub config: Option<PathBuf>,
    /// Show no progress of long work.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Set one configuration key (see `loligo config`); may be repeated.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("this must be KEY=VALUE")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

/// Server or data directory that a command is for.
#[derive(Args, Clone, Default)]
pub struct Target {
    /// Data directory of the server.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address of the server: a Unix socket's path or HOST:PORT.
    #[arg(long, value_name = "ADDR", env = "LOLIGO_SERVER")]
    pub server: Option<String>,
    /// A path inside a mount, or a data directory.
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

impl Target {
    /// The words that name the same server again, with a space before them, for commands that a user is to copy.
    pub fn again(&self) -> String {
        match (&self.data, &self.server, &self.path) {
            (Some(data), ..) => format!(" --data {}", crate::output::quoted(data)),
            (None, _, Some(path)) => format!(" {}", crate::output::quoted(path)),
            // Where it comes of the environment it does so again.
            (None, Some(server), None) => format!(" --server {server}"),
            (None, None, None) => String::new(),
        }
    }
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Start store, server and mount in one process; formats a new data directory.
    Up(Up),
    /// Stop the server of a data directory, unmounting what it mounted.
    Down(Down),
    /// Make an empty file system in a data directory.
    Format(Format),
    /// Start a server without a mount.
    Serve(Serve),
    /// Mount a served file system.
    Mount(MountArgs),
    /// Unmount it.
    Umount {
        /// Mount point.
        mount: PathBuf,
        /// Detach at once even if files are open there.
        #[arg(long)]
        lazy: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Manage identities for TLS, with which clients on other machines may connect.
    Auth {
        #[command(subcommand)]
        what: AuthCommand,
    },
    /// Show the state of a server and what it does.
    Status {
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// The same, live; Ctrl-C ends it.
    Top {
        #[command(flatten)]
        target: Target,
        /// Seconds between two looks.
        #[arg(long, default_value_t = 1.0)]
        interval: f64,
        /// End after so many looks (0: never).
        #[arg(long, default_value_t = 0)]
        count: u64,
    },
    /// Say what this machine's kernel, limits and disk allow, and what would help; exit code 3: something keeps Loligo from running.
    Doctor {
        /// Directory where data is or is to be; its disk is looked at, too.
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the paths of inodes by their numbers, as logs, findings and tables name them; of a file with several names one of them.
    Path {
        /// Numbers of inodes; a word that is no number names the server, by a path inside a mount.
        #[arg(required = true, value_name = "INODE|PATH")]
        inos: Vec<String>,
        /// Data directory; it is read if no server runs on it.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Address of the server: a Unix socket's path or HOST:PORT.
        #[arg(long, value_name = "ADDR", env = "LOLIGO_SERVER")]
        server: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// The effective configuration and where each value came from.
    Config {
        /// Data directory whose loligo.toml counts, or a path inside a mount of its server.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// The same without --data.
        #[arg(value_name = "PATH", conflicts_with = "data")]
        path: Option<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Manage the policy of a directory and all below it: who sees changes when, what survives.
    Policy {
        #[command(subcommand)]
        what: PolicyCommand,
    },
    /// Directories that a client has for itself.
    #[command(flatten)]
    Decoupled(DecoupledCommand),
    /// The ranks that serve the namespace.
    Rank {
        #[command(subcommand)]
        what: RankCommand,
    },
    /// Which policy moves load between ranks, what it does, and why.
    Balancer {
        #[command(subcommand)]
        what: BalancerCommand,
    },
    /// Which rank has which directories; move and pin them.
    Subtree {
        #[command(subcommand)]
        what: Subtree,
    },
    /// Check a file system that is not served, and repair it if told to.
    Fsck {
        #[command(flatten)]
        data: DataDir,
        /// Mend what is found; without it nothing is written.
        #[arg(long)]
        repair: bool,
        /// Also read all file data and verify its checksums.
        #[arg(long)]
        data_checksums: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the whole namespace as text (docs/formats/dump.md). If the data directory is served, its server makes a snapshot.
    Dump {
        #[command(flatten)]
        data: DataDir,
        /// File to write; without it, stdout.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Also if there are files with data in objects, which a dump does not hold. They come back with their size and without data.
        #[arg(long)]
        without_data: bool,
        /// Print the counts of the dump as JSON.
        #[arg(long, requires = "output")]
        json: bool,
    },
    /// Make a namespace from such a text in a new data directory.
    Load {
        /// Data directory; must be new or empty.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// File to read; `-` for stdin.
        input: PathBuf,
        #[command(flatten)]
        order: Order,
    },
    /// Copy a whole file system to another store: into a Ceph cluster, back, or to another directory.
    Copy(crate::care::copy::CopyArgs),
    /// Look into journals, carry them elsewhere, and mend them.
    #[command(subcommand)]
    Journal(crate::care::journal::JournalCommand),
    /// Look after the store itself, below the namespace.
    #[command(subcommand)]
    Store(crate::care::store::StoreCommand),
    /// Measure.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Print a completion script.
    Completions {
        /// For this shell.
        shell: clap_complete::Shell,
    },
    /// Print the versions of the program, its protocols and formats.
    Version {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the man pages of all commands into a directory.
    #[command(hide = true)]
    Man {
        /// Directory to write to; made if it is not there.
        dir: PathBuf,
    },
}

impl Command {
    /// Where to tell whoever started this in the background how the start went.
    pub fn ready_fd(&self) -> Option<i32> {
        match self {
            Command::Up(Up { run, .. }) | Command::Serve(Serve { run, .. }) => run.ready_fd,
            Command::Mount(args) => args.ready_fd,
            _ => None,
        }
    }

    /// True if the output is for programs (`--json`).
    pub fn for_programs(&self) -> bool {
        match self {
            Command::Fsck { json, .. } => *json,
            Command::Decoupled(what) => what.for_programs(),
            Command::Journal(what) => what.for_programs(),
            Command::Bench { what: Bench::Md(args) } => args.json,
            Command::Bench { what: Bench::Workload(args) } => args.json,
            Command::Subtree { what: Subtree::Migrate { json, .. } } => *json,
            Command::Balancer { what: BalancerCommand::Simulate(args) } => args.json,
            Command::Balancer { what: BalancerCommand::Explain { json, .. } | BalancerCommand::Log { json, .. } } => {
                *json
            }
            _ => false,
        }
    }
}

/// `loligo up`.
#[derive(Args, Clone)]
pub struct Up {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Mount point; made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub mount: PathBuf,
    #[command(flatten)]
    pub ranks: Ranks,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub mount_options: MountOptions,
}

/// Number of ranks.
#[derive(Args, Clone, Copy)]
pub struct Ranks {
    /// Metadata ranks in this process; without it, as many as there were (a new file system: 1). More are added; for
    /// fewer, drain some: loligo rank drain.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(loligo_driver::server::RANKS_MAX)))]
    pub ranks: Option<u16>,
}

/// Options of a service.
#[derive(Args, Clone)]
pub struct Run {
    /// Go to the background once everything works; the log goes to DATA/loligo.log.
    #[arg(long)]
    pub daemon: bool,
    /// Further address to listen on, for clients with an identity; may be repeated.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Vec<String>,
    /// HTTP admin address, or `off`.
    #[arg(long, value_name = "HOST:PORT")]
    pub admin: Option<String>,
    /// Log filter, as in `warn,loligo_mds=debug`.
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Once everything works, print as JSON what runs and where.
    #[arg(long)]
    pub json: bool,
    /// Descriptor to write a line to when everything works (used by --daemon).
    #[arg(long, hide = true)]
    pub ready_fd: Option<i32>,
}

/// Mount options.
#[derive(Args, Clone, Default)]
pub struct MountOptions {
    /// Mount read-only.
    #[arg(long)]
    pub read_only: bool,
    /// Mount this directory of the file system, and not all of it. It is looked up once, in the name of the
    /// mounting user.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Only the mounting user may see the mount (the default lets all users in when root mounts).
    #[arg(long)]
    pub private: bool,
    /// Mount over a directory that has entries.
    #[arg(long)]
    pub nonempty: bool,
    /// Programs there may run as their owners: setuid, setgid and file capabilities count. Only where all who may write there are trusted with
    /// root on this host.
    #[arg(long, overrides_with = "nosuid")]
    pub suid: bool,
    /// They may not, which is the default.
    #[arg(long, overrides_with = "suid")]
    pub nosuid: bool,
    /// Device nodes there may be used. As of --suid.
    #[arg(long, overrides_with = "nodev")]
    pub dev: bool,
    /// They may not, which is the default.
    #[arg(long, overrides_with = "dev")]
    pub nodev: bool,
    /// No program there can be run.
    #[arg(long)]
    pub noexec: bool,
}

/// `loligo down`.
#[derive(Args)]
pub struct Down {
    #[command(flatten)]
    pub data: DataDir,
    /// Seconds to wait for a clean end.
    #[arg(long, default_value_t = 60)]
    pub timeout: u64,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `loligo format`.
#[derive(Args)]
pub struct Format {
    #[command(flatten)]
    pub store: StoreArgs,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Where the store is.
#[derive(Args, Clone)]
pub struct StoreArgs {
    /// Data directory: `up` makes and formats a new one, `format` wants a new or empty one. With --store: where this machine's sockets,
    /// settings and log are (/var/lib/loligo/POOL, or below ~/.local/state/loligo).
    #[arg(long, value_name = "DIR", required_unless_present = "store")]
    pub data: Option<PathBuf>,
    /// Keep everything in a Ceph cluster: rados:POOL, or rados:POOL/NAMESPACE (loligo). The directory remembers it.
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
    /// Ceph's settings, for --store.
    #[arg(long, value_name = "FILE", default_value = "/etc/ceph/ceph.conf")]
    pub conf: PathBuf,
    /// Ceph user, for --store.
    #[arg(long, value_name = "NAME", default_value = "client.admin")]
    pub ceph_user: String,
}

/// `loligo serve`.
#[derive(Args, Clone)]
pub struct Serve {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub ranks: Ranks,
    /// Ranks to leave to other processes, such as 2,3; not rank 0. They run as long as this server does.
    #[arg(long, value_name = "RANKS", value_delimiter = ',')]
    pub elsewhere: Vec<u16>,
    /// Run these ranks, such as 2,3, for the server that serves the data directory and leaves them to others. It has to
    /// run, and this process ends when it does.
    #[arg(long, value_name = "RANKS", value_delimiter = ',', conflicts_with_all = ["ranks", "elsewhere"])]
    pub join: Vec<u16>,
    /// On a store that servers share (--store): take ranks only when their server is gone, or by order. Clients name all: --server A,B.
    #[arg(long, conflicts_with_all = ["join", "elsewhere"])]
    pub standby: bool,
    #[command(flatten)]
    pub run: Run,
}

/// `loligo mount`.
#[derive(Args, Clone)]
pub struct MountArgs {
    /// Data directory of a server on this machine.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address of the server: a Unix socket's path or HOST:PORT.
    #[arg(long, value_name = "ADDR", env = "LOLIGO_SERVER")]
    pub server: Option<String>,
    /// Identity with which to come in over TCP (see `loligo auth add`).
    #[arg(long, value_name = "FILE")]
    pub identity: Option<String>,
    /// Mount point.
    pub mount: PathBuf,
    /// Go to the background once it is mounted.
    #[arg(long)]
    pub daemon: bool,
    /// File for the log with --daemon.
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Log filter, as in `warn,loligo_mds=debug`.
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Once it is mounted, print as JSON what is mounted and where.
    #[arg(long)]
    pub json: bool,
    /// Descriptor to write a line to when it is mounted (used by --daemon).
    #[arg(long, hide = true)]
    pub ready_fd: Option<i32>,
    /// Device name that `df` and /proc/mounts show (used by mount.loligo).
    #[arg(long, hide = true, value_name = "NAME")]
    pub source: Option<String>,
    #[command(flatten)]
    pub options: MountOptions,
}

/// `loligo balancer`.
#[derive(Subcommand)]
pub enum BalancerCommand {
    /// Print which policy is in force and how it does at each rank; of a named one the text.
    Show {
        /// A policy.
        name: Option<String>,
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the policies that there are.
    List {
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Try a policy, and put it in force at all ranks if it can be used.
    Set {
        /// Name for the policy in FILE, or name of one that comes with Loligo; `none`: balance nothing.
        name: String,
        /// The policy; without a file the one of this name that comes with Loligo.
        file: Option<PathBuf>,
        #[command(flatten)]
        order: Order,
        #[command(flatten)]
        target: Target,
    },
    /// Try a policy, and store it for directories that name it.
    Add {
        /// Name for the policy in FILE, or name of one that comes with Loligo.
        name: String,
        /// The policy; without a file the one of this name that comes with Loligo.
        file: Option<PathBuf>,
        #[command(flatten)]
        order: Order,
        #[command(flatten)]
        target: Target,
    },
    /// Put the default in force again (config: balancer).
    Unset {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        order: Order,
    },
    /// Put the policy in force again that was before, leaving out those that failed.
    Rollback {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        order: Order,
    },
    /// Print what was in force when, and why that changed.
    History {
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Try a policy on small models of clusters, and show what it does there.
    Lint {
        /// The policy.
        file: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Simulate what a policy would do to a workload, beside another one or none; no server is needed.
    Simulate(crate::balancer::simulate::Simulate),
    /// Print what balancers of all ranks did.
    Log {
        /// Number of lines to print, the newest.
        #[arg(long, short = 'n', default_value_t = 50)]
        lines: usize,
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what each hook of the policy saw and answered in the last ticks.
    Explain {
        /// Of this rank alone.
        #[arg(long)]
        rank: Option<u16>,
        /// Number of ticks to print, the last ones.
        #[arg(long, short = 'n', default_value_t = 1)]
        ticks: usize,
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A directory of a file system.
#[derive(Args, Clone)]
pub struct Directory {
    /// Data directory of the server; the directory is then given by its path in the file system, as in /a/b.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address of the server; likewise.
    #[arg(long, value_name = "ADDR")]
    pub server: Option<String>,
    /// The directory, inside a mount unless a server is named.
    #[arg(value_name = "DIRECTORY")]
    pub path: PathBuf,
}
