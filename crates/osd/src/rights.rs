//! Rights of sessions to files, and the end of a session. Not what is done with them.

use loligo_types::{Ino, SessionId};

use crate::admit::refusal;
use crate::io::{Access, Output};
use crate::machine::Osd;
use crate::queue::{Queued, Waiter};

impl Osd {
    pub(crate) fn access(&self, session: SessionId, ino: Ino) -> Access {
        match self.rights.get(&(session, ino)) {
            // Not even who may do everything may change what another server is about to have.
            Some(away @ (Access::Moving | Access::Moved | Access::Hidden)) => *away,
            _ if self.trusted.contains(&session) => Access::Write,
            Some(known) => *known,
            None => self.range_access(session, ino),
        }
    }

    fn range_access(&self, session: SessionId, ino: Ino) -> Access {
        let covers = |(first, count, _): &&(Ino, u64, Access)| ino.0.wrapping_sub(first.0) < *count;
        let found = self.ranges.get(&session).and_then(|ranges| ranges.iter().rev().find(covers));
        found.map_or(Access::None, |(_, _, access)| *access)
    }

    /// Changes a right to many files. What waits and needs more is refused; what runs goes on.
    pub(crate) fn set_range(&mut self, session: SessionId, first: Ino, count: u64, access: Access) {
        let ranges = self.ranges.entry(session).or_default();
        ranges.retain(|(begin, length, _)| (*begin, *length) != (first, count));
        if access != Access::None {
            return ranges.push((first, count, access));
        }
        if ranges.is_empty() {
            self.ranges.remove(&session);
        }
        let waiting: Vec<Ino> =
            self.files.range(first..Ino(first.0.saturating_add(count))).map(|(ino, _)| *ino).collect();
        waiting.into_iter().for_each(|ino| self.refuse_waiting(session, ino));
    }

    /// Changes a right. What waits and needs more is refused; what runs goes on.
    pub(crate) fn set_access(&mut self, session: SessionId, ino: Ino, access: Access) {
        match access {
            Access::None => self.rights.remove(&(session, ino)),
            _ => self.rights.insert((session, ino), access),
        };
        self.refuse_waiting(session, ino);
    }

    /// Refuses the waiting operations of a session on a file that it may not do any more.
    fn refuse_waiting(&mut self, session: SessionId, ino: Ino) {
        let allowed = self.access(session, ino);
        for op in self.take_waiting(ino, |op| op.waiter.is(session) && refusal(allowed, op.class).is_some()) {
            if let (Waiter::Session(session, tag), Some(error)) = (op.waiter, refusal(allowed, op.class)) {
                self.out.push_back(Output::Reply { session, tag, result: Err(error) });
            }
        }
    }

    pub(crate) fn fence(&mut self, session: SessionId) {
        self.trusted.remove(&session);
        self.ranges.remove(&session);
        let rights = self.rights.range((session, Ino(0))..=(session, Ino(u64::MAX)));
        let inos: Vec<Ino> = rights.map(|((_, ino), _)| *ino).collect();
        for ino in inos {
            self.rights.remove(&(session, ino));
        }
        let mut running = 0;
        let inos: Vec<Ino> = self.files.keys().copied().collect();
        for ino in inos {
            running += self.files.get_mut(&ino).map_or(0, |queue| queue.orphan(session));
            self.take_waiting(ino, |op| op.waiter.is(session));
        }
        self.fencing.insert(session, running + 1);
        self.one_less(session);
    }

    /// Takes operations on a file out of the queue, and starts what waited behind them.
    fn take_waiting(&mut self, ino: Ino, unwanted: impl Fn(&Queued) -> bool) -> Vec<Queued> {
        let Some(queue) = self.files.get_mut(&ino) else { return Vec::new() };
        let taken = queue.take_waiting(unwanted);
        self.queued -= taken.iter().map(|op| op.cost).sum::<u64>();
        if queue.is_empty() {
            self.files.remove(&ino);
        }
        self.start(ino);
        self.quieten(ino);
        taken
    }

    pub(crate) fn one_less(&mut self, session: SessionId) {
        let Some(running) = self.fencing.get_mut(&session) else { return };
        *running -= 1;
        if *running == 0 {
            self.fencing.remove(&session);
            self.out.push_back(Output::Fenced { session });
        }
    }
}
