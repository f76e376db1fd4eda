//! The command line of `loligo bench`, as clap reads it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::auth::AsIdentity;

/// `loligo bench`.
#[derive(Subcommand)]
pub enum Bench {
    /// Metadata: the shapes of mdtest, natively or with --mount over FUSE.
    Md(BenchMd),
    /// Workloads as programs have them: generated ones and recorded traces, natively or below a directory.
    Workload(BenchWorkload),
}

/// `loligo bench workload`.
#[derive(Args, Clone)]
#[command(after_help = loligo_workload::Spec::HELP)]
pub struct BenchWorkload {
    /// The workload: a name, and parameters, as in create-shared:clients=8,files=5000 (see below); replay:FILE does a trace.
    pub spec: String,
    /// Below this directory of any mounted file system, with system calls.
    #[arg(long, value_name = "DIR", conflicts_with = "data")]
    pub dir: Option<PathBuf>,
    /// Natively: data directory of a running server; without DIR and any address a server is started on a new directory.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Natively: address of the server.
    #[arg(long, value_name = "ADDR", env = "LOLIGO_SERVER")]
    pub server: Option<String>,
    /// Natively, and of the server that is started: its ranks.
    #[arg(long, default_value_t = 1, conflicts_with_all = ["dir", "data"], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub ranks: u32,
    #[command(flatten)]
    pub who: AsIdentity,
    /// Placement of the workload's directories: value of loligo.policy.placement of its directory (see `loligo subtree place`).
    #[arg(long, value_name = "HOW")]
    pub placement: Option<String>,
    /// Clients cache nothing and ask for each path as a whole, as programs do that use the library's path functions. Without it they cache, and ask name by
    /// name, as a kernel with a mount does.
    #[arg(long, conflicts_with = "dir")]
    pub by_path: bool,
    /// The same seed makes the same calls.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The clients end after so many seconds, if they have not.
    #[arg(long, value_name = "LIMIT", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Write a trace of what was done, and when, into this file.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Process whose CPU counts as the server's; without it, that of the server if it is on this machine.
    #[arg(long, value_name = "PID")]
    pub server_pid: Vec<u32>,
    /// Leave what was made, below workload.PID; otherwise it is removed at the end.
    #[arg(long)]
    pub keep: bool,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `loligo bench md`.
#[derive(Args, Clone)]
pub struct BenchMd {
    /// Data directory of a running server; without any address a server is started on a new directory for the run.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address of the server.
    #[arg(long, value_name = "ADDR", env = "LOLIGO_SERVER")]
    pub server: Option<String>,
    #[command(flatten)]
    pub who: AsIdentity,
    /// Clients (natively: connections; over a mount: processes).
    #[arg(long, default_value_t = 4)]
    pub clients: usize,
    /// Requests in flight, over all clients; natively only.
    #[arg(long, default_value_t = 64)]
    pub in_flight: usize,
    /// Files of each client.
    #[arg(long, default_value_t = 20_000)]
    pub files: usize,
    /// Bytes of each file of smallwrite and smallread.
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    pub small_bytes: u32,
    /// All clients in one directory.
    #[arg(long)]
    pub shared: bool,
    /// Phases to run, in this order.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "create,stat,readdir,rename,unlink,mkdir,rmdir,smallwrite,smallread"
    )]
    pub phases: Vec<String>,
    /// Over FUSE (or any file system): below this directory.
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Process whose CPU counts as the server's, with --mount.
    #[arg(long, value_name = "PID")]
    pub server_pid: Vec<u32>,
    /// Directory of the run, below the root (or the mount). If it is there, so may be the clients' directories in it, put
    /// on ranks before. Without it: bench.PID.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// The files are there already: a run with the same --name, --clients, --files and --shared has left them.
    #[arg(long, requires = "name")]
    pub found: bool,
    /// Leave what the phases made, below bench.PID; otherwise it is removed at the end.
    #[arg(long)]
    pub keep: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}
