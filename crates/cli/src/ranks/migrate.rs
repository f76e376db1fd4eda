//! `loligo subtree migrate`: begins it, and shows how far it is until it is done.

use std::time::{Duration, Instant};

use loligo_types::Frag;
use serde_json::json;

use super::place::{self, Place};
use super::rank;
use crate::args::{Directory, Order};
use crate::look::ask;
use crate::output::{Failure, Outcome, UNCHANGED, human_count, put};
use crate::progress::{Bar, Unit};
use crate::service::admin::doc::{BegunDoc, MigrationDoc, SubtreeDoc};
use crate::service::admin::others::UnreachedDoc;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Longest silence of the rank that gives the subtree away: it goes to another server, or its server hangs.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// Brings all fragments of a directory together.
pub fn gather(dir: &Directory, order: Order) -> Outcome {
    let place = place::find(dir)?;
    if order.dry_run {
        let to = place::authority(&place)?;
        let (lines, _): (Vec<SubtreeDoc>, Vec<UnreachedDoc>) = ask::json_of_all(&place.found, "/api/v1/subtrees")?;
        let moves = lines.iter().filter(|line| line.dir == place.ino.0 && line.rank != to);
        if order.json {
            let one = |line: &SubtreeDoc| json!({ "fragment": line.frag, "from": line.rank, "to": to });
            let moves: Vec<serde_json::Value> = moves.map(one).collect();
            return put(json!({ "directory": place.name, "moves": moves, "changed": false }));
        }
        let moves: String = moves
            .map(|line| format!("fragment {} of {}: rank {} -> {to}\n", line.frag, place.name, line.rank))
            .collect();
        return put(match moves.is_empty() {
            true => format!("all fragments of {} are at rank {to}: nothing moves", place.name),
            false => format!("{moves}{UNCHANGED}"),
        });
    }
    let begun: BegunDoc = ask::order(&place.found, &format!("/api/v1/gather/{}", place.ino.0))?;
    if order.json {
        return put(json!({ "directory": place.name, "to": begun.from, "changed": true }));
    }
    put(format_args!("the ranks give the fragments of {} to rank {}: see loligo subtree list", place.name, begun.from))
}

/// Options of a migration.
pub struct How {
    /// Return when it was begun.
    pub no_wait: bool,
    /// As JSON.
    pub json: bool,
    /// Only say what would move.
    pub dry_run: bool,
}

/// Moves a directory, or a fragment of it, to a rank.
pub fn run(dir: &Directory, to: u16, frag: Option<Frag>, how: &How) -> Outcome {
    let &How { no_wait, json, dry_run } = how;
    let place = place::find(dir)?;
    let frag = frag.filter(|frag| *frag != Frag::WHOLE);
    if rank::check(&place.found, to)? == [u32::from(to)] {
        return Err(Failure::new(format!("{} is at rank {to} already, as there is no other", place.name))
            .remedy(format!("add a rank, and move it there: loligo rank add{}", place.found.option())));
    }
    let from = place::authority(&place)?;
    let what = frag.map_or(place.name.clone(), |frag| format!("fragment {frag} of {}", place.name));
    if frag.is_none() && from == to {
        return Err(Failure::new(format!("{what} is at rank {to} already"))
            .remedy(format!("its fragments may be elsewhere: loligo subtree list{}", place.found.option())));
    }
    if dry_run {
        return match json {
            true => put(
                json!({ "directory": place.name, "fragment": frag.map(|frag| frag.to_string()), "from": from, "to": to, "changed": false }),
            ),
            false => put(format_args!("{what}: rank {from} -> {to}\n{UNCHANGED}")),
        };
    }
    let part = frag.map_or(String::new(), |frag| format!("/{:x}/{}", frag.value, frag.bits));
    let order = format!("/api/v1/migrate/{}/{to}/{from}{part}", place.ino.0);
    let begun: BegunDoc = ask::order(&place.found, &order)?;
    if no_wait {
        return match json {
            true => put(serde_json::json!({ "id": begun.id, "from": begun.from })),
            false => put(format_args!("{what} moves from rank {} to rank {to}", begun.from)),
        };
    }
    let done = wait(&place, &what, &begun)?;
    if json {
        let line = serde_json::to_string(&done).map_err(|e| Failure::new(format!("the answer as JSON: {e}")))?;
        return put(line);
    }
    put(format_args!(
        "{what} moved from rank {} to rank {} in {} ms, with {} inodes in memory; its requests waited {} us",
        done.from,
        done.to,
        human_count(done.took_ms),
        human_count(done.inodes),
        human_count(done.frozen_us)
    ))
}

/// Looks until it has ended.
fn wait(place: &Place, what: &str, begun: &BegunDoc) -> Result<MigrationDoc, Failure> {
    let mut bar: Option<Bar> = None;
    let mut heard = Instant::now();
    loop {
        let (all, unreached): (Vec<MigrationDoc>, Vec<UnreachedDoc>) =
            ask::json_of_all(&place.found, "/api/v1/migrations")?;
        if let Some(silent) = unreached.iter().find(|one| one.ranks.contains(&begun.from)) {
            if heard.elapsed() > SILENT_MAX {
                return Err(Failure::new(format!(
                    "{} does not tell how far {what} is ({}): it may move, have moved, or stay",
                    silent.name, silent.why
                ))
                .remedy("see where it is: loligo subtree list"));
            }
            std::thread::sleep(LOOK);
            continue;
        }
        heard = Instant::now();
        let ours = all.into_iter().find(|one| one.id == begun.id && one.from == begun.from).ok_or_else(|| {
            Failure::new(format!("rank {} does not know the migration of {what} any more", begun.from))
                .remedy("see where it is: loligo subtree list")
        })?;
        match ours.state.as_str() {
            "done" => return Ok(ours),
            why if why.starts_with("failed") => return Err(Failure::new(format!("{what}: moving {why}"))),
            _ => {}
        }
        if ours.of > 0 {
            let bar = bar.get_or_insert_with(|| Bar::start("migrating", ours.of, Unit::Count));
            bar.message(&format!("{what}: {}: {} inodes found; looked at", ours.state, human_count(ours.inodes)));
            bar.set(ours.seen);
        }
        std::thread::sleep(LOOK);
    }
}
