//! `loligo policy`: what a directory and all below it promise. One file a command; `chain` finds the policy in force, `source`
//! reads one that a user gives, `history` what was in force before, `promise` says what holds now, `placing` where directories live. `live`: decoupling on a mount, and its end; `run` does all of it around a command;
//! `kept` and `stored`: what a program has kept that is gone. Not here: what makes sense as a policy (crate `semantics`).

mod advise;
mod chain;
mod check;
mod conflicts;
mod explain;
mod history;
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

use crate::args::{DecoupledCommand, Directory, PolicyCommand};
use crate::output::{Failure, Outcome, note, put};
use crate::settings::Given;

/// Runs one.
pub fn run(what: PolicyCommand, given: &Given) -> Outcome {
    match what {
        PolicyCommand::Set { dir, policy: Some(policy), dry_run, .. } => {
            set::set(&dir, &set::To::Named(policy), dry_run)
        }
        PolicyCommand::Set { dir, version: Some(number), dry_run, .. } => {
            set::set(&dir, &set::To::Version(number), dry_run)
        }
        PolicyCommand::Set { dir, dry_run, .. } => set::set(&dir, &set::To::Before, dry_run),
        PolicyCommand::History { dir, version, json } => history::run(&dir, version, json),
        PolicyCommand::Unset { dir, dry_run } => set::unset(&dir, dry_run),
        PolicyCommand::Show { data, server, path, json } => show::run(&Directory { data, server, path }, json),
        PolicyCommand::Explain { data, server, path, json } => {
            explain::run(&Directory { data, server, path }, json, given)
        }
        PolicyCommand::Advise { dir, seconds, ranks, json } => advise::run(&dir, seconds, ranks, json),
        PolicyCommand::Presets { json } => presets::run(json),
        PolicyCommand::Check { file } => check::run(&file),
    }
}

/// Runs what concerns directories that are decoupled.
pub fn decoupled(what: DecoupledCommand) -> Outcome {
    match what {
        DecoupledCommand::Run { policy, lease, dir, command } => run::run(&dir, policy.as_deref(), lease, &command),
        DecoupledCommand::Decouple { dir, policy, lease } => live::decouple(&dir, policy.as_deref(), lease),
        DecoupledCommand::Sync { dir, json } => live::complete(&dir, "sync", json),
        DecoupledCommand::Recouple { dir, json } => live::complete(&dir, "recouple", json),
        DecoupledCommand::Merge { what, stored, force, server, json } => {
            let target = server.target();
            match stored {
                Some(dir) => stored::merge(&dir, &target, force, json),
                None => each(&what, "merged", json, |one| match one.is_dir() {
                    true if force => Err(Failure::usage(format!(
                        "{}: a directory of a mount is merged by its owner",
                        one.display()
                    ))
                    .remedy(
                        "leave out --force; it takes a directory from its owner, with a FILE or --stored DIRECTORY",
                    )),
                    true => live::complete(one, "merge", json),
                    false => kept::merge(one, &target, force, json),
                }),
            }
        }
        DecoupledCommand::Abandon { what, remove, stored, force, server } => {
            let target = server.target();
            match (stored, force) {
                (_, Some(dir)) => stored::abandon(&dir, &target, true),
                (Some(dir), None) => stored::abandon(&dir, &target, false),
                (None, None) => each(&what, "given up", false, |one| match one.is_dir() {
                    true => live::abandon(one),
                    false => kept::abandon(one, &target, remove),
                }),
            }
        }
    }
}

/// The stage of the pipeline that failed last in a directory that the mount has decoupled, and why; none, if all is well or nothing is known.
pub fn failed_stage(dir: &Path) -> Option<(String, String)> {
    live::Live::at(dir).outstanding().ok()??.failed
}

/// Does it with each, and says of each what came of it; what cannot be done keeps no other from being done. `done`: as in "3 of 4 were merged".
fn each(what: &[PathBuf], done: &str, as_json: bool, one: impl Fn(&Path) -> Outcome) -> Outcome {
    if let [only] = what {
        return one(only);
    }
    let (mut failed, mut code) = (0, 0);
    for path in what {
        let Err(failure) = one(path) else { continue };
        (failed, code) = (failed + 1, failure.code().max(code));
        let (cause, remedy) = failure.parts();
        if as_json {
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
        0 if as_json => Ok(()),
        0 => put(count),
        _ => Err(Failure::told(format!("{count}, {failed} could not be"), code)),
    }
}
