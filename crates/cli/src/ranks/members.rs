//! `loligo rank add`, `drain` and `undrain`: which ranks there are, while they serve.

use std::time::{Duration, Instant};

use serde_json::json;

use super::rank;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, human_count, put, say};
use crate::progress::{Bar, Unit};
use crate::service::admin::doc::{AddedDoc, DrainDoc, HandOverDoc, StatusDoc};
use crate::target::{self, Found};

/// Last line of a dry run.
const UNCHANGED: &str = "nothing was changed: without --dry-run it is";
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
pub fn would_add(target: &Target, count: u16) -> Outcome {
    let status: StatusDoc = ask::json(&target::find(target)?, "/api/v1/status")?;
    let there = status.ranks.len() + status.unreached.iter().map(|one| one.ranks.len()).sum::<usize>();
    put(format_args!("ranks: {there} -> {}\n{UNCHANGED}", there + usize::from(count)))
}

/// Prints the change that an order would make of a rank that is there. Whether the server can carry it out shows only when it does.
pub fn would_be(target: &Target, rank: u16, then: &str) -> Outcome {
    let found = target::find(target)?;
    rank::check(&found, rank)?;
    let status: StatusDoc = ask::json(&found, "/api/v1/status")?;
    let state = status.ranks.iter().find(|doc| doc.rank == rank).map_or("unreached", |doc| &doc.state);
    put(format_args!("rank {rank}: {state} -> {then}\n{UNCHANGED}"))
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
pub fn undrain(target: &Target, rank: u16) -> Outcome {
    let found = target::find(target)?;
    let _: DrainDoc = ask::order(&found, &format!("/api/v1/rank/undrain/{rank}"))?;
    say(format_args!("rank {rank} keeps what it still has, and takes more again"));
    Ok(())
}

/// Has another server run a rank; comes back when it does.
pub fn hand_over(target: &Target, rank: u16, to: Option<&str>) -> Outcome {
    let found = target::find(target)?;
    let page = format!("/api/v1/rank/handover/{rank}");
    let done: HandOverDoc = ask::order_with(&found, &page, to.unwrap_or_default())?;
    if until_served(&found, rank) {
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
