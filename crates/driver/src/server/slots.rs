//! Limits of connections of a rank, and of a process with all its ranks, by kind of peer, so that peers of one kind take nothing from those
//! of another. Connections get no descriptors that journals, the table, objects and commands need.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Most connections of a rank over TCP that have not shown yet who they are.
const HALF_OPEN_MAX: usize = 128;
/// The last descriptors that a process may have: connections do not take these, whatever else is open.
const LAST: u64 = 32;

/// Kind of a connection's peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The kernel says whose process it is.
    Unix,
    /// Over TCP: an identity, or one that is trusted without.
    Network,
    /// Over TCP: nothing yet.
    HalfOpen,
}

impl Kind {
    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::Unix => "connections over Unix sockets",
            Kind::Network => "connections over TCP",
            Kind::HalfOpen => "connections over TCP that have not shown who they are",
        }
    }
}

/// A limit for each kind of connection, and how many there are. Of a rank, whose connections count at its process, too.
#[derive(Debug)]
pub struct Connections {
    room: [usize; 3],
    used: [AtomicUsize; 3],
    process: Option<Arc<Connections>>,
}

impl Connections {
    /// Those of a process, which may have so many of all kinds together: half of them over Unix sockets, three of eight over TCP, the rest
    /// of those that have not shown who they are.
    pub fn of_process(most: usize) -> Arc<Connections> {
        Arc::new(Connections::new([most / 2, most / 8 * 3, most / 8], None))
    }

    /// Those of one of its ranks, which may have so many over Unix sockets, and as many over TCP.
    pub(crate) fn of_rank(most: usize, process: &Arc<Connections>) -> Arc<Connections> {
        Arc::new(Connections::new([most, most, most.min(HALF_OPEN_MAX)], Some(process.clone())))
    }

    fn new(room: [usize; 3], process: Option<Arc<Connections>>) -> Connections {
        Connections { room: room.map(|room| room.max(1)), used: Default::default(), process }
    }

    /// Most connections of a kind.
    pub(crate) fn room(&self, kind: Kind) -> usize {
        let above = self.process.as_ref().map_or(usize::MAX, |process| process.room(kind));
        self.room[kind as usize].min(above)
    }

    /// A place for one more, if there is one.
    pub(crate) fn take(self: &Arc<Connections>, kind: Kind) -> Option<Slot> {
        let above = match &self.process {
            Some(process) => Some(Box::new(process.take(kind)?)),
            None => None,
        };
        let room = self.room[kind as usize];
        let more = |used| (used < room).then_some(used + 1);
        self.used[kind as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Slot { connections: self.clone(), kind, _above: above })
    }
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    connections: Arc<Connections>,
    kind: Kind,
    _above: Option<Box<Slot>>,
}

impl Slot {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The connection counts as one of another kind from now on, if there is a place for it.
    pub(crate) fn turn_into(&mut self, kind: Kind) -> bool {
        let taken = self.connections.take(kind);
        taken.map(|slot| *self = slot).is_some()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.used[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

/// True if hardly any descriptors are left once this one is taken: the kernel gives the lowest that is free, so all below are in use.
pub fn is_last(fd: &impl AsFd) -> bool {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    fd.as_fd().as_raw_fd() as u64 >= most.saturating_sub(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_one_kind_take_no_place_of_another_and_those_of_all_ranks_count_together() {
        let process = Connections::of_process(16);
        let (one, two) = (Connections::of_rank(6, &process), Connections::of_rank(6, &process));
        let take = |rank: &Arc<Connections>, kind, count: usize| -> Vec<Slot> {
            std::iter::from_fn(|| rank.take(kind)).take(count).collect()
        };
        let half: Vec<_> =
            [take(&one, Kind::HalfOpen, 9), take(&two, Kind::HalfOpen, 9)].into_iter().flatten().collect();
        assert_eq!(half.len(), 2, "two of sixteen");
        let mut unix = take(&one, Kind::Unix, 9);
        assert_eq!(unix.len(), 6, "what a rank may have");
        assert_eq!(take(&two, Kind::Unix, 9).len(), 2, "what is left of eight");
        unix.pop();
        assert_eq!(take(&one, Kind::Unix, 9).len(), 1, "one has gone");
        drop(half);
        assert_eq!(take(&two, Kind::HalfOpen, 9).len(), 2, "all have gone");
    }

    #[test]
    fn one_that_has_shown_who_it_is_makes_its_place_free_or_stays_where_it_was() {
        let process = Connections::of_process(8);
        let rank = Connections::of_rank(2, &process);
        let mut one = rank.take(Kind::HalfOpen).expect("the first");
        assert!(rank.take(Kind::HalfOpen).is_none());
        assert!(one.turn_into(Kind::Network));
        let mut two = rank.take(Kind::HalfOpen).expect("the place is free");
        assert!(two.turn_into(Kind::Network));
        let mut three = rank.take(Kind::HalfOpen).expect("the place is free");
        assert!(!three.turn_into(Kind::Network), "there are two");
        assert_eq!((three.kind(), rank.take(Kind::HalfOpen).is_none()), (Kind::HalfOpen, true));
    }

    #[test]
    fn the_last_descriptors_are_known_by_their_numbers() {
        let one = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a descriptor");
        assert!(!is_last(&one));
        let most = getrlimit(Resource::Nofile).current.expect("a limit");
        let high = i32::try_from(most - 1).expect("a number of a descriptor");
        let last = rustix::io::fcntl_dupfd_cloexec(&one, high).expect("the last one");
        assert!(is_last(&last));
    }
}
