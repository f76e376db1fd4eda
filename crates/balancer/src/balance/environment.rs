//! Names that a balancing policy can use (Table 4.2 of the paper and our own additions), made of a snapshot. The list for
//! people is docs/policies.md. No decision is made here but who takes part.

use super::explain::RankSeen;
use crate::engine::Input;
use crate::{Fault, FaultKind};
use loligo_types::{Load, LoadVec, Rank, RankView, Snapshot, Weighed};
use std::borrow::Cow;

/// News that is older than this many ticks says nothing about now.
const AGE_TICKS_MAX: u64 = 3;

/// Checks that the numbers can be believed; they came from other ranks.
pub(super) fn check(snapshot: &Snapshot) -> Result<(), Fault> {
    let wrong = |text: String| Err(Fault::new("snapshot", FaultKind::Host, text));
    if !snapshot.ranks.is_sorted_by(|a, b| a.rank < b.rank) {
        return wrong("the ranks are not in ascending order".to_string());
    }
    if !snapshot.ranks.iter().any(|view| view.rank == snapshot.whoami) {
        return wrong(format!("rank {} decides and is not among the ranks", snapshot.whoami));
    }
    if let Some(view) =
        snapshot.ranks.iter().find(|view| !view.load.is_sound() || !view.weighed.is_none_or(|w| w.is_sound()))
    {
        return wrong(format!("the load of rank {} has numbers that are negative or not finite", view.rank));
    }
    if u32::try_from(snapshot.pieces.len()).is_err() {
        return wrong("there are more pieces than can be numbered".to_string());
    }
    let is_wrong = |(at, piece): (usize, &loligo_types::PieceHeat)| {
        !piece.load.is_sound() || piece.above.is_some_and(|above| above as usize >= at)
    };
    if let Some(at) = snapshot.pieces.iter().enumerate().position(is_wrong) {
        return wrong(format!("piece {at} has a load that is not finite, or comes before the one that it is in"));
    }
    match snapshot.besides.is_sound() {
        true => Ok(()),
        false => wrong("what was counted besides is negative or not finite".to_string()),
    }
}

/// The arguments of `metaload`, in their order.
pub(super) fn counters(load: &LoadVec) -> [f64; 5] {
    [load.ird, load.iwr, load.readdir, load.fetch, load.store]
}

/// The ranks that take part, or why nothing can be decided now: a rank that takes more must have told, lately, what this
/// version of the policy makes of it. One that takes nothing is left out if it has not.
pub(super) fn part(snapshot: &Snapshot, own: Weighed) -> Result<Vec<(&RankView, Weighed)>, String> {
    let oldest = snapshot.tick_ms.saturating_mul(AGE_TICKS_MAX);
    let mut part = Vec::with_capacity(snapshot.ranks.len());
    for view in &snapshot.ranks {
        if view.rank == snapshot.whoami {
            part.push((view, own));
            continue;
        }
        let why = match view.weighed {
            Some(weighed) if weighed.policy == snapshot.policy && view.age_ms <= oldest => {
                part.push((view, weighed));
                continue;
            }
            Some(weighed) if weighed.policy == snapshot.policy => format!("was heard of {} ms ago", view.age_ms),
            Some(weighed) => {
                format!("has told its load by policy {}, not by policy {}", weighed.policy.0, snapshot.policy.0)
            }
            None => "has not told its load yet".to_string(),
        };
        if view.takes_more {
            return Err(format!("rank {} {why}", view.rank));
        }
    }
    Ok(part)
}

/// Load of the ranks, for the explanation.
pub(super) fn seen(part: &[(&RankView, Weighed)]) -> Vec<RankSeen> {
    let seen = |(view, weighed): &(&RankView, Weighed)| RankSeen {
        rank: view.rank,
        auth: weighed.auth,
        all: weighed.all,
        load: None,
        busy: f64::from(view.load.busy_percent),
        open: is_open(view),
    };
    part.iter().map(seen).collect()
}

fn is_open(view: &RankView) -> bool {
    view.takes_more && !view.is_busy_importing
}

/// `MDSs`, still without `load`.
pub(super) fn metrics(part: &[(&RankView, Weighed)]) -> Input {
    let entry = |(view, weighed): &(&RankView, Weighed)| {
        let metric = |name: &'static str, number: f64| (Cow::Borrowed(name), Input::Number(number));
        let own = [
            metric("rank", f64::from(view.rank.0)),
            metric("auth", weighed.auth),
            metric("all", weighed.all),
            metric("age", view.age_ms as f64),
            (Cow::Borrowed("open"), Input::Bool(is_open(view))),
        ];
        let told = Load::NUMBERS.iter().zip(view.load.values());
        let told = told.filter_map(|(number, value)| Some(metric(number.policy_name?, value)));
        Input::Map(own.into_iter().chain(told).collect())
    };
    Input::List(part.iter().map(entry).collect())
}

/// `home`: for each rank that takes part, how much of what came from it could be given back; as `load`.
pub(super) fn home(snapshot: &Snapshot, nested: &[f64], ranks: &[Rank], scale: f64) -> Input {
    let mut home = vec![0.0; ranks.len()];
    for (piece, load) in snapshot.pieces.iter().zip(nested) {
        let Some(rank) = piece.home.filter(|_| piece.above.is_none() && !piece.fixed) else { continue };
        if let Ok(at) = ranks.binary_search(&rank) {
            home[at] += load * scale;
        }
    }
    Input::numbers(&home)
}
