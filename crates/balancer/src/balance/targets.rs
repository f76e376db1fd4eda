//! `where`'s answer, checked: a target that makes no sense is a fault, one that is only untimely is left alone.

use super::explain::RankSeen;
use super::select::SAME;
use crate::engine::Output;
use crate::{Fault, FaultKind};
use loligo_types::{Rank, RankView};

/// Smaller targets than this share of the own load are noise, unless the policy says otherwise.
const MINIMUM_SHARE: f64 = 0.01;

pub(super) struct Targets {
    /// All of them, as they were asked for, ranks ascending.
    pub asked: Vec<(Rank, f64)>,
    /// Those that are left alone now.
    pub skipped: Vec<(Rank, f64, &'static str)>,
    /// The others, the biggest first.
    pub wanted: Vec<(Rank, f64)>,
}

fn wrong(text: String) -> Fault {
    Fault::new("where", FaultKind::Target, text)
}

/// Reads the table `targets`. `me` is the own place from 0, `own` the own load.
pub(super) fn read(
    targets: Output,
    part: &[&RankView],
    seen: &[RankSeen],
    me: usize,
    own: f64,
    minimum: Option<f64>,
) -> Result<Targets, Fault> {
    let Output::Table(entries) = targets else {
        return Err(wrong(format!("`targets` must be a table of amounts by rank, it is {}", targets.type_name())));
    };
    let mut asked = Vec::new();
    for (key, amount) in entries {
        let (at, amount) = entry(&key, &amount, part.len())?;
        if amount == 0.0 {
            continue;
        }
        if at == me {
            return Err(wrong(format!("targets[{}] is the rank itself: it cannot give {amount} to itself", at + 1)));
        }
        if !part[at].takes_more {
            return Err(wrong(format!(
                "targets[{}] is rank {}, which takes no more: look at MDSs[i].open",
                at + 1,
                part[at].rank
            )));
        }
        asked.push((at, amount));
    }
    asked.sort_by_key(|(at, _)| *at);
    let sum: f64 = asked.iter().map(|(_, amount)| amount).sum();
    if sum > own * (1.0 + SAME) {
        let text = format!("the targets are {sum} together, more than there is: {own}. Amounts are in units of `load`");
        return Err(wrong(text));
    }
    let minimum = minimum.unwrap_or(own * MINIMUM_SHARE);
    let mut targets = Targets { asked: Vec::new(), skipped: Vec::new(), wanted: Vec::new() };
    for (at, amount) in asked {
        let rank = part[at].rank;
        targets.asked.push((rank, amount));
        if !seen[at].open {
            targets.skipped.push((rank, amount, "something moves to it already"));
        } else if amount < minimum {
            targets.skipped.push((rank, amount, "less than the minimum"));
        } else {
            targets.wanted.push((rank, amount));
        }
    }
    targets.wanted.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(targets)
}

/// One entry: the place from 0, and how much.
fn entry(key: &Output, amount: &Output, count: usize) -> Result<(usize, f64), Fault> {
    let at = match key {
        Output::Number(at) if *at >= 1.0 && *at <= count as f64 && at.fract() == 0.0 => *at as usize - 1,
        Output::Number(at) => return Err(wrong(format!("targets[{at}] is no rank: MDSs has 1 to {count}"))),
        other => {
            return Err(wrong(format!(
                "the keys of `targets` must be numbers from 1 to {count}, one is {}",
                other.type_name()
            )));
        }
    };
    match amount {
        Output::Number(amount) if amount.is_finite() && *amount >= 0.0 => Ok((at, *amount)),
        Output::Number(amount) => {
            Err(wrong(format!("targets[{}] is {amount}: it must be finite and not negative", at + 1)))
        }
        other => Err(wrong(format!("targets[{}] must be a number, it is {}", at + 1, other.type_name()))),
    }
}
