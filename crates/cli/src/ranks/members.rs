//! `loligo rank add`, `drain` and `undrain`: which ranks there are, while they serve.

use std::time::{Duration, Instant};

use serde_json::json;

use super::rank;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, UNCHANGED, human_count, put, say};
use crate::progress::{Bar, Unit};
use crate::service::admin::doc::{AddedDoc, DrainDoc, HandOverDoc, StatusDoc};
use crate::target::{self, Found};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// The same, at a rank that was handed over.
const LOOK_SERVED: Duration = Duration::from_millis(20);
/// For so long it is waited for its clients.
const SERVED_WITHIN: Duration = Duration::from_secs(60);

/// Adds so many ranks.
pub fn add(target: &Target, count: u16, json: bool) -> Outcome {
    let found = target::find(target)?;
    let added: AddedDoc = ask::order(&found, &format!("/api/v1/rank/add/{count}"))?;
    if json {
        return put(json!({ "ranks": added.ranks }));
    }
    for rank in added.ranks {
        put(format_args!("rank {rank} was added; it takes directories: loligo subtree migrate DIR {rank}"))?;
    }
    Ok(())
}

/// Prints the change that adding so many ranks would make.
pub fn would_add(target: &Target, count: u16, json: bool) -> Outcome {
    let status: StatusDoc = ask::json(&target::find(target)?, "/api/v1/status")?;
    let there = status.ranks.len() + status.unreached.iter().map(|one| one.ranks.len()).sum::<usize>();
    let then = there + usize::from(count);
    let most = usize::from(loligo_driver::server::RANKS_MAX);
    if then > most {
        return Err(Failure::new(format!("{then} ranks are too many: a file system has at most {most}")));
    }
    match json {
        true => put(json!({ "from": there, "to": then, "changed": false })),
        false => put(format_args!("ranks: {there} -> {then}\n{UNCHANGED}")),
    }
}

/// Prints the change that an order would make of a rank that is there, unless `refuses` knows why the server would refuse it.
fn would_be(
    target: &Target,
    rank: u16,
    then: &str,
    json: bool,
    refuses: impl FnOnce(&StatusDoc, &str) -> Option<Failure>,
) -> Outcome {
    let found = target::find(target)?;
    rank::check(&found, rank)?;
    let status: StatusDoc = ask::json(&found, "/api/v1/status")?;
    let state = status.ranks.iter().find(|doc| doc.rank == rank).map_or("unreached", |doc| &doc.state);
    if let Some(failure) = refuses(&status, state) {
        return Err(failure);
    }
    match json {
        true => put(json!({ "rank": rank, "from": state, "to": then, "changed": false })),
        false => put(format_args!("rank {rank}: {state} -> {then}\n{UNCHANGED}")),
    }
}

/// A rank gives away what it has.
fn leaves(state: &str) -> bool {
    matches!(state, "draining" | "leaving")
}

/// Prints the change that draining a rank would make.
pub fn would_drain(target: &Target, rank: u16, json: bool) -> Outcome {
    would_be(target, rank, "gives all to other ranks, and is removed", json, |status, state| {
        let others = status.ranks.iter().filter(|doc| doc.rank != rank && !leaves(&doc.state)).count();
        let elsewhere = status.unreached.iter().any(|one| one.ranks.iter().any(|other| *other != rank));
        match () {
            () if leaves(state) => Some(Failure::new(format!("rank {rank} is being drained already"))),
            () if others == 0 && !elsewhere => Some(
                Failure::new(format!("rank {rank} is the last one that takes more"))
                    .remedy("add another one first: loligo rank add"),
            ),
            () => None,
        }
    })
}

/// Prints the change that the end of draining it would make.
pub fn would_undrain(target: &Target, rank: u16, json: bool) -> Outcome {
    would_be(target, rank, "stays, and takes more again", json, |_, state| {
        (state != "unreached" && !leaves(state)).then(|| Failure::new(format!("rank {rank} is not being drained")))
    })
}

/// Prints the change that handing it over would make.
pub fn would_hand_over(target: &Target, rank: u16, to: Option<&str>, json: bool) -> Outcome {
    let server = to.unwrap_or("the server with the fewest ranks");
    would_be(target, rank, &format!("is run by {server}"), json, |status, _| {
        if status.servers.is_empty() {
            let text = "this file system is on one machine's disk, where its server runs all ranks";
            return Some(Failure::new(text));
        }
        let names: Vec<&str> = status.servers.iter().map(|one| one.name.as_str()).collect();
        let to = to.filter(|to| !status.servers.iter().any(|one| one.name == *to || one.number == *to))?;
        Some(Failure::new(format!("there is no server {to}")).remedy(format!("name one of {}", names.join(", "))))
    })
}

/// Begins to drain a rank; with `wait` until it is gone.
pub fn drain(target: &Target, rank: u16, wait: bool, json: bool) -> Outcome {
    let found = target::find(target)?;
    let page = format!("/api/v1/rank/drain/{rank}");
    let begun: DrainDoc = match ask::json::<DrainDoc>(&found, &page) {
        // It was begun before: to look how far it is.
        Ok(now) if wait && now.draining => now,
        _ => ask::order(&found, &page)?,
    };
    let last = if wait { until_gone(&found, rank)? } else { begun };
    if json {
        let line = serde_json::to_string(&last).map_err(|e| Failure::new(format!("the answer as JSON: {e}")))?;
        return put(line);
    }
    match wait {
        true => put(format_args!("rank {rank} has given everything away and was removed")),
        false => put(format_args!(
            "rank {rank} gives everything away and is then removed; how far it is: loligo rank drain {rank} --wait{}",
            found.option()
        )),
    }
}

/// Stops draining a rank.
pub fn undrain(target: &Target, rank: u16, json: bool) -> Outcome {
    let found = target::find(target)?;
    let _: DrainDoc = ask::order(&found, &format!("/api/v1/rank/undrain/{rank}"))?;
    if json {
        return put(json!({ "rank": rank, "changed": true }));
    }
    say(format_args!("rank {rank} keeps what it still has, and takes more again"));
    Ok(())
}

/// Has another server run a rank; comes back when it does.
pub fn hand_over(target: &Target, rank: u16, to: Option<&str>, json: bool) -> Outcome {
    let found = target::find(target)?;
    let page = format!("/api/v1/rank/handover/{rank}");
    let done: HandOverDoc = ask::order_with(&found, &page, to.unwrap_or_default())?;
    let served = until_served(&found, rank);
    if json {
        return put(json!({ "rank": rank, "server": done.server, "served": served, "changed": true }));
    }
    if served {
        say(format_args!("rank {rank} is run by {}", done.server));
    } else {
        say(format_args!(
            "rank {rank} is run by {}, and waits for clients that have not come back yet: see loligo status",
            done.server
        ));
    }
    Ok(())
}

/// Waits until the clients of a rank are served: those that were there before have told it what they hold. Whether they are, within a minute.
fn until_served(found: &Found, rank: u16) -> bool {
    let until = Instant::now() + SERVED_WITHIN;
    loop {
        // The status tells of the ranks of all servers. The server that is asked may not have heard of this one yet.
        let status = ask::json::<StatusDoc>(found, "/api/v1/status");
        let of_it = status.ok().and_then(|status| status.ranks.into_iter().find(|doc| doc.rank == rank));
        if of_it.is_some_and(|doc| doc.state != "grace") {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(LOOK_SERVED);
    }
}

fn until_gone(found: &Found, rank: u16) -> Result<DrainDoc, Failure> {
    let mut last = DrainDoc::default();
    let mut bar: Option<(u64, Bar)> = None;
    loop {
        let now: DrainDoc = ask::json(found, &format!("/api/v1/rank/drain/{rank}"))?;
        if !now.there {
            last.there = false;
            return Ok(last);
        }
        if !now.draining {
            return Err(Failure::new(format!("rank {rank} is not being drained any more"))
                .remedy("somebody stopped it, or it was refused: see the server's log"));
        }
        let done = now.subtrees_given + now.files_given;
        let all = done + now.subtrees_left + now.files_left;
        if bar.as_ref().is_none_or(|(of, _)| *of != all) && all > 0 {
            bar = Some((all, Bar::start("draining", all, Unit::Count)));
        }
        if let Some((_, bar)) = &mut bar {
            bar.message(&describe(&now));
            bar.set(done);
        }
        last = now;
        std::thread::sleep(LOOK);
    }
}

fn describe(now: &DrainDoc) -> String {
    if let Some(stuck) = &now.stuck {
        return stuck.clone();
    }
    let mut text = now.state.clone();
    if now.orphans > 0 {
        text += &format!("; {} open files have no name", human_count(now.orphans));
    }
    if now.state.contains("clients") {
        text += &format!(" ({})", human_count(now.sessions));
    }
    text
}
