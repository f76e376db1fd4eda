//! The command line of `loligo rank`. Not here: what it does.

use clap::Subcommand;

use super::Target;

/// `loligo rank`.
#[derive(Subcommand)]
pub enum RankCommand {
    /// Print each rank with its state, its load and where it listens.
    List {
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add ranks to a running server. They begin empty, and have the lowest numbers that are free.
    Add {
        /// Number of ranks to add.
        #[arg(value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=i64::from(loligo_driver::server::RANKS_MAX)))]
        count: u16,
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Have a rank give all it has to the others, and remove it.
    Drain {
        /// The rank.
        rank: u16,
        #[command(flatten)]
        target: Target,
        /// Wait until it is gone, and show how far it is.
        #[arg(long)]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stop draining a rank.
    Undrain {
        /// The rank.
        rank: u16,
        #[command(flatten)]
        target: Target,
    },
    /// Have another server run a rank, on a store that servers share: clients wait a moment, and lose nothing.
    Handover {
        /// The rank.
        rank: u16,
        /// The server: its name or number (`loligo status`); without it, the one that has the fewest ranks.
        #[arg(long, value_name = "SERVER")]
        to: Option<String>,
        #[command(flatten)]
        target: Target,
    },
}
