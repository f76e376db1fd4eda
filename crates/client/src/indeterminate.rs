//! Changes that may still be done although their callers were told that the rank is not there.
//!
//! A rank does not tell a session of what that has changed itself, and nobody above expects a change that failed. So nothing
//! that such a change may touch is cached until it is answered.

use std::collections::BTreeSet;

use loligo_types::{About, Ino, Lease, Op};

use crate::Invalidation;
use crate::calls::{Calls, Waiter};
use crate::core::Core;
use crate::file::Files;
use crate::ranks::Ranks;
use crate::session::{Pending, waiter_of};
use crate::task::Task;

impl Calls {
    /// Calls were given up: what their changes may touch is dropped above.
    pub(crate) fn begin_unsettled(&mut self, core: &mut Core, ranks: &Ranks, files: &mut Files) {
        let changes: Vec<Op> = self.unheard(ranks).map(|pending| pending.request.op.clone()).collect();
        let worked_on: BTreeSet<Ino> = self.unheard_tasks().map(|task| task.ino).collect();
        self.unsettled = !(changes.is_empty() && worked_on.is_empty());
        if !self.unsettled {
            return;
        }
        let touched = |ino: Ino| worked_on.contains(&ino) || changes.iter().any(|op| touches(op, ino));
        for dir in changes.iter().flat_map(dirs) {
            core.names_lost.add(dir);
            core.invalidate(Invalidation::Names(dir), false);
        }
        let leases = ranks.sessions.values().flat_map(|session| session.leases.all());
        let held = leases.filter(|(_, bits)| bits.has(Lease::ATTR)).map(|(ino, _)| ino);
        for ino in held.filter(|ino| touched(*ino)).collect::<Vec<_>>() {
            core.invalidate(Invalidation::Attr(ino), false);
        }
        for (ino, file) in &mut files.map {
            file.current &= !touched(*ino);
        }
    }

    /// Looks whether all of them are answered.
    pub(crate) fn end_unsettled(&mut self, ranks: &Ranks) {
        self.unsettled =
            self.unsettled && (self.unheard(ranks).next().is_some() || self.unheard_tasks().next().is_some());
    }

    /// True if a change without an answer may change attributes of an inode, or names of a directory.
    pub(crate) fn is_unsettled(&self, ranks: &Ranks, ino: Ino, bits: Lease) -> bool {
        let may = |op: &Op| {
            bits.has(Lease::NAMES) && dirs(op).any(|dir| dir == ino) || bits.has(Lease::ATTR) && touches(op, ino)
        };
        let files = || bits.has(Lease::ATTR) && self.unheard_tasks().any(|task| task.ino == ino);
        self.unsettled && (self.unheard(ranks).any(|pending| may(&pending.request.op)) || files())
    }

    /// Tasks on files whose callers wait no longer: they may send a change later.
    fn unheard_tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(|task| matches!(task.waiter, Waiter::Call(_)) && !self.is_awaited(task.waiter))
    }

    /// Changes whose callers wait no longer.
    fn unheard<'a>(&'a self, ranks: &'a Ranks) -> impl Iterator<Item = &'a Pending> {
        ranks.unanswered().filter(|pending| {
            let waits = waiter_of(&pending.then).is_none_or(|waiter| self.is_heard(waiter));
            pending.request.op.is_change() && !waits
        })
    }

    fn is_heard(&self, waiter: Waiter) -> bool {
        match waiter {
            Waiter::Task(id) => self.tasks.get(&id).is_some_and(|task| self.is_awaited(task.waiter)),
            waiter => self.is_awaited(waiter),
        }
    }
}

/// Directories whose names a change may change.
fn dirs(op: &Op) -> impl Iterator<Item = Ino> {
    op.subjects().into_iter().filter_map(|subject| Some(subject.name()?.0))
}

/// True if a change may change attributes of an inode. The target of a name is not known here.
fn touches(op: &Op, ino: Ino) -> bool {
    match op.about() {
        About::Names(_) => true,
        About::Inode(of) => of == ino,
        About::Nothing => false,
    }
}
