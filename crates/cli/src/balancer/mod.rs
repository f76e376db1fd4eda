//! `loligo balancer`: which policy says what moves between ranks, what it says, and why. One file a command.

mod explain;
mod lint;
mod log;
mod set;
mod show;
pub mod simulate;
mod text;

use std::path::Path;

pub use text::{ago, shipped_names};

use crate::args::{BalancerCommand, Target};
use crate::output::Outcome;
use crate::target;

/// Runs one.
pub fn run(what: &BalancerCommand) -> Outcome {
    match what {
        BalancerCommand::Get { name, target, json } => {
            let (name, target) = apart(name.as_deref(), target);
            show::get(name, &target, *json)
        }
        BalancerCommand::List { target, json } => show::list(target, *json),
        BalancerCommand::History { target, json } => show::history(target, *json),
        BalancerCommand::Set { name, file, apply, target } => {
            let (file, target) = file_apart(file.as_deref(), target);
            set::set(name, file, *apply, &target)
        }
        BalancerCommand::Add { name, file, apply, target } => {
            let (file, target) = file_apart(file.as_deref(), target);
            set::add(name, file, *apply, &target)
        }
        BalancerCommand::Unset { target } => set::unset(target),
        BalancerCommand::Rollback { target } => set::roll_back(target),
        BalancerCommand::Lint { file } => lint::run(file),
        BalancerCommand::Simulate(args) => simulate::run(args),
        BalancerCommand::Log { lines, target, json } => log::run(*lines, target, *json),
        BalancerCommand::Explain { rank, ticks, target, json } => explain::run(*rank, *ticks, target, *json),
    }
}

/// The file of a policy, which may be left out, and where the server is: it may be named by a path inside its mount.
fn file_apart<'a>(file: Option<&'a Path>, target: &Target) -> (Option<&'a Path>, Target) {
    match file.filter(|file| target.path.is_none() && file.is_dir()) {
        Some(place) => (None, Target { path: Some(place.into()), ..target.clone() }),
        None => (file, target.clone()),
    }
}

/// The name of a policy, which may be left out, and where the server is: one word alone is a path.
fn apart<'a>(name: Option<&'a str>, target: &Target) -> (Option<&'a str>, Target) {
    let says_where =
        target.path.is_some() || target.data.is_some() || target::named(target.server.as_deref()).is_some();
    match name {
        Some(path) if !says_where => (None, Target { path: Some(path.into()), ..target.clone() }),
        name => (name, target.clone()),
    }
}
