//! Which records of a journal are meant. All that is asked must hold; what is asked of an event must hold for one and the same event.
//! Not here: what is done with them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::str::FromStr;

use loligo_types::{Event, Ino, Letter, Lsn, Name, Origin, SessionId};
use thiserror::Error;

use crate::codec::{EVENT_NAMES, event_name};

/// Filter of records. The default takes all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Its number.
    pub lsns: LsnRange,
    /// One of its events is of one of these kinds; none: any kind.
    pub kinds: BTreeSet<EventKind>,
    /// One of its events is about this inode, or about an entry that is in it or leads to it.
    pub ino: Option<Ino>,
    /// One of its events is about an entry of this name.
    pub name: Option<Name>,
    /// A request of this session made it.
    pub session: Option<SessionId>,
}

impl Filter {
    /// True if the filter takes every record.
    pub fn is_all(&self) -> bool {
        *self == Filter::default()
    }

    /// True if the number of a record alone tells that the filter takes it.
    pub fn is_of_lsns(&self) -> bool {
        *self == Filter { lsns: self.lsns, ..Filter::default() }
    }

    /// True if the filter takes a record.
    pub fn takes(&self, lsn: Lsn, origin: Option<&Origin>, events: &[Event]) -> bool {
        let by_events = !self.kinds.is_empty() || self.ino.is_some() || self.name.is_some();
        self.lsns.has(lsn)
            && self.session.is_none_or(|session| origin.is_some_and(|origin| origin.session == session))
            && (!by_events || events.iter().any(|event| self.takes_event(event)))
    }

    /// True if the filter takes an event; it takes a letter also if it takes one of the events in it.
    pub fn takes_event(&self, event: &Event) -> bool {
        self.is_it(event) || inside(event).iter().any(|event| self.is_it(event))
    }

    fn is_it(&self, event: &Event) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&EventKind(event_name(event))))
            && self.ino.is_none_or(|ino| is_about(event, ino))
            && self.name.as_ref().is_none_or(|name| names(event) == Some(name))
    }
}

/// The events in a letter.
fn inside(event: &Event) -> &[Event] {
    match event {
        Event::Letter { letter, .. } => match &**letter {
            Letter::Commit { events, .. } | Letter::Import { events, .. } | Letter::Fragment { events, .. } => events,
            Letter::Sum { .. } => &[],
        },
        _ => &[],
    }
}

fn names(event: &Event) -> Option<&Name> {
    match event {
        Event::Entry { name, .. } | Event::EntryGone { name, .. } => Some(name),
        _ => None,
    }
}

fn is_about(event: &Event, asked: Ino) -> bool {
    match event {
        Event::Inode(inode) => inode.ino == asked,
        Event::InodeGone(ino)
        | Event::InlineGone(ino)
        | Event::Orphan(ino)
        | Event::OrphanGone(ino)
        | Event::DiscardGone(ino)
        | Event::RouteGone(ino)
        | Event::Xattr { ino, .. }
        | Event::XattrGone { ino, .. }
        | Event::Inline { ino, .. }
        | Event::Data { ino, .. }
        | Event::DataInPlace { ino, .. }
        | Event::Discard { ino, .. } => *ino == asked,
        Event::InlinePatch(patch) => patch.ino == asked,
        Event::Entry { dir, ino, .. } => *dir == asked || *ino == asked,
        Event::EntryGone { dir, .. }
        | Event::DepartedFrag { dir, .. }
        | Event::PartGone { dir, .. }
        | Event::DecoupledGone(dir)
        | Event::MergePart { dir, .. }
        | Event::Merge { dir } => *dir == asked,
        Event::Decoupled(record) => record.dir == asked,
        Event::Route(route) => route.dir == asked,
        Event::Departed(inos) => inos.contains(&asked),
        Event::Letter { letter, .. } => match &**letter {
            Letter::Sum { dir, .. } => *dir == asked,
            Letter::Fragment { part, routes, .. } => part.ino == asked || routes.iter().any(|route| route.dir == asked),
            Letter::Import { routes, .. } => routes.iter().any(|route| route.dir == asked),
            Letter::Commit { .. } => false,
        },
        Event::Session(_) | Event::SessionGone(_) | Event::NextIno(_) | Event::Peer(_) | Event::Pad { .. } => false,
    }
}

/// Error in the text of a filter.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FilterError {
    /// No range.
    #[error("{0:?} names no records: it must be A..B (both included), A.., ..B or one number, and A not above B")]
    Range(String),
    /// No kind.
    #[error("{0:?} is no kind of event; there are: {kinds}", kinds = EVENT_NAMES.join(", "))]
    Kind(String),
}

/// Records from one number to another, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LsnRange {
    /// The first.
    pub first: Lsn,
    /// The last.
    pub last: Lsn,
}

impl Default for LsnRange {
    /// All.
    fn default() -> LsnRange {
        LsnRange { first: Lsn(0), last: Lsn(u64::MAX) }
    }
}

impl LsnRange {
    /// True if a record is among them.
    pub fn has(self, lsn: Lsn) -> bool {
        self.first <= lsn && lsn <= self.last
    }
}

impl FromStr for LsnRange {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<LsnRange, FilterError> {
        let bad = || FilterError::Range(text.to_string());
        let number = |text: &str, open: Lsn| match text {
            "" => Some(open),
            text => text.parse().ok().map(Lsn),
        };
        let all = LsnRange::default();
        let range = match text.split_once("..") {
            Some(("", "")) => None,
            Some((first, last)) => number(first, all.first).zip(number(last, all.last)),
            None => text.parse().ok().map(|n| (Lsn(n), Lsn(n))),
        };
        let (first, last) = range.filter(|(first, last)| first <= last).ok_or_else(bad)?;
        Ok(LsnRange { first, last })
    }
}

/// A kind of event, by its short name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventKind(&'static str);

impl EventKind {
    /// That of an event.
    pub fn of(event: &Event) -> EventKind {
        EventKind(event_name(event))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl FromStr for EventKind {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<EventKind, FilterError> {
        let known = EVENT_NAMES.iter().find(|name| **name == text);
        known.map(|name| EventKind(name)).ok_or_else(|| FilterError::Kind(text.to_string()))
    }
}
