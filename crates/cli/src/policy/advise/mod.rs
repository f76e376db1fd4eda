//! `loligo policy advise`: which placement of directories suits what is done below one, and why. Looks for some seconds at what the ranks count for the
//! balancer, and says what each placement would make of that (`predict`). Changes nothing.

mod predict;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::thread::sleep;
use std::time::Duration;

use loligo_types::{Frag, Ino};
use serde_json::{Value, json};

use self::predict::{Advice, Dir, Outlook, Seen};
use crate::args::Directory;
use crate::look::ask;
use crate::output::{self, Failure, Outcome, human_count, note, put};
use crate::progress::{Bar, Unit};
use crate::ranks::place::{self, Asker, Place};
use crate::service::admin::doc::StatusDoc;
use crate::service::admin::heat::SpotDoc;
use crate::service::admin::others::UnreachedDoc;

/// Interval at which the ranks are asked.
const EVERY: Duration = Duration::from_secs(1);
/// Deeper than any path that a system call takes.
const DEPTH_MAX: usize = 2048;

/// Counters of the load below the directory, per second.
#[derive(Default)]
struct Counted {
    seen: Seen,
    reads: f64,
    changes: f64,
    lists: f64,
    /// Directories of which it could not be found out whether they are below.
    unknown: usize,
}

/// Prints it.
pub fn run(dir: &Directory, seconds: u32, ranks: Option<u16>, json: bool) -> Outcome {
    let seconds = seconds.max(1);
    if ranks == Some(0) {
        return Err(Failure::usage("there is no file system of 0 ranks").remedy("give --ranks 1 or more"));
    }
    let place = place::find(dir)?;
    let before: StatusDoc = ask::json(&place.found, "/api/v1/status")?;
    let (spots, unreached) = look(&place, seconds)?;
    let status: StatusDoc = ask::json(&place.found, "/api/v1/status")?;
    let mut counted = count(&place, &spots, seconds)?;
    let known: Vec<f64> = status.ranks.iter().map(|rank| rank.load.capacity_per_s).filter(|can| *can > 0.0).collect();
    counted.seen.capacity = known.iter().sum::<f64>() / known.len().max(1) as f64;
    counted.seen.paths = paths(&before, &status);
    if counted.seen.dirs.is_empty() {
        return Err(Failure::new(format!(
            "nothing was done below {} in {seconds} s, so there is nothing to judge by",
            place.name
        ))
        .remedy("run this while the directory is in use, or give --seconds"));
    }
    let there: BTreeSet<u16> =
        spots.iter().map(|spot| spot.rank).chain(status.ranks.iter().map(|rank| rank.rank)).collect();
    let ranks = ranks.map_or(there.len(), usize::from);
    if json {
        return put(format_args!("{:#}", document(&place, &counted, ranks, seconds, &unreached)));
    }
    for one in &unreached {
        note(format_args!("what rank {:?} of {} did is not known: {}", one.ranks, one.name, one.why));
    }
    if counted.unknown > 0 {
        note(format_args!(
            "left out: {} directories that have no path any more, or none that you may see",
            counted.unknown
        ));
    }
    put(text(&place, &counted, ranks, seconds))
}

/// Collects the heat of all ranks, once per interval.
fn look(place: &Place, seconds: u32) -> Result<(Vec<SpotDoc>, Vec<UnreachedDoc>), Failure> {
    let mut bar = Bar::start("looking", seconds.into(), Unit::Count);
    let (mut all, mut unreached) = (Vec::new(), Vec::new());
    for _ in 0..seconds {
        sleep(EVERY);
        let (spots, missing): (Vec<SpotDoc>, _) = ask::json_of_all(&place.found, "/api/v1/heat")?;
        all.extend(spots);
        unreached = missing;
        bar.add(1);
    }
    Ok((all, unreached))
}

/// Share of paths in the requests that ranks have answered meanwhile: of the whole file system, as ranks do not count that by directory.
fn paths(before: &StatusDoc, after: &StatusDoc) -> f64 {
    let sum = |status: &StatusDoc| {
        let counted = || status.ranks.iter().map(|rank| &rank.counted);
        let paths: u64 = counted().flat_map(|of| &of.walks).map(|walks| walks.count).sum();
        let all: u64 = counted().flat_map(|of| of.placed.values()).flat_map(|ops| ops.values()).sum();
        (paths, all)
    };
    let ((paths_before, all_before), (paths, all)) = (sum(before), sum(after));
    // A rank that was restarted has begun to count anew.
    let (paths, all) = (paths.saturating_sub(paths_before) as f64, all.saturating_sub(all_before) as f64);
    if all > 0.0 { (paths / all).min(1.0) } else { 0.0 }
}

/// Takes together what is below the directory.
fn count(place: &Place, spots: &[SpotDoc], times: u32) -> Result<Counted, Failure> {
    let mut above = Above::new(place, spots)?;
    let (mut dirs, mut at, mut counted) =
        (BTreeMap::<u64, Dir>::new(), BTreeMap::<u16, f64>::new(), Counted::default());
    let mut unknown = BTreeSet::new();
    let (whole, part) = (Frag::WHOLE.to_string(), 1.0 / f64::from(times));
    for spot in spots {
        let rate = (spot.heat.ird + spot.heat.iwr + spot.heat.readdir) * part;
        match above.is_below(spot.dir) {
            _ if rate <= 0.0 => continue,
            Some(true) => {}
            Some(false) => continue,
            None => {
                unknown.insert(spot.dir);
                continue;
            }
        }
        let dir = dirs.entry(spot.dir).or_insert(Dir { rate: 0.0, large: false });
        dir.rate += rate;
        dir.large |= spot.frag != whole;
        *at.entry(spot.rank).or_default() += rate;
        counted.reads += spot.heat.ird * part;
        counted.changes += spot.heat.iwr * part;
        counted.lists += spot.heat.readdir * part;
        counted.seen.made += spot.dirs_made * part;
        counted.seen.changed += (spot.dirs_changed - spot.dirs_restricted) * part;
        counted.seen.restricted += spot.dirs_restricted * part;
    }
    counted.unknown = unknown.len();
    counted.seen.dirs = dirs.into_values().collect();
    counted.seen.at = at.into_values().collect();
    Ok(counted)
}

/// Parents of directories, as far as they are known.
struct Above {
    top: u64,
    /// `None`: it cannot be found out.
    parents: HashMap<u64, Option<u64>>,
    asker: Asker,
}

impl Above {
    fn new(place: &Place, spots: &[SpotDoc]) -> Result<Above, Failure> {
        let known = spots.iter().filter_map(|spot| Some((spot.dir, Some(spot.parent?))));
        Ok(Above { top: place.ino.0, parents: known.collect(), asker: Asker::new(&place.found)? })
    }

    /// True if a directory is the one that was asked about, or below it. `None`: it cannot be found out.
    fn is_below(&mut self, dir: u64) -> Option<bool> {
        let mut at = dir;
        for _ in 0..DEPTH_MAX {
            if at == self.top {
                return Some(true);
            }
            if at == Ino::ROOT.0 {
                return Some(false);
            }
            let asker = &self.asker;
            at = (*self.parents.entry(at).or_insert_with(|| asker.parent(Ino(at)).ok().map(|up| up.0)))?;
        }
        None
    }
}

/// The placements that are judged: what they are called, for people and in JSON, and what is expected of them.
fn outlooks(seen: &Seen, ranks: usize) -> [(&'static str, &'static str, Outlook); 5] {
    [
        ("subtree, as it is", "subtree", seen.as_it_is(ranks)),
        ("subtree, moved", "subtree_moved", seen.moved(ranks)),
        ("giga", "giga", seen.giga(ranks)),
        ("replicated", "replicated", seen.replicated(ranks)),
        ("table", "table", seen.table(ranks)),
    ]
}

fn text(place: &Place, counted: &Counted, ranks: usize, seconds: u32) -> String {
    let (seen, percent) = (&counted.seen, |of: f64| 100.0 * of / counted.seen.rate());
    let mut out = format!(
        "{}, {seconds} s, {}: {} requests/s in {}, half of them in {}\n{:.0} % reads, {:.0} % changes ({:.1} % make directories, \
         {:.1} % remove or rename them, {:.1} % say who may use them), {:.0} % listings\n",
        place.name,
        output::counted(ranks as u64, "rank"),
        human_count(seen.rate() as u64),
        output::counted(seen.dirs.len() as u64, "directory"),
        seen.half(),
        percent(counted.reads),
        percent(counted.changes),
        percent(seen.made),
        percent(seen.changed),
        percent(seen.restricted),
        percent(counted.lists),
    );
    out.push_str(&format!("paths are {:.0} % of what all ranks were asked\n", 100.0 * seen.paths));
    out.push_str(&match seen.needs() {
        Some(needs) => {
            format!("a rank answers {} requests/s: this needs {needs:.2} of one\n\n", human_count(seen.capacity as u64))
        }
        None => "how many requests a rank can answer is not known yet\n\n".into(),
    });
    out.push_str(&format!(
        "{:<18} {:>12} {:>9} {:>18} {:>10}\n",
        "placement", "busiest/mean", "variation", "messages/operation", "limit/s"
    ));
    for (name, _, outlook) in outlooks(seen, ranks) {
        let Outlook { busiest, variation, messages, limit } = outlook;
        let limit = if limit > 0.0 { human_count(limit as u64) } else { "-".into() };
        out.push_str(&format!("{name:<18} {busiest:>12.2} {variation:>9.2} {messages:>18.2} {limit:>10}\n"));
    }
    let (choice, why) = said(seen.advice(ranks));
    out + &format!("\nadvice: {choice}: {why}")
}

/// Which placement, and why; what to do.
fn said(advice: Advice) -> (&'static str, String) {
    let (choice, why) = match advice {
        Advice::OneRank => ("subtree", "there is one rank: nothing can be spread"),
        Advice::Little => {
            ("subtree", "one rank has time for all of this; spreading it makes requests longer and brings nothing")
        }
        Advice::Even => ("subtree", "the load is even already"),
        Advice::Move => (
            "subtree",
            "few directories have the load: let a balancer move them (loligo balancer), or do it (loligo subtree migrate)",
        ),
        Advice::Cut => (
            "subtree",
            "so few directories have the load that they must be in parts to be spread (loligo subtree split), or hold less",
        ),
        Advice::Directories => (
            "subtree",
            "directories are made and changed so often that what two ranks do for each costs more than an even load brings",
        ),
        Advice::Giga => ("giga", "many directories have the load, which moving one after the other does not follow"),
        Advice::Replicated { .. } => (
            "replicated",
            "many directories have the load, which moving one after the other does not follow, and programs ask by paths: one request each",
        ),
    };
    let mut why = why.to_string();
    if let Advice::Giga | Advice::Replicated { .. } = advice {
        why += &format!(
            " (loligo subtree place DIRECTORY {choice}); those that are there stay where they are without --move, and new ones are spread. What is to \
             be decoupled must not be below it"
        );
    }
    if let Advice::Replicated { unchecked: Some(unchecked) } = advice {
        why += &format!(
            ". Where nobody relies on who may search the directories above, table saves up to {unchecked:.2} messages an operation more \
             (docs/placement.md, \"Table\")"
        );
    }
    (choice, why)
}

fn document(place: &Place, counted: &Counted, ranks: usize, seconds: u32, unreached: &[UnreachedDoc]) -> Value {
    let seen = &counted.seen;
    let outlook = |(_, name, outlook): (&str, &str, Outlook)| {
        let Outlook { busiest, variation, messages, limit } = outlook;
        let limit = (limit > 0.0).then_some(limit);
        (
            name.to_string(),
            json!({ "busiest": busiest, "variation": variation, "messages_per_operation": messages, "limit_per_s": limit }),
        )
    };
    let advice = seen.advice(ranks);
    let unchecked = matches!(advice, Advice::Replicated { unchecked: Some(_) }).then_some("table");
    let (choice, why) = said(advice);
    json!({
        "path": place.name,
        "dir": place.ino.0,
        "seconds": seconds,
        "ranks": ranks,
        "requests_per_s": seen.rate(),
        "reads_per_s": counted.reads,
        "changes_per_s": counted.changes,
        "listings_per_s": counted.lists,
        "dirs_made_per_s": seen.made,
        "dirs_changed_per_s": seen.changed,
        "dirs_restricted_per_s": seen.restricted,
        "directories": seen.dirs.len(),
        "half_in": seen.half(),
        "left_out": counted.unknown,
        "capacity_per_s": (seen.capacity > 0.0).then_some(seen.capacity),
        "needs_ranks": seen.needs(),
        "placements": outlooks(seen, ranks).into_iter().map(outlook).collect::<serde_json::Map<_, _>>(),
        "paths_share": seen.paths,
        "advice": choice,
        "advice_unchecked": unchecked,
        "why": why,
        "unreached": unreached,
    })
}
