//! `loligo policy`: what a directory and all below it promise. One file a command; `chain` finds the policy in force, `source`
//! reads one that a user gives, `promise` says what holds now. `live`: decoupling on a mount, and its end; `run` does all of it around a command;
//! `kept` and `stored`: what a program has kept that is gone. Not here: what makes sense as a policy (crate `semantics`).

mod chain;
mod check;
mod explain;
pub mod kept;
pub mod live;
mod presets;
mod promise;
pub mod run;
mod set;
mod show;
mod source;
pub mod stored;

use crate::args::{Directory, PolicyCommand};
use crate::output::Outcome;

/// Runs one.
pub fn run(what: PolicyCommand) -> Outcome {
    match what {
        PolicyCommand::Set { dir, policy, dry_run } => set::set(&dir, &policy, dry_run),
        PolicyCommand::Unset { dir } => set::unset(&dir),
        PolicyCommand::Show { data, server, path, json } => show::run(&Directory { data, server, path }, json),
        PolicyCommand::Explain { path, json } => explain::run(&path, json),
        PolicyCommand::Presets { json } => presets::run(json),
        PolicyCommand::Check { file } => check::run(&file),
    }
}
