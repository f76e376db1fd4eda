//! `loligo policy set` and `unset`: a directory's own policy, and what it changes against what counts there now. One of before is set as any other: what
//! forbids a policy forbids it, too.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use loligo_subtree_policy::policy::changes;
use loligo_subtree_policy::{Consistency, SubtreePolicy};
use serde_json::json;

use super::live::{Live, Outstanding};
use super::{chain, history, placing, promise, source};
use crate::args::{Directory, Order};
use crate::output::{Failure, Outcome, UNCHANGED, counted, note, put, quoted};

/// Which policy is set.
pub enum To {
    /// A preset, a file, or stdin.
    Named(PathBuf),
    /// A version of the directory's own.
    Version(u32),
    /// The policy that was in force before.
    Before,
}

/// Shows what changes, and sets it.
pub fn set(dir: &Directory, to: &To, order: Order) -> Outcome {
    // A file that is no policy is told before anybody is asked.
    let named = match to {
        To::Named(policy) => Some(source::named(policy)?),
        To::Version(_) | To::Before => None,
    };
    let chain = chain::of_directory(dir)?;
    let version = match to {
        To::Named(_) => 0,
        To::Version(number) => *number,
        To::Before => match history::before(&chain, dir)? {
            0 => return unset(dir, order),
            number => number,
        },
    };
    let given = match named {
        Some(given) => given,
        None => {
            let given = history::version(&chain, version, dir)?;
            if !order.json {
                put(format_args!("version {version} of the policy of {}:", chain.name()))?;
            }
            given
        }
    };
    if let Some(unseen) = chain.unseen() {
        note(format_args!("warning: {unseen}, nor are their floors"));
    }
    chain.check_floors(&given.policy)?;
    placing::check(chain.links(), &given.policy)?;
    for warning in given.policy.pipeline().warnings() {
        note(format_args!("warning: {warning}"));
    }
    // One that a newer server took may be unreadable here; it is replaced all the same.
    let placement = placing::change(chain.links(), Some(&given.policy));
    match chain.in_force() {
        Ok(now) => {
            let lines: Vec<String> = changes(&now.policy, &given.policy).into_iter().chain(placement).collect();
            if order.json {
                let (from, to) = (now.policy.cell().to_string(), given.policy.cell().to_string());
                if !order.dry_run {
                    chain.set(&given.text)?;
                }
                return put(as_json(chain.name(), &from, &to, &lines, order));
            }
            told(&format!("against {}", now.whose()), lines)?;
        }
        Err(unreadable) => note(format_args!("warning: what changes cannot be told: {unreadable}")),
    }
    let decoupled = dir.path.is_dir().then(|| Live::at(&dir.path).outstanding().ok().flatten()).flatten();
    let is_root = |out: &Outstanding| dir.path.metadata().is_ok_and(|meta| meta.ino() == out.root);
    match decoupled.as_ref().filter(|out| is_root(out)) {
        Some(out) => put(completed(out, &given.policy))?,
        None => promise::today(&given.policy).map_or(Ok(()), put)?,
    }
    if order.dry_run {
        return put(UNCHANGED);
    }
    chain.set(&given.text)?;
    let decouples = given.policy.pipeline().has_client_journal() && decoupled.is_none();
    put(format_args!(
        "{} and all below it are {} by policy{}",
        chain.name(),
        given.policy.cell(),
        match decouples {
            true => format!(", in force while it is decoupled: loligo run {} -- COMMAND", quoted(&dir.path)),
            false => String::new(),
        }
    ))?;
    let Some(out) = decoupled else { return Ok(()) };
    let (name, shown) = (chain.name(), quoted(&dir.path));
    put(match is_root(&out) {
        // The mount has completed what the new one promises before it said that it is set.
        true if given.policy.pipeline().has_client_journal() => {
            format!(
                "{name} is decoupled by this mount: what was outstanding is as the new policy says, and it counts from now on"
            )
        }
        true => format!("{name} was decoupled by this mount: what was outstanding is merged, and it is given back"),
        false => format!(
            "it is below a directory that is decoupled by this mount with its own policy: the new one counts for all when that directory was merged \
             and given back (loligo recouple of it; loligo policy explain {shown})"
        ),
    })
}

/// Of a directory that is decoupled by this mount: what becomes of its outstanding changes when the policy is set.
fn completed(out: &Outstanding, new: &SubtreePolicy) -> String {
    let (old, cell) = (out.policy.cell(), new.cell());
    // One that is given back is merged; else the stages of the new pipeline are done that the old one does not have.
    let merges = !new.pipeline().has_client_journal()
        || old.consistency == Consistency::Invisible && cell.consistency == Consistency::Weak;
    let all = match out.changes {
        0 => "no changes are outstanding".to_string(),
        n if !merges => format!("{} outstanding, not merged by this", counted(n, "change")),
        1 => "1 change outstanding is merged, and all see it".to_string(),
        n => format!("{} outstanding are merged, and all see them", counted(n, "change")),
    };
    let then = match new.pipeline().has_client_journal() {
        true => format!("it stays decoupled, with {cell}"),
        false => "the directory is given back".to_string(),
    };
    format!("it is decoupled by this mount with {old}: {all}, and {then}")
}

/// Takes it away, and shows what changes.
pub fn unset(dir: &Directory, order: Order) -> Outcome {
    let chain = chain::of_directory(dir)?;
    let decoupled = dir.path.is_dir().then(|| Live::at(&dir.path).outstanding().ok().flatten()).flatten();
    let shown = quoted(&dir.path);
    if !chain.has_own() {
        let failure = Failure::new(format!("{} has no policy of its own", chain.name()));
        return Err(match decoupled {
            Some(_) => failure.remedy(format!(
                "it is decoupled with a policy for that time, which ends when it is given back: loligo recouple; what counts now: loligo policy explain {shown}"
            )),
            None => failure.remedy(format!("what counts there: loligo policy show {shown}")),
        });
    }
    let then = chain.inherited()?;
    let placement = placing::change(chain.links(), None);
    let lines: Result<Vec<String>, Failure> =
        chain.in_force().map(|now| changes(&now.policy, &then.policy).into_iter().chain(placement).collect());
    if order.json {
        let from = chain.in_force().map_or_else(|_| "unreadable".into(), |now| now.policy.cell().to_string());
        if !order.dry_run {
            chain.unset()?;
        }
        let to = then.policy.cell().to_string();
        return put(as_json(chain.name(), &from, &to, &lines.unwrap_or_default(), order));
    }
    if order.dry_run {
        told(&format!("against the policy of {}", chain.name()), lines.unwrap_or_default())?;
        return put(UNCHANGED);
    }
    chain.unset()?;
    if let Ok(lines) = lines {
        told("now", lines)?;
    }
    if let Some(unseen) = chain.unseen() {
        note(format_args!("warning: {unseen}"));
    }
    match decoupled {
        // The policy that it was decoupled with goes on, whatever is set or not.
        Some(out) => put(format_args!(
            "{} is decoupled by this mount, and stays so as it is, {}; once it is given back (loligo recouple) {} counts there, {}",
            chain.name(),
            out.policy.cell(),
            then.whose(),
            then.policy.cell()
        )),
        None => put(format_args!("at {} {} is in force: {}", chain.name(), then.whose(), then.policy.cell())),
    }
}

fn as_json(path: &str, from: &str, to: &str, changes: &[String], order: Order) -> serde_json::Value {
    json!({ "path": path, "from": from, "to": to, "changes": changes, "changed": !order.dry_run })
}

fn told(when: &str, lines: Vec<String>) -> Outcome {
    match lines.is_empty() {
        true => put(format_args!("nothing changes {when}")),
        false => put(format_args!("what changes {when}:\n  {}", lines.join("\n  "))),
    }
}
