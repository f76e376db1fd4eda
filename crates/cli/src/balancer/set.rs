//! `loligo balancer set`, `add`, `unset` and `rollback`: which policy is in force, and which there are to be named. `set` and
//! `add` show only what would happen, unless told to do it.

use std::path::Path;

use super::{lint, text};
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, put};
use crate::service::admin::balancer::{BalancerDoc, VersionDoc};
use crate::target;

/// Tries a policy, and puts it in force if told to; `none` is none.
pub fn set(name: &str, file: Option<&Path>, apply: bool, target: &Target) -> Outcome {
    if name == loligo_types::NO_POLICY {
        return set_none(file, apply, target);
    }
    let Some(version) = tried_and_put_down("set", name, file, apply, target)? else { return Ok(()) };
    put(format_args!(
        "{name}, version {}, is in force as policy {} at all ranks; what it does: loligo balancer log{}",
        version.version,
        version.policy,
        target.again()
    ))
}

fn set_none(file: Option<&Path>, apply: bool, target: &Target) -> Outcome {
    if file.is_some() {
        return Err(Failure::usage("`none` is no policy, and cannot be that of a file").remedy("give it another name"));
    }
    if !apply {
        return put(format_args!(
            "nothing was changed: to balance nothing, loligo balancer set none --apply{}",
            target.again()
        ));
    }
    let found = target::find(target)?;
    let _: BalancerDoc = ask::order(&found, "/api/v1/balancer/none")?;
    put(format_args!(
        "no policy is in force: what moved stays where it is; back to the default: loligo balancer unset{}",
        target.again()
    ))
}

/// Tries a policy, and puts it down for directories that name it if told to.
pub fn add(name: &str, file: Option<&Path>, apply: bool, target: &Target) -> Outcome {
    let Some(version) = tried_and_put_down("add", name, file, apply, target)? else { return Ok(()) };
    put(format_args!(
        "{name}, version {}, is policy {}; for a directory: setfattr -n loligo.policy.balancer -v {name} DIRECTORY",
        version.version, version.policy
    ))
}

fn tried_and_put_down(
    order: &str,
    name: &str,
    file: Option<&Path>,
    apply: bool,
    target: &Target,
) -> Result<Option<VersionDoc>, Failure> {
    if !loligo_driver::is_name(name) {
        let what = format!("a policy cannot be called {name:?}");
        return Err(Failure::usage(what).remedy("letters, digits, `_`, `-` and `.`, at most 64; not `none`"));
    }
    let text = text::of(name, file)?;
    let report = lint::report(name, &text)?;
    if !apply {
        put(report)?;
        let file = file.map_or(String::new(), |file| format!(" {}", crate::output::quoted(file)));
        let what = if order == "set" { "in force" } else { "down" };
        put(format_args!(
            "nothing was changed: put it {what} with loligo balancer {order} {name}{file} --apply{}",
            target.again()
        ))?;
        return Ok(None);
    }
    let found = target::find(target)?;
    ask::order_with(&found, &format!("/api/v1/balancer/{order}/{name}"), &text).map(Some)
}

/// The default again.
pub fn unset(target: &Target, dry_run: bool) -> Outcome {
    let found = target::find(target)?;
    if dry_run {
        let now: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
        let name = now.in_force.map_or_else(|| loligo_types::NO_POLICY.to_string(), |version| version.name);
        return put(format_args!(
            "balancer: {name} -> {}, the default\nnothing was changed: without --dry-run it is",
            now.default
        ));
    }
    let doc: BalancerDoc = ask::order(&found, "/api/v1/balancer/unset")?;
    match doc.in_force {
        Some(now) => put(format_args!(
            "{}, version {}, the default, is in force as policy {}; for none: loligo balancer set none --apply{}",
            now.name,
            now.version,
            now.policy,
            target.again()
        )),
        None => put("no policy is in force, as is the default: what moved stays where it is"),
    }
}

/// The policy before.
pub fn roll_back(target: &Target, dry_run: bool) -> Outcome {
    let found = target::find(target)?;
    if dry_run {
        let doc: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
        let before = doc.before.ok_or_else(|| {
            Failure::new("there is nothing to go back to")
                .remedy(format!("what was in force: loligo balancer history{}", target.again()))
        })?;
        let name = |policy: u32| {
            let version = doc.versions.iter().find(|version| version.policy == policy);
            version.map_or(loligo_types::NO_POLICY.to_string(), |one| format!("{}, version {}", one.name, one.version))
        };
        let now = doc.in_force.as_ref().map_or(0, |version| version.policy);
        return put(format_args!(
            "balancer: {} -> {}\nnothing was changed: without --dry-run it is",
            name(now),
            name(before)
        ));
    }
    let doc: BalancerDoc = ask::order(&found, "/api/v1/balancer/rollback")?;
    match doc.in_force {
        Some(now) => {
            put(format_args!("{}, version {}, is in force again (policy {})", now.name, now.version, now.policy))
        }
        None if doc.history.last().is_some_and(|last| last.policy == 0) => put("no policy is in force, as before"),
        None => Err(Failure::new("the policy in force is not in the table").remedy("loligo fsck")),
    }
}
