//! `loligo balancer show`, `list` and `history`.

use super::text::{ago, shipped_names};
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, put};
use crate::ranks::rank::not_reached;
use crate::service::admin::balancer::{BalancerDoc, NamedDoc, TextDoc};
use crate::suggest;
use crate::target;

/// Which policy is in force and how it does; of a named one the text.
pub fn get(name: Option<&str>, target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    if json && name.is_none() {
        return put(ask::json::<serde_json::Value>(&found, "/api/v1/balancer")?);
    }
    let doc: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
    if let Some(name) = name {
        let newest = doc.versions.iter().filter(|version| version.name == name).max_by_key(|version| version.version);
        return match (newest, loligo_balancer::shipped(name)) {
            (Some(newest), _) => {
                let text: TextDoc = ask::json(&found, &format!("/api/v1/balancer/text/{}", newest.policy))?;
                put(text.text.trim_end())
            }
            (None, Some((_, text))) => put(text.trim_end()),
            (None, None) => {
                let known = doc.versions.iter().map(|version| version.name.as_str()).chain(shipped_names());
                Err(Failure::new(format!("there is no policy {name}{}", suggest::hint(name, known)))
                    .remedy(format!("loligo balancer list{} shows those that there are", target.again())))
            }
        };
    }
    match &doc.in_force {
        Some(now) => {
            let default = if doc.chosen { "" } else { ", the default" };
            put(format_args!("{}, version {} (policy {}){default}", now.name, now.version, now.policy))?;
        }
        None if !doc.chosen && doc.ranks.len() < 2 && doc.default != loligo_types::NO_POLICY => {
            let default = &doc.default;
            return put(format_args!("no policy is in force: there is one rank; with more, {default} is, the default"));
        }
        None if doc.named.is_empty() => return put("no policy is in force: nothing is balanced"),
        None => put("no policy is in force: nothing is balanced but what names one")?,
    }
    for named in &doc.named {
        put(format_args!("for what names {}: {}", named.name, meant(&doc, named)))?;
    }
    put("rank    load    ticks  moves  refused  failed  decision")?;
    for rank in &doc.ranks {
        let (load, took) = (rank.auth, rank.took_us);
        put(format_args!(
            "{:>4} {load:>7.0} {:>8} {:>6} {:>8} {:>7}  {took} us",
            rank.rank, rank.ticks, rank.moves, rank.refused, rank.faults
        ))?;
    }
    for rank in &doc.ranks {
        for one in &rank.policies {
            let name = one.name.as_ref().map_or(String::new(), |name| format!(", what names {name}"));
            if let Some(fault) = &one.fault {
                put(format_args!("rank {}{name}: {fault}", rank.rank))?;
            }
        }
    }
    match not_reached(&doc.unreached) {
        none if none.is_empty() => Ok(()),
        some => put(some.trim_end()),
    }
}

/// Which version it is that directories mean.
fn meant(doc: &BalancerDoc, named: &NamedDoc) -> String {
    match doc.versions.iter().find(|version| version.policy == named.policy) {
        Some(version) => format!("version {} (policy {})", version.version, version.policy),
        None => "none, as all have failed".to_string(),
    }
}

/// Lists the versions of policies, and the policies that come with Loligo.
pub fn list(target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    let doc: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
    if json {
        return put(serde_json::json!({ "versions": doc.versions, "named": doc.named, "shipped": shipped_names() }));
    }
    let now = doc.in_force.as_ref().map_or(0, |now| now.policy);
    for version in &doc.versions {
        let mark = if version.policy == now { '*' } else { ' ' };
        let when = ago(version.at_ms);
        let is_named = doc.named.iter().any(|named| named.policy == version.policy);
        let default = if version.policy == now && !doc.chosen { ", the default" } else { "" };
        let named = if is_named { ", for what names it" } else { "" };
        put(format_args!(
            "{mark} {:<28} version {:<4} policy {:<4} {when}{default}{named}",
            version.name, version.version, version.policy
        ))?;
    }
    put(format_args!("come with Loligo: {}", shipped_names().join(", ")))
}

/// Prints the policies that were in force, and why each was put in force.
pub fn history(target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    let doc: BalancerDoc = ask::json(&found, "/api/v1/balancer")?;
    if json {
        return put(serde_json::to_string(&doc.history).map_err(|e| Failure::new(format!("history as JSON: {e}")))?);
    }
    if doc.history.is_empty() {
        return put("no policy was ever in force");
    }
    for one in &doc.history {
        let policy = if one.policy == 0 { "none".to_string() } else { format!("policy {}", one.policy) };
        let name = one.name.as_ref().map_or(String::new(), |name| format!("for what names {name}: "));
        put(format_args!("{:>14}  {policy:<10}  {name}{}", ago(one.at_ms), one.why))?;
    }
    Ok(())
}
