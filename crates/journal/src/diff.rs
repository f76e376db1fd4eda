//! Differences of two journals: their records side by side, by number. Not here: reading them.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use loligo_types::{Event, Lsn};

use crate::inspect::Entry;

/// Which of two records come first; those of one number stand beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Only the first journal has it.
    First,
    /// Only the second one has it.
    Second,
    /// Both have it.
    Both,
}

/// Which side has the next record, by the numbers of the next one on each; `None`: both are at their ends.
pub fn side(first: Option<Lsn>, second: Option<Lsn>) -> Option<Side> {
    match (first, second) {
        (None, None) => None,
        (Some(_), None) => Some(Side::First),
        (None, Some(_)) => Some(Side::Second),
        (Some(first), Some(second)) => Some(match first.cmp(&second) {
            Ordering::Less => Side::First,
            Ordering::Greater => Side::Second,
            Ordering::Equal => Side::Both,
        }),
    }
}

/// Differences of two records of one number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Difference<'a> {
    /// Requests of different sessions, or different ones, made them.
    pub origin: bool,
    /// The same events, in another order.
    pub order: bool,
    /// Events of the first that the second has not.
    pub only_first: Vec<&'a Event>,
    /// And the other way round.
    pub only_second: Vec<&'a Event>,
}

/// Compares two records of one number; where they lie does not count. `None`: they are the same.
pub fn compare<'a>(first: &'a Entry, second: &'a Entry) -> Option<Difference<'a>> {
    let origin = first.origin != second.origin;
    if !origin && first.events == second.events {
        return None;
    }
    let mut only_second: Vec<&Event> = second.events.iter().collect();
    let mut only_first = Vec::new();
    for event in &first.events {
        match only_second.iter().position(|other| *other == event) {
            Some(at) => _ = only_second.remove(at),
            None => only_first.push(event),
        }
    }
    let order = only_first.is_empty() && only_second.is_empty() && first.events != second.events;
    Some(Difference { origin, order, only_first, only_second })
}
