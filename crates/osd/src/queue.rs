//! The operations on one file, in the order they came, and which of them may run. Not who may ask.

use std::collections::VecDeque;

use loligo_types::{Ino, Lsn, SessionId};

use crate::admit::{Class, Touches};
use crate::execute::Effect;
use crate::io::{EffectId, Tag};

/// Operations at the head of a file's queue that are looked at: a bound on the work for each event.
const WINDOW: usize = 64;

/// The origin of an operation, which waits for its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A client.
    Session(SessionId, Tag),
    /// The metadata server's discard of the objects of this number.
    Discard(Tag, Ino),
    /// The metadata server's spill.
    Spill(Tag),
    /// The metadata server has what was copied put back.
    Restore(Tag),
    /// The metadata server has the others' version of a file kept as another one.
    Keep(Tag, Ino),
    /// It asks whether others have changed theirs.
    Look(Tag),
    /// The sync of a file that is to be quiet.
    Quiesce,
    /// The journal has the bytes with this record.
    Logged(Lsn),
}

impl Waiter {
    pub(crate) fn is(&self, session: SessionId) -> bool {
        matches!(self, Waiter::Session(whose, _) if *whose == session)
    }
}

/// An operation that waits or runs.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) id: EffectId,
    pub(crate) waiter: Waiter,
    pub(crate) class: Class,
    /// First byte, and first byte behind.
    pub(crate) range: (u64, u64),
    /// The objects that a sync must cover after it.
    pub(crate) touches: Touches,
    /// Bytes that it counts in the bound of the queue.
    pub(crate) cost: u64,
    /// The effect; taken out when it starts. A sync's objects are filled in then.
    pub(crate) effect: Option<Effect>,
    /// Its session is gone, so nobody waits for it.
    pub(crate) orphaned: bool,
    /// It had no room, and is tried again later.
    pub(crate) paused: bool,
}

impl Queued {
    pub(crate) fn is_running(&self) -> bool {
        self.effect.is_none()
    }

    /// True if this operation, which came later, must wait until `earlier` is done.
    fn waits_for(&self, earlier: &Queued) -> bool {
        let overlap = self.range.0 < earlier.range.1 && earlier.range.0 < self.range.1;
        match (self.class, earlier.class) {
            (Class::Read, Class::Read) => false,
            (Class::Read | Class::Write, Class::Sync) | (Class::Sync, Class::Read) => false,
            (Class::Read, Class::Write) | (Class::Write, Class::Read | Class::Write) => overlap,
            // A second sync may cover what the first has begun, so it waits for that one's end.
            (Class::Sync, Class::Write | Class::Sync) => true,
        }
    }
}

/// The operations on one file.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ops: VecDeque<Queued>,
}

impl Queue {
    pub(crate) fn push(&mut self, op: Queued) {
        self.ops.push_back(op);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The next operation that may start. An operation for which `held` is true may not. A journal's write behind it may not either: such writes
    /// would hold it for ever.
    pub(crate) fn startable(&mut self, held: impl Fn(&Queued) -> bool) -> Option<&mut Queued> {
        let window = WINDOW.min(self.ops.len());
        let holding = (0..window).find(|at| self.could_start(*at) && held(&self.ops[*at])).unwrap_or(usize::MAX);
        let may_start = |at: &usize| {
            let logged = matches!(self.ops[*at].waiter, Waiter::Logged(_));
            self.could_start(*at) && !held(&self.ops[*at]) && !(logged && *at > holding)
        };
        let at = (0..window).find(may_start)?;
        self.ops.get_mut(at)
    }

    fn could_start(&self, at: usize) -> bool {
        let op = &self.ops[at];
        !op.is_running() && !op.paused && !self.ops.range(..at).any(|earlier| op.waits_for(earlier))
    }

    /// The first answer of `held` about an operation that could start otherwise.
    pub(crate) fn first_held<T>(&self, held: impl Fn(&Queued) -> Option<T>) -> Option<T> {
        (0..WINDOW.min(self.ops.len())).filter(|at| self.could_start(*at)).find_map(|at| held(&self.ops[at]))
    }

    /// Puts back the effect of an operation that had no room.
    pub(crate) fn pause(&mut self, id: EffectId, effect: Effect) {
        if let Some(op) = self.ops.iter_mut().find(|op| op.id == id) {
            (op.effect, op.paused) = (Some(effect), true);
        }
    }

    /// All of them may be tried again.
    pub(crate) fn unpause(&mut self) {
        self.ops.iter_mut().for_each(|op| op.paused = false);
    }

    /// Takes an operation out.
    pub(crate) fn remove(&mut self, id: EffectId) -> Option<Queued> {
        let at = self.ops.iter().position(|op| op.id == id)?;
        self.ops.remove(at)
    }

    /// Takes out what waits and `unwanted` holds for.
    pub(crate) fn take_waiting(&mut self, unwanted: impl Fn(&Queued) -> bool) -> Vec<Queued> {
        let (taken, kept) =
            std::mem::take(&mut self.ops).into_iter().partition::<Vec<_>, _>(|op| !op.is_running() && unwanted(op));
        self.ops = kept.into();
        taken
    }

    /// Leaves what `session` has running with nobody to answer to; gives the number.
    pub(crate) fn orphan(&mut self, session: SessionId) -> usize {
        let running = self.ops.iter_mut().filter(|op| op.waiter.is(session) && op.is_running());
        running.map(|op| op.orphaned = true).count()
    }
}
