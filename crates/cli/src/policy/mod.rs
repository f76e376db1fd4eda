//! `loligo policy`: what a directory and all below it promise. One file a command; `chain` finds the policy in force, `source`
//! reads one that a user gives, `history` what was in force before, `promise` says what holds now, `placing` where directories live. `live`: decoupling on a mount, and its end, and `busy` why it is refused; `has` says who has a
//! directory; `run` does all of it around a command;
//! `kept` and `stored`: what a program has kept that is gone. Not here: what makes sense as a policy (crate `semantics`).

mod advise;
mod below;
mod busy;
mod chain;
mod check;
mod conflicts;
mod explain;
mod has;
mod history;
mod journaled;
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

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::{DecoupledCommand, Directory, Order, PolicyCommand};
use crate::output::{Failure, Outcome, note, put};
use crate::settings::Given;

/// Runs one.
pub fn run(what: PolicyCommand, given: &Given) -> Outcome {
    match what {
        PolicyCommand::Set { dir, policy: Some(policy), order, .. } => set::set(&dir, &set::To::Named(policy), order),
        PolicyCommand::Set { dir, version: Some(number), order, .. } => {
            set::set(&dir, &set::To::Version(number), order)
        }
        PolicyCommand::Set { dir, order, .. } => set::set(&dir, &set::To::Before, order),
        PolicyCommand::History { dir, version, json } => history::run(&dir, version, json),
        PolicyCommand::Unset { dir, order } => set::unset(&dir, order),
        PolicyCommand::Show { data, server, path, json } => show::run(&Directory { data, server, path }, json, given),
        PolicyCommand::Explain { data, server, path, json } => {
            explain::run(&Directory { data, server, path }, json, given)
        }
        PolicyCommand::Advise { dir, seconds, ranks, json } => advise::run(&dir, seconds, ranks, json),
        PolicyCommand::Presets { json } => presets::run(json),
        PolicyCommand::Check { file, json } => check::run(&file, json),
    }
}

/// Runs what concerns directories that are decoupled.
pub fn decoupled(what: DecoupledCommand) -> Outcome {
    match what {
        DecoupledCommand::Run { policy, lease, dir, command } => run::run(&dir, policy.as_deref(), lease, &command),
        DecoupledCommand::Decouple { dir, policy, lease, json, dry_run } => {
            live::decouple(&dir, &live::How { policy: policy.as_deref(), lease, json, dry_run })
        }
        DecoupledCommand::Sync { dir, order } => live::complete(&dir, "sync", order),
        DecoupledCommand::Recouple { dir, order } => live::complete(&dir, "recouple", order),
        DecoupledCommand::Merge { what, stored, force, server, order } => {
            refuse_stored(order, stored || force)?;
            let target = server.target();
            each(&what, "merged", order, |one| match one.is_dir() {
                _ if stored => stored::merge(one, &target, force, order.json),
                true if force => {
                    Err(Failure::usage(format!("{}: a directory of a mount is merged by its owner", one.display()))
                        .remedy("leave out --force; it takes a directory from its owner, with a FILE or with --stored"))
                }
                true => live::complete(one, "merge", order),
                false => kept::merge(one, &target, force, order),
            })
        }
        DecoupledCommand::Abandon { what, remove, stored, force, server, order } => {
            refuse_stored(order, stored || force)?;
            let target = server.target();
            each(&what, "given up", order, |one| match one.is_dir() {
                _ if stored || force => stored::abandon(one, &target, force, order.json),
                true => live::abandon(one, order),
                false => kept::abandon(one, &target, remove, order),
            })
        }
    }
}

/// The stage of the pipeline that failed last in a directory that the mount has decoupled, and why; none, if all is well or nothing is known.
pub fn failed_stage(dir: &Path) -> Option<(String, String)> {
    live::Live::at(dir).outstanding().ok()??.failed
}

/// Refuses a dry run of taking a directory from its owner: what its journal in the store holds is known once it is taken.
fn refuse_stored(order: Order, takes: bool) -> Outcome {
    match order.dry_run && takes {
        false => Ok(()),
        true => Err(Failure::usage(
            "--dry-run cannot look into the journal of another owner, with --stored or --force",
        )
        .remedy(
            "loligo status --json prints who has the directory and the bytes of its journal in the store (decoupled)",
        )),
    }
}

/// Does it with each, and says of each what came of it; what cannot be done keeps no other from being done. `done`: as in "3 of 4 were merged".
fn each(what: &[PathBuf], done: &str, order: Order, one: impl Fn(&Path) -> Outcome) -> Outcome {
    if let [only] = what {
        return one(only);
    }
    let (mut failed, mut code) = (0, 0);
    for path in what {
        let Err(failure) = one(path) else { continue };
        (failed, code) = (failed + 1, failure.code().max(code));
        let (cause, remedy) = failure.parts();
        if order.json {
            put(json!({ "file": path.display().to_string(), "error": cause, "remedy": remedy }))?;
        }
        match cause.starts_with(&path.display().to_string()) {
            true => note(format_args!("loligo: {failure}")),
            // With its name in front.
            false => note(format_args!("loligo: {}: {failure}", path.display())),
        }
    }
    let count = format!("{} of {} were {done}", what.len() - failed, what.len());
    match failed {
        0 if order.json || order.dry_run => Ok(()),
        0 => put(count),
        _ => Err(Failure::told(format!("{count}, {failed} could not be"), code)),
    }
}
