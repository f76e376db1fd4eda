//! One thing over time: what the records made of it, and what crashes took back of that. Not what it is.

use loligo_types::{Ino, Lsn};

/// Target of a name: number, directory.
pub type Target = (Ino, bool);

/// Where a change stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    pub(super) rank: usize,
    pub(super) lsn: Lsn,
    /// When its record was made, microseconds.
    pub(super) at: u64,
    /// The lag of the policy that counted, if it is relaxed, milliseconds.
    pub(super) lag: Option<u64>,
}

/// The values of one thing.
#[derive(Clone, Debug)]
pub(super) struct Line<T> {
    /// Those that the journals have, the newest last.
    stack: Vec<(Place, T)>,
    lost: Vec<(Place, T)>,
    /// From when on it was what.
    times: Vec<(u64, T)>,
}

impl<T: Default> Default for Line<T> {
    fn default() -> Line<T> {
        Line { stack: Vec::new(), lost: Vec::new(), times: vec![(0, T::default())] }
    }
}

impl<T: Clone + PartialEq + Default> Line<T> {
    /// The current value.
    pub(super) fn now(&self) -> T {
        self.stack.last().map_or_else(T::default, |(_, value)| value.clone())
    }

    /// A record makes it this.
    pub(super) fn push(&mut self, place: Place, value: T) {
        if self.now() != value {
            self.times.push((place.at, value.clone()));
            self.stack.push((place, value));
        }
    }

    /// A crash took the records of a rank back that are beyond this one.
    pub(super) fn cut(&mut self, rank: usize, upto: Lsn, at: u64) {
        let before = self.now();
        while let Some(last) = self.stack.pop_if(|(place, _)| place.rank == rank && place.lsn > upto) {
            self.lost.push(last);
        }
        let now = self.now();
        if now != before {
            self.times.push((at, now));
        }
    }

    /// The first record that made it such a thing, and whether all those are lost: then the last one.
    pub(super) fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<(Place, bool)> {
        let known = self.stack.iter().find(|(_, value)| is_it(value)).map(|(place, _)| (*place, false));
        // Cut from the newest on: the first record of a crash is the last one here.
        known.or_else(|| self.lost.iter().rev().find(|(_, value)| is_it(value)).map(|(place, _)| (*place, true)))
    }

    /// True if the value was such at some moment in the interval.
    pub(super) fn was(&self, (from, upto): (u64, u64), is_it: impl Fn(&T) -> bool) -> bool {
        let mut ends = self.times.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        self.times.iter().any(|(at, value)| {
            let end = ends.next().unwrap_or(u64::MAX);
            *at <= upto && end >= from && is_it(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_takes_back_is_what_was_before_and_was_so_until_then() {
        let mut line: Line<Option<u16>> = Line::default();
        let place = |lsn, at| Place { rank: 0, lsn: Lsn(lsn), at, lag: None };
        line.push(place(1, 10), Some(1));
        line.push(place(2, 20), Some(2));
        line.cut(1, Lsn(0), 30);
        assert_eq!(line.now(), Some(2), "another rank's crash");
        line.cut(0, Lsn(1), 30);
        assert_eq!(line.now(), Some(1));
        assert_eq!(line.find(|value| *value == Some(2)), Some((place(2, 20), true)));
        assert!(line.was((25, 40), |value| *value == Some(2)), "it was not taken back yet");
        assert!(!line.was((31, 40), |value| *value == Some(2)));
        assert!(line.was((31, 40), |value| *value == Some(1)));
        assert!(!line.was((21, 29), |value| *value == Some(1)));
    }
}
