//! `loligo policy`: what a directory and all below it promise. One file a command; `chain` finds the policy in force, `source`
//! reads one that a user gives, `promise` says what holds now, `placing` where directories live. `live`: decoupling on a mount, and its end; `run` does all of it around a command;
//! `kept` and `stored`: what a program has kept that is gone. Not here: what makes sense as a policy (crate `semantics`).

mod advise;
mod chain;
mod check;
mod explain;
mod kept;
mod live;
mod placing;
mod presets;
mod promise;
mod run;
mod set;
mod show;
mod source;
mod stored;

use crate::args::{DecoupledCommand, Directory, PolicyCommand};
use crate::output::Outcome;

/// Runs one.
pub fn run(what: PolicyCommand) -> Outcome {
    match what {
        PolicyCommand::Set { dir, policy, dry_run } => set::set(&dir, &policy, dry_run),
        PolicyCommand::Unset { dir } => set::unset(&dir),
        PolicyCommand::Show { data, server, path, json } => show::run(&Directory { data, server, path }, json),
        PolicyCommand::Explain { path, json } => explain::run(&path, json),
        PolicyCommand::Advise { dir, seconds, ranks, json } => advise::run(&dir, seconds, ranks, json),
        PolicyCommand::Presets { json } => presets::run(json),
        PolicyCommand::Check { file } => check::run(&file),
    }
}

/// Runs what concerns directories that are decoupled.
pub fn decoupled(what: DecoupledCommand) -> Outcome {
    match what {
        DecoupledCommand::Run { policy, dir, command } => run::run(&dir, policy.as_deref(), &command),
        DecoupledCommand::Decouple { dir, policy, lease } => live::decouple(&dir, policy.as_deref(), lease),
        DecoupledCommand::Sync { dir, json } => live::complete(&dir, "sync", json),
        DecoupledCommand::Recouple { dir, json } => live::complete(&dir, "recouple", json),
        DecoupledCommand::Merge { what, stored, target, json } => match (what, stored) {
            (_, Some(dir)) => stored::merge(&dir, &target, json),
            (Some(dir), None) if dir.is_dir() => live::complete(&dir, "merge", json),
            (file, None) => kept::merge(&file.unwrap_or_default(), &target, json),
        },
        DecoupledCommand::Abandon { what, stored, target } => match (what, stored) {
            (_, Some(dir)) => stored::abandon(&dir, &target),
            (Some(dir), None) if dir.is_dir() => live::abandon(&dir),
            (file, None) => kept::abandon(&file.unwrap_or_default(), &target),
        },
    }
}
