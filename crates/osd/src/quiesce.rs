//! Files that another server is to have: what is under way on them ends, what was changed becomes durable, and then
//! nothing of them is known here any more. Who may ask for what meanwhile is a matter of rights.

use std::collections::BTreeSet;

use loligo_types::Ino;

use crate::execute::Effect;
use crate::io::Output;
use crate::machine::Osd;
use crate::queue::Waiter;

/// With more changed files than this, one sync of everything is cheaper than one of each.
const SYNC_EACH: usize = 64;

/// Files that are to be quiet.
#[derive(Debug)]
pub(crate) struct Quiesce {
    ticket: u64,
    /// Those that are not quiet yet.
    left: BTreeSet<Ino>,
    /// Changed files wait for a sync of everything.
    together: bool,
    ok: bool,
}

impl Osd {
    pub(crate) fn quiesce(&mut self, ticket: u64, inos: Vec<Ino>) {
        let left: BTreeSet<Ino> = inos.into_iter().filter(|ino| self.is_known(*ino)).collect();
        let together = left.iter().filter(|ino| self.dirty.contains_key(ino)).count() > SYNC_EACH;
        self.quiesces.push(Quiesce { ticket, left: left.clone(), together, ok: true });
        if together {
            self.start_sync_all();
        } else {
            left.into_iter().for_each(|ino| self.sync_quiet(ino));
        }
        self.tell_quiet();
    }

    /// To be called when an operation on the file has ended.
    pub(crate) fn quieten(&mut self, ino: Ino) {
        if self.quiesces.is_empty() {
            return;
        }
        self.sync_quiet(ino);
        self.tell_quiet();
    }

    /// The file could not be synced.
    pub(crate) fn not_quiet(&mut self, ino: Ino) {
        for quiesce in &mut self.quiesces {
            quiesce.ok &= !quiesce.left.remove(&ino);
        }
    }

    /// To be called when a sync of everything has ended. What was changed since it began is synced file by file, if that
    /// is not much, and so is everything if it failed.
    pub(crate) fn quieten_all(&mut self, ok: bool) {
        if self.quiesces.is_empty() {
            return;
        }
        let mut again = false;
        for quiesce in &mut self.quiesces {
            let changed = quiesce.left.iter().filter(|ino| self.dirty.contains_key(ino)).count();
            quiesce.together &= ok && changed > SYNC_EACH;
            again |= quiesce.together;
        }
        if again {
            self.start_sync_all();
        }
        let left: BTreeSet<Ino> = self.quiesces.iter().flat_map(|quiesce| quiesce.left.iter().copied()).collect();
        left.into_iter().for_each(|ino| self.sync_quiet(ino));
        self.tell_quiet();
    }

    /// Takes the file from those that are waited for if nothing is to be done on it; syncs it if that is all.
    fn sync_quiet(&mut self, ino: Ino) {
        if self.is_busy(ino) || !self.quiesces.iter().any(|quiesce| quiesce.left.contains(&ino)) {
            return;
        }
        if !self.dirty.contains_key(&ino) {
            for quiesce in &mut self.quiesces {
                quiesce.left.remove(&ino);
            }
        } else if self.quiesces.iter().any(|quiesce| !quiesce.together && quiesce.left.contains(&ino)) {
            let effect = Effect::Sync { ino, ranges: Vec::new(), removed: false, copy: None };
            self.enqueue(ino, Waiter::Quiesce, effect);
        }
    }

    fn tell_quiet(&mut self) {
        for quiesce in self.quiesces.extract_if(.., |quiesce| quiesce.left.is_empty()) {
            self.out.push_back(Output::Quiesced { ticket: quiesce.ticket, ok: quiesce.ok });
        }
    }

    fn is_known(&self, ino: Ino) -> bool {
        self.is_busy(ino) || self.dirty.contains_key(&ino)
    }

    /// True if anything is under way on the file, or a discard of it waits to be made durable.
    fn is_busy(&self, ino: Ino) -> bool {
        let carried = self.discard_sync.iter().flat_map(|(_, batch)| batch).chain(&self.discarded);
        self.files.contains_key(&ino) || carried.into_iter().any(|(_, of, _)| *of == ino)
    }
}
