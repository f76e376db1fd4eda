//! Writes that the journal has: their bytes are durable there before they are written here, so no client's sync covers them. Here which
//! bytes of which files those are until the journal says that they are in place ([`Input::Forget`]). Until then nothing else may change
//! them: the repetition of the record after a crash would undo it. Whoever wants to waits until the file's objects are durable and the
//! journal says so.
//!
//! [`Input::Forget`]: crate::Input::Forget

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{DataAnswer, Ino, Lsn, Patches};

use crate::admit::Class;
use crate::dirty::Dirty;
use crate::execute::{Effect, EffectResult};
use crate::io::{EffectId, Output};
use crate::machine::Osd;
use crate::queue::{Queued, Waiter};

/// Such writes of one file.
#[derive(Debug, Default)]
struct File {
    /// First byte, first byte behind, and the last record that has any of them.
    ranges: BTreeMap<u64, (u64, Lsn)>,
    /// Objects that were written and not made durable since.
    objects: Dirty,
    /// Records whose writes are not done.
    pending: BTreeSet<Lsn>,
    /// The last record.
    last: Lsn,
    /// Its objects are being made durable, or the journal is to say so.
    settling: bool,
}

impl File {
    /// Adds a range; the ranges that it meets become one with it, and count as long as the last of them.
    fn add(&mut self, start: u64, end: u64, lsn: Lsn) {
        let (mut start, mut end, mut lsn) = (start, end, lsn);
        while let Some((first, (behind, last))) = self.ranges.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if behind < start {
                break;
            }
            self.ranges.remove(&first);
            (start, end, lsn) = (start.min(first), end.max(behind), lsn.max(last));
        }
        self.ranges.insert(start, (end, lsn));
    }

    /// The last record that has any byte of a range.
    fn last_in(&self, (start, end): (u64, u64)) -> Option<Lsn> {
        let meeting = self.ranges.range(..end).rev().take_while(|(_, (behind, _))| *behind > start);
        meeting.map(|(_, (_, lsn))| *lsn).max()
    }

    /// The last record of which, and of all before it, everything is written.
    fn written(&self) -> Lsn {
        self.pending.first().map_or(self.last, |first| Lsn(first.0 - 1))
    }

    fn is_done(&self) -> bool {
        self.ranges.is_empty() && self.pending.is_empty() && self.objects.is_empty() && !self.settling
    }
}

/// A sync of what was written.
#[derive(Debug)]
struct Settling {
    /// Of this file; 0: of all.
    ino: Ino,
    /// All records up to this one are written.
    upto: Lsn,
    /// The stamps of the objects that it covers.
    stamps: Vec<(Ino, u64)>,
}

/// Such writes of all files.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    files: BTreeMap<Ino, File>,
    /// Syncs under way.
    syncs: BTreeMap<EffectId, Settling>,
    /// The last record.
    last: Lsn,
    stamp: u64,
    /// Effects that are out, in case they have no room.
    effects: BTreeMap<EffectId, Effect>,
}

impl Logged {
    /// The record up to which an operation must wait for what is logged to be in place, if it must.
    pub(crate) fn holds(&self, ino: Ino, op: &Queued) -> Option<Lsn> {
        // The journal has a record of each drop that the metadata server asks for.
        let exempt = matches!(op.waiter, Waiter::Logged(_) | Waiter::Discard(..));
        let file = self.files.get(&ino).filter(|_| op.class == Class::Write && !exempt)?;
        file.last_in(op.range)
    }

    /// True if all of a file up to a record is written.
    pub(crate) fn is_written(&self, ino: Ino, upto: Lsn) -> bool {
        self.files.get(&ino).is_some_and(|file| file.written() >= upto)
    }

    /// A write is queued.
    fn queued(&mut self, ino: Ino, lsn: Lsn) {
        self.last = self.last.max(lsn);
        let file = self.files.entry(ino).or_default();
        file.pending.insert(lsn);
        file.last = file.last.max(lsn);
    }

    /// It starts.
    pub(crate) fn started(&mut self, ino: Ino, lsn: Lsn, (id, effect): (EffectId, &Effect)) {
        let Effect::Patch { patches, .. } = effect else { return };
        self.effects.insert(id, effect.clone());
        let file = self.files.entry(ino).or_default();
        for (offset, len) in patches.places() {
            file.add(*offset, offset + u64::from(*len), lsn);
        }
    }

    /// It is done: these objects may have changed.
    pub(crate) fn written(&mut self, ino: Ino, lsn: Lsn, objects: Option<(u64, u64)>) {
        self.stamp += 1;
        let file = self.files.entry(ino).or_default();
        file.pending.remove(&lsn);
        if let Some((first, last)) = objects {
            file.objects.add(first, last);
            file.objects.stamp = self.stamp;
        }
    }

    /// The file's bytes from an offset on are dropped.
    pub(crate) fn cut(&mut self, ino: Ino, from: u64) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        drop(file.ranges.split_off(&from));
        if let Some(mut last) = file.ranges.last_entry() {
            last.get_mut().0 = last.get().0.min(from);
        }
        if from == 0 {
            file.objects = Dirty::default();
        }
        if file.is_done() {
            self.files.remove(&ino);
        }
    }

    /// Records up to this one are done with, of a file (0: of all); the files of which some were.
    fn forget(&mut self, ino: Ino, upto: Lsn) -> Vec<Ino> {
        let of = if ino == Ino(0) { Ino(0)..=Ino(u64::MAX) } else { ino..=ino };
        let mut touched = Vec::new();
        for (of, file) in self.files.range_mut(of) {
            let before = file.ranges.len();
            file.ranges.retain(|_, (_, lsn)| *lsn > upto);
            if ino != Ino(0) {
                file.settling = false;
            }
            if file.ranges.len() < before || ino != Ino(0) {
                touched.push(*of);
            }
        }
        touched.iter().for_each(|ino| {
            drop(self.files.remove(ino).filter(|file| !file.is_done()).map(|f| self.files.insert(*ino, f)))
        });
        touched
    }
}

impl Osd {
    /// The journal has these bytes durably.
    pub(crate) fn write_logged(&mut self, lsn: Lsn, ino: Ino, object_size: u64, patches: std::sync::Arc<Patches>) {
        self.logged.queued(ino, lsn);
        self.enqueue(ino, Waiter::Logged(lsn), Effect::Patch { ino, object_size, patches });
    }

    /// Makes durable what was logged, of a file (0: of all).
    pub(crate) fn settle_logged(&mut self, ino: Ino) {
        let (upto, files) = match self.logged.files.get_mut(&ino) {
            _ if ino == Ino(0) => {
                let first = self.logged.files.values().filter_map(|file| file.pending.first()).min();
                let upto = first.map_or(self.logged.last, |first| Lsn(first.0 - 1));
                (upto, self.logged.files.iter().map(|(ino, file)| (*ino, file.objects.clone())).collect::<Vec<_>>())
            }
            Some(file) if !file.settling => {
                file.settling = true;
                (file.written(), vec![(ino, file.objects.clone())])
            }
            _ => return,
        };
        let files: Vec<_> = files.into_iter().filter(|(_, objects)| !objects.is_empty()).collect();
        if files.is_empty() {
            return self.out.push_back(Output::InPlace { ino, upto, no_room: !self.paused.is_empty() });
        }
        let id = self.new_id();
        let stamps = files.iter().map(|(ino, objects)| (*ino, objects.stamp)).collect();
        self.logged.syncs.insert(id, Settling { ino, upto, stamps });
        let files = files.into_iter().map(|(ino, objects)| (ino, objects.into_ranges())).collect();
        self.out.push_back(Output::Run { id, effect: Effect::SyncFiles { files } });
    }

    /// Takes the result of a sync of what was logged; false if it is another effect's.
    pub(crate) fn logged_synced(&mut self, id: EffectId, result: &EffectResult) -> bool {
        let Some(Settling { ino, upto, stamps }) = self.logged.syncs.remove(&id) else { return false };
        if result.is_err() {
            self.out.push_back(Output::LoggedFailed);
            return true;
        }
        for (of, stamp) in stamps {
            if let Some(file) = self.logged.files.get_mut(&of).filter(|file| file.objects.stamp == stamp) {
                file.objects = Dirty::default();
            }
        }
        self.out.push_back(Output::InPlace { ino, upto, no_room: !self.paused.is_empty() });
        true
    }

    /// The journal says durably that records up to this one are in place.
    pub(crate) fn forget_logged(&mut self, ino: Ino, upto: Lsn) {
        for ino in self.logged.forget(ino, upto) {
            self.start(ino);
        }
    }

    /// A write of the journal's data was tried. Whether it is over: one that had no room is tried again.
    pub(crate) fn patched(&mut self, ino: Ino, lsn: Lsn, op: &Queued, result: &EffectResult) {
        match result {
            // Some of a block whose rest is damaged: it stays damaged, and whoever reads it hears so.
            Ok(DataAnswer::Done) | Err(loligo_store::StoreError::Corrupt { .. }) => {
                self.logged.written(ino, lsn, op.touches.objects);
            }
            _ => self.out.push_back(Output::LoggedFailed),
        }
    }

    /// A write of the journal's data has ended; if it had no room it waits to be tried again.
    pub(crate) fn pauses(&mut self, id: EffectId, ino: Ino, result: &EffectResult) -> bool {
        let Some(effect) = self.logged.effects.remove(&id) else { return false };
        let pauses = result.as_ref().is_err_and(|error| error.may_pass());
        if let (true, Some(queue)) = (pauses, self.files.get_mut(&ino)) {
            queue.pause(id, effect);
            self.paused.insert(ino);
        }
        pauses
    }

    /// Tries again what had no room.
    pub(crate) fn retry_logged(&mut self) {
        for ino in std::mem::take(&mut self.paused) {
            if let Some(queue) = self.files.get_mut(&ino) {
                queue.unpause();
            }
            self.start(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_become_one_that_counts_as_long_as_its_last_record() {
        let mut file = File::default();
        file.add(10, 20, Lsn(1));
        file.add(30, 40, Lsn(2));
        file.add(20, 25, Lsn(3));
        assert_eq!(file.ranges, BTreeMap::from([(10, (25, Lsn(3))), (30, (40, Lsn(2)))]));
        file.add(0, 100, Lsn(4));
        assert_eq!(file.ranges, BTreeMap::from([(0, (100, Lsn(4)))]));
        assert_eq!(
            [(99, 200), (100, 200), (0, u64::MAX)].map(|range| file.last_in(range)),
            [Some(Lsn(4)), None, Some(Lsn(4))]
        );
    }

    #[test]
    fn a_cut_leaves_what_lies_before_it() {
        let mut logged = Logged::default();
        let patches = Patches::new(vec![(0, 10), (20, 10)], [0; 20].into()).expect("within the limits");
        logged.queued(Ino(9), Lsn(5));
        let effect = Effect::Patch { ino: Ino(9), object_size: 4096, patches: patches.into() };
        logged.started(Ino(9), Lsn(5), (1, &effect));
        logged.written(Ino(9), Lsn(5), Some((0, 0)));
        logged.cut(Ino(9), 25);
        assert_eq!(logged.files[&Ino(9)].ranges, BTreeMap::from([(0, (10, Lsn(5))), (20, (25, Lsn(5)))]));
        logged.cut(Ino(9), 20);
        assert_eq!(logged.files[&Ino(9)].ranges, BTreeMap::from([(0, (10, Lsn(5)))]));
        logged.cut(Ino(9), 0);
        assert!(logged.files.is_empty());
    }
}
