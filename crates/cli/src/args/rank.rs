//! The command line of `loligo rank`. Not here: what it does.

use std::path::Path;

use clap::Subcommand;

use super::{Order, Target};
use crate::output::Failure;

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
    /// Add ranks to a running server. They begin empty, and have the lowest free numbers from 1 on.
    Add {
        /// Number of ranks to add [default: 1].
        #[arg(value_name = "N")]
        count: Option<String>,
        #[command(flatten)]
        target: Target,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Have a rank give all it has to the others, and remove it.
    Drain {
        /// The rank.
        rank: String,
        #[command(flatten)]
        target: Target,
        /// Wait until it is gone, and show how far it is.
        #[arg(long)]
        wait: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Only show what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Stop draining a rank.
    Undrain {
        /// The rank.
        rank: String,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        order: Order,
    },
    /// Have another server run a rank, on a store that servers share: clients wait a moment, and lose nothing.
    Handover {
        /// The rank.
        rank: String,
        /// The server: its name or number (`loligo status`); without it, the one that has the fewest ranks.
        #[arg(long, value_name = "SERVER")]
        to: Option<String>,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        order: Order,
    },
}

/// A number and the server that it is for, in any order: one word that is no number is a path inside a mount.
pub fn number(word: Option<&str>, target: &Target, what: &str, most: u16) -> Result<(Option<u16>, Target), Failure> {
    let behind = target.path.as_deref().and_then(Path::to_str);
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let (word, target) = match (word, behind) {
        (Some(path), None) if !is_number(path) && Path::new(path).exists() => {
            (None, Target { path: Some(path.into()), ..target.clone() })
        }
        (Some(path), Some(number)) if !is_number(path) && (is_number(number) || Path::new(path).exists()) => {
            (Some(number), Target { path: Some(path.into()), ..target.clone() })
        }
        (word, _) => (word, target.clone()),
    };
    let wrong = |word: &str| {
        Failure::usage(format!("{word} is no {what}: that is a number up to {most}"))
            .remedy("the server is named by a path inside a mount, --data DIR or --server ADDR")
    };
    let number = word.map(|word| word.parse().ok().filter(|n| *n <= most).ok_or_else(|| wrong(word))).transpose()?;
    Ok((number, target))
}

/// The number of a rank, which has to be named.
pub fn rank(word: &str, target: &Target) -> Result<(u16, Target), Failure> {
    let (rank, target) = number(Some(word), target, "rank", u16::MAX)?;
    let missing = || {
        Failure::usage("no rank is named")
            .remedy(format!("give its number; those that there are: loligo rank list{}", target.again()))
    };
    Ok((rank.ok_or_else(missing)?, target))
}
