//! `loligo balancer`: which policy says what moves between ranks, what it says, and why. One file a command.

mod explain;
mod lint;
mod log;
mod set;
mod show;
pub mod simulate;
mod text;

use std::path::{Path, PathBuf};

pub use text::{ago, shipped_names};

use crate::args::{BalancerCommand, Target};
use crate::output::{Failure, Outcome};
use crate::target;

/// Runs one.
pub fn run(what: &BalancerCommand) -> Outcome {
    match what {
        BalancerCommand::Show { name, target, json } => {
            let (name, target) = apart(name.as_deref(), target);
            show::get(name.as_deref(), &target, *json)
        }
        BalancerCommand::List { target, json } => show::list(target, *json),
        BalancerCommand::History { target, json } => show::history(target, *json),
        BalancerCommand::Set { name, file, order, target } => {
            let (name, file, target) = file_apart(name, file.as_deref(), target)?;
            set::set(&name, file.as_deref(), *order, &target)
        }
        BalancerCommand::Add { name, file, order, target } => {
            let (name, file, target) = file_apart(name, file.as_deref(), target)?;
            set::add(&name, file.as_deref(), *order, &target)
        }
        BalancerCommand::Unset { target, order } => set::unset(target, *order),
        BalancerCommand::Rollback { target, order } => set::roll_back(target, *order),
        BalancerCommand::Lint { file, json } => lint::run(file, *json),
        BalancerCommand::Simulate(args) => simulate::run(args),
        BalancerCommand::Log { lines, target, json } => log::run(*lines, target, *json),
        BalancerCommand::Explain { rank, ticks, target, json } => explain::run(*rank, *ticks, target, *json),
    }
}

/// The name of a policy, its file, which may be left out, and where the server is: it may be named by a path inside its mount, before them or behind.
fn file_apart(name: &str, file: Option<&Path>, target: &Target) -> Result<(String, Option<PathBuf>, Target), Failure> {
    let words = [Some(Path::new(name)), file, target.path.as_deref()].into_iter().flatten();
    let mut words: Vec<PathBuf> = words.map(Path::to_path_buf).collect();
    // A name that is that of a directory here, too, is meant as a name if no other word is one.
    let is_place = |word: &PathBuf| word.is_dir();
    let place = match words.len() {
        1 => words.iter().position(|word| is_place(word) && loligo_balancer::shipped(name).is_none()),
        _ => words.iter().rposition(is_place).filter(|at| *at > 0 || !words[1].is_file()),
    };
    let path = place.map(|at| words.remove(at)).or_else(|| (words.len() > 2).then(|| words.remove(2)));
    let mut words = words.into_iter();
    let name = words.next().ok_or_else(|| {
        Failure::usage(format!("{name} is a directory, and no policy is named"))
            .remedy(format!("one of {}, or a name and a FILE", shipped_names().join(", ")))
    })?;
    Ok((name.display().to_string(), words.next(), Target { path, ..target.clone() }))
}

/// The name of a policy, which may be left out, and where the server is: one word alone is a path, and of two a directory.
fn apart(name: Option<&str>, target: &Target) -> (Option<String>, Target) {
    let at = |path: &str| Target { path: Some(path.into()), ..target.clone() };
    let named = target.data.is_some() || target::named(target.server.as_deref()).is_some();
    match (name, target.path.as_deref().and_then(Path::to_str)) {
        (Some(path), None) if !named => (None, at(path)),
        (Some(path), Some(name)) if Path::new(path).is_dir() && !Path::new(name).is_dir() => {
            (Some(name.into()), at(path))
        }
        (name, _) => (name.map(String::from), target.clone()),
    }
}
