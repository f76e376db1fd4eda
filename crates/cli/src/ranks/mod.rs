//! Commands about the ranks that serve a namespace, and which of them has what.

mod attrs;
mod leases;
pub mod members;
pub mod migrate;
pub mod place;
pub mod rank;
mod resettle;
mod split;
pub mod subtree;

use crate::args::{self, RankCommand};

use crate::output::{Failure, Outcome};

/// Runs a command about the ranks themselves.
pub fn run(what: &RankCommand) -> Outcome {
    match what {
        RankCommand::List { target, json } => rank::list(target, *json),
        RankCommand::Add { count, target, json, dry_run } => {
            let most = loligo_driver::server::RANKS_MAX;
            let (count, target) = args::number(count.as_deref(), target, "number of ranks", most)?;
            if count == Some(0) {
                return Err(Failure::usage("0 ranks are not added").remedy(format!("give a number from 1 to {most}")));
            }
            match dry_run {
                true => members::would_add(&target, count.unwrap_or(1), *json),
                false => members::add(&target, count.unwrap_or(1), *json),
            }
        }
        RankCommand::Drain { rank, target, wait, json, dry_run } => {
            let (rank, target) = args::rank_of(rank, target)?;
            match dry_run {
                true => members::would_drain(&target, rank, *json),
                false => members::drain(&target, rank, *wait, *json),
            }
        }
        RankCommand::Undrain { rank, target, order } => {
            let (rank, target) = args::rank_of(rank, target)?;
            match order.dry_run {
                true => members::would_undrain(&target, rank, order.json),
                false => members::undrain(&target, rank, order.json),
            }
        }
        RankCommand::Handover { rank, to, target, order } => {
            let (rank, target) = args::rank_of(rank, target)?;
            match order.dry_run {
                true => members::would_hand_over(&target, rank, to.as_deref(), order.json),
                false => members::hand_over(&target, rank, to.as_deref(), order.json),
            }
        }
    }
}
