//! `loligo balancer set`, `add`, `unset` and `rollback`: which policy is in force, and which there are to be named. A policy that
//! cannot be used is refused before anything is changed.

use std::path::Path;

use serde_json::json;

use super::{lint, text};
use crate::args::{Order, Target};
use crate::look::ask;
use crate::output::{Failure, Outcome, UNCHANGED, put};
use crate::service::admin::balancer::{BalancerDoc, VersionDoc};
use crate::target;

/// Tries a policy, and puts it in force; `none` is none.
pub fn set(name: &str, file: Option<&Path>, order: Order, target: &Target) -> Outcome {
    if name == loligo_types::NO_POLICY {
        return set_none(file, order, target);
    }
    let Some(version) = tried_and_put_down("set", name, file, order, target)? else { return Ok(()) };
    if order.json {
        return put(version_as_json(&version));
    }
    put(format_args!(
        "{name}, version {}, is in force as policy {} at all ranks; what it does: loligo balancer log{}",
        version.version,
        version.policy,
        target.again()
    ))
}

fn set_none(file: Option<&Path>, order: Order, target: &Target) -> Outcome {
    if file.is_some() {
        return Err(Failure::usage("`none` is no policy, and cannot be that of a file").remedy("give it another name"));
    }
    let found = target::find(target)?;
    if order.dry_run {
        let now: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
        return would_be(&in_force(&now), loligo_types::NO_POLICY, order);
    }
    let doc: BalancerDoc = ask::order(&found, "/api/v1/balancer/none")?;
    if order.json {
        return put(now_as_json(&doc));
    }
    put(format_args!(
        "no policy is in force: what moved stays where it is; back to the default: loligo balancer unset{}",
        target.again()
    ))
}

/// Tries a policy, and stores it for directories that name it.
pub fn add(name: &str, file: Option<&Path>, order: Order, target: &Target) -> Outcome {
    let Some(version) = tried_and_put_down("add", name, file, order, target)? else { return Ok(()) };
    if order.json {
        return put(version_as_json(&version));
    }
    put(format_args!(
        "{name}, version {}, is policy {}; for a directory: setfattr -n loligo.policy.balancer -v {name} DIRECTORY",
        version.version, version.policy
    ))
}

fn tried_and_put_down(
    what: &str,
    name: &str,
    file: Option<&Path>,
    order: Order,
    target: &Target,
) -> Result<Option<VersionDoc>, Failure> {
    if !loligo_driver::is_name(name) {
        let what = format!("a policy cannot be called {name:?}");
        return Err(Failure::usage(what).remedy("letters, digits, `_`, `-` and `.`, at most 64; not `none`"));
    }
    let text = text::of(name, file)?;
    let report = lint::report(name, &text)?;
    if order.dry_run {
        match order.json {
            true => put(json!({ "policy": name, "report": report, "changed": false }))?,
            false => put(format_args!("{report}\n{UNCHANGED}"))?,
        }
        return Ok(None);
    }
    let found = target::find(target)?;
    ask::order_with(&found, &format!("/api/v1/balancer/{what}/{name}"), &text).map(Some)
}

/// The name and version of the policy in force.
fn in_force(doc: &BalancerDoc) -> String {
    let name = |version: &VersionDoc| format!("{}, version {}", version.name, version.version);
    doc.in_force.as_ref().map_or_else(|| loligo_types::NO_POLICY.to_string(), name)
}

fn version_as_json(version: &VersionDoc) -> serde_json::Value {
    json!({ "name": version.name, "version": version.version, "policy": version.policy, "changed": true })
}

fn now_as_json(doc: &BalancerDoc) -> serde_json::Value {
    json!({ "in_force": doc.in_force.as_ref().map(|version| &version.name), "changed": true })
}

/// Prints what would change.
fn would_be(from: &str, to: &str, order: Order) -> Outcome {
    match order.json {
        true => put(json!({ "from": from, "to": to, "changed": false })),
        false => put(format_args!("balancer: {from} -> {to}\n{UNCHANGED}")),
    }
}

/// The default again.
pub fn unset(target: &Target, order: Order) -> Outcome {
    let found = target::find(target)?;
    if order.dry_run {
        let now: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
        return would_be(&in_force(&now), &format!("{}, the default", now.default), order);
    }
    let doc: BalancerDoc = ask::order(&found, "/api/v1/balancer/unset")?;
    if order.json {
        return put(now_as_json(&doc));
    }
    match doc.in_force {
        Some(now) => put(format_args!(
            "{}, version {}, the default, is in force as policy {}; for none: loligo balancer set none{}",
            now.name,
            now.version,
            now.policy,
            target.again()
        )),
        None => put("no policy is in force, as is the default: what moved stays where it is"),
    }
}

/// The policy before.
pub fn roll_back(target: &Target, order: Order) -> Outcome {
    let found = target::find(target)?;
    if order.dry_run {
        let doc: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
        let before = doc.before.ok_or_else(|| {
            Failure::new("there is nothing to go back to")
                .remedy(format!("what was in force: loligo balancer history{}", target.again()))
        })?;
        let name = |policy: u32| {
            let version = doc.versions.iter().find(|version| version.policy == policy);
            version.map_or(loligo_types::NO_POLICY.to_string(), |one| format!("{}, version {}", one.name, one.version))
        };
        return would_be(&in_force(&doc), &name(before), order);
    }
    let doc: BalancerDoc = ask::order(&found, "/api/v1/balancer/rollback")?;
    if order.json {
        return put(now_as_json(&doc));
    }
    match doc.in_force {
        Some(now) => {
            put(format_args!("{}, version {}, is in force again (policy {})", now.name, now.version, now.policy))
        }
        None if doc.history.last().is_some_and(|last| last.policy == 0) => put("no policy is in force, as before"),
        None => Err(Failure::new("the policy in force is not in the table").remedy("loligo fsck")),
    }
}
